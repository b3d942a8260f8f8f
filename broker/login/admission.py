"""Admission of connections that have not logged in yet: bounded in number, and shared between source addresses.

    per_source   connections that one source may have waiting
    places       connections that all sources together may have waiting

A newcomer above its source's share takes the place of that source's oldest one. When all places are taken, the oldest one of
the source that holds most gives way. So a source that opens thousands of silent connections displaces only itself, and a
client from any other address is admitted. A connection that is younger than GRACE_S gives way only to a source that holds
less: otherwise a fast flood would displace everybody of its source before a login can end. And of such exchanges within a
source, or between equals, there are few a second: each costs more than ten refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

GRACE_S = 0.25  # several round trips in one data centre, and a password check of 25 ms

EXCHANGES_PER_S = 50.0
EXCHANGES_BURST = 50.0

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True, frozen=True)
class Decision(Generic[K]):
    """What is to be done with a newcomer."""

    admitted: bool
    evicted: K | None = None  # gives way: close it


class Admission(Generic[K]):
    """Who waits, by source. 0 is no limit. A key is entered once; its source may be named later (`rename`)."""

    def __init__(self, places: int, per_source: int, monotonic: Callable[[], float]) -> None:
        self.places = places
        self.per_source = per_source
        self._monotonic = monotonic
        self._source_of: dict[K, str] = {}
        self._waiting: dict[str, dict[K, float]] = {}  # by source, oldest first, with the time of entry
        self._sources_by_count: dict[int, dict[str, None]] = {}
        self._exchanges = EXCHANGES_BURST  # that may happen now
        self._exchanges_at = monotonic()
        self._highest = 0  # the largest count of any source; 0 when nobody waits

    def __len__(self) -> int:
        return len(self._source_of)

    def __contains__(self, one: K) -> bool:
        return one in self._source_of

    def count(self, source: str) -> int:
        return len(self._waiting.get(source, ()))

    def enter(self, one: K, source: str, *, full: bool = False) -> Decision[K]:
        """`full`: there is no place beyond those that are taken, whatever the limit says. An empty source, one that is not
        known yet, has no share of its own."""
        assert one not in self._source_of, f"{one!r} waits already"
        mine = self.count(source)
        if source and self.per_source and mine >= self.per_source:
            return self._displace(one, source, source, settled_only=True)
        if full or (self.places and len(self._source_of) >= self.places):
            if not self._highest:
                return Decision(False)
            greediest = next(iter(self._sources_by_count[self._highest]))
            return self._displace(one, source, greediest, settled_only=self._highest <= mine + 1)
        self._add(one, source)
        return Decision(True)

    def rename(self, one: K, source: str) -> Decision[K]:
        """The source of one that waits is known now. When it is not admitted under it, it waits no more."""
        self.leave(one)
        return self.enter(one, source)

    def leave(self, one: K) -> None:
        """It has logged in, or is gone. No harm when it waits no more."""
        source = self._source_of.pop(one, None)
        if source is None:
            return
        waiting = self._waiting[source]
        del waiting[one]
        self._recount(source, len(waiting) + 1, len(waiting))
        if not waiting:
            del self._waiting[source]

    def evict(self) -> K | None:
        """The oldest one of the source that holds most; it waits no more. None: nobody waits."""
        if not self._highest:
            return None
        victim = self._oldest(next(iter(self._sources_by_count[self._highest])))
        self.leave(victim)
        return victim

    def _displace(self, one: K, source: str, loser: str, *, settled_only: bool) -> Decision[K]:
        victim = self._oldest(loser)
        if settled_only and not self._may_exchange(self._waiting[loser][victim]):
            return Decision(False)
        self.leave(victim)
        self._add(one, source)
        return Decision(True, victim)

    def _may_exchange(self, entered: float) -> bool:
        now = self._monotonic()
        self._exchanges = min(EXCHANGES_BURST, self._exchanges + (now - self._exchanges_at) * EXCHANGES_PER_S)
        self._exchanges_at = now
        if now - entered < GRACE_S or self._exchanges < 1.0:
            return False
        self._exchanges -= 1.0
        return True

    def _oldest(self, source: str) -> K:
        return next(iter(self._waiting[source]))

    def _add(self, one: K, source: str) -> None:
        self._source_of[one] = source
        waiting = self._waiting.setdefault(source, {})
        waiting[one] = self._monotonic()
        self._recount(source, len(waiting) - 1, len(waiting))

    def _recount(self, source: str, before: int, after: int) -> None:
        if before:
            self._sources_by_count[before].pop(source)
            if not self._sources_by_count[before]:
                del self._sources_by_count[before]
        if after:
            self._sources_by_count.setdefault(after, {})[source] = None
        # A count changes by one, so the largest one does too.
        if after > self._highest or (before == self._highest and before not in self._sources_by_count):
            self._highest = after

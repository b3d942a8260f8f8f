"""How often something happens that nobody asks for, by a wall clock that may be set forward and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class Interval:
    """A span of time that begins now and then. Where the clock is set back to before it began, it is over: what waits for it
    happens early then, and never as late as the clock was wrong."""

    __slots__ = ("_began_at", "ms")

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self._began_at: int | None = None

    def begin(self, now: int) -> None:
        self._began_at = now

    def end(self) -> None:
        self._began_at = None

    @property
    def begun(self) -> bool:
        return self._began_at is not None

    def lasts(self, now: int) -> bool:
        return self._began_at is not None and self._began_at <= now < self._began_at + self.ms

    def due(self, now: int) -> bool:
        """Whether the last one is over, or there was none. Then the next begins."""
        if self.lasts(now):
            return False
        self.begin(now)
        return True


class Rounds(Generic[T]):
    """Each of many things about once in `ms`, and never all in one turn of the event loop: asked ten times in that time,
    it names a tenth each time; asked seldom, each once. Where the clock is set back a round is late by the time between
    two questions."""

    def __init__(self, ms: int) -> None:
        self._ms = ms
        self._asked_at: int | None = None  # None: never, so all are due
        self._owed = 0  # things, times milliseconds
        self._round: list[T] = []  # those of this round that were not named yet, the last of them is the next

    def due(self, now: int, present: Collection[T]) -> list[T]:
        count = self._count_due(now, len(present))
        named = self._named(count, present)
        if len(named) < count:
            again = set(named)
            self._round = [one for one in reversed(list(present)) if one not in again]
            named += self._named(count - len(named), present)
        return named

    def _count_due(self, now: int, present: int) -> int:
        passed = self._ms if self._asked_at is None else min(max(now - self._asked_at, 0), self._ms)
        self._asked_at = now
        count, self._owed = divmod(self._owed + passed * present, self._ms)
        return min(count, present)

    def _named(self, count: int, present: Collection[T]) -> list[T]:
        """So many of this round, without those that have gone meanwhile."""
        named: list[T] = []
        while self._round and len(named) < count:
            one = self._round.pop()
            if one in present:
                named.append(one)
        return named

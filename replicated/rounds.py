"""Each of many things once in a while, and in no turn of the event loop all of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """Asked ten times in a period of `ms`, it names a tenth of what is there each time, and so on; asked seldom, each once. The
    wall clock may be set forward and back: a round is early then, or late by the time between two questions."""

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

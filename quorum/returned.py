"""Messages that were handed out and came back, in the order in which they are to be handed out again.

By default they come before all others, first returned first. With the rule `requeue_in_place` each stands at its old place:
by priority and then by its position in the log; what was never handed out is always behind it there, because that left its
priority from the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from quorum.commands import PRIORITY_MAX
from quorum.stored import NEVER, Stored

_Rank = tuple[int, ...]


class Returned:
    """A heap, so that any place is found in O(log n). Ranks differ, so that the messages are never compared."""

    __slots__ = ("_arrivals", "_heap", "in_place")

    def __init__(self) -> None:
        self.in_place = False
        self._heap: list[tuple[_Rank, Stored]] = []
        self._arrivals = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __iter__(self) -> Iterator[Stored]:
        """In order."""
        return (stored for _, stored in sorted(self._heap))

    def unordered(self) -> Iterator[Stored]:
        return (stored for _, stored in self._heap)

    @property
    def priority(self) -> int:
        """Of the first one."""
        return self._heap[0][1].priority

    def put(self, stored: Stored) -> None:
        heappush(self._heap, (self._rank(stored), stored))

    def take(self, limit: int) -> Stored:
        """The first one, but not more than `limit` messages of it. There must be one."""
        rank, stored = self._heap[0]
        if stored.length <= limit:
            heappop(self._heap)
            return stored
        # What is left stays the first: nobody else's rank lies between the two parts. But the part that goes may come back, and
        # then stands before it.
        left = stored.part(limit, stored.length - limit)
        self._heap[0] = (self._rank(left) if self.in_place else rank, left)
        return stored.part(0, limit)

    def expire(self, now: int, rows_max: int) -> list[Stored]:
        """Take out the first ones that have expired."""
        expired = sorted(ranked for ranked in self._heap if ranked[1].expires_at <= now)
        if expired:
            self._heap = [ranked for ranked in self._heap if ranked[1].expires_at > now] + expired[rows_max:]
            heapify(self._heap)
        return [stored for _, stored in expired[:rows_max]]

    def soonest(self) -> int:
        return min((stored.expires_at for _, stored in self._heap), default=NEVER)

    def order(self, in_place: bool) -> None:
        """Keep this order from now on. What is here stays as it is, or finds its old place."""
        if in_place != self.in_place:
            self.in_place = in_place
            waiting = list(self)
            self.clear()
            for stored in waiting:
                self.put(stored)

    def clear(self) -> None:
        self._heap.clear()
        self._arrivals = 0

    def _rank(self, stored: Stored) -> _Rank:
        if self.in_place:
            return PRIORITY_MAX - stored.priority, stored.entry, stored.offset, stored.first
        self._arrivals += 1
        return (self._arrivals,)

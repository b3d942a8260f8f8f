"""Messages that came back and are to be delivered again later (x-delayed-retry-type)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from quorum.fifo.stored import NEVER, StoredMessages


class Delayed:
    """By the time at which something is to be done with them: delivered again, or expired if that comes first."""

    __slots__ = ("_heap", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        # Where a message stands in the log makes each row different, and the order the same on all members.
        self._heap: list[tuple[int, int, int, int, StoredMessages]] = []

    def __iter__(self) -> Iterator[tuple[int, StoredMessages]]:
        return ((row[0], row[4]) for row in sorted(self._heap))

    @property
    def due(self) -> int:
        return self._heap[0][0] if self._heap else NEVER

    def add(self, ready_at: int, stored: StoredMessages) -> None:
        due = min(ready_at, stored.expires_at)
        heappush(self._heap, (due, stored.entry, stored.offset, stored.first, stored))
        self.count += stored.length
        self.size += stored.size

    def take(self, now: int, rows_max: int) -> list[StoredMessages]:
        """Take out what is due, up to so many rows."""
        taken: list[StoredMessages] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < rows_max:
            stored = heappop(self._heap)[4]
            taken.append(stored)
            self.count -= stored.length
            self.size -= stored.size
        return taken

    def clear(self) -> int:
        """Forget all; how many there were."""
        count = self.count
        self._heap.clear()
        self.count = self.size = 0
        return count

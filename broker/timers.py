"""Calls that are due at a wall-clock time. The driver ticks; nothing here knows what time it is."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Call = Callable[[int], None]

# Queues move their timers with every message that has a TTL; below this many it is not worth to sweep.
CANCELLED_MIN = 64


class Timers:
    """A heap of calls, in order of time and, for equal times, of asking. Cancelled calls leave it when they are half of it."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, list[Call]]] = []
        self._numbers = count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def call_at(self, when: int, call: Call) -> Callable[[], None]:
        """Returns what cancels the call; cancelling twice, or too late, does nothing."""
        slot = [call]
        heapq.heappush(self._heap, (when, next(self._numbers), slot))

        def cancel() -> None:
            if slot:
                slot.clear()
                self._cancelled += 1
                self._sweep()

        return cancel

    def tick(self, now: int) -> None:
        """Call what is due, also what becomes due by these calls."""
        while self._heap and self._heap[0][0] <= now:
            _, _, slot = heapq.heappop(self._heap)
            if slot:
                slot.pop()(now)
            else:
                self._cancelled -= 1

    def _sweep(self) -> None:
        if self._cancelled > CANCELLED_MIN and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2]]
            heapq.heapify(self._heap)
            self._cancelled = 0

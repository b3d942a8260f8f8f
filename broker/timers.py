"""Calls that are due at a wall-clock time. The driver ticks; nothing here knows what time it is."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Call = Callable[[int], None]


class Timers:
    """A heap of calls. A cancelled call stays in it until its time has come."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, list[Call]]] = []
        self._numbers = count()

    def call_at(self, when: int, call: Call) -> Callable[[], None]:
        """Returns what cancels the call."""
        slot = [call]
        heapq.heappush(self._heap, (when, next(self._numbers), slot))
        return slot.clear

    def tick(self, now: int) -> None:
        while self._heap and self._heap[0][0] <= now:
            _, _, slot = heapq.heappop(self._heap)
            for call in slot:
                call(now)

    @property
    def next_at(self) -> int | None:
        return self._heap[0][0] if self._heap else None

"""Calls that are due later. The driver ticks, when it is asked to; nothing here knows what time it is.

Timers  at a time of the wall clock, which may be set: for what expires
Delays  some time from now, however the wall clock is set meanwhile: for what waits
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Call = Callable[[int], None]

# Queues move their timers with every message that has a TTL; below this many it is not worth to sweep.
CANCELLED_MIN = 64


class Timers:
    """A heap of calls, in order of time and, for equal times, of asking. Cancelled calls leave it when they are half of it.

    `tick_at` is told the time at which `tick` should come next, whenever that is earlier than what it was told before.
    """

    def __init__(self, tick_at: Call) -> None:
        self._tick_at = tick_at
        self._asked: int | None = None  # when the next tick comes
        self._heap: list[tuple[int, int, list[Call]]] = []
        self._numbers = count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def call_at(self, when: int, call: Call) -> Callable[[], None]:
        """Returns what cancels the call; cancelling twice, or too late, does nothing."""
        slot = [call]
        heapq.heappush(self._heap, (when, next(self._numbers), slot))
        self._ask(when)

        def cancel() -> None:
            if slot:
                slot.clear()
                self._cancelled += 1
                self._sweep()

        return cancel

    def tick(self, now: int) -> None:
        """Call what is due, also what becomes due by these calls."""
        self._asked = None
        while self._heap and self._heap[0][0] <= now:
            _, _, slot = heapq.heappop(self._heap)
            if slot:
                slot.pop()(now)
            else:
                self._cancelled -= 1
        if self._heap:
            self._ask(self._heap[0][0])

    def _ask(self, when: int) -> None:
        if self._asked is None or when < self._asked:
            self._asked = when
            self._tick_at(when)

    def _sweep(self) -> None:
        if self._cancelled > CANCELLED_MIN and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2]]
            heapq.heapify(self._heap)
            self._cancelled = 0


class Delays:
    """See the module. `monotonic_ms` only goes forward; `tick_in` is told in how many milliseconds `tick` should come next,
    whenever that is earlier than what it was told before."""

    def __init__(self, monotonic_ms: Callable[[], int], tick_in: Call) -> None:
        self.now_ms = monotonic_ms
        self._timers = Timers(lambda when: tick_in(max(0, when - monotonic_ms())))
        self._wall_now = 0

    def __len__(self) -> int:
        return len(self._timers)

    def call_after(self, delay_ms: int, call: Call) -> Callable[[], None]:
        """`call` is told the time by the wall clock then. Returns what cancels it, as `Timers.call_at`."""
        return self._timers.call_at(self.now_ms() + delay_ms, lambda _: call(self._wall_now))

    def tick(self, wall_now: int) -> None:
        """Call what is due."""
        self._wall_now = wall_now
        self._timers.tick(self.now_ms())

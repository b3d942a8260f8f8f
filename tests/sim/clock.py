"""Time that moves only when the test says so, and the loop that belongs to it.

`SimClock` fulfils the port Clock. `SimLoop` has the calls of an event loop that drivers use, and runs them in one fixed
order: by time, then in the order in which they were asked for. Nothing here sleeps or looks at a real clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any


class SimClock:
    """Both kinds of time. They move together unless `jump_wall_ms` makes the wall clock lie, as real ones do."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = 0.0
        self._wall_start_ms = wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_start_ms + round(self._monotonic * 1000)

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, f"time cannot go back by {-seconds} s"
        self._monotonic += seconds

    def jump_wall_ms(self, by: int) -> None:
        """The wall clock is set to another time, either way."""
        self._wall_start_ms += by


class Timer:
    """A call that is still to come."""

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None

    def run(self) -> None:
        if self.callback is not None:
            self.callback(*self.args)


class SimLoop:
    """call_soon, call_later and their like, run by `run_soon` and `run_for`."""

    def __init__(self, clock: SimClock | None = None) -> None:
        self.clock = clock or SimClock()
        self._soon: deque[Timer] = deque()
        self._later: list[tuple[float, int, Timer]] = []
        self._asked = 0

    def time(self) -> float:
        return self.clock.monotonic()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        self._soon.append(timer)
        return timer

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        self._asked += 1
        heapq.heappush(self._later, (when, self._asked, timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_at(self.time() + delay, callback, *args)

    def run_soon(self) -> None:
        """Run what is due now, and what that asks for, until nothing is left."""
        while self._soon:
            self._soon.popleft().run()

    def run_for(self, seconds: float) -> None:
        """Let time pass, stopping at each timer on the way."""
        until = self.time() + seconds
        self.run_soon()
        while self._later and self._later[0][0] <= until:
            when, _, timer = heapq.heappop(self._later)
            self.clock.advance(max(0.0, when - self.time()))
            timer.run()
            self.run_soon()
        self.clock.advance(until - self.time())

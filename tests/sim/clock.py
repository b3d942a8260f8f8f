"""Time that moves only when the test says so, and the loop that belongs to it.

`SimClock` fulfils the port NodeTime. `SimLoop` has the calls of an event loop that drivers use, and runs them in one fixed
order: by time, then in the order in which they were asked for. Nothing here sleeps or looks at a real clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class SimClock:
    """Both kinds of time. They move together unless `jump_wall_ms` makes the wall clock lie, as real ones do."""

    __slots__ = ("_wall_start_ms", "now")

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.now = 0.0  # as `monotonic` says; a field, because it is asked for several times in each event
        self._wall_start_ms = wall_ms

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return self._wall_start_ms + round(self.now * 1000)

    def wall_us(self) -> int:
        return self._wall_start_ms * 1000 + round(self.now * 1_000_000)

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, f"time cannot go back by {-seconds} s"
        self.now += seconds

    def jump_wall_ms(self, by: int) -> None:
        """The wall clock is set to another time, either way."""
        self._wall_start_ms += by


class Timer:
    """A call that is still to come."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None


class SimLoop:
    """call_soon, call_later and their like, run by `run_soon` and `run_for`."""

    def __init__(self, clock: SimClock | None = None) -> None:
        self.clock = clock or SimClock()
        self._soon: deque[Timer] = deque()
        self._later: list[tuple[float, int, Timer]] = []
        self._asked = 0

    def time(self) -> float:
        return self.clock.now

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        self._soon.append(timer)
        return timer

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(callback, args)
        self._asked = asked = self._asked + 1
        heappush(self._later, (when, asked, timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_at(self.clock.now + delay, callback, *args)

    def run_soon(self) -> None:
        """Run what is due now, and what that asks for, until nothing is left."""
        soon = self._soon
        while soon:
            timer = soon.popleft()
            if timer.callback is not None:
                timer.callback(*timer.args)

    def run_for(self, seconds: float) -> None:
        """Let time pass, stopping at each timer on the way."""
        clock, later, soon = self.clock, self._later, self._soon
        until = clock.now + seconds
        self.run_soon()
        while later and later[0][0] <= until:
            when, _, timer = heappop(later)
            if when > clock.now:
                clock.now += when - clock.now
            if timer.callback is not None:
                timer.callback(*timer.args)
            if soon:
                self.run_soon()
        clock.advance(until - clock.now)

"""A clock that a test holds in its hand."""

from __future__ import annotations

from collections.abc import Callable


class HandClock:
    """Time goes on when the test says so; timers are called in their order."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[HandTimer] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer(self.now + delay_s, callback)
        self._timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [one for one in self._timers if not one.cancelled and one.at <= end]:
            first = min(due, key=lambda one: one.at)
            self._timers.remove(first)
            self.now = max(self.now, first.at)
            first.callback()
        self.now = end


class HandTimer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at, self.callback, self.cancelled = at, callback, False

    def cancel(self) -> None:
        self.cancelled = True

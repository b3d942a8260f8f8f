"""When the timers of a broker are called: those of the wall clock and delays, neither in the way of the other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from node.clock import TickTimers


class Loop:
    """What was asked for and not cancelled, in seconds."""

    def __init__(self) -> None:
        self.due: dict[object, float] = {}

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        key = object()
        self.due[key] = delay
        return SimpleNamespace(cancel=lambda: self.due.pop(key, None))


def timers(loop: Loop) -> TickTimers:
    clock: Any = SimpleNamespace(wall_ms=lambda: 1_000_000, monotonic=lambda: 50.0)
    return TickTimers(loop, clock, lambda: None)


def test_a_time_of_the_wall_clock_and_a_delay_are_both_waited_for() -> None:
    loop = Loop()
    ticks = timers(loop)
    ticks.tick_at(1_003_000)
    ticks.tick_in(2_000)
    assert sorted(loop.due.values()) == [2.0, 3.0]
    ticks.tick_in(500)
    ticks.tick_at(1_001_000)
    assert sorted(loop.due.values()) == [0.5, 1.0], "each instead of the one before"
    ticks.tick_at(999_000)
    assert sorted(loop.due.values()) == [0.0, 0.5], "what is over is due now"


def test_nothing_is_waited_for_any_more_when_the_node_stops() -> None:
    loop = Loop()
    ticks = timers(loop)
    ticks.cancel()
    ticks.tick_at(1_003_000)
    ticks.tick_in(2_000)
    ticks.cancel()
    assert loop.due == {}

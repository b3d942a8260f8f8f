"""Calls that are due: in order of time, cancelled ones never, and no heap full of cancelled ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.timers import CANCELLED_MIN, Delays, Timers


def nobody(when: int) -> None:
    """Ticks come by themselves in these tests."""


def test_the_driver_is_asked_for_the_tick_that_comes_next() -> None:
    asked: list[int] = []
    timers = Timers(asked.append)
    for when in (50, 70, 20, 30):
        timers.call_at(when, nobody)
    assert asked == [50, 20]
    timers.tick(19)  # somebody else's tick, a little early
    timers.tick(30)
    timers.tick(60)
    assert asked == [50, 20, 20, 50, 70]
    timers.tick(70)
    assert asked == [50, 20, 20, 50, 70]


def test_calls_come_in_order_of_time_and_of_asking_with_the_time_that_it_is() -> None:
    timers, called = Timers(nobody), list[tuple[str, int]]()
    for when, name in ((20, "b"), (10, "a"), (20, "c"), (30, "d")):
        timers.call_at(when, lambda now, name=name: called.append((name, now)))  # type: ignore[misc]
    timers.tick(9)
    assert called == []
    timers.tick(25)
    assert called == [("a", 25), ("b", 25), ("c", 25)]
    assert len(timers) == 1


def test_a_cancelled_call_never_comes() -> None:
    timers, called = Timers(nobody), list[int]()
    cancel = timers.call_at(10, called.append)
    cancel()
    timers.tick(100)
    assert (called, len(timers)) == ([], 0)


def test_cancelling_twice_or_too_late_does_nothing() -> None:
    timers, called = Timers(nobody), list[int]()
    cancel = timers.call_at(10, called.append)
    other = timers.call_at(10, called.append)
    timers.tick(10)
    cancel()
    cancel()
    other()
    assert (called, len(timers)) == ([10, 10], 0)


def test_a_call_may_ask_for_another_that_is_due_too() -> None:
    timers, called = Timers(nobody), list[str]()

    def again(now: int) -> None:
        called.append("first")
        timers.call_at(now, lambda _: called.append("second"))

    timers.call_at(10, again)
    timers.tick(10)
    assert called == ["first", "second"]


def test_a_call_may_cancel_one_that_is_due_with_it() -> None:
    timers, called = Timers(nobody), list[str]()
    cancels: list[Callable[[], None]] = []
    timers.call_at(10, lambda _: cancels[0]())
    cancels.append(timers.call_at(10, lambda _: called.append("cancelled")))
    timers.tick(10)
    assert (called, len(timers)) == ([], 0)


def test_a_timer_that_is_moved_for_every_message_does_not_fill_the_heap() -> None:
    timers = Timers(nobody)
    keep = timers.call_at(5, lambda _: None)
    for when in range(10_000):
        timers.call_at(when, lambda _: None)()
    assert len(timers) == 1
    assert len(timers._heap) <= 2 * CANCELLED_MIN + 2
    keep()
    assert len(timers) == 0


class Clocks:
    """Of a machine whose wall clock is set."""

    def __init__(self) -> None:
        self.steady_ms, self.wall_ms = 50, 1_000_000
        self.asked: list[int] = []
        self.delays = Delays(lambda: self.steady_ms, self.asked.append)

    def passes(self, milliseconds: int, jump_ms: int = 0) -> None:
        self.steady_ms += milliseconds
        self.wall_ms += milliseconds + jump_ms
        self.delays.tick(self.wall_ms)


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_delay_is_as_long_as_it_was_when_the_wall_clock_is_set(jump_ms: int) -> None:
    clocks, called = Clocks(), list[int]()
    clocks.delays.call_after(15_000, called.append)
    clocks.passes(14_000, jump_ms)
    clocks.passes(999, -jump_ms)
    assert called == []
    clocks.passes(1, jump_ms)
    assert called == [clocks.wall_ms], "it is told the time by the wall clock"
    assert clocks.asked == [15_000, 1_000, 1]


def test_a_delay_that_is_cancelled_never_ends() -> None:
    clocks, called = Clocks(), list[int]()
    clocks.delays.call_after(10, called.append)()
    clocks.passes(10)
    assert (called, len(clocks.delays)) == ([], 0)

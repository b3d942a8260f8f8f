"""Calls at a time: in order, once, and gone when they are cancelled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.timers import CANCELLED_MIN, Timers


def note(called: list[tuple[str, int]], name: str, now: int) -> None:
    called.append((name, now))


def test_calls_come_in_order_of_time_and_of_asking() -> None:
    timers = Timers()
    called: list[tuple[str, int]] = []
    for name, when in (("c", 30), ("a", 10), ("b", 20), ("a2", 10)):
        timers.call_at(when, partial(note, called, name))
    timers.tick(9)
    assert called == []
    timers.tick(25)
    assert called == [("a", 25), ("a2", 25), ("b", 25)]
    timers.tick(30)
    assert called[3:] == [("c", 30)]
    timers.tick(99)
    assert len(called) == 4


def test_a_cancelled_call_does_not_come_and_cancelling_late_does_nothing() -> None:
    timers = Timers()
    called: list[int] = []
    keep = timers.call_at(10, called.append)
    timers.call_at(10, called.append)()
    timers.tick(10)
    assert called == [10]
    keep()
    keep()
    timers.tick(20)
    assert (called, len(timers)) == ([10], 0)


def test_a_call_may_ask_for_another_that_is_due_at_once() -> None:
    timers = Timers()
    called: list[int] = []

    def ask_again(now: int) -> None:
        timers.call_at(now, called.append)

    timers.call_at(10, ask_again)
    timers.tick(10)
    assert called == [10]


def test_a_call_may_cancel_one_that_is_due_with_it() -> None:
    timers = Timers()
    called: list[int] = []
    cancels: list[Callable[[], None]] = []
    timers.call_at(10, lambda now: cancels[0]())
    cancels.append(timers.call_at(10, called.append))
    timers.tick(10)
    assert called == []


def test_cancelled_calls_do_not_pile_up() -> None:
    timers = Timers()
    cancel = timers.call_at(1_000_000, lambda now: None)
    for _ in range(10 * CANCELLED_MIN):
        cancel()
        cancel = timers.call_at(1_000_000, lambda now: None)
        assert len(timers._heap) <= 2 * CANCELLED_MIN + 2
    assert len(timers) == 1

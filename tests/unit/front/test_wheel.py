"""The wheel of timers: never early, at most a slot late, replaced when armed again."""

from __future__ import annotations

import random
import weakref

from front.sockets.wheel import SLOT_S, TimerWheel


def test_due_after_its_time_and_once() -> None:
    wheel: TimerWheel[str] = TimerWheel(100.0)
    wheel.arm("a", 101.0)
    assert wheel.due(100.99) == []
    assert wheel.due(101.0 + 2 * SLOT_S) == ["a"]
    assert wheel.due(200.0) == []


def test_armed_again_only_the_new_time_counts() -> None:
    wheel: TimerWheel[str] = TimerWheel(0.0)
    wheel.arm("a", 1.0)
    wheel.arm("a", 5.0)
    assert wheel.due(4.0) == []
    assert wheel.due(6.0) == ["a"]
    wheel.arm("a", 7.0)
    wheel.disarm("a")
    assert wheel.due(10.0) == []


def test_a_time_that_is_over_comes_with_the_next_sweep() -> None:
    wheel: TimerWheel[str] = TimerWheel(50.0)
    wheel.arm("late", 1.0)
    assert wheel.due(50.0 + 2 * SLOT_S) == ["late"]


def test_many_keys_armed_at_random_are_due_in_their_slots() -> None:
    rng = random.Random(1)
    wheel: TimerWheel[int] = TimerWheel(0.0)
    times: dict[int, float] = {}
    for key in list(range(300)) * 3:
        times[key] = rng.uniform(0, 20)
        wheel.arm(key, times[key])
    now = 0.0
    while times:
        now += rng.uniform(0, 0.3)
        for key in wheel.due(now):
            assert times.pop(key) <= now
        assert all(now < when + 2 * SLOT_S for when in times.values())


class Connection:
    """Something that can be referred to weakly."""


def test_a_key_that_is_disarmed_is_not_kept_until_the_time_it_was_armed_for() -> None:
    """Clients choose their heartbeat: with 2^32 - 1 seconds, each connection that ever was stayed in memory."""
    wheel: TimerWheel[Connection] = TimerWheel(0.0)
    key = Connection()
    gone = weakref.ref(key)
    for when in (10.0, 2.0**31, 5.0, 2.0**31):
        wheel.arm(key, when)
    wheel.disarm(key)
    del key
    assert gone() is None
    assert wheel.due(20.0) == []

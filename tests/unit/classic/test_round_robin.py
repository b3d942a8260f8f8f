"""Whose turn it is: a part in each tick, everybody in the end."""

from __future__ import annotations

from classic.round_robin import PER_TICK_MIN, TICKS_TO_SEE_ALL, next_in_turn


def test_few_are_all_seen_in_every_tick() -> None:
    waiting = dict.fromkeys(range(PER_TICK_MIN))
    assert next_in_turn(waiting) == next_in_turn(waiting) == list(range(PER_TICK_MIN))


def test_of_many_each_is_seen_once_before_anybody_is_seen_twice() -> None:
    count = PER_TICK_MIN * TICKS_TO_SEE_ALL * 3
    waiting = dict.fromkeys(range(count))
    seen = [one for _ in range(TICKS_TO_SEE_ALL) for one in next_in_turn(waiting)]
    assert seen == list(range(count))


def test_who_left_is_not_seen_again_and_who_came_is_seen_last() -> None:
    waiting = dict.fromkeys(range(PER_TICK_MIN * 2))
    next_in_turn(waiting)
    del waiting[0]
    waiting[-1] = None
    assert next_in_turn(waiting) == list(range(PER_TICK_MIN, PER_TICK_MIN * 2))
    assert next_in_turn(waiting) == [*range(1, PER_TICK_MIN), -1]

"""storage/interval.py, Rounds: each thing comes about once in a period, and what is asked often is told little at a time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.interval import Rounds

PERIOD_MS = 1_000


def test_at_the_first_question_all_are_due() -> None:
    assert Rounds[int](PERIOD_MS).due(12_345, dict.fromkeys(range(5))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [1, 3, 10, 25, 1_000])
def test_asked_ten_times_in_a_period_it_names_a_tenth_each_time_and_each_thing_once(count: int) -> None:
    rounds, present = Rounds[int](PERIOD_MS), dict.fromkeys(range(count))
    rounds.due(0, present)
    named = [rounds.due(now, present) for now in range(100, 2_001, 100)]
    assert max(map(len, named)) == math.ceil(count / 10)
    for period in (named[:10], named[10:]):
        assert sorted(one for some in period for one in some) == list(range(count))


@given(st.integers(1, 30), st.lists(st.integers(0, 3_000), min_size=1, max_size=60))
def test_nothing_waits_longer_than_two_periods_and_a_question(count: int, gaps: list[int]) -> None:
    """However the questions come. Where what is there changes, a round goes on with what is left of it."""
    rounds, present = Rounds[int](PERIOD_MS), dict.fromkeys(range(count))
    rounds.due(0, present)
    now, named_at = 0, dict.fromkeys(range(count), 0)
    for gap in gaps:
        now += gap
        for one in rounds.due(now, present):
            named_at[one] = now
        assert now - min(named_at.values()) <= 2 * PERIOD_MS + gap


@given(st.lists(st.tuples(st.integers(0, 400), st.sets(st.integers(0, 20))), max_size=40))
def test_only_what_is_there_is_named_and_nothing_twice_at_once(asked: list[tuple[int, set[int]]]) -> None:
    rounds, now = Rounds[int](PERIOD_MS), 0
    for gap, present in asked:
        now += gap
        named = rounds.due(now, present)
        assert set(named) <= present and len(named) == len(set(named))


def test_what_has_gone_takes_nobodys_turn() -> None:
    rounds = Rounds[int](PERIOD_MS)
    rounds.due(0, dict.fromkeys(range(10)))
    rounds.due(100, dict.fromkeys(range(10)))  # 0 was named, nine are left of this round
    left = dict.fromkeys((5, 9))
    assert [rounds.due(now, left) for now in (600, 1_100)] == [[5], [9]]


def test_a_clock_that_is_set_back_or_far_forward_has_nothing_named_more_than_once() -> None:
    rounds, present = Rounds[int](PERIOD_MS), dict.fromkeys(range(10))
    rounds.due(0, present)
    assert rounds.due(10**9, present) == list(range(10))
    assert rounds.due(5, present) == []
    assert rounds.due(105, present) == [0]

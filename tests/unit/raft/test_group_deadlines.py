"""raft/group_deadlines.py: drivers whose deadline has come, the earliest first, and each once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from raft.group_deadlines import DEADLINES_MAX, GroupDeadlines


def driver(deadline: float | None) -> Any:
    return SimpleNamespace(core=SimpleNamespace(deadline=deadline), heap_deadline=None)


def test_those_whose_deadline_has_come_are_taken_once_and_the_earliest_first() -> None:
    deadlines, late, early, never = GroupDeadlines(), driver(2.0), driver(1.0), driver(None)
    for one in (late, early, never):
        deadlines.watch(one)
        deadlines.watch(one)
    assert deadlines.take_due(0.5) == []
    assert deadlines.take_due(2.0) == [early, late]
    assert deadlines.take_due(9.0) == []
    deadlines.watch(early)
    assert deadlines.take_due(9.0) == [early], "it may be watched again"


def test_an_earlier_deadline_counts_instead_of_the_later_one() -> None:
    deadlines, one = GroupDeadlines(), driver(5.0)
    deadlines.watch(one)
    one.core.deadline = 1.0
    deadlines.watch(one)
    assert deadlines.take_due(1.0) == [one]
    assert deadlines.take_due(5.0) == [], "nobody asked for the later one since"


def test_a_driver_that_is_no_more_is_not_taken() -> None:
    deadlines, one = GroupDeadlines(), driver(1.0)
    deadlines.watch(one)
    deadlines.forget(one)
    assert deadlines.take_due(1.0) == []


def test_a_few_are_taken_in_one_go_and_the_rest_with_the_next() -> None:
    deadlines, drivers = GroupDeadlines(), [driver(1.0) for _ in range(DEADLINES_MAX + 3)]
    for one in drivers:
        deadlines.watch(one)
    assert deadlines.take_due(1.0) == drivers[:DEADLINES_MAX], "in the order in which they came"
    assert deadlines.take_due(1.0) == drivers[DEADLINES_MAX:]

"""front/stream/deadlines.py: the nearest deadline is armed, and each is told once."""

from __future__ import annotations

from front.stream.deadlines import ConnectionDeadlines
from tests.unit.front.stream.client import Outside


def test_the_nearest_is_armed() -> None:
    outside = Outside()
    deadlines = ConnectionDeadlines(outside)
    deadlines.set("far", 60)
    deadlines.set("near", 10)
    assert outside.armed == 10
    deadlines.clear("near")
    assert outside.armed == 60
    deadlines.clear_all()
    assert outside.armed == 0
    assert deadlines.due() == []


def test_what_is_due_is_told_once_and_the_next_is_armed() -> None:
    outside = Outside()
    deadlines = ConnectionDeadlines(outside)
    deadlines.set(1, 10)
    deadlines.set(2, 10)
    deadlines.set(3, 15)
    outside.seconds += 10
    assert deadlines.due() == [1, 2]
    assert outside.armed == 5
    assert deadlines.due() == []


def test_a_deadline_that_is_set_again_moves() -> None:
    outside = Outside()
    deadlines = ConnectionDeadlines(outside)
    deadlines.set("step", 10)
    outside.seconds += 9
    deadlines.set("step", 10)
    outside.seconds += 1
    assert deadlines.due() == []
    assert outside.armed == 9


def test_one_that_has_passed_is_armed_still() -> None:
    outside = Outside()
    deadlines = ConnectionDeadlines(outside)
    deadlines.set("past", 1)
    outside.seconds += 5
    deadlines.set("future", 10)
    assert 0 < outside.armed < 0.01

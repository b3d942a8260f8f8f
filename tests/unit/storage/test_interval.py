from __future__ import annotations

from storage.interval import Interval


def test_it_is_due_once_in_its_time() -> None:
    interval = Interval(10)
    assert [now for now in range(100, 125) if interval.due(now)] == [100, 110, 120]


def test_where_the_clock_is_set_back_it_is_due_at_once_and_then_as_ever() -> None:
    interval = Interval(10)
    assert interval.due(5_000_000)
    assert [now for now in range(100, 125) if interval.due(now)] == [100, 110, 120]


def test_it_lasts_from_its_beginning_until_its_time_is_over_or_it_is_ended() -> None:
    interval = Interval(10)
    assert not interval.begun and not interval.lasts(7)
    interval.begin(7)
    assert interval.begun
    assert [now for now in range(30) if interval.lasts(now)] == list(range(7, 17))
    interval.end()
    assert not interval.begun and not interval.lasts(7)

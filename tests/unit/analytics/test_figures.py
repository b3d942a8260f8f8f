"""A queue at a past second, by rules alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from analytics.fold.lives import LifeState
from analytics.jobs.figures import LifeTimes, MachineSecond, figures_at, second_of

SECOND = 1_700_000_000
AT = SECOND * 1_000
LIVES = [
    LifeTimes(10, LifeState.ACKED, AT - 5_000, AT - 2_000),
    LifeTimes(4, LifeState.ACKED, AT - 4_000, AT + 500),
    LifeTimes(3, LifeState.EXPIRED, AT + 100, AT + 1_000),
    LifeTimes(2, LifeState.READY, AT + 999, None),
    LifeTimes(8, LifeState.READY, AT + 1_000, None),
]


def test_what_was_there_is_what_had_come_and_not_gone() -> None:
    figures = figures_at(LIVES, None, SECOND)
    assert (figures.messages, figures.published, figures.ended) == (5, 5, 4)
    assert figures.oldest_ms == 900
    assert (figures.ready, figures.unacknowledged, figures.untimed) == (None, None, 0)


@pytest.mark.parametrize(("at", "is_within"), [(AT - 1, False), (AT, True), (AT + 999, True), (AT + 1_000, False)])
def test_a_second_has_its_first_millisecond_and_not_that_of_the_next_one(at: int, *, is_within: bool) -> None:
    came = figures_at([LifeTimes(3, LifeState.READY, at, None)], None, SECOND)
    assert (came.published, came.messages) == (3 * is_within, 3 * (at < AT + 1_000))
    went = figures_at([LifeTimes(3, LifeState.ACKED, AT - 9, at)], None, SECOND)
    assert (went.ended, went.published, went.messages) == (3 * is_within, 0, 3 * (at >= AT + 1_000))


def test_a_quorum_queue_says_what_was_ready_since_something_last_happened() -> None:
    counted = MachineSecond(SECOND - 3, 4, 1, 2, 7)
    figures = figures_at(LIVES, counted, SECOND)
    assert (figures.ready, figures.unacknowledged, figures.consumers, figures.redelivered) == (4, 1, 2, 0)
    assert figures_at(LIVES, counted._replace(second=SECOND), SECOND).redelivered == 7


def test_messages_without_times_are_counted_apart() -> None:
    lives = [LifeTimes(3, LifeState.ACKED, None, AT), LifeTimes(2, LifeState.UNKNOWN, AT, None), *LIVES]
    figures = figures_at(lives, None, SECOND)
    assert (figures.untimed, figures.messages) == (5, 5)


def test_before_anything_happened_there_is_nothing() -> None:
    figures = figures_at(LIVES, None, SECOND - 60)
    assert (figures.messages, figures.oldest_ms, figures.at) == (0, None, "2023-11-14T22:12:20+00:00")


@pytest.mark.parametrize(
    ("text", "seconds_before"),
    [
        ("2026-03-01T11:30:00", 1_800),
        ("2026-03-01T13:30:00+02:00", 1_800),
        ("03:00", 9 * 3_600),
        ("03:00:10", 9 * 3_600 - 10),
        ("-2h", 7_200),
        ("-90s", 90),
        ("-3m", 180),
        ("-1d", 86_400),
        ("2026-03-01", 12 * 3_600),
        ("1970-01-01T00:00", 1_772_366_400),
    ],
)
def test_times_are_written_as_operators_write_them(text: str, seconds_before: int) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert second_of(text, now) == now.timestamp() - seconds_before


@pytest.mark.parametrize("text", ["2026-03-01T00:00:01", "01:00", "9999-12-31"])
def test_a_second_that_is_yet_to_come_is_no_past_one(text: str) -> None:
    """`queue --at` told how the queue was in it, and ended with 0."""
    with pytest.raises(ValueError, match="yet to come"):
        second_of(text, datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "text", ["yesterday", "-2", "-h", "25:00", "-999999999d", "1969-12-31T23:59:59", "120000", "--2h"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        second_of(text, datetime(2026, 3, 1, tzinfo=UTC))

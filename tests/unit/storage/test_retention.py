"""Which whole segments may go."""

from __future__ import annotations

import pytest

from storage.retention import SegmentInfo, count_to_drop

FOUR = [SegmentInfo(100, newest_ms=1000 * at) for at in range(1, 5)]


@pytest.mark.parametrize(
    ("size_max", "age_ms_max", "dropped"),
    [
        (None, None, 0),
        (400, None, 0),
        (301, None, 0),  # dropping one would leave less than what is to be kept
        (300, None, 1),
        (299, None, 1),
        (1, None, 3),
        (0, None, 3),  # the one being written stays
        (None, 10_000, 0),
        (None, 3000, 1),
        (None, 2999, 2),
        (None, 0, 3),
        (300, 2999, 2),
        (1, 10_000, 3),
    ],
)
def test_whole_old_segments_go_and_the_last_stays(size_max: int | None, age_ms_max: int | None, dropped: int) -> None:
    assert count_to_drop(FOUR, 5000, size_max, age_ms_max) == dropped


def test_nothing_is_dropped_of_nothing() -> None:
    assert count_to_drop([], 0, 0, 0) == 0

"""What retention keeps: as many of the newest segments as the limits have room for, and always the last one."""

from __future__ import annotations

import pytest

from stream.group.machine import StreamSegmentSpan, StreamState
from stream.group.rules import StreamRules

SEGMENTS = [StreamSegmentSpan(1 + at, 10 * at, 100, 1000 * (at + 1)) for at in range(5)]  # a second apart
STATE = StreamState(segments=SEGMENTS, next_offset=50)
NOW_MS = 5000


@pytest.mark.parametrize(
    ("bytes_max", "first"), [(None, 0), (500, 0), (499, 10), (400, 10), (399, 20), (100, 40), (99, 40), (0, 40)]
)
def test_the_oldest_segments_go_until_the_others_fit(bytes_max: int | None, first: int) -> None:
    assert StreamRules(max_length_bytes=bytes_max).first_to_keep(STATE, NOW_MS) == first


@pytest.mark.parametrize(("age_ms", "first"), [(None, 0), (4000, 0), (3999, 10), (1000, 30), (999, 40), (0, 40)])
def test_segments_go_when_their_last_message_is_too_old(age_ms: int | None, first: int) -> None:
    assert StreamRules(max_age_ms=age_ms).first_to_keep(STATE, NOW_MS) == first


def test_whichever_limit_asks_for_more_is_kept() -> None:
    assert StreamRules(max_length_bytes=400, max_age_ms=2000).first_to_keep(STATE, NOW_MS) == 20
    assert StreamRules(max_length_bytes=200, max_age_ms=4000).first_to_keep(STATE, NOW_MS) == 30


def test_a_stream_without_a_message_keeps_its_place() -> None:
    assert StreamRules(max_length_bytes=0).first_to_keep(StreamState(first_offset=7, next_offset=7), NOW_MS) == 7

"""Which whole segments may go: arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SegmentInfo(NamedTuple):
    """What retention looks at. `newest_ms` is when its last record was written."""

    size: int
    newest_ms: int


def count_to_drop(
    segments: Sequence[SegmentInfo], now_ms: int, size_max: int | None = None, age_ms_max: int | None = None
) -> int:
    """How many of the oldest segments to drop; `segments` goes from the oldest to the one being written, which stays.

    By size: as many as keep the rest at `size_max` or just above it, so a limit is never undershot by dropping. By age: those
    whose newest record is older than `age_ms_max`. With both, the stricter one wins.
    """
    by_size = by_age = 0
    if size_max is not None:
        left = sum(segment.size for segment in segments)
        while by_size < len(segments) - 1 and left - segments[by_size].size >= size_max:
            left -= segments[by_size].size
            by_size += 1
    if age_ms_max is not None:
        while by_age < len(segments) - 1 and now_ms - segments[by_age].newest_ms > age_ms_max:
            by_age += 1
    return max(by_size, by_age)

"""What came to queues and left them over time, from sums over spans of a fixed width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from analytics.report.charts import SPANS_S, Series

SPANS_MAX = 240  # in one chart
PUBLISHED, ENDED, WAITING = "published per second", "ended per second", "in the queue"


class SpanSum(NamedTuple):
    """Messages of one queue whose publishing or end was in the span that begins there."""

    queue: str
    at: int  # seconds since 1970
    published: int
    ended: int


def width_of(first: int, last: int) -> int:
    """Seconds of a span, so that a window has at most SPANS_MAX of them."""
    return next((one for one in SPANS_S if (last - first) // one < SPANS_MAX), SPANS_S[-1])


def rates(sums: Iterable[SpanSum], width: int) -> list[Series]:
    """Of all these queues together."""
    by_span = _together(sums)
    spans = _filled(by_span, width)
    return [
        Series(PUBLISHED, [(at, by_span.get(at, (0, 0))[0] / width) for at in spans]),
        Series(ENDED, [(at, by_span.get(at, (0, 0))[1] / width) for at in spans]),
    ]


def waiting(sums: Iterable[SpanSum], width: int) -> Series:
    """How many had come and not gone, at the end of each span."""
    by_span = _together(sums)
    points, there = [], 0
    for at in _filled(by_span, width):
        published, ended = by_span.get(at, (0, 0))
        there += published - ended
        points.append((at, float(there)))
    return Series(WAITING, points)


def busiest(sums: Iterable[SpanSum], count: int) -> list[str]:
    """Queues by what was published to them, the most first."""
    totals: dict[str, int] = {}
    for one in sums:
        totals[one.queue] = totals.get(one.queue, 0) + one.published
    return sorted(totals, key=lambda queue: (-totals[queue], queue))[:count]


def _together(sums: Iterable[SpanSum]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for one in sums:
        published, ended = found.get(one.at, (0, 0))
        found[one.at] = (published + one.published, ended + one.ended)
    return found


def _filled(by_span: Mapping[int, object], width: int) -> Sequence[int]:
    """All spans from the one before the first to the last, also those in which nothing happened."""
    return range(min(by_span) - width, max(by_span) + width, width) if by_span else ()

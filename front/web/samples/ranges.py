"""Which times somebody asks for, and what is shown beside a figure: how fast it grows now, and how it was at those times.

    lengths_age=600&lengths_incr=60      the last ten minutes, a sample a minute
    msg_rates_...  data_rates_...  node_stats_...    the same of other figures

The times are multiples of the increment, so those that several nodes are asked for at once are the same and can be added up. At
each time that counts which was sampled last before it; times before the first sample are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from front.web.http.request import HttpError, Request
from front.web.samples.rings import At
from front.web.samples.shapes import DATA_RATES, LENGTHS, MESSAGE_RATES, NODE_STATS
from front.whole_number import whole_number

POINTS_MAX = 500
SECONDS_DIGITS_MAX = 9

# Kind of figure -> age, increment and the time from which it is reckoned, in milliseconds: as it goes to other nodes.
Ranges = Mapping[str, Sequence[int]]
Details = dict[str, Any]
Points = dict[int, int]  # time -> the figure then


def ranges_asked_for(request: Request) -> Ranges:
    """Raises HttpError 400. What is no number asks for nothing."""
    found: dict[str, Sequence[int]] = {}
    for kind in (LENGTHS, MESSAGE_RATES, DATA_RATES, NODE_STATS):
        age, step = (_seconds(request, f"{kind}_{name}") for name in ("age", "incr"))
        if age is None or step is None:
            continue
        if age < 1 or step < 1 or age // step > POINTS_MAX:
            said = f"Invalid range parameters: age {age}, incr {step}: at most {POINTS_MAX} samples are shown"
            raise HttpError(400, "invalid_range_parameters", said)
        found[kind] = (age * 1_000, step * 1_000, request.now)
    return found


def _seconds(request: Request, name: str) -> int | None:
    given = request.asked(name)
    return None if given is None else whole_number(given, SECONDS_DIGITS_MAX, signed=True)


def sampled_at(samples: Iterable[At], asked: Sequence[int]) -> Iterator[At]:
    """Newest first, as the samples are."""
    age, step, now = asked
    wanted = now // step * step
    until = wanted - age
    for at, row in samples:
        while wanted >= max(at, until):
            yield wanted, row
            wanted -= step
        if wanted < until:
            return


def details(rate: float, points: Points | None = None) -> Details:
    """`X_details` of a figure; with points only where times are asked for."""
    if points is None:
        return {"rate": rate}
    samples = sorted(points.items(), reverse=True)
    shown: Details = {"rate": rate, "samples": [{"sample": sample, "timestamp": at} for at, sample in samples]}
    if len(samples) > 1:
        (newest_at, newest), (oldest_at, oldest) = samples[0], samples[-1]
        shown["avg_rate"] = (newest - oldest) * 1_000 / (newest_at - oldest_at)
        shown["avg"] = sum(points.values()) / len(samples)
    return shown

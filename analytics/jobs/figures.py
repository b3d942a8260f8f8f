"""A queue at a past second, from its lives and, of a quorum queue, from what its machine counted then.

The log of a classic queue says when messages came and went, and at `history.level` full which of them were out at a tick: at
other levels which were ready is not known. Messages whose times the log does not tell are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from analytics.fold.lives import LifeState

MS = 1_000
BEFORE_ALL_MS = -1


class LifeTimes(NamedTuple):
    """Messages of one life, as far as figures look at it. Times are ms."""

    messages: int
    state: LifeState
    published_at: int | None
    ended_at: int | None
    is_older: bool = False  # than the second that is asked for: when it was published is not known otherwise


class QueueFigures(NamedTuple):
    """At the end of a second, and within it."""

    at: str  # ISO, UTC
    messages: int  # ready or out
    ready: int | None  # None: not known
    unacknowledged: int | None
    consumers: int | None
    published: int  # within this second
    ended: int
    redelivered: int | None
    oldest_ms: int | None  # age of the oldest message there; None: there is none, or the log does not say
    untimed: int  # messages of which the log does not say when they were there


FIGURE_COLUMNS = [("at", "string"), *((name, "bigint") for name in QueueFigures._fields[1:])]


class MachineSecond(NamedTuple):
    """What a quorum queue's machine counted at the end of the last second in which something happened."""

    second: int
    ready: int
    unacknowledged: int
    consumers: int
    redelivered: int  # within that second


def figures_at(lives: Iterable[LifeTimes], counted: MachineSecond | None, second: int) -> QueueFigures:
    """`second`: since 1970. `counted`: of that second or the last one before it; None: the queue has no such figures."""
    start, end = second * MS, (second + 1) * MS
    there = published = ended = untimed = 0
    oldest: int | None = None
    for life in lives:
        came_at = BEFORE_ALL_MS if life.is_older else life.published_at
        if came_at is None or (life.ended_at is None and life.state.has_ended):
            untimed += life.messages
            continue
        published += life.messages if start <= came_at < end else 0
        ended += life.messages if life.ended_at is not None and start <= life.ended_at < end else 0
        if came_at < end and (life.ended_at is None or life.ended_at >= end):
            there += life.messages
            oldest = came_at if oldest is None else min(oldest, came_at)
    redelivered = None if counted is None else counted.redelivered if counted.second == second else 0
    return QueueFigures(
        datetime.fromtimestamp(second, UTC).isoformat(),
        there,
        None if counted is None else counted.ready,
        None if counted is None else counted.unacknowledged,
        None if counted is None else counted.consumers,
        published,
        ended,
        redelivered,
        None if oldest in (None, BEFORE_ALL_MS) else end - oldest,
        untimed,
    )


def second_of(text: str, now: datetime) -> int:
    """A time as operators write it: ISO with or without a zone (UTC), `03:00` or `03:00:10` of today, `-2h` before now.
    Raises ValueError; also for one before 1970, when no log was written, and for one that is yet to come."""
    second = _second_of(text, now)
    if second < 0:
        raise ValueError(f"{text!r} is before 1970")
    if second > now.timestamp():
        raise ValueError(f"{text!r} is yet to come")
    return second


def _second_of(text: str, now: datetime) -> int:
    if text.startswith("-"):
        return int(now.timestamp()) - _duration_s(text[1:])
    if len(text) <= len("03:00:10") and ":" in text:
        text = f"{now.astimezone(UTC):%Y-%m-%d}T{text}"
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _duration_s(text: str) -> int:
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    if text[-1:] not in units or not text[:-1].isdecimal():
        raise ValueError(f"{text!r} is no span of time: write 30s, 10m, 2h or 1d")
    return int(text[:-1]) * units[text[-1]]

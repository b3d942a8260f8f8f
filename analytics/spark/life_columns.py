"""Lives as rows of the table `lives`: column by column, for there are millions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import Life, PublishedRun
from analytics.spark.event_source import arrow_array

YEAR_10000_MS = 253_402_300_800_000
TIME = pa.timestamp("us", tz="UTC")
RETURNED = pa.map_(pa.string(), pa.int32())
ARROW = pa.schema(
    [
        ("queue", pa.int64()), ("pos", pa.int64()), ("off", pa.int32()), ("nth", pa.int64()), ("count", pa.int64()),
        ("state", pa.string()), ("published_at", TIME), ("actor", pa.int64()), ("publish_no", pa.int64()),
        ("confirm", pa.bool_()), ("exchange", pa.string()), ("routing_key", pa.string()), ("body_bytes", pa.int64()),
        ("first_out_at", TIME), ("last_out_at", TIME), ("times_out", pa.int32()), ("first_consumer", pa.string()),
        ("last_consumer", pa.string()), ("first_actor", pa.int64()), ("last_actor", pa.int64()), ("returned", RETURNED),
        ("ended_at", TIME), ("wait_ms", pa.int64()), ("hold_ms", pa.int64()), ("partial", pa.bool_()), ("unknown", pa.string()),
        ("committed", pa.bool_()), ("process", pa.string()), ("of_term", pa.int64()),
    ]
)  # fmt: skip
_EXACT_MAX = 1 << 53  # what a float holds exactly
_NUMBER_MAX = (1 << 63) - 1


class _LifeRows:
    """Lives of one queue, and what several columns are made of."""

    def __init__(self, queue: int, lives: Sequence[Life], history: QueueHistory) -> None:
        self.queue = queue
        self.lives = lives
        self.history = history

    @cached_property
    def runs(self) -> list[PublishedRun]:
        return [life.publish for life in self.lives]

    @cached_property
    def first_consumers(self) -> list[object]:
        return [life.first_consumer for life in self.lives]

    @cached_property
    def last_consumers(self) -> list[object]:
        return [life.last_consumer for life in self.lives]

    @cached_property
    def published(self) -> pa.Array:
        return _numbers([run.at for run in self.runs])

    @cached_property
    def first_out(self) -> pa.Array:
        return _numbers([life.first_out_at for life in self.lives])

    @cached_property
    def last_out(self) -> pa.Array:
        return _numbers([life.last_out_at for life in self.lives])

    @cached_property
    def ended(self) -> pa.Array:
        return _numbers([life.ended_at for life in self.lives])


def lives_batch(
    queue: int, lives: Sequence[Life], history: QueueHistory, columns: Sequence[str] = ARROW.names
) -> pa.RecordBatch:
    """A row for each life of this queue's history, with these columns: the others are not made."""
    rows = _LifeRows(queue, lives, history)
    made = [_column(name, _VALUES[name](rows)) if name in _VALUES else _ARRAYS[name](rows) for name in columns]
    return pa.RecordBatch.from_arrays(made, schema=pa.schema([ARROW.field(name) for name in columns]))


def _committed(rows: _LifeRows) -> pa.Array:
    """As QueueHistory.is_committed says of each."""
    told = _numbers([life.told_at for life in rows.lives])
    known = min(rows.history.committed, _NUMBER_MAX)
    return pc.if_else(pc.less_equal(told, known), True, pa.scalar(None, pa.bool_()))


def _terms(rows: _LifeRows) -> pa.Array:
    overruled = rows.history.overruled
    if not overruled:
        return _same("of_term", None, len(rows.lives))
    return _column("of_term", [overruled.get(life.entry) for life in rows.lives])


def _returned(rows: _LifeRows) -> pa.Array:
    """Of most nothing has come back."""
    returned = [life.returned for life in rows.lives]
    if any(returned):
        return _column("returned", [list(reasons.items()) for reasons in returned])
    none = pa.repeat(pa.scalar(0, pa.int32()), len(returned) + 1)
    return pa.MapArray.from_arrays(none, pa.array([], pa.string()), pa.array([], pa.int32()))


def _same(name: str, value: object, rows: int) -> pa.Array:
    return pa.repeat(_column(name, [value])[0], rows)


def _column(name: str, values: Sequence[object]) -> pa.Array:
    return arrow_array(values, ARROW.field(name).type)


def _numbers(values: Sequence[int | None]) -> pa.Array:
    return arrow_array(values, pa.int64())


def _as_times(ms: pa.Array) -> pa.Array:
    """As `micros` has them."""
    known = pc.if_else(pc.less(ms, YEAR_10000_MS), ms, pa.scalar(None, pa.int64()))
    return pc.multiply(known, 1_000).cast(TIME)


def _between(start: pa.Array, end: pa.Array) -> pa.Array:
    """Null also where the clock was set back in between: how long that took nothing says."""
    passed = pc.subtract(end, start)
    return pc.if_else(pc.less(passed, 0), pa.scalar(None, pa.int64()), passed)


def _each(made: Callable[[object], object], values: Iterable[object]) -> list[object]:
    """What is made of values, most of which come many times, and often the same one again."""
    known: dict[object, object] = {}
    found = []
    before, one = object(), None
    for value in values:
        if value is not before:
            if value not in known:
                known[value] = made(value)
            before, one = value, known[value]
        found.append(one)
    return found


def bytes_of(life: Life) -> int:
    """A log has the bytes of a run, not of its messages: as many as these have on average."""
    run = life.publish
    if life.count == run.messages and run.body_bytes <= _EXACT_MAX:
        return run.body_bytes
    return round(run.body_bytes * life.count / run.messages) if run.messages else 0


def micros(ms: int | None) -> int | None:
    """A time that no calendar has, as in a damaged log, is none."""
    return ms * 1000 if ms is not None and ms < YEAR_10000_MS else None


def named_consumer(consumer: object) -> str | None:
    """An actor's number, or node, incarnation and number of a consumer of a quorum queue; of a process the first two."""
    if consumer is None:
        return None
    return "/".join(map(str, consumer)) if isinstance(consumer, tuple) else str(consumer)


_VALUES: dict[str, Callable[[_LifeRows], Sequence[object]]] = {  # columns, as Python has what is in them
    "pos": lambda rows: [life.entry for life in rows.lives],
    "off": lambda rows: [life.offset for life in rows.lives],
    "nth": lambda rows: [life.first for life in rows.lives],
    "count": lambda rows: [life.count for life in rows.lives],
    "state": lambda rows: _each(str, [life.state for life in rows.lives]),
    "actor": lambda rows: [run.actor for run in rows.runs],
    "publish_no": lambda rows: [run.publish_no for run in rows.runs],
    "confirm": lambda rows: [run.confirm for run in rows.runs],
    "exchange": lambda rows: [run.exchange for run in rows.runs],
    "routing_key": lambda rows: [run.routing_key for run in rows.runs],
    "body_bytes": lambda rows: [bytes_of(life) for life in rows.lives],
    "times_out": lambda rows: [life.times_out for life in rows.lives],
    "first_consumer": lambda rows: _each(named_consumer, rows.first_consumers),
    "last_consumer": lambda rows: _each(named_consumer, rows.last_consumers),
    "first_actor": lambda rows: _each(rows.history.actor_of, rows.first_consumers),
    "last_actor": lambda rows: _each(rows.history.actor_of, rows.last_consumers),
    "partial": lambda rows: [life.partial for life in rows.lives],
    "process": lambda rows: _each(named_consumer, [run.process for run in rows.runs]),
}
_ARRAYS: dict[str, Callable[[_LifeRows], pa.Array]] = {  # those that need not be in Python
    "queue": lambda rows: _same("queue", rows.queue, len(rows.lives)),
    "published_at": lambda rows: _as_times(rows.published),
    "first_out_at": lambda rows: _as_times(rows.first_out),
    "last_out_at": lambda rows: _as_times(rows.last_out),
    "returned": _returned,
    "ended_at": lambda rows: _as_times(rows.ended),
    "wait_ms": lambda rows: _between(rows.published, rows.first_out),
    "hold_ms": lambda rows: _between(rows.last_out, rows.ended),
    "unknown": lambda rows: _same("unknown", rows.history.unknown, len(rows.lives)),
    "committed": _committed,
    "of_term": _terms,
}

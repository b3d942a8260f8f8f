"""Lives as rows of the table `lives`: column by column, for there are millions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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

Columns = dict[str, pa.Array]


def lives_batch(queue: int, lives: Sequence[Life], history: QueueHistory) -> pa.RecordBatch:
    """A row for each life of this queue's history."""
    columns = {
        "queue": _same("queue", queue, len(lives)),
        "unknown": _same("unknown", history.unknown, len(lives)),
        **_places(lives),
        **_publishes([life.publish for life in lives]),
        **_deliveries(lives, history),
        **_ends(lives, history),
        **_times(lives),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in ARROW.names], schema=ARROW)


def _places(lives: Sequence[Life]) -> Columns:
    return {
        "pos": _column("pos", [life.entry for life in lives]),
        "off": _column("off", [life.offset for life in lives]),
        "nth": _column("nth", [life.first for life in lives]),
        "count": _column("count", [life.count for life in lives]),
        "partial": _column("partial", [life.partial for life in lives]),
        "body_bytes": _column("body_bytes", [bytes_of(life) for life in lives]),
    }


def _publishes(runs: Sequence[PublishedRun]) -> Columns:
    return {
        "actor": _column("actor", [run.actor for run in runs]),
        "publish_no": _column("publish_no", [run.publish_no for run in runs]),
        "confirm": _column("confirm", [run.confirm for run in runs]),
        "exchange": _column("exchange", [run.exchange for run in runs]),
        "routing_key": _column("routing_key", [run.routing_key for run in runs]),
        "process": _column("process", _each(named_consumer, [run.process for run in runs])),
    }


def _deliveries(lives: Sequence[Life], history: QueueHistory) -> Columns:
    first, last = [life.first_consumer for life in lives], [life.last_consumer for life in lives]
    return {
        "times_out": _column("times_out", [life.times_out for life in lives]),
        "first_consumer": _column("first_consumer", _each(named_consumer, first)),
        "last_consumer": _column("last_consumer", _each(named_consumer, last)),
        "first_actor": _column("first_actor", _each(history.actor_of, first)),
        "last_actor": _column("last_actor", _each(history.actor_of, last)),
        "returned": _returned(lives),
    }


def _ends(lives: Sequence[Life], history: QueueHistory) -> Columns:
    return {
        "state": _column("state", _each(str, [life.state for life in lives])),
        "committed": _committed(lives, history),
        "of_term": _terms(lives, history),
    }


def _committed(lives: Sequence[Life], history: QueueHistory) -> pa.Array:
    """As QueueHistory.is_committed says of each."""
    told = _numbers([life.told_at for life in lives])
    return pc.if_else(pc.less_equal(told, min(history.committed, _NUMBER_MAX)), True, pa.scalar(None, pa.bool_()))


def _terms(lives: Sequence[Life], history: QueueHistory) -> pa.Array:
    if not history.overruled:
        return _same("of_term", None, len(lives))
    return _column("of_term", [history.overruled.get(life.entry) for life in lives])


def _times(lives: Sequence[Life]) -> Columns:
    published, ended = _numbers([life.publish.at for life in lives]), _numbers([life.ended_at for life in lives])
    first, last = _numbers([life.first_out_at for life in lives]), _numbers([life.last_out_at for life in lives])
    return {
        "published_at": _as_times(published),
        "first_out_at": _as_times(first),
        "last_out_at": _as_times(last),
        "ended_at": _as_times(ended),
        "wait_ms": pc.subtract(first, published),
        "hold_ms": pc.subtract(ended, last),
    }


def _returned(lives: Sequence[Life]) -> pa.Array:
    """Of most nothing has come back."""
    returned = [life.returned for life in lives]
    if any(returned):
        return _column("returned", [list(reasons.items()) for reasons in returned])
    none = pa.repeat(pa.scalar(0, pa.int32()), len(lives) + 1)
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

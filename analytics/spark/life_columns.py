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

Columns = dict[str, pa.Array]


def lives_batch(queue: int, lives: Sequence[Life], history: QueueHistory) -> pa.RecordBatch:
    """A row for each life of this queue's history."""
    columns = {
        "queue": _column("queue", [queue] * len(lives)),
        "unknown": _column("unknown", [history.unknown] * len(lives)),
        **_places(lives),
        **_publishes([life.publish for life in lives]),
        **_deliveries(lives, history),
        **_ends(lives, history),
    }
    wait = pc.subtract(_numbers([life.first_out_at for life in lives]), _numbers([life.publish.at for life in lives]))
    hold = pc.subtract(_numbers([life.ended_at for life in lives]), _numbers([life.last_out_at for life in lives]))
    columns |= {"wait_ms": wait, "hold_ms": hold}
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
        "published_at": _times([run.at for run in runs]),
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
        "first_out_at": _times([life.first_out_at for life in lives]),
        "last_out_at": _times([life.last_out_at for life in lives]),
        "times_out": _column("times_out", [life.times_out for life in lives]),
        "first_consumer": _column("first_consumer", _each(named_consumer, first)),
        "last_consumer": _column("last_consumer", _each(named_consumer, last)),
        "first_actor": _column("first_actor", _each(history.actor_of, first)),
        "last_actor": _column("last_actor", _each(history.actor_of, last)),
        "returned": _column("returned", [list(life.returned.items()) for life in lives]),
    }


def _ends(lives: Sequence[Life], history: QueueHistory) -> Columns:
    return {
        "state": _column("state", _each(str, [life.state for life in lives])),
        "ended_at": _times([life.ended_at for life in lives]),
        "committed": _column("committed", [history.is_committed(life) for life in lives]),
        "of_term": _column("of_term", [history.overruled.get(life.entry) for life in lives]),
    }


def _column(name: str, values: Sequence[object]) -> pa.Array:
    return arrow_array(values, ARROW.field(name).type)


def _numbers(values: Sequence[int | None]) -> pa.Array:
    return arrow_array(values, pa.int64())


def _times(ms: Sequence[int | None]) -> pa.Array:
    """As `micros` has them."""
    found = _numbers(ms)
    known = pc.if_else(pc.less(found, YEAR_10000_MS), found, pa.scalar(None, pa.int64()))
    return pc.multiply(known, 1_000).cast(TIME)


def _each(made: Callable[[object], object], values: Iterable[object]) -> list[object]:
    """What is made of values, most of which come many times."""
    known: dict[object, object] = {}
    found = []
    for value in values:
        if value not in known:
            known[value] = made(value)
        found.append(known[value])
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

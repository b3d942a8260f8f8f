"""Events of one queue, many in one row: what is done to them row by row, from the source to the fold, is done that often less.

Spark turns each row of a source into one of its own, hashes it, writes it to a shuffle, sorts it, and turns it into a column
again for the worker that folds. For lone messages of quorum queues that was half of what the fold itself takes. So the events
of a queue that one piece of a log has are one row of kind PACK: with the lowest of their places, their earliest time in `at`
and their latest in `first`, and their columns in `data` as Arrow writes them. A fold that takes rows in the order of folds
opens them again: `opened`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analytics.queue_events import QueueEvent
from storage.record import Kind

PACK = -1  # no record has this kind
EVENTS_MIN = 32  # fewer of a queue stay as they are: a pack costs as much as some ten rows
_ORDER = [("place", "ascending"), ("term", "descending")]  # of folds


class EventPack(NamedTuple):
    queue: int
    place: int
    at: int | None  # µs
    last_at: int | None
    data: bytes


def packs_of(batch: pa.RecordBatch) -> tuple[list[EventPack], pa.RecordBatch]:
    """Of the queues that have many events in this batch, and the events of the others."""
    by_queue = batch.take(pc.sort_indices(batch.column("queue")))
    runs = pc.run_end_encode(by_queue.column("queue"))
    packs: list[EventPack] = []
    few, start = [by_queue.slice(0, 0)], 0
    for queue, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        events = by_queue.slice(start, end - start)
        if len(events) < EVENTS_MIN:
            few.append(events)
        else:
            packs.append(_pack(queue, _in_order(events.select(QueueEvent._fields))))
        start = end
    return packs, pa.concat_batches(few)


def _pack(queue: int, events: pa.RecordBatch) -> EventPack:
    times = pc.min_max(events.column("at")).as_py()
    return EventPack(
        queue, events.column("place")[0].as_py(), times["min"], times["max"], events.serialize().to_pybytes()
    )


def _in_order(events: pa.RecordBatch) -> pa.RecordBatch:
    """A leader of a later term replaces entries, so places may fall within a log."""
    places = events.column("place")
    rises = pc.all(pc.less(places[:-1], places[1:])).as_py()
    return events if rises else events.sort_by(_ORDER)


def opened(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The events of one queue in the order of folds, where rows and packs come in the order of their own places. `schema`: of
    the source."""
    of_events = pa.schema([schema.field(name) for name in QueueEvent._fields])
    waiting = None  # what some of the parts to come may lie between
    for part in _parts(batches, of_events):
        begin = part.column("place")[0].as_py()
        if waiting is not None and waiting.column("place")[-1].as_py() >= begin:
            waiting, part = _divided(_merged(waiting, part, of_events), begin)
        if waiting is not None:
            yield waiting
        waiting = part
    if waiting is not None:
        yield waiting


def _parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What each pack has, and the rows between packs."""
    for batch in batches:
        start = 0
        for at in pc.indices_nonzero(pc.equal(batch.column("kind"), PACK)).to_pylist():
            if at > start:
                yield batch.slice(start, at - start)
            yield pa.ipc.read_record_batch(batch.column("data")[at].as_buffer(), schema)
            start = at + 1
        if start < len(batch):
            yield batch.slice(start)


def _merged(waiting: pa.RecordBatch, part: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Nodes have copies of one log. Names are before all."""
    both = pa.concat_batches([pa.RecordBatch.from_arrays(one.columns, schema=schema) for one in (waiting, part)])
    is_event = pc.not_equal(both.column("kind"), int(Kind.NAME))
    ordered = both.append_column("is_event", is_event).sort_by([("is_event", "ascending"), *_ORDER])
    return ordered.remove_column(len(schema))


def _divided(events: pa.RecordBatch, begin: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
    """What lies before all parts to come, and the rest."""
    end = bisect_left(events.column("place"), begin, key=lambda place: place.as_py())
    return events.slice(0, end) if end else None, events.slice(end)

"""What Spark hands to a fold, as the fold takes it: rows whose columns are those of QueueEvent.

Entries of a replicated log that follow on one another, as most do where one node's log was read, become an EntryBatch: what is
the same for all of them is looked at in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics.fold.entry_batch import EntryBatch, Told
from analytics.queue_events import QueueEvent
from raft.core.messages import EntryKind
from storage.record import Kind

ENTRIES_MIN = 256  # of a batch: to look for one takes as long as some hundred events
_ALIKE = ("queue", "kind", "term", "first", "durable", "node")  # what entries of a batch have in common


def events_in(batches: Iterable[pa.RecordBatch]) -> Iterator[QueueEvent]:
    for rows in batches:
        yield from _events(rows)


def told_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Told]:
    """The same, with batches of entries among them."""
    for rows in batches:
        told = 0
        for start, end in _batches(rows):
            yield from _events(rows.slice(told, start - told))
            yield _batch(rows.slice(start, end - start))
            told = end
        yield from _events(rows.slice(told))


def _events(rows: pa.RecordBatch) -> Iterator[QueueEvent]:
    return map(_event, zip(*(_values(rows.column(name)) for name in QueueEvent._fields), strict=True))


_event = partial(tuple.__new__, QueueEvent)  # without the call in Python that a NamedTuple makes itself


def _batch(rows: pa.RecordBatch) -> EntryBatch:
    data, sizes, written = (_values(rows.column(name)) for name in ("data", "size", "written"))
    return EntryBatch(next(_events(rows.slice(0, 1))), data, sizes, written)


def _batches(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """From which row up to which."""
    count = rows.num_rows
    if count < ENTRIES_MIN:
        return
    breaks = pc.add(pc.indices_nonzero(pc.invert(_follow(rows.slice(0, count - 1), rows.slice(1)))), 1)
    first, end = pa.array([0], breaks.type), pa.array([count], breaks.type)
    starts, ends = pa.concat_arrays([first, breaks]), pa.concat_arrays([breaks, end])
    long = pc.greater_equal(pc.subtract(ends, starts), ENTRIES_MIN)
    yield from zip(starts.filter(long).to_pylist(), ends.filter(long).to_pylist(), strict=True)


def _follow(before: pa.RecordBatch, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Whether each row is a command that follows on the one before."""
    written = before.column("written"), rows.column("written")
    found = [
        pc.equal(rows.column("kind"), int(Kind.RAFT_ENTRIES)),
        pc.equal(rows.column("first"), int(EntryKind.COMMAND)),
        pc.equal(pc.subtract(rows.column("place"), before.column("place")), 1),
        pc.less_equal(*written),
        pc.equal(*(pc.less(one, 0) for one in written)),  # of the log, or of segments
        *(pc.equal(before.column(name), rows.column(name)) for name in _ALIKE),
    ]
    return pc.fill_null(reduce(pc.and_, found), False)


def _values(column: pa.Array) -> list[Any]:
    """The fastest way to them for each type; strings are few, each many times."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers: list[Any] = column.to_numpy().tolist()
        return numbers
    if pa.types.is_string(column.type) and not column.null_count:
        coded = column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        return [texts[at] for at in coded.indices.to_numpy().tolist()]
    return list(column.to_pylist())

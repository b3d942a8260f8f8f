"""From `raw` to the tables `lives` and `events`: all queues of one bucket, one after the other, folded and written in one task.

What Spark carries is the events on their way to the task that has their bucket, in their order; rows of tables never pass
through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import LifeStep
from analytics.fold.node_processes import NodeProcesses
from analytics.fold.queue_history import uncollected
from analytics.parquet.conversion_log import begin_attempt
from analytics.parquet.raw_files import COMPRESSION, bucket_of
from analytics.spark.event_source import arrow_batch
from analytics.spark.kept_modules import keep_modules
from analytics.spark.life_columns import ARROW, TIME, lives_batch, micros, named_consumer
from analytics.spark.lives_table import ROWS_MAX, histories_of
from analytics.spark.told_events import told_in

NAME = pa.field("name", pa.string())
LIVES = ARROW.insert(1, NAME)
EVENTS = pa.schema(
    [
        ("queue", pa.int64()), NAME, ("pos", pa.int64()), ("off", pa.int32()), ("nth", pa.int64()), ("count", pa.int64()),
        ("event", pa.string()), ("at", TIME), ("consumer", pa.string()), ("actor", pa.int64()), ("reason", pa.string()),
    ]
)  # fmt: skip
LIVES_TABLE, EVENTS_TABLE = "lives", "events"
WRITTEN = "attempt string, bucket string, lives long, events long"
_WRITTEN = pa.schema([("attempt", pa.string()), ("bucket", pa.string()), ("lives", pa.int64()), ("events", pa.int64())])

Write = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def writer_of(making: str, names: dict[int, str], processes: NodeProcesses) -> Write:
    """What a task does with what is told of the queues of a bucket, in the order of folds; `names` of queues."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from written(batches, begin_attempt(making), names, processes)

    return write


def written(
    batches: Iterator[pa.RecordBatch], attempt: Path, names: dict[int, str], processes: NodeProcesses | None = None
) -> Iterator[pa.RecordBatch]:
    """Write the tables, and say where, and how many rows they have."""
    keep_modules()
    told = told_in(batches)
    first = next(told)
    with uncollected(), _BucketTables(attempt, bucket_of(first.queue)) as tables:
        for queue, those in groupby(chain((first,), told), attrgetter("queue")):
            for history in histories_of(those, processes, with_steps=True):
                tables.write(queue, names.get(queue), history)
    yield arrow_batch(_WRITTEN, [(attempt.name, tables.bucket, tables.lives, tables.events)])


class _BucketTables:
    """Files of one bucket, and how many rows they have."""

    def __init__(self, attempt: Path, bucket: str) -> None:
        self.bucket = bucket
        self.lives = 0
        self.events = 0
        self._lives = _file(attempt, bucket, LIVES_TABLE, LIVES)
        self._events = _file(attempt, bucket, EVENTS_TABLE, EVENTS)

    def __enter__(self) -> _BucketTables:
        return self

    def __exit__(self, *_: object) -> None:
        self._lives.close()
        self._events.close()

    def write(self, queue: int, name: str | None, history: QueueHistory) -> None:
        for some in _portions(history.lives):
            self._lives.write_batch(_with_name(name, lives_batch(queue, some, history)))
        for steps in _portions(history.steps):
            self._events.write_batch(arrow_batch(EVENTS, [_event_row(queue, name, step, history) for step in steps]))
        self.lives += len(history.lives)
        self.events += len(history.steps)


def table_place(table: str, bucket: str) -> str:
    return f"{table}/bucket={bucket}"


def _file(attempt: Path, bucket: str, table: str, schema: pa.Schema) -> pq.ParquetWriter:
    path = attempt / table_place(table, bucket) / "all.parquet"
    path.parent.mkdir(parents=True)
    return pq.ParquetWriter(path, schema, compression=COMPRESSION)


def _with_name(name: str | None, lives: pa.RecordBatch) -> pa.RecordBatch:
    names = pa.repeat(pa.scalar(name, pa.string()), lives.num_rows)
    return pa.RecordBatch.from_arrays([lives.column(0), names, *lives.columns[1:]], schema=LIVES)


def _portions(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), ROWS_MAX):
        yield rows[start : start + ROWS_MAX]


def _event_row(queue: int, name: str | None, step: LifeStep, history: QueueHistory) -> tuple[object, ...]:
    return (
        queue, name, step.entry, step.offset, step.first, step.messages, step.what, micros(step.at),
        named_consumer(step.consumer), history.actor_of(step.consumer), step.reason,
    )  # fmt: skip

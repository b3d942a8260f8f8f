"""From `raw` to the tables `lives` and `events`: all queues of one bucket, one after the other, folded and written in one task.

What Spark carries is the events on their way to the task that has their bucket, in their order; rows of tables never pass
through it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import LifeStep
from analytics.fold.queue_history import folded
from analytics.fold.stream_log import folded_stream
from analytics.parquet.conversion_log import begin_attempt
from analytics.parquet.raw_files import COMPRESSION, bucket_of
from analytics.queue_events import QueueEvent
from analytics.spark.event_source import arrow_batch
from analytics.spark.life_columns import ARROW, TIME, lives_batch, micros, named_consumer
from analytics.spark.lives_table import ROWS_MAX, events_in

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


def writer_of(making: str, names: dict[int, str], streams: Collection[int]) -> Write:
    """What a task does with the events of a bucket, ordered by queue and place; `names` of queues, and which are streams."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from written(batches, begin_attempt(making), names, streams)

    return write


def written(
    batches: Iterator[pa.RecordBatch], attempt: Path, names: dict[int, str], streams: Collection[int]
) -> Iterator[pa.RecordBatch]:
    """Write the tables, and say where, and how many rows they have."""
    lives = events = 0
    bucket = ""
    lives_file: pq.ParquetWriter | None = None
    events_file: pq.ParquetWriter | None = None
    for queue, those in groupby(events_in(batches), attrgetter("queue")):
        if lives_file is None or events_file is None:
            bucket = bucket_of(queue)
            lives_file, events_file = (
                _file(attempt, bucket, *one) for one in ((LIVES_TABLE, LIVES), (EVENTS_TABLE, EVENTS))
            )
        history = _history_of(those, is_stream=queue in streams)
        name = names.get(queue)
        for some in _portions(history.lives):
            lives_file.write_batch(_with_name(name, lives_batch(queue, some, history)))
        for rows in _portions([_event_row(queue, name, step, history) for step in history.steps]):
            events_file.write_batch(arrow_batch(EVENTS, rows))
        lives, events = lives + len(history.lives), events + len(history.steps)
    for file in (lives_file, events_file):
        if file is not None:
            file.close()
    yield arrow_batch(_WRITTEN, [(attempt.name, bucket, lives, events)])


def _history_of(events: Iterable[QueueEvent], *, is_stream: bool) -> QueueHistory:
    return folded_stream(events).history() if is_stream else folded(events, with_steps=True)


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

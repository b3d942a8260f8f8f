"""From files of logs to Parquet in `raw`: the rows of analytics/spark/event_source.py, in a file for each bucket of queues.

What names queues and actors, and what could not be read, is in a bucket of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.coverage import DamagedBytes
from analytics.inputs import LogFile, NodeDisk, SnapshotFile, unless_deleted
from analytics.lost_records import lost_of
from analytics.parquet.conversion_log import ConvertedFile, begin_attempt
from analytics.queue_events import FileEvents, packed_groups
from analytics.spark.event_source import (
    ARROW,
    DAMAGE,
    arrow_column,
    batches_of_snapshot,
    damage_batch,
    rare_batches_of_piece,
)
from analytics.spark.kept_modules import keep_modules
from native.event_buckets import BucketTable, EventBuckets
from native.log_columns import FilePlace
from native.log_tables import GATHERED
from storage.history.column_reader import ColumnPiece, ColumnReader, log_of
from storage.record import Kind

RAW = "raw"
BUCKETS = 16  # so much of the tables is made anew at least when something happens
SAID = "said"  # the bucket of names, actors and damage
SAID_KINDS = [DAMAGE, int(Kind.NAME), int(Kind.ACTOR)]
COMPRESSION = "zstd"
OFTEN_THE_SAME = ["file", "node", "queue", "kind", "term", "size", "durable"]  # columns: a dictionary
RISING = ["place", "at", "first", "written"]  # each row's distance to the one before
# What is left of numbers then is not worth compressing: a third less time for a file of the same size.
COMPRESSION_OF = {name: COMPRESSION if name == "data" else "none" for name in ARROW.names}
WITH_STATISTICS = ["file", "queue", "place", "at"]  # what somebody looks for by the least and the most of it
# A column that may have no value takes a tenth more time: each row of it says that there is one.
SCHEMA = pa.schema([field.with_nullable(field.name == "at") for field in ARROW])
PIECE_BYTES = 2 << 20  # that are read at once: what a processor has beside it
WRITTEN_TOGETHER_BYTES = 16 << 20  # of all buckets, or all there is at the end: a group of rows has costs of its own


class RawTask(NamedTuple):
    """What one task reads, and where it goes on in files that have been read before."""

    name: str  # of the files that it makes
    files: Sequence[LogFile]
    snapshots: Sequence[SnapshotFile]
    converted: dict[tuple[str, str, int], ConvertedFile]
    making: str  # the directory of the step


class RawDone(NamedTuple):
    """What it made."""

    files: list[ConvertedFile]
    made: list[str]  # below the directory of the step
    rows: int
    first: int | None  # µs
    last: int | None
    damage: list[DamagedBytes]


def bucket_of(queue: int) -> str:
    return f"{queue % BUCKETS:02d}"


def convert_files(task: RawTask) -> RawDone:
    """See the module."""
    keep_modules()
    done = RawDone([], [], 0, None, None, [])
    with RowBuckets(task) as buckets:
        for file in task.files:
            with unless_deleted(file):
                done = _convert(file, task, buckets, done)
        for snapshot in task.snapshots:
            for batch in batches_of_snapshot(snapshot):
                buckets.write(batch)
    pa.default_memory_pool().release_unused()  # the worker stays for a while, and what rows took is half of it
    return done._replace(made=buckets.made, rows=buckets.rows, first=buckets.first, last=buckets.last)


def _convert(file: LogFile, task: RawTask, buckets: RowBuckets, done: RawDone) -> RawDone:
    disk = NodeDisk(file.directory)
    begin = log_of(disk, file.name)
    before = task.converted.get((file.node, begin.log_id.hex(), file.number))
    if before is not None and before.is_whole:
        return done
    start = begin if before is None else FilePlace(before.base, begin.log_id, begin.file, before.commit, before.time)
    reader = ColumnReader(
        disk, file.name, start, is_followed=not file.is_last, until_durable=file.is_last, piece_bytes=PIECE_BYTES
    )
    others, streams = (before.others, before.streams) if before is not None else ((), ())
    events = FileEvents(file.number, others=others, streams=streams)
    for piece in reader.pieces():
        buckets.take(file, events, piece)
    lost = lost_of(file, reader)
    if lost:
        buckets.write(damage_batch(file, lost))
    if before is None or reader.place.base > before.base or not file.is_last:
        place, said = reader.place, (sorted(events.others), sorted(events.streams))
        log_id = begin.log_id.hex()
        row = (file.node, log_id, file.number, place.base, place.commit, place.time, not file.is_last, *said)
        done.files.append(ConvertedFile(*row))
    damage = [DamagedBytes(file.node, file.number, one.offset, one.length, one.torn, one.reason) for one in lost]
    return done._replace(damage=[*done.damage, *damage])


def _known(which: Callable[[list[int]], int], *times: int | None) -> int | None:
    known = [time for time in times if time is not None]
    return which(known) if known else None


def by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each bucket, in their order. They are sorted once, for a filter for each bucket would look at all of them."""
    numbers = pc.bit_wise_and(batch.column("queue"), BUCKETS - 1)
    ordered, start = batch.take(pc.sort_indices(numbers)), 0
    for found in sorted(pc.value_counts(numbers).to_pylist(), key=itemgetter("values")):
        yield found["values"], ordered.slice(start, found["counts"])
        start += found["counts"]


class RowBuckets:
    """Files that rows are written to, each begun when it has one. What waits is written for all buckets at once, so that one
    with few rows does not keep what others have: rows of pieces of a log, which a kernel gathers, and parts of batches."""

    made: list[str]
    rows: int
    first: int | None  # µs
    last: int | None

    def __init__(self, task: RawTask) -> None:
        self.made = []
        self.rows = 0
        self.first = self.last = None
        self._name = f"{task.name}.parquet"
        self._attempt = begin_attempt(task.making)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._gathered = EventBuckets(BUCKETS)
        self._repeated = _Repeated("")

    def __enter__(self) -> RowBuckets:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        for writer in self._writers.values():
            writer.close()

    def take(self, file: LogFile, events: FileEvents, piece: ColumnPiece) -> None:
        """All rows of a piece, all of which is durable."""
        if file.node != self._repeated.node:
            self._flush()
            self._repeated = _Repeated(file.node)
        for batch in rare_batches_of_piece(file, events, piece):
            self.write(batch)
        self._gathered.take(piece.buffer, piece.base, piece.records, file.number, packed_groups(events.others))
        self._flush_if_much()

    def write(self, batch: pa.RecordBatch) -> None:
        said = pc.is_in(batch.column("kind"), pa.array(SAID_KINDS, pa.int32()))
        if pc.any(said).as_py():
            self._keep(SAID, batch.filter(said))
            batch = batch.filter(pc.invert(said))
        for number, rows in by_bucket(batch):
            self._keep(bucket_of(number), rows)
        self._waiting_bytes += batch.nbytes
        self._flush_if_much()

    def _keep(self, bucket: str, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._waiting.setdefault(bucket, []).append(rows)

    def _flush_if_much(self) -> None:
        if self._waiting_bytes + self._gathered.size >= WRITTEN_TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Each bucket as one group of rows."""
        for number in range(BUCKETS):
            gathered = [_gathered_batch(one, self._repeated) for one in self._gathered.tables(number)]
            if gathered:
                rare = self._waiting.pop(bucket_of(number), [])
                self._write(bucket_of(number), [*gathered, *_as_one(rare)])
        for bucket, waiting in self._waiting.items():
            self._write(bucket, _as_one(waiting))
        self._waiting.clear()
        self._gathered.clear()
        self._waiting_bytes = 0

    def _write(self, bucket: str, batches: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_arrays(pa.Table.from_batches(batches).columns, schema=SCHEMA)
        times = pc.min_max(table.column("at")).as_py()
        self.first = _known(min, self.first, times["min"])
        self.last = _known(max, self.last, times["max"])
        self.rows += table.num_rows
        if bucket not in self._writers:
            self._begin(bucket)
        self._writers[bucket].write_table(table)

    def _begin(self, bucket: str) -> None:
        path = self._attempt / RAW / bucket / self._name
        path.parent.mkdir(parents=True)
        self.made.append(str(path.relative_to(self._attempt.parent)))
        self._writers[bucket] = pq.ParquetWriter(
            path,
            SCHEMA,
            compression=COMPRESSION_OF,
            use_dictionary=OFTEN_THE_SAME,
            column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
            write_statistics=WITH_STATISTICS,
        )


def _as_one(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The writer takes a tenth longer for ten."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []


class _Repeated:
    """Columns that are the same in all rows that are gathered of a node: those of more rows than any bucket has had."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._rows = 0
        self._columns: dict[str, pa.Array] = {}

    def columns(self, rows: int) -> dict[str, pa.Array]:
        if rows > self._rows:
            self._rows = 2 * rows
            self._columns = {"node": pa.repeat(self.node, self._rows), "durable": pa.repeat(True, self._rows)}
        return {name: column.slice(0, rows) for name, column in self._columns.items()}


def _gathered_batch(gathered: BucketTable, repeated: _Repeated) -> pa.RecordBatch:
    rows, columns = gathered
    found = {field.name: arrow_column(field, rows, column) for field, column in zip(GATHERED, columns, strict=True)}
    found |= repeated.columns(rows)
    return pa.RecordBatch.from_arrays([found[name] for name in ARROW.names], schema=ARROW)

"""Files of logs as a data source of Spark: `spark.read.format("leveret").option("paths", ...)`.

A row is one event of one queue (analytics/queue_events.py), or who a queue or an actor is; rows of kind DAMAGE are bytes of a
file that could not be read. A task reads files of one node, one behind the other; others read snapshots of groups, and segments
of streams, whose messages stay when they have left the log. The last file of a node is read as far as its marks say that it is
durable, and with the option `tail` to its end. As a stream of Spark it has what is written from now on: stream_source.py.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from analytics.file_window import LookedPiece, entries_of, reader_of
from analytics.inputs import (
    LogFile,
    SnapshotFile,
    files_of_tasks,
    log_files,
    segment_group,
    snapshot_files,
    unless_deleted,
)
from analytics.lost_records import deleted, lost_of
from analytics.queue_events import STANDING_PLACE, STREAM, ActorName, FileEvents, QueueEvent, Said
from analytics.read_snapshots import snapshot_said
from analytics.spark.kept_modules import keep_modules
from analytics.spark.stream_source import LogStreamReader
from analytics.streams.stream_copies import StreamOnNode, stream_members
from analytics.streams.stream_look import logged_stream_event
from native.columns import BINARY, INT8, INT32, INT64, Field, Table
from native.log_tables import EVENTS, RECORDS
from storage.history.column_reader import ColumnPiece, DamagedRange
from storage.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "leveret"
SCHEMA = (
    "file long, queue long, place long, term long, kind int, at long, first long, data binary, size long, durable boolean,"
    " written long, node string"
)
ARROW = pa.schema(
    [
        ("file", pa.int64()), ("queue", pa.int64()), ("place", pa.int64()), ("term", pa.int64()), ("kind", pa.int32()),
        ("at", pa.int64()), ("first", pa.int64()), ("data", pa.binary()), ("size", pa.int64()), ("durable", pa.bool_()),
        ("written", pa.int64()), ("node", pa.string()),
    ]
)  # fmt: skip
ARROW_TYPES = {INT64: pa.int64(), INT32: pa.int32(), INT8: pa.int8(), BINARY: pa.binary()}
DAMAGE = 0  # no record has this kind
TASK_BYTES = 256 << 20
TASK_SNAPSHOTS = 1_000
SNAPSHOT_BYTES_MAX = 64 << 20  # a row has all of it; without a larger one the fold says what is missing

Row = tuple[int, int, int, int, int, int | None, int, bytes, int, bool, int, str]


class Files(InputPartition):
    """What one task reads."""

    def __init__(self, files: Sequence[LogFile]) -> None:
        super().__init__(list(files))
        self.files = list(files)


class Snapshots(InputPartition):
    """What another task reads."""

    def __init__(self, files: Sequence[SnapshotFile]) -> None:
        super().__init__(list(files))
        self.files = list(files)


class StreamsOnNodes(InputPartition):
    """What nodes say of their members of streams."""

    def __init__(self, members: Sequence[StreamOnNode]) -> None:
        super().__init__(list(members))
        self.members = list(members)


def read_options(spark: SparkSession, paths: list[str], *, tail: bool) -> dict[str, str]:
    """Of a reader of all that these logs say."""
    cores = str(spark.sparkContext.defaultParallelism)
    return {"paths": json.dumps(paths), "tail": str(tail).lower(), "cores": cores}


def cores_of(options: Mapping[str, str]) -> int:
    """The option; 1: nobody says."""
    return int(options.get("cores", "1"))


def tasks_of_cores(files: Sequence[LogFile], cores: int) -> list[list[LogFile]]:
    """As few as there may be of TASK_BYTES, for each has costs of its own, but something for each core to read."""
    return files_of_tasks(files, min(TASK_BYTES, -(-sum(file.size for file in files) // cores)))


class EventReader(DataSourceReader):
    def __init__(self, paths: Sequence[str], *, tail: bool, cores: int) -> None:
        self._paths = paths
        self._tail = tail
        self._cores = cores

    def partitions(self) -> list[InputPartition]:
        files = log_files(self._paths)
        members = stream_members(sorted({(file.node, file.directory) for file in files}))
        segments = [file for member in members for file in member.segments()]
        tasks = [*tasks_of_cores(files, self._cores), *files_of_tasks(segments, TASK_BYTES)]
        snapshots = [file for file in snapshot_files(self._paths) if file.size <= SNAPSHOT_BYTES_MAX]
        read_together = [
            Snapshots(snapshots[at : at + TASK_SNAPSHOTS]) for at in range(0, len(snapshots), TASK_SNAPSHOTS)
        ]
        streams = [StreamsOnNodes(members)] if members else []
        return [*(Files(files) for files in tasks), *read_together, *streams]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keep_modules()
        if isinstance(partition, Files):
            for file in partition.files:
                yield from batches_of(file, tail=self._tail)
        elif isinstance(partition, Snapshots):
            for snapshot in partition.files:
                yield from batches_of_snapshot(snapshot)
        elif isinstance(partition, StreamsOnNodes):
            yield from batches_of_members(partition.members)


class EventSource(DataSource):
    """Option `paths`: a JSON list of them. Option `tail`: whether to read what is not known to be durable. Option `cores`: so
    many are to have something to read."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> EventReader:
        paths = json.loads(self.options.get("paths", "[]"))
        if not paths:
            raise ValueError('say which logs to read: option("paths", \'["DIRECTORY", ...]\')')
        return EventReader(paths, tail=self.options.get("tail") == "true", cores=cores_of(self.options))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802  # Spark's name
        return LogStreamReader(self.options, EventRows)


class EventRows:
    """Those of a stream: fulfils RangeRows."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._events = FileEvents(file.number)

    def note(self, piece: ColumnPiece) -> None:
        self._events.said(piece)

    def rows(self, piece: ColumnPiece) -> Iterator[pa.RecordBatch]:
        return batches_of_piece(self._file, self._events, piece)

    def damaged(self, damage: Sequence[DamagedRange]) -> Iterator[pa.RecordBatch]:
        yield damage_batch(self._file, damage)


def batches_of(file: LogFile, *, tail: bool) -> Iterator[pa.RecordBatch]:
    """What one file says, piece by piece, and what of it could not be read."""
    lost, group = deleted(file), segment_group(file)
    with unless_deleted(file):
        reader, durable = reader_of(file, tail=tail)
        events = FileEvents(file.number, durable)
        for piece in reader.pieces():
            yield from (
                batches_of_piece(file, events, piece) if group is None else batches_of_segment(file, piece, group)
            )
        lost = lost_of(file, reader)
    if lost:
        yield damage_batch(file, lost)


def batches_of_snapshot(file: SnapshotFile) -> Iterator[pa.RecordBatch]:
    """What it says; nothing if it cannot be read: then the fold says what is missing."""
    said = snapshot_said(file)
    if said is not None:
        yield arrow_batch(ARROW, [(file.number, *one) for one in said])


def batches_of_members(members: Sequence[StreamOnNode]) -> Iterator[pa.RecordBatch]:
    """Who they are, and which streams these are of."""
    rows = [(0, *one) for member in members for one in member.events()]
    names = [_name_row(0, member.node, member.identity.group, STREAM, member.identity.name) for member in members]
    yield arrow_batch(ARROW, [*names, *rows])


def batches_of_piece(file: LogFile, events: FileEvents, piece: ColumnPiece) -> Iterator[pa.RecordBatch]:
    yield from rare_batches_of_piece(file, events, piece)
    yield from _commit_batch(file, events, piece)
    made = events.events(piece)
    if made[0]:
        yield _event_batch(file, events, made)


def rare_batches_of_piece(file: LogFile, events: FileEvents, piece: ColumnPiece) -> Iterator[pa.RecordBatch]:
    """All but what a kernel finds: events of queues, and how far members have committed. To be asked before that."""
    said = events.said(piece, with_commits=False)
    if said:
        yield arrow_batch(ARROW, [_said_row(file, one) for one in said])
    yield from _stream_batch(file, LookedPiece(piece, events, said), events.streams)


def batches_of_segment(file: LogFile, piece: ColumnPiece, group: int) -> Iterator[pa.RecordBatch]:
    """A file of the log that was kept as a segment has records of others, too: they are not read here."""
    yield from _stream_batch(file, LookedPiece(piece, FileEvents(file.number, is_segment=True), []), (group,))


def _stream_batch(file: LogFile, looked: LookedPiece, streams: Collection[int]) -> Iterator[pa.RecordBatch]:
    if not streams:
        return
    rows = [(file.number, *logged_stream_event(one, file.node)) for one in entries_of(looked, streams)]
    if rows:
        yield arrow_batch(ARROW, rows)


def _commit_batch(file: LogFile, events: FileEvents, piece: ColumnPiece) -> Iterator[pa.RecordBatch]:
    """How far members have committed: of such records the head says all."""
    if not piece.kinds().count(Kind.RAFT_COMMIT):
        return
    names = [field.name for field in RECORDS]
    found = pa.RecordBatch.from_arrays(arrow_columns(RECORDS, piece.records), names=names)
    found = found.filter(pc.equal(found.column("kind"), int(Kind.RAFT_COMMIT)))
    rows = found.num_rows
    columns = {
        "queue": found.column("writer"), "term": found.column("term"), "kind": found.column("kind"),
        "at": found.column("time"), "first": found.column("index"),
        "place": _repeated(STANDING_PLACE, "place", rows), "size": _repeated(0, "size", rows),
        "written": _repeated(0, "written", rows), "data": _repeated(b"", "data", rows),
        **_of_file(file, events, found.column("offset")),
    }  # fmt: skip
    yield pa.RecordBatch.from_arrays([columns[name] for name in ARROW.names], schema=ARROW)


def _repeated(value: object, name: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, ARROW.field(name).type), rows)


def _of_file(file: LogFile, events: FileEvents, offsets: pa.Array) -> dict[str, pa.Array]:
    """Columns that are the same for rows of one file, but for those behind what is known to be durable."""
    rows = len(offsets)
    durable = bisect_left(offsets, True, key=lambda offset: not events.is_durable(offset.as_py()))
    return {
        "file": _repeated(file.number, "file", rows), "node": _repeated(file.node, "node", rows),
        "durable": pa.concat_arrays([pa.repeat(True, durable), pa.repeat(False, rows - durable)]),
    }  # fmt: skip


def _event_batch(file: LogFile, events: FileEvents, made: Table) -> pa.RecordBatch:
    columns = dict(zip((field.name for field in EVENTS), arrow_columns(EVENTS, made), strict=True))
    offsets = columns.pop("offset")
    columns["written"] = pc.add(offsets, events.written_base)
    columns |= _of_file(file, events, offsets)
    return pa.RecordBatch.from_arrays([columns[name] for name in ARROW.names], schema=ARROW)


def _said_row(file: LogFile, said: Said) -> Row:
    if isinstance(said, QueueEvent):
        return file.number, *said[:-1], file.node
    if isinstance(said, ActorName):
        row = json.dumps(said.row._asdict()).encode()
        return file.number, said.number, said.place, 0, int(Kind.ACTOR), None, 0, row, 0, True, 0, file.node
    return _name_row(file.number, file.node, *said)


def _name_row(file: int, node: str, queue: int, kind: str, name: str) -> Row:
    text = str(tamed(f"{kind}\n{name}")).encode()
    return file, queue, 0, 0, int(Kind.NAME), None, 0, text, 0, True, 0, node


def damage_batch(file: LogFile, damage: Sequence[DamagedRange]) -> pa.RecordBatch:
    """What could not be read of a file."""
    return arrow_batch(ARROW, [_damage_row(file, one) for one in damage])


def _damage_row(file: LogFile, damage: DamagedRange) -> Row:
    text = json.dumps({"length": damage.length, "torn": damage.torn, "reason": damage.reason}).encode()
    return file.number, 0, damage.offset, 0, DAMAGE, None, 0, text, 0, True, 0, file.node


def check_columns(table: str, asked: Iterable[str], known: Collection[str]) -> None:
    """Raises ValueError for one that the table has not."""
    if unknown := [name for name in asked if name not in known]:
        raise ValueError(f"{table} has no column {', '.join(unknown)}: it has {', '.join(known)}")


def arrow_columns(fields: Sequence[Field], made: Table) -> list[pa.Array]:
    """The columns of a kernel's table, without a copy."""
    rows, columns = made
    return [arrow_column(field, rows, column) for field, column in zip(fields, columns, strict=True)]


def arrow_column(field: Field, rows: int, column: Sequence[bytes | memoryview | None]) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in column]
    return pa.Array.from_buffers(ARROW_TYPES[field.kind], rows, buffers)


def arrow_batch(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Of values as a log may have them, whatever clients and damage have put there: see `tamed`."""
    columns = zip(*rows, strict=True)
    arrays = [arrow_array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_array(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    """The same of one column."""
    try:
        return pa.array(values, of)
    except (OverflowError, UnicodeEncodeError):
        return pa.array([tamed(one) for one in values], of)


def tamed(value: Any) -> Any:
    """A name that is no UTF-8 with its other bytes written out; a number of 64 bits as one with a sign, which Arrow has."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, int):
        return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
    return value

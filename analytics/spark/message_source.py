"""Single messages as a data source of Spark: `spark.read.format("leveret-messages").option("paths", ...)`.

A row is one message of a classic or quorum queue, as one file of a log has it: where it lies in its queue, what its publisher
called it, and a digest of its body. Dead letters are left out where the log says that they are some: nobody published them
again. A task reads files of one node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from analytics.file_window import reader_of
from analytics.inputs import LogFile, files_of_tasks, log_files, while_there
from analytics.queue_events import QUORUM, FileEvents, QueueName, packed_groups
from analytics.spark.event_source import TASK_BYTES, Files, arrow_batch
from native import message_columns
from native.columns import Column, rows_of, values
from native.log_columns import origins, publishes
from native.log_tables import ORIGINS, PUBLISHES, RECORDS
from native.message_columns import MESSAGES, PROPERTIES
from storage.history.column_reader import ColumnPiece

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "leveret-messages"
SCHEMA = "queue long, pos long, off int, nth long, term long, message_id string, body_bytes long, body_digest binary"
ARROW = pa.schema(
    [
        ("queue", pa.int64()), ("pos", pa.int64()), ("off", pa.int32()), ("nth", pa.int64()), ("term", pa.int64()),
        ("message_id", pa.string()), ("body_bytes", pa.int64()), ("body_digest", pa.binary()),
    ]
)  # fmt: skip
DIGEST_BYTES = 16  # two of a billion bodies with one digest are not to be expected
_AT = {one.name: at for at, one in enumerate(MESSAGES)}
_RUN = {one.name: at for at, one in enumerate(PUBLISHES)}
_ORIGIN = {one.name: at for at, one in enumerate(ORIGINS)}
_MESSAGE_ID = next(at for at, one in enumerate(PROPERTIES) if one.name == "message_id")

MessageRow = tuple[int, int, int, int, int, str | None, int, bytes]


class MessageReader(DataSourceReader):
    def __init__(self, paths: Sequence[str], *, tail: bool) -> None:
        self._paths = paths
        self._tail = tail

    def partitions(self) -> list[InputPartition]:
        return [Files(files) for files in files_of_tasks(log_files(self._paths), TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files), f"{partition!r} is of no reader of messages"
        for file in partition.files:
            with while_there(file):
                for rows in messages_of(file, tail=self._tail):
                    yield arrow_batch(ARROW, rows)


class MessageSource(DataSource):
    """Options as those of analytics/spark/event_source.py."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> MessageReader:
        return MessageReader(json.loads(self.options["paths"]), tail=self.options.get("tail") == "true")


def messages(spark: SparkSession, paths: list[str], *, tail: bool = False) -> DataFrame:
    """Those that the logs below these paths have."""
    spark.dataSource.register(MessageSource)
    return spark.read.format(FORMAT).option("paths", json.dumps(paths)).option("tail", str(tail).lower()).load()


def messages_of(file: LogFile, *, tail: bool) -> Iterator[list[MessageRow]]:
    """Piece by piece, of those that have some."""
    reader, durable = reader_of(file, tail=tail)
    said, quorum = FileEvents(file.number, durable), set[int]()
    for piece in reader.pieces():
        quorum |= {
            one.queue
            for one in said.said(piece, with_commits=False)
            if isinstance(one, QueueName) and one.kind == QUORUM
        }
        rows = _rows_of(piece, quorum)
        if rows:
            yield rows


def _rows_of(piece: ColumnPiece, quorum: set[int]) -> list[MessageRow]:
    groups = packed_groups(quorum)
    made = publishes(piece.buffer, piece.base, piece.records, groups)
    runs = rows_of(PUBLISHES, made)
    letters = _dead_letters(piece, groups)
    terms = _terms_of(piece)
    places = [_numbers(made[1][_RUN[name]]) for name in ("content_at", "stored_bytes", "count")]
    count, found = message_columns.messages(piece.buffer, piece.base, *places)
    of_run, nths, bodies, sizes = (
        values(MESSAGES[_AT[name]], count, found[_AT[name]]) for name in ("run", "nth", "body_at", "body_bytes")
    )
    ids = _message_ids(piece, count, found)
    view = memoryview(piece.buffer)
    rows: list[MessageRow] = []
    for run, nth, body, size, named in zip(of_run, nths, bodies, sizes, ids, strict=True):
        one = runs[run]
        if one["src_queue"] is None and (one["offset"], one["pos"], one["off"], nth) not in letters:
            start = body - piece.base
            digest = blake2b(view[start : start + size], digest_size=DIGEST_BYTES).digest()
            rows.append((one["queue"], one["pos"], one["off"], nth, terms[one["offset"]], named, size, digest))
    return rows


def _dead_letters(piece: ColumnPiece, groups: bytes) -> set[tuple[int, ...]]:
    """Of quorum queues, whose log says it of each part of a run: the record, entry and op, and the how manieth message."""
    count, found = origins(piece.buffer, piece.base, piece.records, groups)
    *places, sources = (
        values(ORIGINS[_ORIGIN[name]], count, found[_ORIGIN[name]])
        for name in ("offset", "entry", "off", "nth", "src_queue")
    )
    return {tuple(place) for *place, source in zip(*places, sources, strict=True) if source is not None}


def _message_ids(piece: ColumnPiece, count: int, found: Sequence[Column]) -> list[str | None]:
    places = (_numbers(found[_AT[name]]) for name in ("props_at", "props_bytes"))
    _, said = message_columns.properties(piece.buffer, piece.base, *places)
    ids = values(PROPERTIES[_MESSAGE_ID], count, said[_MESSAGE_ID])
    return [one.decode("utf-8", "backslashreplace") if one else None for one in ids]


def _terms_of(piece: ColumnPiece) -> dict[int, int]:
    """Of each record, by where it lies."""
    rows, made = piece.records
    offset, term = (next(at for at, one in enumerate(RECORDS) if one.name == name) for name in ("offset", "term"))
    return dict(zip(values(RECORDS[offset], rows, made[offset]), values(RECORDS[term], rows, made[term]), strict=True))


def _numbers(column: Column) -> Any:
    assert column[1] is not None, "a column without numbers"
    return column[1]

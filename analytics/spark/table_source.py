"""What logs say, row by row, as tables of Spark: `spark.read.format("leveret-table").option("table", "publishes")`.

    publishes   a row for each run of messages that came to a queue
    settles     a row for each range that left its queue, or went back to it
    messages    a row for each message of the runs

Rows are columns from the kernels to Spark and never Python's objects, so what is asked of a whole archive is best asked of
these: tens of millions of messages a second as runs, some millions as messages. Nothing is folded: an entry of a replicated log
has a row for each node that has it, and for each term. Spark prunes no columns of such a source; with a schema of some of them,
as "queue long, count long", only those are made. The other options are those of analytics/spark/event_source.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from analytics.file_window import reader_of
from analytics.inputs import LogFile, log_files, while_there
from analytics.queue_events import QUORUM, FileEvents, QueueName, packed_groups
from analytics.spark.event_source import (
    Files,
    arrow_columns,
    check_columns,
    cores_of,
    read_options,
    tasks_of_cores,
)
from analytics.spark.kept_modules import keep_modules
from analytics.spark.life_columns import TIME, YEAR_10000_MS
from analytics.spark.stream_source import LogStreamReader
from native import message_columns
from native.columns import Column, Field
from native.log_columns import publishes, settles
from native.log_tables import DEATHS, OUTCOMES, PUBLISHES, SETTLES
from native.message_columns import MESSAGES
from storage.history.column_reader import ColumnPiece, DamagedRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "leveret-table"
SPARK_TYPES = {
    pa.int64(): "long", pa.int32(): "int", pa.bool_(): "boolean", pa.string(): "string", TIME: "timestamp",
}  # fmt: skip
PLACE = {"node": pa.string(), "file": pa.int64()}
RUN = {
    "queue": pa.int64(), "pos": pa.int64(), "off": pa.int32(), "published_at": TIME, "exchange": pa.string(),
    "routing_key": pa.string(), "persistent": pa.bool_(), "priority": pa.int32(), "expires_at": TIME,
}  # fmt: skip
DEATH = {
    "src_queue": pa.int64(), "src_pos": pa.int64(), "src_off": pa.int64(), "src_nth": pa.int64(), "src_reason": pa.string(),
}  # fmt: skip

Made = dict[str, pa.Array]
Wanted = Sequence[str]


class LogTable(NamedTuple):
    """One of the tables: its columns, and how they are made of what the kernels found."""

    columns: Mapping[str, pa.DataType]
    made: Callable[[ColumnPiece, bytes, Wanted], tuple[int, Made]]

    def schema(self) -> str:
        return ", ".join(f"{name} {SPARK_TYPES[of]}" for name, of in self.columns.items())


def made_publishes(piece: ColumnPiece, groups: bytes, wanted: Wanted) -> tuple[int, Made]:
    """`groups`: quorum queues, u64 ascending. `wanted`: the columns that are asked for; the others need not be made."""
    found = publishes(piece.buffer, piece.base, piece.records, groups)
    return found[0], _run_columns(_by_name(PUBLISHES, found), wanted)


def _run_columns(raw: Made, wanted: Wanted) -> Made:
    return {name: _RUN_COLUMNS[name](raw) for name in wanted if name in _RUN_COLUMNS}


def made_settles(piece: ColumnPiece, groups: bytes, wanted: Wanted) -> tuple[int, Made]:
    """The same, of ranges."""
    found = settles(piece.buffer, piece.base, piece.records, groups)
    raw = _by_name(SETTLES, found)
    made = {name: raw[name] for name in wanted if name in raw}
    if "settled_at" in wanted:
        made["settled_at"] = _times(raw["time"])
    if "outcome" in wanted:
        made["outcome"] = _named(raw["outcome"], OUTCOMES)
    return found[0], made


def made_messages(piece: ColumnPiece, groups: bytes, wanted: Wanted) -> tuple[int, Made]:
    """The same, of single messages: columns of their runs are repeated."""
    runs = publishes(piece.buffer, piece.base, piece.records, groups)
    places = [_numbers(runs[1][_RUN_AT[name]]) for name in ("content_at", "stored_bytes", "count")]
    found = message_columns.messages(piece.buffer, piece.base, *places)
    raw = _by_name(MESSAGES, found)
    made = {name: one.take(raw["run"]) for name, one in _run_columns(_by_name(PUBLISHES, runs), wanted).items()}
    return found[0], made | {name: raw[name] for name in ("nth", "body_bytes") if name in wanted}


def _by_name(fields: Sequence[Field], made: tuple[int, tuple[Column, ...]]) -> Made:
    return dict(zip((field.name for field in fields), arrow_columns(fields, made), strict=True))


def _numbers(column: Column) -> bytes:
    assert column[1] is not None, "a column without numbers"
    return column[1]


def as_text(names: pa.Array) -> pa.Array:
    """What clients chose as a name; bytes that are no UTF-8 are written as they are written in Python."""
    text = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([one and one.decode("utf-8", "backslashreplace") for one in names.to_pylist()], pa.string())
    return text


def _times(micros: pa.Array) -> pa.Array:
    """One that no calendar has, as in a damaged log, is none."""
    is_time = pc.and_(pc.greater_equal(micros, 0), pc.less(micros, YEAR_10000_MS * 1_000))
    return pc.if_else(is_time, micros, pa.scalar(None, micros.type)).cast(TIME)


def _named(numbers: pa.Array, names: Mapping[int, str]) -> pa.Array:
    """A number without a name is null."""
    known = pc.index_in(numbers, pa.array(list(names), numbers.type))
    return pa.array(list(names.values())).take(known)


def _column(name: str) -> Callable[[Made], pa.Array]:
    return lambda raw: raw[name]


_RUN_AT = {one.name: at for at, one in enumerate(PUBLISHES)}
_RUN_COLUMNS: dict[str, Callable[[Made], pa.Array]] = {
    **{name: _column(name) for name in _RUN_AT},
    "published_at": lambda raw: _times(raw["time"]),
    "expires_at": lambda raw: _times(pc.multiply(raw["expires_at"], 1_000)),
    "exchange": lambda raw: as_text(raw["exchange"]),
    "routing_key": lambda raw: as_text(raw["routing_key"]),
    "persistent": lambda raw: raw["persistent"].cast(pa.bool_()),
    "confirm": lambda raw: raw["confirm"].cast(pa.bool_()),
    "src_reason": lambda raw: _named(raw["src_reason"], dict(enumerate(DEATHS))),
}
TABLES = {
    "publishes": LogTable(
        {
            **PLACE, **RUN, "count": pa.int64(), "body_bytes": pa.int64(), "stored_bytes": pa.int64(),
            "session_node": pa.int64(), "session_inc": pa.int64(), "sequence": pa.int64(), "confirm": pa.bool_(), **DEATH,
        },
        made_publishes,
    ),
    "settles": LogTable(
        {
            **PLACE, "queue": pa.int64(), "pos": pa.int64(), "off": pa.int32(), "settled_at": TIME, "outcome": pa.string(),
            "first": pa.int64(), "count": pa.int64(), "actor": pa.int64(), "consumer_node": pa.int64(),
            "consumer_inc": pa.int64(), "consumer_no": pa.int64(),
        },
        made_settles,
    ),
    "messages": LogTable({**PLACE, **RUN, "nth": pa.int32(), "body_bytes": pa.int64()}, made_messages),
}  # fmt: skip


class TableReader(DataSourceReader):
    def __init__(self, table: str, wanted: Wanted, paths: Sequence[str], *, tail: bool, cores: int) -> None:
        self._table = table
        self._wanted = list(wanted)
        self._paths = paths
        self._tail = tail
        self._cores = cores

    def partitions(self) -> list[InputPartition]:
        return [Files(files) for files in tasks_of_cores(log_files(self._paths), self._cores)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keep_modules()
        assert isinstance(partition, Files), f"{partition!r} is of no reader of tables"
        for file in partition.files:
            with while_there(file):
                yield from table_batches(self._table, self._wanted, file, tail=self._tail)


class TableSource(DataSource):
    """Option `table`: one of TABLES."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return TABLES[self.options["table"]].schema()

    def reader(self, schema: StructType) -> TableReader:
        table, tail = self.options["table"], self.options.get("tail") == "true"
        paths, wanted = json.loads(self.options["paths"]), self._wanted(table, schema)
        return TableReader(table, wanted, paths, tail=tail, cores=cores_of(self.options))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802  # Spark's name
        table = self.options["table"]
        return LogStreamReader(self.options, partial(TableRows, table, self._wanted(table, schema)))

    def _wanted(self, table: str, schema: StructType) -> Wanted:
        check_columns(table, schema.names, TABLES[table].columns)
        names: list[str] = schema.names
        return names


def log_table(spark: SparkSession, table: str, paths: list[str], *, tail: bool = False, columns: str = "") -> DataFrame:
    """One of TABLES, of the logs below these paths. `columns`: a schema, as "queue long, count long"; empty: all."""
    spark.dataSource.register(TableSource)
    reader = spark.read.format(FORMAT).option("table", table).options(**read_options(spark, paths, tail=tail))
    return (reader.schema(columns) if columns else reader).load()


def table_batches(table: str, wanted: Wanted, file: LogFile, *, tail: bool) -> Iterator[pa.RecordBatch]:
    """What one file says, piece by piece."""
    rows, (reader, _) = TableRows(table, wanted, file), reader_of(file, tail=tail)
    for piece in reader.pieces():
        yield from rows.rows(piece)


class TableRows:
    """Of one file. Fulfils RangeRows."""

    def __init__(self, table: str, wanted: Wanted, file: LogFile) -> None:
        self._file = file
        self._made = TABLES[table].made
        self._wanted = wanted
        self._schema = pa.schema([(name, TABLES[table].columns[name]) for name in wanted])
        self._said = FileEvents(file.number)
        self._quorum: set[int] = set()

    def note(self, piece: ColumnPiece) -> None:
        said = self._said.said(piece, with_commits=False)
        self._quorum |= {one.queue for one in said if isinstance(one, QueueName) and one.kind == QUORUM}

    def rows(self, piece: ColumnPiece) -> Iterator[pa.RecordBatch]:
        self.note(piece)
        rows, made = self._made(piece, packed_groups(self._quorum), self._wanted)
        if "node" in self._wanted:
            made["node"] = pa.repeat(self._file.node, rows)
        if "file" in self._wanted:
            made["file"] = pa.repeat(pa.scalar(self._file.number, pa.int64()), rows)
        if rows:
            yield pa.RecordBatch.from_arrays([made[name] for name in self._wanted], schema=self._schema)

    def damaged(self, damage: Sequence[DamagedRange]) -> Iterator[pa.RecordBatch]:
        """No row of these tables says it; those of the format `leveret` do."""
        return iter(())

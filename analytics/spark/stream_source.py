"""The same rows as they are written: `spark.readStream.format("leveret")` and `.format("leveret-table")`.

A batch is what lies between two positions in the logs of all nodes (analytics/follow/log_positions.py), below what is known to
be durable: a query that is stopped, killed or starts on another machine reads the same batch again, and goes on behind it. The
batches of a query together are what the batch sources read of the same files of the log; snapshots of groups and segments of
streams, which are no part of a log that is written, are left to those.

    startingOffsets      `earliest` (default): from the first file that is there; `latest`: from what is written now on. Nodes
                         that come later are read from their first file
    maxFilesPerTrigger, maxBytesPerTrigger
                         so much in one batch, of all nodes together; one file is always taken. Default: 256 MiB
    failOnDataLoss       `true` (default): a query fails where a node has deleted files before they were read. `false`: it goes
                         on; of the format `leveret` a row of kind DAMAGE says which file it was

The option `tail` is not one of these: what may not stay in a log would be in a batch that was written already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from analytics.follow.log_positions import (
    LogEnds,
    LogRange,
    NodePosition,
    admitted,
    as_offset,
    ends_of,
    positions_of,
    ranges,
)
from analytics.follow.range_pieces import DataLost, RangeReader
from analytics.inputs import LogFile, log_files
from storage.history.column_reader import ColumnPiece, DamagedRange

BATCH_BYTES = 256 << 20
STARTING = ("earliest", "latest")


class RangeRows(Protocol):
    """What makes rows of one file's records."""

    def note(self, piece: ColumnPiece) -> None:
        """What stands before them."""

    def rows(self, piece: ColumnPiece) -> Iterator[pa.RecordBatch]: ...

    def damaged(self, damage: Sequence[DamagedRange]) -> Iterator[pa.RecordBatch]: ...


class MakeRows(Protocol):
    def __call__(self, file: LogFile) -> RangeRows: ...


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, of: LogRange) -> None:
        super().__init__(tuple(of))
        self.of = of


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. Raises ValueError for options that it does not know."""

    def __init__(self, options: Mapping[str, str], make: MakeRows) -> None:
        self._paths: list[str] = json.loads(options.get("paths", "[]"))
        self._starting = options.get("startingOffsets", STARTING[0])
        self._limit = _limit_of(options)
        self._fails_on_loss = options.get("failOnDataLoss", "true") != "false"
        self._make = make
        self._ends = LogEnds()
        self._last: dict[str, NodePosition] | None = None  # a query that ends with what is there now
        if options.get("tail") == "true":
            raise ValueError("a stream has what is durable only: leave out the option `tail`")
        if self._starting not in STARTING:
            raise ValueError(f"startingOffsets is {self._starting!r}, and {' or '.join(STARTING)} is known")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name, as are those below
        return as_offset(self._now() if self._starting == "latest" else {})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limit

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        logs = self._ends.look(log_files(self._paths))
        if self._last is not None:
            logs = [log.up_to(self._last[log.node]) for log in logs if log.node in self._last]
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return as_offset(admitted(positions_of(start), logs, files_max=files, bytes_max=size))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return as_offset(self._now())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        logs = self._ends.look(log_files(self._paths))
        found = ranges(positions_of(start), positions_of(end), logs)
        for one in found:
            if one.lost is not None:
                self._lose(one)
        return [RangePartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition), f"{partition!r} is of no reader of streams"
        of = partition.of
        made, reader = self._make(LogFile(of.node, of.directory, "", of.number, 0, is_last=False)), RangeReader(of)
        try:
            for piece in reader.before():
                made.note(piece)
            for piece in reader.pieces():
                yield from made.rows(piece)
            damage = reader.damage
        except DataLost as lost:
            self._lose(of._replace(lost=str(lost)))
            damage = [DamagedRange(of.start, 0, torn=False, reason=str(lost))]
        if damage:
            yield from made.damaged(damage)

    def _now(self) -> dict[str, NodePosition]:
        return ends_of(self._ends.look(log_files(self._paths)))

    def _lose(self, of: LogRange) -> None:
        if self._fails_on_loss:
            what = f"file {of.number} of the log of {of.node} was not read: {of.lost}"
            raise ValueError(f"{what}. With the option failOnDataLoss = false the query goes on")


def _limit_of(options: Mapping[str, str]) -> ReadLimit:
    if "maxFilesPerTrigger" in options:
        return ReadMaxFiles(int(options["maxFilesPerTrigger"]))
    asked = options.get("maxBytesPerTrigger", str(BATCH_BYTES))
    return ReadAllAvailable() if asked == "all" else ReadMaxBytes(int(asked))

"""Logs that are being written as Parquet: each batch of a stream of Spark is a step, of the same directory as a conversion's.

A batch that Spark gives again, because it was stopped before it knew that the batch had happened, is one that the directory
has: the line of a step has its number. So rows are there once, wherever the stream was stopped.

`raw` has a batch as soon as it is read. The tables made of it take longer the more there is: each queue of a changed bucket is
folded from its beginning. So they are made anew as often as that takes TABLES_SHARE of the time at most, and at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analytics.coverage import Coverage, DamagedBytes, iso_time
from analytics.inputs import LogFile, SnapshotFile, log_files, snapshot_files, without_bodies
from analytics.parquet.bucket_tables import EVENTS_TABLE, LIVES_TABLE
from analytics.parquet.conversion_log import ConversionLog, ConversionStep
from analytics.parquet.convert import COVERAGE, StepMaker, buckets_of, kept_coverage, moves_of, told_of
from analytics.parquet.raw_files import RAW, RawTask, RowBuckets, convert_files
from analytics.spark.event_source import DAMAGE, arrow_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CHECKPOINT = "_checkpoint"  # of the stream
TABLES_SHARE = 0.05  # of the time: what comes meanwhile waits, and is not to be more than the latest of a twentieth
_MADE = "made array<string>, rows long, first long, last long, damage array<string>"
_MADE_ARROW = pa.schema(
    [
        ("made", pa.list_(pa.string())), ("rows", pa.int64()), ("first", pa.int64()), ("last", pa.int64()),
        ("damage", pa.list_(pa.string())),
    ]
)  # fmt: skip


class BatchTaken(NamedTuple):
    """What one batch came to."""

    batch: int
    rows: int
    lag_s: float | None  # since its first row was written; None: no row of it says when that was
    tables: bool  # whether they were made anew


class Follower:
    """See the module. Holds the directory while it lives. Raises ValueError for one that `convert` has made."""

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        directory: Path,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._told: list[BatchTaken] = []
        self._spark = spark
        self._paths = list(paths)
        self._log = ConversionLog(directory)
        self._monotonic = monotonic
        self._lock = Lock()  # a batch may still be taken where Spark has been told to stop
        self._tables_at, self._tables_took = 0.0, 0.0
        if wrong := self._what_is_wrong():
            self.close()
            raise ValueError(wrong)

    def _what_is_wrong(self) -> str | None:
        """Of what the directory has been."""
        if any(step.files for step in self._log.steps):
            return f"{self.directory} is made by `convert`, which goes on there; follow to another one"
        if self._log.last_batch() >= 0 and not (self.directory / CHECKPOINT).is_dir():
            return f"{self.directory} has lost its {CHECKPOINT}, which says how far the logs were read; follow to another one"
        return None

    def take_told(self) -> list[BatchTaken]:
        """What was taken since this was last asked."""
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        self._log.__exit__()

    def take(self, batch: DataFrame, number: int) -> None:
        """As Spark gives it to `foreachBatch`."""
        with self._lock:
            if number > self._log.last_batch():
                self._take(batch, number)

    def _take(self, batch: DataFrame, number: int) -> None:
        is_due = (self._monotonic() - self._tables_at) * TABLES_SHARE >= self._tables_took
        began = self._monotonic()
        step = BatchStep(self._spark, self._log, self._paths)
        rows, first = step.take_batch(batch, number, with_tables=is_due)
        if is_due:
            self._tables_at = self._monotonic()
            self._tables_took = self._tables_at - began
        lag = None if first is None else round(time.time() - first / 1e6, 3)
        if rows:
            self._told.append(BatchTaken(number, rows, lag, is_due))

    def finish(self) -> Coverage:
        """The tables of all that was taken. All that the directory stands on."""
        with self._lock:
            if stale_buckets(self._log):
                BatchStep(self._spark, self._log, self._paths).take_batch(None, None, with_tables=True)
            return kept_coverage(self._log.directory)


class BatchStep(StepMaker):
    """One step: rows of a batch, snapshots that were not read yet, or tables of what steps before have brought."""

    def __init__(self, spark: SparkSession, log: ConversionLog, paths: Sequence[str]) -> None:
        super().__init__(spark, log)
        self._paths = paths

    def take_batch(self, batch: DataFrame | None, number: int | None, *, with_tables: bool) -> tuple[int, int | None]:
        """How many rows it has, and when the first was written (µs)."""
        name = f"{len(self._log.steps) + 1:06d}"
        written = [] if batch is None else batch.mapInArrow(bucket_writer(name, str(self._making)), _MADE).collect()
        new = self._unread(snapshot_files(self._paths))
        made = [one for row in written for one in row.made] + self._snapshots(name, new)
        buckets = sorted({*stale_buckets(self._log), *buckets_of(made)})
        if not made and not (with_tables and buckets):
            return 0, None
        tables = self._tables(made, buckets) if with_tables else []
        self._cover_batch(log_files(self._paths), written)
        rows = {
            RAW: sum(row.rows for row in written),
            LIVES_TABLE: sum(row.lives for row in tables),
            EVENTS_TABLE: sum(row.events for row in tables),
        }
        moves = moves_of(made, tables, with_names=with_tables)
        self._log.commit(ConversionStep([], told_of(new), moves, rows, number))
        return rows[RAW], min((row["first"] for row in written if row["first"] is not None), default=None)

    def _snapshots(self, name: str, new: Sequence[SnapshotFile]) -> list[str]:
        if not new:
            return []
        task = RawTask(f"{name}-snapshots", (), new, {}, str(self._making))
        done = self._spark.sparkContext.parallelize([task], 1).map(convert_files).collect()
        return [one for each in done for one in each.made]

    def _cover_batch(self, files: Sequence[LogFile], written: Sequence[Row]) -> None:
        """Of files what there is of them now: some of before may be gone."""
        before = kept_coverage(self._log.directory)
        firsts = [before.first, *(iso_time(row["first"]) for row in written)]
        lasts = [before.last, *(iso_time(row["last"]) for row in written)]
        damage = [DamagedBytes(**json.loads(one)) for row in written for one in row.damage]
        covered = Coverage(
            sorted({*before.nodes, *(one.node for one in files)}),
            len(files),
            sum(one.size for one in files),
            min((one for one in firsts if one is not None), default=None),
            max((one for one in lasts if one is not None), default=None),
            [*before.damage, *damage],
            tuple(sorted({*before.without_bodies, *without_bodies(files)})),
        )
        (self._making / COVERAGE).write_text(json.dumps(covered.as_object(), indent=1) + "\n")


def stale_buckets(log: ConversionLog) -> list[str]:
    """Those with rows of `raw` that came after the tables were made."""
    made: list[str] = []
    for step in reversed(log.steps):
        places = [place for _, place in step.moves]
        made += [place for place in places if place.startswith(f"{RAW}/")]
        if any(place.startswith(f"{LIVES_TABLE}/") for place in places):
            made = made[: len(made) - sum(place.startswith(f"{RAW}/") for place in places)]
            break
    return buckets_of(made)


def bucket_writer(name: str, making: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What each task does with rows of a batch: writes them to `raw`, and says so."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "tasks of Spark have one"
        task = RawTask(f"{name}-{context.partitionId():04d}", (), (), {}, making)
        times: list[int] = []
        damage: list[str] = []
        with RowBuckets(task) as buckets:
            for batch in batches:
                buckets.write(batch)
                times += [one for one in pc.min_max(batch.column("at")).as_py().values() if one is not None]
                damage += _damage_in(batch)
        row = (buckets.made, buckets.rows, min(times, default=None), max(times, default=None), damage)
        yield arrow_batch(_MADE_ARROW, [row])

    return write


def _damage_in(batch: pa.RecordBatch) -> list[str]:
    """As JSON of DamagedBytes."""
    rows = batch.filter(pc.equal(batch.column("kind"), DAMAGE)).to_pylist()
    return [
        json.dumps({"node": row["node"], "file": row["file"], "offset": row["place"], **json.loads(row["data"])})
        for row in rows
    ]

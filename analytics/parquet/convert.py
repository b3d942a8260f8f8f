"""One step of a conversion: what the logs have beyond the step before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from analytics.coverage import Coverage, DamagedBytes, MissingFiles, iso_time
from analytics.inputs import LogFile, SnapshotFile, evened, files_of_tasks, without_bodies
from analytics.jobs.answer import JobAnswer
from analytics.parquet.bucket_tables import EVENTS_TABLE, LIVES_TABLE, WRITTEN, Write, table_place, writer_of
from analytics.parquet.conversion_log import (
    ConversionLog,
    ConversionStep,
    missing_in,
    place_of,
    rests_missing_in,
)
from analytics.parquet.raw_files import BUCKETS, COMPRESSION, RAW, SAID, RawDone, RawTask, convert_files
from analytics.spark.actors_table import actors, processes_in
from analytics.spark.event_source import SCHEMA, TASK_BYTES
from analytics.spark.lives_table import order_of_folds, queue_names, told_of_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

COVERAGE, QUEUES, ACTORS = "coverage.json", "queues.parquet", "actors.parquet"
COLUMNS = [("table", "string"), ("rows", "bigint")]
NOTHING = dict.fromkeys((RAW, LIVES_TABLE, EVENTS_TABLE), 0)


def convert(
    spark: SparkSession, files: Sequence[LogFile], snapshots: Sequence[SnapshotFile], directory: Path
) -> tuple[Coverage, JobAnswer]:
    """All that the directory stands on now, and how many rows this step wrote. Raises ValueError."""
    with ConversionLog(directory) as log:
        if log.last_batch() >= 0:
            raise ValueError(f"{directory} is made by `follow --into`, which goes on there; convert to another one")
        step = StepMaker(spark, log)
        rows = step.take(files, snapshots)
        covered = kept_coverage(directory)
    return covered, JobAnswer(COLUMNS, [{"table": table, "rows": count} for table, count in rows.items()])


class StepMaker:
    """Makes one step."""

    def __init__(self, spark: SparkSession, log: ConversionLog) -> None:
        self._spark = spark
        self._log = log
        self._making = log.begin()

    def take(self, files: Sequence[LogFile], snapshots: Sequence[SnapshotFile]) -> dict[str, int]:
        new = self._unread(snapshots)
        tasks = self._tasks(files, new)
        done = self._spark.sparkContext.parallelize(tasks, len(tasks)).map(convert_files).collect()
        made = [one for each in done for one in each.made]
        converted = [one for each in done for one in each.files]
        if not made and not converted and not new:
            return NOTHING
        written = self._tables(made, buckets_of(made))
        self._cover(files, done)
        rows = {
            RAW: sum(one.rows for one in done),
            LIVES_TABLE: sum(row.lives for row in written),
            EVENTS_TABLE: sum(row.events for row in written),
        }
        self._log.commit(ConversionStep(converted, told_of(new), moves_of(made, written), rows))
        return rows

    def _unread(self, snapshots: Sequence[SnapshotFile]) -> list[SnapshotFile]:
        read = {one[:3]: one for one in self._log.snapshots()}
        return [one for one in snapshots if (one.node, one.group, one.number) not in read]

    def _tasks(self, files: Sequence[LogFile], snapshots: Sequence[SnapshotFile]) -> list[RawTask]:
        number, converted, target = len(self._log.steps) + 1, self._log.converted(), str(self._making)
        groups = evened(files_of_tasks(files, TASK_BYTES), self._spark.sparkContext.defaultParallelism)
        tasks = [RawTask(f"{number:06d}-{at:04d}", group, (), converted, target) for at, group in enumerate(groups)]
        if snapshots:
            tasks.append(RawTask(f"{number:06d}-snapshots", (), snapshots, converted, target))
        return tasks

    def _tables(self, made: Sequence[str], buckets: Sequence[str]) -> list[Row]:
        """Anew, in these buckets: where they are, and how many rows they have."""
        said, found = self._raw(made, [SAID]), self._raw(made, [SAID, *buckets])
        names = queue_names(said)
        pq.write_table(names.toArrow(), self._making / QUEUES, compression=COMPRESSION)
        pq.write_table(actors(said).toArrow(), self._making / ACTORS, compression=COMPRESSION)
        if not buckets:
            return []
        named = {row.queue: row["name"] for row in names.collect()}
        write = writer_of(str(self._making), named, processes_in(said))
        written: list[Row] = _by_bucket(found, [*map(int, buckets)], write).collect()
        return written

    def _raw(self, made: Iterable[str], buckets: Sequence[str]) -> DataFrame:
        """What was there, and what this step adds."""
        before = [place for bucket in buckets if (place := self._log.directory / RAW / bucket).is_dir()]
        added = [self._making / one for one in made if Path(one).parent.name in buckets]
        if not before and not added:
            return self._spark.createDataFrame([], SCHEMA)
        found = self._spark.read.schema(SCHEMA).parquet(*map(str, (*before, *added)))
        return found.na.fill(0, ["written"])  # of rows from before there was this column

    def _cover(self, files: Sequence[LogFile], done: Sequence[RawDone]) -> None:
        before = kept_coverage(self._log.directory)
        latest = self._log.converted() | {(one.node, one.log_id, one.file): one for each in done for one in each.files}
        firsts = [before.first, *(iso_time(one.first) for one in done)]
        lasts = [before.last, *(iso_time(one.last) for one in done)]
        lost = [*(one for each in done for one in each.damage), *rests_missing_in(latest.values())]
        damage = dict.fromkeys([*before.damage, *lost])  # the last file's once
        covered = Coverage(
            sorted({*before.nodes, *(one.node for one in files)}),
            len(latest),
            sum(one.base for one in latest.values()),
            min((one for one in firsts if one is not None), default=None),
            max((one for one in lasts if one is not None), default=None),
            list(damage),
            tuple(sorted({*before.without_bodies, *without_bodies(files)})),
            missing=missing_in(latest.values()),
        )
        (self._making / COVERAGE).write_text(json.dumps(covered.as_object(), indent=1) + "\n")


def buckets_of(made: Iterable[str]) -> list[str]:
    """Those that files of `raw` belong to."""
    return sorted({Path(one).parent.name for one in made} - {SAID})


def told_of(snapshots: Iterable[SnapshotFile]) -> list[tuple[str, int, int]]:
    return [(one.node, one.group, one.number) for one in snapshots]


def moves_of(made: Sequence[str], written: Sequence[Row], *, with_names: bool = True) -> list[tuple[str, str]]:
    """What attempts have made, files of `raw` and tables of buckets, and what the step itself has."""
    tables = [
        f"{row.attempt}/{table_place(table, row.bucket)}" for row in written for table in (LIVES_TABLE, EVENTS_TABLE)
    ]
    own = (QUEUES, ACTORS, COVERAGE) if with_names else (COVERAGE,)
    return [(one, place_of(one)) for one in (*made, *tables)] + [(one, one) for one in own]


def _by_bucket(found: DataFrame, buckets: Sequence[int], write: Write) -> DataFrame:
    """In one pass over what is told of them: whether a replicated log is a queue, its names say, which are ahead of it."""
    from pyspark.sql import functions as f

    told = told_of_queues(found).withColumn("bucket", f.col("queue").bitwiseAND(BUCKETS - 1))
    those = told.where(f.col("bucket").isin(*buckets))  # names are there of all queues
    ordered = those.repartition(len(buckets), "bucket").sortWithinPartitions("bucket", *order_of_folds())
    return ordered.groupBy("bucket").applyInArrow(write, WRITTEN)


def kept_coverage(directory: Path) -> Coverage:
    """What the steps before stand on."""
    try:
        kept = json.loads((directory / COVERAGE).read_text())
    except FileNotFoundError:
        return Coverage([], 0, 0, None, None, [])
    damage = [DamagedBytes(**one) for one in kept["damage"]]
    missing = tuple(MissingFiles(**one) for one in kept.get("missing", ()))  # earlier builds did not say
    return Coverage(**{**kept, "damage": damage, "missing": missing})

"""What the rules of analytics/jobs need, gathered by Spark from the tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from analytics.fold.lives import LifeState
from analytics.inputs import LogFile
from analytics.jobs.evidence import file_evidence, log_evidence, state_of_files
from analytics.jobs.figures import LifeTimes, MachineSecond, QueueFigures, figures_at
from analytics.jobs.proof import CLASSIC, LogEvidence, ProofRow, QueueLives, prove
from analytics.spark.lives_table import seconds
from classic.stored_run import LEVEL_SHIFT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GOING_ON = (str(LifeState.READY), str(LifeState.OUT))
UNCOMMITTED = "some entries are not known to be committed: read the logs of more nodes"
LEVEL_BASE_MASK = ~((1 << LEVEL_SHIFT) - 1)


def proofs(spark: SparkSession, lives: DataFrame, files: list[LogFile], *, tail: bool) -> list[ProofRow]:
    """Of each queue, by name. `lives` has the name and the kind of each queue."""
    before = state_of_files({file.directory for file in files})
    queues = queue_lives(lives)
    log = evidence(spark, files, before, tail)
    for queue in log.stored.keys() - queues.keys():
        if log.stored[queue]:  # all that was known of it lies before what was read
            queues[queue] = QueueLives(queue, None, CLASSIC)
    return sorted(prove(one, log) for one in queues.values())


def evidence(spark: SparkSession, files: list[LogFile], before: dict[str, tuple[int, int]], tail: bool) -> LogEvidence:
    found = spark.sparkContext.parallelize(files, len(files)).map(partial(file_evidence, tail=tail)).collect()
    directories = {(file.node, file.directory) for file in files}
    return log_evidence(found, sorted(directories), before != state_of_files({one for _, one in directories}))


def queue_lives(lives: DataFrame) -> dict[int, QueueLives]:
    from pyspark.sql import functions as f

    found: dict[int, QueueLives] = {}
    first = f.col("pos") + f.col("nth")
    counted = lives.groupBy(
        "queue",
        "name",
        "kind",
        f.when(f.col("committed"), f.col("state")).otherwise(str(LifeState.UNKNOWN)).alias("state"),
        f.col("pos").bitwiseAND(LEVEL_BASE_MASK).alias("base"),
    ).agg(
        f.sum("count").alias("messages"),
        f.first("unknown", ignorenulls=True).alias("unknown"),
        f.max(f.col("committed").isNull()).alias("uncommitted"),
        f.min(first).alias("begin"),
        f.max(first + f.col("count")).alias("end"),
    )
    for row in counted.collect():
        one = found.setdefault(row.queue, QueueLives(row.queue, row["name"], row.kind))
        state = LifeState(row.state)
        one.messages[state] = one.messages.get(state, 0) + row.messages
        one.unknown = one.unknown or row.unknown or (UNCOMMITTED if row.uncommitted else None)
        if row.kind == CLASSIC:
            one.begins[row.base] = min(row.begin, one.begins.get(row.base, row.begin))
            one.ends[row.base] = max(row.end, one.ends.get(row.base, row.end))
    going_on = lives.where((f.col("kind") == CLASSIC) & f.col("state").isin(*GOING_ON))
    for row in going_on.select("queue", first.alias("first"), "count").toLocalIterator():
        found[row.queue].going_on.add(row.first, row.first + row["count"])
    return found


def figures(found: DataFrame, lives: DataFrame, second: int) -> list[tuple[str, QueueFigures]]:
    """Of each queue that `lives` is of, with its name, at the end of this second."""
    from pyspark.sql import functions as f

    def ms(column: str) -> Column:
        return (f.unix_micros(column) / 1_000).cast("long")

    by_queue: dict[int, list[LifeTimes]] = {}
    names: dict[int, str] = {}
    start = f.timestamp_seconds(f.lit(second))
    over_before = (f.col("ended_at") < start) & f.col(
        "published_at"
    ).isNotNull()  # most of a long history: it stays there
    times = lives.where(~f.coalesce(over_before, f.lit(False))).select(
        "queue", "name", "count", "state", ms("published_at"), ms("ended_at")
    )
    for queue, name, count, state, published_at, ended_at in times.toLocalIterator():
        names[queue] = name or str(queue)
        by_queue.setdefault(queue, []).append(LifeTimes(count, LifeState(state), published_at, ended_at))
    up_to = seconds(found.where(f.col("queue").isin(*names))).where(f.col("second") <= second)
    counted = {
        row.queue: MachineSecond(row.second, row.ready, row.unacknowledged, row.consumers, row.redelivered)
        for row in up_to.orderBy("second").toLocalIterator()
    }
    return sorted((names[queue], figures_at(lives, counted.get(queue), second)) for queue, lives in by_queue.items())

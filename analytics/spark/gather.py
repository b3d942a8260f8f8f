"""What the rules of analytics/jobs need, gathered by Spark from the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from analytics.file_window import missing_files
from analytics.fold.lives import LifeState
from analytics.inputs import LogFile
from analytics.jobs.evidence import file_evidence, log_evidence, state_of_files
from analytics.jobs.kept_contents import quorum_segments, store_files
from analytics.jobs.proof import UNCOMMITTED, LogEvidence, ProofRow, QueueLives, prove
from analytics.jobs.raft_terms import TermEntries, TermRow, term_rows
from analytics.queue_events import CLASSIC, QUORUM, STREAM
from analytics.streams.stream_look import FileStreams
from analytics.streams.stream_proof import stream_proofs
from classic.stored_run import LEVEL_SHIFT
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from raft.store.group_records import read_identity
from storage.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOING_ON = (str(LifeState.READY), str(LifeState.OUT))
LEVEL_BASE_MASK = ~((1 << LEVEL_SHIFT) - 1)


def proofs(
    spark: SparkSession, lives: DataFrame, files: list[LogFile], *, tail: bool, asked_for: Collection[int] | None = None
) -> list[ProofRow]:
    """Of each queue, by name. `lives` has the name and the kind of each queue. `asked_for`: numbers of those that may be told
    of though nothing is known of their messages; None: all."""
    from pyspark.sql import functions as f

    before = state_of_files({file.directory for file in files})
    queues = queue_lives(lives.where(f.coalesce("kind", f.lit("")) != STREAM))
    log = evidence(spark, files, before, tail)
    for queue in log.stored.keys() - queues.keys():
        if log.stored[queue] and (
            asked_for is None or queue in asked_for
        ):  # all that was known of it lies before what was read
            queues[queue] = QueueLives(queue, None, CLASSIC)
    streams = stream_proofs(files, partial(_each_on_workers, spark), tail=tail, asked_for=asked_for)
    return sorted([*(prove(one, log) for one in queues.values()), *streams])


def _each_on_workers(
    spark: SparkSession, look: Callable[[LogFile], FileStreams], files: Sequence[LogFile]
) -> list[FileStreams]:
    found: list[FileStreams] = spark.sparkContext.parallelize(files, len(files)).map(look).collect()
    return found


def evidence(spark: SparkSession, files: list[LogFile], before: dict[str, tuple[int, int]], tail: bool) -> LogEvidence:
    directories = {(file.node, file.directory) for file in files}
    looked_at = [*files, *quorum_segments(directories), *store_files(directories)]
    missing = missing_files(files)
    look = partial(file_evidence, tail=tail, with_groups=bool(missing))
    found = spark.sparkContext.parallelize(looked_at, len(looked_at)).map(look).collect()
    return log_evidence(found, sorted(directories), before != state_of_files({one for _, one in directories}), missing)


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
    _note_entries(lives, found)
    return found


def _note_entries(lives: DataFrame, found: dict[int, QueueLives]) -> None:
    from pyspark.sql import functions as f

    going_on = lives.where((f.col("kind") == QUORUM) & f.col("state").isin(*GOING_ON) & f.col("committed"))
    for row in going_on.groupBy("queue", "pos", "of_term").agg(f.sum("count").alias("messages")).toLocalIterator():
        found[row.queue].entries[row.pos, row.of_term] = row.messages


def terms(found: DataFrame, lives: DataFrame) -> list[TermRow]:
    """Of the quorum queues and streams that `lives` is of."""
    from pyspark.sql import functions as f

    names = {row.queue: row["name"] for row in lives.select("queue", "name").distinct().collect()}
    entries = found.where((f.col("kind") == int(Kind.RAFT_ENTRIES)) & f.col("queue").isin(*names))
    begin = f.when(f.col("first") == int(EntryKind.NOOP), f.col("data"))
    counted = entries.groupBy("queue", "term").agg(
        f.min("place").alias("first"), f.max("place").alias("last"), f.min_by(begin, "place").alias("begin")
    )
    told = [
        TermEntries(row.queue, row.term, row.first, row.last, None if row.begin is None else bytes(row.begin))
        for row in counted.collect()
    ]
    return term_rows(told, names, _members(found, names))


def _members(found: DataFrame, groups: Iterable[int]) -> dict[tuple[int, int], str]:
    """Which node each member is on, as the nodes that were read say of themselves."""
    from pyspark.sql import functions as f

    members: dict[tuple[int, int], str] = {}
    said = found.where((f.col("kind") == int(Kind.RAFT_GROUP)) & f.col("queue").isin(*groups))
    for row in said.select("queue", "data", "node").distinct().toLocalIterator():
        with suppress(BadBytes):
            members[row.queue, read_identity(row.queue, ByteReader(bytes(row.data))).member] = row.node
    return members


def differing(found: DataFrame, names: DataFrame) -> DataFrame:
    """Entries of one index and term of which nodes have different copies. Contents of messages are not compared."""
    from pyspark.sql import functions as f

    entries = found.where(f.col("kind") == int(Kind.RAFT_ENTRIES))
    copies = entries.withColumn("copy", f.xxhash64("data", "size", "first"))
    each = copies.groupBy("queue", f.col("place").alias("entry"), "term").agg(
        f.countDistinct("copy").alias("versions"), f.sort_array(f.collect_set("node")).alias("nodes")
    )
    different = each.where(f.col("versions") > 1).join(f.broadcast(names.select("queue", "name")), "queue")
    return different.select("name", "entry", "term", "versions", "nodes").orderBy("name", "entry", "term")

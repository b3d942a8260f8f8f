"""The table `lives`: what became of the messages of each queue, folded by Spark's workers, a queue at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.fold.entry_batch import EntryBatch, Told, events_of
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import NOT_SEEN, Life, LifeState
from analytics.fold.node_processes import NodeProcesses
from analytics.fold.queue_history import HistoryFold, folded, uncollected
from analytics.fold.stream_log import NO_ENTRY, StreamLog, ToldChunk, folded_stream
from analytics.queue_events import CATALOG_GROUP, CLASSIC_KINDS, QUEUE_KINDS, QUORUM, STANDING_KINDS, STREAM, QueueEvent
from analytics.queue_events import CLASSIC as CLASSIC_NAME
from analytics.spark.actors_table import processes_in
from analytics.spark.event_source import FORMAT, EventSource, arrow_batch, check_columns, read_options
from analytics.spark.kept_modules import keep_modules
from analytics.spark.life_columns import TIME, lives_batch, micros
from analytics.spark.told_events import events_in, told_in
from storage.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData

NAME = int(Kind.NAME)
CLASSIC = sorted(int(kind) for kind in CLASSIC_KINDS)
FOLDED_KINDS = sorted(int(kind) for kind in (*STANDING_KINDS, Kind.RAFT_ENTRIES, Kind.RAFT_STATE))  # of replicated logs
_QUORUM, _STREAM = QUORUM.encode(), STREAM.encode()
ROWS_MAX = 16_384  # of one batch that leaves a worker

COLUMNS = {  # of lives, as Spark has them; as Arrow has them: life_columns.py
    "queue": "long", "pos": "long", "off": "int", "nth": "long", "count": "long", "state": "string",
    "published_at": "timestamp", "actor": "long", "publish_no": "long", "confirm": "boolean", "exchange": "string",
    "routing_key": "string", "body_bytes": "long", "first_out_at": "timestamp", "last_out_at": "timestamp",
    "times_out": "int", "first_consumer": "string", "last_consumer": "string", "first_actor": "long",
    "last_actor": "long", "returned": "map<string,int>", "ended_at": "timestamp", "wait_ms": "long", "hold_ms": "long",
    "partial": "boolean", "unknown": "string", "committed": "boolean", "process": "string", "of_term": "long",
}  # fmt: skip
OF_ACTORS = frozenset({"process", "first_consumer", "last_consumer"})  # which tell those of one number apart
CHUNKS_ARROW = pa.schema(
    [
        ("queue", pa.int64()), ("offset", pa.int64()), ("count", pa.int64()), ("bytes", pa.int64()), ("time", TIME),
        ("term", pa.int64()), ("entry", pa.int64()), ("state", pa.string()), ("ended_at", TIME),
        ("publishers", pa.map_(pa.string(), pa.int64())), ("committed", pa.bool_()),
    ]
)  # fmt: skip
CHUNKS_SCHEMA = (
    "queue long, offset long, count long, bytes long, time timestamp, term long, entry long, state string,"
    " ended_at timestamp, publishers map<string,long>, committed boolean"
)

Fold = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def events(spark: SparkSession, paths: list[str], *, tail: bool = False) -> DataFrame:
    """Everything that the logs below these paths say; with `tail` what is not known to be durable, too."""
    spark.dataSource.register(EventSource)
    return spark.read.format(FORMAT).options(**read_options(spark, paths, tail=tail)).load()


def lives(found: DataFrame, columns: Iterable[str] = COLUMNS) -> DataFrame:
    """The lives of all messages. Replicated logs that are of no queue are left out: by the task that has their names beside
    them, for asking Spark which they are would read the logs once more for each kind of queue. `columns`: those that are
    looked at, for Spark prunes none of them here. Raises ValueError for one that there is not."""
    wanted = list(columns)
    check_columns("lives", wanted, COLUMNS)
    processes = None if OF_ACTORS.isdisjoint(wanted) else processes_in(found)
    schema = ", ".join(f"{name} {COLUMNS[name]}" for name in wanted)
    return _queue_by_queue(told_of_queues(found)).applyInArrow(_fold_of(wanted, processes), schema)


def chunks(found: DataFrame) -> DataFrame:
    """The chunks of all streams, and what became of them."""
    return _queue_by_queue(events_of_streams(found)).applyInArrow(fold_chunks, CHUNKS_SCHEMA)


def _queue_by_queue(chosen: DataFrame) -> GroupedData:
    return chosen.repartition("queue").sortWithinPartitions(*order_of_folds()).groupBy("queue")


def order_of_folds() -> list[Column]:
    """Queue by queue, its names first if there are any."""
    from pyspark.sql import functions as f

    return [f.col("queue"), f.col("kind") != NAME, f.col("place"), f.desc("term")]


def told_of_queues(found: DataFrame) -> DataFrame:
    """Names, events of classic queues, and those of all replicated logs: their names tell which are queues."""
    from pyspark.sql import functions as f

    return found.where(f.col("kind").isin([*CLASSIC, *FOLDED_KINDS, NAME])).select(*QueueEvent._fields)


def events_of_streams(found: DataFrame) -> DataFrame:
    """What folds of streams take. Entries of quorum queues, which may be many more, are not sorted for it."""
    from pyspark.sql import functions as f

    named = found.where((f.col("kind") == NAME) & f.col("data").cast("string").startswith(f"{STREAM}\n"))
    taken = found.where(f.col("kind").isin(FOLDED_KINDS))
    return taken.join(f.broadcast(named.select("queue").distinct()), "queue", "left_semi").select(*QueueEvent._fields)


def queue_names(found: DataFrame) -> DataFrame:
    """Number, kind and name with its virtual host, of all queues that the logs name."""
    from pyspark.sql import functions as f

    said = f.split(f.col("data").cast("string"), "\n", 2)
    named = found.where(f.col("kind") == NAME).select("queue", said[0].alias("kind"), said[1].alias("name"))
    is_of_queue = (f.col("queue") != CATALOG_GROUP) | (f.col("kind") == CLASSIC_NAME)
    return named.where(f.col("kind").isin(*QUEUE_KINDS) & is_of_queue).dropDuplicates(["queue"])


def _fold_of(columns: Sequence[str], processes: NodeProcesses | None) -> Fold:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from fold_queue(batches, columns, processes)

    return fold


def fold_queue(
    batches: Iterator[pa.RecordBatch], columns: Sequence[str], processes: NodeProcesses | None
) -> Iterator[pa.RecordBatch]:
    """All that logs say of one queue, whatever its kind: its names, and its events in their order."""
    keep_modules()
    told = told_in(batches)
    first = next(told)
    with uncollected():
        for history in histories_of(chain((first,), told), processes):
            for start in range(0, len(history.lives), ROWS_MAX):
                yield lives_batch(first.queue, history.lives[start : start + ROWS_MAX], history, columns)


def histories_of(
    told: Iterator[Told], processes: NodeProcesses | None = None, *, with_steps: bool = False
) -> Iterator[QueueHistory]:
    """What is told of one number, its names first, comes to one history, but where damage or malice gave the number to several
    queues."""
    kinds, events = _named(told)
    if _STREAM in kinds:
        yield from _several(kinds, events_of(events), processes, with_steps=with_steps)
    else:
        chosen = events if _QUORUM in kinds else (event for event in events if event.kind in CLASSIC_KINDS)
        yield _with_doubt(folded(chosen, with_steps=with_steps, processes=processes))


def _with_doubt(history: QueueHistory) -> QueueHistory:
    """Where not one life is known, no row would say why: one of no messages does."""
    if history.unknown is not None and not history.lives:
        history.lives.append(Life(0, 0, 0, 0, NOT_SEEN, partial=True, state=LifeState.UNKNOWN))
    return history


def _named(told: Iterator[Told]) -> tuple[set[bytes], Iterator[Told]]:
    """As which kinds of queue a log has a name, and what stands behind the names. That of the catalog was given the name of the
    first queue by earlier builds, in files that a restart had begun."""
    kinds: set[bytes] = set()
    for event in told:
        if isinstance(event, EntryBatch) or event.kind != NAME:
            return kinds, chain((event,), told)
        kind = event.data.partition(b"\n")[0]
        if event.queue != CATALOG_GROUP or kind not in (_QUORUM, _STREAM):
            kinds.add(kind)
    return kinds, iter(())


def _several(
    kinds: set[bytes], events: Iterator[QueueEvent], processes: NodeProcesses | None, *, with_steps: bool
) -> Iterator[QueueHistory]:
    """A stream's, and what else has its number."""
    queue, stream = HistoryFold(with_steps=with_steps, processes=processes), StreamLog()
    for event in events:
        is_classic = event.kind in CLASSIC_KINDS
        if not is_classic:
            stream.take(event)
        if is_classic or _QUORUM in kinds:
            queue.take(event)
    for fold in (stream, queue):
        fold.end(is_whole=True)
    yield from map(_with_doubt, (stream.history(), queue.history))


def fold_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same events, and the chunks that they tell of."""
    queue, log = _stream_of(batches)
    for start in range(0, len(log.chunks), ROWS_MAX):
        rows = [chunk_row(queue, chunk, log) for chunk in log.chunks[start : start + ROWS_MAX]]
        yield arrow_batch(CHUNKS_ARROW, rows)


def chunk_row(queue: int, chunk: ToldChunk, log: StreamLog) -> tuple[object, ...]:
    """What no file has is null."""
    is_read = chunk.entry != NO_ENTRY
    return (
        queue, chunk.first_offset, chunk.messages, chunk.size if is_read else None, micros(chunk.time_ms),
        chunk.term if is_read else None, chunk.entry if is_read else None, str(chunk.state), micros(chunk.ended_at),
        list(chunk.publishers), True if chunk.told_at <= log.committed else None,
    )  # fmt: skip


def _stream_of(batches: Iterator[pa.RecordBatch]) -> tuple[int, StreamLog]:
    events = events_in(batches)
    first = next(events)
    return first.queue, folded_stream(chain((first,), events))

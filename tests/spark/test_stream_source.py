"""Logs that are written are followed by queries that are stopped, killed in a batch and started again: each row is there once.

Meanwhile the node works, rolls its log, archives files, is killed and starts again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.inputs import log_files
from storage.names import ARCHIVE_DIRECTORY, LOG_DIRECTORY
from storage.record import Kind
from tests.running_node import RunningNode, start_node
from tests.spark.conftest import worked_on
from tests.spark.test_convert import KINDS, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL_FILES = "log.file_bytes_max = 1048576\narchive.hours = 1\n"
FILLER = bytes(120_000)
ARCHIVED_WITHIN_S = 60.0
Row = tuple[Any, ...]


class Stopped(Exception):
    """Whoever handles a batch is killed in the middle of it."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "nodes" / "n1"


def works(data: Path, *, killed: bool = False) -> None:
    """A node that goes on where it was, works, and fills more than one file of its log."""
    data.parent.mkdir(exist_ok=True)
    options = data.parents[1] / "leveret.toml"
    options.write_text(SMALL_FILES)
    node = start_node(data, "--config", str(options))
    worked_on(node.amqp_url)
    fill(node)
    wait_for_archive(data)
    if killed:
        node.kill()
    else:
        assert node.stop() == 0


def wait_for_archive(data: Path) -> None:
    """It moves files there beside its work."""
    until = time.monotonic() + ARCHIVED_WITHIN_S
    while not any((data / ARCHIVE_DIRECTORY).glob("*.log")):
        assert time.monotonic() < until, "nothing was archived"
        time.sleep(0.05)


def fill(node: RunningNode) -> None:
    def publish(channel: Any, kind: str) -> None:
        for _ in range(30):
            channel.basic_publish("", kind, FILLER)

    worked_on(node.amqp_url, publish)


def followed(
    spark: SparkSession, data: Path, checkpoint: Path, take: Callable[[DataFrame, int], None], **options: str
) -> None:
    """All that is there now, from the checkpoint on."""
    from analytics.spark.event_source import FORMAT, EventSource
    from analytics.spark.table_source import TableSource

    for source in (EventSource, TableSource):
        spark.dataSource.register(source)
    stream = spark.readStream.format(options.pop("format", FORMAT)).option("paths", json.dumps([str(data.parent)]))
    found = stream.options(**options).load()
    query = found.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


class Batches:
    """What batches had, by their number: a batch that comes again takes the place of what it had."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Row]] = {}

    def take(self, batch: DataFrame, number: int) -> None:
        self.rows[number] = [tuple(row) for row in batch.collect()]

    def take_and_stop(self, batch: DataFrame, number: int) -> None:
        self.take(batch, number)
        raise Stopped

    def all(self) -> Counter[Row]:
        return Counter(row for rows in self.rows.values() for row in rows)


def rows_of_batch(spark: SparkSession, data: Path, table: str | None = None) -> Counter[Row]:
    """What the batch source has, of files of the log."""
    from analytics.spark.lives_table import events
    from analytics.spark.table_source import log_table

    paths = [str(data.parent)]
    found = (
        log_table(spark, table, paths)
        if table
        else events(spark, paths).where(f"file > 0 and kind <> {Kind.RAFT_STATE:d}")
    )
    return Counter(tuple(row) for row in found.collect())


@pytest.mark.parametrize("limit", [{}, {"maxFilesPerTrigger": "1"}])
def test_batches_of_a_query_that_is_stopped_anywhere_are_what_a_batch_has(
    spark: SparkSession, data: Path, tmp_path: Path, limit: dict[str, str]
) -> None:
    batches, runs = Batches(), Batches()
    for killed in (False, True, False):
        works(data, killed=killed)
        with pytest.raises(Exception, match="Stopped"):
            followed(spark, data, tmp_path / "events", batches.take_and_stop, **limit)
        followed(spark, data, tmp_path / "events", batches.take, **limit)
        followed(spark, data, tmp_path / "runs", runs.take, format="leveret-table", table="publishes", **limit)
    assert {Path(file.name).parent.name for file in log_files([str(data.parent)])} == {LOG_DIRECTORY, ARCHIVE_DIRECTORY}
    assert batches.all() == rows_of_batch(spark, data)
    assert runs.all() == rows_of_batch(spark, data, "publishes")
    assert len(batches.rows) > (6 if limit else 2)


def test_from_now_on_is_what_comes_later(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    works(data)
    batches = Batches()
    followed(spark, data, tmp_path / "checkpoint", batches.take, startingOffsets="latest")
    assert batches.all() == Counter()
    before = rows_of_batch(spark, data, "publishes")
    works(data)
    later = Batches()
    followed(
        spark,
        data,
        tmp_path / "runs",
        later.take,
        format="leveret-table",
        table="publishes",
        startingOffsets="earliest",
    )
    assert later.all() > before


def test_files_that_were_deleted_unread_end_a_query_or_are_a_row_of_it(
    spark: SparkSession, data: Path, tmp_path: Path
) -> None:
    from analytics.spark.event_source import DAMAGE

    works(data)
    for checkpoint in ("fails", "goes on"):
        followed(spark, data, tmp_path / checkpoint, Batches().take)
    works(data)
    last = log_files([str(data.parent)])[-1]
    gone = log_files([str(data.parent)])[-2]
    Path(gone.directory, gone.name).unlink()
    with pytest.raises(
        Exception, match=f"file {gone.number} of the log of n1 was not read: the node deleted this file"
    ):
        followed(spark, data, tmp_path / "fails", Batches().take)
    batches = Batches()
    followed(spark, data, tmp_path / "goes on", batches.take, failOnDataLoss="false")
    rows = [dict(zip(columns(spark, data), row, strict=True)) for row in batches.all()]
    lost = [(row["node"], row["file"], json.loads(row["data"])["reason"]) for row in rows if row["kind"] == DAMAGE]
    assert lost == [("n1", gone.number, "the node deleted this file before it was read")]
    assert last.number in {row["file"] for row in rows}


def columns(spark: SparkSession, data: Path) -> list[str]:
    from analytics.spark.lives_table import events

    return list(events(spark, [str(data.parent)]).columns)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("tail", "true", "leave out the option `tail`"), ("startingOffsets", "now", "earliest or latest is known")],
)
def test_an_option_that_a_stream_does_not_have_is_named(
    spark: SparkSession, data: Path, tmp_path: Path, option: str, value: str, said: str
) -> None:
    with pytest.raises(Exception, match=said):
        followed(spark, data, tmp_path / "checkpoint", Batches().take, **{option: value})


# follow --into


def test_tables_that_follow_are_those_of_a_conversion_wherever_the_stream_was_stopped(
    spark: SparkSession, data: Path, tmp_path: Path
) -> None:
    from analytics.inputs import snapshot_files
    from analytics.parquet.convert import convert
    from analytics.parquet.follow_query import started
    from analytics.parquet.followed import Follower

    directory, paths = tmp_path / "followed", [str(data.parent)]
    for killed in (False, True, False):
        works(data, killed=killed)
        for stops in (True, False):
            follower = Follower(spark, paths, directory)

            def take(batch: DataFrame, number: int, follower: Follower = follower, stops: bool = stops) -> None:
                follower.take(batch, number)
                if stops:  # the directory has the batch, and Spark does not know it
                    raise Stopped

            query = started(spark, paths, directory, take, every_s=None)
            if stops:
                with pytest.raises(Exception, match="Stopped"):
                    query.awaitTermination()
            else:
                query.awaitTermination()
                covered = follower.finish()
                assert (covered.nodes, covered.damage) == (["n1"], [])
            follower.close()
    convert(spark, log_files(paths), snapshot_files(paths), tmp_path / "converted")
    for name in ("lives", "events", "queues.parquet", "actors.parquet"):
        theirs, ours = (sorted(map(repr, table(tmp_path / one, name))) for one in ("converted", "followed"))
        assert ours == theirs, name
    assert {row["name"] for row in table(directory, "lives")} == {f"//{kind}" for kind in KINDS}
    with pytest.raises(ValueError, match="is made by `follow --into`"):
        convert(spark, log_files(paths), snapshot_files(paths), directory)


def test_a_directory_is_followed_to_or_converted_to(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    from analytics.inputs import snapshot_files
    from analytics.parquet.convert import convert
    from analytics.parquet.followed import Follower

    works(data)
    paths = [str(data.parent)]
    convert(spark, log_files(paths), snapshot_files(paths), tmp_path / "tables")
    with pytest.raises(ValueError, match="is made by `convert`"):
        Follower(spark, paths, tmp_path / "tables")

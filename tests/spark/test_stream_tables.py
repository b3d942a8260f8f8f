"""Messages of streams as rows: in the tables of all queues, in one of their own, and as Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest

from analytics.jobs.answer import EXIT_HOLDS
from tests.running_node import running_node
from tests.spark.conftest import Ask
from tests.spark.test_convert import converted, table
from tests.spark.test_log_tables import same_lives_by_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MESSAGES = 60
BODY = b"x" * 100


@pytest.fixture(scope="module")
def stream_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the data of one node with a stream, and a queue of another kind beside it."""
    directory = tmp_path_factory.mktemp("streams")
    with running_node() as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in ("stream", "quorum"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for _ in range(MESSAGES):
                channel.basic_publish("", kind, BODY)
        connection.close()
        assert node.stop() == 0
        shutil.copytree(node.data_dir, directory / "n1")
    return directory


def test_queues_and_lives_tell_of_streams(ask: Ask, stream_logs: Path) -> None:
    code, rows = ask(stream_logs, "queues")
    assert (code, [(row["name"], row["state"], row["messages"]) for row in rows]) == (
        EXIT_HOLDS,
        [("//quorum", "ready", MESSAGES), ("//stream", "kept", MESSAGES)],
    )
    code, rows = ask(stream_logs, "lives", "stream", "--state", "kept")
    assert (code, sum(row["count"] for row in rows), rows[0]["pos"]) == (EXIT_HOLDS, MESSAGES, 0)
    assert all(row["committed"] and row["published_at"] for row in rows)


def test_lives_of_streams_have_the_same_in_the_columns_that_are_asked_for(
    spark: SparkSession, stream_logs: Path
) -> None:
    assert same_lives_by_column(spark, stream_logs) > 0


def test_each_chunk_is_a_row(ask: Ask, stream_logs: Path) -> None:
    query = "select `offset`, `count`, bytes, term, entry, state, publishers from chunks order by `offset`"
    _, rows = ask(stream_logs, "sql", query)
    offsets = [row["offset"] for row in rows]
    assert sum(row["count"] for row in rows) == MESSAGES and offsets == sorted(offsets)
    assert all(row["bytes"] > len(BODY) and row["state"] == "kept" and not row["publishers"] for row in rows)


def test_the_proof_counts_both(ask: Ask, stream_logs: Path) -> None:
    code, rows = ask(stream_logs, "proof")
    assert (code, [(row["name"], row["promised"], row["present"]) for row in rows]) == (
        EXIT_HOLDS,
        [("//quorum", MESSAGES, MESSAGES), ("//stream", MESSAGES, MESSAGES)],
    )


def test_they_are_converted(spark: SparkSession, stream_logs: Path, tmp_path: Path) -> None:
    converted(spark, stream_logs / "n1", tmp_path)
    lives = [row for row in table(tmp_path, "lives") if row["name"] == "//stream"]
    events = [row for row in table(tmp_path, "events") if row["name"] == "//stream"]
    assert {row["state"] for row in lives} == {"kept"} and {row["event"] for row in events} == {"published"}
    assert sum(row["count"] for row in lives) == sum(row["count"] for row in events) == MESSAGES
    assert converted(spark, stream_logs / "n1", tmp_path)["lives"] == 0

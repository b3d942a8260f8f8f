"""What came to a queue more than once, on a Spark, from the log of a real node."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pika
import pytest

from analytics.inputs import EXPORT_MANIFEST
from analytics.jobs.answer import EXIT_HOLDS
from analytics.jobs.duplicates import duplicates
from tests.spark.conftest import Ask, data_of_a_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_of_a_node(tmp_path_factory.mktemp("duplicates"), some_twice)


def some_twice(channel: Any, kind: str) -> None:
    """Two with the id a, from two channels; three of a body without an id, in one channel; and what is no duplicate: an id in
    both queues, a body with two ids, empty bodies, what came back, and a dead letter of what another queue had too."""

    def publish(body: bytes, id_: str | None = None, on: Any = channel) -> None:
        on.basic_publish("", kind, body, pika.BasicProperties(message_id=id_, delivery_mode=2))

    other = channel.connection.channel()
    other.confirm_delivery()
    publish(b"first", "a")
    publish(b"again", "a", on=other)
    publish(b"in both queues", "b")
    for _ in range(3):
        publish(b"three times")
        publish(b"")
    for id_ in ("c", "d"):
        publish(b"two ids", id_)
    method, _, _ = channel.basic_get(kind)
    channel.basic_nack(method.delivery_tag, requeue=True)
    dying = f"dying into {kind}"
    channel.queue_declare(
        dying, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": kind}
    )
    for queue in (kind, dying):
        channel.basic_publish("", queue, b"e", pika.BasicProperties(message_id="e", delivery_mode=2))
    method, _, _ = channel.basic_get(dying)
    channel.basic_reject(method.delivery_tag, requeue=False)


def test_what_came_again_is_told_by_id_and_else_by_body(ask: Ask, data: Path) -> None:
    code, rows = ask(data, "duplicates")
    digest = blake2b(b"three times", digest_size=16).hexdigest()
    told = [(row["name"], row["same"], row["value"], row["again"], row["publishers"]) for row in rows]
    assert (code, told) == (
        EXIT_HOLDS,
        [
            ("//classic", "body", digest, 2, 1),
            ("//quorum", "body", digest, 2, 1),
            ("//classic", "message id", "a", 1, 2),
            ("//quorum", "message id", "a", 1, 2),
        ],
    )


def test_one_queue_is_asked_about(ask: Ask, data: Path) -> None:
    _, rows = ask(data, "duplicates", "quorum")
    assert {row["name"] for row in rows} == {"//quorum"}


def test_what_comes_much_later_is_no_duplicate_and_of_copies_that_of_the_last_term_counts(spark: SparkSession) -> None:
    from analytics.spark.message_source import SCHEMA

    begin = datetime(2026, 3, 1, tzinfo=UTC)
    seconds = (0, 61, 100, 100.5)
    messages = spark.createDataFrame(
        [(1, place, 0, 0, term, id_, 1, b"") for place in range(4) for term, id_ in ((1, "x"), (2, "y"))], SCHEMA
    )
    lives = spark.createDataFrame(
        [
            (1, place, 0, 0, 1, "//q", begin + timedelta(seconds=after), None, 7, None)
            for place, after in enumerate(seconds)
        ],
        "queue long, pos long, off int, nth long, count long, name string, published_at timestamp,"
        " process string, actor long, of_term long",
    )
    (row,) = duplicates(messages, lives, within_s=60).collect()
    assert (row.value, row.again, row.longest_gap_s, row.sample) == ("y", 2, 39.0, (1, 2, 0, 0))
    (row,) = duplicates(messages, lives, within_s=61).collect()
    assert row.again == 3
    (row,) = duplicates(messages, lives.fillna(1, ["of_term"]), within_s=61).collect()
    assert (row.value, row.again) == ("x", 3)


def test_contents_that_were_withheld_all_look_alike(ask: Ask, data: Path, tmp_path: Path) -> None:
    copytree(data / "n1", tmp_path / "n1")
    (tmp_path / "n1" / EXPORT_MANIFEST).write_text(json.dumps({"format": 1, "bodies": "withheld"}))
    with pytest.raises(ValueError, match="the export of n1 was made without the contents of messages"):
        ask(tmp_path, "duplicates")

"""Logs of a real node, on which the tests of this folder ask their questions, and one Spark for most of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

from analytics.__main__ import answer
from analytics.command_line import parser
from analytics.inputs import log_files
from tests.running_node import running_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISHED = 200
ACKED, REJECTED, GOT = 120, 3, 5

Ask = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the data of one node, in whose two queues the same happened."""
    yield data_of_a_node(tmp_path_factory.mktemp("logs"), work)


def data_of_a_node(directory: Path, work: Callable[[Any, str], None]) -> Path:
    """The same directory, with the data of a node on which this was done to a queue of each kind."""
    with running_node() as node:
        worked_on(node.amqp_url, work)
        assert node.stop() == 0
        shutil.copytree(node.data_dir, directory / "n1")
    return directory


def work(channel: Any, kind: str) -> None:
    """Publish, acknowledge some, reject some, get some without acknowledging, give one back, leave the rest."""
    for number in range(PUBLISHED):
        channel.basic_publish("", kind, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    tag = 0
    for _ in range(ACKED):
        tag = got(channel, kind)
    channel.basic_ack(tag, multiple=True)
    for _ in range(REJECTED):
        channel.basic_reject(got(channel, kind), requeue=False)
    for _ in range(GOT):
        channel.basic_get(kind, auto_ack=True)
    channel.basic_nack(got(channel, kind), requeue=True)


def worked_on(url: str, work: Callable[[Any, str], None] = work) -> None:
    """Do this to a queue of each kind."""
    for kind in ("classic", "quorum"):
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        work(channel, kind)
        channel.queue_declare(kind, passive=True)  # all of it has been dealt with
        connection.close()


def got(channel: Any, queue: str) -> int:
    method, _, _ = channel.basic_get(queue)
    return int(method.delivery_tag)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Starting one takes longer than any of these questions."""
    from analytics.spark.session import spark_session

    session = spark_session("local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture
def ask(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Exit status and rows, as the command has them."""

    def asked(logs: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        options = parser().parse_args(["--data", str(logs), "--json", *arguments])
        code = answer(spark, options, log_files(options.data))
        said = json.loads(capsys.readouterr().out)
        columns = [one["name"] for one in said["schema"]]
        assert all(list(row) == columns for row in said["rows"])
        return code, said["rows"]

    return asked

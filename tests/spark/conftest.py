"""Logs of a real node, on which the tests of this folder ask their questions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

from tests.running_node import running_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISHED = 200
ACKED, REJECTED, GOT = 120, 3, 5


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from analytics.spark.session import spark_session

    session = spark_session("local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the data of one node, in whose two queues the same happened."""
    yield data_of_a_node(tmp_path_factory.mktemp("logs"), work)


def data_of_a_node(directory: Path, work: Callable[[Any, str], None]) -> Path:
    """The same directory, with the data of a node on which this was done to a queue of each kind."""
    with running_node() as node:
        for kind in ("classic", "quorum"):
            connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            work(channel, kind)
            channel.queue_declare(kind, passive=True)  # all of it has been dealt with
            connection.close()
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


def got(channel: Any, queue: str) -> int:
    method, _, _ = channel.basic_get(queue)
    return int(method.delivery_tag)

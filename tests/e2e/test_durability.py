"""What survives: clean stops, kill -9, and what a restart must not bring back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pika
import pytest

from storage.names import CATALOG_DIRECTORY
from tests.crash.cycles import CLEAN_STOP_EVERY, Cycles
from tests.running_node import start_node


def channel_to(url: str) -> tuple[pika.BlockingConnection, pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    return connection, connection.channel()


def test_a_clean_restart_keeps_persistent_messages_and_drops_transient_ones(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    _, channel = channel_to(node.amqp_url)
    channel.queue_declare("keep", durable=True)
    channel.queue_declare("transient", durable=False)
    channel.confirm_delivery()
    for number in range(10):
        mode = 2 if number % 2 else 1
        channel.basic_publish("", "keep", str(number).encode(), pika.BasicProperties(delivery_mode=mode))
    for _ in range(2):
        method, _, body = channel.basic_get("keep")
        assert body is not None
        if body == b"1":
            channel.basic_ack(method.delivery_tag)
    assert node.stop() == 0
    node = start_node(tmp_path / "data")
    connection, channel = channel_to(node.amqp_url)
    left = []
    while (got := channel.basic_get("keep", auto_ack=True))[0]:
        left.append((got[2], got[0].redelivered))
    assert left == [(b"3", False), (b"5", False), (b"7", False), (b"9", False)]
    with_transient = channel.queue_declare("transient", durable=True)
    assert with_transient.method.message_count == 0
    connection.close()
    assert node.stop() == 0


def test_a_start_under_another_name_is_refused_and_loses_nothing(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", "--name", "first")
    _, channel = channel_to(node.amqp_url)
    channel.queue_declare("keep", durable=True)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "keep", str(number).encode(), pika.BasicProperties(delivery_mode=2))
    assert node.stop() == 0
    with pytest.raises(RuntimeError, match=r"belongs to node 'first', and this node is named 'second': .*--name first"):
        start_node(tmp_path / "data", "--name", "second")
    node = start_node(tmp_path / "data", "--name", "first")
    connection, channel = channel_to(node.amqp_url)
    assert channel.queue_declare("keep", passive=True).method.message_count == 10
    connection.close()
    assert node.stop() == 0


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_start_without_its_catalog_is_refused_and_loses_nothing(tmp_path: Path, ending: str) -> None:
    data = tmp_path / "data"
    node = start_node(data)
    _, channel = channel_to(node.amqp_url)
    channel.queue_declare("keep", durable=True)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "keep", str(number).encode(), pika.BasicProperties(delivery_mode=2))
    if ending == "stop":
        assert node.stop() == 0
    else:
        node.kill()
    (data / CATALOG_DIRECTORY).rename(tmp_path / "catalog")
    with pytest.raises(
        RuntimeError, match="knows of no classic queue above number 0, and the log has messages of number 1"
    ):
        start_node(data)
    shutil.rmtree(data / CATALOG_DIRECTORY)
    (tmp_path / "catalog").rename(data / CATALOG_DIRECTORY)
    node = start_node(data)
    connection, channel = channel_to(node.amqp_url)
    assert channel.queue_declare("keep", passive=True).method.message_count == 10
    connection.close()
    assert node.stop() == 0
    shutil.rmtree(data / CATALOG_DIRECTORY)
    (tmp_path / "older.toml").write_text("[node]\nolder_catalog = true\n")
    node = start_node(data, "--config", str(tmp_path / "older.toml"))
    assert "these messages are let go" in node.log.read_text()
    assert node.stop() == 0


def test_kills_and_a_clean_stop_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """`python -m tests.crash.cycles` does more of them."""
    cycles = Cycles("kill", 20261121, tmp_path, None)
    cycles.run(CLEAN_STOP_EVERY)
    assert cycles.verdict.clean_stops == 1
    assert cycles.verdict.failures == []
    assert cycles.verdict.confirmed > 1_000

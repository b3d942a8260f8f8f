"""A real node runs low: publishers are held and told, consumers go on, and everything that was held goes through afterwards."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pika

from tests.running_node import RunningNode, start_node

MARGIN_BYTES = 1 << 30  # others may write to the same disk meanwhile
TIMEOUT_S = 20.0


def connect(node: RunningNode) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.amqp_url))


def wait_until(connection: pika.BlockingConnection, condition: Callable[[], bool]) -> None:
    deadline = threading.Event()
    timer = threading.Timer(TIMEOUT_S, deadline.set)
    timer.start()
    while not condition():
        assert not deadline.is_set(), "what was waited for did not happen"
        connection.process_data_events(0.05)
    timer.cancel()


def publish_before_an_alarm(node: RunningNode) -> None:
    """By a connection of its own, and confirmed: one whose publish is read during an alarm is held with all that follows."""
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"before", pika.BasicProperties(delivery_mode=2))
    connection.close()


def test_a_full_disk_holds_publishers_until_there_is_room_again(tmp_path: Path) -> None:
    limit = shutil.disk_usage(tmp_path).free - MARGIN_BYTES
    options = tmp_path / "leveret.toml"
    options.write_text(f"[disk]\nfree_limit_bytes = {limit}\ncheck_interval_min_ms = 20\ncheck_interval_max_ms = 20\n")
    node = start_node(tmp_path / "data", "--config", str(options))
    publish_before_an_alarm(node)
    publishing, consuming = connect(node), connect(node)
    blocked: list[str] = []
    publishing.add_on_connection_blocked_callback(lambda _, method: blocked.append(method.method.reason))
    publishing.add_on_connection_unblocked_callback(lambda _, method: blocked.clear())
    publisher = publishing.channel()

    ballast = tmp_path / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * MARGIN_BYTES)

    def told() -> bool:
        """Publish until the node says that it is low: the first may come before it has looked."""
        if not blocked:
            publisher.basic_publish("", "orders", b"during")
        return bool(blocked)

    wait_until(publishing, told)
    assert "low on disk" in blocked[0]
    publisher.basic_publish("", "orders", b"held")
    bodies: list[bytes] = []
    channel = consuming.channel()
    channel.basic_consume("orders", lambda _channel, _method, _properties, body: bodies.append(body), auto_ack=True)
    wait_until(consuming, lambda: b"before" in bodies)
    assert b"held" not in bodies

    ballast.unlink()
    wait_until(publishing, lambda: not blocked)
    wait_until(consuming, lambda: b"held" in bodies)
    assert "disk alarm: low on disk" in node.log.read_text()
    assert "disk alarm is over" in node.log.read_text()
    publishing.close()
    consuming.close()
    assert node.stop() == 0


def test_a_node_above_its_memory_watermark_takes_nothing_and_serves_what_it_has(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    publish_before_an_alarm(node)
    assert node.stop() == 0

    options = tmp_path / "leveret.toml"
    options.write_text("[memory]\nhigh_watermark_bytes = 1000000\n")  # no process is so small
    node = start_node(tmp_path / "data", "--config", str(options))
    publishing, consuming = connect(node), connect(node)
    blocked: list[str] = []
    publishing.add_on_connection_blocked_callback(lambda _, method: blocked.append(method.method.reason))
    publisher = publishing.channel()
    publisher.basic_publish("", "orders", b"tells that this connection publishes")
    wait_until(publishing, lambda: bool(blocked))
    assert "low on memory" in blocked[0]
    publisher.basic_publish("", "orders", b"held")
    channel = consuming.channel()
    assert channel.basic_get("orders", auto_ack=True)[2] == b"before"
    assert channel.basic_get("orders", auto_ack=True)[2] == b"tells that this connection publishes"
    assert channel.basic_get("orders", auto_ack=True)[2] is None
    assert node.stop() == 0

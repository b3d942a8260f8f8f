"""Limits of rates on a real node: publishers are slowed down, and nothing that they publish is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pika
import pytest

from tests.e2e.test_http import ask
from tests.e2e.test_management import get
from tests.running_node import RunningNode

VHOST = "limited"
RATE = 100


@pytest.fixture
def vhost(node: RunningNode) -> Iterator[str]:
    assert ask(node, "PUT", f"/api/vhosts/{VHOST}", {})[0] == 201
    yield VHOST
    assert ask(node, "DELETE", f"/api/vhosts/{VHOST}")[0] == 204


def publish(node: RunningNode, vhost: str, count: int) -> float:
    """With confirms, one at a time; how long it took."""
    with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, vhost)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        began = time.monotonic()
        for number in range(count):
            channel.basic_publish("", "q", b"%d" % number)
        return time.monotonic() - began


def test_a_publisher_is_as_slow_as_its_vhost_may_be_and_loses_nothing(node: RunningNode, vhost: str) -> None:
    path = f"/api/vhost-limits/{vhost}/max-message-rate"
    assert ask(node, "PUT", path, {"value": RATE})[0] == 204
    assert get(node, f"/api/vhost-limits/{vhost}") == [{"vhost": vhost, "value": {"max-message-rate": RATE}}]
    assert publish(node, vhost, 2 * RATE) >= 1.8, "a tenth of a second comes at once"
    status, raw = ask(
        node, "POST", f"/api/queues/{vhost}/q/get", {"count": 1000, "ackmode": "ack_requeue_false", "encoding": "auto"}
    )
    assert (status, [one["payload"] for one in json.loads(raw)]) == (200, [str(number) for number in range(2 * RATE)])


def test_http_waits_as_well(node: RunningNode, vhost: str) -> None:
    assert ask(node, "PUT", f"/api/vhost-limits/{vhost}/max-message-rate", {"value": 2})[0] == 204
    message = {"routing_key": "nowhere", "properties": {}, "payload": "x", "payload_encoding": "string"}
    began = time.monotonic()
    for _ in range(3):
        assert ask(node, "POST", f"/api/exchanges/{vhost}/amq.topic/publish", message)[0] == 200
    assert time.monotonic() - began >= 1.2

"""Message tracing on a real node, over AMQP and HTTP. That the headers are RabbitMQ's, byte for byte, is in their pattern:
recorded from RabbitMQ 4.3.6 (names of the node and the connection left open)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.e2e.test_http import ask
from tests.e2e.test_management import get
from tests.running_node import RunningNode
from wire.amqp.tables import decode_table, split_properties, split_table

VHOST = "traced"
COPIED_WITHIN_S = 20.0
PROPERTIES = pika.BasicProperties(
    content_type="text/plain", headers={"a": 1}, delivery_mode=2, priority=3, timestamp=1_700_000_000, type="ty"
)
# What RabbitMQ 4.3.6 sends of a message with these, as it lies in the table.
RECORDED = {
    "channel": b"I\x00\x00\x00\x01",
    "exchange_name": b"S\x00\x00\x00\tamq.topic",
    "routed_queues": b"A\x00\x00\x00\x00",
    "routing_keys": b"A\x00\x00\x00\x06S\x00\x00\x00\x01n",
    "user": b"S\x00\x00\x00\x05guest",
}
RECORDED_PROPERTIES = {
    "type": b"S\x00\x00\x00\x02ty",
    "timestamp": b"IeS\xf1\x00",
    "priority": b"I\x00\x00\x00\x03",
    "delivery_mode": b"I\x00\x00\x00\x02",
    "headers": b"F\x00\x00\x00\x07\x01aI\x00\x00\x00\x01",
    "content_type": b"S\x00\x00\x00\ntext/plain",
}


@pytest.fixture
def channel(node: RunningNode) -> Iterator[BlockingChannel]:
    """In a vhost of its own that is traced, with a queue for the copies."""
    assert ask(node, "PUT", f"/api/vhosts/{VHOST}", {"tracing": True})[0] == 201
    connection = pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, VHOST))
    channel = connection.channel()
    channel.queue_declare("copies")
    channel.queue_bind("copies", "amq.rabbitmq.trace", "#")
    yield channel
    connection.close()
    assert ask(node, "DELETE", f"/api/vhosts/{VHOST}")[0] == 204


def copies(channel: BlockingChannel, count: int) -> list[tuple[str, bytes, bytes]]:
    """Key, raw headers and body of the next ones."""
    raw: list[bytes] = []
    decode = pika.BasicProperties.decode

    def kept(self: pika.BasicProperties, encoded: bytes, offset: int = 0) -> pika.BasicProperties:
        raw.append(encoded)
        return decode(self, encoded, offset)

    found: list[tuple[str, bytes, bytes]] = []
    until = time.monotonic() + COPIED_WITHIN_S
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pika.BasicProperties, "decode", kept)
        while len(found) < count:
            method, _, body = channel.basic_get("copies", auto_ack=True)
            if method is not None:
                found.append((method.routing_key, split_properties(raw[-1])["headers"], body))
            else:
                assert time.monotonic() < until, f"{found} of {count} within {COPIED_WITHIN_S} s"
    return found


def test_a_copy_has_the_bytes_that_rabbitmq_sends(channel: BlockingChannel) -> None:
    channel.basic_publish("amq.topic", "n", b"x", PROPERTIES)
    ((key, headers, body),) = copies(channel, 1)
    fields = split_table(headers)
    assert (key, body, list(fields)) == ("publish.amq.topic", b"x", sorted(fields))
    assert fields.keys() == {*RECORDED, "connection", "node", "properties", "vhost"}
    assert {name: fields[name] for name in RECORDED} == RECORDED
    assert split_table(fields["properties"][1:]) == RECORDED_PROPERTIES


def test_what_is_got_and_consumed_is_copied_with_whether_it_was_before(channel: BlockingChannel) -> None:
    channel.queue_declare("work")
    channel.basic_publish("", "work", b"hello")
    tag = channel.basic_get("work")[0].delivery_tag
    channel.basic_nack(tag)
    channel.basic_consume("work", lambda *_: channel.stop_consuming(), auto_ack=True)
    channel.start_consuming()
    told = [(key, decode_table(headers)[0].get("redelivered"), body) for key, headers, body in copies(channel, 3)]
    assert told == [("publish.", None, b"hello"), ("deliver.work", 0, b"hello"), ("deliver.work", 1, b"hello")]


def test_tracing_is_shown_kept_by_other_changes_and_switched_off(node: RunningNode, channel: BlockingChannel) -> None:
    path = f"/api/vhosts/{VHOST}"
    assert get(node, path)["tracing"] is True
    assert ask(node, "PUT", path, {"description": "changed"})[0] == 204
    assert get(node, path)["tracing"] is True
    assert ask(node, "PUT", path, {"tracing": False})[0] == 204
    assert get(node, path)["tracing"] is False
    channel.basic_publish("amq.topic", "unseen", b"x")
    assert ask(node, "PUT", path, {"tracing": True})[0] == 204
    channel.basic_publish("amq.topic", "seen", b"y")
    assert [body for _, _, body in copies(channel, 1)] == [b"y"]

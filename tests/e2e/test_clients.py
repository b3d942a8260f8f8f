"""Unmodified clients of RabbitMQ against a real node: what each does in its first hour."""

from __future__ import annotations

import asyncio
import socket
import time

import aio_pika
import amqpstorm
import kombu
import pika
import pytest

from tests.running_node import RunningNode


def test_pika_publishes_with_confirms_and_consumes(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("e2e.pika", durable=True)
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2, headers={"n": 1}, message_id="m", content_type="text/plain")
    for number in range(20):
        channel.basic_publish("", "e2e.pika", f"body {number}".encode(), properties, mandatory=True)
    got = []
    for method, seen, body in channel.consume("e2e.pika", inactivity_timeout=10):
        assert seen.headers == {"n": 1}
        assert seen.message_id == "m"
        got.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(got) == 20:
            break
    channel.cancel()
    assert got == [f"body {number}" for number in range(20)]
    assert channel.queue_declare("e2e.pika", passive=True).method.message_count == 0
    connection.close()


def test_pika_declares_an_auto_delete_queue_anew_as_soon_as_its_consumer_is_cancelled(node: RunningNode) -> None:
    """With RabbitMQ it is a new queue then; here it was refused, or gone a moment later."""
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        for number in range(1, 20):
            declared = channel.queue_declare(
                "e2e.passing", auto_delete=True, durable=True, arguments={"x-max-length": number}
            )
            assert declared.method.message_count == 0
            channel.basic_publish("", "e2e.passing", b"x")
            channel.basic_cancel(channel.basic_consume("e2e.passing", lambda *_: None))


def test_pika_sees_an_unroutable_mandatory_message_return(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "e2e.nowhere", b"x", mandatory=True)
    connection.close()


def test_pika_sees_the_reply_code_and_text_of_a_refusal(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.queue_declare("e2e.missing", passive=True)
    assert refused.value.reply_code == 404
    assert refused.value.reply_text == "NOT_FOUND - no queue 'e2e.missing' in vhost '/'"
    connection.close()


def test_pika_gets_dead_letters_with_their_history(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("e2e.dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "e2e.dead"}
    channel.queue_declare("e2e.source", durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", "e2e.source", b"poison")
    method, _, _ = channel.basic_get("e2e.source")
    channel.basic_reject(method.delivery_tag, requeue=False)
    method, properties, body = next(channel.consume("e2e.dead", inactivity_timeout=10))
    death = properties.headers["x-death"][0]
    assert (body, death["queue"], death["reason"], death["count"]) == (b"poison", "e2e.source", "rejected", 1)
    channel.basic_ack(method.delivery_tag)
    connection.close()


def test_a_large_body_comes_back_whole(node: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("e2e.large", durable=True)
    channel.confirm_delivery()
    body = bytes(range(256)) * 4096 * 3
    channel.basic_publish("", "e2e.large", body, pika.BasicProperties(delivery_mode=2))
    assert channel.basic_get("e2e.large", auto_ack=True)[2] == body
    connection.close()


def test_aio_pika_topic_exchange_and_iterator(node: RunningNode) -> None:
    async def work() -> list[bytes]:
        connection = await aio_pika.connect(node.amqp_url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(10)
            exchange = await channel.declare_exchange("e2e.topic", aio_pika.ExchangeType.TOPIC, durable=True)
            queue = await channel.declare_queue("e2e.aio", durable=True)
            await queue.bind(exchange, "stock.*.price")
            for number in range(50):
                key = "stock.eu.price" if number % 2 else "stock.eu.volume"
                await exchange.publish(aio_pika.Message(str(number).encode(), delivery_mode=2), key, mandatory=False)
            got = []
            async with queue.iterator(timeout=10) as messages:
                async for message in messages:
                    async with message.process():
                        got.append(message.body)
                    if len(got) == 25:
                        break
            return got

    assert asyncio.run(work()) == [str(number).encode() for number in range(1, 50, 2)]


def test_kombu_simple_queue(node: RunningNode) -> None:
    with kombu.Connection(node.amqp_url) as connection:
        queue = connection.SimpleQueue("e2e.kombu")
        queue.put({"hello": ["world", 1]})
        message = queue.get(timeout=10)
        assert message.payload == {"hello": ["world", 1]}
        message.ack()
        queue.close()


def test_amqpstorm_consumes_what_it_published(node: RunningNode) -> None:
    host, port = node.amqp
    with amqpstorm.Connection(host, "guest", "guest", port=port) as connection, connection.channel() as channel:
        channel.confirm_deliveries()
        channel.queue.declare("e2e.storm", durable=True)
        assert channel.basic.publish("storm", "e2e.storm") is True
        message = channel.basic.get("e2e.storm")
        assert message is not None
        assert message.body == "storm"
        message.ack()


def test_another_protocol_is_told_which_one_is_spoken(node: RunningNode) -> None:
    with socket.create_connection(node.amqp, timeout=10) as client:
        client.sendall(b"AMQP\x00\x00\x08\x00")
        assert client.recv(100) == b"AMQP\x00\x00\x09\x01"
        assert client.recv(100) == b""


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_pika_shares_a_limit_among_the_consumers_of_its_channel_and_raises_it(node: RunningNode, kind: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    names = [f"e2e.shared.{kind}.{number}" for number in range(2)]
    got: list[tuple[int, bytes]] = []
    channel.basic_qos(prefetch_count=3, global_qos=True)
    for name in names:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
        for number in range(10):
            channel.basic_publish("", name, b"%d" % number)
        channel.basic_consume(name, lambda _, method, props, body: got.append((method.delivery_tag, body)))

    def receive(count: int) -> None:
        deadline = time.monotonic() + 30
        while len(got) < count and time.monotonic() < deadline:
            connection.process_data_events(0.1)
        connection.process_data_events(0.3)  # what comes beside would come now
        assert len(got) == count

    receive(3)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    receive(5)
    channel.basic_ack(5, multiple=True)
    receive(10)
    channel.basic_qos(prefetch_count=0, global_qos=True)
    receive(20)
    assert sorted(body for _, body in got) == sorted(2 * [b"%d" % number for number in range(10)])
    connection.close()


@pytest.mark.parametrize(
    ("kind", "key", "remembered", "published"),
    [
        ("x-consistent-hash", "1", 0, 200),
        ("x-modulus-hash", "", 0, 200),
        ("x-random", "", 0, 200),
        ("x-local-random", "", 0, 200),
        ("x-recent-history", "", 2 * 20, 0),
    ],
)
def test_pika_spreads_messages_over_queues(
    node: RunningNode, kind: str, key: str, remembered: int, published: int
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    exchange = f"e2e.{kind}"
    channel.exchange_declare(exchange, kind, durable=True)
    for number in range(30):
        channel.basic_publish(exchange, "early", b"%d" % number)
    queues = [f"{exchange}.{number}" for number in range(2)]
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, key)
    for number in range(published):
        channel.basic_publish(exchange, f"key {number}", b"%d" % number, mandatory=True)
    counts = [channel.queue_declare(queue, passive=True).method.message_count for queue in queues]
    assert sum(counts) == remembered + published
    assert min(counts) > 10
    connection.close()


def test_a_name_with_a_line_break_is_kept_without_it_and_told_so(node: RunningNode) -> None:
    """As RabbitMQ does it. pika waits for ever for an answer with the name that it gave, with RabbitMQ too."""
    with kombu.Connection(node.amqp_url) as connection:
        channel = connection.channel()
        declared = channel.queue_declare("e2e.line\r\nbreak", durable=True)
        assert (declared.queue, declared.message_count) == ("e2e.linebreak", 0)
        channel.exchange_declare("e2e.ex\nchange", "direct", durable=True)
        channel.queue_bind("e2e.line\nbreak", "e2e.ex\nchange", "key\n")
        channel.basic_publish(channel.prepare_message(b"kept"), "e2e.exchange", "key\n")
        assert channel.queue_declare("e2e.linebreak\n", passive=True).message_count == 1
        assert channel.basic_get("e2e.linebreak", no_ack=True).body == b"kept"
        assert channel.queue_delete("e2e.line\nbreak") == 0
        channel.exchange_delete("e2e.ex\nchange")

"""The stream protocol with rstream, a client of others, and real nodes: publishing, reading, offsets, super streams, TLS."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import trustme
from rstream import (
    AMQPMessage,
    Consumer,
    ConsumerOffsetSpecification,
    OffsetNotFound,
    OffsetType,
    Producer,
    RouteType,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
)

from tests.e2e.test_cli import ctl, ctl_json
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode, running_node

LOGIN = {"username": "guest", "password": "guest"}
WITHIN_S = 60


@pytest.fixture(scope="module")
def node() -> Iterator[RunningNode]:
    with running_node() as one:
        yield one


def run(steps: Any) -> None:
    asyncio.run(asyncio.wait_for(steps, WITHIN_S))


async def publish(address: tuple[str, int], stream: str, bodies: list[str], **more: Any) -> None:
    """Each is confirmed when this returns."""
    async with Producer(*address, **LOGIN, **more) as producer:
        await producer.create_stream(stream, exists_ok=True)
        for body in bodies:
            await producer.send_wait(stream, AMQPMessage(body=body.encode()))


async def read(
    consumer: Consumer | SuperStreamConsumer, count: int, offset: ConsumerOffsetSpecification, **where: Any
) -> list[tuple[int, str]]:
    """Offset and body of so many messages."""
    found: list[tuple[int, str]] = []
    done = asyncio.Event()

    async def take(message: Any, context: Any) -> None:
        found.append((context.offset, message.body.decode()))
        if len(found) == count:
            done.set()

    await consumer.start()
    await consumer.subscribe(callback=take, decoder=amqp_decoder, offset_specification=offset, **where)
    await done.wait()
    await consumer.close()
    return found


FIRST = ConsumerOffsetSpecification(OffsetType.FIRST)


def test_what_is_confirmed_is_read_from_any_offset_and_over_amqp(node: RunningNode) -> None:
    at, bodies = node.addresses["stream"], [f"message {number}" for number in range(20)]

    async def steps() -> None:
        await publish(at, "letters", bodies)
        assert await read(Consumer(*at, **LOGIN), 20, FIRST, stream="letters") == list(enumerate(bodies))
        from_15 = ConsumerOffsetSpecification(OffsetType.OFFSET, 15)
        assert await read(Consumer(*at, **LOGIN), 5, from_15, stream="letters") == list(enumerate(bodies))[15:]

    run(steps())
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        read_over_amqp = []
        for method, _, body in channel.consume("letters", arguments={"x-stream-offset": "first"}):
            channel.basic_ack(method.delivery_tag)
            read_over_amqp.append(body.decode())
            if len(read_over_amqp) == 20:
                break
    assert read_over_amqp == bodies


def test_a_consumer_goes_on_where_its_stored_offset_says(node: RunningNode) -> None:
    at = node.addresses["stream"]

    async def steps() -> None:
        await publish(at, "offsets", ["a", "b", "c"])
        consumer = Consumer(*at, **LOGIN)
        await consumer.start()
        with pytest.raises(OffsetNotFound):
            await consumer.query_offset("offsets", "reader")
        await consumer.store_offset("offsets", "reader", 2)
        assert await consumer.query_offset("offsets", "reader") == 2
        await consumer.close()

    run(steps())


def test_messages_of_a_super_stream_reach_its_partitions_and_are_read_from_all(node: RunningNode) -> None:
    at, bodies = node.addresses["stream"], {f"order {number}" for number in range(30)}

    async def key_of(message: AMQPMessage) -> str:
        return str(message.body)

    async def steps() -> None:
        option = SuperStreamCreationOption(n_partitions=3)
        async with SuperStreamProducer(
            *at,
            **LOGIN,
            super_stream="orders",
            super_stream_creation_option=option,
            routing_extractor=key_of,
            routing=RouteType.Hash,
        ) as producer:
            for body in sorted(bodies):
                await producer.send(AMQPMessage(body=body.encode()))
        found = await read(SuperStreamConsumer(*at, **LOGIN, super_stream="orders"), 30, FIRST)
        assert {body for _, body in found} == bodies

    run(steps())


def test_operators_see_and_close_connections_of_stream_clients(node: RunningNode) -> None:
    at, (host, port) = node.addresses["stream"], node.http

    async def steps() -> None:
        await publish(at, "seen", ["a"])
        closed = asyncio.Event()

        async def on_close(_: Any) -> None:
            closed.set()

        consumer = Consumer(*at, **LOGIN, connection_name="a ship", on_close_handler=on_close)
        await consumer.start()
        await consumer.subscribe("seen", lambda message, context: None, offset_specification=FIRST)
        shown = await asyncio.to_thread(ctl_json, node, "connection", "list")
        ours = [row for row in shown if "a ship" in str(row)]
        assert {(row["protocol"], row["user"], row["vhost"]) for row in ours} == {("stream", "guest", "/")}
        for row in ours:
            await asyncio.to_thread(ctl, node, "connection", "close", row["id"], "--reason", "maintenance")
        await closed.wait()
        await consumer.close()

    run(steps())
    metrics = urllib.request.urlopen(f"http://{host}:{port}/metrics").read().decode()
    assert 'rabbitmq_auth_attempts_succeeded_total{protocol="stream"}' in metrics
    assert 'rabbitmq_global_messages_confirmed_total{protocol="stream"' in metrics


def test_clients_within_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    config = tmp_path / "leveret.toml"
    config.write_text(f'[tls]\ncertificate = "{tmp_path}/node.pem"\nkey = "{tmp_path}/node.pem"\n')
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with running_node("--config", str(config), "--streams", "127.0.0.1:0") as node:
        at = node.addresses["streams"]

        async def steps() -> None:
            more: dict[str, Any] = {"ssl_context": trusting, "load_balancer_mode": False}
            producer = Producer(*at, **LOGIN, **more)
            async with producer:
                await producer.create_stream("secret")
                assert await producer.stream_exists("secret")

        run(steps())


def test_a_client_of_any_node_is_sent_to_the_leader_of_its_stream(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3) as cluster:
        bodies = [f"message {number}" for number in range(10)]

        async def steps() -> None:
            await publish(cluster.stream(1), "shared", bodies)
            for number in (2, 3):
                at = cluster.stream(number)
                await publish(at, "shared", [f"by n{number}"])
                found = await read(Consumer(*at, **LOGIN), 10, FIRST, stream="shared")
                assert found == list(enumerate(bodies))

        run(steps())

"""The stream protocol with rstream, a client of others, and real nodes: publishing, reading, offsets, super streams, TLS."""

from __future__ import annotations

import asyncio
import base64
import json
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
    CompressionType,
    ConfirmationStatus,
    Consumer,
    ConsumerOffsetSpecification,
    OffsetNotFound,
    OffsetSpecification,
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
    assert read_over_amqp(node, "letters", "first", 20) == bodies


def test_sub_batches_that_share_chunks_are_read_from_any_offset_and_over_amqp(node: RunningNode) -> None:
    at, bodies = node.addresses["stream"], [f"part {number}" for number in range(301)]
    confirmed = asyncio.Event()
    answered: list[int] = []

    async def note(status: ConfirmationStatus) -> None:
        assert status.is_confirmed
        answered.append(status.message_id)
        if len(answered) == 100:
            confirmed.set()

    async def steps() -> None:
        async with Producer(*at, **LOGIN) as producer:
            await producer.create_stream("batches")
            for number in range(100):
                batch = [AMQPMessage(body=body.encode()) for body in bodies[3 * number : 3 * number + 3]]
                kind = CompressionType.Gzip if number % 3 == 1 else CompressionType.No
                await producer.send_sub_entry("batches", batch, kind, on_publish_confirm=note)
            await confirmed.wait()
            await producer.send_wait("batches", AMQPMessage(body=bodies[300].encode()))
        assert await read(Consumer(*at, **LOGIN), 301, FIRST, stream="batches") == list(enumerate(bodies))
        from_100 = ConsumerOffsetSpecification(OffsetType.OFFSET, 100)
        assert await read(Consumer(*at, **LOGIN), 201, from_100, stream="batches") == list(enumerate(bodies))[100:]

    run(steps())
    assert read_over_amqp(node, "batches", "first", 301) == bodies
    assert read_over_amqp(node, "batches", 200, 101) == bodies[200:]


def read_over_amqp(node: RunningNode, stream: str, offset: str | int, count: int) -> list[str]:
    found: list[str] = []
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for method, _, body in channel.consume(stream, arguments={"x-stream-offset": offset}):
            channel.basic_ack(method.delivery_tag)
            found.append(body.decode())
            if len(found) == count:
                break
    return found


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


def http(node: RunningNode, path: str) -> Any:
    host, port = node.http
    request = urllib.request.Request(f"http://{host}:{port}/api/{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    return json.loads(urllib.request.urlopen(request).read())


def test_operators_see_who_publishes_and_reads_and_which_of_a_group_is_active(node: RunningNode) -> None:
    at = node.addresses["stream"]

    async def steps() -> None:
        async with Producer(*at, **LOGIN) as producer:
            await producer.create_stream("watched")
            for body in (b"a", b"b", b"c"):
                await producer.send_wait("watched", AMQPMessage(body=body), publisher_name="ship")
            readers = [Consumer(*at, **LOGIN, connection_name=f"reader {number}") for number in (1, 2)]
            done = asyncio.Event()

            async def take(message: Any, context: Any) -> None:
                if context.offset == 2:
                    done.set()

            async def from_first(is_active: bool, context: Any) -> OffsetSpecification:
                return OffsetSpecification(OffsetType.FIRST, 0)

            for reader in readers:
                await reader.start()
                await reader.subscribe(
                    "watched", take, properties={"single-active-consumer": "true", "name": "crew"},
                    offset_specification=FIRST, consumer_update_listener=from_first,
                )  # fmt: skip
            await done.wait()
            (published,) = await asyncio.to_thread(ctl_json, node, "stream", "publishers", "watched")
            assert [published[name] for name in ("reference", "published", "confirmed")] == ["ship", 3, 3]
            read = await asyncio.to_thread(ctl_json, node, "stream", "consumers", "watched")
            by_activity = {one["activity"]: one for one in read}
            assert sorted(by_activity) == ["single_active", "waiting"]
            first = by_activity["single_active"]
            assert [first[name] for name in ("delivered", "offset", "lag", "lag_s", "active")] == [3, 3, 0, 0.0, True]
            (group,) = await asyncio.to_thread(ctl_json, node, "stream", "groups", "watched")
            assert (group["group"], group["consumers"], group["active"]) == ("crew", 2, first["connection"])
            (over_http,) = await asyncio.to_thread(http, node, "stream/publishers/%2F/watched")
            assert (over_http["reference"], over_http["confirmed"]) == ("ship", 3)
            over_http = await asyncio.to_thread(http, node, "stream/consumers/%2F")
            assert {one["activity_status"] for one in over_http} == {"single_active", "waiting"}
            names = {one.get("user_provided_name") for one in await asyncio.to_thread(http, node, "stream/connections")}
            assert {"reader 1", "reader 2"} <= names
            for reader in readers:
                await reader.close()

    run(steps())


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
            await publish(at, "secret", ["a", "b"], **more)  # through the leader's address, that it is told
            found = await read(Consumer(*at, **LOGIN, **more), 2, FIRST, stream="secret")
            assert found == [(0, "a"), (1, "b")]

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

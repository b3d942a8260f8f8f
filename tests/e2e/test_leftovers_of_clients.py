"""Connections that have ended leave nothing that only the garbage collector would free."""

from __future__ import annotations

import asyncio
import base64
import http.client
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pika
import pytest
from pamqp import commands
from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, Producer

import leveret
from tests.bench.client import Client
from tests.running_node import RunningNode, start_node

TOLD_WITHIN_S = 30.0
# Each call over gRPC leaves a cycle of that library's own, with the call's metadata.
OF_GRPCIO = ("grpc.", "_cython_", "importlib._bootstrap._Metadatum", "_frozen_importlib._Metadatum", "builtins.tuple")

OF_MEMBERS = (
    "raft.", "quorum.member.", "quorum.leading.", "quorum.dead_letters.", "quorum.fifo.machine.", "quorum.fifo.state.",
    "replicated.leader_duties.", "replicated.comparison.", "stream.group.member.", "stream.group.machine.",
    "stream.group.leading.",
)  # fmt: skip
SHELLS_OBJECTS_MAX = 80  # of a quorum queue and a stream: 71, without the dictionaries that newer Pythons make


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("leftovers")
    environment = {"LEFTOVERS": str(scratch / "leftovers")}
    node = start_node(scratch / "data", environment=environment, module="tests.leftovers_node")
    yield node
    node.stop()


def connected(node: RunningNode) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.amqp_url))


def idle_connection(node: RunningNode) -> None:
    connected(node).close()


def working_connection(node: RunningNode) -> None:
    connection = connected(node)
    channel = connection.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "kept", b"one")
    channel.basic_publish("amq.direct", "nowhere", b"two")
    channel.basic_consume("kept", lambda *_: None)
    channel.basic_get("kept")
    connection.close()


def transaction_left_open(node: RunningNode) -> None:
    connection = connected(node)
    channel = connection.channel()
    channel.tx_select()
    channel.basic_publish("amq.direct", "nowhere", b"one")
    connection.close()


def lost_connection(node: RunningNode) -> None:
    client = Client(*node.amqp)
    client.call(1, commands.Basic.Consume(queue="kept", consumer_tag="lost"), "Basic.ConsumeOk")
    client.abort()


def refused_channel(node: RunningNode) -> None:
    connection = connected(node)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("never declared", passive=True)
    connection.close()


def refused_changes(node: RunningNode) -> None:
    """By what was carried out, not before."""
    connection = connected(node)
    for change in (
        lambda channel: channel.queue_declare("kept", durable=False),
        lambda channel: channel.queue_bind("kept", "no.such.exchange"),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            change(connection.channel())
    connection.close()


def deleted_queues(node: RunningNode) -> None:
    """One with messages and consumers, one that goes with its connection, one that would have expired."""
    connection = connected(node)
    channel = connection.channel()
    channel.queue_declare("deleted", durable=True, arguments={"x-dead-letter-exchange": "amq.fanout"})
    channel.queue_declare("private", exclusive=True)
    channel.queue_declare("expiring", arguments={"x-expires": 600_000, "x-message-ttl": 600_000})
    for queue in ("deleted", "private", "expiring"):
        for _ in range(3):
            channel.basic_publish("", queue, b"one")
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
        channel.basic_consume(queue, lambda *_: None)
    for queue in ("deleted", "expiring"):
        channel.queue_delete(queue)
    connection.close()


def deleted_replicated_queues(node: RunningNode) -> None:
    """With messages, a consumer and what it holds."""
    connection = connected(node)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=2)
    for kind in ("quorum", "stream"):
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        for _ in range(3):
            channel.basic_publish("", kind, b"one")
        came: list[int] = []
        offset = {"x-stream-offset": "first"} if kind == "stream" else {}
        channel.basic_consume(kind, lambda *_, came=came: came.append(1), arguments=offset)
        while not came:
            connection.process_data_events(None)
        channel.queue_delete(kind)
    connection.close()


def stream_publisher(node: RunningNode) -> None:
    """That declares its stream, which is there from the second time on."""

    async def publish() -> None:
        async with Producer(*node.addresses["stream"], username="guest", password="guest") as producer:
            await producer.create_stream("events", exists_ok=True)
            await producer.send_wait("events", AMQPMessage(body=b"one"))

    asyncio.run(publish())


def stream_reader(node: RunningNode) -> None:
    async def read() -> None:
        reader = Consumer(*node.addresses["stream"], username="guest", password="guest")
        await reader.start()
        came = asyncio.Event()
        begin = ConsumerOffsetSpecification(OffsetType.FIRST)
        await reader.subscribe("events", lambda *_: came.set(), offset_specification=begin)
        await asyncio.wait_for(came.wait(), TOLD_WITHIN_S)
        await reader.close()

    stream_publisher(node)
    asyncio.run(read())


def grpc_clients(node: RunningNode) -> None:
    with leveret.connect_sync("{}:{}".format(*node.grpc)) as client:
        client.topology.declare_queue("called")
        with client.publisher() as publisher:
            publisher.publish(b"one", routing_key="called")
        with client.consume("called", prefetch=1) as deliveries:
            next(iter(deliveries)).ack()


def asked(node: RunningNode, path: str) -> None:
    connection = http.client.HTTPConnection(*node.http)
    login = base64.b64encode(b"guest:guest").decode()
    for _ in range(2):
        connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
        connection.getresponse().read()
    connection.close()


def asked_for_a_list(node: RunningNode) -> None:
    asked(node, "/api/queues?page=1&sort=messages&name=k&use_regex=true")


def asked_for_what_is_not_there(node: RunningNode) -> None:
    asked(node, "/api/queues/%2F/none")


@pytest.mark.parametrize(
    "client",
    [
        idle_connection,
        working_connection,
        transaction_left_open,
        lost_connection,
        refused_channel,
        refused_changes,
        deleted_queues,
        stream_publisher,
        stream_reader,
        grpc_clients,
        asked_for_a_list,
        asked_for_what_is_not_there,
    ],
)
def test_a_client_that_has_gone_leaves_nothing_for_the_collector(
    client: Callable[[RunningNode], None], node: RunningNode
) -> None:
    working_connection(node)
    client(node)  # what is made once, of the node itself, is made
    all_gone(node)
    node.process.send_signal(signal.SIGUSR1)
    for _ in range(3):
        client(node)
    all_gone(node)
    left = leftovers(node)
    of_others = OF_GRPCIO if client is grpc_clients else ()
    ours = [name for name in left["types"] if not name.startswith(of_others)]
    assert not ours, (left["types"], left["held"])


def test_deleted_replicated_queues_leave_nothing_of_their_members(node: RunningNode) -> None:
    """The member with its machine, and what its leader did, were most of what they left. The queues themselves are cycles."""
    deleted_replicated_queues(node)
    all_gone(node)
    node.process.send_signal(signal.SIGUSR1)
    for _ in range(3):
        deleted_replicated_queues(node)
    all_gone(node)
    left = leftovers(node)
    assert [name for name in left["types"] if name.startswith(OF_MEMBERS)] == [], left["held"]
    shells = left["count"] - left["types"].get("builtins.dict", 0)
    assert shells < 3 * SHELLS_OBJECTS_MAX, left["types"]


def all_gone(node: RunningNode) -> None:
    """Its connections have ended on the node, too: a further one ends after them."""
    deadline = time.monotonic() + TOLD_WITHIN_S
    while b"[]" not in answer(node, "/api/connections"):
        assert time.monotonic() < deadline, "connections that do not end"


def answer(node: RunningNode, path: str) -> bytes:
    connection = http.client.HTTPConnection(*node.http)
    connection.request("GET", path, headers={"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()})
    body = connection.getresponse().read()
    connection.close()
    return body


def leftovers(node: RunningNode) -> dict[str, Any]:
    told = Path(node.data_dir.parent / "leftovers")
    told.unlink(missing_ok=True)
    node.process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + TOLD_WITHIN_S
    while not told.exists():
        assert time.monotonic() < deadline, "nothing was told"
        time.sleep(0.05)
    found: dict[str, Any] = msgspec.json.decode(told.read_bytes())
    return found

"""The stream protocol over three nodes: clients are told of leaders, and nothing is lost or stored twice when these change."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rstream import (
    AMQPMessage,
    ConsumerOffsetSpecification,
    OffsetType,
    RouteType,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
)

from tests.crash.stream_publishers import StoredOffset, StreamPublisher, StreamSocket, judge_kept
from tests.crash.streams import StreamHistory, look
from tests.crash.workload import Address, PublisherHistory
from tests.e2e.test_cluster import on, process_of
from tests.e2e.test_quorum_queues import all_are_voters
from tests.running_cluster import RunningCluster, running_cluster
from wire.stream.command_fields import NO_BROKER
from wire.stream.stream_commands import CreateStreamRequest, MetadataRequest

WITHIN_S = 60.0
LOGIN = {"username": "guest", "password": "guest"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("streams") / "data") as running:
        all_are_voters(running)
        yield running


def create(cluster: RunningCluster, stream: str) -> None:
    node = StreamSocket(cluster.stream(1))
    node.call(CreateStreamRequest(10, stream, {}))
    node.close()


def leader_of(cluster: RunningCluster, stream: str, but_not: int = 0) -> int:
    """The number of the node that clients are told of by another one than `but_not`, as soon as it is another one."""
    by_address = {cluster.stream(number): number for number in (1, 2, 3)}
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        node = StreamSocket(cluster.stream(2 if but_not == 1 else 1))
        found = node.call(MetadataRequest(11, (stream,)))
        node.close()
        leader = found.streams[0].leader
        if leader != NO_BROKER:
            number = by_address[found.brokers[leader].host, found.brokers[leader].port]
            if number != but_not:
                return number
    raise AssertionError(f"no leader of {stream} but n{but_not} within {WITHIN_S} s")


class Named:
    """A publisher with a name, whoever leads."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.history = PublisherHistory(f"ship of {stream}", "", stream)
        self.stored = StoredOffset()
        self.seed = 0

    def publish_to(self, address: Address, confirms: int) -> StreamPublisher:
        """As soon as so many are confirmed; it goes on."""
        self.seed += 1
        publisher = StreamPublisher(address, self.stream, self.history, self.seed, self.stored)
        publisher.start()
        until = time.monotonic() + WITHIN_S
        while publisher.confirmed_now < confirms:
            assert publisher.is_alive() and time.monotonic() < until, (
                f"{publisher.confirmed_now} of {confirms} confirms"
            )
            publisher.progress.wait(1.0)
            publisher.progress.clear()
        return publisher

    def judge(self, amqp: Address, stream: Address) -> list[str]:
        history = StreamHistory(self.stream, [self.history])
        return look(history, amqp, whole=True) + judge_kept(stream, self.stream, self.history, self.stored)


def ended(publisher: StreamPublisher) -> bool:
    publisher.join(WITHIN_S)
    return not publisher.is_alive()


def test_a_leader_that_is_killed_takes_nothing_of_a_named_publisher_with_it(cluster: RunningCluster) -> None:
    create(cluster, "killed")
    named, leader = Named("killed"), leader_of(cluster, "killed")
    for _ in range(2):
        publisher, said_before = named.publish_to(cluster.stream(leader), 500), len(cluster.lines)
        os.kill(process_of(cluster, leader), signal.SIGKILL)
        assert ended(publisher)
        killed, leader = leader, leader_of(cluster, "killed", but_not=leader)
        cluster.said(rf"^n{killed} +\| ready: ", said_before)
    publisher = named.publish_to(cluster.stream(leader), 500)
    publisher.stop()
    assert ended(publisher) and len(named.history.confirmed) == named.history.sent
    assert named.judge(cluster.amqp(leader), cluster.stream(leader)) == []


def test_publishers_of_a_leader_that_is_moved_are_told_and_find_the_new_one(cluster: RunningCluster) -> None:
    create(cluster, "moved")
    named, leader = Named("moved"), leader_of(cluster, "moved")
    for _ in range(2):
        publisher = named.publish_to(cluster.stream(leader), 200)
        target = leader % 3 + 1
        on(cluster.grpc(leader), lambda node, to=f"n{target}": node.admin.transfer_queue_leader("moved", to))
        assert ended(publisher), "it was not told that its stream is led from elsewhere"
        assert leader_of(cluster, "moved", but_not=leader) == target
        leader = target
    publisher = named.publish_to(cluster.stream(leader), 200)
    publisher.stop()
    assert ended(publisher)
    assert named.judge(cluster.amqp(leader), cluster.stream(leader)) == []


def test_a_super_stream_is_published_and_read_over_all_nodes(cluster: RunningCluster) -> None:
    bodies = {f"order {number}" for number in range(90)}

    async def key_of(message: AMQPMessage) -> str:
        return str(message.body)

    async def steps() -> None:
        option = SuperStreamCreationOption(n_partitions=3)
        more: dict[str, Any] = {"routing_extractor": key_of, "routing": RouteType.Hash}
        for number in (1, 2, 3):
            at = cluster.stream(number)
            async with SuperStreamProducer(
                *at, **LOGIN, super_stream="orders", super_stream_creation_option=option, **more
            ) as producer:
                for body in sorted(bodies)[number - 1 :: 3]:
                    await producer.send(AMQPMessage(body=body.encode()))
        for number in (1, 2, 3):
            assert (
                await read_all(SuperStreamConsumer(*cluster.stream(number), **LOGIN, super_stream="orders")) == bodies
            )

    async def read_all(consumer: SuperStreamConsumer) -> set[str]:
        found: set[str] = set()
        done = asyncio.Event()

        async def take(message: Any, context: Any) -> None:
            found.add(message.body.decode())
            if len(found) == len(bodies):
                done.set()

        await consumer.start()
        first = ConsumerOffsetSpecification(OffsetType.FIRST)
        await consumer.subscribe(callback=take, decoder=amqp_decoder, offset_specification=first)
        await done.wait()
        await consumer.close()
        return found

    asyncio.run(asyncio.wait_for(steps(), WITHIN_S))

"""Each publish ends in exactly one way, and a broken connection is reported or repaired, as asked."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import leveret
from broker.errors import ConnectionForced
from leveret import errors, publisher
from leveret.parcels import PARCEL_MESSAGES_MAX
from native import content
from tests.unit.front.grpc.fakes import Running, bounded, running, until


def with_node(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            await work(server, node)

    bounded(run())


def stored(server: Running) -> list[bytes]:
    return [content.messages(item.content, 0, 1)[0][1] for item in server.broker.fake_queues["/", "q"].ready]


def break_connections(server: Running) -> None:
    for connection in list(server.broker.open_connections):
        connection.close(ConnectionForced("broken by the test"))


def test_a_publish_returns_when_it_is_confirmed_and_not_before() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        server.broker.held = True
        publishing = asyncio.ensure_future(one.publish(b"x", routing_key="q"))
        await until(lambda: bool(server.broker.runs))
        assert (publishing.done(), one.unconfirmed) == (False, 1)
        server.broker.held = False
        server.broker.end_turn()
        await publishing
        assert (stored(server), one.unconfirmed) == ([b"x"], 0)

    with_node(work)


def test_order_holds_across_calls_and_batches() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        bodies = [b"%d" % number for number in range(5000)]
        one = await node.publisher()
        async with asyncio.TaskGroup() as group:
            for start in range(0, 5000, 50):
                group.create_task(one.publish_many(bodies[start : start + 50], routing_key="q"))
        assert stored(server) == bodies
        assert len(server.broker.runs) < 1000, "what waits together should travel together"

    with_node(work)


def test_batches_that_end_where_a_parcel_does_keep_their_numbers() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        count = 3 * publisher.BATCH_MESSAGES_MAX
        assert publisher.BATCH_MESSAGES_MAX % PARCEL_MESSAGES_MAX == 0
        async with await node.publisher() as one:
            await one.publish_many([b"%d" % number for number in range(count)], routing_key="q")
        assert stored(server) == [b"%d" % number for number in range(count)]

    with_node(work)


def test_large_messages_are_cut_into_batches_that_a_node_takes() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        async with await node.publisher() as one:
            await one.publish_many([bytes(700_000)] * 40, routing_key="q")
        assert len(stored(server)) == 40

    with_node(work)


def test_what_is_not_taken_is_told_by_index() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        too_urgent = leveret.Message(b"no", priority=300)
        with pytest.raises(leveret.PublishRefused, match="priority is between 0 and 255") as refused:
            await one.publish_many([b"a", too_urgent, b"b", too_urgent], routing_key="q")
        assert (refused.value.indexes, refused.value.error) == ((1, 3), "MalformedTable")
        assert stored(server) == [b"a", b"b"]
        with pytest.raises(leveret.PublishRefused, match="a queue would not take the message") as full:
            await one.publish(b"x", routing_key="full", mandatory=False)
        assert full.value.error == ""
        with pytest.raises(leveret.PublishRefused, match="no exchange 'none' in vhost '/'") as missing:
            await one.publish(b"x", exchange="none")
        assert missing.value.error == "NotFound"
        await one.publish(b"c", routing_key="q")

    with_node(work)


def test_messages_without_a_queue_are_unroutable_unless_they_may_be_dropped() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        await one.publish(b"x", routing_key="nowhere", mandatory=False)
        with pytest.raises(leveret.Unroutable, match="there is no queue 'nowhere'") as returned:
            await one.publish_many([b"x", b"y"], routing_key="nowhere")
        assert returned.value.indexes == (0, 1)
        with pytest.raises(leveret.Unroutable, match=r"exchange 'amq\.topic' leads to no queue with routing key 'ab'"):
            await one.publish(b"x", exchange="amq.topic", routing_key="ab")

    with_node(work)


def test_a_message_that_is_too_large_is_refused_here_and_the_stream_lives() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        server.broker.held = True
        other = asyncio.ensure_future(one.publish(b"other", routing_key="q"))
        await until(lambda: bool(server.broker.runs))
        large = bytes(16_777_217)
        with pytest.raises(
            leveret.MessageTooLarge, match="a message of 16777217 bytes, and the node takes at most 16777216"
        ):
            await one.publish(large, routing_key="q")
        heavy = leveret.Message(b"x", headers={"h": "x" * 20_000_000})
        with pytest.raises(leveret.MessageTooLarge, match="properties and headers of 2000"):
            await one.publish(heavy, routing_key="q")
        several = asyncio.ensure_future(one.publish_many([b"a", large, b"b"], routing_key="q"))
        server.broker.held = False
        await until(lambda: len(server.broker.runs) > 1)
        server.broker.end_turn()
        await other
        with pytest.raises(leveret.MessageTooLarge) as refused:
            await several
        assert refused.value.indexes == (1,)
        assert stored(server) == [b"other", b"a", b"b"]
        assert len(server.broker.open_connections) == 1, "it is the same stream"

    with_node(work)


def test_headers_count_when_messages_are_cut_into_batches() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        heavy = leveret.Message(b"x", headers={"h": "x" * 100_000})
        async with await node.publisher() as one:
            await one.publish_many([heavy] * 400, routing_key="q")
        assert len(stored(server)) == 400

    with_node(work)


def test_publishing_waits_at_the_limit_of_unconfirmed_messages() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher(max_unconfirmed=2)
        server.broker.held = True
        tasks = [asyncio.ensure_future(one.publish(b"%d" % number, routing_key="q")) for number in range(5)]
        await until(lambda: len(stored(server)) == 2 or len(server.broker.runs) == 2)
        assert one.unconfirmed == 2
        server.broker.held = False
        server.broker.end_turn()
        await asyncio.gather(*tasks)
        assert stored(server) == [b"0", b"1", b"2", b"3", b"4"]

    with_node(work)


def test_a_broken_connection_is_reported_and_the_next_publish_connects_again() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        server.broker.held = True
        publishing = asyncio.ensure_future(one.publish(b"x", routing_key="q"))
        await until(lambda: bool(server.broker.runs))
        break_connections(server)
        with pytest.raises(leveret.ConnectionLost, match="may or may not be stored"):
            await publishing
        server.broker.held = False
        await one.publish(b"y", routing_key="q")
        assert stored(server) == [b"x", b"y"]

    with_node(work)


@pytest.mark.parametrize("seed", range(5))
def test_with_resend_everything_arrives_at_least_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)

    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher(resend=True)
        bodies = [b"%d" % number for number in range(300)]
        publishing = asyncio.ensure_future(one.publish_many(bodies, routing_key="q"))
        more = [asyncio.ensure_future(one.publish(b"more%d" % number, routing_key="q")) for number in range(50)]
        for _ in range(3):
            for _ in range(chance.randrange(200)):
                await asyncio.sleep(0)
            server.broker.held = chance.random() < 0.5
            break_connections(server)
        server.broker.held = False
        server.broker.end_turn()
        await asyncio.gather(publishing, *more)
        first_seen = list(dict.fromkeys(stored(server)))
        assert first_seen == bodies + [b"more%d" % number for number in range(50)], f"seed {seed}"

    with_node(work)


def test_what_was_not_sent_yet_comes_behind_what_is_sent_again() -> None:
    """The node reads nothing, so part of what was given is on its way, and the rest has not left."""

    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher(resend=True)
        server.broker.open_connections[0].set_blocked("memory")
        await until(lambda: one.blocked_reason == "memory")
        bodies = [b"%d|" % number + bytes(1 << 20) for number in range(12)]
        publishing = [asyncio.ensure_future(one.publish(body, routing_key="q")) for body in bodies]
        await until(lambda: one.unconfirmed == len(bodies) and 0 < len(one._to_send) < len(bodies))
        break_connections(server)
        await asyncio.gather(*publishing)
        assert [body[:3].partition(b"|")[0] for body in dict.fromkeys(stored(server))] == [b"%d" % n for n in range(12)]

    with_node(work)


def test_a_refused_stream_is_an_error_at_once() -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target, vhost="missing") as node:
            with pytest.raises(errors.NotAllowed, match="vhost missing not found"):
                await node.publisher(resend=True)

    bounded(run())


def test_closing_waits_for_confirms_and_abandoning_reports_them() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one, two = await node.publisher(), await node.publisher()
        server.broker.held = True
        first = asyncio.ensure_future(one.publish(b"1", routing_key="q"))
        second = asyncio.ensure_future(two.publish(b"2", routing_key="q"))
        await until(lambda: len(server.broker.runs) == 2)
        closing = asyncio.ensure_future(one.close())
        await two.abandon()
        with pytest.raises(leveret.ConnectionLost, match="the publisher was closed"):
            await second
        assert not closing.done()
        server.broker.held = False
        server.broker.end_turn()
        await asyncio.gather(closing, first)
        with pytest.raises(leveret.ConnectionLost, match="the publisher is closed"):
            await one.publish(b"3", routing_key="q")

    with_node(work)


def test_a_node_in_alarm_says_why_it_takes_nothing() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        one = await node.publisher()
        server.broker.open_connections[0].set_blocked("memory")
        await until(lambda: one.blocked_reason == "memory")
        server.broker.open_connections[0].set_blocked(None)
        await until(lambda: one.blocked_reason is None)

    with_node(work)

"""Streams of real nodes through the Python client and `leveretctl`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import leveret
from leveret.v1 import message_pb2, publish_pb2
from tests.e2e.test_cluster import process_of
from tests.e2e.test_http import ask
from tests.e2e.test_quorum_queues import all_are_voters
from tests.e2e.test_streams import ctl, until_voters
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode

WITHIN_S = 60.0


def target(node: RunningNode) -> str:
    return f"{node.grpc[0]}:{node.grpc[1]}"


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_program_publishes_to_a_stream_and_reads_it_from_any_place(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        stream = connection.stream("e2e.places")
        stream.declare(max_age=timedelta(days=1))
        with stream.publisher() as publisher:
            publisher.publish_many(numbered(100))
            publisher.publish(leveret.Message(b"100", headers={"n": 1}, message_id="m"))
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        for place, first in (("first", 0), (40, 40), (timedelta(hours=1), 0), (hour_ago, 0), ("1h", 0)):
            with stream.read(place, prefetch=10) as reader:
                found = [reader.receive(WITHIN_S) for _ in range(101 - first)]
            assert [message.offset for message in found] == list(range(first, 101))
            assert [message.body for message in found] == numbered(101 - first, first)
            assert (found[-1].headers, found[-1].message.message_id) == ({"n": 1}, "m")
            assert [one.offset for one in stream.browse(place, limit=3)] == [first, first + 1, first + 2]
        with stream.read("next") as reader, stream.publisher() as publisher:
            publisher.publish(b"101")
            assert reader.receive(WITHIN_S).offset == 101
            assert reader.next_offset == 102
        assert stream.browse("next") == []
        with pytest.raises(leveret.RequestRefused, match="neither an offset nor a timestamp"):
            stream.read("soon")
        with pytest.raises(leveret.RequestRefused, match="neither an offset nor a timestamp"):
            stream.browse("soon")
        status = stream.status()
        assert status.queue.kind == "stream"
        assert (status.details["first_offset"], status.details["committed_offset"]) == (0, 101)
        shown = json.loads(ask(node, "GET", "/api/queues/%2F/e2e.places")[1])
        assert (shown["type"], shown["messages"], shown["first_offset"], shown["committed_offset"]) == (
            "stream",
            102,
            0,
            101,
        )
        stream.delete()


def test_a_reader_goes_on_at_another_node_when_its_own_is_killed(tmp_path: Path) -> None:
    async def work(targets: list[str], kill: int) -> None:
        async with leveret.connect(targets) as node:
            stream = node.stream("events")
            await stream.declare()
            publisher = await stream.publisher(resend=True)
            await publisher.publish_many(numbered(50))
            async with stream.read("first", prefetch=7) as reader:
                seen = [await anext(reader) for _ in range(20)]
                os.kill(kill, signal.SIGKILL)
                await publisher.publish_many(numbered(50, 50))
                seen += [await anext(reader) for _ in range(80)]
            assert [message.offset for message in seen] == list(range(100))
            assert [message.body for message in seen] == numbered(100)

    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        targets = [cluster.grpc(number) for number in (1, 2, 3)]
        said_before = len(cluster.lines)
        asyncio.run(asyncio.wait_for(work(targets, process_of(cluster, 1)), WITHIN_S))
        cluster.said(r"^n1 +\| ready: ", said_before)


def test_operators_look_at_a_stream_and_move_its_members(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        ctl(cluster, "stream", "declare", "moved", "--members", "1", "--max-age", "1D")
        for number in range(12):
            ctl(cluster, "publish", f"message {number}", "--key", "moved")
        ctl(cluster, "stream", "add-replica", "moved", "n2")
        until_voters(cluster, "moved", ["n1", "n2"])
        with leveret.connect_sync(cluster.grpc(2)) as node, node.stream("moved").read("first", prefetch=1) as reader:
            assert next(reader).body == b"message 0"
            status = json.loads(ctl(cluster, "--json", "stream", "status", "moved"))
            assert status["details"]["committed_offset"] == 11
            assert [(one["node"], one["first_offset"], one["committed_offset"]) for one in status["group"]["members"]] == [
                ("n1", 0, 11), ("n2", 0, 11),
            ]  # fmt: skip
            (line,) = json.loads(ctl(cluster, "--json", "stream", "readers", "moved"))
            assert (line["node"], line["offset"], line["lag"]) == ("n2", 1, 11)
        ctl(cluster, "stream", "transfer-leader", "moved", "n2")
        ctl(cluster, "stream", "rebalance", "--queue-pattern", "^other")
        ctl(cluster, "stream", "delete-replica", "moved", "n1")
        until_voters(cluster, "moved", ["n2"])
        shown = ctl(cluster, "stream", "read", "moved", "--offset", "5", "--count", "3")  # n1 has no member any more
        assert [line.split(" | ") for line in shown.splitlines()] == [
            [f"{number} (default) moved", f"message {number}"] for number in (5, 6, 7)
        ]
        (listed,) = json.loads(ctl(cluster, "--json", "stream", "list"))
        assert (listed["name"], listed["arguments"]["x-max-age"]) == ("moved", "1D")


def test_a_super_stream_is_created_over_http_and_what_is_kept_by_names_is_shown(node: RunningNode) -> None:
    path, wanted = "/api/stream/super-streams/%2F/e2e.http", {"binding-keys": "eu, us", "arguments": {"max-age": "1D"}}
    assert ask(node, "PUT", path, wanted)[0] == 204
    status, why = ask(node, "PUT", path, wanted)
    assert (status, b"is there already" in why) == (400, True)
    with leveret.connect_sync(target(node)) as connection:
        assert connection.super_stream("e2e.http").partitions() == ["e2e.http-eu", "e2e.http-us"]
        stream = connection.stream("e2e.http-eu")
        with stream.publisher(reference="till 3") as publisher:
            publisher.publish_many(numbered(7))
        stream.store_offset("billing", 4)
        tracking = "/api/stream/%2F/e2e.http-eu/tracking"
        shown = json.loads(ask(node, "GET", tracking)[1])
        assert shown == {"writers": {"till 3": 7}, "offsets": {"billing": 4}}
        assert json.loads(ask(node, "GET", f"{tracking}?type=offset")[1]) == {"offsets": {"billing": 4}}
        connection.super_stream("e2e.http").delete()
        assert ask(node, "GET", tracking)[0] == 404


def test_a_super_stream_is_created_whole_and_its_keys_keep_their_order(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        orders = connection.super_stream("e2e.orders")
        assert orders.create(partitions=3, max_age="1D") == [f"e2e.orders-{number}" for number in range(3)]
        with pytest.raises(leveret.RequestRefused, match="is there already"):
            orders.create(partitions=2)
        with orders.publisher() as publisher:
            for number in range(30):
                publisher.publish(b"%d" % number, key=f"customer {number % 5}")
        held = [connection.stream(one).browse("first", limit=100) for one in orders.partitions()]
        assert sorted(int(message.body) for messages in held for message in messages) == list(range(30))
        for messages in held:
            for customer in range(5):
                of_one = [int(message.body) for message in messages if int(message.body) % 5 == customer]
                assert of_one in ([], list(range(customer, 30, 5)))
        orders.delete()
        with pytest.raises(leveret.RequestRefused, match="no super stream"):
            orders.partitions()


def test_a_reader_with_a_filter_gets_what_was_published_for_it(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        stream = connection.stream("e2e.filtered")
        stream.declare(filter_bytes=32)
        with stream.publisher() as publisher:
            for number in range(60):
                publisher.publish(b"%d" % number, filter_value=("eu", "us", None)[number % 3])
        for wanted, unfiltered, numbers in (
            (["eu"], False, range(0, 60, 3)),
            (["eu", "us"], False, [number for number in range(60) if number % 3 != 2]),
            (["us"], True, [number for number in range(60) if number % 3 != 0]),
        ):
            with stream.read("first", filter_values=wanted, match_unfiltered=unfiltered) as reader:
                found = [reader.receive(WITHIN_S) for _ in numbers]
            assert [message.offset for message in found] == list(numbers)
        stream.delete()


def test_a_program_goes_on_behind_the_offset_that_it_stored(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        stream = connection.stream("e2e.stored")
        stream.declare()
        with stream.publisher() as publisher:
            publisher.publish_many(numbered(20))
        assert stream.stored_offset("billing") is None
        with stream.read("first", reference="billing") as reader:
            assert [reader.receive(WITHIN_S).offset for _ in range(7)] == list(range(7))
            reader.store_offset()
        assert stream.stored_offset("billing") == 6
        with stream.read("first", reference="billing") as reader:
            assert reader.receive(WITHIN_S).offset == 7
        stream.store_offset("billing", 0)
        assert stream.stored_offset("billing") == 0
        stream.delete()


def test_a_publisher_with_a_name_goes_on_behind_what_is_stored_and_stores_nothing_twice(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        stream = connection.stream("e2e.numbered")
        stream.declare()
        with stream.publisher(reference="till") as publisher:
            publisher.publish_many(numbered(5))
            assert publisher.next_number == 6
        assert stream.last_number("till") == 5
        with stream.publisher(reference="till") as publisher:
            assert publisher.next_number == 6
            publisher.publish(b"5")
        again = publish_pb2.PublishBatch(routing_key=stream.name, publisher="till", first_number=4, first_sequence=1)
        again.messages.extend(message_pb2.Message(body=body) for body in (b"again 4", b"again 5", b"again 6", b"6"))
        connection.call(lambda one: published_raw(one, again))
        assert [one.body for one in stream.browse(limit=99)] == numbered(7), "what it had, and the one that was new"
        assert stream.last_number("till") == 7
        stream.delete()


async def published_raw(node: leveret.Node, batch: publish_pb2.PublishBatch) -> None:
    """One batch as the client would not send it, until all of it is accepted."""
    call = (await node.stubs()).publisher.Publish(metadata=node.metadata)
    await call.write(publish_pb2.PublishRequest(open=message_pb2.Open()))
    await call.write(publish_pb2.PublishRequest(batch=batch))
    assert (await call.read()).WhichOneof("kind") == "opened"
    accepted = 0
    while accepted < len(batch.messages):
        confirms = (await call.read()).confirms
        assert not confirms.refused
        accepted += sum(one.last - one.first + 1 for one in confirms.accepted)
    call.cancel()

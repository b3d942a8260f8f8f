"""Readers of a stream see each message once and in order, whatever becomes of their connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import leveret
from broker.errors import ConnectionForced
from leveret import errors
from leveret.stream import offset_argument
from tests.unit.client.test_ctl import Node
from tests.unit.front.grpc.fakes import Running, bounded, running, until


def with_stream(work: Any, *bodies: bytes) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            stream = node.stream("s")
            await stream.declare()
            async with await stream.publisher() as publisher:
                await publisher.publish_many(bodies)
            await work(server, node, stream)

    bounded(run())


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def taken(reader: leveret.StreamReader, count: int) -> list[tuple[int, bytes]]:
    found = [await anext(reader) for _ in range(count)]
    return [(message.offset, message.body) for message in found]


async def cut(server: Running) -> None:
    """The connections of all subscriptions break."""
    for connection in list(server.broker.open_connections):
        connection.close(ConnectionForced("the test says so"))
    await until(lambda: not server.broker.open_sessions)


def test_a_stream_is_read_from_any_place_as_often_as_wanted() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        for begin, first in (("first", 0), (3, 3), ("first", 0)):
            async with stream.read(begin) as reader:
                assert await taken(reader, 6 - first) == list(enumerate(numbered(6)))[first:]
                assert reader.next_offset == 6
        assert len(server.broker.fake_queues["/", "s"].ready) == 6

    with_stream(work, *numbered(6))


def test_asking_for_the_next_message_makes_room_for_one_more() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        async with stream.read("first", prefetch=2) as reader:
            for number in range(20):
                assert (await anext(reader)).offset == number
                assert len(server.broker.open_sessions[-1].unacknowledged) <= 2

    with_stream(work, *numbered(20))


def test_a_reader_goes_on_behind_what_it_handed_out_when_its_connection_breaks() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        async with stream.read("first", prefetch=4) as reader:
            assert await taken(reader, 3) == list(enumerate(numbered(3)))
            await cut(server)
            assert await taken(reader, 4) == list(enumerate(numbered(7)))[3:]
            waiting = asyncio.ensure_future(anext(reader))
            await until(lambda: len(server.broker.open_sessions[-1].subscriptions) == 1)
            await cut(server)
            async with await stream.publisher() as publisher:
                await publisher.publish(b"7")
            message = await waiting
            assert (message.offset, message.body) == (7, b"7")

    with_stream(work, *numbered(7))


def test_without_reconnect_it_tells_that_the_connection_broke() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        reader = stream.read("next", reconnect=False)
        await reader.start()
        await cut(server)
        with pytest.raises(errors.ConnectionLost):
            await anext(reader)

    with_stream(work)


def test_giving_up_on_a_wait_misses_nothing() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        async with stream.read("first", prefetch=1) as reader:
            assert (await anext(reader)).offset == 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.01)
            async with await stream.publisher() as publisher:
                await publisher.publish_many(numbered(2, 1))
            assert await taken(reader, 2) == [(1, b"1"), (2, b"2")]

    with_stream(work, b"0")


def test_it_ends_with_the_stream_and_with_the_connection() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        reader = await stream.read().start()
        await stream.delete()
        with pytest.raises(errors.SubscriptionEnded, match="the node ended the subscription"):
            await anext(reader)
        with pytest.raises(errors.NotFound):
            await stream.read().start()
        await stream.declare()
        other = await stream.read().start()
        await node.close()
        assert [message async for message in other] == []
        with pytest.raises(errors.ConnectionLost, match="the reader is closed"):
            await other.start()

    with_stream(work)


def test_a_reader_with_a_reference_begins_behind_what_is_stored_under_it() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        assert await stream.stored_offset("mine") is None
        async with stream.read("first", reference="mine") as reader:
            await reader.store_offset()
            assert await stream.stored_offset("mine") is None, "nothing was handed out"
            await taken(reader, 3)
            await reader.store_offset()
        assert await stream.stored_offset("mine") == 2
        async with stream.read("first", reference="mine") as reader:
            assert await taken(reader, 2) == [(3, b"3"), (4, b"4")]
            await cut(server)
            assert await taken(reader, 1) == [(5, b"5")], "not behind what is stored: it is in the middle of its work"
        async with stream.read("first", reference="other") as reader:
            assert await taken(reader, 1) == [(0, b"0")]
        await stream.store_offset("mine", 0)
        assert await stream.stored_offset("mine") == 0, "0 is an offset"
        with pytest.raises(ValueError, match="has no name"):
            await stream.read().store_offset()

    with_stream(work, *numbered(6))


def test_what_a_publisher_with_a_name_sends_again_is_stored_once() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        async with await stream.publisher(reference="till 3", resend=True) as publisher:
            assert publisher.next_number == 1
            await publisher.publish_many(numbered(3))
            server.broker.held = True  # what comes now is stored, and its confirms are lost
            publishing = asyncio.ensure_future(publisher.publish_many(numbered(4, 3)))
            await until(lambda: len(server.broker.fake_queues["/", "s"].ready) == 7)
            await cut(server)
            server.broker.held = False
            await publishing
            await publisher.publish(b"7")
            assert publisher.next_number == 9
        assert [one.body for one in await stream.browse(limit=99)] == numbered(8)
        assert await stream.last_number("till 3") == 8
        async with await stream.publisher(reference="till 3") as again:
            assert again.next_number == 9, "it goes on behind what is stored"
            await again.publish(b"8")
        async with await stream.publisher() as unnamed:
            assert unnamed.next_number == 0
        assert [one.body for one in await stream.browse(limit=99)] == numbered(9)

    with_stream(work)


def test_numbers_are_for_streams_and_have_a_range() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        with pytest.raises(errors.InvalidRequest, match="a reference has 1 to 255 bytes, not 256"):
            await stream.publisher(reference="r" * 256)
        server.broker.fake_queues["/", "s"].numbers["late"] = (1 << 63) - 2
        publisher = await stream.publisher(reference="late")
        await publisher.publish(b"the last one")
        with pytest.raises(errors.InvalidRequest, match="messages are numbered from 1 to"):
            await publisher.publish(b"one too many")
        await node.topology.declare_queue("classic")
        async with await node.stream("classic").publisher(reference="r") as wrong:
            with pytest.raises(errors.PublishRefused, match="only a stream takes numbered messages"):
                await wrong.publish(b"x")

    with_stream(work)


def test_what_is_wanted_and_how_it_is_kept_travel_as_arguments() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        async with stream.read("first", filter_values=("eu", "us"), match_unfiltered=True):
            (consumer,) = server.broker.fake_queues["/", "s"].consumers
            assert consumer.arguments == {
                "x-stream-offset": "first",
                "x-stream-filter": ["eu", "us"],
                "x-stream-match-unfiltered": True,
            }
        kept = node.stream("kept")
        await kept.declare(
            max_age=timedelta(days=7),
            max_length_bytes=1 << 30,
            segment_bytes_max=1 << 20,
            filter_bytes=32,
            members=3,
            leader_locator="balanced",
            arguments={"x-more": 1},
        )
        assert server.broker.fake_queues["/", "kept"].record.arguments == {
            "x-max-age": "604800s",
            "x-max-length-bytes": 1 << 30,
            "x-stream-max-segment-size-bytes": 1 << 20,
            "x-stream-filter-size-bytes": 32,
            "x-initial-cluster-size": 3,
            "x-queue-leader-locator": "balanced",
            "x-more": 1,
            "x-queue-type": "stream",
        }
        async with await stream.publisher() as publisher:
            await publisher.publish(b"a", filter_value="eu")
            await publisher.publish(leveret.Message(b"b", headers={"n": 1}), filter_value="us")
            await publisher.flush()
            assert (publisher.unconfirmed, publisher.blocked_reason) == (0, None)
        found = await stream.browse(limit=2)
        assert [(one.offset, one.headers) for one in found] == [
            (0, {"x-stream-filter-value": "eu"}),
            (1, {"n": 1, "x-stream-filter-value": "us"}),
        ]

    async def browse_is_from_an_offset(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        (found,) = await stream.browse(1)
        assert (found.offset, found.body, found.message.body) == (1, b"1", b"1")

    with_stream(work)
    with_stream(browse_is_from_an_offset, *numbered(2))


def test_what_names_no_place_or_window_is_refused() -> None:
    async def work(server: Running, node: leveret.Node, stream: leveret.Stream) -> None:
        with pytest.raises(ValueError, match="prefetch is at least 1, not 0"):
            stream.read(prefetch=0)
        with pytest.raises(ValueError, match="an age is not negative"):
            stream.read(timedelta(seconds=-1))
        with pytest.raises(ValueError, match="no time zone"):
            stream.read(datetime(2026, 1, 1))
        with pytest.raises(ValueError, match="no time zone"):
            await stream.browse(datetime(2026, 1, 1))

    with_stream(work)


def test_an_age_is_rounded_up_to_seconds() -> None:
    assert offset_argument(timedelta(milliseconds=1500)) == "2s"
    assert offset_argument(timedelta()) == "0s"
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert [offset_argument(place) for place in ("5m", 17, moment)] == ["5m", 17, moment]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    started = Node()
    yield started.server
    started.stop()


def test_programs_without_an_event_loop_have_the_same(server: Running) -> None:
    with leveret.connect_sync(server.target) as node:
        stream = node.stream("blocking")
        stream.declare(max_age="1h")
        with stream.publisher() as publisher:
            publisher.publish(b"0")
            publisher.publish_many(numbered(2, 1), filter_value="eu")
            publisher.flush()
            assert publisher.blocked_reason is None
        with stream.read("first", prefetch=1) as reader:
            assert reader.next_offset is None
            assert [next(reader).body, reader.receive(5).body, reader.receive(5).body] == numbered(3)
            with pytest.raises(leveret.TimedOut):
                reader.receive(0.01)
            assert reader.next_offset == 3
        with pytest.raises(leveret.ConnectionLost, match="the reader is closed"):
            reader.receive(1)
        assert list(reader) == []
        assert [one.offset for one in stream.browse(1, limit=9)] == [1, 2]
        stream.store_offset("mine", 0)
        assert stream.stored_offset("mine") == 0
        with stream.read("first", reference="mine") as reader:
            assert next(reader).offset == 1
            reader.store_offset()
        assert stream.stored_offset("mine") == 1
        assert stream.status().queue.ready == 3
        stream.delete()

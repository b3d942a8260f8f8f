"""Connections of the stream protocol over brokers with real streams."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from raft.core.messages import NodeId
from stream.chunks.chunk import read_header
from tests.unit.front.stream.client import StreamClient
from tests.unit.stream.stream_brokers import FIRST, StreamBrokers, publish
from wire.stream.command_fields import LocatedStream, OffsetSpec, StreamBroker
from wire.stream.command_frames import key_of
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.publish_frame import unpack_ids
from wire.stream.stream_commands import (
    Command,
    ConsumerUpdateRequest,
    ConsumerUpdateResponse,
    CreateStreamRequest,
    CreateSuperStreamRequest,
    CreditCommand,
    DeclarePublisherRequest,
    DeleteStreamRequest,
    DeleteSuperStreamRequest,
    DeliverFrame,
    MetadataRequest,
    MetadataResponse,
    MetadataUpdate,
    PartitionsRequest,
    PublishConfirm,
    PublisherSequenceRequest,
    PublisherSequenceResponse,
    QueryOffsetRequest,
    QueryOffsetResponse,
    ResolveOffsetRequest,
    ResolveOffsetResponse,
    RouteRequest,
    StandardResponse,
    StoreOffsetCommand,
    StreamsResponse,
    StreamStatsRequest,
    StreamStatsResponse,
    SubscribeRequest,
)

OK, NODES = ResponseCode.OK, (1, 2, 3)


def codes(said: Sequence[Command]) -> list[ResponseCode]:
    return [ResponseCode(one.code) for one in said if isinstance(one, StandardResponse)]


def confirmed(said: Sequence[Command]) -> list[int]:
    return [id_ for one in said if isinstance(one, PublishConfirm) for id_ in unpack_ids(one.ids)]


def offsets(said: Sequence[Command]) -> list[int]:
    """Of all messages that were delivered."""
    found: list[int] = []
    for one in said:
        if isinstance(one, DeliverFrame):
            header = read_header(one.chunk)
            found += range(header.first_offset, header.next_offset)
    return found


@pytest.fixture
def world() -> StreamBrokers:
    """With stream s."""
    world = StreamBrokers()
    assert codes(world.connect(1).say(CreateStreamRequest(1, "s", {}))) == [OK]
    world.leader("s")
    world.run(1.5)
    return world


def publisher(world: StreamBrokers, node: NodeId, reference: str = "", stream: str = "s") -> StreamClient:
    """Its publisher 0."""
    client = world.connect(node)
    assert codes(client.say(DeclarePublisherRequest(1, 0, reference, stream))) == [OK]
    return client


def follower(world: StreamBrokers, stream: str = "s") -> NodeId:
    leader = world.leader(stream)
    return next(node for node in NODES if node != leader)


@pytest.mark.parametrize("node", NODES)
def test_what_is_published_on_one_node_is_confirmed_and_read_on_each(world: StreamBrokers, node: NodeId) -> None:
    client = publisher(world, node)
    assert confirmed(publish(client, 0, (1, b"a"), (2, b"b"))) == [1, 2]
    assert confirmed(publish(client, 0, (3, b"c"))) == [3]
    readers = [world.connect(other) for other in NODES]
    for reader in readers:
        assert offsets(reader.say(SubscribeRequest(1, 7, "s", FIRST, 1, {}))) == [0, 1]
        assert offsets(reader.say(CreditCommand(7, 10))) == [2]
    publish(client, 0, (4, b"d"))
    assert [offsets(reader.take()) for reader in readers] == [[3]] * 3


def test_a_message_that_comes_again_under_its_name_is_stored_once(world: StreamBrokers) -> None:
    publish(publisher(world, world.leader("s"), "orders"), 0, (1, b"a"), (2, b"b"))
    again = publisher(world, follower(world), "orders")
    assert again.say(PublisherSequenceRequest(1, "orders", "s")) == [PublisherSequenceResponse(1, OK, 2)]
    assert confirmed(publish(again, 0, (2, b"b"), (3, b"c"))) == [2, 3]
    assert offsets(again.say(SubscribeRequest(1, 7, "s", FIRST, 10, {}))) == [0, 1, 2]


def test_a_stored_offset_is_known_on_every_node(world: StreamBrokers) -> None:
    client = world.connect(follower(world))
    said = client.say(StoreOffsetCommand("reader", "s", 41), QueryOffsetRequest(1, "reader", "s"))
    assert said == [QueryOffsetResponse(1, OK, 41)]
    for node in NODES:
        other = world.connect(node)
        assert other.say(QueryOffsetRequest(1, "reader", "s")) == [QueryOffsetResponse(1, OK, 41)]
        assert other.say(QueryOffsetRequest(1, "nobody", "s")) == [QueryOffsetResponse(1, ResponseCode.NO_OFFSET)]


def test_where_a_reader_begins_and_what_there_is_are_told(world: StreamBrokers) -> None:
    client = publisher(world, 1)
    publish(client, 0, (1, b"a"), (2, b"b"))
    publish(client, 0, (3, b"c"))
    for kind, offset in ((OffsetKind.FIRST, 0), (OffsetKind.LAST, 2), (OffsetKind.NEXT, 3)):
        found = OffsetSpec(OffsetKind.OFFSET, offset)
        assert client.say(ResolveOffsetRequest(1, "s", OffsetSpec(kind), {})) == [ResolveOffsetResponse(1, OK, found)]
    figures = {"first_chunk_id": 0, "committed_chunk_id": 2, "last_chunk_id": 2, "committed_offset": 2}
    assert client.say(StreamStatsRequest(1, "s")) == [StreamStatsResponse(1, OK, figures)]


@pytest.mark.parametrize("node", NODES)
def test_every_node_tells_where_a_stream_is(world: StreamBrokers, node: NodeId) -> None:
    (said,) = world.connect(node).say(MetadataRequest(1, ("s",)))
    assert isinstance(said, MetadataResponse)
    (stream,) = said.streams
    hosts = {one.place: one.host for one in said.brokers}
    assert isinstance(stream, LocatedStream)
    assert isinstance(said.brokers[0], StreamBroker)
    assert hosts[stream.leader] == f"node-{world.leader('s')}.test"
    assert {hosts[place] for place in stream.replicas} == {
        f"node-{one}.test" for one in NODES if one != world.leader("s")
    }


def test_clients_of_all_nodes_are_told_that_a_stream_was_deleted(world: StreamBrokers) -> None:
    clients = [publisher(world, node) for node in NODES]
    clients[0].say(DeleteStreamRequest(1, "s"))
    gone = MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s")
    assert all(gone in one.take() for one in clients[1:])


def test_publishers_are_told_of_another_leader_and_their_messages_come_again(world: StreamBrokers) -> None:
    leader, node = world.leader("s"), follower(world)
    client = publisher(world, node, "orders")
    reader = world.connect(node)
    publish(client, 0, (1, b"a"))
    assert offsets(reader.say(SubscribeRequest(1, 7, "s", FIRST, 100, {}))) == [0]
    world.kill(leader)
    client.give(b"")
    said = publish(client, 0, (2, b"b"))
    world.run(10.0)
    said += client.take()
    assert MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s") in said
    assert codes(client.say(DeclarePublisherRequest(1, 0, "orders", "s"))) == [OK]
    assert confirmed(publish(client, 0, (2, b"b"), (3, b"c"))) == [2, 3]
    assert offsets(reader.take()) == [1, 2]


def test_a_super_stream_is_created_routed_to_and_deleted(world: StreamBrokers) -> None:
    client = world.connect(2)
    assert codes(client.say(CreateSuperStreamRequest(1, "whole", ("a", "b"), ("x", "y"), {}))) == [OK]
    assert client.say(PartitionsRequest(2, "whole")) == [
        StreamsResponse(key_of(PartitionsRequest(2, "")), 2, OK, ("a", "b"))
    ]
    assert client.say(RouteRequest(3, "y", "whole")) == [
        StreamsResponse(key_of(RouteRequest(3, "", "")), 3, OK, ("b",))
    ]
    world.leader("b")
    assert confirmed(publish(publisher(world, 2, stream="b"), 0, (1, b"a"))) == [1]
    assert codes(client.say(DeleteSuperStreamRequest(4, "whole"))) == [OK]
    assert codes(client.say(DeleteStreamRequest(5, "a"))) == [ResponseCode.NO_SUCH_STREAM]


GROUP = {"single-active-consumer": "true", "name": "group"}


def asked(said: Sequence[Command]) -> list[ConsumerUpdateRequest]:
    return [one for one in said if isinstance(one, ConsumerUpdateRequest)]


def test_the_active_consumer_of_a_group_is_one_whichever_node_it_is_connected_to(world: StreamBrokers) -> None:
    publish(publisher(world, 1), 0, (1, b"a"))
    first, second = (world.connect(node) for node in NODES if node != world.leader("s"))
    (question,) = asked(first.say(SubscribeRequest(1, 7, "s", FIRST, 10, GROUP)))
    assert second.say(SubscribeRequest(1, 7, "s", FIRST, 10, GROUP)) == [StandardResponse(7, 1, OK)]
    assert offsets(first.say(ConsumerUpdateResponse(question.correlation, OK, FIRST))) == [0]
    first.core.connection_lost(0)
    (question,) = asked(second.take())
    own = OffsetSpec(OffsetKind.NONE)
    assert offsets(second.say(ConsumerUpdateResponse(question.correlation, OK, own))) == [0]


def test_a_group_outlives_the_leader_that_decided_for_it(world: StreamBrokers) -> None:
    publish(publisher(world, 1), 0, (1, b"a"))
    first, second = (world.connect(node) for node in NODES if node != world.leader("s"))
    (question,) = asked(first.say(SubscribeRequest(1, 7, "s", FIRST, 10, GROUP)))
    second.say(SubscribeRequest(1, 7, "s", FIRST, 10, GROUP))
    first.say(ConsumerUpdateResponse(question.correlation, OK, FIRST))
    world.kill(world.leader("s"))
    world.run(10.0)
    assert asked(first.take() + second.take()) == []
    first.core.connection_lost(0)
    world.run(2.0)
    assert len(asked(second.take())) == 1

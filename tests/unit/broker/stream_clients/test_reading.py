"""What stream clients read: credit, where it begins, and what ends a subscription. Groups are in test_groups.py."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import DeletePermission
from broker.errors import AccessRefused, BrokerError, NotAllowed, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.queues.stream_contract import AtOffset, MessageFilter
from broker.stream_clients.client_terms import ReadOptions
from tests.unit.broker.stream_clients.fake_streams import FakeStream, StreamUser, StreamWorld
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

FIRST = OffsetSpec(OffsetKind.FIRST)


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


@pytest.fixture
def user(world: StreamWorld) -> StreamUser:
    """Stream s has chunks at 0, 2 and 4."""
    user = world.stream_user()
    user.create("s")
    user.streams.declare_publisher(1, "", "s", world.now)
    for id_ in range(3):
        user.publish(1, 2 * id_, 2 * id_ + 1)
    user.streams.delete_publisher(1, world.now)
    user.take()
    return user


@pytest.fixture
def stream(world: StreamWorld, user: StreamUser) -> FakeStream:
    return world.stream("s")


def subscribe(user: StreamUser, number: int = 5, offset: OffsetSpec = FIRST, credit: int = 1, **options: Any) -> None:
    world = user.world
    world.answer(user.streams.subscribe(number, "s", offset, ReadOptions(**options), world.now))
    user.streams.start(number, credit, world.now)


def refusal_of(pending: Pending[Any]) -> BrokerError:
    assert pending.error is not None, "not refused"
    return pending.error


def test_nothing_is_delivered_before_the_client_knows_that_it_is_subscribed(user: StreamUser) -> None:
    user.streams.subscribe(5, "s", FIRST, ReadOptions(), user.world.now)
    assert user.take() == []
    user.streams.start(5, 1, user.world.now)
    assert user.take() == [("chunk", 5, 0, 2, 4)]


def test_a_chunk_takes_one_credit_and_more_are_added(user: StreamUser) -> None:
    subscribe(user, credit=2)
    assert user.take() == [("chunk", 5, 0, 2, 4), ("chunk", 5, 2, 2, 4)]
    user.streams.add_credit(5, 10, user.world.now)
    assert user.take() == [("chunk", 5, 4, 2, 4)]


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        (OffsetSpec(OffsetKind.FIRST), 0),
        (OffsetSpec(OffsetKind.LAST), 4),
        (OffsetSpec(OffsetKind.OFFSET, 3), 2),
    ],
)
def test_reading_begins_with_the_chunk_that_holds_the_place(user: StreamUser, offset: OffsetSpec, first: int) -> None:
    subscribe(user, offset=offset)
    assert user.take() == [("chunk", 5, first, 2, 4)]


def test_what_comes_next_is_what_is_published_later(user: StreamUser) -> None:
    subscribe(user, offset=OffsetSpec(OffsetKind.NEXT))
    assert user.take() == []
    user.streams.declare_publisher(1, "", "s", user.world.now)
    user.publish(1, 9)
    assert ("chunk", 5, 6, 1, 6) in user.take()


def test_an_offset_that_is_too_large_for_files_is_behind_the_end(user: StreamUser, stream: FakeStream) -> None:
    stream.attaches_later = True
    user.streams.subscribe(5, "s", OffsetSpec(OffsetKind.OFFSET, 2**64 - 1), ReadOptions(), user.world.now)
    assert stream.attaching[0][1] == AtOffset(2**63 - 1)


def test_a_reader_that_begins_nowhere_is_refused(user: StreamUser, stream: FakeStream) -> None:
    with pytest.raises(PreconditionFailed):
        user.streams.subscribe(5, "s", OffsetSpec(OffsetKind.NONE), ReadOptions(), user.world.now)
    assert not stream.watchers


def test_what_a_reader_wants_is_told_to_its_stream(user: StreamUser, stream: FakeStream) -> None:
    subscribe(user, 5, filter_values=("red",), match_unfiltered=True)
    subscribe(user, 6)
    assert [one.wanted for one in stream.readers] == [MessageFilter(("red",), match_unfiltered=True), None]


def test_a_client_without_room_gets_the_rest_when_it_has_some(user: StreamUser) -> None:
    user.writable = False
    subscribe(user, credit=10)
    assert user.take() == []
    user.writable = True
    user.streams.resume(user.world.now)
    assert [one[2] for one in user.take()] == [0, 2, 4]


def test_nothing_is_delivered_to_what_has_unsubscribed(user: StreamUser, stream: FakeStream) -> None:
    subscribe(user, credit=10)
    user.streams.unsubscribe(5, user.world.now)
    assert user.take() == []
    assert not (stream.readers or stream.watchers)


def test_a_reader_that_is_attached_later_is_subscribed_then(user: StreamUser, stream: FakeStream) -> None:
    stream.attaches_later = True
    answer = user.streams.subscribe(5, "s", FIRST, ReadOptions(), user.world.now)
    assert not answer.answered
    stream.attach_all()
    user.world.answer(answer)
    user.streams.start(5, 1, user.world.now)
    assert user.take() == [("chunk", 5, 0, 2, 4)]


def test_what_cannot_be_attached_is_refused_and_its_number_is_free(user: StreamUser, stream: FakeStream) -> None:
    stream.attaches_later = True
    answer = user.streams.subscribe(5, "s", FIRST, ReadOptions(), user.world.now)
    stream.attaching[0][2].fail(ResourceExhausted("no answer from the leader"))
    assert isinstance(refusal_of(answer), ResourceExhausted)
    assert not (user.streams.subscriptions or stream.watchers)


def test_a_stream_that_is_deleted_while_a_reader_is_attached_answers_it(user: StreamUser, stream: FakeStream) -> None:
    stream.attaches_later = True
    answer = user.streams.subscribe(5, "s", FIRST, ReadOptions(), user.world.now)
    user.world.answer(user.streams.delete_stream("s", user.world.now))
    assert isinstance(refusal_of(answer), ResourceExhausted)
    assert user.take() == [("gone", "s")]


def test_a_stream_that_is_deleted_is_told_once_to_each_client_that_uses_it(
    user: StreamUser, world: StreamWorld
) -> None:
    other, stranger = world.stream_user(), world.stream_user()
    subscribe(user, 5)
    subscribe(user, 6)
    subscribe(other, 5)
    user.take(), other.take()
    world.client().delete("s")  # over AMQP
    assert (user.take(), other.take(), stranger.take()) == ([("gone", "s")], [("gone", "s")], [])
    assert not user.streams.subscriptions


def test_a_stream_that_cannot_be_read_here_any_more_ends_its_readers(user: StreamUser, stream: FakeStream) -> None:
    subscribe(user, 5)
    subscribe(user, 6)
    user.take()
    stream.lose_readers()
    assert user.take() == [("gone", "s")]


def test_another_leader_is_nothing_to_who_only_reads(user: StreamUser, stream: FakeStream) -> None:
    subscribe(user, credit=1)
    user.take()
    stream.moved("other@test")
    assert user.take() == []
    user.streams.add_credit(5, 1, user.world.now)
    assert user.take() == [("chunk", 5, 2, 2, 4)]


def test_reading_needs_the_right_to_read(world: StreamWorld, user: StreamUser, stream: FakeStream) -> None:
    world.add_user("writer", read="^$")
    writer = world.stream_user("writer")
    for name in ("s", "missing"):
        with pytest.raises(AccessRefused):
            writer.streams.check_readable(name)
        with pytest.raises(AccessRefused):
            writer.streams.subscribe(5, name, FIRST, ReadOptions(), world.now)
    with pytest.raises(NotFound):
        user.streams.check_readable("missing")
    stream.unreadable = ResourceExhausted("no member on this node")
    with pytest.raises(ResourceExhausted):
        user.streams.check_readable("s")


def test_a_right_to_read_that_is_taken_away_ends_readers(world: StreamWorld, user: StreamUser) -> None:
    world.add_user("reader")
    reader = world.stream_user("reader")
    subscribe(reader)
    reader.take()
    world.add_user("reader", read="^$")
    assert reader.take() == [("gone", "s")]


def test_who_may_not_enter_any_more_is_told_so(world: StreamWorld, user: StreamUser) -> None:
    world.add_user("reader")
    reader = world.stream_user("reader")
    world.catalog.apply(DeletePermission("reader", "/"))
    with pytest.raises(NotAllowed):
        reader.streams.permissions_changed(world.now)


def test_messages_that_are_delivered_are_counted(world: StreamWorld, user: StreamUser) -> None:
    subscribe(user, credit=10)
    user.take()
    assert user.streams.counters.delivered_no_ack == 6


def test_offsets_are_stored_in_the_stream_for_who_may_read(world: StreamWorld, user: StreamUser) -> None:
    streams = user.streams
    assert world.answer(streams.query_offset("reader", "s", world.now)) is None
    streams.store_offset("reader", "s", 4, world.now)
    assert world.answer(streams.query_offset("reader", "s", world.now)) == 4
    world.add_user("writer", read="^$")
    writer = world.stream_user("writer").streams
    for ask in (
        lambda: writer.store_offset("reader", "s", 9, world.now),
        lambda: writer.query_offset("reader", "s", 0),
    ):
        with pytest.raises(AccessRefused):
            ask()


def test_a_place_is_resolved_to_an_offset(world: StreamWorld, user: StreamUser) -> None:
    for offset, found in ((FIRST, 0), (OffsetSpec(OffsetKind.LAST), 4), (OffsetSpec(OffsetKind.NEXT), 6)):
        assert world.answer(user.streams.resolve_offset("s", offset, ReadOptions(), world.now)) == found

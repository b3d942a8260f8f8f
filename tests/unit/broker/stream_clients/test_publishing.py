"""What stream clients publish: confirms in order, refusals, and what ends a publisher."""

from __future__ import annotations

import pytest

from broker.errors import AccessRefused, NotFound, ResourceExhausted
from broker.pending import Pending
from tests.unit.broker.stream_clients.fake_streams import FakeStream, StreamUser, StreamWorld


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


@pytest.fixture
def user(world: StreamWorld) -> StreamUser:
    """Its publisher 1 publishes to stream s."""
    user = world.stream_user()
    user.create("s")
    user.streams.declare_publisher(1, "orders", "s", world.now)
    return user


@pytest.fixture
def stream(world: StreamWorld, user: StreamUser) -> FakeStream:
    return world.stream("s")


def test_runs_of_one_turn_are_confirmed_together_in_their_order(user: StreamUser) -> None:
    user.publish(1, 1, 2)
    user.publish(1, 5)
    assert user.take() == [("confirm", 1, (1, 2, 5))]


def test_a_run_that_is_stored_early_is_confirmed_behind_those_before_it(user: StreamUser, stream: FakeStream) -> None:
    stream.commits_later = True
    user.publish(1, 1)
    user.publish(1, 2)
    first, second = stream.unanswered
    second.accepted()
    assert user.take() == []
    user.publish(1, 3)
    first.accepted()
    assert user.take() == [("confirm", 1, (1, 2))]


def test_what_is_not_stored_is_refused_between_what_is(user: StreamUser, stream: FakeStream) -> None:
    stream.commits_later = True
    for id_ in (1, 2, 3):
        user.publish(1, id_)
    first, second, third = stream.unanswered
    third.accepted()
    second.refused()
    first.accepted()
    assert user.take() == [("confirm", 1, (1,)), ("refuse", 1, (2,), ResourceExhausted), ("confirm", 1, (3,))]


def test_what_the_stream_does_not_take_raises_and_later_runs_are_confirmed(
    user: StreamUser, stream: FakeStream
) -> None:
    stream.full = ResourceExhausted("nothing can be kept")
    with pytest.raises(ResourceExhausted):
        user.publish(1, 1)
    stream.full = None
    user.publish(1, 2)
    assert user.take() == [("confirm", 1, (2,))]


def test_a_publisher_that_is_deleted_hears_of_no_confirm_nor_does_the_next_of_its_number(
    user: StreamUser, stream: FakeStream, world: StreamWorld
) -> None:
    stream.commits_later = True
    user.publish(1, 1)
    user.streams.delete_publisher(1, world.now)
    user.streams.declare_publisher(1, "orders", "s", world.now)
    stream.commit()
    assert user.take() == []
    user.publish(1, 2)
    stream.commit()
    assert user.take() == [("confirm", 1, (2,))]


def test_confirms_are_told_before_a_stream_is_deleted_and_its_publishers_are_gone(
    user: StreamUser, stream: FakeStream, world: StreamWorld
) -> None:
    stream.commits_later = True
    user.publish(1, 1)
    world.answer(user.streams.delete_stream("s", world.now))
    assert user.take() == [("confirm", 1, (1,)), ("gone", "s")]
    assert not user.streams.publishers
    assert not stream.watchers


def test_a_stream_of_the_same_name_is_another_one(user: StreamUser, stream: FakeStream, world: StreamWorld) -> None:
    world.answer(user.streams.delete_stream("s", world.now))
    user.create("s")
    user.streams.declare_publisher(1, "", "s", world.now)
    user.take()
    user.publish(1, 1)
    assert user.take() == [("confirm", 1, (1,))]
    assert (stream.end, world.stream("s").end) == (0, 1)


def test_another_leader_ends_publishers(user: StreamUser, stream: FakeStream) -> None:
    stream.moved("other@test")
    assert user.take() == [("gone", "s")]
    assert not user.streams.publishers


def test_a_leader_that_is_missing_for_a_time_ends_nothing(user: StreamUser, stream: FakeStream) -> None:
    stream.moved("")
    stream.moved("leveret@test")
    assert user.take() == []
    stream.moved("")
    stream.moved("other@test")
    assert user.take() == [("gone", "s")]


def test_the_first_leader_of_a_new_stream_ends_nothing(world: StreamWorld) -> None:
    user = world.stream_user()
    user.create("new")
    stream = world.stream("new")
    stream.where = stream.where._replace(leader="")
    user.streams.declare_publisher(1, "", "new", world.now)
    stream.moved("other@test")
    assert user.take() == []


def test_publishing_needs_the_right_to_write(world: StreamWorld, user: StreamUser) -> None:
    world.add_user("reader", write="^$")
    reader = world.stream_user("reader")
    with pytest.raises(AccessRefused):
        reader.streams.declare_publisher(1, "", "s", world.now)
    with pytest.raises(AccessRefused):  # whether it exists is not told either
        reader.streams.declare_publisher(1, "", "missing", world.now)
    with pytest.raises(NotFound):
        user.streams.declare_publisher(2, "", "missing", world.now)


def test_a_right_that_is_taken_away_refuses_what_is_published_next(world: StreamWorld, user: StreamUser) -> None:
    world.add_user("writer")
    writer = world.stream_user("writer")
    writer.streams.declare_publisher(7, "", "s", world.now)
    world.add_user("writer", write="^$")
    with pytest.raises(AccessRefused):
        writer.publish(7, 1)
    world.add_user("writer")
    writer.publish(7, 1)
    assert writer.take() == [("confirm", 7, (1,))]


def test_a_queue_of_another_kind_is_no_stream(world: StreamWorld, user: StreamUser) -> None:
    world.client().declare("classic")
    with pytest.raises(NotFound):
        user.streams.declare_publisher(2, "", "classic", world.now)


def test_a_full_disk_holds_publishers_and_much_memory_does_not(world: StreamWorld, user: StreamUser) -> None:
    world.broker.alarms.raise_alarm("memory", "much memory", world.now)
    user.publish(1, 1)
    assert (user.streams.disk_alarm, world.blocked) == (False, [])
    world.broker.alarms.raise_alarm("disk", "no room", world.now)
    user.publish(1, 2)
    assert user.streams.disk_alarm
    assert world.blocked == [(user.connection.name, "no room")]
    world.broker.alarms.clear_alarm("disk")
    assert world.blocked[1:] == [(user.connection.name, None)]


def test_a_full_disk_of_another_node_holds_publishers(world: StreamWorld, user: StreamUser) -> None:
    """Theirs were not held: the copy of a stream on that node had its disk filled further."""
    alarms = world.broker.alarms
    alarms.raise_alarm("memory@2", "much memory (on node two)", world.now)
    alarms.raise_alarm("disk@2", "no room (on node two)", world.now)
    user.publish(1, 1)
    assert user.streams.disk_alarm
    alarms.clear_alarm("memory@2")
    assert world.blocked == [(user.connection.name, "no room (on node two)")]
    alarms.clear_alarm("disk@2")
    assert world.blocked[1:] == [(user.connection.name, None)]


def test_the_last_id_of_a_reference_is_told_to_who_may_read(world: StreamWorld, user: StreamUser) -> None:
    user.publish(1, 41, 42)
    assert _value(user.streams.publisher_sequence("orders", "s", world.now)) == 42
    assert _value(user.streams.publisher_sequence("unknown", "s", world.now)) == 0
    world.add_user("writer", read="^$")
    with pytest.raises(AccessRefused):
        world.stream_user("writer").streams.publisher_sequence("orders", "s", world.now)


def test_messages_are_counted_by_protocol_also_when_the_client_has_gone(world: StreamWorld, user: StreamUser) -> None:
    user.publish(1, 1, messages=10)
    user.take()
    counted = world.broker.counters()[user.connection.protocol]
    assert (counted.published, counted.confirmed) == (10, 10)
    user.close()
    counted = world.broker.counters()[user.connection.protocol]
    assert (counted.published, counted.confirmed) == (10, 10)


def test_a_client_that_has_gone_hears_nothing(world: StreamWorld, user: StreamUser, stream: FakeStream) -> None:
    stream.commits_later = True
    user.publish(1, 1)
    user.close()
    stream.commit()
    stream.moved("other@test")
    assert user.take() == []
    assert not stream.watchers


def test_a_node_that_stops_closes_its_clients(world: StreamWorld, user: StreamUser, stream: FakeStream) -> None:
    world.broker.end_connections(world.now)
    assert not stream.watchers
    user.streams.close(world.now)  # by its front, later


def _value(pending: Pending[int]) -> int:
    found: list[int] = []
    pending.then(found.append, lambda error: pytest.fail(str(error)))
    return found[0]

"""Single active consumers: which one is active, and that no two of them read at once."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import PreconditionFailed, ResourceExhausted
from broker.stream_clients.client_terms import ReadOptions
from tests.unit.broker.stream_clients.fake_streams import StreamUser, StreamWorld
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

FIRST, OWN = OffsetSpec(OffsetKind.FIRST), OffsetSpec(OffsetKind.NONE)


@pytest.fixture
def world() -> StreamWorld:
    world = StreamWorld()
    user = world.stream_user()
    user.create("s")
    user.streams.declare_publisher(1, "", "s", world.now)
    user.publish(1, 1)
    user.publish(1, 2)
    user.close()
    return world


def subscribe(user: StreamUser, number: int = 1, stream: str = "s", **options: Any) -> None:
    found = ReadOptions(single_active=True, **{"name": "group", **options})
    user.world.answer(user.streams.subscribe(number, stream, FIRST, found, user.world.now))
    user.streams.start(number, 10, user.world.now)


def answer(user: StreamUser, active: bool, number: int = 1, offset: OffsetSpec = OWN) -> None:
    user.streams.consumer_updated(number, active, offset, user.world.now)


def test_the_first_reads_when_it_has_answered_and_the_next_when_it_has_gone(world: StreamWorld) -> None:
    first, second = world.stream_user(), world.stream_user()
    subscribe(first)
    subscribe(second)
    assert (first.take(), second.take()) == ([("active", 1, True)], [])
    answer(first, active=True)
    assert first.take() == [("chunk", 1, 0, 1, 1), ("chunk", 1, 1, 1, 1)]
    first.close()
    assert second.take() == [("active", 1, True)]
    answer(second, active=True, offset=OffsetSpec(OffsetKind.OFFSET, 1))
    assert second.take() == [("chunk", 1, 1, 1, 1)]


def test_a_client_is_told_nothing_before_it_knows_that_it_is_subscribed(world: StreamWorld) -> None:
    user = world.stream_user()
    user.streams.subscribe(1, "s", FIRST, ReadOptions(single_active=True, name="group"), world.now)
    assert user.take() == []
    user.streams.start(1, 10, world.now)
    assert user.take() == [("active", 1, True)]


def test_credit_that_comes_before_its_turn_is_kept(world: StreamWorld) -> None:
    user = world.stream_user()
    subscribe(user)
    user.streams.add_credit(1, 1, world.now)
    user.take()
    assert user.streams.subscriptions[1].credit == 0
    answer(user, active=True)
    assert user.streams.subscriptions[1].credit == 11


def super_stream(world: StreamWorld, *partitions: str) -> None:
    user = world.stream_user()
    keys = tuple([str(at) for at in range(len(partitions))])
    assert world.answer(user.streams.create_super_stream("whole", partitions, keys, {}, world.now))
    user.close()


def test_partitions_spread_over_consumers_and_the_old_one_stops_first(world: StreamWorld) -> None:
    super_stream(world, "a", "b")
    first, second = world.stream_user(), world.stream_user()
    for number, stream in enumerate(("a", "b")):
        subscribe(first, number, stream, super_stream="whole")
        assert first.take() == [("active", number, True)]
        answer(first, active=True, number=number)
    for number, stream in enumerate(("a", "b")):
        subscribe(second, number, stream, super_stream="whole")
    assert (first.take(), second.take()) == ([("active", 1, False)], [])
    answer(first, active=False, number=1)
    assert (first.take(), second.take()) == ([], [("active", 1, True)])
    answer(second, active=True, number=1)
    first.streams.unsubscribe(0, world.now)
    assert second.take() == [("active", 0, True)]


def test_what_was_told_to_stop_reads_nothing_while_it_has_not_answered(world: StreamWorld) -> None:
    super_stream(world, "a", "b")
    first, second, publisher = world.stream_user(), world.stream_user(), world.stream_user()
    subscribe(first, 1, "b", super_stream="whole")
    answer(first, active=True)
    first.take()
    subscribe(second, 1, "b", super_stream="whole")
    publisher.streams.declare_publisher(1, "", "b", world.now)
    publisher.publish(1, 1)
    assert first.take() == [("active", 1, False)]
    assert not world.stream("b").readers
    first.close()  # is as good as an answer
    assert second.take() == [("active", 1, True)]


def test_one_that_is_told_to_begin_and_should_stop_is_told_so_when_it_has_answered(world: StreamWorld) -> None:
    super_stream(world, "a", "b")
    first, second = world.stream_user(), world.stream_user()
    subscribe(first, 1, "b", super_stream="whole")
    subscribe(second, 1, "b", super_stream="whole")
    assert first.take() == [("active", 1, True)]
    answer(first, active=True)
    assert first.take() == [("active", 1, False)]


def test_a_group_is_of_one_partition(world: StreamWorld) -> None:
    super_stream(world, "a", "b")
    user = world.stream_user()
    subscribe(user, 1, "b", super_stream="whole")
    with pytest.raises(PreconditionFailed):
        subscribe(user, 2, "b")
    assert list(user.streams.subscriptions) == [1]


def test_groups_of_other_names_and_streams_are_others(world: StreamWorld) -> None:
    user = world.stream_user()
    user.create("t")
    subscribe(user, 1, "s")
    subscribe(user, 2, "s", name="other")
    subscribe(user, 3, "t")
    assert user.take() == [("active", 1, True), ("active", 2, True), ("active", 3, True)]


def test_a_stream_that_cannot_be_read_when_its_turn_comes_is_gone(world: StreamWorld) -> None:
    user = world.stream_user()
    subscribe(user)
    user.take()
    world.stream("s").attaches_later = True
    answer(user, active=True)
    world.stream("s").lose_readers()
    assert user.take() == [("gone", "s")]
    assert not user.streams.subscriptions


def test_a_stream_that_is_found_unreadable_when_its_turn_comes_is_gone_and_the_client_stays(world: StreamWorld) -> None:
    """The consumer has left its group by then, which was looked for all the same."""
    user = world.stream_user()
    user.create("t")
    subscribe(user)
    subscribe(user, 2, "t")
    user.take()
    world.stream("s").unreadable = ResourceExhausted("its node is away")
    answer(user, active=True)
    assert user.take() == [("gone", "s")]
    assert list(user.streams.subscriptions) == [2]
    world.stream("s").unreadable = None
    subscribe(user)
    assert user.take() == [("active", 1, True)], "it may come again"


def test_a_client_with_several_consumers_in_a_group_goes_at_once_and_is_told_nothing_more(world: StreamWorld) -> None:
    """Each that left had the next one told that it is active: of a client that is gone."""
    first, second = world.stream_user(), world.stream_user()
    for number in range(3):
        subscribe(first, number)
    subscribe(second)
    answer(first, active=True, number=0)
    first.take()
    first.close()
    assert (first.take(), second.take()) == ([], [("active", 1, True)])
    answer(second, active=True)
    assert second.take() == [("chunk", 1, 0, 1, 1), ("chunk", 1, 1, 1, 1)]


def test_a_deleted_stream_ends_its_group(world: StreamWorld) -> None:
    first, second = world.stream_user(), world.stream_user()
    subscribe(first)
    subscribe(second)
    answer(first, active=True)
    world.answer(first.streams.delete_stream("s", world.now))
    assert first.take()[-1] == second.take()[-1] == ("gone", "s")
    first.create("s")
    subscribe(second)
    assert second.take() == [("active", 1, True)]

"""Streams and super streams: created, located and deleted by stream clients."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import Bind, Command, DeclareQueue, DeleteQueue, SetVhostLimits
from broker.errors import AccessRefused, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.queues.stream_contract import StreamPlaces
from broker.stream_clients.client_terms import StreamAddress, StreamLocation
from broker.stream_clients.stream_directory import LEADER_WAITS_MS
from tests.unit.broker.stream_clients.fake_streams import StreamUser, StreamWorld

HERE, THERE = StreamAddress("here.test", 5552), StreamAddress("there.test", 5552)


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


@pytest.fixture
def user(world: StreamWorld) -> StreamUser:
    return world.stream_user()


def locate(user: StreamUser, *streams: str) -> list[Any]:
    return [
        one if isinstance(one, StreamLocation) else type(one)
        for one in user.world.answer(user.streams.locate(streams, user.world.now))
    ]


# ----------------------------------------------------------------------------- streams


def test_a_stream_is_declared_as_over_amqp(world: StreamWorld, user: StreamUser) -> None:
    assert user.create("s", max_length_bytes=10_000)
    record = world.catalog.queue("/", "s")
    assert record is not None
    assert (record.kind, record.durable, record.arguments["x-max-length-bytes"]) == ("stream", True, 10_000)
    world.client().declare("s", queue_type="stream", max_length_bytes=10_000)


def test_one_that_is_there_and_the_same_is_told_so(user: StreamUser) -> None:
    user.create("s", max_age="7D")
    assert not user.create("s", max_age="7D")


@pytest.mark.parametrize(
    "arguments", [{"max_age": "banana"}, {"initial_cluster_size": 0}, {"stream_filter_size_bytes": 5}]
)
def test_impossible_values_are_refused_and_create_nothing(
    world: StreamWorld, user: StreamUser, arguments: dict[str, Any]
) -> None:
    with pytest.raises(PreconditionFailed):
        user.create("s", **arguments)
    assert world.catalog.queue("/", "s") is None


def test_another_queue_of_this_name_is_refused(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    world.client().declare("classic")
    for ask in (lambda: user.create("s", max_age="7D"), lambda: user.create("classic")):
        with pytest.raises(PreconditionFailed):
            ask()


def test_a_stream_is_deleted_and_queues_of_other_kinds_are_not(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    world.client().declare("classic")
    world.answer(user.streams.delete_stream("s", world.now))
    for name in ("s", "classic"):
        with pytest.raises(NotFound):
            user.streams.delete_stream(name, world.now)
    assert world.catalog.queue("/", "classic") is not None


def test_creating_and_deleting_need_the_right_to_configure(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    world.add_user("other", configure="^$")
    other = world.stream_user("other")
    for ask in (
        lambda: other.create("t"),
        lambda: other.create("s"),
        lambda: other.streams.delete_stream("s", world.now),
        lambda: other.streams.delete_stream("missing", world.now),
    ):
        with pytest.raises(AccessRefused):
            ask()


def test_a_stream_is_located_by_the_addresses_of_its_nodes(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    assert locate(user, "s", "missing") == [StreamLocation(HERE, (THERE,)), NotFound]
    world.stream("s").where = StreamPlaces("other@test", ("leveret@test", "other@test", "lost@test"))
    assert locate(user, "s") == [StreamLocation(THERE, (HERE,))]
    world.stream("s").where = StreamPlaces("lost@test", ("leveret@test", "other@test"))
    assert locate(user, "s") == [StreamLocation(None, (HERE, THERE))], "its node is not known to listen for clients"
    world.stream("s").where = StreamPlaces("lost@test", ("lost@test",))
    assert locate(user, "s") == [ResourceExhausted]


def test_the_answer_waits_for_a_leader_that_is_being_elected(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    user.create("led")
    world.stream("s").where = StreamPlaces("", ("leveret@test", "other@test"))
    asked = user.streams.locate(("s", "led"), world.now)
    world.pass_ms(20)
    assert not asked.answered
    world.stream("s").moved("other@test")
    world.pass_ms(max(LEADER_WAITS_MS))
    assert world.answer(asked) == [StreamLocation(THERE, (HERE,)), StreamLocation(HERE, (THERE,))]


def test_without_a_leader_a_client_is_told_so_in_less_than_a_second(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    world.stream("s").where = StreamPlaces("", ("leveret@test", "other@test"))
    asked = user.streams.locate(("s",), world.now)
    for _ in range(999):
        world.pass_ms(1)
    assert world.answer(asked) == [StreamLocation(None, (HERE, THERE))]


def test_who_may_not_see_a_stream_waits_for_nothing(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    world.stream("s").where = StreamPlaces("", ("leveret@test",))
    world.add_user("neither", read="^$", write="^$")
    assert locate(world.stream_user("neither"), "s") == [AccessRefused]


def test_a_client_within_tls_is_told_where_nodes_listen_within_tls(world: StreamWorld) -> None:
    connection = world.connect("guest")
    connection.tls = True
    user = StreamUser(world, connection)
    user.create("s")
    assert locate(user, "s") == [StreamLocation(HERE._replace(port=5551), (THERE._replace(port=5551),))]


def test_a_stream_is_located_for_who_may_read_or_write(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    for name, rights, found in (
        ("reader", {"write": "^$"}, StreamLocation(HERE, (THERE,))),
        ("writer", {"read": "^$"}, StreamLocation(HERE, (THERE,))),
        ("neither", {"read": "^$", "write": "^$"}, AccessRefused),
    ):
        world.add_user(name, **rights)
        assert locate(world.stream_user(name), "s") == [found], name


def test_figures_of_an_empty_stream_are_minus_one(world: StreamWorld, user: StreamUser) -> None:
    user.create("s")
    names = ("first_chunk_id", "committed_chunk_id", "last_chunk_id", "committed_offset")
    assert world.answer(user.streams.figures("s", world.now)) == dict.fromkeys(names, -1)
    user.streams.declare_publisher(1, "", "s", world.now)
    user.publish(1, 1, 2)
    user.publish(1, 3)
    user.take()
    assert world.answer(user.streams.figures("s", world.now)) == dict(zip(names, (0, 2, 2, 2), strict=True))


# ----------------------------------------------------------------------------- super streams


def create(user: StreamUser, name: str = "whole", partitions: tuple[str, ...] = ("whole-0", "whole-1")) -> bool:
    keys = tuple([f"key-{at}" for at in range(len(partitions))])
    return user.world.answer(user.streams.create_super_stream(name, partitions, keys, {}, user.world.now))


def partitions(user: StreamUser, name: str = "whole") -> tuple[str, ...]:
    return user.world.answer(user.streams.partitions(name, user.world.now))


def route(user: StreamUser, key: str, name: str = "whole") -> tuple[str, ...]:
    return user.world.answer(user.streams.route(key, name, user.world.now))


def test_a_super_stream_is_an_exchange_with_partitions_in_order(world: StreamWorld, user: StreamUser) -> None:
    many = tuple([f"whole-{at}" for at in (2, 0, 1, *range(3, 20))])
    assert create(user, partitions=many)
    exchange = world.catalog.exchange("/", "whole")
    assert exchange is not None
    assert (exchange.kind, exchange.durable, exchange.arguments) == ("direct", True, {"x-super-stream": True})
    assert partitions(user) == many
    assert (route(user, "key-0"), route(user, "key-1"), route(user, "other")) == (("whole-2",), ("whole-0",), ())
    arguments = world.stream("whole-0").record.arguments
    assert arguments["x-queue-leader-locator"] == "balanced"


def test_one_that_was_built_over_amqp_is_as_good(world: StreamWorld, user: StreamUser) -> None:
    client = world.client()
    client.declare_exchange("whole", arguments={"x-super-stream": True})
    for order, name in ((1, "a"), (0, "b")):
        client.declare(name, queue_type="stream")
        client.bind(name, "whole", f"key-{name}", **{"x-stream-partition-order": order})
    client.declare("classic")
    client.bind("classic", "whole", "key-a")
    assert (partitions(user), route(user, "key-a")) == (("b", "a"), ("a",))
    world.answer(user.streams.delete_super_stream("whole", world.now))
    assert [one.name for one in world.catalog.queues("/")] == ["classic"]


def test_a_super_stream_is_deleted_with_its_partitions(world: StreamWorld, user: StreamUser) -> None:
    create(user)
    user.streams.declare_publisher(1, "", "whole-1", world.now)
    world.answer(user.streams.delete_super_stream("whole", world.now))
    assert user.take() == [("gone", "whole-1")]
    assert not list(world.catalog.queues("/"))
    for ask in (lambda: partitions(user), lambda: route(user, "key-0"), lambda: delete(user, "whole")):
        with pytest.raises(NotFound):
            ask()


def test_an_exchange_that_is_no_super_stream_is_not_deleted_as_one(world: StreamWorld, user: StreamUser) -> None:
    world.client().declare_exchange("plain")
    with pytest.raises(NotFound):
        delete(user, "plain")
    assert world.catalog.exchange("/", "plain") is not None


def delete(user: StreamUser, name: str) -> None:
    user.world.answer(user.streams.delete_super_stream(name, user.world.now))


@pytest.mark.parametrize("there", ["whole", "whole-1"])
def test_one_that_is_there_in_part_is_told_so_and_nothing_is_made(
    world: StreamWorld, user: StreamUser, there: str
) -> None:
    if there == "whole":
        world.client().declare_exchange("whole")
    else:
        world.client().declare("whole-1")
    before = [*world.catalog.queues("/"), *world.catalog.exchanges("/")]
    assert not create(user)
    assert [*world.catalog.queues("/"), *world.catalog.exchanges("/")] == before


def test_a_partition_that_is_refused_takes_back_all_that_was_made(world: StreamWorld, user: StreamUser) -> None:
    create(user, "other", ("other-0",))
    before = [*world.catalog.queues("/"), *world.catalog.exchanges("/"), *world.catalog.bindings("/")]
    world.submit(SetVhostLimits("/", {"max-queues": 3}))
    with pytest.raises(PreconditionFailed):
        create(user, partitions=tuple([f"whole-{at}" for at in range(12)]))
    assert [*world.catalog.queues("/"), *world.catalog.exchanges("/"), *world.catalog.bindings("/")] == before


def test_a_binding_that_is_refused_takes_back_all_that_was_made(
    world: StreamWorld, user: StreamUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = world.metadata.submit

    def without_the_second_binding(command: Command) -> Pending[Any]:
        if isinstance(command, Bind) and command.record.destination == "whole-1":
            return Pending.failed(PreconditionFailed("not this one"))
        return submit(command)

    monkeypatch.setattr(world.metadata, "submit", without_the_second_binding)
    with pytest.raises(PreconditionFailed):
        create(user)
    assert (list(world.catalog.queues("/")), world.catalog.exchange("/", "whole")) == ([], None)


def test_a_partition_that_somebody_deletes_at_once_takes_back_all_that_was_made(
    world: StreamWorld, user: StreamUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What whoever creates the super stream is answered comes later than the deletion counts: it ended the node."""
    directory = user.streams._super_streams._directory
    create_stream = directory.create

    def deleted_at_once(name: str, arguments: dict[str, Any], now: int) -> Pending[bool]:
        def delete(is_new: bool) -> Pending[bool]:
            record = world.catalog.queue("/", name)
            assert record is not None
            return world.metadata.submit(DeleteQueue("/", name, record.id)).map(lambda _: is_new)

        made = create_stream(name, arguments, now)
        return made.then_ask(delete) if name == "whole-1" else made

    monkeypatch.setattr(directory, "create", deleted_at_once)
    with pytest.raises(NotFound, match="stream 'whole-1' in vhost '/' was deleted by somebody else"):
        create(user)
    assert (list(world.catalog.queues("/")), world.catalog.exchange("/", "whole")) == ([], None)


def test_what_cannot_be_taken_back_now_is_taken_back_later(
    world: StreamWorld, user: StreamUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, lost = world.metadata.submit, ResourceExhausted("no majority")

    def without_majority_from_the_second_partition(command: Command) -> Pending[Any]:
        if isinstance(command, DeclareQueue) and command.name == "whole-1":
            world.metadata.refusal = lost
        return submit(command)

    monkeypatch.setattr(world.metadata, "submit", without_majority_from_the_second_partition)
    with pytest.raises(ResourceExhausted):
        create(user)
    assert world.catalog.queue("/", "whole-0") is not None
    world.metadata.refusal = None
    world.pass_ms(1_000)
    assert (world.catalog.queue("/", "whole-0"), world.catalog.exchange("/", "whole")) == (None, None)


def test_super_streams_need_the_rights_that_building_one_by_hand_does(world: StreamWorld, user: StreamUser) -> None:
    create(user)
    for rights, asks in (
        ({"configure": "^new$"}, (_create_new, _delete_whole)),
        ({"configure": "^new-", "read": "^new"}, (_create_new, _delete_whole)),
        ({"read": "^$"}, (_create_new,)),
        ({"write": "^new$"}, (_create_new, _route_whole)),
        ({"write": "^whole$"}, (_route_whole,)),
        ({"write": "^$", "read": "^$"}, (partitions,)),
    ):
        world.add_user("limited", **rights)
        limited = world.stream_user("limited")
        for ask in asks:
            with pytest.raises(AccessRefused):
                ask(limited)
        limited.close()
    assert world.catalog.queue("/", "new-0") is None


def _create_new(user: StreamUser) -> None:
    create(user, "new", ("new-0",))


def _delete_whole(user: StreamUser) -> None:
    delete(user, "whole")


def _route_whole(user: StreamUser) -> None:
    route(user, "key-0")


def test_a_partition_has_its_number_from_its_binding_or_from_its_name(world: StreamWorld, user: StreamUser) -> None:
    create(user, partitions=("b", "a"))
    client = world.client()
    client.declare("s-7", queue_type="stream")
    client.declare("s", queue_type="stream")
    for name in ("s-7", "s"):
        client.bind(name, "whole", name)
    index = user.streams._super_streams.partition_index
    assert [index("whole", name) for name in ("b", "a", "s-7", "s")] == [0, 1, 7, -1]
    assert index("", "a") == -1

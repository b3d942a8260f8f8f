"""What concerns many queues at once is done in slices; whatever changes in between, each queue ends with what holds."""

from __future__ import annotations

import pytest

from broker.broker import SESSIONS_PER_STEP
from broker.catalog.commands import catalog_commands as commands
from broker.node_queues import CANCELLED_PER_STEP as CANCELLED_WITH_QUEUE_PER_STEP
from broker.queues.queue_type import DeadMessage, DeathReason
from broker.records import PermissionRecord, PolicyRecord, VhostRecord
from broker.session.session import CANCELLED_PER_STEP, GIVEN_BACK_ONE_BY_ONE_MAX, SETTLED_QUEUES_PER_STEP
from native.content import encode
from tests.unit.broker.broker_world import Client, World
from tests.unit.broker.later_turns import LaterTurns

QUEUES = [f"q{number}" for number in range(12)]


@pytest.fixture
def world() -> World:
    return World()


def limits(world: World) -> dict[str, int | None]:
    """Of the queues that are there, as each was told last."""
    found = {name: world.broker.find_queue("/", name) for name in QUEUES}
    return {name: one.effective.max_length for name, one in found.items() if one is not None}


def policy(name: str, priority: int, limit: int) -> commands.PutPolicy:
    return commands.PutPolicy(PolicyRecord("/", name, "^q", "queues", priority, {"max-length": limit}))


def test_a_policy_over_many_queues_reaches_them_all(world: World) -> None:
    client = world.client()
    for name in QUEUES:
        client.declare(name)
    slices = LaterTurns(world, steps_max=2)
    world.broker.submit(policy("p", 0, 5), world.now)
    assert 0 < list(limits(world).values()).count(5) < len(QUEUES), "some in this turn"
    slices.all()
    assert limits(world) == dict.fromkeys(QUEUES, 5)


def test_what_changes_while_a_policy_is_on_its_way_holds_at_the_end(world: World) -> None:
    client = world.client()
    for name in QUEUES:
        client.declare(name)
    slices = LaterTurns(world, steps_max=2)
    world.broker.submit(policy("first", 0, 5), world.now)
    slices.one()
    world.broker.submit(policy("second", 1, 7), world.now)
    client.session.topology.delete_queue("q3", if_unused=False, if_empty=False, now=world.now)
    client.session.topology.delete_queue("q11", if_unused=False, if_empty=False, now=world.now)
    client.declare("q11")
    slices.one()
    world.broker.submit(commands.DeletePolicy("/", "first"), world.now)
    slices.all()
    assert limits(world) == dict.fromkeys([name for name in QUEUES if name != "q3"], 7)


def test_the_exclusive_queues_of_a_connection_that_ends_all_go(world: World) -> None:
    client = world.client()
    for name in QUEUES:
        client.declare(name, exclusive=True)
    slices = LaterTurns(world, steps_max=2)
    world.broker.connection_closed(client.connection, world.now)
    assert 0 < len(limits(world)) < len(QUEUES), "some in this turn"
    slices.all()
    assert limits(world) == {}


def test_the_queues_of_a_vhost_are_gone_at_once_and_forgotten_one_after_the_other(world: World) -> None:
    """10,000 of them took one turn of 130 ms. One that is declared anew meanwhile is another queue."""
    world.submit(
        commands.PutVhost(VhostRecord("v")), commands.PutPermission(PermissionRecord("guest", "v", "", ".*", ".*"))
    )
    client = world.client()
    for name in QUEUES:
        client.declare(name)
    other = world.client()
    other.consume(QUEUES[-1], "t")
    slices = LaterTurns(world, steps_max=2)
    forgotten: list[str] = []
    delete = world.kind.delete
    world.kind.delete = lambda queue, now: forgotten.append(queue.record.name) or delete(queue, now)  # type: ignore[method-assign,func-returns-value]
    world.broker.submit(commands.DeleteVhost("/"), world.now)
    assert limits(world) == {}
    assert 0 < len(forgotten) < len(QUEUES), "some in this turn"
    world.submit(
        commands.PutVhost(VhostRecord("/")), commands.PutPermission(PermissionRecord("guest", "/", ".*", ".*", ".*"))
    )
    late = world.client()
    late.declare(QUEUES[-1])
    late.publish("", QUEUES[-1], b"kept")
    slices.all()
    assert forgotten == QUEUES
    assert other.cancelled_tags == ["t"]
    assert late.bodies_of(QUEUES[-1]) == [b"kept"]


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_queue_dead_letters_by_the_policy_it_goes_by_until_it_hears_of_another(world: World, confirmed: bool) -> None:
    client = world.client()
    for name in [*QUEUES, "dead"]:
        client.declare(name)
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    world.submit(commands.PutPolicy(PolicyRecord("/", "dead letters", "^q", "queues", 0, definition)))
    slices = LaterTurns(world, steps_max=2)
    world.broker.submit(commands.DeletePolicy("/", "dead letters"), world.now)
    late = world.broker.find_queue("/", QUEUES[-1])
    assert late is not None
    assert late.effective.dead_letter_exchange == "", "it has not heard of it yet"
    dead = DeadMessage("", QUEUES[-1], encode(b"\0\0", b"body"), True)
    if confirmed:
        world.broker.dead_letter_confirmed(late.queue, DeathReason.REJECTED, dead, world.now, set(), lambda _: None)
    else:
        world.broker.dead_letter(late.queue, DeathReason.MAXLEN, [dead], world.now)
    assert world.broker.queue("/", "dead").ready_count == 1
    slices.all()
    world.broker.dead_letter(late.queue, DeathReason.MAXLEN, [dead], world.now)
    assert world.broker.queue("/", "dead").ready_count == 1, "it dead-letters no more"


def held_of_many(world: World) -> tuple[Client, list[str]]:
    """A client that holds five messages of each of many queues."""
    client = world.client()
    names = [f"many{number}" for number in range(GIVEN_BACK_ONE_BY_ONE_MAX + 20)]
    for name in names:
        client.declare(name)
        client.publish("", name, *[b"body"] * 5)
        client.consume(name, tag=name)
    for name in names:
        client.session.cancel(name, world.now)
    world.end_turn()
    return client, names


def test_what_is_held_of_many_queues_goes_back_to_them_over_several_turns(world: World) -> None:
    client, names = held_of_many(world)
    slices = LaterTurns(world, steps_max=1)
    client.reject(0, multiple=True, requeue=True)
    back = [sum(world.ready(name) for name in names)]
    client.session.topology.delete_queue(names[-1], if_unused=False, if_empty=False, now=world.now)
    while slices.one():
        back.append(sum(world.ready(name) for name in names[:-1]))
    assert back[0] == 5 * 2 * SETTLED_QUEUES_PER_STEP, "a step at once, and one that fits into the turn"
    assert back[-1] == 5 * (len(names) - 1)


def test_who_leaves_holds_messages_of_a_queue_until_they_are_back_in_it(world: World) -> None:
    """A single active consumer of a quorum queue was said to have left before what it held was back, and the next one was given
    later messages first."""
    client = world.client()
    names = [f"many{number}" for number in range(GIVEN_BACK_ONE_BY_ONE_MAX + 20)]
    for name in names:
        client.declare(name)
        client.publish("", name, b"body")
        client.consume(name, tag=name)
    consumers = {one.tag: one for one in client.session.consumers()}
    slices = LaterTurns(world, steps_max=1)
    client.session.close(world.now)
    there = [0]
    while slices.one():
        there.append(sum(world.ready(name) for name in names))
        for name, consumer in consumers.items():
            assert bool(consumer.outstanding) != bool(world.ready(name)), (
                f"{name}: what is held is not ready, and the reverse"
            )
    assert len({*there}) > 2 and there[-1] == len(names)


def test_a_node_that_stops_gives_everything_back_first(world: World) -> None:
    _, names = held_of_many(world)
    LaterTurns(world, steps_max=1)
    world.broker.end_connections(world.now)
    assert [world.ready(name) for name in names] == [5] * len(names)


def consuming_much(world: World) -> Client:
    """A client with many consumers of one queue, each of which holds a message of it."""
    client = world.client()
    client.declare("much")
    tags = [f"t{number}" for number in range(4 * CANCELLED_PER_STEP)]
    for tag in tags:
        client.consume("much", tag=tag, prefetch=1)
    client.publish("", "much", *[b"body"] * len(tags))
    return client


def consumers_of(world: World, queue: str) -> int:
    return world.broker.queue("/", queue).statistics().consumers


def test_a_channel_with_many_consumers_closes_over_several_turns(world: World) -> None:
    """10,000 of them took one turn of 120 to 180 ms."""
    client, other = consuming_much(world), world.client()
    slices = LaterTurns(world, steps_max=1)
    client.close()
    assert consumers_of(world, "much") == 2 * CANCELLED_PER_STEP, "a step at once, and one that fits into the turn"
    other.publish("", "much", b"for nobody who is going")
    slices.all()
    assert (consumers_of(world, "much"), len(client.bodies)) == (0, 4 * CANCELLED_PER_STEP)
    assert world.ready("much") == 4 * CANCELLED_PER_STEP + 1
    assert client.session not in world.broker.sessions()


def test_who_is_going_is_not_told_that_a_queue_is_deleted(world: World) -> None:
    client, other = consuming_much(world), world.client()
    slices = LaterTurns(world, steps_max=1)
    client.close()
    other.delete("much")
    slices.all()
    assert client.cancelled_tags == []
    assert client.session not in world.broker.sessions()


def test_the_consumers_of_a_deleted_queue_are_cancelled_over_several_turns(world: World) -> None:
    """50,000 of them took one turn of 140 ms. A tag that is used anew meanwhile is another consumer."""
    client = world.client()
    for name in ("much", "other"):
        client.declare(name)
    tags = [f"c{number}" for number in range(3 * CANCELLED_WITH_QUEUE_PER_STEP)]
    for tag in tags:
        client.consume("much", tag=tag)
    slices = LaterTurns(world, steps_max=1)
    client.delete("much")
    assert len(client.cancelled_tags) < len(tags), "some in this turn"
    client.session.cancel(tags[-1], world.now)
    client.consume("other", tag=tags[-1])
    slices.all()
    assert client.cancelled_tags == tags[:-1]
    client.publish("", "other", b"m")
    assert (consumers_of(world, "other"), client.bodies) == (1, [b"m"])


def test_a_connection_ends_while_one_of_its_channels_is_closing(world: World) -> None:
    client, other = consuming_much(world), world.client()
    client.declare("own", exclusive=True)
    slices = LaterTurns(world, steps_max=1)
    client.close()
    world.disconnect(client)
    slices.all()
    assert (consumers_of(world, "much"), world.ready("much")) == (0, 4 * CANCELLED_PER_STEP)
    assert world.broker.find_queue("/", "own") is None
    assert list(world.broker.sessions()) == [other.session]


def test_a_connection_with_many_channels_ends_over_several_turns(world: World) -> None:
    """2,000 of them took one turn of 63 ms. None of them is given anything meanwhile."""
    connection, other = world.connect(), world.client()
    channels = [Client(world, connection) for _ in range(4 * SESSIONS_PER_STEP)]
    other.declare("much")
    for channel in channels:
        channel.consume("much")
    slices = LaterTurns(world, steps_max=1)
    world.broker.connection_closed(connection, world.now)
    assert consumers_of(world, "much") == 2 * SESSIONS_PER_STEP, "a step at once, and one that fits into the turn"
    other.publish("", "much", *[b"body"] * len(channels))
    slices.all()
    assert sum(len(channel.bodies) for channel in channels) == 0
    assert (consumers_of(world, "much"), world.ready("much")) == (0, len(channels))
    assert list(world.broker.sessions()) == [other.session]

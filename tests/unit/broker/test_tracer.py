"""Message tracing: what is copied to amq.rabbitmq.trace, how it looks, and that it holds nobody up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import PutPermission, PutVhost
from broker.records import PermissionRecord, VhostRecord
from broker.tracing import tracer as tracer_module
from broker.tracing.trace_message import trace_properties
from tests.unit.broker.broker_world import Client, World
from tests.unit.broker.later_turns import LaterTurns
from wire.amqp.tables import decode_properties, encode_properties


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    client = world.client()
    client.declare("work")
    return client


def trace(world: World, client: Client, key: str = "#") -> None:
    """Begin it, with a queue that gets the copies."""
    world.metadata.submit(PutVhost(VhostRecord("/", tracing=True)))
    client.declare("copies")
    client.bind("copies", "amq.rabbitmq.trace", key)


def copies(world: World) -> list[tuple[str, dict[str, Any], bytes]]:
    """Key, headers and body of each."""
    world.pass_ms(1)
    reader = world.client()
    reader.consume("copies")
    reader.session.close(world.now)
    return [
        (key, properties["headers"], body)
        for (_, key), properties, body in zip(reader.routes, reader.properties, reader.bodies, strict=True)
    ]


def test_a_published_message_says_where_it_went_and_who_published_it(world: World, client: Client) -> None:
    trace(world, client)
    client.publish("amq.topic", "nobody.cares", b"x")
    client.publish(
        "", "work", b"hello", content_type="text/plain", headers={"a": 1}, priority=3, timestamp=1_700_000_000
    )
    unrouted, routed = copies(world)
    assert (unrouted[0], unrouted[1]["routed_queues"], unrouted[1]["properties"]) == ("publish.amq.topic", [], {})
    key, headers, body = routed
    assert (key, body) == ("publish.", b"hello")
    assert headers == {
        "channel": 1,
        "connection": client.connection.name,
        "exchange_name": "",
        "node": "leveret@test",
        "properties": {
            "content_type": "text/plain", "headers": {"a": 1}, "priority": 3, "timestamp": 1_700_000_000
        },
        "routed_queues": ["work"],
        "routing_keys": ["work"],
        "user": "guest",
        "vhost": "/",
    }  # fmt: skip


def test_further_keys_of_a_message_are_told(world: World, client: Client) -> None:
    trace(world, client)
    client.publish("", "work", b"x", headers={"CC": ["other"], "BCC": ["secret"]})
    client.get("work")
    published, delivered = copies(world)
    assert published[1]["routing_keys"] == ["work", "other", "secret"]
    assert delivered[1]["routing_keys"] == ["work", "other"]


def test_a_delivered_message_names_its_queue_and_whether_it_was_delivered_before(world: World, client: Client) -> None:
    client.publish("", "work", b"one", b"two")
    trace(world, client, "deliver.#")
    client.consume("work")
    client.close()
    world.client().get("work", no_ack=True)
    found = [(key, headers["redelivered"], body) for key, headers, body in copies(world)]
    assert found == [("deliver.work", 0, b"one"), ("deliver.work", 0, b"two"), ("deliver.work", 1, b"one")]


def test_messages_are_traced_until_it_is_switched_off_and_in_this_vhost_alone(world: World, client: Client) -> None:
    trace(world, client)
    client.publish("", "work", b"traced")
    world.metadata.submit(PutVhost(VhostRecord("/")))
    client.publish("", "work", b"not any more")
    assert [body for _, _, body in copies(world)] == [b"traced"]
    assert world.broker.tracer.traced == 1


def test_copies_are_not_traced_themselves(world: World, client: Client) -> None:
    trace(world, client)
    client.publish("", "work", b"x")
    assert len(copies(world)) == 1
    world.pass_ms(1)
    assert world.broker.tracer.traced == 1


def test_nothing_is_noted_where_nobody_looks(world: World, client: Client) -> None:
    world.metadata.submit(PutVhost(VhostRecord("/", tracing=True)))
    client.publish("", "work", b"x")
    client.declare("copies")
    client.bind("copies", "amq.rabbitmq.trace", "#")
    assert copies(world) == []


def test_what_comes_while_too_much_waits_is_dropped_and_counted(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_module, "WAITING_MESSAGES_MAX", 3)
    trace(world, client)
    for body in (b"1", b"2", b"3", b"4"):
        client.publish("", "work", body)
    assert [body for _, _, body in copies(world)] == [b"1", b"2", b"3"]
    assert world.broker.tracer.dropped == 1
    client.publish("", "work", b"5")
    world.pass_ms(1)
    assert world.broker.tracer.traced == 4


def test_large_messages_are_dropped_earlier_and_all_of_a_run_are_counted(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_module, "WAITING_BYTES_MAX", 1_000)
    trace(world, client)
    for times in (1, 2):
        client.publish("", "work", bytes(900))
        client.publish("", "work", bytes(900))
        client.publish("", "work", b"1", b"2", b"3")
        world.pass_ms(1)
        assert world.broker.tracer.traced == 2 * times
    assert world.broker.tracer.dropped == 6


def test_copies_are_made_a_few_at_a_time(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a turn of the loop would be as long as what waits."""
    trace(world, client)
    begun: list[Iterator[None]] = []
    monkeypatch.setattr(world.broker.work, "do", begun.append)
    step = tracer_module.STEP_US // (tracer_module.MESSAGE_US + tracer_module.QUEUE_US)
    client.publish("", "work", *[b"x"] * (4 * step))
    client.publish("", "work", b"y")
    world.pass_ms(1)
    (work,) = begun
    made = [world.broker.tracer.traced for _ in work]
    assert made == [step, 2 * step, 3 * step, 4 * step]
    assert world.broker.tracer.traced == 4 * step + 1


def test_no_other_vhost_is_traced(world: World, client: Client) -> None:
    world.submit(PutVhost(VhostRecord("v")), PutPermission(PermissionRecord("guest", "v", ".*", ".*", ".*")))
    trace(world, client)
    other = world.client(vhost="v")
    other.declare("copies")
    other.bind("copies", "amq.rabbitmq.trace", "#")
    other.publish("", "copies", b"x")
    world.pass_ms(1)
    assert (other.bodies_of("copies"), world.broker.tracer.traced) == ([b"x"], 0)


def test_a_message_whose_properties_leave_no_room_is_dropped(world: World, client: Client) -> None:
    trace(world, client)
    client.publish("", "work", b"x", headers={"a": "b" * 131_000})
    assert copies(world) == []
    assert world.broker.tracer.dropped == 1


def test_keys_that_are_told_already_are_looked_up_and_not_searched_for() -> None:
    """A message has room for some 20,000 keys: each compared with each takes seconds."""

    class Key(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Key.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    listed = [f"key.{number}" for number in range(500)]
    props = encode_properties({"headers": {"CC": [*listed, "another"]}})
    traced = trace_properties("x", ["first", *map(Key, listed)], props, {}, {})
    assert decode_properties(traced)["headers"]["routing_keys"] == ["first", *listed, "another"]
    assert Key.compared < 5 * len(listed)


def test_large_headers_are_copied_over_more_turns_than_small_ones(world: World, client: Client) -> None:
    trace(world, client)
    turns = LaterTurns(world, steps_max=1)
    small, large = (copying_turns(world, client, turns, size) for size in (10, 6_000))
    assert large >= small + 9


def copying_turns(world: World, client: Client, turns: LaterTurns, size: int) -> int:
    """Until ten messages with a header of this size are copied."""
    before = world.broker.tracer.traced
    for _ in range(10):
        client.publish("", "work", b"x", headers={"a": "b" * size})
    world.pass_ms(1)
    count = 1
    while turns.one():
        count += 1
    assert world.broker.tracer.traced - before == 10
    return count


def test_copies_to_very_many_queues_are_handed_over_in_slices(world: World, client: Client) -> None:
    world.metadata.submit(PutVhost(VhostRecord("/", tracing=True)))
    names = [f"copies.{number}" for number in range(2 * tracer_module.QUEUES_PER_STEP + 1)]
    for name in names:
        client.declare(name)
        client.bind(name, "amq.rabbitmq.trace", "#")
    turns = LaterTurns(world, steps_max=1)
    client.publish("", "work", b"x")
    world.pass_ms(1)
    have = []
    while turns.one():
        have.append(sum(client.declare(name, passive=True).ready for name in names))
    assert [count for count in have if count < len(names)]
    assert have[-1] == len(names)


def test_a_queue_that_gets_copies_of_its_own_deliveries_ends(world: World, client: Client) -> None:
    """A message of the exchange is traced no more, so the copy of a copy never is."""
    trace(world, client)
    client.bind("work", "amq.rabbitmq.trace", "#")
    client.publish("", "work", b"x")
    client.consume("work", no_ack=True)
    for _ in range(5):
        world.pass_ms(1)
    assert client.bodies == [b"x", b"x", b"x"]  # itself, that it was published, that it was delivered

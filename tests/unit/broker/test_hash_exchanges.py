"""Exchanges that choose one of their queues: by a hash, or by chance. What is asked is what RabbitMQ's plugins promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from broker.errors import PreconditionFailed
from broker.exchanges import hash_exchanges
from broker.exchanges.exchange import KINDS
from broker.records import BindingRecord
from broker.routing.asked import Asked
from tests.unit.broker.broker_world import Client, World, refused

KEYS = [f"order.{number}" for number in range(3_000)]
HASHING = ("x-consistent-hash", "x-modulus-hash")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


def exchange(client: Client, kind: str, *queues: str, key: str = "1", **arguments: str) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.declare_exchange("x", kind, arguments=named)
    for queue in queues:
        client.declare(queue)
        client.bind(queue, "x", key)


def bound(kind: str, weights: dict[str, int]) -> dict[str, str]:
    """Where each of the keys goes."""
    bindings = KINDS[kind]({})
    for queue, weight in weights.items():
        bindings.add(BindingRecord("/", "x", queue, "queue", str(weight), {}))
    return {key: next(iter(bindings.match([key], Asked())))[1] for key in KEYS}


@pytest.mark.parametrize("kind", HASHING)
def test_messages_with_one_key_go_to_one_queue_as_a_whole(client: Client, kind: str) -> None:
    exchange(client, kind, "a", "b", "c")
    for key in KEYS[:30]:
        client.publish("x", key, b"1", b"2", b"3")
    bodies = [client.bodies_of(queue) for queue in "abc"]
    assert sum(map(len, bodies)) == 90
    assert all(bodies), "none was left out"
    assert all(found == [b"1", b"2", b"3"] * (len(found) // 3) for found in bodies)


def test_queues_get_messages_in_proportion_to_their_weights() -> None:
    counted = Counter(bound("x-consistent-hash", {"a": 1, "b": 2, "c": 3}).values())
    for queue, weight in (("a", 1), ("b", 2), ("c", 3)):
        assert abs(counted[queue] / len(KEYS) - weight / 6) < 0.04


def test_when_a_queue_comes_or_goes_only_its_own_messages_go_another_way() -> None:
    before = bound("x-consistent-hash", {"a": 1, "b": 1, "c": 1})
    with_one_more = bound("x-consistent-hash", {"a": 1, "b": 1, "c": 1, "d": 1})
    moved = {key for key in KEYS if before[key] != with_one_more[key]}
    assert {with_one_more[key] for key in moved} == {"d"}
    assert abs(len(moved) / len(KEYS) - 1 / 4) < 0.04
    without_one = bound("x-consistent-hash", {"a": 1, "c": 1})
    assert all(without_one[key] == before[key] for key in KEYS if before[key] != "b")
    assert bound("x-consistent-hash", {"c": 1, "b": 1, "a": 1}) == before, "the order of binding changes nothing"


def test_a_queue_that_is_bound_twice_has_the_weight_of_its_oldest_binding(client: Client) -> None:
    exchange(client, "x-consistent-hash", "a", "b")
    client.bind("a", "x", "1000000")
    for key in KEYS[:200]:
        client.publish("x", key, b"m")
    assert 60 < len(client.bodies_of("a")) < 140
    world = client.world
    world.answer(client.session.topology.unbind_queue("a", "x", "1", {}, world.now))
    for key in KEYS[:200]:
        client.publish("x", key, b"m")
    assert len(client.bodies_of("b")) < 140


@pytest.mark.parametrize(
    ("argument", "value"), [("hash-header", "customer"), ("hash-property", "correlation_id"),
                            ("hash-property", "message_id")]
)  # fmt: skip
def test_a_header_or_property_is_hashed_and_each_message_of_a_run_goes_its_way(
    client: Client, argument: str, value: str
) -> None:
    client.session.publisher.select_confirms()
    exchange(client, "x-consistent-hash", "a", "b", "c", **{argument: value})
    for number in range(60):
        mark = f"customer {number % 20}"
        properties = {"headers": {"customer": mark}} if argument == "hash-header" else {value: mark}
        client.publish("x", KEYS[number], mark.encode(), **properties)
    found = [set(client.bodies_of(queue)) for queue in "abc"]
    assert sum(map(len, found)) == 20, "each customer's messages are in one queue"
    assert all(found)
    assert sum(last + 1 - first for first, last, _, _ in client.take_confirms()) == 60


def test_messages_without_the_header_or_property_go_one_way(client: Client) -> None:
    exchange(client, "x-consistent-hash", "a", "b", "c", hash_property="message_id")
    for key in KEYS[:20]:
        client.publish("x", key, b"m")
    assert sorted(len(client.bodies_of(queue)) for queue in "abc") == [0, 0, 20]


def test_by_chance_each_message_of_a_run_goes_to_one_queue_and_every_one_is_confirmed(client: Client) -> None:
    client.session.publisher.select_confirms()
    exchange(client, "x-random", "a", "b", "c")
    client.publish("x", "k", *[b"%03d" % number for number in range(300)])
    found = [client.bodies_of(queue) for queue in "abc"]
    assert sorted(body for bodies in found for body in bodies) == [b"%03d" % number for number in range(300)]
    assert all(bodies == sorted(bodies) and len(bodies) > 30 for bodies in found)
    assert sum(last + 1 - first for first, last, _, ok in client.take_confirms() if ok) == 300


def test_x_local_random_leads_to_queues_of_the_publishers_node_only(world: World, client: Client) -> None:
    exchange(client, "x-local-random", "here", "there", key="")
    there = world.broker.queue("/", "there")
    there.record = replace(there.record, home="leveret@elsewhere")
    world.catalog.version += 1
    client.publish("x", "any", b"1", b"2")
    assert (client.bodies_of("here"), client.bodies_of("there")) == ([b"1", b"2"], [])
    world.answer(client.session.topology.unbind_queue("here", "x", "", {}, world.now))
    client.publish("x", "any", b"3", mandatory=True)
    assert [body for _, _, body in client.returns] == [b"3"], "nowhere is not somewhere else"


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        ("x-consistent-hash", "heavy", "The binding key must be an integer: 'heavy'"),
        ("x-consistent-hash", "1.5", "The binding key must be an integer: '1.5'"),
        ("x-consistent-hash", "0", "The binding key must be greater than 0, not 0"),
        ("x-consistent-hash", "-3", "The binding key must be greater than 0, not -3"),
        ("x-local-random", "key", "Non empty binding 'key' key not permitted"),
    ],
)
def test_bindings_that_make_no_sense_are_refused(client: Client, kind: str, key: str, text: str) -> None:
    client.declare_exchange("x", kind)
    client.declare("q")
    refused(PreconditionFailed, text, lambda: client.bind("q", "x", key))


def test_x_local_random_leads_to_no_exchange(client: Client) -> None:
    client.declare_exchange("x", "x-local-random")
    client.declare_exchange("y", "fanout")
    with pytest.raises(PreconditionFailed, match="Destination not found"):
        client.world.answer(client.session.topology.bind_exchange("y", "x", "", {}, client.world.now))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 5}, "hash-header is the name of a header, not 5"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(client: Client, arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        client.declare_exchange("x", "x-consistent-hash", arguments=arguments)


def test_dead_letters_go_by_hash_and_chance_too(client: Client) -> None:
    exchange(client, "x-random", "a", "b")
    client.declare("source", dead_letter_exchange="x", max_length=0)
    client.publish("", "source", *[b"%d" % number for number in range(60)])
    counts = [len(client.bodies_of(queue)) for queue in "ab"]
    assert sum(counts) == 60
    assert all(counts)


def unmixed(number: int) -> int:
    """Whose bits, mixed, are these."""
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        number = (number ^ number >> 33) * pow(factor, -1, 1 << 64) % (1 << 64)
    return number ^ number >> 33


@pytest.mark.parametrize("mixed", [(1 << 64) - 1, (1 << 64) - 600, 0])
def test_the_greatest_and_the_least_of_all_hashes_have_a_score(mixed: int) -> None:
    number = unmixed(mixed)
    assert hash_exchanges._mixed(number) == mixed
    least, half = hash_exchanges._score(unmixed(0), 1.0), hash_exchanges._score(unmixed(1 << 63), 1.0)
    assert least <= hash_exchanges._score(number, 1.0) < float("inf")
    assert (hash_exchanges._score(number, 1.0) > half) == (mixed > 1 << 63)

"""A queue that goes when nobody uses it: the command that deletes it may reach the catalog long after it was asked for, and the
queue may have been declared again by another node and used meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import Command, DeclareQueue, DeleteQueue, PutPolicy, UseQueue
from broker.catalog.known_by_all import KnownByAll
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.queues.queue_type import EXPIRES_RETRY_MS
from broker.records import PolicyRecord, QueueRecord
from tests.unit.broker.broker_world import Client, World
from tests.unit.broker.catalog_at_once import CatalogAtOnce

EXPIRES_MS = 1_000
EXPIRING = {"x-expires": EXPIRES_MS}


class Road:
    """To the catalog: what is of these classes stays on it until it is let through, and what others submit does not."""

    def __init__(self, world: World, *held: type[Any]) -> None:
        self.world = world
        self._held = held
        self._submit = world.metadata.submit
        self._on_it: list[tuple[Command, Pending[Any]]] = []
        world.metadata.submit = self._hold  # type: ignore[method-assign]

    def _hold(self, command: Command) -> Pending[Any]:
        if not isinstance(command, self._held):
            return self._submit(command)
        answer: Pending[Any] = Pending()
        self._on_it.append((command, answer))
        return answer

    @property
    def commands(self) -> list[Command]:
        return [command for command, _ in self._on_it]

    def let_through(self) -> None:
        on_it, self._on_it = self._on_it, []
        for command, answer in on_it:
            self._submit(command).then(answer.resolve, answer.fail)
        self.world.end_turn()

    def give_up(self) -> None:
        """Who asked is told that nobody knows what becomes of it, and it comes there later."""
        for at, (command, answer) in enumerate(self._on_it):
            answer.fail(
                ResourceExhausted("nothing was decided within 30 s; what was asked for may still be carried out")
            )
            self._on_it[at] = command, Pending()
        self.world.end_turn()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


def record_of(world: World) -> QueueRecord | None:
    return world.catalog.queue("/", "q")


def expired(world: World, client: Client) -> Road:
    client.declare("q", expires=EXPIRES_MS)
    road = Road(world, UseQueue, DeleteQueue)
    world.pass_ms(EXPIRES_MS)
    assert len(road.commands) == 1
    return road


def declared_elsewhere(world: World) -> None:
    """As another node submits it; the node of the queue is not asked yet how many messages it has."""
    world.submit(DeclareQueue("/", "q", arguments=EXPIRING))


def test_an_expired_queue_that_another_node_declares_again_keeps_its_messages_though_its_deletion_comes_later(
    world: World, client: Client
) -> None:
    road = expired(world, client)
    declared_elsewhere(world)
    client.publish("", "q", b"confirmed")
    while road.commands:
        road.let_through()
    assert client.bodies_of("q") == [b"confirmed"]


def test_a_queue_that_is_declared_again_behind_the_last_look_at_it_keeps_its_messages(
    world: World, client: Client
) -> None:
    road = expired(world, client)
    road.let_through()
    assert [type(command) for command in road.commands] == [DeleteQueue]
    declared_elsewhere(world)
    client.publish("", "q", b"confirmed")
    road.let_through()
    assert client.bodies_of("q") == [b"confirmed"]


@pytest.mark.parametrize("use", ["get", "consume", "passive"])
def test_an_expired_queue_that_is_used_before_the_catalog_could_be_asked_stays(
    world: World, client: Client, use: str
) -> None:
    road = expired(world, client)
    world.pass_ms(1)
    if use == "get":
        assert client.get("q") is None
    elif use == "consume":
        client.consume("q", "c")
    else:
        client.declare("q", passive=True)
    road.let_through()
    assert road.commands == [] and record_of(world) is not None and client.cancelled_tags == []


def test_an_expired_queue_that_nobody_uses_goes_when_the_catalog_can_be_asked(world: World, client: Client) -> None:
    road = expired(world, client)
    road.let_through()
    road.let_through()
    assert record_of(world) is None and list(world.broker.queues()) == []


def test_what_a_former_leader_of_an_expired_queue_has_asked_for_is_void_once_the_next_one_asks(world: World) -> None:
    world.client().declare("q", expires=EXPIRES_MS)
    record = record_of(world)
    assert record is not None
    world.submit(UseQueue("/", "q", record.id))
    world.submit(DeleteQueue("/", "q", record.id, record.uses))
    assert record_of(world) is not None


def test_an_auto_delete_queue_that_another_node_declares_again_keeps_its_messages_though_its_deletion_comes_later(
    world: World, client: Client
) -> None:
    client.declare("q", auto_delete=True)
    client.consume("q", "c")
    road = Road(world, DeleteQueue)
    client.session.cancel("c", world.now)
    world.end_turn()
    world.submit(DeclareQueue("/", "q", auto_delete=True))
    client.publish("", "q", b"confirmed")
    road.let_through()
    assert client.bodies_of("q") == [b"confirmed"]
    client.consume("q", "again")
    client.session.cancel("again", world.now)
    road.let_through()
    assert record_of(world) is None, "it goes with its next last consumer"


def test_an_auto_delete_queue_whose_deletion_is_asked_for_again_keeps_to_what_was_known_at_first(
    world: World, client: Client
) -> None:
    client.declare("q", auto_delete=True)
    client.consume("q", "c")
    road = Road(world, DeleteQueue)
    client.session.cancel("c", world.now)
    road.give_up()
    world.submit(DeclareQueue("/", "q", auto_delete=True))
    world.pass_ms(EXPIRES_RETRY_MS)
    assert len(road.commands) == 2
    road.let_through()
    assert record_of(world) is not None


def test_what_nobody_would_delete_for_lack_of_use_is_not_counted(world: World, client: Client) -> None:
    client.declare("q")
    before, version = record_of(world), world.catalog.version
    client.declare("q")
    assert record_of(world) is before and world.catalog.version == version


def test_what_expires_by_a_policy_is_counted_and_routes_stay_what_they_were(world: World, client: Client) -> None:
    world.submit(PutPolicy(PolicyRecord("/", "p", "q", "queues", 0, {"expires": EXPIRES_MS})))
    client.declare("q")
    version = world.catalog.version
    client.declare("q")
    record = record_of(world)
    assert record is not None and (record.uses, world.catalog.version) == (1, version)
    assert world.catalog.queue_of_id(record.id) is record


def test_while_a_node_of_an_earlier_version_is_there_uses_are_not_spoken_of(world: World, client: Client) -> None:
    world.behind = ["n2"]
    client.declare("q", expires=EXPIRES_MS)
    client.declare("q", expires=EXPIRES_MS)
    record = record_of(world)
    assert record is not None and record.uses == 0
    road = Road(world, UseQueue, DeleteQueue)
    world.pass_ms(EXPIRES_MS)
    assert road.commands == [DeleteQueue("/", "q", record.id)]
    road.let_through()
    assert record_of(world) is None


def test_where_uses_are_not_spoken_of_yet_a_queue_that_is_gone_is_not_deleted_again() -> None:
    catalog = Catalog()
    metadata = CatalogAtOnce(catalog)
    for command in default_commands("hash"):
        metadata.submit(command)
    door = KnownByAll(metadata, catalog, lambda version: ["n2"])
    answers: list[object] = []
    door.submit(UseQueue("/", "q", 7)).then(answers.append, answers.append)
    assert answers == [None]


@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_a_deletion_with_a_condition_is_judged_when_the_catalog_was_reached(
    world: World, client: Client, condition: str
) -> None:
    """Whoever asked was told that nobody knows what becomes of it."""
    client.declare("q")
    road = Road(world, UseQueue, DeleteQueue)
    asked = client.session.topology.delete_queue(
        "q", **{"if_unused": False, "if_empty": False, condition: True}, now=world.now
    )
    road.give_up()
    with pytest.raises(ResourceExhausted):
        world.answer(asked)
    client.publish("", "q", b"confirmed")
    road.let_through()
    assert client.bodies_of("q") == [b"confirmed"]


def test_a_deletion_with_a_condition_says_that_the_queue_was_declared_again(world: World, client: Client) -> None:
    client.declare("q", expires=EXPIRES_MS)
    road = Road(world, UseQueue, DeleteQueue)
    asked = client.session.topology.delete_queue("q", if_unused=True, if_empty=False, now=world.now)
    road.let_through()
    declared_elsewhere(world)
    road.let_through()
    with pytest.raises(PreconditionFailed, match="in use: it was declared again"):
        world.answer(asked)
    assert record_of(world) is not None

"""What concerns many queues at once is done in slices; whatever changes in between, each queue ends with what holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker import catalog_commands as commands
from broker.background_work import BackgroundWork
from broker.queue_type import DeathReason
from broker.records import PolicyRecord
from native.content import encode
from tests.unit.broker.broker_world import World

QUEUES = [f"q{number}" for number in range(12)]


class Slices:
    """Turns that have room for two steps each."""

    def __init__(self, world: World) -> None:
        self.soon: list[Callable[[], None]] = []
        world.broker.work = BackgroundWork(self.soon.append, lambda: 0.0, steps_max=2)

    def one(self) -> bool:
        soon = list(self.soon)
        self.soon.clear()
        for call in soon:
            call()
        return bool(soon)

    def all(self) -> None:
        while self.one():
            pass


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
    slices = Slices(world)
    world.broker.submit(policy("p", 0, 5), world.now)
    assert 0 < list(limits(world).values()).count(5) < len(QUEUES), "some in this turn"
    slices.all()
    assert limits(world) == dict.fromkeys(QUEUES, 5)


def test_what_changes_while_a_policy_is_on_its_way_holds_at_the_end(world: World) -> None:
    client = world.client()
    for name in QUEUES:
        client.declare(name)
    slices = Slices(world)
    world.broker.submit(policy("first", 0, 5), world.now)
    slices.one()
    world.broker.submit(policy("second", 1, 7), world.now)
    client.session.delete_queue("q3", if_unused=False, if_empty=False, now=world.now)
    client.session.delete_queue("q11", if_unused=False, if_empty=False, now=world.now)
    client.declare("q11")
    slices.one()
    world.broker.submit(commands.DeletePolicy("/", "first"), world.now)
    slices.all()
    assert limits(world) == dict.fromkeys([name for name in QUEUES if name != "q3"], 7)


def test_the_exclusive_queues_of_a_connection_that_ends_all_go(world: World) -> None:
    client = world.client()
    for name in QUEUES:
        client.declare(name, exclusive=True)
    slices = Slices(world)
    world.broker.connection_closed(client.connection, world.now)
    assert 0 < len(limits(world)) < len(QUEUES), "some in this turn"
    slices.all()
    assert limits(world) == {}


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_queue_dead_letters_by_the_policy_it_goes_by_until_it_hears_of_another(world: World, confirmed: bool) -> None:
    client = world.client()
    for name in [*QUEUES, "dead"]:
        client.declare(name)
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    world.submit(commands.PutPolicy(PolicyRecord("/", "dead letters", "^q", "queues", 0, definition)))
    slices = Slices(world)
    world.broker.submit(commands.DeletePolicy("/", "dead letters"), world.now)
    late = world.broker.find_queue("/", QUEUES[-1])
    assert late is not None
    assert late.effective.dead_letter_exchange == "", "it has not heard of it yet"
    dead = ("", QUEUES[-1], encode(b"\0\0", b"body"), True)
    if confirmed:
        world.broker.dead_letter_confirmed(late.queue, DeathReason.REJECTED, dead, world.now, lambda _: None)
    else:
        world.broker.dead_letter(late.queue, DeathReason.MAXLEN, [dead], world.now)
    assert world.broker.queue("/", "dead").ready_count == 1
    slices.all()
    world.broker.dead_letter(late.queue, DeathReason.MAXLEN, [dead], world.now)
    assert world.broker.queue("/", "dead").ready_count == 1, "it dead-letters no more"

"""What concerns many queues at once is done in slices; whatever changes in between, each queue ends with what holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker import catalog_commands as commands
from broker.background_work import BackgroundWork
from broker.records import PolicyRecord
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

"""Nodes that stay away are declared lost: after a while, by who leads, and each process once."""

from __future__ import annotations

import pytest

from broker.catalog import Catalog, default_commands
from broker.catalog_commands import AddNode, DeclareQueue, NodeStarted
from broker.errors import ResourceExhausted
from broker.records import NodeRecord
from node.lost_nodes import AWAY_S, LostNodes
from tests.unit.broker.catalog_at_once import CatalogAtOnce


class World:
    """Node 1 of three, and a transient queue on each."""

    def __init__(self) -> None:
        self.metadata = CatalogAtOnce(Catalog())
        self.reached = {1, 2, 3}
        self.leads = True
        for command in default_commands("hash"):
            self.metadata.submit(command)
        for number in (1, 2, 3):
            self.metadata.submit(AddNode(NodeRecord(f"n{number}", 0, 1, f"n{number}:1")))
            self.start(number, incarnation=5)
        self.lost = LostNodes(
            1,
            self.metadata.catalog,
            reached=self.reached.__contains__,
            leads=lambda: self.leads,
            submit=self.metadata.submit,
        )
        self.lost.tick(0.0)

    def start(self, number: int, incarnation: int) -> None:
        self.metadata.submit(NodeStarted(f"n{number}", 1, incarnation))
        self.metadata.submit(DeclareQueue("/", f"q{number}", durable=False, home=f"n{number}"))

    @property
    def queues(self) -> list[str]:
        return [queue.name for queue in self.metadata.catalog.queues("/")]


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_that_stays_away_is_cleared_up_after(world: World) -> None:
    world.reached.discard(3)
    for now in (10.0, 10.0 + AWAY_S - 1):
        world.lost.tick(now)
        assert world.queues == ["q1", "q2", "q3"]
    world.lost.tick(10.0 + AWAY_S)
    assert world.queues == ["q1", "q2"]


def test_a_node_that_comes_back_in_time_keeps_what_it_has(world: World) -> None:
    world.reached.discard(3)
    world.lost.tick(10.0)
    world.reached.add(3)
    world.lost.tick(40.0)
    world.reached.discard(3)
    world.lost.tick(50.0)
    world.lost.tick(10.0 + AWAY_S)
    assert world.queues == ["q1", "q2", "q3"]


def test_who_does_not_lead_watches_and_is_ready_to(world: World) -> None:
    world.leads = False
    world.reached.discard(2)
    world.lost.tick(10.0)
    world.lost.tick(10.0 + AWAY_S)
    assert world.queues == ["q1", "q2", "q3"]
    world.leads = True
    world.lost.tick(11.0 + AWAY_S)
    assert world.queues == ["q1", "q3"]


def test_a_new_process_is_lost_for_itself(world: World) -> None:
    world.reached.discard(2)
    world.lost.tick(10.0)
    world.lost.tick(10.0 + AWAY_S)
    world.reached.add(2)
    world.start(2, incarnation=6)
    world.lost.tick(100.0)
    world.reached.discard(2)
    world.lost.tick(110.0)
    assert world.queues == ["q1", "q3", "q2"]
    world.lost.tick(110.0 + AWAY_S)
    assert world.queues == ["q1", "q3"]


def test_what_could_not_be_decided_is_tried_again(world: World) -> None:
    world.reached.discard(3)
    world.lost.tick(10.0)
    world.metadata.refusal = ResourceExhausted("no majority")
    world.lost.tick(10.0 + AWAY_S)
    world.metadata.refusal = None
    world.lost.tick(11.0 + AWAY_S)
    assert world.queues == ["q1", "q2"]

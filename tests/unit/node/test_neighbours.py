"""node/peers/neighbours.py: which links there are, who calls, and who is away."""

from __future__ import annotations

import logging

from node.identity import DISK, KnownNode
from node.peers.neighbours import Neighbours
from tests.sim.clock import SimClock
from tests.unit.node.cluster_world import FakeGroups, FakeWays


def known(number: int, address: str = "") -> KnownNode:
    return KnownNode(number, f"n{number}", address or f"n{number}:1", DISK)


class World:
    """Node 2."""

    def __init__(self) -> None:
        self.links, self.clock = FakeWays(), SimClock()
        self.groups = FakeGroups()
        groups: object = self.groups
        self.neighbours = Neighbours(2, self.links, groups, self.clock.monotonic, logging.getLogger())  # type: ignore[arg-type]


def test_each_other_node_has_a_link_and_those_with_lower_numbers_are_called() -> None:
    world = World()
    world.neighbours.follow([known(1), known(2), known(3)])
    assert sorted(world.links.links) == world.groups.watched == [1, 3]
    assert world.links.links[1] is not None and world.links.links[1].address == "n1:1"
    assert world.links.links[3] is None


def test_a_node_that_was_removed_loses_its_link_when_nobody_needs_it_any_more() -> None:
    world = World()
    world.neighbours.follow([known(1), known(3)])
    dialer = world.links.links[1]
    world.neighbours.follow([known(3)], still_needed=[1])
    assert sorted(world.links.links) == [1, 3]
    world.neighbours.follow([known(3)])
    assert sorted(world.links.links) == world.groups.watched == [3]
    assert dialer is not None and dialer.stopped


def test_a_node_that_is_elsewhere_is_called_there() -> None:
    world = World()
    world.neighbours.follow([known(1), known(3)])
    world.neighbours.follow([known(1, "moved:1"), known(3)])
    dialer = world.links.links[1]
    assert dialer is not None and dialer.address == "moved:1"
    world.neighbours.moved(1, "again:1")
    world.neighbours.moved(3, "it calls itself:1")
    world.neighbours.moved(9, "a stranger:1")
    assert dialer.address == "again:1"


def test_what_another_node_repeats_of_an_old_catalog_does_not_send_a_call_back_to_where_nobody_is() -> None:
    """All nodes had moved, and no catalog could say so yet: each undid what the others said of themselves."""
    world = World()
    world.neighbours.follow([known(1)])
    dialer = world.links.links[1]
    assert dialer is not None
    world.neighbours.moved(1, "moved:1")
    world.neighbours.said_to_be(1, "n1:1")
    assert dialer.address == "moved:1"
    world.neighbours.said_to_be(1, "the catalog of another node:1")
    world.neighbours.said_to_be(9, "a stranger:1")
    assert dialer.address == "the catalog of another node:1"


def test_a_node_alone_has_no_links() -> None:
    world = World()
    world.links.listens = False
    world.neighbours.follow([known(1), known(3)])
    assert not world.links.links and not world.groups.watched


def test_who_is_away_is_counted_from_the_last_look_at_which_it_was_there() -> None:
    world = World()
    world.neighbours.follow([known(1), known(3)])
    world.groups.trusted = {1, 3}
    world.clock.advance(100.0)
    world.neighbours.look()
    assert world.neighbours.lost(0.0) == [] and world.neighbours.since(1) == 100.0
    world.groups.trusted = {3}
    world.neighbours.look()
    world.clock.advance(2.0)
    world.neighbours.look()
    assert world.neighbours.lost(2.0) == [known(1)] and world.neighbours.lost(2.1) == []
    assert (world.neighbours.since(3), world.neighbours.since(2)) == (100.0, None)
    assert [one for one in (1, 2, 3) if world.neighbours.reached(one)] == [2, 3]


def test_at_a_stop_all_links_end() -> None:
    world = World()
    world.neighbours.follow([known(1), known(3)])
    dialer = world.links.links[1]
    world.neighbours.stop()
    assert not world.links.links and not world.groups.watched
    assert dialer is not None and dialer.stopped

"""links/owner.py."""

from __future__ import annotations

from collections import Counter

from links.owner import owner_of

NODES = ("one", "two", "three")
NAMES = [f"shovel-{number}" for number in range(600)]


def test_each_node_comes_to_the_same_whatever_the_order() -> None:
    for name in NAMES:
        assert owner_of("/", name, NODES) == owner_of("/", name, reversed(NODES))


def test_shovels_are_spread() -> None:
    assert min(Counter(owner_of("/", name, NODES) for name in NAMES).values()) > 150


def test_when_a_node_goes_only_its_own_shovels_move() -> None:
    for name in NAMES:
        before = owner_of("/", name, NODES)
        if before != "two":
            assert owner_of("/", name, ("one", "three")) == before


def test_without_nodes_there_is_no_owner() -> None:
    assert owner_of("/", "s", ()) is None

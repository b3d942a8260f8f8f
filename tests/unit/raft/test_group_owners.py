"""raft/group_owners.py: what happens to a group reaches its owner, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from raft.core.errors import CannotApply, Damaged
from raft.core.messages import MemberId
from raft.driver import Driver
from raft.group_owners import GroupOwners, NoOwner
from tests.unit.raft.groups_world import World


class Owner:
    """Notes what it is told, by the group."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def leading_changed(self, driver: Driver) -> None:
        self.told.append(("leading", driver.group))

    def damaged(self, driver: Driver, damage: Damaged) -> None:
        self.told.append((f"damaged: {damage}", driver.group))

    def repaired(self, driver: Driver) -> None:
        self.told.append(("repaired", driver.group))

    def halted(self, driver: Driver, error: CannotApply) -> None:
        self.told.append((f"halted: {error}", driver.group))


def three_groups() -> tuple[World, GroupOwners]:
    """On one node; who owns what is for the test to say."""
    world = World(1, groups=3)
    world.run(1)
    owners, groups = GroupOwners(), world.nodes[1].groups
    groups._on_leading = owners.leading_changed
    groups._on_damaged = owners.damaged
    groups._on_repaired = owners.repaired
    groups._on_halted = owners.halted
    return world, owners


def driver_of(world: World, group: int) -> Driver:
    return world.nodes[1].driver(group)


def test_each_event_reaches_the_owner_of_its_group_alone() -> None:
    world, owners = three_groups()
    one, other = Owner(), Owner()
    owners.register(1, one)
    owners.register(2, other)
    groups = world.nodes[1].groups
    groups.damaged(2, Damaged("rotten"))
    groups.cannot_apply(driver_of(world, 1), CannotApply("unknown"))
    world.run(0.1)
    assert one.told[0] == ("halted: unknown", 1) and {group for _, group in one.told} == {1}
    assert other.told == [("damaged: rotten", 2)]
    owners.repaired(driver_of(world, 1))
    assert one.told[-1] == ("repaired", 1)


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("leading_changed", ()),
        ("damaged", (Damaged("rotten"),)),
        ("repaired", ()),
        ("halted", (CannotApply("unknown"),)),
    ],
)
def test_an_event_of_a_group_without_an_owner_is_an_error(event: str, more: tuple[Any, ...]) -> None:
    world, owners = three_groups()
    one = Owner()
    owners.register(1, one)
    with pytest.raises(NoOwner, match="group 3 has no owner"):
        getattr(owners, event)(driver_of(world, 3), *more)
    assert one.told == []


def test_damage_of_a_group_without_an_owner_stops_the_node_instead_of_staying_unrepaired() -> None:
    world, _ = three_groups()
    node = world.nodes[1]
    node.groups.damaged(3, Damaged("rotten"))
    with pytest.raises(NoOwner):
        world.run(0.1)
    ((failure),) = node.failures
    assert "group 3 has no owner" in failure


def test_a_group_has_one_owner_until_that_leaves() -> None:
    owners, one, other = GroupOwners(), Owner(), Owner()
    owners.register(1, one)
    owners.register(1, one)
    with pytest.raises(AssertionError, match="group 1 has an owner already"):
        owners.register(1, other)
    owners.leave(1)
    owners.register(1, other)


def test_an_owner_is_told_of_the_member_that_votes_again() -> None:
    world = World(3)
    owners, owner = GroupOwners(), Owner()
    owners.register(1, owner)
    victim = world.others(world.leader().number)[0]
    victim.groups._on_repaired = owners.repaired
    old: MemberId = victim.driver().me
    victim.groups.damaged(1, Damaged("rotten", 1))
    world.run(6.0)
    assert ("repaired", 1) in owner.told and victim.driver().me != old

"""raft/store/group_stores.py: groups whose logs live in another store than the node's log, served by the same Groups."""

from __future__ import annotations

import pytest

from raft.core.errors import Damaged
from raft.core.messages import MemberId, Membership, NodeId, member_id, node_of
from raft.driver import SnapshotRules
from raft.store.group_stores import NodeStores
from tests.raft_node.register import put
from tests.unit.raft.groups_world import Node, World
from tests.unit.raft.own_files import FSYNC_S

SHARED, OWN = 1, 2  # groups: in the node's log, and in files of its own


def two_stores(entries_max: int = 50_000) -> World:
    world = World(rules=SnapshotRules(entries_max, 1 << 20))
    first = Membership(tuple(member_id(number, 0) for number in world.nodes))
    for node in world.nodes.values():
        node.create(OWN, 0, first, node.own_files)
    world.leader(SHARED)
    world.leader(OWN)
    return world


def say(world: World, count: int, group: int, begin: int = 0) -> None:
    leader = world.leader(group)
    for number in range(begin, begin + count):
        answers = leader.propose(put(b"%d" % number, b"v%d" % number), group=group)
        world.run(0.05)
        assert answers.results, f"{number} was not committed: {answers.errors}"


def follower(world: World, group: int = OWN) -> Node:
    return world.others(world.leader(group).number)[0]


def holds(world: World, count: int, group: int = OWN) -> None:
    """All members have the same, and these registers."""
    for node in world.nodes.values():
        for number in range(count):
            found = node.machine(group).get(b"%d" % number)
            assert found is not None and found.value == b"v%d" % number, f"node {node.number} lacks {number}"
    assert len({node.machine(group).digest() for node in world.nodes.values()}) == 1


def comes_back_as_another(world: World, number: NodeId, old: MemberId) -> None:
    new = world.nodes[number].driver(OWN).me
    assert new != old and node_of(new) == number
    voters = world.leader(OWN).driver(OWN).core.status().membership.voters
    assert new in voters and old not in voters and (number, new) in world.repaired


def test_a_group_of_each_store_commits_with_its_own_tickets() -> None:
    world = two_stores()
    say(world, 5, SHARED)
    say(world, 5, OWN)
    holds(world, 5, SHARED)
    holds(world, 5, OWN)
    for node in world.nodes.values():
        assert node.stores.of(SHARED) is node.store and node.stores.of(OWN) is node.own_files
        assert node.driver(SHARED).durability is node.log and node.driver(OWN).durability is node.own_files
        assert OWN not in node.store.stores


def test_nothing_is_acknowledged_before_the_store_of_its_group_has_fsynced() -> None:
    world = two_stores()
    leader = world.leader(OWN)
    answers = leader.propose(put(b"k", b"v"), group=OWN)
    shared = world.leader(SHARED).propose(put(b"k", b"v"))
    world.run(FSYNC_S * 0.75)  # the node's log is durable at once, on this simulated disk
    assert not answers.told and not shared.told
    world.run(FSYNC_S * 0.75)
    assert shared.results and not answers.told, "a letter takes 1 ms each way, the other store's fsync 2 ms"
    world.run(FSYNC_S * 2)
    assert answers.results


def test_a_killed_node_goes_on_with_what_its_other_store_has_fsynced() -> None:
    world = two_stores()
    say(world, 5, OWN)
    for node in list(world.nodes.values()):
        node.kill()
    for number in list(world.nodes):
        world.restart(number)
    say(world, 3, OWN, begin=5)
    holds(world, 8)


def test_a_killed_node_loses_what_its_other_store_had_not_fsynced() -> None:
    world = two_stores()
    leader = world.leader(OWN)
    leader.propose(put(b"lost", b"v"), group=OWN)
    world.run(FSYNC_S / 4)
    before = leader.own_files.group(OWN).last_index()
    leader.kill()
    assert world.platters[leader.number].images[OWN].entries[-1].index < before


def test_a_log_of_its_own_is_compacted_and_a_late_member_gets_the_snapshot() -> None:
    world = two_stores(entries_max=10)
    late = follower(world)
    late.kill()
    say(world, 25, OWN)
    kept = world.leader(OWN).own_files.group(OWN)
    assert kept.first_index() > 20 and len(kept.image.entries) < 12
    world.restart(late.number)
    world.run(3.0)
    assert world.nodes[late.number].own_files.group(OWN).snapshot().index >= 20
    holds(world, 25)


def test_a_member_found_damaged_at_the_start_comes_back_as_another() -> None:
    world = two_stores()
    say(world, 5, OWN)
    victim = follower(world)
    old = victim.driver(OWN).me
    victim.kill()
    world.platters[victim.number].damage(OWN, 3)
    back = world.restart(victim.number)
    assert back.stores.renumbered == [OWN] and not back.store.renumbered
    assert back.driver(OWN).me != old and back.driver(SHARED).me == old
    world.run(6.0)
    holds(world, 5)
    assert old not in world.leader(OWN).driver(OWN).core.status().membership.voters


def test_damage_met_while_running_is_repaired_by_the_store_that_keeps_the_group() -> None:
    world = two_stores()
    say(world, 5, OWN)
    victim = follower(world)
    old = victim.driver(OWN).me
    assert victim.own_files.on_damaged is not None
    victim.own_files.on_damaged(OWN, Damaged("its scrubber has met it", 3))
    world.run(6.0)
    comes_back_as_another(world, victim.number, old)
    holds(world, 5)
    assert victim.driver(SHARED).me == member_id(victim.number, 0), "the other store's group is not concerned"


def test_a_removed_group_leaves_nothing_in_its_store_and_the_others_go_on() -> None:
    world = two_stores()
    for node in world.nodes.values():
        node.groups.remove(OWN)
        node.stores.of(OWN).remove_group(OWN)
    world.run(0.1)
    for node in world.nodes.values():
        assert OWN not in world.platters[node.number].images
        with pytest.raises(KeyError):
            node.stores.of(OWN)
    say(world, 3, SHARED)


def test_two_stores_of_one_name_would_share_what_they_need_of_the_log() -> None:
    node = World(1).nodes[1]
    with pytest.raises(AssertionError, match="one name"):
        NodeStores([node.store, node.store])

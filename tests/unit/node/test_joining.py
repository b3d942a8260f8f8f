"""node/membership/joining.py: who is taken in, and who is told to go."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import Mock

import pytest

from broker.catalog.commands.catalog_commands import NodeStarted, RemoveNode
from broker.catalog.parts.disk_lives import FIRST_LIFE, LIFE_NUMBERS
from node.identity import DISK, NodeIdentity
from node.membership.greetings import greeting_of
from node.membership.joining import Joining
from node.peers import peer_pb2
from tests.sim.disk import SimDisk
from tests.unit.node.cluster_world import DISK_ID, NOW, ClusterWorld


def test_a_new_node_gets_the_next_number_and_everybody_s_address() -> None:
    answer = ClusterWorld().join()
    assert (answer.number, answer.cluster_id, answer.refusal) == (3, "c1", "")
    assert {node.name: node.address for node in answer.nodes} == {"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}


def test_asking_again_after_a_lost_answer_gives_the_same_number_and_takes_the_new_address() -> None:
    world = ClusterWorld()
    first, again = world.join(), world.join(address="n3:2")
    assert (first.number, again.number) == (3, 3)
    assert world.metadata.catalog.nodes["n3"].address == "n3:2"
    assert (first.disk_id, again.disk_id) == (FIRST_LIFE, FIRST_LIFE)
    assert world.join(name="n4").number == 4


def test_a_later_process_on_an_empty_disk_has_another_life_whatever_its_clock_says() -> None:
    world = ClusterWorld()
    world.join()
    world.metadata.catalog.apply(NodeStarted("n3", FIRST_LIFE, NOW + 9))
    behind = world.join(joiner="the next process")
    assert (behind.number, behind.later, behind.incarnation) == (0, True, NOW + 9)
    again = world.join(joiner="the next process", incarnation=NOW + 10)
    assert (again.number, again.disk_id, again.incarnation) == (3, FIRST_LIFE + LIFE_NUMBERS, 0)


def test_a_name_is_refused_while_its_node_is_up_and_taken_over_when_it_is_down() -> None:
    world = ClusterWorld()
    world.groups.trusted = {2}
    refusal = world.join(name="n2")
    assert (refusal.number, refusal.later) == (0, False)
    assert refusal.refusal.startswith("the name 'n2' is in use by a node that is up, at n2:1")
    world.groups.trusted = set()
    assert world.join(name="n2").number == 2
    assert world.metadata.catalog.nodes["n2"].disk_id == FIRST_LIFE + LIFE_NUMBERS
    assert "in use" in world.join(name="n1").refusal


def test_a_node_of_an_earlier_build_that_is_known_comes_back_on_another_disk() -> None:
    """As long as it belongs to the cluster the others write nothing that it cannot read."""
    assert ClusterWorld().join(name="n2", catalog_entries=0).number == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster_id": "c2"}, "this is cluster c1, and it wants to join c2"),
        ({"version": "0.0.9"}, "needs 0.1.0 or later: update it"),
        ({"version": "a tale"}, "update it"),
        ({"joiner": ""}, "update it"),
        ({"catalog_entries": 0}, "it is of an earlier build"),
        ({"kind": "tape"}, "there are disk and ram"),
        ({"name": ""}, "name"),
    ],
)
def test_who_does_not_fit_is_refused_with_the_reason(changes: dict[str, Any], said: str) -> None:
    answer = ClusterWorld().join(**changes)
    assert (answer.number, answer.later) == (0, False)
    assert said in answer.refusal


def test_without_a_majority_a_node_is_to_ask_again_and_told_who_is_missing() -> None:
    world = ClusterWorld()
    world.metadata.missing = ("n2",)
    answer = world.join()
    assert (answer.number, answer.later) == (0, True)
    assert "n2 cannot be reached" in answer.refusal


def test_a_node_that_was_removed_or_whose_disk_is_an_old_one_is_told_so() -> None:
    world = ClusterWorld()
    me = {"cluster_id": "c1", "disk_id": DISK_ID, "address": "x:1"}
    assert world.greet(number=2, **me).removed == ""
    assert [node.name for node in world.greet(number=2, **me).nodes] == ["n1", "n2"]
    world.metadata.apply(RemoveNode("n2"))
    assert world.greet(number=2, **me).removed == "node 2 was removed from cluster c1"
    assert world.greet(number=3, **me).removed == ""  # this node may not have heard of it yet
    world.join(name="n4")
    assert "an old one" in world.greet(number=3, **me).removed
    stranger = world.greet(cluster_id="c2", number=2)
    assert (stranger.cluster_id, stranger.removed, len(stranger.nodes)) == ("c1", "", 0)


def test_a_node_whose_disk_is_a_copy_made_before_its_last_life_is_told_so() -> None:
    """A copy that was restored knows nothing of the votes and confirms of the process that ran in between."""
    world = ClusterWorld()
    world.metadata.catalog.apply(NodeStarted("n2", DISK_ID, 300))

    def told(earlier: int, now: int) -> str:
        greeting = {"cluster_id": "c1", "number": 2, "disk_id": DISK_ID, "address": "n2:1", "incarnation": now}
        return world.greet(earlier_incarnation=earlier, **greeting).removed

    assert told(300, 400) == ""
    assert told(350, 400) == "", "a process that ended before the catalog heard of it"
    assert told(200, 300) == "", "the process itself, when it runs"
    assert told(0, 400) == "", "of a version that does not say"
    assert "an old copy" in told(200, 400)


def greeting_of_n2(**changes: Any) -> dict[str, Any]:
    """Its process 400, whose directory knows of process 300."""
    me = {"cluster_id": "c1", "number": 2, "disk_id": DISK_ID, "address": "n2:1", "incarnation": 400}
    return {**me, "earlier_incarnation": 300} | changes


def test_a_disk_that_is_one_older_than_the_catalog_has_is_an_old_one() -> None:
    assert "an old one" in ClusterWorld().greet(**greeting_of_n2(disk_id=DISK_ID - 1)).removed


def test_a_disk_that_is_newer_than_the_catalog_has_heard_is_not_an_old_one() -> None:
    assert ClusterWorld().greet(**greeting_of_n2(disk_id=DISK_ID + 1)).removed == ""
    world = ClusterWorld()
    world.metadata.catalog.apply(NodeStarted("n2", DISK_ID, 350))
    assert "an old copy" in world.greet(**greeting_of_n2()).removed
    assert world.greet(**greeting_of_n2(disk_id=DISK_ID + 1)).removed == "", "its processes are of another directory"


def test_a_copy_that_misses_the_last_process_by_one_is_an_old_copy() -> None:
    world = ClusterWorld()
    world.metadata.catalog.apply(NodeStarted("n2", DISK_ID, 300))
    assert "an old copy" in world.greet(**greeting_of_n2(earlier_incarnation=299)).removed


def test_where_an_old_copy_of_a_node_lives_is_not_where_the_node_is_dialed() -> None:
    world = ClusterWorld()
    world.metadata.catalog.apply(NodeStarted("n2", DISK_ID, 300))
    neighbours = Mock()
    joining = Joining(world.identity, world.metadata, neighbours)
    copy = greeting_of_n2(earlier_incarnation=200, address="of the copy:1")
    assert joining.greet(peer_pb2.Greeting(**copy)).removed
    assert not neighbours.moved.called
    joining.greet(peer_pb2.Greeting(**greeting_of_n2(address="moved:1")))
    neighbours.moved.assert_called_once_with(2, "moved:1")


def test_a_later_process_on_an_empty_disk_that_began_in_the_same_millisecond_is_to_ask_again() -> None:
    world = ClusterWorld()
    world.join()
    world.metadata.catalog.apply(NodeStarted("n3", FIRST_LIFE, NOW + 9))
    same = world.join(joiner="the next process", incarnation=NOW + 9)
    assert (same.number, same.later, same.incarnation) == (0, True, NOW + 9)


def test_asking_again_from_another_zone_takes_the_new_zone() -> None:
    world = ClusterWorld()
    world.join(zone="a")
    world.join(zone="b")
    assert world.metadata.catalog.nodes["n3"].zone == "b"


def test_a_greeting_says_all_by_which_an_old_copy_is_told() -> None:
    disk = SimDisk()
    earlier = NodeIdentity.begin(disk, "n5", DISK, NOW, os.urandom)
    earlier.join("c1", 5, DISK_ID, ())
    earlier.take_part()
    identity = NodeIdentity.begin(disk, "n5", DISK, NOW + 1, os.urandom)
    said = greeting_of(identity, "n5:1")
    assert (said.number, said.cluster_id, said.address) == (5, "c1", "n5:1")
    assert identity.disk_id and said.disk_id == identity.disk_id
    assert said.incarnation == identity.incarnation > earlier.incarnation
    assert said.earlier_incarnation == earlier.incarnation

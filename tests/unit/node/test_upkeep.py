"""node/membership/upkeep.py: what a node does by itself as one of its cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.catalog.commands.catalog_commands import AddNode, NodeLost, NodeStarted, PutNode, RemoveNode
from broker.errors import NotFound, ResourceExhausted
from broker.records import NodeRecord
from node.identity import DISK, RAM, KnownNode
from node.membership.greetings import told_node
from node.membership.upkeep import AWAY_S_MAX, GO_AROUND_S, HANDED_OVER_S_MAX, LEAVES, LOST_S, TICK_S
from node.peers import peer_pb2
from raft.core.errors import NotLeader
from raft.core.membership import AddLearner, RemoveMember
from raft.core.messages import member_id
from tests.sim.disk import Fault, fault_on, no_faults
from tests.unit.node.cluster_world import DISK_ID, ClusterWorld, FakeDriver, follower

ME, OTHER, THIRD = member_id(1, 7), member_id(2, 7), member_id(3, 7)


def n3() -> NodeRecord:
    return NodeRecord("n3", 0, DISK_ID, "n3:1")


# who belongs to the cluster


def test_links_and_memory_follow_the_catalog() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    assert sorted(world.ways.links) == [2]
    assert world.identity.nodes == (KnownNode(2, "n2", "n2:1", DISK),)
    world.metadata.apply(AddNode(n3()))
    assert sorted(world.ways.links) == [2, 3]
    assert [node.number for node in world.identity.nodes] == [2, 3]
    world.metadata.apply(RemoveNode("n2"))
    assert sorted(world.ways.links) == [3]


@pytest.mark.parametrize("fault", [Fault.ENOSPC, Fault.EMFILE])
def test_a_node_is_taken_in_while_the_disk_of_another_one_is_full(
    fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    """Each node without room, or without descriptors, stopped when another one joined."""
    world = ClusterWorld()
    world.upkeep.start()
    world.disk.faults = fault_on("create", fault)
    world.metadata.apply(AddNode(n3()))
    assert sorted(world.ways.links) == [2, 3]
    world.loop.run_for(3 * TICK_S)
    assert caplog.text.count("cannot be noted for the next start") == 1
    assert [node.number for node in world.identity.nodes] == [2]
    world.disk.faults = no_faults
    world.loop.run_for(TICK_S)
    assert [node.number for node in world.identity.nodes] == [2, 3]
    assert world.process.said == []


def test_a_removed_node_keeps_its_link_while_the_metadata_group_has_its_member() -> None:
    world = ClusterWorld()
    driver = world.groups.lead(ME, OTHER)
    world.upkeep.start()
    world.metadata.apply(RemoveNode("n2"))
    assert sorted(world.ways.links) == [2]
    driver.voters = (ME,)
    world.loop.run_for(TICK_S)
    assert not world.ways.links


def test_a_node_whose_catalog_does_not_know_it_yet_has_links_to_those_it_remembers() -> None:
    world = ClusterWorld(number=5)
    world.identity.know([KnownNode(4, "n4", "n4:1", DISK)])
    world.upkeep.start()
    assert sorted(world.ways.links) == [1, 2, 4]
    assert world.process.said == []


def test_a_node_that_the_catalog_has_yet_to_hear_of_keeps_its_link() -> None:
    """A node on a new disk was told of the others when it was taken in. Then it read the log of the catalog from its beginning,
    ended its links to those that came later, also to the leader, and never heard more."""
    world = ClusterWorld()
    world.identity.know([KnownNode(2, "n2", "n2:1", DISK), KnownNode(3, "n3", "n3:1", DISK)])
    world.upkeep.start()
    assert sorted(world.ways.links) == [2, 3]
    assert [node.number for node in world.identity.nodes] == [2, 3]
    world.metadata.apply(AddNode(n3()))
    world.metadata.apply(RemoveNode("n3"))
    assert sorted(world.ways.links) == [2]
    assert [node.number for node in world.identity.nodes] == [2]


def test_a_node_that_follows_a_catalog_without_itself_stops_and_says_so() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    world.metadata.apply(RemoveNode("n1"))
    assert world.process.said[0] == (
        "leave out: node 'n1' belongs to its cluster no more: it was removed from cluster c1. To join again, start it with an "
        "empty data directory"
    )
    assert world.upkeep.removed == "it was removed from cluster c1"


def test_a_node_that_leaves_is_not_surprised_that_it_was_removed() -> None:
    world = ClusterWorld()
    world.upkeep.parting = LEAVES
    world.upkeep.start()
    world.metadata.apply(RemoveNode("n1"))
    assert world.process.said == [] and not world.upkeep.removed


def test_the_leader_changes_the_metadata_group_s_members_one_after_the_other() -> None:
    world = ClusterWorld()
    driver = world.groups.lead(ME)
    world.upkeep.start()
    world.loop.run_for(3 * TICK_S)
    added = AddLearner(member_id(2, DISK_ID), promote=True)
    assert world.groups.changes == [added], "the first is under way"
    world.groups.on_changed(None, NotLeader(0))
    world.loop.run_for(TICK_S)
    assert world.groups.changes == [added, added], "it was refused"
    world.groups.on_changed([], None)
    driver.change_pending = True
    world.loop.run_for(TICK_S)
    assert len(world.groups.changes) == 2
    driver.change_pending = False
    driver.voters = (ME, member_id(2, DISK_ID))
    world.metadata.apply(RemoveNode("n2"))
    world.loop.run_for(TICK_S)
    assert world.groups.changes[2:] == [RemoveMember(member_id(2, DISK_ID))]


def test_who_does_not_lead_changes_no_members_and_tells_of_no_lost_nodes() -> None:
    world = ClusterWorld()
    driver = world.groups.lead(ME)
    driver.leads = False
    world.upkeep.start()
    world.loop.run_for(AWAY_S_MAX + 1.0)
    assert not world.groups.changes and not world.metadata.submitted


def test_the_leader_tells_once_that_a_process_was_away_too_long() -> None:
    world = ClusterWorld()
    world.groups.lead(ME)
    world.upkeep.start()
    world.loop.run_for(AWAY_S_MAX - TICK_S)
    assert world.metadata.submitted == []
    world.metadata.missing = ("n2",)
    world.loop.run_for(TICK_S)
    assert world.metadata.submitted == [NodeLost("n2", 0)]
    world.metadata.missing = ()
    world.loop.run_for(3 * TICK_S)
    assert world.metadata.submitted == [NodeLost("n2", 0)] * 2  # the first was refused


def test_a_wall_clock_that_jumps_makes_nobody_away_too_long() -> None:
    world = ClusterWorld()
    world.groups.lead(ME)
    world.upkeep.start()
    world.loop.run_for(1.0)
    world.clock.jump_wall_ms(3_600_000)
    world.loop.run_for(1.0)
    assert world.metadata.submitted == []
    world.clock.jump_wall_ms(-7_200_000)
    world.loop.run_for(AWAY_S_MAX)
    assert world.metadata.submitted == [NodeLost("n2", 0)]


# this node, to the others


def test_a_node_says_where_it_is_when_the_catalog_says_otherwise() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S)
    assert world.metadata.submitted == [], "the catalog is right"
    world.ways.address = "elsewhere:1"
    world.loop.run_for(GO_AROUND_S)
    assert world.metadata.catalog.nodes["n1"].address == "elsewhere:1"
    world.loop.run_for(3 * GO_AROUND_S)
    assert len(world.metadata.submitted) == 1


def test_a_process_that_has_just_been_started_is_drained_no_more_and_is_what_it_runs_as() -> None:
    world = ClusterWorld()
    world.metadata.catalog.apply(PutNode(NodeRecord("n1", 1, DISK_ID, "n1:1", RAM, "another zone", draining=True)))
    world.upkeep.start()
    world.loop.run_for(0.0)
    record = world.metadata.catalog.nodes["n1"]
    assert (record.draining, record.kind, record.zone) == (False, DISK, "z")


def test_what_was_not_taken_is_said_again_in_the_next_round() -> None:
    world = ClusterWorld()
    world.metadata.missing = ("n2",)
    world.ways.address = "elsewhere:1"
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S / 2)
    assert len(world.metadata.submitted) == 1
    world.metadata.missing = ()
    world.loop.run_for(GO_AROUND_S)
    assert world.metadata.catalog.nodes["n1"].address == "elsewhere:1"


def test_the_next_round_waits_for_the_answer() -> None:
    world = ClusterWorld()
    world.metadata.answers = []
    world.ways.address = "elsewhere:1"
    world.upkeep.start()
    world.loop.run_for(5 * GO_AROUND_S)
    assert len(world.metadata.submitted) == 1


@pytest.mark.parametrize("why", ["it leaves", "it stays alone", "the catalog does not know it"])
def test_a_node_says_nothing_of_itself_when(why: str) -> None:
    world = ClusterWorld(number=5 if why == "the catalog does not know it" else 1)
    world.upkeep.parting = LEAVES if why == "it leaves" else ""
    world.ways.listens = why != "it stays alone"
    world.ways.address = "elsewhere:1"
    world.upkeep.start()
    world.loop.run_for(2 * GO_AROUND_S)
    assert world.metadata.submitted == []


def test_who_is_lost_from_sight_is_asked_and_heard() -> None:
    world = ClusterWorld()
    world.metadata.catalog.apply(AddNode(n3()))
    world.upkeep.start()
    world.groups.trusted = {3}
    world.loop.run_for(LOST_S + GO_AROUND_S)
    assert list(world.ways.greeted) == ["n2:1"]
    assert (world.ways.greeted["n2:1"].number, world.ways.greeted["n2:1"].address) == (1, "n1:1")
    world.ways.answer("n2:1", peer_pb2.Greeted(removed="its data directory is an old one"))
    assert world.upkeep.removed == "its data directory is an old one"
    assert [said.partition(":")[0] for said in world.process.said] == ["leave out"]


def test_where_a_node_is_reached_is_learned_from_another_one() -> None:
    world = ClusterWorld(number=3)
    world.metadata.catalog.apply(AddNode(n3()))
    world.upkeep.start()
    world.groups.trusted = {2}
    world.loop.run_for(LOST_S + GO_AROUND_S)
    moved = told_node(NodeRecord("n1", 1, DISK_ID, "n1 has moved:1"))
    world.ways.answer("n1:1", peer_pb2.Greeted(nodes=[moved]))
    dialer = world.ways.links[1]
    assert dialer is not None and dialer.address == "n1 has moved:1"


def test_nodes_are_looked_for_where_the_configuration_says_as_long_as_one_is_missed() -> None:
    """All had moved: each was started before the others were there, and asked them once."""
    world = ClusterWorld(number=3)
    world.metadata.catalog.apply(AddNode(n3()))
    world.ways.places = {"n1 has moved:1", "another cluster's:1", "n2:1", world.ways.address}
    world.upkeep.start()
    world.groups.trusted = {1, 2}
    world.loop.run_for(LOST_S + GO_AROUND_S)
    assert not world.ways.greeted, "nobody is missed"
    world.groups.trusted = {2}
    world.loop.run_for(LOST_S + GO_AROUND_S)
    assert sorted(world.ways.greeted) == ["another cluster's:1", "n1 has moved:1", "n1:1"]
    dialer = world.ways.links[1]
    assert dialer is not None
    world.ways.answer("another cluster's:1", peer_pb2.Greeted(cluster_id="c2", name="n1"))
    assert dialer.address == "n1:1"
    world.ways.answer("n1 has moved:1", peer_pb2.Greeted(name="n1", nodes=[told_node(NodeRecord("n1", 1, 0, "n1:1"))]))
    assert dialer.address == "n1 has moved:1"
    world.ways.greeted.clear()
    world.ways.answer("n1:1", None)
    world.loop.run_for(GO_AROUND_S)
    assert "n1 has moved:1" in world.ways.greeted, "it is still missed"


def test_a_node_that_is_reached_is_not_called_elsewhere_because_it_answers_there_too() -> None:
    world = ClusterWorld(number=3)
    world.metadata.catalog.apply(AddNode(n3()))
    world.ways.places = {"another name of n1:1"}
    world.upkeep.start()
    world.groups.trusted = {1}
    world.loop.run_for(LOST_S + GO_AROUND_S)
    world.ways.answer("another name of n1:1", peer_pb2.Greeted(name="n1"))
    dialer = world.ways.links[1]
    assert dialer is not None and dialer.address == "n1:1"


def test_the_next_round_waits_until_all_that_are_asked_have_answered_or_not() -> None:
    world = ClusterWorld()
    world.metadata.catalog.apply(AddNode(n3()))
    world.upkeep.start()
    world.loop.run_for(LOST_S + GO_AROUND_S)
    assert list(world.ways.greeted) == ["n2:1", "n3:1"]
    world.ways.greeted.clear()
    world.ways.answer("n2:1", None)
    world.loop.run_for(2 * GO_AROUND_S)
    assert not world.ways.greeted
    world.ways.answer("n3:1", None)
    world.loop.run_for(GO_AROUND_S)
    assert list(world.ways.greeted) == ["n2:1", "n3:1"]


def test_a_node_that_came_while_this_one_was_away_is_found_when_nobody_is_heard_to_lead() -> None:
    """It led, and what it had to say never came: its calls were refused, for the catalog here had no such node."""
    world = ClusterWorld()
    driver = world.groups.lead(ME, OTHER)
    driver.leads = False
    world.upkeep.start()
    world.groups.trusted = {2}
    world.loop.run_for(2 * GO_AROUND_S)
    assert not world.ways.greeted, "somebody leads"
    driver.leader = 0
    world.loop.run_for(GO_AROUND_S)
    nodes = [NodeRecord("n2", 2, DISK_ID, "n2:1"), NodeRecord("n3", 3, DISK_ID, "n3:1")]
    world.ways.answer("n2:1", peer_pb2.Greeted(nodes=map(told_node, nodes)))
    assert sorted(world.ways.links) == [2, 3]
    assert [node.number for node in world.identity.nodes] == [2, 3]


@pytest.mark.parametrize(("number", "others"), [(1, [2]), (5, [1, 2])])
def test_a_node_that_was_removed_does_not_come_back_by_what_another_one_says(number: int, others: list[int]) -> None:
    """Whether the catalog here knows this node already, or not yet."""
    world = ClusterWorld(number)
    world.metadata.catalog.apply(AddNode(n3()))
    world.metadata.catalog.apply(RemoveNode("n3"))
    world.groups.lead(ME, OTHER).leader = 0
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S)
    world.ways.answer("n2:1", peer_pb2.Greeted(nodes=[told_node(NodeRecord("n3", 3, DISK_ID, "n3:1"))]))
    assert sorted(world.ways.links) == others
    assert 3 not in [node.number for node in world.identity.nodes]


def test_a_node_that_hears_that_it_is_still_one_of_the_cluster_stays() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    world.loop.run_for(LOST_S + GO_AROUND_S)
    world.ways.answer("n2:1", peer_pb2.Greeted(name="n2", nodes=map(told_node, world.metadata.catalog.nodes.values())))
    world.loop.run_for(GO_AROUND_S)
    assert world.process.said == [] and not world.upkeep.removed


def test_a_node_that_the_catalog_is_just_about_to_take_in_is_not_taken_for_a_removed_one() -> None:
    world = ClusterWorld(number=3)
    assert world.metadata.catalog.next_node_number == 3
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S)
    assert world.process.said == [] and sorted(world.ways.links) == [1, 2]


def test_a_node_whose_catalog_names_nobody_yet_is_not_removed() -> None:
    """Of what is stored, or sent as a snapshot, it has the numbers that were given and no node so far."""
    world = ClusterWorld()
    head = world.metadata.catalog.head
    world.metadata.catalog.clear()
    world.metadata.catalog.load_head(head)
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S)
    assert world.process.said == [] and not world.upkeep.removed


def test_a_leader_whose_catalog_is_empty_takes_no_member_for_gone() -> None:
    world = ClusterWorld()
    world.metadata.catalog.clear()
    world.groups.lead(ME, OTHER, THIRD)
    world.upkeep.start()
    world.loop.run_for(2 * TICK_S)
    assert world.groups.changes == []


def test_a_removed_node_that_is_away_for_long_while_its_member_is_not_out_yet_stops_nobody() -> None:
    world = ClusterWorld()
    world.groups.lead(ME, OTHER).change_pending = True
    world.upkeep.start()
    world.metadata.apply(RemoveNode("n2"))
    world.loop.run_for(AWAY_S_MAX + 1.0)
    assert sorted(world.ways.links) == [2]
    assert world.process.said == [] and not [one for one in world.metadata.submitted if isinstance(one, NodeLost)]


def test_a_ram_node_does_not_announce_itself_as_a_disk_node() -> None:
    """It would be given a vote, and forget what it promised with it."""
    world = ClusterWorld()
    world.metadata.catalog.apply(PutNode(replace(world.metadata.catalog.nodes["n1"], address="before:1", kind=RAM)))
    world.identity.change_kind(RAM, above=0)
    world.upkeep.start()
    world.loop.run_for(GO_AROUND_S)
    (announced,) = world.metadata.submitted
    assert isinstance(announced, PutNode)
    assert (announced.record.address, announced.record.kind) == ("n1:1", RAM)


# leaderships


def leading(*groups: int) -> tuple[ClusterWorld, list[FakeDriver]]:
    """n2 and n3 follow; n3 has come further."""
    world = ClusterWorld()
    world.metadata.catalog.apply(AddNode(n3()))
    drivers = [FakeDriver(group) for group in groups]
    for driver in drivers:
        driver.leads, driver.voters = True, (ME, OTHER, THIRD)
        driver.followers = [follower(OTHER, 5), follower(THIRD, 9)]
    world.groups.others = drivers
    return world, drivers


def test_leaderships_go_to_the_voter_that_has_come_furthest() -> None:
    world, (driver, other) = leading(7, 8)
    other.leads = False
    answered: list[None] = []
    world.upkeep.hand_over().then(answered.append, lambda _: None)
    assert (driver.transferred, other.transferred) == ([THIRD], [])
    world.loop.run_for(1.0)
    assert answered == []
    driver.leads = False
    world.loop.run_for(TICK_S)
    assert answered == [None]


@pytest.mark.parametrize("unfit", ["drained", "suspected", "no voter"])
def test_no_heir_is(unfit: str) -> None:
    world, (driver,) = leading(7)
    match unfit:
        case "drained":
            world.metadata.apply(PutNode(NodeRecord("n3", 3, DISK_ID, "n3:1", draining=True)))
        case "suspected":
            driver.followers[1].suspected = True
        case _:
            driver.voters = (ME, OTHER)
    world.upkeep.hand_over()
    assert driver.transferred == [OTHER]


def test_what_nobody_can_lead_is_not_waited_for() -> None:
    world, (driver,) = leading(7)
    driver.followers = []
    answered: list[None] = []
    world.upkeep.hand_over().then(answered.append, lambda _: None)
    assert answered == [None] and driver.transferred == []


def test_others_that_do_not_take_over_are_waited_for_no_longer_than_that() -> None:
    world, (driver,) = leading(7)
    driver.refusal = NotLeader(0)
    answered: list[None] = []
    world.upkeep.hand_over().then(answered.append, lambda _: None)
    world.loop.run_for(HANDED_OVER_S_MAX - TICK_S)
    assert answered == []
    world.loop.run_for(2 * TICK_S)
    assert answered == [None]


def test_a_drained_node_says_so_hands_over_and_hands_over_again_what_it_is_elected_to_lead() -> None:
    world, (driver,) = leading(7)
    world.upkeep.start()
    world.loop.run_soon()
    answered: list[None] = []
    world.upkeep.drain().answer.then(answered.append, lambda _: None)
    assert world.metadata.catalog.nodes["n1"].draining
    world.loop.run_soon()
    assert driver.transferred == [THIRD]
    driver.leads = False
    world.loop.run_for(TICK_S)
    assert answered == [None]
    driver.leads = True
    world.loop.run_for(GO_AROUND_S)
    assert driver.transferred == [THIRD, THIRD]
    assert world.metadata.catalog.nodes["n1"].draining, "the rounds do not say otherwise"
    world.upkeep.revive()
    assert not world.metadata.catalog.nodes["n1"].draining
    driver.transferred.clear()
    world.loop.run_for(HANDED_OVER_S_MAX + 2 * GO_AROUND_S)
    assert driver.transferred == []


def test_a_node_is_not_drained_when_the_others_cannot_hear_of_it() -> None:
    world, (driver,) = leading(7)
    world.metadata.missing = ("n2",)
    assert isinstance(world.upkeep.drain().answer.error, ResourceExhausted)
    world.loop.run_for(1.0)
    assert not world.upkeep.drained and driver.transferred == []


def test_a_node_that_the_catalog_does_not_know_yet_is_not_drained() -> None:
    world = ClusterWorld(number=5)
    assert isinstance(world.upkeep.drain().answer.error, NotFound)
    assert not world.upkeep.drained


# the rounds


def test_news_are_told_in_each_tick() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    world.loop.run_for(3 * TICK_S)
    assert world.news.ticks == 4


def test_a_fault_in_a_round_ends_the_process() -> None:
    world = ClusterWorld()
    world.upkeep.start()

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    world.news.tick = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.loop.run_soon()
    assert [said for said in world.process.said if said.startswith("fail:") and "a mistake" in said]


def test_behind_a_stop_there_are_no_links_and_nothing_goes_on() -> None:
    world = ClusterWorld()
    world.upkeep.start()
    world.loop.run_for(LOST_S + GO_AROUND_S)
    ticks = world.news.ticks
    world.upkeep.stop()
    assert not world.ways.links
    world.ways.answer("n2:1", peer_pb2.Greeted(removed="too late"))
    world.loop.run_for(10.0)
    assert world.news.ticks == ticks and world.process.said == []


def test_a_later_process_that_was_away_too_long_is_told_of_too() -> None:
    world = ClusterWorld()
    world.groups.lead(ME)
    world.upkeep.start()
    world.loop.run_for(AWAY_S_MAX)
    world.metadata.apply(NodeStarted("n2", DISK_ID, 300))
    world.loop.run_for(3 * TICK_S)
    assert world.metadata.submitted == [NodeLost("n2", 0), NodeLost("n2", 300)]


def test_a_node_says_nothing_about_a_node_of_its_name_that_has_another_number() -> None:
    """Its own record was removed, and somebody else has joined under the name since."""
    world = ClusterWorld(number=5)
    world.metadata.catalog.apply(AddNode(NodeRecord("n5", 0, DISK_ID, "n5:1")))
    world.ways.address = "elsewhere:1"
    world.upkeep.start()
    world.loop.run_for(2 * GO_AROUND_S)
    assert world.metadata.catalog.nodes["n5"].address == "n5:1"
    assert not [command for command in world.metadata.submitted if isinstance(command, PutNode)]

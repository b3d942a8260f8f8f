"""Groups whose consumers are connected to several nodes: one of them reads, whichever node leads, and whatever gets lost."""

from __future__ import annotations

from random import Random

import pytest

from broker.errors import PreconditionFailed
from broker.stream_clients.consumer_groups import AGAIN_MS, NO_PARTITION
from broker.stream_clients.group_coordinator import ASKED_AGAIN_MS, KEPT_GONE_MS
from tests.unit.broker.stream_clients.group_nodes import KEY, GroupWorld, Member


def come(world: GroupWorld, members: list[Member], node: str, partition_index: int = NO_PARTITION) -> Member:
    """Later than all before."""
    world.now += 1
    member = Member(world.nodes[node], partition_index)
    members.append(member)
    member.start()
    return member


def reading(members: list[Member]) -> list[int]:
    return [place for place, one in enumerate(members) if one.reads]


@pytest.fixture
def world() -> GroupWorld:
    """Node a leads."""
    return GroupWorld()


@pytest.fixture
def members() -> list[Member]:
    return []


def test_of_consumers_on_several_nodes_the_first_reads_and_then_the_next(
    world: GroupWorld, members: list[Member]
) -> None:
    for node in ("b", "c", "a"):
        come(world, members, node)
    world.settle(members)
    assert reading(members) == [0]
    for _ in range(2):
        members.pop(0).leave()
        world.settle(members)
        assert reading(members) == [0]


def test_a_consumer_of_a_later_partition_goes_over_to_the_node_of_another(
    world: GroupWorld, members: list[Member]
) -> None:
    come(world, members, "b", partition_index=1)
    world.settle(members)
    assert reading(members) == [0]
    come(world, members, "c", partition_index=1)
    world.settle(members)
    assert reading(members) == [1]


def test_the_old_one_has_stopped_before_the_new_one_begins(world: GroupWorld, members: list[Member]) -> None:
    old = come(world, members, "b", partition_index=1)
    world.settle(members)
    new = come(world, members, "c", partition_index=1)
    world.settle([])
    assert (list(old.asked), list(new.asked)) == ([False], [])
    old.answer()
    world.settle([])
    assert list(new.asked) == [True]


def test_another_leader_asks_all_nodes_before_it_decides(world: GroupWorld, members: list[Member]) -> None:
    come(world, members, "b")
    come(world, members, "c")
    world.settle(members)
    world.lead("c")
    world.pass_ms(1_000)
    assert not members[1].asked  # though it is on the leader's node
    world.settle(members)
    assert reading(members) == [0]
    members.pop(0).leave()
    world.settle(members)
    assert reading(members) == [0]


def test_what_was_answered_by_an_earlier_leader_counts_no_more(world: GroupWorld, members: list[Member]) -> None:
    come(world, members, "b")
    world.deliver(("b", "a"))  # the announcement; its answer is under way
    come(world, members, "c")
    world.lead("c")
    world.settle(members)
    assert reading(members) == [0]


def test_an_earlier_leader_that_never_answers_holds_up_no_group(world: GroupWorld, members: list[Member]) -> None:
    """Nothing else was announced for as long as the link to it held."""
    world.cut("a", "c")  # so the new leader does not ask it
    come(world, members, "b")
    unheard = ("b", "a")
    assert world.ways[unheard]
    world.lead("c")
    world.pass_ms(2_000)
    while ways := [way for way in world.busy_ways() if way != unheard]:
        for way in ways:
            world.deliver(way)
    assert list(members[0].asked) == [True]


def arrive(world: GroupWorld) -> None:
    """All that is under way, at once."""
    while ways := world.busy_ways():
        for way in ways:
            world.deliver(way)


def lead_for_a_moment(world: GroupWorld, node: str, *announcers: str) -> None:
    """These nodes hear of it, and the leader before has no check meanwhile."""
    world.lead(node)
    for name in announcers:
        world.nodes[name].groups.check()
    arrive(world)


def test_who_leads_again_within_a_check_believes_nothing_of_the_time_before(
    world: GroupWorld, members: list[Member]
) -> None:
    """Who had left meanwhile had told another leader, and its node had nothing more to say: it was waited for, for ever."""
    gone = come(world, members, "b")
    world.settle(members)
    lead_for_a_moment(world, "c", "b")
    members.remove(gone)
    gone.leave()
    arrive(world)
    world.lead("a")
    come(world, members, "c")
    world.settle(members, seconds=3)
    assert reading(members) == [0]


def test_whom_another_leader_has_made_the_active_one_is_not_joined_by_a_second(
    world: GroupWorld, members: list[Member]
) -> None:
    """The leader of old that leads again knew it as one that waits."""
    first = come(world, members, "c", partition_index=1)
    world.settle(members)
    second = come(world, members, "b", partition_index=1)
    world.settle(members)
    assert (first.reads, second.reads) == (False, True)
    lead_for_a_moment(world, "c", "b", "c")
    members.remove(second)
    second.leave()
    arrive(world)
    first.answer()
    arrive(world)
    assert first.reads
    world.lead("a")
    third = come(world, members, "b", partition_index=1)
    arrive(world)
    assert not third.asked, "before the first has stopped"
    world.settle(members)
    assert reading(members) == [1]


def test_a_leader_that_was_another_one_for_a_moment_learns_again_what_it_forgot(
    world: GroupWorld, members: list[Member]
) -> None:
    come(world, members, "b")
    come(world, members, "c")
    world.settle(members)
    members.pop(0).leave()
    world.deliver(("b", "a"))
    world.ways.clear()  # so node c is not told to look
    world.nodes["a"].leader = "c"
    world.now += 1_000
    world.nodes["a"].groups.tick(world.now)
    world.lead("a")
    world.settle(members, seconds=12)
    assert reading(members) == [0]


def test_without_a_leader_nothing_changes_until_there_is_one(world: GroupWorld, members: list[Member]) -> None:
    world.lead("")
    come(world, members, "b")
    world.settle(members)
    assert reading(members) == []
    world.lead("b")
    world.settle(members)
    assert reading(members) == [0]


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000], ids=["back", "forward"])
def test_a_clock_that_jumps_holds_up_no_group(world: GroupWorld, members: list[Member], jump_ms: int) -> None:
    world.now += 3_600_000
    world.settle(members)
    world.cut("a", "b")
    come(world, members, "b")  # its node can tell the leader only later
    world.now += jump_ms
    world.heal()
    world.settle(members)
    assert reading(members) == [0]
    world.cut("a", "b")
    come(world, members, "c")
    world.now += jump_ms
    world.settle(members)
    assert reading(members) == [0], "a node that is out of reach keeps its place"


def test_the_place_of_a_node_that_is_out_of_reach_is_kept_for_a_time(world: GroupWorld, members: list[Member]) -> None:
    lost = come(world, members, "b")
    come(world, members, "c")
    world.settle(members)
    world.cut("a", "b")
    world.pass_ms(KEPT_GONE_MS // 2)
    world.settle(members)
    assert reading(members) == [0]
    world.pass_ms(KEPT_GONE_MS)
    lost.reads = False  # its node is gone for good
    world.settle(members)
    assert reading(members) == [1]


def test_a_node_that_is_back_in_time_keeps_its_place(world: GroupWorld, members: list[Member]) -> None:
    come(world, members, "b")
    come(world, members, "c")
    world.settle(members)
    world.cut("a", "b")
    world.pass_ms(KEPT_GONE_MS // 2)
    world.heal()
    come(world, members, "b")
    world.settle(members)
    world.pass_ms(KEPT_GONE_MS)
    world.settle(members)
    assert reading(members) == [0]


def test_who_left_while_its_node_was_out_of_reach_is_not_waited_for(world: GroupWorld, members: list[Member]) -> None:
    """Another leader had been told so, and the one that got it back kept the place of the node for a minute."""
    gone = come(world, members, "b")
    come(world, members, "c")
    world.settle(members)
    world.cut("a", "b")
    world.nodes["b"].leader = world.nodes["c"].leader = "c"
    members.remove(gone)
    gone.leave()
    world.settle(members, seconds=AGAIN_MS // 1_000 + 2)  # node b forgets the group
    world.heal()
    world.lead("a")
    world.settle(members, seconds=2)
    assert reading(members) == [0]


def test_a_node_that_was_out_of_reach_as_another_began_to_lead_is_asked_when_it_is_back(
    world: GroupWorld, members: list[Member]
) -> None:
    """It had nothing new to say to it for ten seconds, in which two read."""
    come(world, members, "b")
    world.settle(members)
    world.cut("a", "b")
    lead_for_a_moment(world, "c")
    world.lead("a")
    come(world, members, "c")
    world.settle(members, seconds=1)
    assert reading(members) == [0, 1]
    world.heal()
    world.settle(members, seconds=1)
    assert reading(members) == [0]


def test_who_told_a_leader_of_old_that_it_has_left_is_not_waited_for(world: GroupWorld, members: list[Member]) -> None:
    """Its node, which had nothing more of the group, told nobody else: there was no reader for as long as the leader led."""
    gone = come(world, members, "c")
    come(world, members, "b")
    world.settle(members)
    world.nodes["b"].leader = world.nodes["c"].leader = "b"
    members.remove(gone)
    gone.leave()
    arrive(world)
    world.nodes["b"].leader = world.nodes["c"].leader = "a"
    world.settle(members)
    assert reading(members) == [0]


def test_a_node_that_has_lost_its_part_unheard_is_asked_for_it(world: GroupWorld, members: list[Member]) -> None:
    """The stream was deleted and declared again before the leader looked."""
    gone = come(world, members, "c")
    come(world, members, "b")
    world.settle(members)
    world.nodes["c"].leader = None
    members.remove(gone)
    gone.leave()
    world.nodes["c"].groups.check()
    world.nodes["c"].leader = "a"
    world.settle(members, seconds=ASKED_AGAIN_MS // 1_000 + 1)
    assert reading(members) == [0]


def test_what_a_leader_was_answered_counts_when_it_has_begun_anew_meanwhile(
    world: GroupWorld, members: list[Member]
) -> None:
    """What its node had announced before came too, and was believed instead."""
    gone = come(world, members, "c")
    world.settle(members)
    members.remove(gone)
    gone.leave()  # its announcement is under way
    come(world, members, "c")
    lead_anew(world)
    world.deliver(("a", "c"))  # the question
    world.nodes["a"].leader = "b"
    world.nodes["a"].leader = "a"
    world.deliver(("c", "a"))
    world.deliver(("c", "a"))
    world.settle(members)
    assert reading(members) == [0]


def lead_anew(world: GroupWorld) -> None:
    """Node a, and it asks all others."""
    world.nodes["a"].leader = "b"
    world.nodes["a"].leader = "a"
    world.nodes["a"].groups.check()


def test_groups_are_forgotten_when_their_consumers_have_gone(world: GroupWorld, members: list[Member]) -> None:
    for node in ("a", "b"):
        come(world, members, node)
    world.settle(members)
    for one in members:
        one.leave()
    world.settle([], seconds=AGAIN_MS // 1_000 + 1)
    assert not any(node.groups._groups or node.groups._coordinator._groups for node in world.nodes.values())


def test_groups_of_a_stream_that_is_gone_are_forgotten(world: GroupWorld, members: list[Member]) -> None:
    member = come(world, members, "b")
    world.settle(members)
    for node in world.nodes.values():
        node.leader = None
    member.leave()
    world.settle([])
    assert not any(node.groups._groups or node.groups._coordinator._groups for node in world.nodes.values())


def test_a_group_of_one_node_is_of_one_partition(world: GroupWorld) -> None:
    groups = world.nodes["a"].groups
    groups.join(KEY, 1, lambda active: None)
    with pytest.raises(PreconditionFailed):
        groups.join(KEY, 2, lambda active: None)


@pytest.mark.parametrize("faults", [False, True], ids=["calm", "faults"])
@pytest.mark.parametrize("partition_index", [NO_PARTITION, 0, 1, 5])
@pytest.mark.parametrize("seed", range(25))
def test_however_consumers_come_answer_and_go_the_right_one_reads_in_the_end(
    seed: int, partition_index: int, faults: bool
) -> None:
    """While one node leads, and it is not given up for gone, there is never a second one. A leader that was another one for a
    moment may learn of a part only as it is announced again."""
    random, world, members = Random(seed), GroupWorld(), list[Member]()
    names = sorted(world.nodes)
    for _ in range(400):
        match random.randrange(12):
            case 0 | 1 if len(members) < 6:
                come(world, members, random.choice(names), partition_index)
            case 2 if members:
                members.pop(random.randrange(len(members))).leave()
            case 3:
                world.pass_ms(random.choice((10, 500, 1_000)))
            case 4 if faults:
                world.cut(*random.sample(names, 2))
            case 5 if faults:
                world.heal()
            case 6 if faults:
                world.nodes[random.choice(names)].leader = random.choice(names)
            case 7 | 8 if any(one.asked for one in members):
                random.choice([one for one in members if one.asked]).answer()
            case _ if world.busy_ways():
                world.deliver(random.choice(world.busy_ways()))
        assert faults or sum(one.reads or True in one.asked for one in members) <= 1
    world.heal()
    world.lead(random.choice(names))
    world.settle(members, seconds=AGAIN_MS // 1_000 + 1 if faults else 5)
    wanted = max(partition_index, 0) % len(members) if members else 0
    assert reading(members) == ([wanted] if members else [])

"""node/membership/cluster.py: what operators ask, and what they read. Real links: tests/e2e/test_cluster.py."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import Command, DeclareQueue, PutNode, PutVhost, RemoveNode
from broker.errors import NotFound, PreconditionFailed, ResourceExhausted
from broker.operations.node_facts import AlarmFacts
from broker.pending import Pending
from broker.records import NodeRecord, VhostRecord
from front.node_ports import DecommissionProgress, ForgetPlan, ForgottenQueue, LostQueue, PlannedMove
from node.catalog.cluster_metadata import MetadataStatus
from node.identity import Departure
from node.membership import decommissioning
from node.membership.cluster import Cluster, problems_of
from node.membership.upkeep import GO_AROUND_S, TICK_S
from node.peers import peer_pb2
from node.peers.side import PeerSettings, PeerSide
from raft.core.messages import member_id
from tests.unit.node.cluster_world import DISK_ID, ClusterWorld, FakeDriver, follower


class World(ClusterWorld):
    """And what operators ask."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = ""
        fakes: Any = self.metadata, self.news, self.process
        metadata, news, process = fakes
        self.peers = PeerSide(PeerSettings("127.0.0.1:0"), lambda: 0.0, os.urandom, logger=None)  # type: ignore[arg-type]
        self.cluster = Cluster(
            self.identity, self.peers, metadata, self.upkeep, self.joining, news, process, self.clock,
            cluster_name="shop", holds_anything=lambda: self.holds,
        )  # fmt: skip


def test_a_node_is_forgotten_only_while_it_is_down() -> None:
    world = World()
    world.groups.trusted = {2}
    with pytest.raises(PreconditionFailed, match="node 'n2' is up"):
        asyncio.run(world.cluster.forget("n2"))
    with pytest.raises(NotFound, match="no node 'n9' belongs to this cluster: there are n1, n2"):
        asyncio.run(world.cluster.forget("n9"))
    with pytest.raises(PreconditionFailed, match="node 'n1' is up"):
        asyncio.run(world.cluster.forget("n1"))


def test_the_last_node_does_not_leave_and_a_disk_node_stays_one_while_it_is_the_last() -> None:
    world = World()
    asyncio.run(world.cluster.forget("n2"))
    world.metadata.voters = ("n1",)
    with pytest.raises(PreconditionFailed, match="alone in its cluster"):
        asyncio.run(world.cluster.leave())
    with pytest.raises(PreconditionFailed, match="last disk node"):
        asyncio.run(world.cluster.change_kind("ram"))
    with pytest.raises(PreconditionFailed, match="is a disk node already"):
        asyncio.run(world.cluster.change_kind("disk"))
    assert world.process.said == []


def test_a_node_that_is_told_to_leave_for_good_looks_when_it_leaves_whether_it_is_needed() -> None:
    """Others may have left since its plan was made."""
    world = World()
    asyncio.run(world.cluster.forget("n2"))
    world.metadata.submitted.clear()
    with pytest.raises(PreconditionFailed, match="alone in its cluster"):
        asyncio.run(world.cluster._depart(lambda _: None, lambda: None))
    assert (world.metadata.submitted, world.process.said) == ([], [])


def test_leaving_ends_the_process_without_a_fault() -> None:
    world = World()
    world.groups.trusted = {2}
    asyncio.run(world.cluster.leave())
    assert list(world.metadata.catalog.nodes) == ["n2"]
    assert world.process.said == ["end: node 'n1' has left its cluster. Its data directory is of no use any more"]


def test_a_node_of_a_cluster_or_without_a_secret_joins_no_other() -> None:
    world = World()
    with pytest.raises(PreconditionFailed, match="belongs to a cluster with n2"):
        asyncio.run(world.cluster.join_cluster("x:1"))
    asyncio.run(world.cluster.forget("n2"))
    with pytest.raises(PreconditionFailed, match=r"has no cluster\.secret"):
        asyncio.run(world.cluster.join_cluster("x:1"))


def test_who_has_left_need_not_hear_of_it_once_the_others_have_ended_their_links() -> None:
    world = World()
    world.groups.trusted = {2}
    world.groups.lead(member_id(1, 7), member_id(2, 7)).leads = False
    world.upkeep.follow()
    world.metadata.subscribe(
        lambda command, _: world.groups.trusted.clear() if isinstance(command, RemoveNode) else None
    )
    asyncio.run(world.cluster.leave())
    assert world.process.said == ["end: node 'n1' has left its cluster. Its data directory is of no use any more"]


@pytest.mark.parametrize("then", ["leave", "become a RAM node"])
def test_a_node_that_leaves_is_asked_for_nothing_else(then: str) -> None:
    """The second leaving failed, for the node had been removed, and the node then took the first for a removal by others: it
    ended as if its disk had failed."""
    world = World()
    world.groups.trusted = {2}
    world.metadata.answers = []

    async def leave_twice() -> None:
        leaving = asyncio.create_task(world.cluster.leave())
        await asyncio.sleep(0)
        with pytest.raises(PreconditionFailed, match="node 'n1' leaves its cluster already: wait until that is done"):
            async with asyncio.timeout(5.0):  # it would wait for ever
                await (world.cluster.leave() if then == "leave" else world.cluster.change_kind("ram"))
        answers, world.metadata.answers = world.metadata.answers, None
        assert answers is not None
        for answer in answers:
            answer()
        await leaving

    asyncio.run(leave_twice())
    assert world.process.said == ["end: node 'n1' has left its cluster. Its data directory is of no use any more"]


@pytest.mark.parametrize("say", ["drain", "revive"])
def test_a_node_that_becomes_another_kind_is_not_drained_or_revived_meanwhile(say: str) -> None:
    """What that says of the node was made before its kind was changed, and would undo the change."""
    world = World()
    world.upkeep.parting = "becomes a ram node"
    with pytest.raises(PreconditionFailed, match="node 'n1' becomes a ram node already: wait until that is done"):
        asyncio.run(getattr(world.cluster, say)())
    assert world.metadata.submitted == [] and not world.upkeep.drained


def test_a_node_that_is_drained_stays_so_though_it_is_told_again_and_that_is_refused() -> None:
    world = World()
    world.upkeep.drain()
    world.metadata.missing = ("n2",)
    with pytest.raises(ResourceExhausted, match="no majority"):
        asyncio.run(world.cluster.drain())
    assert world.upkeep.drained


class Stranger:
    """Another node, which says that it is of this cluster."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    async def greet(self, address: str, greeting: Any, timeout_s: float) -> Any:
        return peer_pb2.Greeted(cluster_id=self.cluster_id)


def test_a_node_joins_another_cluster_and_takes_nothing_along() -> None:
    world = World()
    asyncio.run(world.cluster.forget("n2"))
    stranger: Any = Stranger("theirs")
    world.peers.stranger = stranger
    world.holds = "3 queues"
    with pytest.raises(PreconditionFailed, match="holds 3 queues, which would be lost"):
        asyncio.run(world.cluster.join_cluster("x:1"))
    world.holds = ""
    for cluster_id in ("", world.identity.cluster_id):
        stranger.cluster_id = cluster_id
        with pytest.raises(PreconditionFailed, match="belongs to no other cluster"):
            asyncio.run(world.cluster.join_cluster("x:1"))
    assert world.process.said == []
    stranger.cluster_id = "theirs"
    asyncio.run(world.cluster.join_cluster("x:1"))
    assert [said.partition(" ")[2] for said in world.process.said] == ["to join cluster theirs by the node at x:1"]


def test_the_status_names_what_an_operator_should_look_at_the_worst_first() -> None:
    world = World()
    world.metadata.missing = ("n2",)
    world.metadata.catalog.apply(PutNode(NodeRecord("n1", 1, DISK_ID, "n1:1", draining=True)))
    view = world.cluster.status()
    assert (view.cluster_name, view.seen_by, view.metadata_leader) == ("shop", "n1", "n1")
    assert [(node.name, node.up) for node in view.nodes] == [("n1", True), ("n2", False)]
    assert view.problems == [
        "nothing can be declared or changed: of the disk nodes n1, n2 these are down: n2",
        "node n1 is drained: revive it when the maintenance is over",
        "node n2 is down: classic queues that live there cannot be reached",
    ]


def test_alarms_and_versions_that_differ_are_told() -> None:
    nodes = list(World().cluster.status().nodes)
    first = replace(nodes[0], version="0.1.0", alarms=[AlarmFacts("memory", "above 1 GiB", 0)])
    second = replace(nodes[1], version="0.2.0", up=True)
    status = MetadataStatus(None, "", 0, 0, 0, 0, ("n1", "n2"), (), 0)
    assert problems_of([first, second], status) == [
        "nobody leads the metadata group at the moment: changes wait for an election",
        "node n1 has an alarm, publishers wait: above 1 GiB",
        "nodes run different versions: 0.1.0, 0.2.0",
    ]


def test_what_a_disk_has_lost_and_who_still_learns_is_told() -> None:
    nodes = list(World().cluster.status().nodes)
    first = replace(nodes[0], notices=["found its log damaged when it started"])
    second = replace(nodes[1], up=True)
    status = MetadataStatus(None, "n1", 4, 0, 0, 0, ("n1",), (), 0)
    assert problems_of([first, second], status, ["1 quorum queues have no majority"]) == [
        "node n1 found its log damaged when it started",
        "node n2 does not vote on what is declared yet: it still learns that from the others",
        "1 quorum queues have no majority",
    ]


class FakeQueueMembers:
    def __init__(self, lost: str) -> None:
        self.lost = lost
        self.evacuated: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.planned: list[PlannedMove] = []

    def plan_evacuation(self, node: str) -> list[PlannedMove]:
        return self.planned

    async def evacuate(self, node: str, on_moved: Callable[[int, int], None] = lambda done, total: None) -> None:
        self.evacuated.append(node)
        on_moved(1, 1)
        self.meanwhile()

    def problems(self) -> list[str]:
        return []

    def lost_without(self, node: int) -> str:
        return self.lost


def test_a_node_is_critical_when_something_has_no_majority_without_it() -> None:
    world = World()
    world.groups.lead(member_id(1, 7), member_id(2, 7), member_id(3, 7))
    world.groups.trusted = {2, 3}
    assert world.cluster.critical("") == ("n1", [])
    world.groups.trusted = {2}
    assert world.cluster.critical("n1")[1] == ["the disk nodes have no majority: nothing can be declared or changed"]
    world.groups.trusted = {2, 3}
    world.cluster.queue_members = FakeQueueMembers("1 quorum queues have no majority")
    assert world.cluster.critical("n2") == ("n2", ["1 quorum queues have no majority"])
    with pytest.raises(NotFound, match="there are n1, n2"):
        world.cluster.critical("n9")


def test_a_node_that_leaves_takes_nothing_new_and_hands_its_members_over_before_it_is_removed() -> None:
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    asyncio.run(world.cluster.leave())
    assert members.evacuated == ["n1"]
    assert [type(command) for command in world.metadata.submitted] == [PutNode, RemoveNode]
    assert isinstance(marked := world.metadata.submitted[0], PutNode) and marked.record.draining
    assert world.process.said[0].startswith("end: node 'n1' has left its cluster")


def test_who_looks_on_sees_a_node_leave_and_cannot_keep_it_once_it_is_being_removed() -> None:
    """It would be told that it stays, and be removed."""
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    seen: list[tuple[str, int, int]] = []

    def look() -> None:
        now = world.cluster.decommission_progress()
        seen.append((now.phase, now.moved, now.total))

    members.meanwhile = look
    submit = world.metadata.submit

    def submitting(command: Command) -> Pending[Any]:
        look()
        if isinstance(command, RemoveNode):
            with pytest.raises(PreconditionFailed, match="'n1' is being removed from its cluster already"):
                world.cluster.stay()
        return submit(command)

    world.metadata.submit = submitting  # type: ignore[method-assign]
    asyncio.run(world.cluster.leave())
    look()
    assert seen == [("draining", 0, 0), ("moving", 1, 1), ("leaving", 1, 1), ("left", 1, 1)]


def test_what_a_node_was_told_before_it_started_goes_on_until_it_stops() -> None:
    async def story() -> None:
        world = World()
        world.identity.intend(Departure(False))
        world.cluster.go_on()
        assert world.cluster.sentences() == ("is to leave the cluster, waiting: the node has just started",)
        (leaving,) = asyncio.all_tasks() - {asyncio.current_task()}
        world.cluster.stop()
        await asyncio.gather(leaving, return_exceptions=True)
        assert leaving.cancelled()
        assert world.metadata.submitted == []

    asyncio.run(story())


LATE = LostQueue("/", "late", 3, 30)


@pytest.mark.parametrize("accepted", [False, True])
def test_a_node_is_not_removed_where_something_has_come_since_that_would_be_lost(accepted: bool) -> None:
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    declared: list[LostQueue] = []
    world.cluster.lost_queues = lambda: declared
    members.meanwhile = lambda: declared.append(LATE)
    if accepted:
        asyncio.run(world.cluster.leave(lose_queues=True))
        assert world.process.said[0].startswith("end: node 'n1' has left its cluster")
        return
    with pytest.raises(PreconditionFailed, match="1 classic queues with 3 messages"):
        asyncio.run(world.cluster.leave())
    assert [type(command) for command in world.metadata.submitted] == [PutNode]
    assert (members.evacuated, world.upkeep.parting, world.process.said) == (["n1"], "", [])


def test_a_node_leaves_with_its_classic_queues_only_when_their_loss_is_accepted() -> None:
    """It left with them, and nobody was asked."""
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    world.cluster.lost_queues = lambda: [LostQueue("/", f"q{number}", number, 10) for number in range(7)]
    with pytest.raises(PreconditionFailed) as refused:
        asyncio.run(world.cluster.leave())
    assert refused.value.text == (
        "7 classic queues with 21 messages live on node 'n1' and would be lost, 'q6' in vhost '/' with 6, 'q5' in vhost '/' "
        "with 5, 'q4' in vhost '/' with 4, 'q3' in vhost '/' with 3, 'q2' in vhost '/' with 2 and 2 more: convert or delete "
        "them first, or accept their loss (lose_queues)"
    )
    assert (members.evacuated, world.metadata.submitted, world.process.said) == ([], [], [])
    asyncio.run(world.cluster.leave(lose_queues=True))
    assert "n1" not in world.metadata.catalog.nodes


@pytest.mark.parametrize("lose_queues", [False, True])
def test_a_node_with_the_only_member_of_a_queue_is_not_drained_in_vain(lose_queues: bool) -> None:
    """It was drained, and had handed over what it led, before that was noticed."""
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    members.planned = [replace(MOVE, to="", copies=0)]
    with pytest.raises(
        PreconditionFailed, match="1 replicated queues have their only member on node 'n1', such as 'q'"
    ):
        asyncio.run(world.cluster.leave(lose_queues=lose_queues))
    assert (members.evacuated, world.metadata.submitted, world.process.said) == ([], [], [])


MOVE = PlannedMove("/", "q", "quorum", "n2", copies=1, copies_before=1, copies_wanted=1, leads=True, bytes=10)


def decommissioned(world: World, *, lose_queues: bool = False) -> DecommissionProgress:
    """How it ended."""

    async def work() -> DecommissionProgress:
        world.cluster.decommission(lose_queues=lose_queues)
        world.cluster.decommission(lose_queues=lose_queues)  # begun twice, it is one
        assert (begun := world.cluster.decommission_progress().phase) == "draining", begun
        (leaving,) = asyncio.all_tasks() - {asyncio.current_task()}
        await leaving
        return world.cluster.decommission_progress()

    return asyncio.run(work())


def test_a_decommissioned_node_is_drained_emptied_and_removed() -> None:
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    members.planned = [MOVE]
    plan = world.cluster.plan_decommission()
    assert (plan.moves, plan.lost, plan.obstacles) == ([MOVE], (), [])
    assert decommissioned(world).phase == "left"
    assert members.evacuated == ["n1"]
    assert [type(command) for command in world.metadata.submitted] == [PutNode, RemoveNode]


def test_a_node_with_classic_queues_is_decommissioned_only_when_their_loss_is_accepted() -> None:
    world = World()
    world.groups.trusted = {2}
    world.cluster.queue_members = FakeQueueMembers("")
    world.cluster.lost_queues = lambda: [LostQueue("/", "c", 7, 70), LostQueue("/", "d", 1, 1)]
    with pytest.raises(
        PreconditionFailed, match="2 classic queues with 8 messages live on node 'n1' and would be lost"
    ):
        world.cluster.decommission(lose_queues=False)
    assert world.metadata.submitted == []
    assert decommissioned(world, lose_queues=True).phase == "left"


@pytest.mark.parametrize("why", ["only member", "too few copies", "majority", "vote", "alone"])
def test_a_plan_says_what_keeps_a_node_from_leaving_and_nothing_is_begun(why: str) -> None:
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")
    match why:
        case "only member":
            members.planned = [replace(MOVE, to="", copies=0)]
            said = "1 replicated queues have their only member on node 'n1', such as 'q' in vhost '/'"
        case "too few copies":
            members.planned = [MOVE, replace(MOVE, queue="p", to="", copies=2, copies_wanted=3)]
            said = "1 replicated queues would have too few copies, such as 'p' in vhost '/' with 2 instead of 3"
        case "majority":
            world.metadata.missing = ("n2",)
            said = "the disk nodes have no majority: n2 missing"
        case "vote":
            world.groups.trusted = set()
            said = "without node 'n1' the disk nodes that can be reached would be no majority: n2"
        case _:
            world.groups.trusted.clear()
            asyncio.run(world.cluster.forget("n2", anyway=True))
            said = "node 'n1' is alone in its cluster"
    obstacle = world.cluster.plan_decommission().obstacles[0]
    assert obstacle.startswith(said)
    before = len(world.metadata.submitted)
    with pytest.raises(PreconditionFailed) as refused:
        world.cluster.decommission(lose_queues=True)
    assert (refused.value.text, len(world.metadata.submitted)) == (obstacle, before)
    assert world.cluster.decommission_progress().phase == "none"


def test_a_decommission_that_cannot_go_on_says_why_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decommissioning, "AGAIN_S", 0.0)
    world = World()
    world.groups.trusted = {2}
    members = world.cluster.queue_members = FakeQueueMembers("")

    def fail() -> None:
        members.meanwhile = lambda: None
        raise ResourceExhausted("queue 'q' has no leader")

    members.meanwhile = fail
    assert decommissioned(world).phase == "left"
    assert "node 'n1' stays in its cluster and tries again to leave it: queue 'q' has no leader" in caplog.text
    assert members.evacuated == ["n1", "n1"]


def test_without_a_majority_a_node_that_is_to_leave_hands_nothing_over() -> None:
    world = World()
    members = world.cluster.queue_members = FakeQueueMembers("")
    world.metadata.missing = ("n2",)
    with pytest.raises(ResourceExhausted, match="no majority"):
        asyncio.run(world.cluster.leave())
    assert members.evacuated == []


@pytest.mark.parametrize("what", ["leave", "become a RAM node"])
def test_a_node_without_which_the_others_are_no_majority_keeps_its_vote(what: str) -> None:
    """It left, its removal could not be committed without the one that was away, and nothing was declared any more."""
    world = World()
    world.join()
    world.metadata.voters = ("n1", "n2", "n3")
    members = world.cluster.queue_members = FakeQueueMembers("")
    world.groups.trusted = {2}
    world.metadata.submitted.clear()
    with pytest.raises(PreconditionFailed, match=r"without node 'n1' .* no majority: n3 cannot be reached"):
        asyncio.run(world.cluster.leave() if what == "leave" else world.cluster.change_kind("ram"))
    assert (world.metadata.submitted, members.evacuated, world.process.said) == ([], [], [])
    world.groups.trusted = {2, 3}
    asyncio.run(world.cluster.leave())
    assert "n1" not in world.metadata.catalog.nodes


def test_a_node_stays_when_another_one_goes_while_it_is_leaving() -> None:
    world = World()
    world.join()
    world.metadata.voters = ("n1", "n2", "n3")
    world.groups.trusted = {2, 3}
    members = world.cluster.queue_members = FakeQueueMembers("")
    members.meanwhile = world.groups.trusted.clear
    with pytest.raises(PreconditionFailed, match="n2, n3 cannot be reached"):
        asyncio.run(world.cluster.leave())
    assert "n1" in world.metadata.catalog.nodes
    assert world.process.said == []
    assert not world.upkeep.parting, "it is told again where this node is, and notices when it is removed"


def test_who_has_no_vote_may_leave_whoever_is_away() -> None:
    world = World()
    world.metadata.voters = ("n2", "n3")
    asyncio.run(world.cluster.leave())
    assert "n1" not in world.metadata.catalog.nodes


def test_a_node_without_which_queues_are_lost_is_forgotten_only_when_that_is_said() -> None:
    world = World()
    world.cluster.queue_members = FakeQueueMembers("3 quorum queues have no majority, such as queue 'q' in vhost '/'")
    with pytest.raises(PreconditionFailed, match="without node 'n2' 3 quorum queues have no majority"):
        asyncio.run(world.cluster.forget("n2"))
    assert "n2" in world.metadata.catalog.nodes
    world.metadata.missing = ("n2",)
    with pytest.raises(ResourceExhausted, match="no majority: n2 cannot be reached"):
        asyncio.run(world.cluster.forget("n2"))
    world.metadata.missing = ()
    asyncio.run(world.cluster.forget("n2", anyway=True))
    assert "n2" not in world.metadata.catalog.nodes


def test_a_plan_names_the_classic_queues_that_go_with_a_forgotten_node_and_forgets_nothing() -> None:
    world = World()
    apply = world.metadata.catalog.apply
    apply(PutVhost(VhostRecord("a")))
    apply(PutVhost(VhostRecord("b")))
    for vhost, name in (("b", "1"), ("a", "2"), ("a", "1")):
        apply(DeclareQueue(vhost, name, home="n2"))
    apply(DeclareQueue("a", "of n1", home="n1"))
    apply(DeclareQueue("a", "with its connection", home="n2", exclusive=True, owner="c"))
    apply(DeclareQueue("a", "replicated", kind="quorum", home="n2"))
    plan = world.cluster.plan_forget("n2", 2)
    assert plan == ForgetPlan("n2", 3, [ForgottenQueue("a", "1"), ForgottenQueue("a", "2")], [])
    world.cluster.queue_members = FakeQueueMembers("3 quorum queues have no majority")
    world.groups.trusted = {2}
    up, lost = world.cluster.plan_forget("n2", 2).obstacles
    assert (up[:15], lost[:51]) == ("node 'n2' is up", "without node 'n2' 3 quorum queues have no majority:")
    with pytest.raises(NotFound, match="no node 'n9' belongs"):
        world.cluster.plan_forget("n9", 2)
    assert world.metadata.submitted == []


def test_since_when_a_node_is_away_follows_the_wall_clock_and_is_counted_by_the_other_one() -> None:
    world = World()
    world.upkeep.follow()
    world.clock.advance(1.0)
    world.clock.jump_wall_ms(3_600_000)
    assert world.cluster.since_ms(2) == world.clock.wall_ms() - 1_000
    assert (world.cluster.since_ms(1), world.cluster.since_ms(9)) == (0, 0)


def test_a_drain_is_undone_when_whoever_asked_for_it_goes_away() -> None:
    world = World()
    world.metadata.answers = []

    async def ask_and_go_away() -> None:
        asking = asyncio.create_task(world.cluster.drain())
        await asyncio.sleep(0)
        assert world.upkeep.drained
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask_and_go_away())
    assert not world.upkeep.drained


def test_a_stopped_node_answers_no_strangers() -> None:
    world = World()
    answering: list[Any] = []
    world.peers.answer_strangers = answering.append  # type: ignore[method-assign]
    world.cluster.start()
    world.cluster.stop()
    assert answering == [world.cluster, None]


class Maintained:
    """The rest of a node, which is drained and revived."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def drain(self) -> None:
        self.did.append("drain")

    async def revive(self) -> None:
        self.did.append("revive")


def test_clients_are_sent_away_by_a_drain_and_let_in_again_by_a_revive() -> None:
    world = World()
    maintained = world.cluster.maintenance = Maintained()

    def is_drained() -> bool:
        return world.metadata.catalog.nodes["n1"].draining

    async def ask() -> None:
        draining = asyncio.create_task(world.cluster.drain())
        while not draining.done():
            await asyncio.sleep(0)
            world.loop.run_for(0.1)
        assert maintained.did == ["drain"] and is_drained()
        await world.cluster.revive()

    asyncio.run(ask())
    assert maintained.did == ["drain", "revive"] and not is_drained()


class SlowlyRevived(Maintained):
    """Clients are let in as soon as a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()

    async def revive(self) -> None:
        await self.open.wait()
        await super().revive()


def test_a_drain_whose_client_goes_away_while_others_are_let_in_is_undone_too() -> None:
    world = World()

    async def ask() -> None:
        maintained = world.cluster.maintenance = SlowlyRevived()
        reviving = asyncio.create_task(world.cluster.revive())
        draining = asyncio.create_task(world.cluster.drain())
        for _ in range(10):
            await asyncio.sleep(0)
            world.loop.run_for(0.1)
        assert world.upkeep.drained and maintained.did == []
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        assert not world.upkeep.drained
        maintained.open.set()
        await reviving
        assert maintained.did == ["revive"]

    asyncio.run(ask())


def test_a_drain_that_is_answered_after_a_revive_sends_no_client_away() -> None:
    world = World()
    maintained = world.cluster.maintenance = Maintained()
    world.metadata.answers = []

    async def ask() -> None:
        draining = asyncio.create_task(world.cluster.drain())
        await asyncio.sleep(0)
        reviving = asyncio.create_task(world.cluster.revive())
        while not draining.done():
            await asyncio.sleep(0)
            for answer in drained(world.metadata.answers):
                answer()
            world.loop.run_for(0.1)
        with pytest.raises(PreconditionFailed, match="node 'n1' was revived before it was drained"):
            await draining
        await reviving

    asyncio.run(ask())
    assert maintained.did == ["revive"] and not world.upkeep.drained


def drained(answers: list[Callable[[], None]] | None) -> list[Callable[[], None]]:
    """Those that are due, each once."""
    assert answers is not None, "answers are given at once"
    due, answers[:] = list(answers), []
    return due


def test_a_drain_that_is_refused_late_does_not_undo_a_later_one() -> None:
    """Found by the simulated brokers (seed 17957528810804): the node led again, and let no client in until it was restarted."""
    world = World()
    world.metadata.answers = []
    first = world.upkeep.drain()
    world.upkeep.revive()
    second = world.upkeep.drain()
    of_first, of_revive, of_second = drained(world.metadata.answers)
    of_second()
    world.metadata.missing = ("n2",)
    of_first()
    of_revive()
    assert isinstance(first.answer.error, ResourceExhausted)
    assert second.stands and world.upkeep.drained


def becoming_a_ram_node() -> tuple[World, FakeDriver]:
    """n2 leads the metadata group, and takes the vote away when a test does."""
    world = World()
    world.groups.trusted = {2}
    driver = world.groups.lead(member_id(1, 7), member_id(2, 7))
    driver.leads = False
    world.upkeep.follow()
    return world, driver


def test_a_node_that_becomes_a_ram_node_waits_until_the_others_know_that_it_has_no_vote() -> None:
    world, driver = becoming_a_ram_node()
    status = driver.status
    asked: list[Any] = []

    def status_is_asked() -> Any:
        """In the third round of the waiting the others have committed that it has no vote."""
        if world.metadata.catalog.nodes["n1"].kind == "ram":
            asked.append(status())
            assert world.process.said == [], "the others still count on its vote"
            if len(asked) == 3:
                driver.voters = (member_id(2, 7),)
        return status()

    driver.status = status_is_asked  # type: ignore[method-assign]
    asyncio.run(world.cluster.change_kind("ram"))
    assert len(asked) == 3
    assert world.process.said == ["restart: as a ram node"]


def test_a_node_that_changes_its_kind_begins_members_later_than_the_one_that_it_had_in_the_metadata_group() -> None:
    """The others know that one: a vote that it gave must not be taken for one of the new member."""
    world = World()
    world.groups.trusted = {2}
    world.upkeep.follow()
    me = member_id(1, world.identity.disk_id + 40)
    driver = world.groups.lead(member_id(2, 7))
    driver.me, driver.leads = me, False
    asyncio.run(world.cluster.change_kind("ram"))
    assert world.process.said == ["restart: as a ram node"]
    assert member_id(1, world.identity.disk_id) > me


async def rounds_until(world: World, asked: asyncio.Task[None]) -> None:
    """What a node does by itself goes on while it is asked for something."""
    while not asked.done():
        world.loop.run_for(TICK_S)
        await asyncio.sleep(0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting takes no time but that of the world."""
    sleep = asyncio.sleep
    monkeypatch.setattr("node.membership.cluster.asyncio.sleep", lambda _: sleep(0))


@pytest.mark.usefixtures("at_once")
def test_a_node_that_becomes_a_ram_node_does_not_announce_meanwhile_that_it_is_a_disk_node() -> None:
    """It did, in the round that came next, and was given its vote again: the change never ended, or the node began with empty
    memory as one whose vote counts, and two disk nodes had no majority any more."""
    world, driver = becoming_a_ram_node()
    world.upkeep.start()

    async def change() -> None:
        changing = asyncio.create_task(world.cluster.change_kind("ram"))
        await asyncio.sleep(0)
        world.loop.run_for(2 * GO_AROUND_S)
        assert world.metadata.catalog.nodes["n1"].kind == "ram"
        driver.voters = (member_id(2, 7),)
        await rounds_until(world, changing)
        world.loop.run_for(2 * GO_AROUND_S)  # until its process has ended
        await changing

    asyncio.run(change())
    assert world.process.said == ["restart: as a ram node"]
    assert [command.record.kind for command in world.metadata.submitted if isinstance(command, PutNode)] == ["ram"]


@pytest.mark.usefixtures("at_once")
def test_a_node_that_keeps_its_vote_says_again_that_it_is_a_disk_node() -> None:
    world, _ = becoming_a_ram_node()
    world.upkeep.start()

    async def change() -> None:
        changing = asyncio.create_task(world.cluster.change_kind("ram"))
        await rounds_until(world, changing)
        with pytest.raises(ResourceExhausted, match="do not agree that this node has no vote any more"):
            await changing

    asyncio.run(change())
    world.loop.run_for(GO_AROUND_S)
    assert (world.metadata.catalog.nodes["n1"].kind, world.identity.kind, world.process.said) == ("disk", "disk", [])


def test_a_node_that_becomes_a_ram_node_hands_over_what_it_leads_and_has_before_it_gives_up_its_vote() -> None:
    """Its members in memory are empty when it starts: what it led, and had of queues, must be with others by then."""
    world, driver = becoming_a_ram_node()
    driver.leads = True
    driver.followers = [follower(member_id(2, 7), match=9)]
    members = world.cluster.queue_members = FakeQueueMembers("")
    found: list[Any] = []

    def transfer(to: int, now: float) -> None:
        driver.transferred.append(to)
        driver.leads = False

    def evacuated() -> None:
        found.append((list(driver.transferred), world.metadata.catalog.nodes["n1"].kind))
        driver.voters = (member_id(2, 7),)

    driver.transfer = transfer  # type: ignore[method-assign]

    members.meanwhile = evacuated
    asyncio.run(world.cluster.change_kind("ram"))
    assert members.evacuated == ["n1"]
    assert found == [([member_id(2, 7)], "disk")]


def test_a_node_keeps_its_vote_when_another_one_goes_while_it_is_becoming_a_ram_node() -> None:
    world = World()
    world.join()
    world.metadata.voters = ("n1", "n2", "n3")
    world.groups.trusted = {2, 3}
    world.metadata.submitted.clear()
    members = world.cluster.queue_members = FakeQueueMembers("")
    members.meanwhile = world.groups.trusted.clear
    with pytest.raises(PreconditionFailed, match="n2, n3 cannot be reached"):
        asyncio.run(world.cluster.change_kind("ram"))
    assert (world.metadata.submitted, world.identity.kind, world.process.said) == ([], "disk", [])


@pytest.mark.parametrize("what", ["leave", "become a RAM node"])
def test_a_voter_that_the_catalog_does_not_know_any_more_counts_as_away(what: str) -> None:
    """Its removal was decided, and the group still has its member: it answers nobody, and without it there is no majority."""
    world = World()
    world.metadata.voters = ("n1", "n2", "n9")
    world.groups.trusted = {2}
    with pytest.raises(PreconditionFailed, match="n9 cannot be reached"):
        asyncio.run(world.cluster.leave() if what == "leave" else world.cluster.change_kind("ram"))


@pytest.mark.parametrize("what", ["leave", "become a RAM node"])
def test_a_node_goes_on_as_what_it_is_when_whoever_asked_it_for_something_else_goes_away(what: str) -> None:
    """It said nothing of itself any more, and its new address, say, reached nobody."""
    world, _ = becoming_a_ram_node()
    members = world.cluster.queue_members = FakeQueueMembers("")

    async def asked() -> None:
        begun = asyncio.Event()

        async def evacuate(node: str, *_: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        members.evacuate = evacuate  # type: ignore[method-assign]
        asking = asyncio.create_task(world.cluster.leave() if what == "leave" else world.cluster.change_kind("ram"))
        await asyncio.wait_for(begun.wait(), 5.0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(asked())
    assert (world.upkeep.parting, world.process.said) == ("", [])


@pytest.mark.usefixtures("at_once")
def test_a_node_that_reaches_nobody_does_not_take_that_for_the_loss_of_its_vote() -> None:
    """The network was cut: the others still count on its vote."""
    world, driver = becoming_a_ram_node()
    world.upkeep.start()

    async def change() -> None:
        changing = asyncio.create_task(world.cluster.change_kind("ram"))
        await asyncio.sleep(0)
        world.groups.trusted.clear()
        for _ in range(8):
            world.loop.run_for(TICK_S)
            await asyncio.sleep(0)
        assert world.process.said == [] and not changing.done()
        driver.voters = (member_id(2, 7),)
        await changing

    asyncio.run(change())
    assert world.process.said == ["restart: as a ram node"]


def test_a_ram_node_that_becomes_a_disk_node_says_so_when_it_starts_as_one_and_not_before() -> None:
    """What it has in memory as a member of the metadata group must not be given a vote: it goes with the process."""
    world = World()
    world.groups.trusted = {2}
    world.metadata.catalog.apply(PutNode(replace(world.upkeep.my_record(), kind="ram")))
    world.identity.change_kind("ram", above=0)
    world.upkeep.start()
    asyncio.run(world.cluster.change_kind("disk"))
    world.loop.run_for(2 * GO_AROUND_S)
    assert world.process.said == ["restart: as a disk node"]
    assert world.metadata.catalog.nodes["n1"].kind == "ram" and world.metadata.submitted == []

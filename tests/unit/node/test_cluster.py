"""node/membership/cluster.py: who is taken in, who is told to go, and what an operator reads. Real links:
tests/e2e/test_cluster.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog import Catalog
from broker.catalog_commands import AddNode, Command, NodeLost, NodeStarted, PutNode, RemoveNode, SetClusterId
from broker.disk_lives import FIRST_LIFE, LIFE_NUMBERS
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.records import NodeRecord
from front.grpc.facts import AlarmFacts
from node.catalog.cluster_metadata import MetadataStatus
from node.identity import DISK, KnownNode, NodeIdentity
from node.membership.cluster import AWAY_S_MAX, Cluster, problems_of
from node.peers import peer_pb2
from node.peers.neighbours import _Neighbour
from node.peers.side import PeerSettings, PeerSide
from raft.groups import NoSuchGroup
from raft.messages import Membership, member_id
from raft.ready import Role
from tests.sim.clock import SimClock
from tests.sim.disk import SimDisk

NOW = 1_700_000_000_000
DISK_ID = NOW // 1000


class FakeMetadata:
    """Applies at once, unless no majority is left."""

    def __init__(self) -> None:
        self.submitted: list[Command] = []
        self.catalog = Catalog()
        self.missing: tuple[str, ...] = ()
        self.voters: tuple[str, ...] = ("n1", "n2")

    def submit(self, command: Command) -> Pending[Any]:
        self.submitted.append(command)
        if self.missing:
            return Pending.failed(ResourceExhausted(f"no majority: {', '.join(self.missing)} cannot be reached"))
        try:
            return Pending.of(self.catalog.apply(command))
        except BrokerError as error:
            return Pending.failed(error)

    def subscribe(self, on_applied: Callable[[Command, Any], None]) -> None: ...

    def status(self) -> MetadataStatus:
        return MetadataStatus(Role.LEADER, "n1", 3, 9, 9, 9, self.voters, self.missing, 0)


class FakeGroups:
    """Trusts whom it is told to."""

    def __init__(self) -> None:
        self.trusted: set[int] = set()
        self.leads: bool | None = None  # the metadata group
        self.voters: tuple[int, ...] = ()

    def trusts(self, node: int) -> bool:
        return node in self.trusted

    def driver(self, group: int) -> Any:
        if self.leads is None:
            raise NoSuchGroup("none here")
        return self

    @property
    def core(self) -> Any:
        return self

    def status(self) -> Any:
        return SimpleNamespace(membership=Membership(self.voters))

    def drivers(self) -> list[Any]:
        return []


class FakeNews:
    def of(self, number: int) -> None:
        return None


class FakeProcess:
    def __init__(self) -> None:
        self.said: list[str] = []

    def stop(self, reason: str) -> None:
        self.said.append(f"stop: {reason}")

    def fail(self, reason: str) -> None:
        self.said.append(f"fail: {reason}")

    def end(self, reason: str) -> None:
        self.said.append(f"end: {reason}")

    def restart(self, reason: str, *, join: str = "") -> None:
        self.said.append(f"restart: {reason}")


class World:
    """Node 1 of cluster c1, and n2, which is a record only."""

    def __init__(self) -> None:
        self.metadata, self.groups, self.process = FakeMetadata(), FakeGroups(), FakeProcess()
        self.clock = SimClock(NOW)
        self.identity = NodeIdentity.begin(SimDisk(), "n1", DISK, NOW, os.urandom)
        self.identity.found("c1")
        for command in (
            SetClusterId("c1"),
            AddNode(NodeRecord("n1", 0, DISK_ID, "n1:1")),
            AddNode(NodeRecord("n2", 0, DISK_ID, "n2:1")),
        ):
            self.metadata.catalog.apply(command)
        fakes: Any = self.groups, self.metadata, FakeNews(), self.process, self.clock
        groups, metadata, news, process, clock = fakes
        self.peers = PeerSide(PeerSettings("127.0.0.1:0"), lambda: 0.0, os.urandom, logger=None)  # type: ignore[arg-type]
        self.cluster = Cluster(
            self.identity, self.peers, groups, metadata, news, process, clock,
            cluster_name="shop", zone="z", holds_anything=lambda: "",
        )  # fmt: skip

    def join(self, **changes: Any) -> peer_pb2.JoinResponse:
        request: dict[str, Any] = {
            "cluster_id": "c1", "name": "n3", "address": "n3:1", "kind": "disk", "zone": "z3", "version": "0.1.0",
            "joiner": "a process", "incarnation": NOW,
        }  # fmt: skip
        return asyncio.run(self.cluster.join(peer_pb2.JoinRequest(**(request | changes))))

    def greet(self, **changes: Any) -> peer_pb2.Greeted:
        return asyncio.run(self.cluster.greet(peer_pb2.Greeting(**changes)))


def test_a_new_node_gets_the_next_number_and_everybody_s_address() -> None:
    answer = World().join()
    assert (answer.number, answer.cluster_id, answer.refusal) == (3, "c1", "")
    assert {node.name: node.address for node in answer.nodes} == {"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}


def test_asking_again_after_a_lost_answer_gives_the_same_number_and_takes_the_new_address() -> None:
    world = World()
    first, again = world.join(), world.join(address="n3:2")
    assert (first.number, again.number) == (3, 3)
    assert world.metadata.catalog.nodes["n3"].address == "n3:2"
    assert (first.disk_id, again.disk_id) == (FIRST_LIFE, FIRST_LIFE)
    assert world.join(name="n4").number == 4


def test_a_later_process_on_an_empty_disk_has_another_life_whatever_its_clock_says() -> None:
    world = World()
    world.join()
    world.metadata.catalog.apply(NodeStarted("n3", FIRST_LIFE, NOW + 9))
    behind = world.join(joiner="the next process")
    assert (behind.number, behind.later, behind.incarnation) == (0, True, NOW + 9)
    again = world.join(joiner="the next process", incarnation=NOW + 10)
    assert (again.number, again.disk_id, again.incarnation) == (3, FIRST_LIFE + LIFE_NUMBERS, 0)


def test_a_name_is_refused_while_its_node_is_up_and_taken_over_when_it_is_down() -> None:
    world = World()
    world.groups.trusted = {2}
    refusal = world.join(name="n2")
    assert (refusal.number, refusal.later) == (0, False)
    assert refusal.refusal.startswith("the name 'n2' is in use by a node that is up, at n2:1")
    world.groups.trusted = set()
    assert world.join(name="n2").number == 2
    assert world.metadata.catalog.nodes["n2"].disk_id == FIRST_LIFE + LIFE_NUMBERS
    assert "in use" in world.join(name="n1").refusal


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster_id": "c2"}, "this is cluster c1, and it wants to join c2"),
        ({"version": "0.0.9"}, "needs 0.1.0 or later: update it"),
        ({"version": "a tale"}, "update it"),
        ({"joiner": ""}, "update it"),
        ({"kind": "tape"}, "there are disk and ram"),
        ({"name": ""}, "name"),
    ],
)
def test_who_does_not_fit_is_refused_with_the_reason(changes: dict[str, Any], said: str) -> None:
    answer = World().join(**changes)
    assert (answer.number, answer.later) == (0, False)
    assert said in answer.refusal


def test_without_a_majority_a_node_is_to_ask_again_and_told_who_is_missing() -> None:
    world = World()
    world.metadata.missing = ("n2",)
    answer = world.join()
    assert (answer.number, answer.later) == (0, True)
    assert "n2 cannot be reached" in answer.refusal


def test_a_node_that_was_removed_or_whose_disk_is_an_old_one_is_told_so() -> None:
    world = World()
    me = {"cluster_id": "c1", "disk_id": DISK_ID, "address": "x:1"}
    assert world.greet(number=2, **me).removed == ""
    assert [node.name for node in world.greet(number=2, **me).nodes] == ["n1", "n2"]
    asyncio.run(world.cluster.forget("n2"))
    assert world.greet(number=2, **me).removed == "node 2 was removed from cluster c1"
    assert world.greet(number=3, **me).removed == ""  # this node may not have heard of it yet
    world.join(name="n4")
    assert "an old one" in world.greet(number=3, **me).removed
    stranger = world.greet(cluster_id="c2", number=2)
    assert (stranger.cluster_id, stranger.removed, len(stranger.nodes)) == ("c1", "", 0)


def test_a_node_whose_disk_is_a_copy_made_before_its_last_life_is_told_so() -> None:
    """A copy that was restored knows nothing of the votes and confirms of the process that ran in between."""
    world = World()
    world.metadata.catalog.apply(NodeStarted("n2", DISK_ID, 300))

    def told(earlier: int, now: int) -> str:
        greeting = {"cluster_id": "c1", "number": 2, "disk_id": DISK_ID, "address": "n2:1", "incarnation": now}
        return world.greet(earlier_incarnation=earlier, **greeting).removed

    assert told(300, 400) == ""
    assert told(350, 400) == "", "a process that ended before the catalog heard of it"
    assert told(200, 300) == "", "the process itself, when it runs"
    assert told(0, 400) == "", "of a version that does not say"
    assert "an old copy" in told(200, 400)


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

    async def evacuate(self, node: str) -> None:
        self.evacuated.append(node)
        self.meanwhile()

    def problems(self) -> list[str]:
        return []

    def lost_without(self, node: int) -> str:
        return self.lost


def test_a_node_is_critical_when_something_has_no_majority_without_it() -> None:
    world = World()
    world.groups.leads = True
    world.groups.voters = (member_id(1, 7), member_id(2, 7), member_id(3, 7))
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
    asyncio.run(world.cluster.forget("n2", anyway=True))
    assert "n2" not in world.metadata.catalog.nodes


def test_a_node_that_follows_a_catalog_without_itself_stops_and_says_so() -> None:
    world = World()
    world.metadata.catalog.nodes.pop("n1")
    world.cluster._follow()
    assert world.process.said == [
        "stop: node 'n1' belongs to its cluster no more: it was removed from cluster c1. To join again, start it with an "
        "empty data directory"
    ]


def test_what_is_known_of_the_others_is_remembered_for_the_next_start() -> None:
    world = World()
    world.cluster._follow()
    assert world.identity.nodes == (KnownNode(2, "n2", "n2:1", DISK),)


def test_the_leader_tells_once_that_a_process_was_away_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    away = [KnownNode(2, "n2", "n2:1", DISK)]
    monkeypatch.setattr(world.cluster._neighbours, "lost", lambda for_s: away)
    world.groups.leads = False
    world.cluster._tell_of_lost_nodes()
    assert world.metadata.submitted == []
    world.groups.leads = True
    world.metadata.missing = ("n2",)
    world.cluster._tell_of_lost_nodes()
    world.metadata.missing = ()
    for _ in range(3):
        world.cluster._tell_of_lost_nodes()
    assert world.metadata.submitted == [NodeLost("n2", 0)] * 2  # the first was refused


def test_a_wall_clock_that_jumps_makes_nobody_away_too_long() -> None:
    world = World()
    world.groups.leads = True
    world.cluster._neighbours._neighbours[2] = _Neighbour(KnownNode(2, "n2", "n2:1", DISK), world.clock.monotonic())
    world.clock.advance(1.0)
    world.clock.jump_wall_ms(3_600_000)
    world.cluster._tell_of_lost_nodes()
    assert world.metadata.submitted == []
    assert world.cluster.since_ms(2) == world.clock.wall_ms() - 1_000
    world.clock.jump_wall_ms(-7_200_000)
    world.clock.advance(AWAY_S_MAX)
    world.cluster._tell_of_lost_nodes()
    assert world.metadata.submitted == [NodeLost("n2", 0)]

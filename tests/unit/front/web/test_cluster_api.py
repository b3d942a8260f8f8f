"""Paths about nodes and members of queues: what exactly the cluster is told to do, and how what it refuses is answered."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.errors import PreconditionFailed
from broker.operations.operator import Operator, TagMissing
from broker.records import QueueRecord
from front.node_ports import (
    ChangeView,
    Chosen,
    DecommissionPlan,
    DecommissionProgress,
    ForgetPlan,
    ForgottenQueue,
    QueueNodes,
)
from tests.unit.front.web.test_api import HOME, World, broker_with_users

N2 = f"/api/leveret/cluster/nodes/{HOME}/decommission"
REPLICAS = "/api/queues/quorum"


class Cluster:
    """This node and n2; notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.refuses = False

    def status(self) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(name=HOME, alarms=()), SimpleNamespace(name="n2", alarms=())])

    def plan_forget(self, name: str, limit: int) -> ForgetPlan:
        return ForgetPlan(name, 2_000, [ForgottenQueue("v", "c")] * limit, ())

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        self.told.append(("forget", name, anyway))

    async def drain(self) -> None:
        self.told.append("drain")

    async def revive(self) -> None:
        self.told.append("revive")

    def plan_decommission(self) -> DecommissionPlan:
        return DecommissionPlan(HOME, (), (), ("nobody else is there",))

    def decommission(self, *, lose_queues: bool) -> None:
        if self.refuses:
            raise PreconditionFailed("queues would be lost")
        self.told.append(("decommission", lose_queues))

    def stay(self) -> None:
        self.told.append("stay")

    def decommission_progress(self) -> DecommissionProgress:
        return DecommissionProgress(HOME, "moving", 1, 3)


class Members:
    """Notes what it is told; the queue `orders` is of kind quorum here, and some other queues have places."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.changes: list[ChangeView] = []
        self.where: dict[str, QueueNodes] = {}
        member = {
            "node": "n1", "state": "leader", "membership": "voter", "last": 10, "applied": 7, "commit": 8, "snapshot": 0,
            "term": 4, "machine_version": 1,
        }  # fmt: skip
        silent = member | {"node": "n3", "state": "", "last": 0, "applied": 0, "commit": 0, "term": 0}
        self.members = [SimpleNamespace(**member), SimpleNamespace(**silent)]

    def places(self, record: QueueRecord) -> QueueNodes | None:
        return self.where.get(record.name)

    async def group(self, vhost: str, queue: str) -> Any:
        return SimpleNamespace(term=5, members=self.members)

    async def add(self, vhost: str, queue: str, node: str) -> None:
        self.told.append(("add", vhost, queue, node))

    async def delete(self, vhost: str, queue: str, node: str, *, anyway: bool) -> None:
        self.told.append(("delete", vhost, queue, node, anyway))

    async def transfer(self, vhost: str, queue: str, node: str) -> None:
        self.told.append(("transfer", vhost, queue, node))

    async def grow(self, node: str, chosen: Chosen, *, even_only: bool) -> list[ChangeView]:
        self.told.append(("grow", node, chosen, even_only))
        return self.changes

    async def shrink(self, node: str, chosen: Chosen, *, anyway: bool) -> list[ChangeView]:
        self.told.append(("shrink", node, chosen, anyway))
        return self.changes


class Clustered(World):
    def __init__(self) -> None:
        self.cluster, self.members = Cluster(), Members()
        super().__init__(broker_with_users(), cluster=self.cluster, members=self.members)
        for node in (HOME, "n1", "n2"):
            self.broker.catalog.nodes[node] = SimpleNamespace(name=node, number=1)  # type: ignore[assignment]

    def declare(self, name: str, kind: str = "quorum") -> None:
        self.broker.catalog.apply(commands.DeclareQueue("v", name, kind=kind, home=HOME))


@pytest.fixture
def world() -> Clustered:
    return Clustered()


# Nodes.


def test_a_node_is_forgotten_with_its_queues_only_when_that_is_said(world: Clustered) -> None:
    for query in ("", "?anyway=false", "?anyway=true"):
        assert world.request("DELETE", f"/api/leveret/cluster/nodes/n2{query}").status == 204
    assert world.cluster.told == [("forget", "n2", False), ("forget", "n2", False), ("forget", "n2", True)]


@pytest.mark.parametrize(("query", "limit"), [("", 100), ("?limit=2", 2), ("?limit=5000", 1_000)])
def test_what_would_go_with_a_forgotten_node_is_told(world: Clustered, query: str, limit: int) -> None:
    answer = world.get(f"/api/leveret/cluster/nodes/n2/forget{query}")
    assert answer == {"node": "n2", "count": 2_000, "lost": [{"vhost": "v", "queue": "c"}] * limit, "obstacles": []}
    assert world.cluster.told == []


def test_a_node_leaves_only_when_its_name_is_typed_and_loses_queues_only_when_that_is_said(world: Clustered) -> None:
    assert world.refused("POST", N2, {"confirm": "n2"}).status == 400
    assert world.refused("POST", N2, {}).status == 400
    assert world.cluster.told == []
    for body in ({}, {"lose_queues": False}, {"lose_queues": True}):
        response = world.request("POST", N2, {"confirm": HOME, **body})
        assert (response.status, json.loads(response.body)["progress"]["moved"]) == (202, 1)
    assert world.cluster.told == [("decommission", lose) for lose in (False, False, True)]
    assert world.request("DELETE", N2).status == 200
    assert world.cluster.told[-1] == "stay"


def test_a_node_that_may_not_leave_says_why(world: Clustered) -> None:
    world.cluster.refuses = True
    error = world.refused("POST", N2, {"confirm": HOME})
    assert (error.status, error.reason) == (400, "queues would be lost")


def test_what_would_happen_if_a_node_left_is_for_who_monitors(world: Clustered) -> None:
    found = world.get(N2, "user-monitoring")
    assert found["plan"]["obstacles"] == ["nobody else is there"]
    assert (found["progress"]["phase"], found["progress"]["total"]) == ("moving", 3)


def test_a_node_that_is_none_of_the_cluster_is_404(world: Clustered) -> None:
    for method, body in (("POST", {"confirm": "n9"}), ("DELETE", None), ("GET", None)):
        assert world.refused(method, "/api/leveret/cluster/nodes/n9/decommission", body).status == 404
    for what in ("drain", "revive"):
        assert world.refused("POST", f"/api/leveret/cluster/{what}", {"node": "n9"}).status == 404


def test_the_node_that_is_asked_is_drained_and_revived(world: Clustered) -> None:
    assert world.request("POST", "/api/leveret/cluster/drain").status == 204
    assert world.request("POST", "/api/leveret/cluster/revive", {"node": HOME}).status == 204
    assert world.cluster.told == ["drain", "revive"]


def test_a_node_that_does_not_answer_is_not_said_to_have_begun(world: Clustered) -> None:
    for what in ("drain", "revive"):
        assert world.refused("POST", f"/api/leveret/cluster/{what}", {"node": "n2"}).status == 503
    assert world.refused("POST", "/api/leveret/cluster/nodes/n2/decommission", {"confirm": "n2"}).status == 503


@pytest.mark.parametrize(
    ("what", "arguments", "needed"),
    [
        ("drain", (), "administrator"),
        ("revive", (), "administrator"),
        ("decommission", (), "monitoring"),
        ("decommission.begin", (True,), "administrator"),
        ("decommission.cancel", (), "administrator"),
    ],
)
def test_a_node_that_is_told_by_another_looks_at_the_tags_itself(
    world: Clustered, what: str, arguments: tuple[bool, ...], needed: str
) -> None:
    """Over HTTP the first node has looked. A node of another version may not have."""
    source: Any = world.api.everywhere._sources[what]

    async def told(tag: str) -> bool:
        try:
            return bool(list(source(Operator("anne", (tag,)), *arguments)))
        except TagMissing:
            return False

    for tag in ("management", "policymaker", "monitoring"):
        assert asyncio.run(told(tag)) is (tag == needed)
        assert world.cluster.told == []
    assert asyncio.run(told("administrator"))


# Members of queues.


def test_a_member_is_added_where_there_is_none_and_never_removed_from_the_last_majority(world: Clustered) -> None:
    world.declare("raft")
    one = f"{REPLICAS}/v/raft/replicas"
    for node in ("n1", "n2"):
        assert world.request("POST", f"{one}/add", {"node": node}).status == 204
    assert world.request("DELETE", f"{one}/delete", {"node": "n2"}).status == 202
    assert world.members.told == [("add", "v", "raft", "n2"), ("delete", "v", "raft", "n2", False)]
    for method, what in (("POST", "add"), ("DELETE", "delete")):
        assert world.refused(method, f"{one}/{what}", {"node": "n9"}).status == 400
        assert world.refused(method, f"{REPLICAS}/v/orders/replicas/{what}", {"node": "n2"}).status == 503
        assert world.refused(method, f"{REPLICAS}/v/none/replicas/{what}", {"node": "n2"}).status == 503


def test_members_of_many_queues_grow_by_strategy_and_pattern_and_shrink_with_care(world: Clustered) -> None:
    grow, shrink = f"{REPLICAS}/replicas/on/n2/grow", f"{REPLICAS}/replicas/on/n2/shrink"
    patterns = {"vhost_pattern": "^v", "queue_pattern": "^q"}
    for strategy in ("all", "even"):
        assert world.request("POST", grow, {"strategy": strategy, **patterns}).status == 204
    assert world.request("DELETE", shrink).status == 202
    assert world.members.told == [
        ("grow", "n2", Chosen("^v", "^q"), False),
        ("grow", "n2", Chosen("^v", "^q"), True),
        ("shrink", "n2", Chosen(), False),
    ]
    for body in ({"strategy": "odd"}, {"strategy": "all", "queue_pattern": "("}, {}):
        assert world.refused("POST", grow, body).status == 400


@pytest.mark.parametrize(("method", "what"), [("POST", "grow"), ("DELETE", "shrink")])
def test_queues_that_were_not_changed_are_told(world: Clustered, method: str, what: str) -> None:
    world.members.changes = [ChangeView("v", "a", "added"), ChangeView("v", "b", "", "it has no majority")]
    error = world.refused(method, f"{REPLICAS}/replicas/on/n2/{what}", {"strategy": "all"})
    assert (error.status, error.reason) == (503, "1 queues were not changed; 'b' in vhost 'v': it has no majority")


def test_members_say_of_themselves_what_rabbitmqs_tools_read(world: Clustered) -> None:
    world.declare("raft")
    leader, silent = world.get(f"{REPLICAS}/v/raft/status")
    assert leader == {
        "Node Name": "n1", "Raft State": "leader", "Membership": "voter", "Last Log Index": 10, "Last Written": 10,
        "Last Applied": 7, "Commit Index": 8, "Snapshot Index": -1, "Term": 4, "Machine Version": 1,
    }  # fmt: skip
    assert (silent["Raft State"], silent["Term"]) == ("noproc", 5)


def test_leadership_goes_to_the_node_that_is_named(world: Clustered) -> None:
    assert world.request("PUT", "/api/leveret/queues/v/orders/group/leader", {"node": "n2"}).status == 204
    assert world.members.told == [("transfer", "v", "orders", "n2")]


def test_groups_without_a_leader_come_first_and_then_those_with_members_away(world: Clustered) -> None:
    all_of_them = ("n1", "n2", "n3")
    world.members.where = {
        "well": QueueNodes("n1", all_of_them, all_of_them),
        "one away": QueueNodes("n1", all_of_them, ("n1", "n2")),
        "leaderless": QueueNodes("", all_of_them, all_of_them),
        "two away": QueueNodes("n1", all_of_them, ("n1",)),
    }
    for name in world.members.where:
        world.declare(name)
    found = world.get("/api/leveret/groups")
    assert [(one["name"], one["away"]) for one in found] == [
        ("leaderless", 0), ("two away", 2), ("one away", 1), ("well", 0),
    ]  # fmt: skip

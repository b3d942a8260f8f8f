"""node/replicas/members.py: what an operator is told of queues that cannot go on, and of members that still learn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import AddNode, DeclareQueue
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.login.audit import Actor, Audit, acting_for
from broker.login.client_address import ClientAddress
from broker.pending import Pending
from broker.records import NodeRecord
from front.node_ports import Chosen
from node.replicas import members as members_module
from node.replicas.group_view import load_of
from node.replicas.members import QueueMembers
from node.replicas.placement import Candidate
from quorum.queue import QuorumQueue
from raft.core.messages import NodeId, member_id
from replicated.kinds import ReplicatedKinds
from tests.sim.disk import SimDisk
from tests.unit.quorum.clients import Clients, Publisher


class World:
    """Three nodes with one queue, asked through node 1."""

    def __init__(self, members: tuple[int, ...] = (1, 2, 3)) -> None:
        self.away: set[NodeId] = set()
        self.drained: set[NodeId] = set()
        self.clients = Clients()
        self.record = self.clients.cluster.declare("q", list(members), home=1)
        self.clients.cluster.leader(self.record)
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        for number in (1, 2, 3):
            self.catalog.apply(AddNode(NodeRecord(f"n{number}", 0, 7, f"n{number}:1")))
        self.catalog.apply(AddNode(NodeRecord("ram", 0, 7, "ram:1", "ram")))
        self.catalog.load(self.record)
        self.audited: list[str] = []
        self.audit = Audit(note=self.audited.append, warn=self.audited.append)

    @property
    def members(self) -> QueueMembers:
        return self.members_of(self.clients.cluster.nodes[1].kind)

    def candidate(self, number: NodeId) -> Candidate:
        return Candidate(number, f"z{number}", up=number not in self.away, draining=number in self.drained)

    def administered(self, administration: Administration) -> QueueMembers:
        """Of the queue that is there, and of groups that do what `administration` does."""
        queues = self.clients.cluster.nodes[1].kind.queues
        return self.members_of(SimpleNamespace(name="quorum", queues=queues, administration=administration))

    def members_of(self, quorum: Any) -> QueueMembers:
        return QueueMembers(
            self.catalog,
            ReplicatedKinds(quorum),
            candidates=lambda: [self.candidate(number) for number in (1, 2, 3)],
            reaches=lambda node: node not in self.away,
            away_since_ms=lambda node: 5_000,
            audit=self.audit,
        )


class Administration:
    """Does at once what is asked of groups, or refuses."""

    def __init__(self, refusal: BrokerError | None = None) -> None:
        self.refusal = refusal
        self.leader = 1

    def add_member(self, queue: QuorumQueue, node: NodeId) -> Pending[None]:
        return self._answer()

    def remove_member(self, queue: QuorumQueue, node: NodeId, *, anyway: bool) -> Pending[None]:
        return self._answer()

    def transfer(self, queue: QuorumQueue, node: NodeId) -> Pending[None]:
        self.leader = node
        return self._answer()

    def figures(self, queue: QuorumQueue, node: NodeId) -> Pending[dict[str, Any]]:
        return Pending.of({"leader_node": self.leader})

    def _answer(self) -> Pending[None]:
        return Pending.of(None) if self.refusal is None else Pending.failed(self.refusal)


def test_with_everybody_there_is_nothing_to_tell() -> None:
    world = World()
    assert world.members.problems() == []
    world.away = {2}
    assert world.members.lost_without(2) == ""


def test_queues_without_a_majority_are_counted_and_the_nodes_that_are_away_are_named() -> None:
    world = World()
    world.away = {2, 3}
    assert world.members.lost_without(2) == ("1 replicated queues have no majority, such as queue 'q' in vhost '/'")
    (told,) = world.members.problems()
    assert "1 replicated queues have no majority of their members, such as queue 'q' in vhost '/'" in told
    assert told.endswith("until enough of these nodes are back: n2, n3")


def test_a_node_whose_members_are_new_is_told_of_until_they_vote() -> None:
    world = World()
    cluster = world.clients.cluster
    Publisher(world.clients, 1, world.record).publish(20)
    cluster.run(0.5)
    cluster.nodes[3].kill()
    cluster.restart(3, SimDisk())
    told: list[str] = []
    for _ in range(1_000):
        cluster.run(0.001)  # it does not take long
        told += [one for one in world.members.problems() if one not in told]
    assert told == [
        "node n3 has members of 1 replicated queues that do not vote yet: they still receive what they lack"
    ]
    assert world.members.problems() == []


def test_growing_beyond_the_nodes_says_how_many_there_are() -> None:
    world = World()
    (change,) = asyncio.run(world.members.grow_to(5, Chosen()))
    assert (change.queue, change.done) == ("q", "")
    assert "it has 3 members, and no further disk node can take one now" in change.error
    assert asyncio.run(world.members.grow_to(3, Chosen())) == []
    assert asyncio.run(world.members.grow_to(5, Chosen(kind="stream"))) == [], "it is a quorum queue"


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda one: one.add("/", "q", "ram"), PreconditionFailed, "'ram' is a RAM node"),
        (lambda one: one.add("/", "q", "n3"), PreconditionFailed, "'n3' is down: no member can begin there"),
        (lambda one: one.add("/", "q", "n1"), PreconditionFailed, "has a member on node 'n1' already"),
        (lambda one: one.add("/", "missing", "n1"), NotFound, "no queue 'missing' in vhost '/'"),
        (lambda one: one.add("/", "q", "n9"), NotFound, "there are n1, n2, n3, ram"),
        (lambda one: one.transfer("/", "q", "n3"), NotFound, "has no member on node 'n3'"),
        (lambda one: one.delete("/", "q", "n3", anyway=False), NotFound, "has no member on node 'n3'"),
        (lambda one: one.delete("/", "q", "n3", anyway=True), NotFound, "has no member on node 'n3'"),
        (
            lambda one: one.grow("n2", Chosen("(", ""), even_only=False),
            PreconditionFailed,
            "invalid regular expression",
        ),
        (lambda one: one.evacuate("n1"), PreconditionFailed, "has its only member on node 'n1'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(ask: Any, error: type[Exception], text: str) -> None:
    world = World((1,))
    world.away = {2, 3}
    with pytest.raises(error, match=text.replace("(", r"\(")):
        asyncio.run(ask(world.members))


CHANGES = [
    (lambda one: one.add("/", "q", "n3"), "AddQueueMember", "add a member of queue 'q' in vhost '/' on node 'n3'"),
    (
        lambda one: one.delete("/", "q", "n2", anyway=False),
        "DeleteQueueMember",
        "remove the member of queue 'q' in vhost '/' on node 'n2'",
    ),
    (
        lambda one: one.delete("/", "q", "n2", anyway=True),
        "DeleteQueueMember",
        "remove the member of queue 'q' in vhost '/' on node 'n2' anyway",
    ),
    (lambda one: one.transfer("/", "q", "n2"), "TransferQueueLeader", "have node 'n2' lead queue 'q' in vhost '/'"),
    (
        lambda one: one.grow("n3", Chosen(), even_only=False),
        "AddQueueMember",
        "add a member of queue 'q' in vhost '/' on node 'n3'",
    ),
    (lambda one: one.grow_to(3, Chosen()), "AddQueueMember", "add a member of queue 'q' in vhost '/' on node 'n3'"),
    (
        lambda one: one.shrink("n2", Chosen(), anyway=False),
        "DeleteQueueMember",
        "remove the member of queue 'q' in vhost '/' on node 'n2'",
    ),
]


@pytest.mark.parametrize(("ask", "kind", "what"), CHANGES)
@pytest.mark.parametrize("refusal", [None, NotFound("it has no such member")])
def test_a_change_of_members_is_audited_with_who_asked_for_it(
    ask: Any, kind: str, what: str, refusal: BrokerError | None
) -> None:
    world = World((1, 2))
    members = world.administered(Administration(refusal))

    async def asked() -> None:
        acting_for(Actor("admin", ClientAddress("192.0.2.7", 4_000, False, "gRPC")))
        try:
            await ask(members)
        except NotFound as error:
            assert error is refusal

    asyncio.run(asked())
    outcome, end = ("done", "") if refusal is None else ("refused", ": refused: it has no such member")
    assert world.audited == [f"user 'admin' from 192.0.2.7:4000 over gRPC: {what}{end}"]
    assert world.audit.changes == {(kind, outcome): 1}


def test_a_member_that_moves_away_is_a_member_added_and_one_removed() -> None:
    world = World((1, 2))
    asyncio.run(world.administered(Administration()).evacuate("n2"))
    assert world.audited == [
        "this node: add a member of queue 'q' in vhost '/' on node 'n3'",
        "this node: remove the member of queue 'q' in vhost '/' on node 'n2'",
    ]


def test_a_member_that_comes_to_a_node_while_others_move_away_moves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members were being spread: those that came to the node until it had left went with it, and with them whole queues."""
    world = World((2,))
    late = world.clients.cluster.declare("late", [1], home=1)
    world.clients.cluster.leader(late)
    world.catalog.load(late)
    named = QuorumQueue.member_nodes

    def named_by_then(queue: QuorumQueue) -> Sequence[NodeId]:
        return [2] if queue.record.name == "late" and world.audited else named(queue)

    monkeypatch.setattr(QuorumQueue, "member_nodes", named_by_then)
    told: list[tuple[int, int]] = []
    members = world.administered(Slow(voters=(2,)))
    asyncio.run(members.evacuate("n2", lambda moved, total: told.append((moved, total))))
    assert [said.partition(": ")[2].partition(" in vhost")[0] for said in world.audited] == [
        "add a member of queue 'q'", "remove the member of queue 'q'",
        "add a member of queue 'late'", "remove the member of queue 'late'",
    ]  # fmt: skip
    assert told == [(0, 1), (1, 1), (2, 2)]


class TakenBefore(Administration):
    """Another node that leaves has moved its member to the place that is asked for, and the record says so a while later."""

    def __init__(self, seen: bool) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.looks, self._seen = 0, seen

    def member_nodes(self, queue: QuorumQueue) -> Sequence[NodeId]:
        self.looks += bool(self.asked)
        return [2, 1] if self.looks > 2 and self._seen else [2]

    def add_member(self, queue: QuorumQueue, node: NodeId) -> Pending[None]:
        self.asked.append(f"add {node}")
        wrong = "member 7 cannot be added: node 1 has member 3 already; replace that one"
        return Pending.failed(PreconditionFailed(wrong)) if node == 1 else Pending.of(None)

    def remove_member(self, queue: QuorumQueue, node: NodeId, *, anyway: bool) -> Pending[None]:
        self.asked.append(f"remove {node}")
        return Pending.of(None)


@pytest.mark.parametrize("seen", [True, False])
def test_a_move_to_a_place_that_another_leaving_node_has_just_taken_is_planned_anew_and_refused_where_none_has(
    monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    monkeypatch.setattr("node.replicas.members.SEEN_S", 0.5)
    world, administration = World((2,)), TakenBefore(seen)
    monkeypatch.setattr(QuorumQueue, "member_nodes", lambda queue: administration.member_nodes(queue))
    leaves = world.administered(administration).evacuate("n2")
    if seen:
        asyncio.run(leaves)
        assert administration.asked == ["add 1", "add 3", "remove 2"]
    else:
        with pytest.raises(ResourceExhausted, match="node 1 has member 3 already"):
            asyncio.run(leaves)
        assert administration.asked == ["add 1"]


@pytest.mark.parametrize(("drained", "done"), [({1}, ["add 4", "remove 2"]), (set(), ["remove 2"])])
def test_of_two_nodes_that_leave_at_once_neither_counts_on_the_member_of_the_other(
    monkeypatch: pytest.MonkeyPatch, drained: set[NodeId], done: list[str]
) -> None:
    """Node 1 has got a member on node 5 in its place, and not removed its own: with it there were enough without node 2's."""
    world, administration = World((2,)), Slow()
    world.drained = drained
    monkeypatch.setattr(QuorumQueue, "member_nodes", lambda queue: [1, 2, 3, 5])
    members = world.administered(administration)
    monkeypatch.setattr(members, "_candidates", lambda: [world.candidate(number) for number in (1, 2, 3, 4, 5)])
    asyncio.run(members.evacuate("n2"))
    assert administration.asked == done


class Slow(Administration):
    """Needs to be asked some times before it does anything, or before what it has done is seen."""

    def __init__(self, *, refused: int = 0, unseen: int = 0, voters: tuple[NodeId, ...] = (1, 2, 3)) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.voters = voters
        self._refused = refused
        self._unseen = unseen

    def add_member(self, queue: QuorumQueue, node: NodeId) -> Pending[None]:
        self.voters = (*self.voters, node)
        return self._does(f"add {node}")

    def remove_member(self, queue: QuorumQueue, node: NodeId, *, anyway: bool) -> Pending[None]:
        return self._does(f"remove {node}")

    def transfer(self, queue: QuorumQueue, node: NodeId) -> Pending[None]:
        self.leader = node
        return self._does(f"transfer to {node}")

    def figures(self, queue: QuorumQueue, node: NodeId) -> Pending[dict[str, Any]]:
        self.asked.append("figures")
        seen = self._unseen <= 0
        self._unseen -= 1
        voters = [member_id(one, 7) for one in (self.voters if seen else self.voters[:1])]
        followers = [{"member": one, "match": 9, "suspected": False} for one in voters[1:]]
        raft = {"membership": [voters, [], []], "followers": followers, "last": 9}
        return Pending.of({"leader_node": self.leader if seen else 1, "raft": raft})

    def _does(self, what: str) -> Pending[None]:
        self.asked.append(what)
        self._refused -= 1
        return Pending.failed(ResourceExhausted("try again")) if self._refused >= 0 else Pending.of(None)


def test_what_has_to_be_asked_again_is_asked_again_until_it_is_done() -> None:
    administration = Slow(refused=2)
    asyncio.run(World((1, 2)).administered(administration).add("/", "q", "n3"))
    assert administration.asked == ["add 3"] * 3


def test_a_leadership_counts_as_handed_over_when_the_other_node_leads() -> None:
    administration = Slow(unseen=2)
    asyncio.run(World((1, 2)).administered(administration).transfer("/", "q", "n2"))
    assert administration.asked == ["transfer to 2", "figures", "figures", "figures"]


def test_the_only_member_is_removed_when_the_one_that_takes_its_place_votes() -> None:
    administration = Slow(unseen=3, voters=(2,))
    asyncio.run(World((2,)).administered(administration).evacuate("n2"))
    assert administration.asked == ["add 1", *["figures"] * 4, "remove 2"]


class NeverDone(Slow):
    """What is asked of it is taken, and nothing comes of it."""

    def __init__(self) -> None:
        super().__init__(unseen=1_000_000, voters=(1,))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for as long as operators would."""
    for name, seconds in (("AGAIN_S", 0.001), ("PATIENCE_S", 0.004), ("CAUGHT_UP_S_MAX", 0.004)):
        monkeypatch.setattr(members_module, name, seconds)


@pytest.mark.usefixtures("hurried")
def test_a_member_is_not_removed_when_the_one_that_takes_its_place_never_votes() -> None:
    administration = NeverDone()
    with pytest.raises(ResourceExhausted, match="has not caught up within"):
        asyncio.run(World((1,)).administered(administration).evacuate("n1"))
    assert {one for one in administration.asked if one != "figures"} == {"add 2"}
    moving = NeverDone()
    moves = asyncio.run(moves_of(of_queues_on_node_1(moving)))
    assert [state for _, _, state, _ in moves] == ["copying", "failed"]
    assert "has not caught up within" in moves[-1][-1]
    assert {one for one in moving.asked if one != "figures"} == {"add 2"}


@pytest.mark.usefixtures("hurried")
def test_a_member_is_not_removed_when_nobody_leads_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    administration = Slow(voters=(1,))

    def transfer(queue: QuorumQueue, node: NodeId) -> Pending[None]:
        administration.asked.append(f"transfer to {node}")
        return Pending.of(None)

    monkeypatch.setattr(administration, "transfer", transfer)
    moves = asyncio.run(moves_of(of_queues_on_node_1(administration)))
    assert moves[-1][2:] == (
        "failed",
        "node 'n2' does not lead queue 'q' in vhost '/' after 0.004 s: it may not have caught up yet",
    )
    assert [one for one in administration.asked if one != "figures"] == ["add 2", "transfer to 2"]
    with pytest.raises(ResourceExhausted, match="'n2' does not lead"):
        asyncio.run(World((1, 2)).administered(administration).transfer("/", "q", "n2"))


@pytest.mark.usefixtures("hurried")
def test_what_is_refused_for_so_long_is_not_asked_for_ever() -> None:
    administration = Slow(refused=1_000_000)
    with pytest.raises(ResourceExhausted, match="try again"):
        asyncio.run(World((1, 2)).administered(administration).add("/", "q", "n3"))
    assert 1 < len(administration.asked) < 100


@pytest.mark.parametrize(
    ("chosen", "is_meant"),
    [
        (Chosen(), True),
        (Chosen("^/$", "^q$", "quorum"), True),
        (Chosen("^other$", ""), False),
        (Chosen("", "^other$"), False),
        (Chosen("", "", "stream"), False),
    ],
)
def test_only_queues_that_were_chosen_are_changed(chosen: Chosen, is_meant: bool) -> None:
    administration = Slow()
    asyncio.run(World((1, 2)).administered(administration).grow_to(3, chosen))
    asyncio.run(World((1, 2)).administered(administration).shrink("n2", chosen, anyway=False))
    assert [one for one in administration.asked if one != "figures"] == ["add 3", "remove 2"] * is_meant


def test_a_queue_that_is_as_large_as_it_can_be_without_a_node_gets_no_member_in_its_place() -> None:
    administration = Slow()
    asyncio.run(World((1, 2, 3)).administered(administration).evacuate("n1"))
    assert [one for one in administration.asked if one != "figures"] == ["remove 1"]


def test_queues_without_members_and_such_as_are_not_open_here_are_told_apart() -> None:
    world = World()
    world.catalog.apply(DeclareQueue("/", "classic", "classic", home="n1"))
    world.catalog.apply(DeclareQueue("/", "elsewhere", "quorum", home="n1", members=(member_id(1, 7),)))
    for ask in (
        lambda name: world.members.add("/", name, "n1"),
        lambda name: world.members.delete("/", name, "n1", anyway=True),
        lambda name: world.members.transfer("/", name, "n1"),
    ):
        with pytest.raises(PreconditionFailed, match="is a classic one: quorum queues and streams have members"):
            asyncio.run(ask("classic"))
        with pytest.raises(NotFound, match="queue 'elsewhere' in vhost '/' is not open on this node yet: try again"):
            asyncio.run(ask("elsewhere"))


def test_a_node_whose_members_are_still_needed_is_not_evacuated() -> None:
    members = World((1, 2)).administered(Administration(PreconditionFailed("no majority would be left")))
    with pytest.raises(ResourceExhausted, match=r"1 replicated queues cannot do without .* 'n2' now, .*: no majority"):
        asyncio.run(members.evacuate("n2"))


def test_a_queue_keeps_its_member_while_the_node_that_could_take_it_is_only_away() -> None:
    """Of a node that was killed and came back a moment later the queue had one copy less for good."""
    world = World((1, 2))
    world.drained = {3}
    with pytest.raises(ResourceExhausted, match=r"it would have 1 members instead of 2, .* down or drained"):
        asyncio.run(world.administered(Administration()).evacuate("n2"))
    assert world.audited == []


@pytest.mark.parametrize(
    ("members", "node", "even_only", "grows"),
    [
        ((1,), "n3", True, False),
        ((1, 2), "n3", True, True),
        ((1,), "n3", False, True),
        ((1, 2), "n3", False, True),
        ((1, 2), "n2", False, False),
    ],
)
def test_queues_grow_where_they_have_no_member_and_odd_ones_stay_only_if_even_ones_alone_are_to(
    members: tuple[int, ...], node: str, even_only: bool, grows: bool
) -> None:
    grown = asyncio.run(World(members).administered(Administration()).grow(node, Chosen(), even_only=even_only))
    assert [(change.done, change.error) for change in grown] == [(f"a member on {node} was added", "")] * grows


def test_queues_grow_to_as_many_members_as_was_said_and_no_more() -> None:
    (change,) = asyncio.run(World((1,)).administered(Administration()).grow_to(2, Chosen()))
    assert (change.done, change.error) == ("members on n2 were added", "")


def test_queues_that_have_no_member_on_a_node_are_not_asked_to_give_it_up() -> None:
    members = World((1, 2)).administered(Administration())
    assert asyncio.run(members.shrink("n3", Chosen(), anyway=False)) == []
    (change,) = asyncio.run(members.shrink("n2", Chosen(), anyway=False))
    assert change.done == "the member on n2 was removed"


def test_a_queue_that_finds_no_place_for_its_member_keeps_it_and_the_node_does_not_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its copy would have gone with the node, and nobody would have been told."""

    async def taken_by_others(self: QueueMembers, queue: QuorumQueue, node: NodeId) -> bool:
        return False

    monkeypatch.setattr(QueueMembers, "_replaced", taken_by_others)
    world = World((1, 2))
    with pytest.raises(ResourceExhausted, match="other nodes that leave have taken each place that was chosen"):
        asyncio.run(world.administered(Administration()).evacuate("n1"))


def test_ram_nodes_are_no_places_that_a_member_waits_for() -> None:
    members = World((1, 2)).administered(Administration())
    nodes = [Candidate(1, "a"), Candidate(2, "b"), Candidate(4, "c", disk=False)]
    members._candidates = lambda: nodes
    asyncio.run(members._move_away(next(iter(members._kinds)), 1))


def test_a_plan_to_leave_says_where_members_go_and_wants_no_more_copies_than_nodes_that_stay() -> None:
    """With the leaving node counted among those that stay, it would want a third copy, and be told that it cannot leave."""
    world = World((1, 2))
    for node, leads in (("n1", True), ("n2", False)):
        (move,) = world.members.plan_evacuation(node)
        assert (move.to, move.copies_before, move.copies, move.copies_wanted) == ("n3", 2, 2, 2)
        assert move.leads is leads
    assert world.members.plan_evacuation("n3") == []
    world.away = {3}
    (move,) = world.members.plan_evacuation("n1")
    assert (move.to, move.copies, move.copies_wanted) == ("", 1, 2)


def test_a_drained_node_loses_its_leaderships_to_one_that_is_not() -> None:
    for drained, heir in (({1}, "n2"), ({1, 2}, "n3"), ({2}, None)):
        world = World()
        world.drained = drained
        changes = asyncio.run(world.administered(Slow()).rebalance(Chosen()))
        assert [change.done.partition(" (")[0] for change in changes] == ([f"is led by {heir} now"] if heir else [])


def test_a_dry_run_tells_which_leader_would_go_where_and_why_and_moves_none() -> None:
    world = World()
    world.drained = {1}
    administration = Slow()
    (change,) = asyncio.run(world.administered(administration).rebalance(Chosen(), dry_run=True))
    assert change.done == "would be led by n2 (n1 led 1 queues, n2 0; this is 1)"
    assert set(administration.asked) == {"figures"}


def of_queues_on_node_1(administration: Administration, further: str = "r") -> QueueMembers:
    """Of `q`, and of further ones with these letters as names."""
    world = World((1,))
    for name in further:
        queue = world.clients.cluster.declare(name, [1], home=1)
        world.clients.cluster.leader(queue)
        world.catalog.load(queue)
    return world.administered(administration)


async def moves_of(members: QueueMembers, *, dry_run: bool = False) -> list[tuple[str, str, str, str]]:
    found = members.move_members(Chosen(), dry_run=dry_run)
    return [(one.queue, one.target, one.state, one.error) async for one in found]


def test_a_member_moves_when_the_new_one_votes_and_leads_in_its_place() -> None:
    administration = Slow(
        voters=(1,), unseen=5
    )  # both leaders say what they keep, and three times that it does not vote
    moves = asyncio.run(moves_of(of_queues_on_node_1(administration)))
    assert moves == [("q", "n2", "copying", ""), ("q", "n2", "moved", "")]
    assert administration.asked[2:7] == ["add 2", *["figures"] * 4]
    assert [one for one in administration.asked[7:] if one != "figures"] == ["transfer to 2", "remove 1"]


@pytest.mark.parametrize("gone", ["drained", "away"])
def test_a_member_is_not_moved_to_a_node_that_has_been_drained_since_the_plan(gone: str) -> None:
    """It was to leave the cluster, and the queue's only member went with it."""
    administration, world = Slow(voters=(1,)), World((1,))
    further = world.clients.cluster.declare("r", [1], home=1)
    world.clients.cluster.leader(further)
    world.catalog.load(further)

    async def moved() -> list[str]:
        told: list[str] = []
        async for move in world.administered(administration).move_members(Chosen()):
            told.append(move.error)
            getattr(world, gone).add(2)
        return told

    assert asyncio.run(moved()) == ["", "node 'n2' is down or drained by now: plan anew"]
    assert set(administration.asked) == {"figures"}


@pytest.mark.parametrize(
    ("now", "then", "error"),
    [
        ((2, 3), (2, 3), "the members of queue 'q' in vhost '/' are others by now: plan anew"),
        ((1, 2), (1, 2), "the members of queue 'q' in vhost '/' are others by now: plan anew"),
        ((3,), (3,), "the members of queue 'q' in vhost '/' are others by now: plan anew"),
        ((1, 3), (1, 2), "queue 'q' in vhost '/' has lost a member meanwhile, and keeps the others"),
    ],
)
def test_a_member_stays_where_somebody_else_changes_the_others(
    monkeypatch: pytest.MonkeyPatch, now: tuple[int, ...], then: tuple[int, ...], error: str
) -> None:
    """When its move begins, or while the new member learns: one more removed, and the queue had too few."""
    administration = Slow(voters=(1,))
    members = of_queues_on_node_1(administration)

    async def moved() -> list[str]:
        told: list[str] = []
        async for move in members.move_members(Chosen()):
            told.append(move.error)
            monkeypatch.setattr(QuorumQueue, "member_nodes", lambda _: then if "add 2" in administration.asked else now)
        return told

    assert asyncio.run(moved()) == ["", error]
    assert "remove 1" not in administration.asked
    assert ("add 2" in administration.asked) == (now != then)


def test_each_move_of_a_plan_says_which_of_how_many_it_is() -> None:
    async def told() -> list[tuple[int, int]]:
        found = of_queues_on_node_1(Slow(voters=(1,)), "rstuv").move_members(Chosen(), dry_run=True)
        return [(one.number, one.total) async for one in found]

    numbers = asyncio.run(told())
    assert numbers == [(at, len(numbers)) for at in range(1, len(numbers) + 1)] and len(numbers) > 2


def test_a_dry_run_tells_which_members_would_move_and_moves_none() -> None:
    administration = Slow(voters=(1,))
    moves = asyncio.run(moves_of(of_queues_on_node_1(administration), dry_run=True))
    assert moves == [("q", "n2", "planned", "")]
    assert set(administration.asked) == {"figures"}


def test_members_do_not_move_on_behind_one_that_cannot() -> None:
    members = of_queues_on_node_1(Administration(PreconditionFailed("node 'n2' is full")), "rstuv")
    assert len(asyncio.run(moves_of(members, dry_run=True))) > 2
    assert asyncio.run(moves_of(members)) == [("q", "n2", "copying", ""), ("q", "n2", "failed", "node 'n2' is full")]


def test_leaders_are_spread_by_nothing_but_what_is_known() -> None:
    with pytest.raises(PreconditionFailed, match="nothing can be spread by 'luck': there are queues, bytes, entries"):
        asyncio.run(World().administered(Slow()).rebalance(Chosen(), "luck"))
    with pytest.raises(PreconditionFailed, match="nothing can be spread by 'luck'"):
        asyncio.run(anext(World().administered(Slow()).move_members(Chosen(), "luck")))


def test_what_a_leader_costs_is_one_its_bytes_or_what_its_log_grew_by() -> None:
    quorum = {"machine": {"ready_bytes": 5, "unacknowledged_bytes": 2}, "raft": {"last": 30}}
    stream = {"machine": {"bytes": 9}, "raft": {"last": 4}}
    assert [load_of(one, None, "queues") for one in (quorum, stream)] == [1, 1]
    assert [load_of(one, None, "bytes") for one in (quorum, stream)] == [7, 9]
    assert load_of(quorum, {"raft": {"last": 10}}, "entries") == 20
    assert load_of(quorum, None, "entries") == 0, "it was led by another node a second ago"

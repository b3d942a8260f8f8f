"""node/replicas/reconciliation.py: queues get back the members that they should have, and lose none that may come back."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import AddNode, PutVhost, RemoveNode
from broker.catalog.policy import effective_arguments
from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.records import NodeRecord, PolicyRecord, QueueRecord, VhostRecord
from node.replicas.placement import Candidate
from node.replicas.reconciliation import (
    CHANGES_MAX,
    LOOK_MS,
    TRIGGER_MS,
    Add,
    Reconciler,
    Remove,
    next_step,
    target_size,
)
from raft.core.membership import AddLearner, Promote, RemoveMember, changed, members_of
from raft.core.messages import Membership, member_id, node_of
from replicated.kinds import ReplicatedKinds
from tests.unit.quorum.clients import Clients, Publisher


def voters(*nodes: int) -> Membership:
    return Membership(tuple(member_id(node, 7) for node in nodes))


def cluster(*numbers: int, zones: str = "abcdefghi", **of_all: Any) -> list[Candidate]:
    return [Candidate(number, zones[number - 1], **of_all) for number in numbers]


def test_with_all_nodes_there_is_nothing_to_do() -> None:
    assert next_step(voters(1, 2, 3), 1, cluster(1, 2, 3, 4), 3, grows=True) is None


def test_a_forgotten_nodes_member_is_replaced_first_and_taken_out_then() -> None:
    nodes = cluster(1, 2, 4)
    assert next_step(voters(1, 2, 3), 1, nodes, 3, grows=False) == Add(4)
    joined = changed(voters(1, 2, 3), AddLearner(member_id(4, 9)))
    assert next_step(joined, 1, nodes, 3, grows=False) == Remove(member_id(3, 7))
    left = changed(joined, RemoveMember(member_id(3, 7)))
    assert next_step(left, 1, nodes, 3, grows=False) is None


def test_without_a_further_node_the_forgotten_member_only_goes() -> None:
    assert next_step(voters(1, 2, 3), 1, cluster(1, 2), 3, grows=False) == Remove(member_id(3, 7))


def test_the_place_in_another_zone_is_taken_first() -> None:
    nodes = [Candidate(1, "a"), Candidate(2, "b"), Candidate(4, "a"), Candidate(5, "c", members=40)]
    assert next_step(voters(1, 2, 3), 1, nodes, 3, grows=False) == Add(5)


def test_a_node_that_is_down_or_drained_keeps_its_member_and_gets_no_other_one() -> None:
    nodes = [*cluster(1, 2), Candidate(3, "c", up=False), Candidate(4, "d", draining=True)]
    assert next_step(voters(1, 2, 3), 1, nodes, 3, grows=True) is None
    assert next_step(voters(1, 2), 1, nodes, 3, grows=True) is None


def test_growing_waits_for_the_switch_and_for_a_member_that_still_learns() -> None:
    nodes = cluster(1, 2, 3)
    assert next_step(voters(1), 1, nodes, 3, grows=False) is None
    assert next_step(voters(1), 1, nodes, 3, grows=True) == Add(2)
    assert next_step(changed(voters(1), AddLearner(member_id(2, 9))), 1, nodes, 3, grows=True) is None


def test_the_last_voter_stays_even_if_its_node_is_gone() -> None:
    assert next_step(voters(3), 3, cluster(1), 3, grows=False) == Add(1)
    learns = changed(voters(3), AddLearner(member_id(1, 9)))
    assert next_step(learns, 3, cluster(1), 3, grows=False) is None


@settings(max_examples=300, deadline=None)
@given(st.sets(st.integers(1, 6), min_size=1, max_size=5), st.sets(st.integers(1, 7), min_size=1), st.integers(1, 5))
def test_steps_come_to_an_end_and_leave_only_nodes_of_the_cluster(began: set[int], left: set[int], target: int) -> None:
    membership, nodes = voters(*sorted(began)), cluster(*sorted(left))
    steps = 0
    while (step := next_step(membership, 1, nodes, min(target, len(nodes)), grows=True)) is not None or (
        membership.promotable
    ):
        steps += 1
        assert steps < 40, f"it goes on for ever: {membership}"
        if step is None:
            membership = changed(membership, Promote(membership.promotable[0]), caught_up=True)
        elif isinstance(step, Add):
            membership = changed(membership, AddLearner(member_id(step.node, 9)))
        else:
            membership = changed(membership, RemoveMember(step.member))
    there = {node_of(member) for member in members_of(membership)}
    assert there <= left
    assert len(there) >= min(target, len(left))
    assert there >= began & left


POLICY = PolicyRecord("/", "p", ".*", "all", 0, {"target-group-size": 5})


@pytest.mark.parametrize(
    ("arguments", "policies", "disks", "size"),
    [
        ({}, (), 5, 3),
        ({}, (), 1, 1),
        ({"x-quorum-initial-group-size": 1}, (), 5, 1),
        ({"x-quorum-initial-group-size": 1, "x-quorum-target-group-size": 3}, (), 5, 3),
        ({"x-quorum-target-group-size": 3}, (POLICY,), 7, 5),
        ({}, (POLICY,), 4, 3),
    ],
)
def test_the_target_is_what_was_asked_for_as_far_as_there_are_nodes(
    arguments: dict[str, Any], policies: Sequence[PolicyRecord], disks: int, size: int
) -> None:
    record = QueueRecord("/", "q", "quorum", True, False, False, arguments, 1)
    policy = policies[0] if policies else None
    assert target_size(record, effective_arguments(record, policy, None), disks) == size


@pytest.mark.parametrize(("asked", "members", "size"), [(None, 2, 2), (None, 4, 4), (3, 1, 3), (9, 3, 5)])
def test_a_stream_keeps_as_many_as_it_has_unless_it_says_how_many(asked: int | None, members: int, size: int) -> None:
    arguments = {} if asked is None else {"x-initial-cluster-size": asked}
    named = tuple(member_id(number, 7) for number in range(1, members + 1))
    record = QueueRecord("/", "s", "stream", True, False, False, arguments, 1, members=named)
    assert target_size(record, effective_arguments(record, None, None), 5) == size


class World:
    """Four nodes, each of which looks after the queues that it leads."""

    def __init__(self, *, grows: bool = False) -> None:
        self.clients = Clients(4)
        self.cluster = self.clients.cluster
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        for number in range(1, 5):
            self.catalog.apply(AddNode(NodeRecord(f"n{number}", 0, 7, f"n{number}:1")))
        self.reconcilers = {
            number: Reconciler(
                self.catalog, ReplicatedKinds(node.kind), number, self.candidates, lambda: 0.5,
                grows=grows, interval_ms=60_000,
            )
            for number, node in self.cluster.nodes.items()
        }  # fmt: skip

    def candidates(self) -> list[Candidate]:
        alive = {node.number for node in self.cluster.alive()}
        return [Candidate(node.number, node.name, up=node.number in alive) for node in self.catalog.nodes.values()]

    def declare(self, members: list[int], **arguments: Any) -> QueueRecord:
        record = self.cluster.declare("q", members, home=members[0], **arguments)
        self.catalog.load(record)
        self.cluster.leader(record)
        return record

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.cluster.run(0.5)
            for number, reconciler in self.reconcilers.items():
                if self.cluster.nodes[number].alive:
                    reconciler.tick(self.clients.now)

    def nodes_of(self, record: QueueRecord) -> list[int]:
        return sorted(map(node_of, self.cluster.records[record.id].members))


def test_a_forgotten_node_is_replaced_and_a_lost_one_only_waited_for() -> None:
    world = World()
    record = world.declare([1, 2, 3])
    publisher = Publisher(world.clients, 1, record)
    publisher.publish(20)
    world.run(1)
    world.cluster.nodes[3].kill()
    world.run(30)
    assert world.nodes_of(record) == [1, 2, 3]
    world.catalog.apply(RemoveNode("n3"))
    world.run(10)
    assert world.nodes_of(record) == [1, 2, 4]
    world.cluster.nodes[1].kill()
    world.run(3)
    assert world.clients.drain(4, record) == publisher.confirmed
    assert len(publisher.confirmed) == 20


def test_a_leader_on_a_node_that_is_removed_goes_last() -> None:
    world = World()
    record = world.declare([1, 2, 3])
    assert world.cluster.leader(record).number == 1
    world.catalog.apply(RemoveNode("n1"))
    world.run(15)
    assert world.nodes_of(record) == [2, 3, 4]


def test_queues_grow_some_time_after_a_node_has_joined_if_they_are_to() -> None:
    for grows, nodes in ((False, [1]), (True, [1, 2, 3])):
        world = World(grows=grows)
        record = world.declare([1])
        world.run(5)
        for reconciler in world.reconcilers.values():
            reconciler.node_joined(world.clients.now)
        world.run(5)
        assert world.nodes_of(record) == [1]
        world.run(20)
        assert world.nodes_of(record) == nodes


def test_queues_that_are_to_grow_do_so_now_and_then_without_anything_happening() -> None:
    world = World(grows=True)
    record = world.declare([1, 2], **{"x-quorum-initial-group-size": 2, "x-quorum-target-group-size": 3})
    world.run(50)
    assert world.nodes_of(record) == [1, 2]
    world.run(30)
    assert world.nodes_of(record) == [1, 2, 3]


class LedQueue:
    """What the reconciler sees of a queue."""

    deleted = change_pending = False

    def __init__(self, number: int, memberships: list[Membership]) -> None:
        self.record = QueueRecord("/", f"q{number}", "quorum", True, False, False, {}, number)
        self.route = SimpleNamespace(driver=SimpleNamespace(core=self))
        self._membership = lambda: memberships[number]

    def status(self) -> Any:
        return SimpleNamespace(membership=self._membership(), change_pending=self.change_pending)

    def member_nodes(self) -> list[int]:
        return [node_of(one) for one in self._membership().voters]


class Groups:
    """Queues that one node leads, as many as their `memberships`; what is asked of them waits in `asked`."""

    def __init__(self, *memberships: Membership, nodes: int = 5, **of_all: Any) -> None:
        self.catalog = Catalog()
        for number in range(1, nodes + 1):
            self.catalog.apply(AddNode(NodeRecord(f"n{number}", 0, 7, f"n{number}:1")))
        self.memberships = list(memberships)
        self.asked: list[tuple[Any, Pending[None]]] = []
        self.catalog.apply(PutVhost(VhostRecord("/")))
        self.queues = [LedQueue(number, self.memberships) for number in range(len(memberships))]
        kinds: Any = SimpleNamespace(led=lambda: self.queues, administration_of=lambda queue: self)
        self.reconciler = Reconciler(
            self.catalog, kinds, 1, lambda: cluster(*(one.number for one in self.catalog.nodes.values())), lambda: 0.5,
            **{"grows": False, "interval_ms": 60_000} | of_all,
        )  # fmt: skip
        self.now = 1_000_000

    def add_member(self, queue: Any, node: int) -> Pending[None]:
        return self._ask(f"{queue.record.name} + {node}")

    def remove_member(self, queue: Any, node: int) -> Pending[None]:
        return self._ask(f"{queue.record.name} - {node}")

    def _ask(self, what: str) -> Pending[None]:
        answer: Pending[None] = Pending()
        self.asked.append((what, answer))
        return answer

    def tick(self, after_ms: int = LOOK_MS) -> list[str]:
        """What is asked for now."""
        self.now += after_ms
        before = len(self.asked)
        self.reconciler.tick(self.now)
        return [what for what, _ in self.asked[before:]]


def test_a_change_that_was_refused_is_asked_for_again() -> None:
    groups = Groups(voters(1, 2, 6))
    assert groups.tick() == ["q0 + 3"]
    assert groups.tick() == [], "it is under way"
    groups.asked[-1][1].fail(ResourceExhausted("no leader"))
    assert groups.tick() == ["q0 + 3"]
    groups.asked[-1][1].resolve(None)
    assert groups.tick() == ["q0 + 3"]


def test_only_so_many_queues_change_at_the_same_time() -> None:
    groups = Groups(*[voters(1, 2, 6)] * (CHANGES_MAX + 2))
    assert len(groups.tick()) == CHANGES_MAX
    assert groups.tick() == []
    groups.asked[0][1].resolve(None)
    assert len(groups.tick()) == 1


def test_before_the_catalog_names_any_node_nobody_is_taken_for_gone() -> None:
    assert Groups(voters(1, 2, 3), nodes=0).tick() == []


def test_a_node_that_joins_does_not_put_off_what_the_one_before_it_has_set_off() -> None:
    groups = Groups(voters(1, 2), grows=True)
    groups.tick()
    groups.reconciler.node_joined(groups.now)
    assert groups.tick(TRIGGER_MS - 2_000) == []
    groups.reconciler.node_joined(groups.now)
    assert groups.tick(2_000) == ["q0 + 3"]


def test_a_queue_that_waits_for_a_new_member_to_vote_grows_on_when_it_does() -> None:
    groups = Groups(voters(1), grows=True)
    groups.tick()
    assert groups.tick(60_000) == ["q0 + 2"]
    learner = member_id(2, 7)
    groups.memberships[0] = Membership(voters(1).voters, (learner,), (learner,))
    groups.asked[-1][1].resolve(None)
    assert [groups.tick() for _ in range(3)] == [[]] * 3
    groups.memberships[0] = voters(1, 2)
    assert groups.tick() == ["q0 + 3"]


def test_queues_do_not_grow_unless_they_are_to_whatever_else_is_done_for_them() -> None:
    """One that has lost a member gets another; the one beside it is as small as it was made."""
    groups = Groups(voters(1, 2, 6), voters(1))
    groups.tick()
    groups.reconciler.node_joined(groups.now)
    assert [what for what, _ in groups.asked] == ["q0 + 3"]
    groups.memberships[0] = voters(1, 2, 3)
    groups.asked[-1][1].resolve(None)
    assert [groups.tick(after) for after in (LOOK_MS, TRIGGER_MS, 60_000, 600_000)] == [[]] * 4


def test_all_queues_grow_though_only_so_many_change_at_the_same_time() -> None:
    groups = Groups(*[voters(1, 2)] * (CHANGES_MAX + 2), grows=True)
    groups.tick()
    asked = groups.tick(60_000)
    assert len(asked) == CHANGES_MAX
    assert groups.tick() == []
    for number in range(CHANGES_MAX):
        groups.memberships[number] = voters(1, 2, 3)
        groups.asked[number][1].resolve(None)
    assert groups.tick() == [f"q{CHANGES_MAX} + 3", f"q{CHANGES_MAX + 1} + 3"]


def test_a_queue_whose_members_somebody_changes_just_now_grows_behind_that() -> None:
    """And not at the next interval, an hour later."""
    groups = Groups(voters(1, 2), grows=True)
    groups.queues[0].change_pending = True
    groups.tick()
    assert groups.tick(60_000) == []
    groups.queues[0].change_pending = False
    assert groups.tick() == ["q0 + 3"]


def test_a_queue_that_is_not_led_from_here_any_more_or_is_deleted_is_let_be() -> None:
    groups = Groups(voters(1, 2, 6), voters(1, 2, 6))
    groups.queues[0].deleted = True
    groups.queues[1].route.driver = None
    assert groups.tick() == []


def test_a_wall_clock_that_is_set_back_stops_nothing() -> None:
    groups = Groups(voters(1, 2, 6))
    groups.catalog.apply(AddNode(NodeRecord("n6", 0, 7, "n6:1")))
    assert groups.tick() == []
    groups.catalog.apply(RemoveNode("n6"))
    assert groups.tick(-900_000) == ["q0 + 3"]


def test_queues_that_are_to_grow_do_not_wait_for_a_wall_clock_that_was_set_back() -> None:
    groups = Groups(voters(1, 2), grows=True)
    assert groups.tick() == []
    assert groups.tick(-900_000) == ["q0 + 3"]


def test_of_two_members_that_are_gone_the_one_that_leads_goes_last() -> None:
    nodes = cluster(2)
    assert next_step(voters(1, 2, 3), 1, nodes, 3, grows=False) == Remove(member_id(3, 7))
    assert next_step(voters(1, 2, 3), 3, nodes, 3, grows=False) == Remove(member_id(1, 7))

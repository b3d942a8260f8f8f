"""node/replicas/health.py: a majority is one of voters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.records import QueueRecord
from node.replicas.health import lost_without, problems
from quorum.queue import QuorumQueue
from raft.core.membership import Membership
from raft.core.messages import member_id


def queue_with(voters: tuple[int, ...], learners: tuple[int, ...]) -> QuorumQueue:
    """As a node with a member sees it, which knows who votes."""
    membership = Membership(
        tuple(member_id(node, 1) for node in voters), tuple(member_id(node, 1) for node in learners)
    )
    driver = SimpleNamespace(core=SimpleNamespace(status=lambda: SimpleNamespace(membership=membership)))
    seen: Any = SimpleNamespace(
        record=QueueRecord("/", "payments", "quorum", True, False, False, {}, id=1),
        route=SimpleNamespace(driver=driver),
        member_nodes=lambda: (*voters, *learners),
    )
    return cast(QuorumQueue, seen)


def test_a_member_that_still_learns_makes_no_majority() -> None:
    repaired = [queue_with((2, 3), learners=(1,))]
    assert "no majority" in lost_without(2, repaired, lambda node: True)
    assert lost_without(1, repaired, lambda node: True) == ""
    (told,) = problems(repaired, lambda node: node != 2, lambda node: f"n{node}")
    assert "have no majority of their members" in told and told.endswith("back: n2")


def test_a_queue_that_grows_from_its_last_voter_is_lost_with_it() -> None:
    assert "no majority" in lost_without(1, [queue_with((1,), learners=(2, 3))], lambda node: True)


def test_who_still_learns_is_told_of_while_its_node_is_reached() -> None:
    """Of one that is down the cluster's status says so already."""
    growing = [queue_with((1, 2), learners=(3,))]
    assert problems(growing, lambda node: node != 3, lambda node: f"n{node}") == []
    (told,) = problems(growing, lambda node: True, lambda node: f"n{node}")
    assert told.startswith("node n3 has members of 1 replicated queues that do not vote yet")


def test_where_there_is_no_member_the_record_says_who_votes() -> None:
    queue: Any = queue_with((1, 2), learners=(3,))
    queue.route.driver = None
    assert lost_without(2, [queue], lambda node: node != 1).startswith("1 replicated queues have no majority")
    assert lost_without(2, [queue], lambda node: True) == ""
    (told,) = problems([queue], lambda node: node == 1, lambda node: f"n{node}")
    assert told.endswith("back: n2, n3")

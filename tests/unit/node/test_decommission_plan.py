"""The forecast of what becomes of replicated queues when a node leaves for good."""

from __future__ import annotations

from node.replicas.decommission_plan import HostedQueue, planned_moves
from node.replicas.placement import Candidate
from raft.core.messages import NodeId


def name_of(node: NodeId) -> str:
    return f"n{node}"


def hosted(name: str, *members: NodeId, target: int = 3, leads: bool = False) -> HostedQueue:
    return HostedQueue("/", name, "quorum", members, target, leads, 100)


def planned(*queues: HostedQueue, nodes: int = 4, members: dict[int, int] | None = None) -> dict[str, tuple[str, int]]:
    """Where each goes, and how many members it has then. Node 1 leaves."""
    candidates = [Candidate(number, "", (members or {}).get(number, 0)) for number in range(1, nodes + 1)]
    return {one.queue: (one.to, one.copies) for one in planned_moves(1, queues, candidates, name_of)}


def test_a_member_goes_to_the_node_that_has_none_and_takes_its_bytes_along() -> None:
    (move,) = planned_moves(
        1, [hosted("q", 1, 2, 3, leads=True)], [Candidate(number, "") for number in (1, 2, 3, 4)], name_of
    )
    assert (move.to, move.copies, move.copies_before, move.leads, move.bytes) == ("n4", 3, 3, True, 100)


def test_moves_spread_over_the_nodes_that_are_left() -> None:
    found = planned(*(hosted(f"q{number}", 1, target=1) for number in range(6)))
    assert sorted(to for to, _ in found.values()) == ["n2", "n2", "n3", "n3", "n4", "n4"]


def test_where_no_node_is_left_a_queue_has_fewer_copies_and_its_last_one_is_lost() -> None:
    assert planned(hosted("q", 1, 2, 3), nodes=3) == {"q": ("", 2)}
    assert planned(hosted("q", 1, target=1), nodes=1) == {"q": ("", 0)}


def test_a_queue_for_which_a_node_is_only_away_says_how_many_copies_it_should_have() -> None:
    nodes = [Candidate(1, ""), Candidate(2, ""), Candidate(3, ""), Candidate(4, "", up=False)]
    (move,) = planned_moves(1, [hosted("q", 1, 2, 3)], nodes, name_of)
    assert (move.to, move.copies, move.copies_wanted) == ("", 2, 3)


def test_a_queue_with_more_members_than_it_should_have_gets_none() -> None:
    assert planned(hosted("q", 1, 2, 3, 4, target=3), nodes=5) == {"q": ("", 3)}


def test_queues_come_in_the_order_of_their_names() -> None:
    assert list(planned(hosted("b", 1, 2), hosted("a", 1, 2))) == ["a", "b"]

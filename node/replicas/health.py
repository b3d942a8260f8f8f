"""Which replicated queues cannot go on, or could not without some node, in sentences for operators; as far as this node knows.

Where the members are is in every queue's record. Which of them do not vote yet is known where there is a member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from raft.core.majority import is_needed
from raft.core.messages import NodeId, node_of
from replicated.queue import ReplicatedQueue

Reaches = Callable[[NodeId], bool]


def lost_without(node: NodeId, queues: Iterable[ReplicatedQueue], reaches: Reaches) -> str:
    """Which queues have no majority without this node; empty: there is none."""
    stuck = [queue for queue in queues if is_needed(node, _voting_nodes(queue), reaches)]
    return f"{len(stuck)} replicated queues have no majority, such as {stuck[0].record.label}" if stuck else ""


def problems(queues: Iterable[ReplicatedQueue], reaches: Reaches, name_of: Callable[[NodeId], str]) -> list[str]:
    """Queues that cannot go on, and nodes that still catch up."""
    stuck: list[ReplicatedQueue] = []
    away: set[NodeId] = set()
    learning: Counter[NodeId] = Counter()
    for queue in queues:
        nodes = _voting_nodes(queue)
        lost = [node for node in nodes if not reaches(node)]
        if 2 * len(lost) >= len(nodes):
            stuck.append(queue)
            away.update(lost)
        elif queue.route.driver is not None:
            learning.update(map(node_of, queue.route.driver.core.status().membership.learners))
    found = []
    if stuck:
        names = ", ".join(sorted(map(name_of, away)))
        found.append(
            f"{len(stuck)} replicated queues have no majority of their members, such as {stuck[0].record.label}: what is "
            f"published to them waits until enough of these nodes are back: {names}"
        )
    for node, count in sorted(learning.items()):
        if reaches(node):
            found.append(
                f"node {name_of(node)} has members of {count} replicated queues that do not vote yet: they still receive what "
                f"they lack"
            )
    return found


def _voting_nodes(queue: ReplicatedQueue) -> list[NodeId]:
    """A member that still learns makes no majority, though the record names it."""
    driver = queue.route.driver
    voters = driver.core.status().membership.voters if driver is not None else ()
    return list(map(node_of, voters)) or list(queue.member_nodes())

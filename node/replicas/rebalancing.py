"""Which leaders of quorum queues are handed to which nodes, so that all lead about as many. Pure.

Only leaders move, and only to voters that can take over at once. A step takes one from the node that leads most and gives it to
the one among the queue's other voters that leads least, if it then still leads less: every step brings the counts closer, so
that there is an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from raft.core.messages import NodeId

K = TypeVar("K")


@dataclass(slots=True, frozen=True)
class Led(Generic[K]):
    """A queue with a leader."""

    key: K
    leader: NodeId
    heirs: tuple[NodeId, ...]  # nodes of its other voters that have caught up


def moves(queues: Sequence[Led[K]], nodes: Collection[NodeId]) -> Mapping[K, NodeId]:
    """Whom each queue's leadership goes to, of those where it goes anywhere. `nodes`: those that may lead."""
    counts = Counter(dict.fromkeys(nodes, 0))
    counts.update(queue.leader for queue in queues)
    leader_of = {queue.key: queue.leader for queue in queues}
    # A node that must not lead any more counts as full, and gets rid of all that it can.
    weight = {node: 0 if node in nodes else len(queues) + 1 for node in counts}
    found: dict[K, NodeId] = {}
    moved = True
    while moved:
        moved = False
        for queue in sorted(queues, key=lambda one: -counts[leader_of[one.key]] - weight[leader_of[one.key]]):
            leader = leader_of[queue.key]
            others = [node for node in (*queue.heirs, queue.leader) if node in nodes and node != leader]
            heir = min(others, key=lambda node: (counts[node], node), default=None)
            if heir is None or counts[heir] + 1 >= counts[leader] + weight[leader]:
                continue
            counts[leader] -= 1
            counts[heir] += 1
            leader_of[queue.key] = found[queue.key] = heir
            moved = True
    return {queue.key: found[queue.key] for queue in queues if found.get(queue.key, queue.leader) != queue.leader}

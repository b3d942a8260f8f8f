"""Which leaders of replicated queues are handed to which nodes, so that all carry about the same load. Pure.

What a leader costs is up to who asks: one for each queue, the bytes that it keeps, or what its log grows by in a second. Only
leaders move, and only to voters that can take over at once. A step takes one from the node that carries most and gives it to
the one among the queue's other voters that carries least, if that one then still carries less than the first did: every step
brings the loads closer, so that there is an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from raft.core.messages import NodeId

K = TypeVar("K")


@dataclass(slots=True, frozen=True)
class Led(Generic[K]):
    """A queue with a leader."""

    key: K
    leader: NodeId
    heirs: tuple[NodeId, ...]  # nodes of its other voters that have caught up
    load: int = 1  # of leading it


@dataclass(slots=True, frozen=True)
class LeaderMove:
    """Of one queue, and what both nodes carried before any move."""

    source: NodeId
    target: NodeId
    load: int
    source_load: int
    target_load: int


def loads_of(queues: Sequence[Led[K]], nodes: Collection[NodeId]) -> Counter[NodeId]:
    """What each node carries by leading."""
    loads = Counter(dict.fromkeys(nodes, 0))
    for queue in queues:
        loads[queue.leader] += queue.load
    return loads


def moves(queues: Sequence[Led[K]], nodes: Collection[NodeId]) -> Mapping[K, LeaderMove]:
    """Of those queues whose leadership goes anywhere. `nodes`: those that may lead."""
    before = loads_of(queues, nodes)
    loads = Counter(before)
    leader_of = {queue.key: queue.leader for queue in queues}

    def urgency(queue: Led[K]) -> tuple[float, int]:
        """A node that must not lead any more counts as full, and gets rid of all that it can."""
        leader = leader_of[queue.key]
        return (-loads[leader] if leader in nodes else -inf), -queue.load

    moved = True
    while moved:
        moved = False
        for queue in sorted(queues, key=urgency):
            leader = leader_of[queue.key]
            others = [node for node in (*queue.heirs, queue.leader) if node in nodes and node != leader]
            heir = min(others, key=lambda node: (loads[node], node), default=None)
            if heir is None or (leader in nodes and loads[heir] + queue.load >= loads[leader]):
                continue
            loads[leader] -= queue.load
            loads[heir] += queue.load
            leader_of[queue.key] = heir
            moved = True
    return {
        queue.key: LeaderMove(queue.leader, to, queue.load, before[queue.leader], before[to])
        for queue in queues
        if (to := leader_of[queue.key]) != queue.leader
    }

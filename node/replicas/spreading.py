"""Which members of replicated queues move to other nodes, so that all disk nodes keep about as much. Pure.

A move adds a member on one node, and removes another one when the new one votes: a queue never has fewer members than before,
and they stay in as many zones. A move that was cut short in between leaves an even number of members, which placement does not
make (node/replicas/placement.py): the next plan removes the surplus one, unless the queue is to have so many.

What a member costs is up to who asks, as in node/replicas/rebalancing.py. A step goes from the node that keeps most to the one
that keeps least, where one of the queues can make that; where they are about equal it ends. Each queue moves once at most and
each step brings two nodes closer, so that there is an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from node.replicas.placement import Candidate
from raft.core.messages import NodeId

K = TypeVar("K")

MOVES_MAX = 100  # of one plan: each copies all that its queue holds, and what comes behind it is planned anew
TOLERATED = 0.1  # of what a node keeps on average: so much more or less is not worth a copy


@dataclass(slots=True, frozen=True)
class Placed(Generic[K]):
    """A queue and the nodes of its members."""

    key: K
    members: tuple[NodeId, ...]
    wanted: int  # members, as somebody asked for them; 0: nobody did
    load: int = 1  # of each member


@dataclass(slots=True, frozen=True)
class MemberMove(Generic[K]):
    """Of one queue, and what both nodes kept before this move. `target` 0: the member on `source` is one too many."""

    key: K
    source: NodeId
    target: NodeId
    load: int
    source_load: int
    target_load: int


def member_moves(queues: Sequence[Placed[K]], nodes: Iterable[Candidate]) -> list[MemberMove[K]]:
    """In the order in which they are to be made."""
    return list(_Plan(queues, nodes).moves())[:MOVES_MAX]


class _Plan(Generic[K]):
    def __init__(self, queues: Sequence[Placed[K]], nodes: Iterable[Candidate]) -> None:
        self._queues = queues
        candidates = list(nodes)
        self._zones = {one.number: one.zone for one in candidates}
        self._usable = {one.number for one in candidates if one.disk and one.usable}
        self._loads = Counter(dict.fromkeys(self._usable, 0))
        for queue in queues:
            for member in queue.members:
                self._loads[member] += queue.load

    def moves(self) -> Iterator[MemberMove[K]]:
        surplus = {queue.key for queue in self._queues if _has_surplus(queue)}
        yield from (self._dropped(queue) for queue in self._queues if queue.key in surplus)
        # Of queues that keep something: moving the others wins nothing.
        left = sorted((one for one in self._queues if one.key not in surplus and one.load), key=lambda one: -one.load)
        while (move := self._next(left)) is not None:
            queue, source, target = move
            left.remove(queue)
            yield self._made(queue, source, target)

    def _dropped(self, queue: Placed[K]) -> MemberMove[K]:
        """From where most zones are left, and of these the node that keeps most."""
        source = max(queue.members, key=lambda one: (self._zones_without(queue, one), self._loads[one], one))
        return self._made(queue, source, 0)

    def _made(self, queue: Placed[K], source: NodeId, target: NodeId) -> MemberMove[K]:
        move = MemberMove(queue.key, source, target, queue.load, self._loads[source], self._loads[target])
        self._loads[source] -= queue.load
        if target:
            self._loads[target] += queue.load
        return move

    def _next(self, queues: Sequence[Placed[K]]) -> tuple[Placed[K], NodeId, NodeId] | None:
        average = sum(self._loads[node] for node in self._usable) / max(1, len(self._usable))
        by_load = sorted(self._usable, key=lambda node: (self._loads[node], node))
        pairs = [(source, target) for source in reversed(by_load) for target in by_load]
        for source, target in sorted(pairs, key=lambda pair: self._loads[pair[1]] - self._loads[pair[0]]):
            gap = self._loads[source] - self._loads[target]
            if gap <= TOLERATED * average:
                return None
            # The largest that makes the two no more different the other way round.
            for queue in queues:
                if queue.load * 2 <= gap and self._may_move(queue, source, target):
                    return queue, source, target
        return None

    def _may_move(self, queue: Placed[K], source: NodeId, target: NodeId) -> bool:
        if source not in queue.members or target in queue.members:
            return False
        zones = {self._zones.get(one) for one in queue.members}
        return len({self._zones.get(one) for one in queue.members if one != source} | {self._zones[target]}) >= len(
            zones
        )

    def _zones_without(self, queue: Placed[K], node: NodeId) -> int:
        return len({self._zones.get(one) for one in queue.members if one != node})


def _has_surplus(queue: Placed[K]) -> bool:
    count = len(queue.members)
    return count > 2 and count % 2 == 0 and count > queue.wanted

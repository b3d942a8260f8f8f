"""What becomes of replicated queues when a node leaves for good: a forecast, made before anything is changed. Pure.

Members are placed one queue after the other, as node/replicas/members.py moves them, so what one queue takes up counts for the
next. A queue that has more members than its target, or for which there is no other node, is left with fewer. One for which
there is a node that is only down or drained now would have fewer for no good reason: that is in the way of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from front.node_ports import PlannedMove
from node.replicas.placement import Candidate, next_member
from raft.core.messages import NodeId


@dataclass(slots=True, frozen=True)
class HostedQueue:
    """A replicated queue with a member on the node."""

    vhost: str
    name: str
    kind: str
    members: tuple[NodeId, ...]
    target: int  # members that it should have without the node
    leads: bool  # the node leads it
    bytes: int  # of its messages, as far as that is known


def planned_moves(
    node: NodeId, queues: Iterable[HostedQueue], candidates: Iterable[Candidate], name_of: Callable[[NodeId], str]
) -> list[PlannedMove]:
    """In the order of vhosts and names."""
    others = {one.number: one for one in candidates if one.number != node}
    return [_planned(node, queue, others, name_of) for queue in sorted(queues, key=lambda one: (one.vhost, one.name))]


def _planned(
    node: NodeId, queue: HostedQueue, others: dict[NodeId, Candidate], name_of: Callable[[NodeId], str]
) -> PlannedMove:
    stay = [member for member in queue.members if member != node]
    to = _place(stay, others) if len(stay) < queue.target else None
    if to is not None:
        others[to] = replace(others[to], members=others[to].members + 1)
    return PlannedMove(
        vhost=queue.vhost,
        queue=queue.name,
        kind=queue.kind,
        to=name_of(to) if to is not None else "",
        copies=len(stay) + (to is not None),
        copies_before=len(queue.members),
        copies_wanted=queue.target,
        leads=queue.leads,
        bytes=queue.bytes if to is not None else 0,
    )


def _place(stay: Sequence[NodeId], others: dict[NodeId, Candidate]) -> NodeId | None:
    return next_member(others.values(), stay)

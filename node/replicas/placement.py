"""Where the members of a quorum queue go, and which of them is to lead. Pure: the same nodes give the same places.

Members go to disk nodes, to those that can be reached and are not drained as long as there are enough of them, to different
zones first and to the least loaded node second. More than half of the members are on nodes that can be reached now: without
them nothing could be published.

A size is a wish. It is capped to the number of disk nodes, and what remains is made odd, for a fourth member costs a copy and
bears no further loss; but of two nodes both are taken, since two copies are better than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from broker.errors import ResourceExhausted
from raft.core.messages import NodeId

SIZE_DEFAULT = 3
CLIENT_LOCAL = "client-local"
BALANCED = "balanced"
LOCATORS = (CLIENT_LOCAL, BALANCED)


@dataclass(slots=True, frozen=True)
class Candidate:
    """A node on which members may be placed."""

    number: NodeId
    zone: str
    members: int = 0  # of all queues, that it has already
    leaders: int = 0  # of those, as far as is known
    up: bool = True
    draining: bool = False
    disk: bool = True

    @property
    def usable(self) -> bool:
        return self.up and not self.draining


@dataclass(slots=True, frozen=True)
class Places:
    """`leader` is one of `members`, and the first of them."""

    members: tuple[NodeId, ...]
    leader: NodeId


def place(nodes: Iterable[Candidate], asked: NodeId, wanted: int = 0, locator: str = CLIENT_LOCAL) -> Places:
    """`asked`: the node that the client talks to. `wanted`: x-quorum-initial-group-size, 0 when it was not given. Raises
    ResourceExhausted when no node can take a member now."""
    assert locator in LOCATORS, f"a leader locator {locator!r}"
    disks = {node.number: node for node in nodes if node.disk}
    usable = [node for node in disks.values() if node.usable]
    if not usable:
        raise ResourceExhausted("no disk node can take a queue now: all of them are down or drained")
    size = size_for(wanted, len(disks))
    while size > 1 and 2 * sum(node.up for node in disks.values()) <= size:
        size -= 1
    local = disks.get(asked)
    chosen = [local] if locator == CLIENT_LOCAL and local is not None and local.usable else []
    while len(chosen) < size:
        chosen.append(next_place(disks.values(), chosen))
    if locator == CLIENT_LOCAL and local in chosen and local.usable:
        leader = local
    else:
        leader = min(chosen, key=lambda node: (not node.usable, node.leaders, node.members, node.number))
    members = sorted(node.number for node in chosen if node is not leader)
    return Places((leader.number, *members), leader.number)


def size_for(wanted: int, nodes: int) -> int:
    """How many members a queue gets on a cluster with so many disk nodes."""
    assert nodes > 0, "a queue is placed on no nodes"
    size = wanted or SIZE_DEFAULT
    if size <= nodes:
        return size
    return nodes if nodes % 2 or nodes == 2 else nodes - 1


def next_place(nodes: Iterable[Candidate], chosen: Sequence[Candidate]) -> Candidate:
    """Where one more member goes, of nodes that are not chosen yet: there is one."""
    zones = Counter(node.zone for node in chosen)
    taken = {node.number for node in chosen}
    return min(
        (node for node in nodes if node.number not in taken),
        key=lambda node: (not node.usable, not node.up, zones[node.zone], node.members, node.number),
    )


def next_member(nodes: Iterable[Candidate], members: Collection[NodeId]) -> NodeId | None:
    """Where a queue with these members grows to; None: no further node can take one now."""
    disks = [node for node in nodes if node.disk]
    free = [node for node in disks if node.usable and node.number not in members]
    if not free:
        return None
    return next_place(free, [node for node in disks if node.number in members]).number

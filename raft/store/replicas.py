"""Which number a member gets when it begins: above every number that its node ever gave (docs/decisions/0003).

A node numbers its own members, upward, whatever their groups. Members of different groups never need different numbers, but one
counter for all of them is above each of them, also of groups that were removed here and came again.

Numbers are durable before they are used: `reserve` has the disk say that all up to some number may be in use, and a later
process begins behind that. What a lost disk has used nobody knows. So a node with an empty disk is granted numbers above by
whoever looks after all nodes: in a cluster the catalog (broker/catalog/parts/disk_lives.py).

The founders of a group are the exception: all know their numbers without asking, which are 0, or those of their nodes' disks
where a catalog names them.
"""

from __future__ import annotations

from collections.abc import Callable

from raft.core.errors import NumbersUsedUp
from raft.core.messages import MemberId, member_id, node_of, replica_of

FOUNDER = 0
RESERVED = 256  # at once: fsyncs for a log whose damage touches many groups, against numbers that a restart skips

NewReplica = Callable[[int], int]
"""The replica number of a member that begins now: above all that were given here, and above this one. Blocks."""


class ReplicaNumbers:
    """Those of one process. Fulfils NewReplica."""

    def __init__(self, given: int, reserved: int, end: int, reserve: Callable[[int], None]) -> None:
        """`given`: earlier processes may have used all up to here. `reserved`: this one may use those up to here, and the disk
        says so. `end`: the first number that is not this disk's. `reserve` returns when the disk says another `reserved`."""
        assert given <= reserved < end, (
            f"numbers up to {given} are given and up to {reserved} reserved, of those below {end}"
        )
        self._last = given
        self._reserved = reserved
        self._end = end
        self._reserve = reserve

    def __call__(self, above: int) -> int:
        """Raises NumbersUsedUp, and what `reserve` raises: then no number was given."""
        number = max(self._last, above) + 1
        if number >= self._end:
            raise NumbersUsedUp(self._text(above))
        if number > self._reserved:
            reserved = reserved_from(number, self._end)
            self._reserve(reserved)
            self._reserved = reserved
        self._last = number
        return number

    def _text(self, above: int) -> str:
        if above >= self._end:
            return (
                f"a member of this node has the number {above}, and its disk was granted numbers up to {self._end - 1}: this "
                f"is an old data directory, and the node was started with another one since"
            )
        return f"all numbers up to {self._end - 1} that this disk was granted are used up: start the node with an empty one"


def reserved_from(first: int, end: int) -> int:
    """The last number that is reserved together with this one."""
    return min(first + RESERVED, end) - 1


def successor(old: MemberId, new_replica: NewReplica, heard: MemberId = 0) -> MemberId:
    """The member that follows `old` on its node. `heard`: a later one than `old` that others know."""
    node = node_of(old)
    assert not heard or node_of(heard) == node, f"member {heard} does not live on node {node}"
    known = replica_of(max(old, heard))
    replica = new_replica(known)
    assert replica > known, f"replica {replica} of node {node} is to follow {known}"
    return member_id(node, replica)

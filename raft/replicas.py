"""Which number a member gets when it begins: always one above every earlier member's of its node (docs/decisions/0003).

A member that is new on its node is numbered by the node itself, with the seconds since 1970 by its clock. The founders of a
group are the exception: all know their numbers without asking, which are 0, or those of their nodes' disks where a catalog
names them. Whatever the clock says, a member that follows another one is numbered above it, and above a later one that the
others speak of: a node whose clock or disk is set back hears from them which number it had.

How far above, where the clock is no help, is left to chance. A life of the node that gave such a number may have been
forgotten, with all that its member promised, and the next one stands where it stood: the first number above would be the same.
"""

from __future__ import annotations

from collections.abc import Callable

from raft.messages import MemberId, member_id, node_of, replica_of

FOUNDER = 0
AHEAD_MAX = 1024  # how far above the last known number one is drawn, without

NewReplica = Callable[[int], int]
"""The replica number of a member that begins now, and follows one with this number, or none with 0: see `replica_after`."""


def replica_at(wall_ms: int) -> int:
    return wall_ms // 1000


def replica_after(known: int, by_clock: int, chance: float) -> int:
    """`chance`: from 0 to 1."""
    return by_clock if by_clock > known else known + 1 + int(chance * (AHEAD_MAX - 1))


def successor(old: MemberId, new_replica: NewReplica, heard: MemberId = 0) -> MemberId:
    """The member that follows `old` on its node. `heard`: a later one than `old` that others know."""
    node = node_of(old)
    assert not heard or node_of(heard) == node, f"member {heard} does not live on node {node}"
    known = replica_of(max(old, heard))
    replica = new_replica(known)
    assert replica > known, f"replica {replica} of node {node} is to follow {known}"
    return member_id(node, replica)

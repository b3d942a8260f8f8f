"""Which number a member gets when it begins: always one above every earlier member's of its node (docs/decisions/0003).

A member that is new on its node is numbered by the node itself, with the seconds since 1970 by its clock. The founders of a
group are the exception: all know their numbers without asking, which are 0, or those of their nodes' disks where a catalog
names them. Whatever the clock says, a member that follows another one is numbered above it, and above a later one that the
others speak of: a node whose clock or disk is set back hears from them which number it had.
"""

from __future__ import annotations

from collections.abc import Callable

from raft.messages import MemberId, member_id, node_of, replica_of

FOUNDER = 0

NewReplica = Callable[[], int]
"""The replica number that a member would get now: `replica_at` the time."""


def replica_at(wall_ms: int) -> int:
    return wall_ms // 1000


def successor(old: MemberId, replica: int, heard: MemberId = 0) -> MemberId:
    """The member that follows `old` on its node. `replica` is what its clock makes of the time; `heard`: a later one than `old`
    that others know."""
    node = node_of(old)
    assert not heard or node_of(heard) == node, f"member {heard} does not live on node {node}"
    return member_id(node, max(replica, replica_of(max(old, heard)) + 1))

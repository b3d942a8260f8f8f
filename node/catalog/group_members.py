"""Who should belong to the metadata group: every node with one member, disk nodes as voters, RAM nodes as learners.

The catalog says which nodes there are, the group's log who its members are. Whoever leads compares the two and makes one change
after the other, until they say the same. A node that comes with another disk replaces its member itself
(raft/core/membership.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.records import NodeRecord
from node.identity import DISK
from raft.core.membership import AddLearner, Change, Promote, RemoveMember, members_of
from raft.core.messages import Membership, NodeId, member_id, node_of, replica_of


def wanted_change(membership: Membership, nodes: Iterable[NodeRecord], leader: NodeId) -> Change | None:
    """The next change; None when all is as it should be. The leader itself goes last."""
    by_number = {record.number: record for record in nodes}
    gone = [member for member in members_of(membership) if node_of(member) not in by_number]
    for member in sorted(gone, key=lambda member: node_of(member) == leader):
        if membership.voters != (member,):
            return RemoveMember(member)
    members = {node_of(member): member for member in members_of(membership)}
    for number, record in sorted(by_number.items()):
        disk = record.kind == DISK
        if number not in members:
            return AddLearner(member_id(number, record.disk_id), promote=disk)
        member = members[number]
        if not disk and (member in membership.promotable or (member in membership.voters and number != leader)):
            return RemoveMember(member)
        waits = member in membership.learners and member not in membership.promotable
        # What has not started as a disk node yet keeps nothing, and must not vote.
        if disk and waits and replica_of(member) >= record.disk_id:
            return Promote(member)
    return None

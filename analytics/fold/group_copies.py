"""Whose copies of a replicated log were read, and what they prove together: what was committed, and whether the queue is gone.

An entry is known to be committed

- when a node said so (RAFT_COMMIT), or has a snapshot of that entry or a later one;
- when a majority of the voters in force have it in the same term and have accepted it in that term. A copy that was accepted
  later proves nothing: a leader of a later term may have sent it and been replaced before anything of its own was committed
  (Raft, section 5.4.2). So a node's copies of a term count only while that is the highest term it was in.

What may have been committed all the same, because the logs that tell it were not read, stays unknown.

A member that leaves its node takes that node's log with it, and the queue lives on. The queue is gone when no member in force
is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from analytics.queue_events import QueueEvent
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.majority import majority_of
from raft.core.membership import decode, members_of
from raft.core.messages import EntryKind, MemberId, Membership
from raft.store.group_records import decode_member, read_identity
from storage.record import Kind


class Removal(Enum):
    """What the removed members mean for the queue."""

    NONE = "none"  # it lives on: nobody left, or only who belonged to it no more
    OF_ALL = "of all"
    UNCLEAR = "unclear"  # a member in force is gone, and nothing that was read shows the others going


@dataclass(slots=True)
class _NodeCopy:
    """One node's member."""

    member: MemberId = 0  # 0: nothing that was read says which
    since: int = 0  # the record that says so
    removed: int = 0  # the record that removed it, or one before it; 0: none
    term: int = 0  # the highest that it was in
    is_whole: bool = True  # it never lost what it had accepted

    @property
    def is_removed(self) -> bool:
        return self.removed > self.since


class GroupCopies:
    """See the module. What nodes say of themselves is to be taken first, then copies of entries in the order of the log."""

    committed: int  # highest entry that is known to be committed

    def __init__(self) -> None:
        self.committed = 0
        self._nodes: dict[str, _NodeCopy] = {}
        self._membership: Membership | None = None
        self._place = self._term = 0  # of the entry whose copies are being counted
        self._having: set[MemberId] = set()

    def take(self, event: QueueEvent) -> None:
        """What a node says of itself. A payload that does not fit its record says nothing."""
        node = self._nodes.setdefault(event.node, _NodeCopy())
        if event.kind in (Kind.RAFT_COMMIT, Kind.RAFT_SNAPSHOT):
            self.committed = max(self.committed, event.first)
        elif event.kind == Kind.RAFT_FACTS:
            node.term = max(node.term, event.term)
        elif event.kind == Kind.RAFT_GROUP_REMOVED:
            node.removed = max(node.removed, event.first)
        elif event.first > node.since:
            try:
                self._become(node, event)
            except BadBytes:
                return
            node.since = event.first

    def _become(self, node: _NodeCopy, event: QueueEvent) -> None:
        if event.kind == Kind.RAFT_RENUMBERED:
            node.member, node.is_whole = decode_member(event.data), False
            return
        identity = read_identity(event.queue, ByteReader(event.data))
        node.member = identity.member
        if identity.membership.voters:  # else it joined later, and its log says when
            self._membership = identity.membership

    def copied(self, event: QueueEvent) -> None:
        """A node's copy of an entry of the log, durable there."""
        if event.place <= self.committed:
            return
        if (event.place, event.term) != (self._place, self._term):
            self._place, self._term = event.place, event.term
            self._having = set()
        node = self._nodes.get(event.node)
        if self._membership is not None and node is not None and node.is_whole and node.term == event.term:
            self._having.add(node.member)
            voters = self._membership.voters
            if len(self._having.intersection(voters)) >= majority_of(len(voters)):
                self.committed = event.place

    def changed(self, event: QueueEvent) -> None:
        """An entry of the log says who belongs to the group from here on; its copies are counted among these."""
        if event.first == EntryKind.MEMBERSHIP:
            try:
                self._membership = decode(event.data)
            except BadBytes:
                self._membership = None

    def stand(self, place: int, membership: Membership) -> None:
        """A snapshot says who belonged to the group there; there is nothing that was taken before it."""
        self.committed = max(self.committed, place)
        self._membership = membership

    def removal(self) -> Removal:
        removed = {node.member for node in self._nodes.values() if node.is_removed}
        if not removed or self._membership is None:
            return Removal.UNCLEAR if removed else Removal.NONE
        in_force = members_of(self._membership)
        return _removal_of(removed.intersection(in_force), in_force)

    def unread_voters(self) -> int | None:
        """How many voters in force are on nodes whose logs were not read; None: nothing says who they are."""
        if self._membership is None:
            return None
        return len(set(self._membership.voters) - {node.member for node in self._nodes.values()})

    def removed_nodes(self) -> list[str]:
        return sorted(name for name, node in self._nodes.items() if node.is_removed)


def _removal_of(removed: Iterable[MemberId], in_force: Iterable[MemberId]) -> Removal:
    gone = set(removed)
    if not gone:
        return Removal.NONE
    return Removal.OF_ALL if gone.issuperset(in_force) else Removal.UNCLEAR

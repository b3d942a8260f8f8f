"""What members of a group say to each other, and the entries that they keep.

A *member* is one replica of one group. Its number is made once, when its log is created, and never used again: the upper
half is the node it lives on, the lower half grows with each replica there. A replica that lost what it had promised to keep
(a wiped disk, a damaged log) comes back under a new number, so that nothing it said before binds it and nothing it says
now counts for the old one: the leader takes the old member out and the new one in as a learner.

All messages are immutable values; `raft/core/codec.py` gives them bytes. `sender` and `to`
are members, `term` is the sender's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from storage.disk import Buffer

MemberId = int
NodeId = int

_REPLICA_BITS = 32
NODE_ID_MAX = 2**32 - 1


def member_id(node: NodeId, replica: int) -> MemberId:
    """The number of a node's replica of a group; see raft/store/replicas.py."""
    assert 0 < node <= NODE_ID_MAX, f"node {node} does not fit {_REPLICA_BITS} bits"
    assert 0 <= replica < 1 << _REPLICA_BITS, f"replica {replica} does not fit {_REPLICA_BITS} bits"
    return node << _REPLICA_BITS | replica


def node_of(member: MemberId) -> NodeId:
    """The node that a member lives on."""
    return member >> _REPLICA_BITS


def replica_of(member: MemberId) -> int:
    """Which of its node's members it is."""
    return member & ((1 << _REPLICA_BITS) - 1)


def shown(member: MemberId) -> str:
    """As people read it: node, point, replica."""
    return f"{node_of(member)}.{replica_of(member)}"


class EntryKind(IntEnum):
    """What an entry's data is."""

    COMMAND = 0  # for the machine
    NOOP = 1  # a leader's first entry: raft/core/leadership.py, TermBegun
    MEMBERSHIP = 2  # an encoded Membership, in force from the moment the entry is in the log


@dataclass(slots=True)
class Entry:
    """One place of the log."""

    index: int  # from 1, without gaps
    term: int
    kind: int
    data: bytes


class Pack(NamedTuple):
    """Entries that travel as one piece of bytes; see raft/core/packs.py."""

    first: int
    term: int
    kind: int
    entry_count: int
    parts: Sequence[Buffer]  # the piece, one behind the other
    size: int


class EntryRun(tuple[Entry, ...]):
    """Consecutive entries that several want to have as bytes: a leader's own log and each follower, or a follower's log, which
    is given them as they came. So `packs` is made once; see raft/core/packs.py."""

    packs: Sequence[Pack] | None = None


class Membership(NamedTuple):
    """Who belongs to the group. Both are sorted; a member is in one of them at most."""

    voters: tuple[MemberId, ...]
    learners: tuple[MemberId, ...] = ()  # receive everything and vote for nothing
    promotable: tuple[MemberId, ...] = ()  # learners that the leader makes voters once they have caught up


@dataclass(slots=True)
class SnapshotMeta:
    """What a snapshot covers. `index` <= committed at the time it was taken."""

    index: int
    term: int
    membership: Membership
    machine_version: int


@dataclass(slots=True)
class VoteRequest:
    """A candidate asks. With `pre` it only asks whether it would be granted: `term` is the one it would begin, and nobody's
    term or vote changes. With `transfer` the leader itself wants this election, so a living leader is no objection."""

    to: MemberId
    sender: MemberId
    term: int
    last_index: int
    last_term: int
    pre: bool = False
    transfer: bool = False


@dataclass(slots=True)
class VoteReply:
    """`term` is the request's when granted, else the voter's own."""

    to: MemberId
    sender: MemberId
    term: int
    granted: bool
    pre: bool = False


@dataclass(slots=True)
class LeaderCheck:
    """A follower asks the member that it follows whether that still leads, because somebody wants an election. A member that
    does not lead answers NotLeading, a leader nothing."""

    to: MemberId
    sender: MemberId
    term: int


@dataclass(slots=True)
class LeaderLookup:
    """A member that knows no leader, and cannot stand for election, asks who leads. A leader answers with an append; a follower
    of somebody else passes the doubt on to its leader, as LeaderCheck."""

    to: MemberId
    sender: MemberId
    term: int


@dataclass(slots=True)
class NotLeading:
    """The sender does not lead, and who follows it in this term stops doing so."""

    to: MemberId
    sender: MemberId
    term: int


@dataclass(slots=True)
class Append:
    """The leader's entries behind (prev_index, prev_term). Without entries it is a probe, a heartbeat, or news of `commit`.
    `read_round` asks the receiver to say it back: see raft/core/reads.py."""

    to: MemberId
    sender: MemberId
    term: int
    prev_index: int
    prev_term: int
    commit: int
    entries: tuple[Entry, ...] = ()
    read_round: int = 0


@dataclass(slots=True)
class AppendReply:
    """Accepted: `index` is up to where the follower's log agrees with the leader's *and is fsynced*. Rejected: `index` and
    `hint_term` are where the leader should try next, at most; `rejected` is the prev_index that did not fit."""

    to: MemberId
    sender: MemberId
    term: int
    accepted: bool
    index: int
    commit: int  # as far as the follower knows
    rejected: int = 0
    hint_term: int = 0
    read_round: int = 0


@dataclass(slots=True)
class MatchCheck:
    """The leader counts `index` as durable at the receiver, which has acknowledged it, and was refused an append at or below
    it. The refusal may have been sent before the acknowledgement; then the receiver has the entry, and ignores this. A receiver
    that does not have it has lost what it acknowledged."""

    to: MemberId
    sender: MemberId
    term: int
    index: int
    index_term: int


@dataclass(slots=True)
class SnapshotChunk:
    """Part of a snapshot for a follower whose next entry the leader no longer has."""

    to: MemberId
    sender: MemberId
    term: int
    meta: SnapshotMeta
    offset: int
    data: bytes
    last: bool


@dataclass(slots=True)
class SnapshotReply:
    """`next_offset` is where the follower wants to go on: after a lost chunk, or another leader's, that is behind what was
    sent. `installed`: the snapshot is durable and the machine was restored from it, or was beyond it already."""

    to: MemberId
    sender: MemberId
    term: int
    index: int  # of the snapshot
    next_offset: int
    installed: bool = False


@dataclass(slots=True)
class TransferNow:
    """The leader tells a member that has caught up to stand for election at once."""

    to: MemberId
    sender: MemberId
    term: int


@dataclass(slots=True)
class TransferDeclined:
    """The answer to TransferNow of a member that cannot lead: its machine cannot go on."""

    to: MemberId
    sender: MemberId
    term: int


@dataclass(slots=True)
class Replaced:
    """A node answers for member `to` of an earlier life: what lives there now is `sender`, which is in no membership that it
    knows. The leader takes the old one out and the new one in as a promotable learner. `old` is the one that was meant."""

    to: MemberId
    sender: MemberId
    term: int
    old: MemberId


Message = (
    VoteRequest
    | VoteReply
    | LeaderCheck
    | LeaderLookup
    | NotLeading
    | Append
    | AppendReply
    | MatchCheck
    | SnapshotChunk
    | SnapshotReply
    | TransferNow
    | TransferDeclined
    | Replaced
)

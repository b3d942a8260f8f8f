"""What the core wants done. The order of the fields is the order of the duties; each says what it may wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from raft.core.messages import Entry, MatchCheck, MemberId, Message, SnapshotChunk, SnapshotMeta


class Role(Enum):
    """What a member is at the moment."""

    LEARNER = "learner"
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Facts(NamedTuple):
    """What a member must never forget: the highest term it took part in, and whom it voted for in it (0: none)."""

    term: int
    vote: MemberId


class Standing(NamedTuple):
    """For observers: who leads, as far as this member knows (0: none)."""

    role: Role
    term: int
    leader: MemberId


@dataclass(slots=True)
class ReadPoint:
    """A read may be answered once the machine has applied this index."""

    token: int
    index: int


@dataclass(slots=True)
class Ready:
    """Duties. Several may be under way at once, but what is persisted is persisted in the order of `number`."""

    number: int
    """Given back to `Core.persisted` when `facts` and `entries` are fsynced. Numbers ascend."""

    standing: Standing | None
    """Changed since the last Ready, or None. Proposals of an earlier leadership must be answered then."""

    messages: Sequence[Message]
    """May be sent at once: nothing in them promises what is not fsynced yet."""

    facts: Facts | None
    """Persist, before or together with `entries`. None: unchanged."""

    entries: Sequence[Entry]
    """Persist. The first may stand where the log has another entry already: that one and all behind it are gone then."""

    messages_after: Sequence[Message]
    """To be sent only after `facts` and `entries` of this Ready, and all before it, are fsynced. Votes and acknowledgements
    are here. When there is nothing to persist but an earlier Ready is still being fsynced, they wait for that one."""

    chunks: Sequence[SnapshotChunk]
    """Parts of a snapshot from the leader, in order and without gaps; offset 0 begins anew. Write them to a file aside;
    they need no fsync before `install`."""

    install: SnapshotMeta | None
    """The chunks up to now are this whole snapshot. Check it, make it durable together with the fact that the log begins
    behind it, let the machine take it, then call `Core.installed`; or `Core.install_failed`. Nothing is committed to this
    member in between."""

    committed: Sequence[Entry]
    """Apply in this order, then call `Core.applied`. Committed, and fsynced here."""

    reads: Sequence[ReadPoint]
    """Reads that were confirmed to see the newest state."""

    lost_reads: Sequence[int]
    """Tokens of reads that this member can no longer answer: leadership was lost. They may be asked again elsewhere."""

    forgotten: MatchCheck | None
    """The leader counts on an entry that this member acknowledged and does not have: its disk confirmed an fsync and lost what
    was written, or is an old copy. Nothing else of this Ready is performed, and this member does nothing more: its node begins
    another one in its place."""

    @property
    def must_persist(self) -> bool:
        return self.facts is not None or bool(self.entries)

"""The records of replicated logs in the node's log (storage/record.py); their writer is the group. Little endian.

    kind           index             term     flags      payload
    RAFT_GROUP     0                 0        0          member u64 | name | machine | membership: who the member began with
    RAFT_FACTS     0                 of vote  0          vote u64, 0: for nobody
    RAFT_ENTRIES   of the first      theirs   their kind a pack (raft/core/packs.py). If it begins at or below the last index,
                                                         that entry and all behind it are gone
    RAFT_SNAPSHOT  it stands for     of that  installed  a snapshot, as below. Installed: it came from the leader, and
                                                         everything that this member had before is gone
    RAFT_RENUMBERED  last that is    0        0          member u64: the one before had lost something, and is no more. Below
                   kept                                  the snapshot: nothing is kept
    RAFT_GROUP_REMOVED  0            0        0          nothing: the group and all it has here are gone
    RAFT_COMMIT    committed up to   0        0          nothing. Of what this member has applied, a tenth of a second after it
                                                         moved; a start passes over it, and learns this from the others

    name, machine  size u16 | UTF-8
    snapshot       first_index u64 | file u64 | size u64 | meta (raft/core/codec.py) | live u64: how many entries at or below it
                   live | count u32 | segments that came with it
    segment        number u64 | first u64 | last u64 | entries u64 | size u64, its highest bit: raft/store/kept_logs.py

The same pieces make up the file of all groups, and the heads of snapshots.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader, encode_membership, encode_text
from raft.core.codec import encode_meta, read_meta
from raft.core.messages import MemberId, Membership, SnapshotMeta
from storage.disk import Buffer
from storage.names import group_kept_log, group_segment

INSTALLED = 1  # a flag of RAFT_SNAPSHOT
KEPT_LOG = 1 << 63

_MEMBER = Struct("<Q")
_SNAPSHOT = Struct("<QQQ")
_COUNTS = Struct("<QI")
_SEGMENT = Struct("<QQQQQ")


class GroupIdentity(NamedTuple):
    """What a group's member on this node is, from the moment of its creation."""

    group: int
    member: MemberId
    name: str
    machine: str
    membership: Membership  # that it began with, before any entry


class SegmentRow(NamedTuple):
    """One sealed segment of a group. It may have gaps, and entries that were overwritten since."""

    number: int
    first: int
    last: int
    entries: int
    size: int  # of its file; of one whose entries lie in a log file that is kept, with the bit KEPT_LOG

    @property
    def keeps_log(self) -> bool:
        return bool(self.size & KEPT_LOG)

    @property
    def file_size(self) -> int:
        return self.size & ~KEPT_LOG

    def files(self, group: int) -> list[str]:
        kept = [group_kept_log(group, self.number)] if self.keeps_log else []
        return [group_segment(group, self.number), *kept]


class StoredSnapshot(NamedTuple):
    """A snapshot and where it is. File 0: there is none, the log begins with its first entry."""

    meta: SnapshotMeta
    first_index: int  # of the log behind it; lower than its own index + 1 when entries are kept for slow followers
    file: int
    size: int
    live: int  # how many entries at or below it count
    segments: tuple[SegmentRow, ...] = ()  # that came with it


def nothing_yet(identity: GroupIdentity) -> StoredSnapshot:
    return StoredSnapshot(SnapshotMeta(0, 0, identity.membership, 0), 1, 0, 0, 0)


def encode_member(member: MemberId) -> bytes:
    return _MEMBER.pack(member)


def decode_member(payload: Buffer) -> MemberId:
    reader = ByteReader(payload)
    member = reader.u64()
    reader.must_end()
    return member


def encode_identity(identity: GroupIdentity) -> bytes:
    _, member, name, machine, membership = identity
    return b"".join([_MEMBER.pack(member), encode_text(name), encode_text(machine), encode_membership(membership)])


def read_identity(group: int, reader: ByteReader) -> GroupIdentity:
    return GroupIdentity(group, reader.u64(), reader.text(), reader.text(), reader.membership())


def encode_snapshot(stored: StoredSnapshot) -> bytes:
    head = _SNAPSHOT.pack(stored.first_index, stored.file, stored.size)
    counts = _COUNTS.pack(stored.live, len(stored.segments))
    return b"".join([head, encode_meta(stored.meta), counts, *(encode_segment(row) for row in stored.segments)])


def read_snapshot(reader: ByteReader) -> StoredSnapshot:
    first_index, file, size = reader.fields(_SNAPSHOT)
    meta = read_meta(reader)
    live, count = reader.fields(_COUNTS)
    segments = tuple(read_segment(reader) for _ in range(count))
    return StoredSnapshot(meta, first_index, file, size, live, segments)


def encode_segment(row: SegmentRow) -> bytes:
    return _SEGMENT.pack(*row)


def read_segment(reader: ByteReader) -> SegmentRow:
    return SegmentRow(*reader.fields(_SEGMENT))

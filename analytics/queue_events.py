"""From pieces of log files to what has happened to each queue, in the form in which folds take it.

An event is one record of a classic queue, one entry of a replicated one, or what a node says of its member. Contents of
messages are not part of it. Records and entries, which are many, come from a kernel as columns (native/log_columns.py, EVENTS);
what nodes say of members and names is rare, and is read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from struct import error as struct_error
from typing import NamedTuple

from broker.names import BECOMING_PREFIX
from native.columns import Table, rows_at
from native.log_columns import events
from native.log_tables import FILE_BITS, RECORDS
from raft.core.byte_reader import ByteReader
from raft.core.codec import encode_meta
from raft.core.errors import BadBytes
from raft.core.messages import SnapshotMeta
from raft.store.group_records import read_identity
from replicated.local_members import QUEUE_GROUPS
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow, NameRow, decode_actor, decode_name
from storage.record import HEADER_BYTES, Kind

CLASSIC, QUORUM, STREAM = "classic", "quorum", "stream"  # the last two as groups of these queues call their machine
QUEUE_KINDS = (CLASSIC, QUORUM, STREAM)  # the catalog is a group, too, and has the number of a queue
CATALOG_GROUP = 1  # METADATA_GROUP of the broker, whose module needs what workers of Spark have not
SEGMENTS_BELOW = 1 << 62
STANDING_PLACE = 0  # of what nodes say of their members: before all entries

COUNTED_KINDS = frozenset(  # records of classic queues: the index of each is one more than that of the one before
    {
        Kind.CLASSIC_PUBLISH, Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE, Kind.CLASSIC_QUEUE_DELETED, Kind.CLASSIC_DONE,
        Kind.CLASSIC_BACK,
    }
)  # fmt: skip
CLASSIC_KINDS = COUNTED_KINDS | {Kind.CLASSIC_OUT, Kind.CLASSIC_CHECKPOINT}  # all that folds take
# What a node says of its member of a group: who it is, in which term, what it has committed, that it is gone.
STANDING_KINDS = frozenset(
    {
        Kind.RAFT_GROUP, Kind.RAFT_FACTS, Kind.RAFT_COMMIT, Kind.RAFT_SNAPSHOT, Kind.RAFT_RENUMBERED, Kind.RAFT_GROUP_REMOVED,
    }
)  # fmt: skip


class QueueEvent(NamedTuple):
    """One thing that happened to one queue."""

    queue: int
    place: int  # ascending in the queue: of a classic one where its record lies, of another the index of the entry
    term: int  # 0 of classic queues
    kind: int  # of the record
    at: int | None  # µs, of the mark before it; entries have a time of their own
    # Of a publish to a classic queue the first sequence; of an entry its kind; of what a node says of its member the entry up
    # to which it was committed, or where in the node's log the record lies; of a snapshot the size of its meta.
    first: int
    data: bytes
    size: int = 0  # of an entry whose contents were cut out of `data`; 0: nothing was
    durable: bool = True  # a mark says that it was fsynced
    written: int = (
        0  # of an entry where it lies in its node's log: what lies behind was written later. In segments below zero
    )
    node: str = ""  # whose log has it


def fold_order(event: QueueEvent) -> tuple[int, int]:
    """How folds take the events of one queue: by place, and behind the entries of one the snapshot that stands for it."""
    return event.place, -event.term


def snapshot_events(group: int, meta: SnapshotMeta, state: bytes) -> Iterator[QueueEvent]:
    """What a file says of a group that has a snapshot: it was committed, and the machine stood there like this."""
    head = encode_meta(meta)
    yield QueueEvent(group, STANDING_PLACE, meta.term, Kind.RAFT_SNAPSHOT, None, meta.index, b"")
    # Term 0: behind the entry of the same place, after which nothing has to begin anew.
    yield QueueEvent(group, meta.index, 0, Kind.RAFT_STATE, None, len(head), head + state)


class QueueName(NamedTuple):
    queue: int
    kind: str
    name: str  # with its virtual host


def queue_name(queue: int, row: NameRow) -> QueueName:
    return QueueName(queue, row.kind, name_for_clients(f"{row.vhost}/{row.name}" if row.vhost else row.name))


def name_for_clients(name: str) -> str:
    """With its virtual host. A quorum queue that a classic one became is in its log for ever under the name of before."""
    return name.replace(f"/{BECOMING_PREFIX}", "/", 1)


def note_name(names: dict[int, QueueName], one: QueueName) -> None:
    """The catalog's log, which each file may name, has the number of a classic queue: that is not the name of the queue."""
    if one.kind in QUEUE_KINDS or one.queue not in names:
        names[one.queue] = one


class ActorName(NamedTuple):
    """Who the actor of a number is, of the process that the row names."""

    number: int
    row: ActorRow
    place: int = 0  # where its record lies, as of an event of a classic queue


Said = QueueEvent | QueueName | ActorName
RARE_KINDS = sorted({*STANDING_KINDS, Kind.NAME, Kind.ACTOR})


def _one_of(kinds: Iterable[int]) -> re.Pattern[bytes]:
    return re.compile(b"[%s]" % b"".join(re.escape(bytes([kind])) for kind in kinds))


_RARE = _one_of(RARE_KINDS)
_RAREST = _one_of(kind for kind in RARE_KINDS if kind != Kind.RAFT_COMMIT)


def packed_groups(groups: Iterable[int]) -> bytes:
    """As kernels take them: u64, ascending. Columns have signed numbers, so in a damaged log some may be below zero."""
    return b"".join(group.to_bytes(8, "little") for group in sorted(group & (1 << 64) - 1 for group in groups))


class FileEvents:
    """What the records of one file say, piece by piece."""

    others: set[int]  # groups that are no quorum queues, as far as was read
    streams: set[int]  # those among them that are streams

    def __init__(
        self,
        number: int,
        durable: int | None = None,
        others: Iterable[int] = (),
        streams: Iterable[int] = (),
        *,
        is_segment: bool = False,
    ) -> None:
        """`number`: of the file. `durable`: so much of it is known to be durable; None: all. `others` and `streams`: as they
        were where reading goes on. `is_segment`: it is a segment of a group, not a file of the log."""
        self._number = number
        self.written_base = (number << FILE_BITS) - (SEGMENTS_BELOW if is_segment else 0)
        self._durable = durable
        self.others = set(others)
        self.streams = set(streams)

    def said(self, piece: ColumnPiece, *, with_commits: bool = True) -> list[Said]:
        """Names, and what nodes say of members. To be asked before `events`. A payload that does not fit its record's kind says
        nothing. Without commits, ten times a second of each group that is at work, the rest is next to nothing."""
        found: list[Said] = []
        rows = (row.start() for row in (_RARE if with_commits else _RAREST).finditer(piece.kinds()))
        for record in rows_at(RECORDS, piece.records, rows):
            start = record["offset"] - piece.base + HEADER_BYTES
            payload = memoryview(piece.buffer)[start : start + record["size"]]
            try:
                found += self._said(record, payload)
            except (ValueError, IndexError, BadBytes, struct_error):
                continue
        for name in found:
            if isinstance(name, QueueName) and name.kind != QUORUM:
                self.others.add(name.queue)
                if name.kind == STREAM and name.queue >= QUEUE_GROUPS:
                    self.streams.add(name.queue)
        return found

    def events(self, piece: ColumnPiece) -> Table:
        """Of queues, in the order of the records."""
        return events(piece.buffer, piece.base, piece.records, self._number, packed_groups(self.others))

    def is_durable(self, offset: int) -> bool:
        return self._durable is None or offset < self._durable

    def _said(self, record: dict[str, int], payload: memoryview) -> Iterator[Said]:
        kind, place = record["kind"], self._number << FILE_BITS | record["offset"]
        if kind == Kind.NAME:
            yield queue_name(record["index"], decode_name(payload))
            return
        if kind == Kind.ACTOR:
            yield ActorName(record["index"], decode_actor(payload), place)
            return
        group = record["writer"]
        if kind == Kind.RAFT_GROUP:
            identity = read_identity(group, ByteReader(payload))
            yield QueueName(identity.group, identity.machine, name_for_clients(identity.name))
        first = record["index"] if kind in (Kind.RAFT_COMMIT, Kind.RAFT_SNAPSHOT) else place
        data = bytes(payload) if kind in (Kind.RAFT_GROUP, Kind.RAFT_RENUMBERED) else b""
        durable = self.is_durable(record["offset"])
        yield QueueEvent(group, STANDING_PLACE, record["term"], kind, record["time"], first, data, 0, durable)

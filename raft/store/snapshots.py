"""Snapshots of a group's machine: as a file, and as the stream that a follower receives.

A file is records (storage/record.py) with the group as their writer:

    RAFT_SNAPSHOT      index and term of what it stands for; payload: meta (raft/core/codec.py)
    RAFT_LIVE          index 0; payload: the live entries (raft/core/live_entries.py)
    RAFT_STATE ...     index: the position of its first byte in the machine's state; payload: part of the state
    RAFT_SNAPSHOT_END  index: bytes of the state

The stream is the file, and then the live entries as RAFT_ENTRIES records, in their order. How they are cut into records
depends on nothing but the entries. So a stream that was begun may go on wherever the entries have moved meanwhile.

A file has a number of its own and is never written twice; it counts once the log, or the file of all groups, names it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from raft.core import packs
from raft.core.byte_reader import ByteReader
from raft.core.codec import encode_meta, read_meta
from raft.core.errors import BadBytes
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, SnapshotMeta
from raft.store.group_records import StoredSnapshot
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, StorageError
from storage.names import RAFT_DIRECTORY, group_snapshot, temporary
from storage.record import HEADER_BYTES, Kind, Record, encode
from storage.record_reader import Bytes, BytesInMemory, record_at

STATE_BYTES = 1 << 18  # in one record
# Read in one go, and what fills a record. Where each lay in a record of its own, 256 KiB of small ones were 2,000 reads, and
# held up the loop for 40 ms.
ENTRIES_MAX = 256

ReadEntries = Callable[
    [int, int], Sequence[Entry]
]  # live entries from an index on, up to, without, another: one or more


class Head(NamedTuple):
    """What a file begins with, and where its state does."""

    meta: SnapshotMeta
    live: LiveEntries
    state_at: int


def write(
    disk: Disk, group: int, number: int, meta: SnapshotMeta, live: LiveEntries, state: Sequence[Buffer]
) -> StoredSnapshot:
    """A new file, durable when this returns. Raises DiskFull and DiskFailed: then there is none."""
    name = group_snapshot(group, number)
    beside = temporary(name)
    with suppress(FileNotFoundError):  # of an attempt that a crash ended
        disk.delete(beside)
    file = disk.create(beside)
    size = 0
    try:
        for parts in _records(group, meta, live, state):
            file.write_at(size, parts)
            size += sum(map(len, parts))
        file.sync()
    except StorageError:
        with suppress(StorageError, FileNotFoundError):
            disk.delete(beside)
        raise
    finally:
        file.close()
    disk.rename(beside, name)
    disk.sync_dir(RAFT_DIRECTORY)
    return StoredSnapshot(meta, meta.index + 1, number, size, live.count)


def _records(group: int, meta: SnapshotMeta, live: LiveEntries, state: Sequence[Buffer]) -> Iterator[list[Buffer]]:
    yield encode(Kind.RAFT_SNAPSHOT, group, meta.index, [encode_meta(meta)], term=meta.term)
    yield encode(Kind.RAFT_LIVE, group, 0, [live.encode()])
    at = 0
    for part in state:
        view = memoryview(part)
        for start in range(0, len(view), STATE_BYTES):
            piece = view[start : start + STATE_BYTES]
            yield encode(Kind.RAFT_STATE, group, at, [piece])
            at += len(piece)
    yield encode(Kind.RAFT_SNAPSHOT_END, group, at, [])


def head(disk: Disk, group: int, stored: StoredSnapshot) -> Head:
    """Raises Corrupt, also when the file is missing or not the one that is `stored`."""
    name = group_snapshot(group, stored.file)
    file = _open(disk, name)
    try:
        size = file.size()
        found = _head(file, name, group, size)
        if found.meta != stored.meta or size != stored.size or found.live.count != stored.live:
            raise Corrupt(name, 0, size, f"it is snapshot {found.meta.index}, not {stored.meta.index}, or another size")
        return found
    finally:
        file.close()


def load_state(disk: Disk, group: int, stored: StoredSnapshot) -> bytes:
    """The machine's state. Raises Corrupt."""
    state_at = head(disk, group, stored).state_at
    name = group_snapshot(group, stored.file)
    file = _open(disk, name)
    try:
        parts, end = _state(file, name, group, state_at, stored.size)
        if end != stored.size:
            raise Corrupt(name, end, stored.size - end, "there is something behind its end")
        return b"".join(parts)
    finally:
        file.close()


def whole(disk: Disk, group: int, number: int) -> tuple[StoredSnapshot, LiveEntries] | None:
    """A file of which only the name is known, read to its end; None when it is not whole."""
    try:
        meta, live, size = read_whole(disk, group_snapshot(group, number), group)
    except Corrupt:
        return None
    return StoredSnapshot(meta, meta.index + 1, number, size, live.count), live


def read_whole(disk: Disk, name: str, group: int) -> tuple[SnapshotMeta, LiveEntries, int]:
    """What a file stands for and its size, when all of it is what was written. Raises Corrupt."""
    file = _open(disk, name)
    try:
        size = file.size()
        meta, live, _ = contents(file, name, group, size)
    finally:
        file.close()
    return meta, live, size


def read_state(disk: Disk, name: str, group: int) -> tuple[SnapshotMeta, bytes]:
    """What a file stands for, and the machine's state, for who finds it long after it counted. Raises Corrupt."""
    file = _open(disk, name)
    try:
        meta, _, state = contents(file, name, group, file.size())
        return meta, state
    finally:
        file.close()


def contents(file: Bytes, name: str, group: int, size: int) -> tuple[SnapshotMeta, LiveEntries, bytes]:
    """What a file stands for, which entries are live, and the machine's state: all of it is read. Raises Corrupt."""
    meta, live, state_at = _head(file, name, group, size)
    parts, end = _state(file, name, group, state_at, size)
    if end != size:
        raise Corrupt(name, end, size - end, "there is something behind its end")
    return meta, live, b"".join(parts)


def state_in(stream: bytes, group: int, meta: SnapshotMeta) -> bytes:
    """The machine's state in a snapshot as it is sent, of a machine that leaves nothing in the log. Raises Corrupt."""
    file, name = BytesInMemory(stream), "a snapshot in memory"
    found = _head(file, name, group, len(stream))
    if found.meta != meta or found.live.count:
        raise Corrupt(
            name, 0, found.state_at, f"it is snapshot {found.meta} with {found.live.count} entries, not {meta}"
        )
    parts, end = _state(file, name, group, found.state_at, len(stream))
    if end != len(stream):
        raise Corrupt(name, end, len(stream) - end, "there is something behind its end")
    return b"".join(parts)


def _open(disk: Disk, name: str) -> File:
    try:
        return disk.open(name)
    except FileNotFoundError as error:
        raise Corrupt(name, 0, 0, "the file is missing") from error


def _head(file: Bytes, name: str, group: int, size: int) -> Head:
    record, data = _next(file, name, group, 0, size, Kind.RAFT_SNAPSHOT)
    live_record, live_data = _next(file, name, group, len(data), size, Kind.RAFT_LIVE)
    try:
        reader = ByteReader(data, record[5], record[6])
        meta = read_meta(reader)
        reader.must_end()
        live = LiveEntries.decode(live_data[live_record[5] : live_record[6]])
    except BadBytes as error:
        raise Corrupt(name, 0, len(data) + len(live_data), str(error)) from error
    if (meta.index, meta.term) != (record[4], record[2]):
        raise Corrupt(name, 0, len(data), f"a snapshot of {meta.index} in the record of {record[4]}")
    return Head(meta, live, len(data) + len(live_data))


def _state(file: Bytes, name: str, group: int, at: int, size: int) -> tuple[list[bytes], int]:
    """The parts of the state, and the position behind the end record."""
    parts: list[bytes] = []
    length = 0
    while True:
        record, data = _next(file, name, group, at, size, Kind.RAFT_STATE, Kind.RAFT_SNAPSHOT_END)
        if record[4] != length:
            raise Corrupt(name, at, len(data), f"part {record[4]} of the state follows {length} bytes of it")
        at += len(data)
        if record[0] == Kind.RAFT_SNAPSHOT_END:
            return parts, at
        parts.append(data[record[5] : record[6]])
        length += record[6] - record[5]


def _next(file: Bytes, name: str, group: int, at: int, size: int, *kinds: Kind) -> tuple[Record, bytes]:
    record, data = record_at(file, name, at, size)
    if record[0] not in kinds or record[3] != group:
        raise Corrupt(name, at, len(data), f"a record of kind {record[0]} and group {record[3]} is not expected here")
    return record, data


class SnapshotStream:
    """One snapshot as it is sent, read at any offset. What it costs to begin does not depend on how long it is: the file is
    checked, and the live entries are cut into records, only as far as somebody has asked."""

    def __init__(
        self, disk: Disk, group: int, stored: StoredSnapshot, live: LiveEntries, read_entries: ReadEntries
    ) -> None:
        self.stored = stored
        self._group = group
        self._disk = disk
        self._read_entries = read_entries
        self._checked = 0  # bytes of the file, all of whole records
        self._firsts: list[int] = []  # of each record: its first entry
        self._ends: list[int] = []  # the entry behind its last
        self._starts: list[int] = []  # and where it begins in the stream
        self._planned = stored.size  # bytes of the stream that are cut already
        self._left = live.count  # entries that are not cut yet
        self._cutting = self._cut(live)  # each step is one more record: its entries and their bytes
        self._ahead: dict[
            int, Sequence[Entry]
        ] = {}  # entries of records that were cut for a read, and are encoded by it
        self._encoded: tuple[int, bytes] = (-1, b"")

    def measured(self) -> int:
        """Its bytes. Reads all live entries."""
        while self._left:
            self._add(*next(self._cutting))
        return self._planned

    def read(self, offset: int, size: int) -> tuple[bytes, bool]:
        """Up to `size` bytes, fewer at the end or of many entries, and whether they reach the end. Raises Corrupt: who receives
        a damaged file refuses it, and would be sent the same again for ever."""
        parts: list[bytes] = []
        taken = 0
        if offset < self.stored.size:
            parts.append(self._read_file(offset, min(size, self.stored.size - offset)))
            taken = len(parts[0])
        self._plan(offset, offset + size)
        while taken < size and offset + taken < self._planned:
            at = bisect_right(self._starts, offset + taken) - 1
            piece = self._record(at)[offset + taken - self._starts[at] :][: size - taken]
            parts.append(piece)
            taken += len(piece)
        return b"".join(parts), not self._left and offset + taken >= self._planned

    def _read_file(self, offset: int, size: int) -> bytes:
        name, end = group_snapshot(self._group, self.stored.file), self.stored.size
        if not self._checked:
            self._checked = head(self._disk, self._group, self.stored).state_at
        file = _open(self._disk, name)
        try:
            while self._checked < min(offset + size, end):
                kinds = (Kind.RAFT_STATE, Kind.RAFT_SNAPSHOT_END)
                self._checked += len(_next(file, name, self._group, self._checked, end, *kinds)[1])
            data = file.read_at(offset, size)
        finally:
            file.close()
        if len(data) < size:
            raise Corrupt(name, offset, size, "the file is too short")
        return data

    def _plan(self, begin: int, end: int) -> None:
        """Cut records until the stream is known beyond `end`, or beyond `begin` when they have many entries. Those from `begin`
        on are kept until that is read."""
        planned = 0
        while self._left and (self._planned <= begin or (self._planned <= end and planned < ENTRIES_MAX)):
            gathered, gathered_bytes = next(self._cutting)
            self._add(gathered, gathered_bytes)
            planned += len(gathered)
            if self._planned > begin:
                self._ahead[len(self._firsts) - 1] = gathered

    def _cut(self, live: LiveEntries) -> Iterator[tuple[list[Entry], int]]:
        """Cut the live entries into records, range by range."""
        for first, end in live.ranges():
            gathered: list[Entry] = []
            gathered_bytes = 0
            for entry in self._entries(first, end):
                if gathered and (
                    (entry.term, entry.kind) != (gathered[-1].term, gathered[-1].kind)
                    or gathered_bytes + len(entry.data) > packs.PACK_BYTES_MAX
                ):
                    yield gathered, gathered_bytes
                    gathered, gathered_bytes = [], 0
                gathered.append(entry)
                gathered_bytes += len(entry.data)
            yield gathered, gathered_bytes

    def _add(self, gathered: Sequence[Entry], gathered_bytes: int) -> None:
        self._firsts.append(gathered[0].index)
        self._ends.append(gathered[-1].index + 1)
        self._starts.append(self._planned)
        self._left -= len(gathered)
        self._planned += HEADER_BYTES + 4 + 4 * len(gathered) + gathered_bytes

    def _record(self, at: int) -> bytes:
        if self._encoded[0] != at:
            entries = self._ahead.pop(at, None) or list(self._entries(self._firsts[at], self._ends[at]))
            pack = packs.encode([entry.data for entry in entries])
            first = entries[0]
            parts = encode(Kind.RAFT_ENTRIES, self._group, first.index, [pack], first.kind, first.term)
            self._encoded = (at, b"".join(parts))
        return self._encoded[1]

    def _entries(self, first: int, end: int) -> Iterator[Entry]:
        while first < end:
            entries = self._read_entries(first, end)
            yield from entries
            first += len(entries)

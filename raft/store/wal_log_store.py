"""One group's part of the node's store: fulfils LogStore, and GroupStore of raft/store/member_store.py.

Entries that were appended lately are in memory (`_tail`, always the end of the log), within a bound for the whole node. All
others are read from where they are: the node's log, or segments. What changes anything goes through raft/store/node_log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raft.core.errors import BadBytes, Compacted, Damaged
from raft.core.live_entries import NONE_LIVE, LiveEntries
from raft.core.messages import Entry, MemberId, Membership, SnapshotChunk, SnapshotMeta
from raft.core.ready import Facts
from raft.store.entry_files import EntryInFile, entry_in_segments
from raft.store.group_log import GroupLog
from raft.store.group_records import GroupIdentity
from raft.store.incoming import Incoming
from raft.store.member_store import Durability
from raft.store.segments import OpenSegments, read_segments, unreadable, wanted_of
from raft.store.snapshots import SnapshotStream, load_state
from storage.disk import Buffer, Disk
from storage.errors import Corrupt
from storage.wal.log_core import Location

Done = Callable[[bool], None]
Installed = Callable[[bytes | None], None]

# Records, each of which is read by itself and takes 6 µs beside the calls of the system. Where every commit was of one small
# message, 256 KiB for a member that catches up are 2,000 of them: tens of milliseconds, in one turn of its leader.
READS_MAX = 64


class SharedLog(Protocol):
    """What all groups of a node share."""

    disk: Disk
    open_segments: OpenSegments
    commits: dict[int, int]  # groups whose commit index has moved, and to where

    @property
    def log(self) -> Durability: ...

    def entries_at(self, group: int, location: Location, first: int, term: int, kind: int) -> Sequence[Entry]: ...

    def entry_in_log(self, group: int, index: int, location: Location) -> EntryInFile | None: ...

    def append(self, store: WalLogStore, facts: Facts | None, entries: Sequence[Entry]) -> int: ...

    def save_snapshot(
        self,
        store: WalLogStore,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries,
        done: Done,
        *,
        keeps_recent: bool,
    ) -> None: ...

    def receive(self, store: WalLogStore, chunk: SnapshotChunk) -> None: ...

    def install(self, store: WalLogStore, meta: SnapshotMeta, done: Installed) -> None: ...


class WalLogStore:
    """See the module."""

    __slots__ = ("_node", "_stream", "_tail", "incoming", "log")

    def __init__(self, node: SharedLog, log: GroupLog) -> None:
        self.log = log
        self.incoming: Incoming | None = None  # a snapshot that is being received
        self._node = node
        self._tail: list[Entry] = []
        self._stream: SnapshotStream | None = None  # of the newest snapshot, if a follower asked for it

    @property
    def identity(self) -> GroupIdentity:
        return self.log.identity

    @property
    def member(self) -> MemberId:
        return self.log.identity.member

    # LogStore

    def facts(self) -> Facts:
        return self.log.facts

    def snapshot(self) -> SnapshotMeta:
        return self.log.snapshot.meta

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        return self.log.memberships

    def first_index(self) -> int:
        return self.log.first

    def last_index(self) -> int:
        return self.log.last

    def term(self, index: int) -> int:
        return self.log.term(index)

    def entries(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        log = self.log
        if low < log.first:
            raise Compacted(low, log.first)
        assert low < high <= log.last + 1, f"entries {low} to {high - 1} of a log from {log.first} to {log.last}"
        found: list[Entry] = []
        for _ in range(READS_MAX):
            if low == high or (bytes_max <= 0 and found):
                break
            for entry in self._run(low, high):
                bytes_max -= len(entry.data)
                if bytes_max < 0 and found:
                    break
                found.append(entry)
            low = found[0].index + len(found)
        return found

    def snapshot_size(self) -> int:
        """Bytes of the newest snapshot as it is sent. Reads every live entry: for looking at it, not for sending it."""
        return self._sent().measured()

    def read_snapshot(self, index: int, offset: int, size: int) -> tuple[bytes, bool] | None:
        if self.log.snapshot.meta.index != index or self.log.snapshot.file == 0:
            return None
        try:
            return self._sent().read(offset, size)
        except Corrupt as error:
            raise Damaged(str(error)) from error

    # GroupStore

    @property
    def durability(self) -> Durability:
        return self._node.log

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        return self._node.append(self, facts, entries)

    def save_snapshot(
        self,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries | None,
        done: Done,
        *,
        keeps_recent: bool = True,
    ) -> None:
        self._node.save_snapshot(self, meta, state, live or NONE_LIVE, done, keeps_recent=keeps_recent)

    def note_committed(self, index: int) -> None:
        self._node.commits[self.log.identity.group] = index

    def receive(self, chunk: SnapshotChunk) -> None:
        self._node.receive(self, chunk)

    def install(self, meta: SnapshotMeta, done: Installed) -> None:
        self._node.install(self, meta, done)

    def load_state(self) -> bytes:
        """Raises Damaged."""
        assert self.log.snapshot.file, f"group {self.identity.group} has no snapshot"
        try:
            return load_state(self._node.disk, self.identity.group, self.log.snapshot)
        except Corrupt as error:
            raise Damaged(str(error)) from error

    def read_entry(self, index: int) -> bytes:
        """The data of one entry, also of a live one below first_index(). Raises Damaged."""
        assert self.log.counts(index), f"entry {index} of group {self.identity.group} does not count any more"
        return self._run(index, index + 1)[0].data

    def entry_in_file(self, index: int) -> EntryInFile | None:
        """See MemberStore. Raises Damaged."""
        assert self.log.counts(index), f"entry {index} of group {self.identity.group} does not count any more"
        if self._tail and index >= self._tail[0].index:
            return None
        rows = self.log.rows
        at = rows.find(index) if rows is not None else -1
        try:
            if rows is None or at < 0:
                return entry_in_segments(self._node.open_segments, wanted_of(self.log), index)
            alone = rows.first[at] == index
            return self._node.entry_in_log(self.identity.group, index, rows.location(at)) if alone else None
        except Corrupt as error:
            raise unreadable(self.identity.group, index, error) from error

    # what is kept in memory

    def remember(self, entries: Sequence[Entry]) -> None:
        """These were appended, and are the end of the log."""
        tail = self._tail
        if tail and tail[-1].index >= entries[0].index:
            del tail[max(0, entries[0].index - tail[0].index) :]
        tail.extend(entries)

    def forget(self, index: int) -> None:
        """Entries up to this one are read from files from now on."""
        if self._tail:
            del self._tail[: max(0, index + 1 - self._tail[0].index)]

    def forget_all(self) -> None:
        """The log is another one: a snapshot was installed."""
        self._tail = []
        self._stream = None

    # reading

    def _run(self, index: int, end: int) -> Sequence[Entry]:
        """Entries that lie together, from this one on: at least one, none from `end` on. Raises Damaged."""
        tail = self._tail
        if tail and index >= tail[0].index:
            return tail[index - tail[0].index : end - tail[0].index]
        rows = self.log.rows
        at = rows.find(index) if rows is not None else -1
        try:
            if rows is None or at < 0:
                return read_segments(self._node.open_segments, wanted_of(self.log), index, end)[0]
            stop = min(end, rows.first[at + 1]) if at + 1 < len(rows) else end
            first = rows.first[at]
            group = self.identity.group
            entries = self._node.entries_at(group, rows.location(at), first, rows.term[at], rows.kind[at])
            return entries[index - first : stop - first]
        except (Corrupt, BadBytes) as error:
            raise unreadable(self.identity.group, index, error) from error

    def _sent(self) -> SnapshotStream:
        """The newest snapshot, as it is sent."""
        stored = self.log.snapshot
        if self._stream is None or self._stream.stored != stored:
            self._stream = SnapshotStream(self._node.disk, self.identity.group, stored, self.log.live, self._run)
        return self._stream

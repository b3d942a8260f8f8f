"""All groups' logs on one node, in the node's one log: RaftStore.

What a group appends goes to the log, with everybody else's, and is durable with that commit. A log file that is full is
let go once nobody needs it: what still counts of it is moved to segments, and what all groups were at its end goes to
raft/store/groups_file.py. The order is always the same, so that a crash after any step leaves nothing unreadable and nothing
missing:

    to settle a lost log      the groups' file with new members, durable; a new log with nothing in it, durable; go on
    to release a log file     segments with what counts of it, or its second name, durable; the groups' file, durable; release
    to take a snapshot        its file, durable; a record in the log
    to install a snapshot     its file and segments, durable; a record in the log, durable; the machine takes it
    to delete a segment       what it lived for is superseded, durably; the groups' file without it, durable; delete
    to delete a snapshot      the record of the next one, durable; delete

The state of a group at the end of a log file is taken at the moment when the first record behind it is appended, for those
groups that changed. What counts is looked at later, when a job begins, and only what is durable by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from typing import Protocol

from raft.core import membership, packs
from raft.core.errors import Damaged, RaftError, ReadmittedEarly, Superseded
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, MemberId, SnapshotChunk, SnapshotMeta
from raft.core.ready import Facts
from raft.store.entry_files import EntryInFile, large_entry
from raft.store.group_log import GroupLog
from raft.store.group_records import (
    INSTALLED,
    GroupIdentity,
    SegmentRow,
    StoredSnapshot,
    encode_identity,
    encode_member,
    encode_snapshot,
)
from raft.store.groups_file import GroupsFile
from raft.store.incoming import Incoming, SnapshotAssembly
from raft.store.jobs import Job, Jobs
from raft.store.log_replay import LogFilesByName, LogReplay, files_of
from raft.store.moving import Compact, Delete, Flush, GroupDamaged, Loss, Renumber
from raft.store.replicas import NewReplica, successor
from raft.store.segments import OpenSegments
from raft.store.snapshot_jobs import DropSnapshot, Install, SaveSnapshot, TakePart
from raft.store.store_limits import StoreLimits
from raft.store.wal_log_store import Done, Installed, WalLogStore
from storage import names
from storage.beside_loop import Background
from storage.disk import Buffer, Disk
from storage.errors import Corrupt, StorageError
from storage.history.file_names import FileNames
from storage.interval import Interval
from storage.record import HEADER_BYTES, Kind
from storage.wal.file_reader import Chunk
from storage.wal.log_core import Location, LogEnd
from storage.wal.log_users import LogShare
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter

ENTRY_BYTES = 120  # what an entry costs in memory beside its data
COMMITS_PER_TICK_MAX = 500  # of that many groups a tick says up to where they are committed: a millisecond of the loop


class SnapshotKeeper(Protocol):
    """Who keeps snapshots that were replaced, for readers: storage/archive/archive.py."""

    def keep_snapshot(self, group: int, name: str) -> None:
        """This snapshot of the group is deleted next. Raises StorageError, FileNotFoundError."""


class RaftStore:
    """See the module. Fulfils GroupStores of raft/store/group_stores.py."""

    name = "raft"

    def __init__(
        self,
        disk: Disk,
        limits: StoreLimits,
        background: Background,
        new_replica: NewReplica,
        found: Callable[[str], None],
    ) -> None:
        self.disk = disk
        self.limits = limits
        self.open_segments = OpenSegments(disk, limits.open_segments_max)
        self.stores: dict[int, WalLogStore] = {}
        self.renumbered: list[int] = []  # groups that were found broken at this start
        self.keeper: SnapshotKeeper | None = None
        self.failed: str | None = None  # why log files are no more let go
        self.names: FileNames | None = None  # says in each log file what its groups are called
        self.on_damaged: Callable[[int, Damaged], None] | None = None  # told of damage that work beside the loop met
        self._found = found
        self._new_replica = new_replica
        self._replay: LogReplay | None = LogReplay(disk, new_replica, found, limits.of_segments)
        self._start_files = LogFilesByName(disk)
        self._begins_log = False
        self._log: LogWriter | None = None
        self._jobs = Jobs(background, lambda: self.log.durable, self._job_failed)
        self._file = 0  # of the log, that the last record went to
        self._last_ticket = 0  # of what was appended last
        self._dirty: dict[int, None] = {}  # groups that changed since the last file ended
        self.ends: deque[tuple[int, dict[int, bytes]]] = deque()  # what groups were at the end of files that are kept
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()  # by ticket
        self._recent: deque[tuple[WalLogStore, int, int]] = deque()  # entries in memory: group, up to, bytes
        self._recent_bytes = 0
        self._last_pack: tuple[Location, Sequence[Entry]] = (Location(0, 0, 0), ())
        self.untidy: dict[int, None] = {}  # groups whose segments may be dead or sparse
        self.dead_files: list[str] = []  # segments that no group names; the file of groups may
        self.commits: dict[int, int] = {}  # groups whose commit index has moved since the log said so, and to where
        self._compaction = Interval(self.limits.compaction_interval_ms)
        self._parts = count()  # of snapshots that are received; the numbers of their files
        self._installed: dict[int, int] = {}  # log file with the record of a group's newest installed snapshot

    # start

    def recover(self, replay: Replay, chunks: Iterator[Chunk], log_first_file: int) -> Iterator[Chunk]:
        """Read the log, and hand it on to others. `log_first_file` is what the log's facts say."""
        assert self._replay is not None, "the log was read already"
        return self._replay.watch(replay, chunks, log_first_file)

    def finish(self, end: LogEnd) -> None:
        """The replay is finished, and the log will go on in the file behind `end`. Raises Corrupt, DiskFull, DiskFailed."""
        replay = self._replay
        assert replay is not None, "the replay was finished already"
        replay.finish(end.file_number)
        self._replay = None
        self.groups_file = replay.groups_file
        self.renumbered = replay.renumbered
        self._begins_log = replay.log_is_gone
        self._installed = replay.installed
        for group, log in replay.logs.items():
            self.stores[group] = WalLogStore(self, log)
        self._file = end.file_number
        self._dirty = {group: None for group in replay.touched if group in self.stores}

    def attach(self, log: LogWriter, share: LogShare) -> None:
        """Go on in this log. Where that of before was found gone, blocks until a new one is begun. Raises DiskFailed."""
        if self._begins_log:
            log.commit_now()  # the next start must find a log; as long as it does not, it takes this one for gone again
        self._log = log
        self.share = share
        self._start_files.close()
        log.when_durable(self._durable)
        log.when_rolled(self._rolled)
        self._end_of_file(self._file + 1)
        share.release(self.groups_file.first_file)
        self._jobs.add(Flush(self))

    @property
    def log(self) -> LogWriter:
        assert self._log is not None, "the log is not attached yet"
        return self._log

    def tick(self, now_ms: int) -> None:
        self._jobs.tick(now_ms)
        self._log_commits()
        if self._jobs.free and (self.untidy or self.dead_files) and self._compaction.due(now_ms):
            self._jobs.add(Compact(self))

    def _log_commits(self) -> None:
        """Lazily: readers of the log want to know it, and nothing here does."""
        if self.commits and self.log.failed is None:
            for group in list(islice(self.commits, COMMITS_PER_TICK_MAX)):
                index = self.commits.pop(group)
                if group in self.stores:
                    self.log.append_lazy(Kind.RAFT_COMMIT, group, index, ())

    @property
    def idle(self) -> bool:
        """Whether no work is under way or waits, nor what is to follow when the log is durable."""
        return self._jobs.idle and not self._waiting

    # groups

    def group(self, group: int) -> WalLogStore:
        """Raises KeyError when there is none here."""
        return self.stores[group]

    def create_group(self, identity: GroupIdentity) -> int:
        """Returns the ticket with which it is durable. Its member's number must never have been another's."""
        group = identity.group
        assert group not in self.stores, f"group {group} is here already"
        ticket = self._append(Kind.RAFT_GROUP, group, 0, encode_identity(identity))
        self.stores[group] = WalLogStore(self, GroupLog(identity))
        return ticket

    def remove_group(self, group: int) -> int:
        """The group, and all it has here. Returns the ticket with which it is gone; its files go later."""
        ticket = self._append(Kind.RAFT_GROUP_REMOVED, group, 0, b"")
        store = self.stores.pop(group)
        self._dirty.pop(group, None)
        self.untidy.pop(group, None)
        self._installed.pop(group, None)
        self._drop_incoming(store)
        store.forget_all()
        self._let_go(group, files_of(store.log), None)
        return ticket

    def repair(self, group: int, damage: Damaged, done: Callable[[MemberId], None]) -> None:
        """A member, which takes part no more, could not read what it had stored. It becomes another one, that keeps what
        stands before the damage and that the others repair. `done` is told the new member when it is durable, unless the
        group was removed meanwhile, also where it is here again by then."""
        heard = damage.later if isinstance(damage, Superseded) else 0
        loss = Loss(max(0, damage.index - 1), str(damage), heard, is_fault=not isinstance(damage, ReadmittedEarly))
        self._jobs.add(Renumber(self, self.stores[group], loss, done))

    def renumber_now(
        self, store: WalLogStore, loss: Loss, aside: Sequence[str], done: Callable[[MemberId], None]
    ) -> None:
        group, old = store.identity.group, store.member
        if self.stores.get(group) is not store:
            return
        member = successor(old, self._new_replica, loss.heard)
        before = files_of(store.log)
        ticket = self._append(Kind.RAFT_RENUMBERED, group, loss.last_good, encode_member(member))
        store.log.renumbered(member, loss.last_good)
        store.forget_all()
        self._drop_incoming(store)
        self._let_go(group, before, store.log)
        if loss.is_fault:
            self._found(loss.told(store, old, aside))
        self._when_durable_here(store, ticket, partial(done, member))
        self._jobs.add(Flush(self))  # the damage may have kept log files from being let go

    # what groups append

    def append(self, store: WalLogStore, facts: Facts | None, entries: Sequence[Entry]) -> int:
        """Returns the ticket. Raises DiskFailed."""
        log, group = store.log, store.log.identity.group
        ticket = self._last_ticket
        if facts is not None:
            assert facts.term >= log.facts.term, f"term {facts.term} after {log.facts.term}"
            ticket = self._append(Kind.RAFT_FACTS, group, 0, encode_member(facts.vote), term=facts.term)
            log.facts = facts
        if not entries:
            return ticket
        problem = log.problem(entries[0].index, entries[0].term)
        assert problem is None, f"group {group}: {problem}"
        size = 0
        if self.names is not None:
            self.names.group(group, log.identity.machine, log.identity.name)
        for pack in packs.packs_of(entries):
            location = self._place(Kind.RAFT_ENTRIES, group, pack.first, pack.parts, pack.kind, pack.term)
            log.append(pack.first, pack.entry_count, pack.term, pack.kind, location)
            size += pack.size
            if pack.kind == EntryKind.MEMBERSHIP:
                for entry in entries[pack.first - entries[0].index :][: pack.entry_count]:
                    log.note_membership(entry.index, membership.decode(entry.data))
        self._remember(store, entries, size)
        return self._last_ticket

    def entries_at(self, group: int, location: Location, first: int, term: int, kind: int) -> Sequence[Entry]:
        """Those of the pack that lies in the log there. Entries are often asked for one after another, so the last pack is
        kept. Raises Corrupt, BadBytes."""
        if self._last_pack[0] != location:
            self._last_pack = (location, packs.decode(first, term, kind, self._read_log(group, first, location)))
        return self._last_pack[1]

    def entry_in_log(self, group: int, index: int, location: Location) -> EntryInFile | None:
        """A large entry that begins the pack there. None: it has to be read."""
        file = self._log.file_of(location) if self._log is not None else None
        if file is None:
            return None
        name, start = names.log_file(location.file_number), location.offset - HEADER_BYTES
        return large_entry(group, index, name, file, start, HEADER_BYTES + location.size)

    def _read_log(self, group: int, first: int, location: Location) -> Buffer:
        if self._log is None:
            return self._start_files.read_of(group, first, location)
        try:
            return self._log.read_of(group, first, location)
        except FileNotFoundError as error:
            name = names.log_file(location.file_number)
            raise Corrupt(name, location.offset, location.size, "the file is missing") from error

    def _append(self, kind: Kind, group: int, index: int, payload: bytes, flags: int = 0, term: int = 0) -> int:
        self._place(kind, group, index, [payload], flags, term)
        return self._last_ticket

    def _place(self, kind: Kind, group: int, index: int, parts: Sequence[Buffer], flags: int, term: int) -> Location:
        ticket = self.log.gathering
        location = self.log.append(kind, group, index, parts, flags, term)
        if location.file_number != self._file:
            self._end_of_file(location.file_number)
        self._dirty[group] = None
        self._last_ticket = ticket
        return location

    def _remember(self, store: WalLogStore, entries: Sequence[Entry], size: int) -> None:
        store.remember(entries)
        size += ENTRY_BYTES * len(entries)
        self._recent.append((store, entries[-1].index, size))
        self._recent_bytes += size
        if self._recent_bytes <= self.limits.memory_bytes_max:
            return
        forgotten: dict[WalLogStore, int] = {}
        while self._recent and self._recent_bytes > self.limits.memory_bytes_max * 3 // 4:
            old, index, size = self._recent.popleft()
            forgotten[old] = index
            self._recent_bytes -= size
        for old, index in forgotten.items():
            old.forget(index)

    # the end of log files

    def _end_of_file(self, following: int) -> None:
        """The next record goes to file `following`: note what the groups are before it."""
        states = {group: self.stores[group].log.encode() for group in self._dirty if group in self.stores}
        self.ends.append((following - 1, states))
        self._dirty = {}
        self._file = following

    def _rolled(self, number: int) -> None:
        if self._file <= number:
            self._end_of_file(number + 1)
        if not self._jobs.lacks_room:  # a Flush that was tried before takes this file along
            self._jobs.add(Flush(self))

    def next_number(self) -> int:
        """Of a file of a group."""
        self.groups_file.next_number += 1
        return self.groups_file.next_number - 1

    # snapshots

    def save_snapshot(
        self,
        store: WalLogStore,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries,
        done: Done,
        *,
        keeps_recent: bool,
    ) -> None:
        assert meta.index <= store.log.last, f"snapshot {meta.index} of a log up to {store.log.last}"
        self._jobs.add(SaveSnapshot(self, store, meta, state, live, done, keeps_recent=keeps_recent))

    def snapshot_saved(
        self, store: WalLogStore, stored: StoredSnapshot, live: LiveEntries, *, keeps_recent: bool
    ) -> bool:
        """Its file is durable. Returns whether it is the newest: one that was installed meanwhile stays."""
        log, group, index = store.log, store.identity.group, stored.meta.index
        if self.stores.get(group) is not store or not log.snapshot.meta.index < index <= log.last:
            self.dead_files.append(names.group_snapshot(group, stored.file))
            return False
        stored = stored._replace(first_index=log.first_of_recent(index, self.limits) if keeps_recent else index + 1)
        ticket = self._append(Kind.RAFT_SNAPSHOT, group, index, encode_snapshot(stored), term=stored.meta.term)
        old = log.snapshot.file
        log.snapshot_taken(stored, live)
        self.untidy[group] = None
        if old:
            self._when_durable(ticket, partial(self._delete_snapshot, group, old))
        return True

    def receive(self, store: WalLogStore, chunk: SnapshotChunk) -> None:
        try:
            if chunk.offset == 0:
                self._drop_incoming(store)  # it is begun anew
                store.incoming = self._new_incoming(store.identity.group)
            if store.incoming is not None:
                self._take_part(store.incoming, store.incoming.add(chunk.offset, chunk.data))
        except StorageError as error:
            self._found(f"a snapshot of group {store.identity.group} cannot be received: {error}")
            self._drop_incoming(store)

    def _new_incoming(self, group: int) -> Incoming:
        assembly = SnapshotAssembly(self.disk, group, self.next_number, self.limits.of_segments)
        return Incoming(self.disk, group, self._parts, self.limits.snapshot_part_bytes, assembly)

    def _take_part(self, incoming: Incoming, part: str | None) -> None:
        if part is not None:
            self._jobs.add(TakePart(self, incoming.assembly, part))

    def install(self, store: WalLogStore, meta: SnapshotMeta, done: Installed) -> None:
        incoming, store.incoming = store.incoming, None
        if incoming is None:
            done(None)
            return
        self._take_part(incoming, incoming.end_part())
        self._jobs.add(Install(self, store, meta, incoming.assembly, done))

    def snapshot_received(
        self, store: WalLogStore, stored: StoredSnapshot, live: LiveEntries, done: Callable[[], None]
    ) -> bool:
        """Its files are durable. Returns whether it will count; then `done` is called when it does, durably, unless the group
        was removed meanwhile, also where it is here again by then."""
        log, group, meta = store.log, store.identity.group, stored.meta
        if self.stores.get(group) is not store or log.snapshot.meta.index >= meta.index:
            self.dead_files.append(names.group_snapshot(group, stored.file))
            self.dead_files += [name for row in stored.segments for name in row.files(group)]
            return False
        before = files_of(log)
        ticket = self._append(Kind.RAFT_SNAPSHOT, group, meta.index, encode_snapshot(stored), INSTALLED, meta.term)
        self._installed[group] = self._file
        log.snapshot_installed(stored, live)
        store.forget_all()
        self._let_go(group, before, log)
        self._when_durable_here(store, ticket, done)
        return True

    def not_installed(self, store: WalLogStore, why: str) -> None:
        self._found(f"a snapshot of group {store.identity.group} was received and cannot be used: {why}")

    def must_keep_segments(self, group: int) -> bool:
        """Whether a replay would look for the segments that came with a snapshot."""
        return self._installed.get(group, 0) >= self.groups_file.first_file

    def save_groups(
        self, first_file: int, states: dict[int, bytes], segments: dict[int, tuple[SegmentRow, ...]]
    ) -> None:
        """For jobs: may block. Raises DiskFull, DiskFailed."""
        now = self.groups_file
        new = GroupsFile(now.generation + 1, first_file, now.next_number, states, segments)
        new.save(self.disk)
        self.groups_file = new

    def delete(self, gone: Sequence[str]) -> None:
        """Soon: files that neither a group nor the file of groups names."""
        self._jobs.add(Delete(self, gone))

    def _let_go(self, group: int, before: Sequence[str], log: GroupLog | None) -> None:
        """Files of a group that it does not name any more. Open ones would keep their room on the disk without a name."""
        named = files_of(log) if log is not None else ()
        self.dead_files += sorted(set(before) - set(named))
        self.open_segments.keep_only(group, {row.number for row in log.segments} if log is not None else ())

    def _drop_incoming(self, store: WalLogStore) -> None:
        """What was received is of no use."""
        incoming, store.incoming = store.incoming, None
        if incoming is not None:
            incoming.drop()
            self._jobs.add(DropSnapshot(self, incoming.assembly))

    # durability

    @property
    def last_ticket(self) -> int:
        """Once it is durable, everything is that groups have appended until now."""
        return self._last_ticket

    def _when_durable(self, ticket: int, call: Callable[[], None]) -> None:
        self._waiting.append((ticket, call))

    def _when_durable_here(self, store: WalLogStore, ticket: int, call: Callable[[], None]) -> None:
        """Not where the group was removed meanwhile: what is here by then under its number is another one."""

        def durable() -> None:
            if self.stores.get(store.identity.group) is store:
                call()

        self._when_durable(ticket, durable)

    def _durable(self, ticket: int) -> None:
        while self._waiting and self._waiting[0][0] <= ticket:
            self._waiting.popleft()[1]()
        self._jobs.go_on()

    def _delete_snapshot(self, group: int, number: int) -> None:
        """One that nothing names any more. If it stays, the next start deletes it."""
        name = names.group_snapshot(group, number)
        try:
            if self.keeper is not None:
                self.keeper.keep_snapshot(group, name)
            self.disk.delete(name)
        except (StorageError, FileNotFoundError) as error:
            self._found(f"{name} cannot be deleted: {error}")

    def _job_failed(self, job: Job, error: Exception) -> None:
        """Where an entry of a group is damaged, that group is repaired. Otherwise nothing is released or deleted any more: the
        log keeps what could not be made durable elsewhere."""
        if isinstance(error, GroupDamaged) and self.on_damaged is not None:
            self.on_damaged(error.group, error.damage)
            return
        if not isinstance(error, StorageError | RaftError):
            raise error
        self.failed = f"{type(job).__name__}: {error}"
        self._found(f"groups' files cannot be made durable, the log keeps everything from now on: {error}")
        self._jobs.stop()

    def close(self) -> None:
        """After the log was closed."""
        self._jobs.stopped = True
        self.open_segments.close()
        for store in self.stores.values():
            if store.incoming is not None:
                store.incoming.end_part()

"""The jobs of raft/store/node_log.py: what is written to files beside the log. The order within each is told there.

What a job uses from its plan on does not change any more, or is changed by jobs only. So its work may run beside the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from raft.core.errors import Damaged, RaftError
from raft.core.live_entries import LiveEntries
from raft.core.messages import MemberId, shown
from raft.store.group_records import SegmentRow, StoredSnapshot
from raft.store.groups_file import GroupsFile
from raft.store.kept_logs import worth_keeping
from raft.store.log_replay import LogFilesByName, RowsToMove, add_rows, by_log_file, files_of, kept_packs, rows_to_move
from raft.store.segments import OpenSegments, SegmentBuilder, Wanted, rewrite, wanted_of
from raft.store.store_limits import SegmentBounds, StoreLimits
from raft.store.wal_log_store import WalLogStore
from storage import names
from storage.disk import Disk
from storage.errors import Exhausted, StorageError
from storage.quarantine import quarantine
from storage.wal.log_users import LogShare
from storage.wal.writer import LogWriter

Segments = dict[int, tuple[SegmentRow, ...]]


class StoreOfJobs(Protocol):
    """What jobs use of the node's store, and what it is told at their end."""

    disk: Disk
    limits: StoreLimits
    stores: dict[int, WalLogStore]
    groups_file: GroupsFile
    open_segments: OpenSegments
    share: LogShare
    ends: deque[tuple[int, dict[int, bytes]]]
    untidy: dict[int, None]
    dead_files: list[str]

    @property
    def log(self) -> LogWriter: ...

    @property
    def last_ticket(self) -> int: ...

    def next_number(self) -> int: ...

    def must_keep_segments(self, group: int) -> bool: ...

    def save_groups(self, first_file: int, states: dict[int, bytes], segments: Segments) -> None: ...

    def delete(self, gone: Sequence[str]) -> None: ...

    def snapshot_saved(
        self, store: WalLogStore, stored: StoredSnapshot, live: LiveEntries, *, keeps_recent: bool
    ) -> bool: ...

    def snapshot_received(
        self, store: WalLogStore, stored: StoredSnapshot, live: LiveEntries, done: Callable[[], None]
    ) -> bool: ...

    def not_installed(self, store: WalLogStore, why: str) -> None: ...

    def renumber_now(
        self, store: WalLogStore, loss: Loss, aside: Sequence[str], done: Callable[[MemberId], None]
    ) -> None: ...


def segments_of_all(node: StoreOfJobs) -> Segments:
    return {group: store.log.segments for group, store in node.stores.items() if store.log.segments}


class GroupDamaged(RaftError):
    """Raised by a job that met an entry of a group which is not what was written."""

    def __init__(self, group: int, damage: Damaged) -> None:
        super().__init__(str(damage))
        self.group = group
        self.damage = damage


class Flush:
    """Moves what counts out of full log files, and lets these go."""

    def __init__(self, node: StoreOfJobs) -> None:
        self._node = node
        self._moved: list[tuple[WalLogStore, RowsToMove]] = []
        self._rows: list[tuple[SegmentRow, ...]] = []
        self._states: dict[int, bytes] = {}
        self._segments: Segments = {}
        self._files: list[str] = []  # that this attempt has begun
        self._file = 0

    def plan(self) -> int | None:
        node = self._node
        newest = node.log.files().stop - 2 - node.limits.log_files_kept
        ends = [end for end in node.ends if end[0] <= newest]
        if not ends:
            return None
        self._file = ends[-1][0]
        self._states = {group: state for group, state in node.groups_file.states.items() if group in node.stores}
        for _, states in ends:
            self._states.update((group, state) for group, state in states.items() if group in node.stores)
        self._segments = segments_of_all(node)
        self._moved = [
            (store, moved)
            for store in node.stores.values()
            if (moved := rows_to_move(store.log, self._file)) is not None
        ]
        return node.last_ticket

    def work(self) -> None:
        node, disk = self._node, self._node.disk
        self._rows, self._files = [], []
        log_files = LogFilesByName(disk)
        try:
            for _, moved in self._moved:
                group = moved.wanted.group
                builder = SegmentBuilder(disk, group, node.next_number, node.limits.of_segments)
                try:
                    for part in by_log_file(moved):
                        self._keep_or_copy(builder, part, log_files)
                    self._rows.append(tuple(builder.finish()))
                except Damaged as error:
                    raise GroupDamaged(group, error) from error
                finally:
                    builder.close()
                    self._files += builder.files
                self._segments[group] = (*self._segments.get(group, ()), *self._rows[-1])
        finally:
            log_files.close()
        if any(self._rows):
            disk.sync_dir(names.RAFT_DIRECTORY)
        node.save_groups(self._file + 1, self._states, self._segments)

    def _keep_or_copy(self, builder: SegmentBuilder, part: RowsToMove, log_files: LogFilesByName) -> None:
        number, packs = part.rows.file[0], kept_packs(part)
        worth = worth_keeping(packs, log_files.size(number), self._node.limits.kept_pack_bytes_min)
        if not (worth and builder.keep_log(number, packs)):
            add_rows(builder, part, log_files)

    def end(self) -> None:
        node = self._node
        for (store, moved), rows in zip(self._moved, self._rows, strict=True):
            if node.stores.get(moved.wanted.group) is store:
                store.log.moved_out(self._file, rows)
            else:
                node.dead_files += [name for row in rows for name in row.files(moved.wanted.group)]
        while node.ends and node.ends[0][0] <= self._file:
            node.ends.popleft()
        node.share.release(self._file + 1)

    def full(self) -> bool:
        """The file of groups may name these already: they go with the next compaction."""
        self._node.dead_files += self._files
        self._files = []
        return True


class Tidied(NamedTuple):
    """A group with segments that are to be rewritten or deleted."""

    store: WalLogStore
    wanted: Wanted
    victims: list[SegmentRow]


class Compact:
    """Deletes segments of which nothing counts, rewrites those of which little does, joins small ones."""

    def __init__(self, node: StoreOfJobs) -> None:
        self._node = node
        self._planned: list[Tidied] = []
        self._tidied: list[Tidied] = []
        self._no_room: list[Tidied] = []  # could not be rewritten, for they would need more
        self._rows: list[tuple[SegmentRow, ...]] = []
        self._segments: Segments = {}
        self._states: dict[int, bytes] = {}
        self._files: list[str] = []  # that this attempt has begun
        self._dead: list[str] = []

    def plan(self) -> int | None:
        node = self._node
        self._planned = []
        for group in list(node.untidy):
            if node.must_keep_segments(group):
                continue
            del node.untidy[group]
            store = node.stores[group]
            wanted = wanted_of(store.log)
            victims = self._victims(wanted)
            if victims:
                self._planned.append(Tidied(store, wanted, victims))
        self._dead = list(node.dead_files)
        if not self._planned and not self._dead:
            return None
        self._segments = segments_of_all(node)
        self._states = {group: state for group, state in node.groups_file.states.items() if group in node.stores}
        return node.last_ticket

    def _victims(self, wanted: Wanted) -> list[SegmentRow]:
        """Those with less than half of their entries left; and small ones, when there are too many segments."""
        limits = self._node.limits
        counted = {row: count_within(wanted, row) for row in wanted.segments}
        victims = [row for row in wanted.segments if counted[row] * 2 < row.entries]
        small = [
            row for row in wanted.segments if _is_small(row, counted[row], limits.of_segments) and row not in victims
        ]
        if len(small) > limits.small_segments_max:
            victims += small
        return sorted(victims)

    def work(self) -> None:
        node, disk = self._node, self._node.disk
        self._tidied, self._rows, self._no_room, self._files = [], [], [], []
        for tidied in self._planned:
            _, wanted, victims = tidied
            builder = SegmentBuilder(disk, wanted.group, node.next_number, node.limits.of_segments)
            try:
                rewrite(disk, wanted, victims, builder)
                rows = tuple(builder.finish())
            except Exhausted:
                self._no_room.append(tidied)  # the others, and what is dead, may make room
                continue
            except Damaged as error:
                raise GroupDamaged(wanted.group, error) from error
            finally:
                builder.close()
                self._files += builder.files
            self._tidied.append(tidied)
            self._rows.append(rows)
            self._segments[wanted.group] = without(wanted.segments, victims) + rows
        if any(self._rows):
            disk.sync_dir(names.RAFT_DIRECTORY)
        node.save_groups(node.groups_file.first_file, self._states, self._segments)
        node.save_groups(node.groups_file.first_file, self._states, self._segments)  # the other copy names what will go

    def end(self) -> None:
        """Only now does nobody read the victims any more: they are deleted by a job of its own."""
        node = self._node
        dead = set(self._dead)
        node.dead_files = [name for name in node.dead_files if name not in dead]
        gone = [name for _, wanted, victims in self._tidied for row in victims for name in row.files(wanted.group)]
        named: set[str] = set()
        for (store, wanted, victims), rows in zip(self._tidied, self._rows, strict=True):
            for row in victims:
                node.open_segments.forget(wanted.group, row.number)
            if node.stores.get(wanted.group) is store:
                store.log.segments = without(store.log.segments, victims) + rows
                named.update(name for row in rows for name in row.files(wanted.group))
        node.dead_files += [name for name in self._files if name not in named]
        self._leave_to_the_next(self._no_room)
        node.delete([*gone, *self._dead])

    def full(self) -> bool:
        self._node.dead_files += self._files
        self._leave_to_the_next(self._planned)
        return False

    def _leave_to_the_next(self, untidy: Sequence[Tidied]) -> None:
        """Compaction, that is. A group may have been removed meanwhile."""
        for store, wanted, _ in untidy:
            if self._node.stores.get(wanted.group) is store:
                self._node.untidy[wanted.group] = None


class Delete:
    """Files that nothing names any more, in memory or on the disk. What a crash leaves of them goes at the next start."""

    def __init__(self, node: StoreOfJobs, gone: Sequence[str]) -> None:
        self._node = node
        self._gone = gone

    def plan(self) -> int | None:
        return 0

    def work(self) -> None:
        disk = self._node.disk
        for name in self._gone:
            with suppress(FileNotFoundError):
                disk.delete(name)
        disk.sync_dir(names.RAFT_DIRECTORY)

    def end(self) -> None:
        """Nothing is left to be done."""

    def full(self) -> bool:
        self._node.dead_files += self._gone  # the next compaction tries again
        return False


def count_within(wanted: Wanted, row: SegmentRow) -> int:
    """How many entries of a segment count, at most."""
    stop = min(row.last + 1, wanted.log_first)
    return sum(end - first for first, end in wanted.ranges(row.first, stop))


def _is_small(row: SegmentRow, counted: int, bounds: SegmentBounds) -> bool:
    """Whether four such segments fit into one. Those that are not are never joined, so an entry is copied a few times at most,
    however long the log is."""
    if row.keeps_log:
        return False
    return counted * 4 <= bounds.entries_max and row.file_size * 4 <= bounds.bytes_max


def without(segments: Sequence[SegmentRow], victims: Sequence[SegmentRow]) -> tuple[SegmentRow, ...]:
    return tuple(row for row in segments if row not in victims)


class Loss(NamedTuple):
    """What a member lost."""

    last_good: int  # entries up to this one are kept; below the snapshot: nothing is
    why: str
    heard: MemberId = 0  # a later member of this node than its own, that others know
    is_fault: bool = True

    def told(self, store: WalLogStore, old: MemberId, aside: Sequence[str]) -> str:
        """Behind it: `old` is the member that the store had, and files of these names have what it gives up."""
        kept = f"entries up to {store.log.last}" if store.log.last else "nothing"
        copies = f"are {', '.join(aside)}" if aside else "were not possible"
        identity = store.identity
        return (
            f"group {identity.group} ('{identity.name}') keeps {kept}: {self.why}. Its member {shown(old)} is "
            f"{shown(store.member)} from now on, and will be repaired from the others. Copies of what it gives up {copies}"
        )


class Renumber:
    """A member that lost something becomes another one. What it gives up is copied aside."""

    def __init__(self, node: StoreOfJobs, store: WalLogStore, loss: Loss, done: Callable[[MemberId], None]) -> None:
        self._node = node
        self._store = store
        self._loss = loss
        self._done = done
        self._names: list[str] = []
        self.aside: list[str] = []

    def plan(self) -> int | None:
        if self._node.stores.get(self._store.identity.group) is not self._store:
            return None
        if not self._loss.is_fault:
            return self._node.last_ticket  # nobody would look at copies of what was given up in order
        log = self._store.log
        self._names = [
            name for row in log.segments if row.last > self._loss.last_good for name in row.files(log.identity.group)
        ]
        if self._loss.last_good < log.snapshot.meta.index:
            self._names = files_of(log)
        return self._node.last_ticket

    def work(self) -> None:
        self.aside = []
        for name in self._names:
            with suppress(FileNotFoundError, StorageError):  # what cannot be read cannot be kept either
                self.aside.append(quarantine(self._node.disk, name))

    def end(self) -> None:
        self._node.renumber_now(self._store, self._loss, self.aside, self._done)

    def full(self) -> bool:
        return True

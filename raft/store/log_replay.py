"""What a start makes of the node's files: all groups, as they were.

The state of all groups at the end of some log file (raft/store/groups_file.py), and every record behind it, taken in order,
give the groups exactly as they were when the last commit became durable. That reads and changes nothing.

A group is *broken* when something that had been durable is missing: part of the log is damaged (then every group that
was there may have had records in it), its records do not follow one another, or one of its files is not what was written. What
stands before the first gap is kept; nothing behind it counts, since nobody knows what was overwritten in between. A segment
of another size, or with a damaged end, is read from its first record on, and what is kept of it goes to a new one. Such a
member comes back under a new number, because it may have promised what it no longer knows. All this is made durable before
the node goes on, in segments and the file of groups, and copies of what was damaged or is given up go to the quarantine. A
crash on the way changes nothing: the next start finds the same.

A log of which nothing is left is damage at no place that the file of groups could be moved behind. So the start ends with a
log: when all else is settled, an empty commit is written to a new file (`RaftStore.attach`), before any member says a word. A
start that was cut off before that finds the log gone once more; nobody has heard of the numbers that it gave. Each later
one finds a log, and nothing gone; and if that log is lost too, this is noticed like the first time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from raft.core import membership, packs
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes, Damaged
from raft.core.live_entries import NONE_LIVE
from raft.core.messages import EntryKind, shown
from raft.core.ready import Facts
from raft.store import groups_file, snapshots
from raft.store.entry_records import entries_of
from raft.store.group_log import GroupLog, Rows
from raft.store.group_records import INSTALLED, SegmentRow, decode_member, nothing_yet, read_identity, read_snapshot
from raft.store.kept_logs import KeptPack
from raft.store.replicas import NewReplica, successor
from raft.store.segments import (
    OpenSegments,
    SegmentBuilder,
    Wanted,
    copy_what_counts,
    must_be_as_written,
    read_segments,
    unreadable,
    wanted_of,
)
from raft.store.store_limits import SegmentBounds
from storage import names
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt
from storage.quarantine import quarantine
from storage.record import HEADER_BYTES, Kind, Record
from storage.record_reader import must_be_of, record_at
from storage.wal.file_reader import Chunk
from storage.wal.log_core import Location
from storage.wal.replay import Replay

RAFT_KINDS = range(Kind.RAFT_ENTRIES, Kind.RAFT_SNAPSHOT + 1)

Found = Callable[[str], None]


class LogFilesByName:
    """Reads records of the log by their place, with handles of its own: for a start, and for work beside the loop."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[int, File] = {}

    def read_of(self, writer: int, index: int, location: Location) -> Buffer:
        """The payload of this record, which lies there. Raises Corrupt."""
        name = names.log_file(location.file_number)
        try:
            file = self._opened(location.file_number)
        except FileNotFoundError as error:
            raise Corrupt(name, location.offset, location.size, "the file is missing") from error
        start = location.offset - HEADER_BYTES
        record, data = record_at(file, name, start, location.offset + location.size)
        must_be_of(record, writer, index, name, start)
        return memoryview(data)[HEADER_BYTES:]

    def size(self, file_number: int) -> int:
        """Of a file; 0: it is missing."""
        try:
            return self._opened(file_number).size()
        except FileNotFoundError:
            return 0

    def _opened(self, file_number: int) -> File:
        file = self._files.get(file_number)
        if file is None:
            file = self._files[file_number] = self._disk.open(names.log_file(file_number))
        return file

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


class LogReplay:
    """One start: take all chunks of the log, then `finish`."""

    def __init__(self, disk: Disk, new_replica: NewReplica, found: Found, bounds: SegmentBounds) -> None:
        self.logs: dict[int, GroupLog] = {}
        self.touched: dict[int, None] = {}  # groups that the log has records of
        self.renumbered: list[int] = []  # groups that were broken
        self.installed: dict[int, int] = {}  # the log file with the record of a group's newest installed snapshot
        self._disk = disk
        self._new_replica = new_replica
        self._found = found
        self._bounds = bounds
        self._broken: dict[int, str] = {}
        self._damaged_files: dict[int, None] = {}
        self.log_is_gone = False  # once something was promised in it; then a new one is begun before the start is over
        disk.make_dir(names.RAFT_DIRECTORY)
        disk.sync_dir(names.RAFT_DIRECTORY)  # what a killed process renamed: from here on we rely on it
        self.groups_file, self._lost_copies = groups_file.load(disk)
        for error in self._lost_copies:
            self._found(f"one of the two files that say what groups are here is lost: {error}")
        self._load_groups()

    def _load_groups(self) -> None:
        for group, state in self.groups_file.states.items():
            try:
                log = self.logs[group] = GroupLog.decode(state)
            except BadBytes as error:  # its checksum was right, so a newer version wrote it
                raise Corrupt(names.RAFT_GROUPS[0], 0, len(state), f"group {group} is unreadable: {error}") from error
            log.segments = self.groups_file.segments[group]
        self._file_names = self._disk.list(names.RAFT_DIRECTORY)
        found = self._group_files(names.SEGMENT_SUFFIX) + self._group_files(names.SNAPSHOT_SUFFIX)
        highest = max((number for _, number in found), default=0)
        self.groups_file.next_number = max(self.groups_file.next_number, highest + 1)
        self._lost_all = bool(found) and not self.groups_file.generation
        if self._lost_all:
            groups = len({group for group, _ in found})
            self._found(f"nothing says what the files of {groups} groups in {names.RAFT_DIRECTORY} are: put aside")

    def watch(self, replay: Replay, chunks: Iterator[Chunk], log_first_file: int) -> Iterator[Chunk]:
        """The chunks of the log, for others to read them too. Raises DiskFull and DiskFailed at the very first start."""
        if not self.groups_file.generation:  # there is one before there is any group
            self.groups_file.generation, self.groups_file.first_file = 1, log_first_file
            if not self._lost_all:
                self.groups_file.save(self._disk)
        if log_first_file > self.groups_file.first_file:
            reason = f"log files from {self.groups_file.first_file} to {log_first_file - 1} are gone"
            self._broken.update((group, reason) for group in self.logs)
        judged = 0
        for chunk in chunks:
            judged = self._judge(replay, judged)
            self.take(chunk)
            yield chunk
        self._judge(replay, judged)
        self.log_is_gone = replay.nothing_is_left

    def _judge(self, replay: Replay, judged: int) -> int:
        for damage in replay.damage[judged:]:
            if damage.file_number >= self.groups_file.first_file:
                self._damaged_files[damage.file_number] = None
                reason = f"the log is damaged at {damage.offset} of file {damage.file_number}: {damage.reason}"
                self._found(f"{reason}. Groups that were created there are not known here")
                for group in self.logs:
                    self._broken.setdefault(group, reason)
        return len(replay.damage)

    # one record after another

    def take(self, chunk: Chunk) -> None:
        if chunk.file_number < self.groups_file.first_file:
            return
        with memoryview(chunk.buffer) as view:
            for record in chunk.records:
                if record[0] in RAFT_KINDS:
                    with view[record[5] : record[6]] as payload:
                        self._take(record, payload, chunk.location(record))

    def _take(self, record: Record, payload: memoryview, location: Location) -> None:
        kind, _, term, group, index, _, _ = record
        log = self.logs.get(group)
        self.touched[group] = None
        try:
            if kind == Kind.RAFT_GROUP:
                self.logs[group] = GroupLog(read_identity(group, ByteReader(payload)))
                self._broken.pop(group, None)
            elif log is None:
                return  # of a group that was removed
            elif kind == Kind.RAFT_GROUP_REMOVED:
                del self.logs[group]
                self._broken.pop(group, None)
            elif kind == Kind.RAFT_FACTS:
                if term >= log.facts.term:
                    log.facts = Facts(term, ByteReader(payload).u64())
            elif group in self._broken:
                if kind == Kind.RAFT_RENUMBERED:
                    log.identity = log.identity._replace(member=decode_member(payload))
            elif kind == Kind.RAFT_ENTRIES:
                self._entries(log, record, payload, location)
            elif kind == Kind.RAFT_RENUMBERED:
                log.renumbered(decode_member(payload), index)
            else:
                self._snapshot(log, record, payload, location.file_number)
        except BadBytes as error:
            self._broken[group] = f"a record of kind {kind} cannot be read: {error}"

    def _entries(self, log: GroupLog, record: Record, payload: memoryview, location: Location) -> None:
        _, entry_kind, term, group, first, _, _ = record
        problem = log.problem(first, term)
        if problem is not None:
            self._broken[group] = problem
            return
        log.append(first, packs.count_in(payload), term, entry_kind, location)
        if entry_kind == EntryKind.MEMBERSHIP:
            for entry in packs.decode(first, term, entry_kind, bytes(payload)):
                log.note_membership(entry.index, membership.decode(entry.data))

    def _snapshot(self, log: GroupLog, record: Record, payload: memoryview, file_number: int) -> None:
        _, flags, _, group, index, _, _ = record
        stored = read_snapshot(ByteReader(payload))
        numbers = (stored.file, *(row.number for row in stored.segments))
        self.groups_file.next_number = max(self.groups_file.next_number, *(number + 1 for number in numbers))
        if flags & INSTALLED:
            log.snapshot_installed(stored, NONE_LIVE)
            self.installed[group] = file_number
        elif index > log.last:
            self._broken[group] = f"a snapshot of entry {index} was taken, and the last is {log.last}"
        elif index > log.snapshot.meta.index:
            log.snapshot_taken(stored, NONE_LIVE)

    # the end

    def finish(self, last_file: int) -> None:
        """Look whether all is there, and settle what is not. `last_file` is the log's last one; a new one follows."""
        ends_too_early = self._must_reach_groups_file(last_file)
        for log in self.logs.values():
            if log.identity.group not in self._broken:
                try:
                    self._look_at(log)
                except (Corrupt, Damaged) as error:
                    self._broken[log.identity.group] = str(error)
        if self._broken or self._damaged_files or ends_too_early:
            self._settle(last_file)
        self._delete_unknown()
        if self._lost_all:
            self.groups_file.save(self._disk)
        self.groups_file.replace_copies(self._disk, len(self._lost_copies))

    def _must_reach_groups_file(self, last_file: int) -> bool:
        """The log went on behind what the file of groups tells of. If it does not now, its end is lost, and with it whatever
        was promised there: what would be written now in files of the same numbers might be taken for what was there before.
        Returns whether that is so.

        There is always a file of the log where there are groups (its last one is never let go, and where the log is found
        gone, `RaftStore.attach` begins a new one). So one without any file is gone, also if it has begun with file 1."""
        told = self.groups_file.first_file - 1
        self.log_is_gone |= last_file == 0 and bool(told or self.groups_file.states)
        if last_file >= told and not self.log_is_gone:
            return False
        reason = f"nothing is left of the log behind file {min(last_file, told)}"
        self._found(f"{reason}. Groups that were created there are not known here")
        for group in self.logs:
            self._broken.setdefault(group, reason)
        return True

    def _look_at(self, log: GroupLog) -> None:
        """Whether the files of a group are there, and its entries without a gap. Raises Corrupt, Damaged."""
        group, first_missing = log.identity.group, log.first
        for row in sorted(log.segments, key=lambda row: row.first):
            must_be_as_written(self._disk, group, row)
            if row.first <= first_missing:
                first_missing = max(first_missing, row.last + 1)
        log_first = wanted_of(log).log_first
        if first_missing < log_first:
            raise Damaged(f"entries {first_missing} to {log_first - 1} are in no segment")
        if log.snapshot.file:
            log.live = snapshots.head(self._disk, group, log.snapshot).live

    # broken groups

    def _settle(self, last_file: int) -> None:
        disk = self._disk
        for number in self._damaged_files:
            if disk.exists(names.log_file(number)):
                aside = quarantine(disk, names.log_file(number))
                self._found(f"{names.log_file(number)} is damaged, a copy of it is {aside}")
        log_files, open_segments = LogFilesByName(disk), OpenSegments(disk)
        try:
            for group, reason in self._broken.items():
                self._salvage(self.logs[group], reason, log_files, open_segments)
            self._move_out(last_file, log_files)
        finally:
            log_files.close()
            open_segments.close()
        file = self.groups_file
        file.generation += 1
        file.first_file = last_file + 1
        file.states = {group: log.encode() for group, log in self.logs.items()}
        file.segments = {group: log.segments for group, log in self.logs.items()}
        file.save(disk)
        file.generation += 1  # and the other copy, which names what is about to go
        file.save(disk)
        self.renumbered = list(self._broken)
        self.touched, self.installed = {}, {}

    def _salvage(self, log: GroupLog, reason: str, log_files: LogFilesByName, open_segments: OpenSegments) -> None:
        group, lost = log.identity.group, log.last
        damaged = [row for row in log.segments if not self._is_as_written(group, row)]
        open_segments.read_as_far_as_whole(group, damaged)
        if not self._snapshot_is_whole(log, log_files, open_segments):
            self._begin_with_newest(log, log_files, open_segments)
        index = log.snapshot.meta.index
        log.first = index + 1
        kept = self._readable(log, log.first, log.last + 1, log_files, open_segments)
        if kept < log.last:
            log.truncate(kept + 1)
        log.segments = self._mended(log, damaged, open_segments)
        old = log.identity.member
        member = successor(old, self._new_replica)
        log.identity = log.identity._replace(member=member)
        log.facts = Facts(log.facts.term, 0)
        self._found(
            f"group {group} ('{log.identity.name}') had entries up to {lost} and keeps snapshot {index} and entries up to "
            f"{log.last}: {reason}. Its member {shown(old)} is {shown(member)} from now on, and will be repaired from the "
            "others"
        )

    def _is_as_written(self, group: int, row: SegmentRow) -> bool:
        try:
            must_be_as_written(self._disk, group, row)
        except Corrupt:
            return False
        return True

    def _mended(
        self, log: GroupLog, damaged: Sequence[SegmentRow], open_segments: OpenSegments
    ) -> tuple[SegmentRow, ...]:
        """The segments of a group without those that are damaged, and what is kept of these in new ones: the next start must
        not stumble over them again."""
        victims = [row for row in log.segments if row in damaged]
        builder = SegmentBuilder(self._disk, log.identity.group, self._next_number, self._bounds)
        try:
            copy_what_counts(open_segments, wanted_of(log), victims, builder)
            return (*(row for row in log.segments if row not in damaged), *builder.finish())
        finally:
            builder.close()

    def _snapshot_is_whole(self, log: GroupLog, log_files: LogFilesByName, open_segments: OpenSegments) -> bool:
        stored = log.snapshot
        if not stored.file:
            return log.first == 1
        found = snapshots.whole(self._disk, log.identity.group, stored.file)
        if found is None or found[0].meta != stored.meta:
            return False
        log.live = found[1]
        return self._live_are_readable(log, log_files, open_segments)

    def _begin_with_newest(self, log: GroupLog, log_files: LogFilesByName, open_segments: OpenSegments) -> None:
        """The one that the log knows of cannot be used. Any other that is whole is a state that was committed."""
        group = log.identity.group
        numbers = [number for one, number in self._group_files(names.SNAPSHOT_SUFFIX) if one == group]
        found = [one for number in numbers if (one := snapshots.whole(self._disk, group, number)) is not None]
        for stored, live in sorted(found, key=lambda one: one[0].meta.index, reverse=True):
            log.begin_behind(stored)
            log.live = live
            if self._live_are_readable(log, log_files, open_segments):
                return
        log.live, log.segments = NONE_LIVE, ()
        log.begin_behind(nothing_yet(log.identity))

    def _live_are_readable(self, log: GroupLog, log_files: LogFilesByName, open_segments: OpenSegments) -> bool:
        return all(
            self._readable(log, first, end, log_files, open_segments) == end - 1 for first, end in log.live.ranges()
        )

    def _readable(
        self, log: GroupLog, first: int, end: int, log_files: LogFilesByName, open_segments: OpenSegments
    ) -> int:
        """The last entry of those from `first` to, without, `end`, before one that cannot be read."""
        wanted, rows = wanted_of(log), log.rows
        while first < end:
            try:
                if rows is None or first < wanted.log_first:
                    entries, _ = read_segments(open_segments, wanted, first, end)
                    first += len(entries)
                else:
                    at = rows.find(first)
                    data = log_files.read_of(wanted.group, rows.first[at], rows.location(at))
                    stop = rows.first[at + 1] if at + 1 < len(rows) else log.last + 1
                    assert rows.first[at] + packs.count_in(data) >= stop, f"entry {stop - 1} is not in its pack"
                    first = min(stop, end)
            except (Corrupt, Damaged, BadBytes):
                break
        return first - 1

    def _group_files(self, suffix: str) -> list[tuple[int, int]]:
        found = (names.group_file_of(name, suffix) for name in self._file_names)
        return [one for one in found if one is not None]

    def _move_out(self, last_file: int, log_files: LogFilesByName) -> None:
        """All entries that are in the log go to segments: the log is read by nobody any more."""
        for log in self.logs.values():
            moved = rows_to_move(log, last_file)
            if moved is None:
                continue
            builder = SegmentBuilder(self._disk, log.identity.group, self._next_number, self._bounds)
            try:
                add_rows(builder, moved, log_files)
                log.moved_out(last_file, tuple(builder.finish()))
            finally:
                builder.close()
        self._disk.sync_dir(names.RAFT_DIRECTORY)

    def _next_number(self) -> int:
        self.groups_file.next_number += 1
        return self.groups_file.next_number - 1

    # files that nobody names

    def _delete_unknown(self) -> None:
        """What a crash left. When anything was damaged, a copy is kept: it may be what somebody looks for."""
        disk = self._disk
        known = {name.rpartition("/")[2] for log in self.logs.values() for name in files_of(log)}
        known.update(name.rpartition("/")[2] for name in names.RAFT_GROUPS)
        suspicious = bool(self._broken or self._lost_copies or self._lost_all)
        gone = False
        for base in disk.list(names.RAFT_DIRECTORY):
            name = f"{names.RAFT_DIRECTORY}/{base}"
            if base in known:
                continue
            if suspicious and not base.endswith((names.TEMPORARY_SUFFIX, names.INCOMING_SUFFIX)):
                quarantine(disk, name)
            disk.delete(name)
            gone = True
        if gone:
            disk.sync_dir(names.RAFT_DIRECTORY)


def files_of(log: GroupLog) -> list[str]:
    """The files that a group has now."""
    group = log.identity.group
    segments = [name for row in log.segments for name in row.files(group)]
    return [*segments, names.group_snapshot(group, log.snapshot.file)] if log.snapshot.file else segments


class RowsToMove(NamedTuple):
    """The packs of one group that are to be moved out of the log."""

    wanted: Wanted
    rows: Rows
    end: int  # the index behind the last of them


def rows_to_move(log: GroupLog, file_number: int) -> RowsToMove | None:
    """Those in log files up to this one; None when there are none."""
    rows = log.rows
    count = bisect_right(rows.file, file_number) if rows is not None else 0
    if rows is None or not count:
        return None
    end = rows.first[count] if count < len(rows) else log.last + 1
    return RowsToMove(wanted_of(log), rows.part(0, count), end)


def by_log_file(moved: RowsToMove) -> Iterator[RowsToMove]:
    """The rows of each log file by themselves."""
    wanted, rows, end = moved
    start = 0
    while start < len(rows):
        stop = bisect_right(rows.file, rows.file[start])
        yield RowsToMove(wanted, rows.part(start, stop), rows.first[stop] if stop < len(rows) else end)
        start = stop


def kept_packs(moved: RowsToMove) -> list[KeptPack]:
    """Those of one log file of which some entry counts."""
    wanted, rows, end = moved
    stops = [*rows.first[1:], end]
    return [
        KeptPack(first, rows.term[at], rows.kind[at], rows.offset[at], rows.size[at], stops[at] - first)
        for at, first in enumerate(rows.first)
        if wanted.ranges(first, stops[at])
    ]


def add_rows(builder: SegmentBuilder, moved: RowsToMove, log_files: LogFilesByName) -> None:
    """Their entries that count, to segments. Raises Damaged."""
    wanted, rows, end = moved
    for at in range(len(rows)):
        first = rows.first[at]
        ranges = wanted.ranges(first, rows.first[at + 1] if at + 1 < len(rows) else end)
        if not ranges:
            continue
        location = rows.location(at)
        try:
            data = log_files.read_of(wanted.group, first, location)
            record = (int(Kind.RAFT_ENTRIES), rows.kind[at], rows.term[at], wanted.group, first, 0, len(data))
            entries = entries_of(names.log_file(location.file_number), wanted.group, record, data)
        except Corrupt as error:
            raise unreadable(wanted.group, ranges[0][0], error) from error
        for start, stop in ranges:
            builder.add(entries[start - first : stop - first])

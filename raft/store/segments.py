"""Segments of groups: packs that were moved out of the node's log, in files that never change.

A segment is a storage/segment.py of one group:

    RAFT_ENTRIES ...   as in the log (raft/store/group_records.py); packs may have been cut and joined on their way
    INDEX, FOOTER      by the index of each pack's first entry

Segments of a group have gaps and overlap; which of two entries counts says raft/store/group_log.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from raft.core import packs
from raft.core.errors import Damaged
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, Pack
from raft.store.entry_records import entries_of
from raft.store.group_log import GroupLog
from raft.store.group_records import KEPT_LOG, SegmentRow
from raft.store.kept_logs import PLACE_BYTES, KeptPack, decode_place, encode_place, entries_in, is_place, open_kept
from raft.store.store_limits import SegmentBounds
from storage.disk import Disk, File
from storage.errors import Corrupt, NoDescriptors, StorageError, TornTail
from storage.names import group_kept_log, group_segment, log_file, temporary
from storage.record import HEADER_BYTES, Kind
from storage.record_reader import must_be_of
from storage.segment import Segment, SegmentWriter, must_be_sealed

# Of a segment that gather in memory, and are synced at once: a sync of 64 MiB held up every other one of the same disk, 30 ms.
WRITE_BYTES = 1 << 20
# Fetched by the system while somebody reads pack by pack, beyond a next pack that is as long as this one. Reading 256 KiB that
# are not in memory took 0.65 ms, and at least 3.1 one time in a hundred; with 256 KiB or 2 MiB fetched ahead, and 2 ms between
# two such pieces, 0.13 and 0.6. Where the end of a long pack was not fetched, the loop waited for it, and the system read a MiB
# at a time, for which all syncs on that disk waited: a publisher's p99 was 10 ms, not 5.
READ_AHEAD_BYTES = 1 << 19


T = TypeVar("T")


class Wanted(NamedTuple):
    """What of one group is to be read, as it stood at one moment: nothing of it changes any more."""

    group: int
    first: int
    last: int
    live: LiveEntries
    segments: tuple[SegmentRow, ...]
    log_first: int  # from here on entries are in the node's log

    def ranges(self, first: int, end: int) -> list[tuple[int, int]]:
        """The entries that count, from `first` to, without, `end`."""
        found = list(self.live.within(first, min(end, self.first)))
        start, stop = max(first, self.first), min(end, self.last + 1)
        if start < stop:
            found.append((start, stop))
        return found


def wanted_of(log: GroupLog) -> Wanted:
    log_first = log.rows.first[0] if log.rows is not None else log.last + 1
    return Wanted(log.identity.group, log.first, log.last, log.live, log.segments, log_first)


class OpenSegments:
    """Segments that were read lately, with their indexes; a bounded number of them. For one thread."""

    def __init__(self, disk: Disk, count_max: int = 64) -> None:
        self._disk = disk
        self._count_max = count_max
        self._damaged: set[tuple[int, int]] = set()
        self._open: OrderedDict[tuple[int, int], Segment] = OrderedDict()
        self._kept: dict[tuple[int, int], tuple[str, File]] = {}  # their log files, as far as somebody has read in them
        self._last: tuple[tuple[int, int, int], list[Entry]] = ((0, 0, 0), [])
        self._following: dict[tuple[int, int], int] = {}  # behind the pack of each that was read last

    def read_as_far_as_whole(self, group: int, damaged: Iterable[SegmentRow]) -> None:
        """The ends of these segments are damaged: what stands before counts."""
        self._damaged.update((group, row.number) for row in damaged)

    def get(self, group: int, number: int) -> Segment:
        """Raises Corrupt when it is missing or not what was written."""
        segment = self._open.get((group, number))
        if segment is not None:
            self._open.move_to_end((group, number))
            return segment
        name = group_segment(group, number)
        try:
            segment = self._opened(lambda: Segment(self._disk, name, as_far_as_whole=(group, number) in self._damaged))
        except FileNotFoundError as error:
            raise Corrupt(name, 0, 0, "the file is missing") from error
        except TornTail as error:  # it was sealed before anything named it
            raise Corrupt(name, error.whole, error.size - error.whole, "its end is damaged") from error
        if not segment.sealed and (group, number) not in self._damaged:
            segment.close()
            raise Corrupt(name, 0, 0, "its end is missing")
        self._open[group, number] = segment
        self._close_some()
        return segment

    def _opened(self, opening: Callable[[], T], using: tuple[int, int] | None = None) -> T:
        """Where the system has no descriptor left, those of segments that were not used lately are given up. `using`: not this
        one, which is read just now."""
        while True:
            try:
                return opening()
            except NoDescriptors:
                unused = next((place for place in self._open if place != using), None)
                if unused is None:
                    raise
                self.forget(*unused)

    def _close_some(self) -> None:
        """Of those that were not used lately; all but the last one where descriptors are lacking: others need these."""
        while len(self._open) > self._count_max or (len(self._open) > 1 and self._disk.lacks_descriptors()):
            self.forget(*next(iter(self._open)))

    def entries_at(self, group: int, number: int, first: int, position: int) -> list[Entry]:
        """Those of the pack that lies there, which begins with entry `first`. Entries are often asked for one after another, so
        the last pack is kept. Raises Corrupt."""
        place = (group, number, position)
        if self._last[0] != place:
            segment = self.get(group, number)
            record, data = segment.read_at(position)
            must_be_of(record, group, first, segment.name, position)
            end = position + len(data)
            ahead_bytes = READ_AHEAD_BYTES if self._following.get((group, number)) == position else 0
            self._following[group, number] = end
            if is_place(record):
                entries = entries_in(*self._kept_log(group, number), group, record, data, ahead_bytes)
            else:
                if ahead_bytes:
                    segment.file.read_ahead(end, len(data) + ahead_bytes)
                entries = entries_of(segment.name, group, record, data)
            self._last = (place, entries)
        return self._last[1]

    def record_of(self, group: int, number: int, first: int, position: int) -> tuple[str, File, int, int]:
        """Where the record of a pack lies that is found at this position: name of its file, the file, position and length.
        Raises Corrupt."""
        segment = self.get(group, number)
        length = segment.length_at(position)
        if length != PLACE_BYTES:
            return segment.name, segment.file, position, length
        record, data = segment.read_at(position)
        if not is_place(record):
            return segment.name, segment.file, position, length
        must_be_of(record, group, first, segment.name, position)
        offset, size, _ = decode_place(segment.name, record, data)
        return *self._kept_log(group, number), offset - HEADER_BYTES, HEADER_BYTES + size

    def _kept_log(self, group: int, number: int) -> tuple[str, File]:
        found = self._kept.get((group, number))
        if found is None:
            found = self._opened(lambda: open_kept(self._disk, group, number), using=(group, number))
            self._kept[group, number] = found
            self._close_some()
        return found

    def forget(self, group: int, number: int) -> None:
        """Its files are closed when no piece of them is on its way to a client any more."""
        self._open.pop((group, number), None)
        self._kept.pop((group, number), None)
        self._following.pop((group, number), None)

    def keep_only(self, group: int, numbers: Container[int]) -> None:
        """`forget` of the others of this group."""
        for place in [place for place in self._open if place[0] == group and place[1] not in numbers]:
            self.forget(*place)

    def close(self) -> None:
        for place in list(self._open):
            self.forget(*place)
        self._last = ((0, 0, 0), [])


def read_segments(open_segments: OpenSegments, wanted: Wanted, index: int, end: int) -> tuple[list[Entry], int]:
    """Entries from this index on, none from `end` on, as many as lie together; and the number of the segment that they are in.
    Raises Corrupt; Damaged when no segment has it."""
    stop = min(end, wanted.log_first, wanted.last + 1)  # entries from here on do not count, in this segment
    assert index < stop, f"entry {index} of group {wanted.group} is in the log, which begins at {wanted.log_first}"
    for row in reversed(wanted.segments):
        if not row.first <= index <= row.last:
            if row.first > index:
                stop = min(stop, row.first)
            continue
        segment = open_segments.get(wanted.group, row.number)
        place = segment.place_from(index)
        if place is not None:
            entries = open_segments.entries_at(wanted.group, row.number, *place)
            if index <= entries[-1].index:
                return entries[index - entries[0].index : stop - entries[0].index], row.number
        following = segment.index.above(index)
        if following is not None:
            stop = min(stop, following)
        elif not segment.sealed:  # the entry was in what is lost, perhaps: one in an older segment may be overwritten
            raise Corrupt(segment.name, segment.whole, segment.size - segment.whole, "its end is damaged")
    raise Damaged(f"entry {index} of group {wanted.group} is in none of {len(wanted.segments)} segments", index)


def must_be_as_written(disk: Disk, group: int, row: SegmentRow) -> None:
    """The files of a segment are there, its size is the one that was written, and its end is sound. Whether its records are is
    found out when they are read. Raises Corrupt."""
    name, *kept = row.files(group)
    try:
        must_be_sealed(disk, name, row.file_size)
    except FileNotFoundError as error:
        raise Corrupt(name, 0, row.file_size, "the file is missing") from error
    for beside in kept:
        if not disk.exists(beside):
            raise Corrupt(beside, 0, 0, "the file is missing")


def unreadable(group: int, index: int, error: Exception) -> Damaged:
    """What to raise for `error`: the entry at this index, at least, is lost here."""
    return Damaged(f"entry {index} of group {group} cannot be read: {error}", index)


class SegmentBuilder:
    """Writes the entries of one group to as many segments as they need. Their names are durable once the caller has synced
    the directory. `files` are those that it has begun and that may be there: where they do not come to count, its caller sees
    to it that they go."""

    def __init__(
        self,
        disk: Disk,
        group: int,
        next_number: Callable[[], int],
        bounds: SegmentBounds,
        *,
        read_soon: bool = True,
    ) -> None:
        self.files: list[str] = []
        self._read_soon = read_soon
        self._rows: list[SegmentRow] = []
        self._is_finished = False
        self._disk = disk
        self._group = group
        self._next_number = next_number
        self._bounds = bounds
        self._writer: SegmentWriter | None = None
        self._number = 0
        self._last = 0
        self._entry_count = 0
        self._unwritten = 0
        self._gathered: list[Entry] = []
        self._gathered_bytes = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Entries behind those that were added before; there may be a gap."""
        for entry in entries:
            gathered = self._gathered
            if gathered and (entry.index != gathered[-1].index + 1 or self._gathered_bytes >= packs.PACK_BYTES_MAX):
                self._write_gathered()
            self._gathered.append(entry)
            self._gathered_bytes += len(entry.data)

    def finish(self) -> list[SegmentRow]:
        """All is written and fsynced, but for the directory."""
        self._write_gathered()
        self._seal()
        self._is_finished = True
        return self._rows

    def keep_log(self, file_number: int, kept: Sequence[KeptPack]) -> bool:
        """These packs stay in the log file where they are, and have a segment of their own. False: the file system cannot give
        it a second name."""
        number = self._next_number()
        beside = group_kept_log(self._group, number)
        self.files.append(beside)
        if not self._disk.link(log_file(file_number), beside):
            self.files.remove(beside)
            return False
        writer = self._create(number)
        try:
            for pack in kept:
                place = [encode_place(pack)]
                writer.append(Kind.RAFT_PLACE, self._group, pack.first, place, pack.kind, pack.term)
            writer.seal()
        except StorageError:
            writer.close()
            raise
        self._name(writer, number)
        entry_count = sum(pack.entry_count for pack in kept)
        last = kept[-1].first + kept[-1].entry_count - 1
        self._rows.append(SegmentRow(number, kept[0].first, last, entry_count, writer.size | KEPT_LOG))
        return True

    def close(self) -> None:
        """Also after a failure: let go of what is not finished. A full disk must not be filled further by each attempt. What
        cannot be deleted stays in `files`: the failure that the caller is about to hear of is the first one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if not self._is_finished:
            self.files = [name for name in self.files if not self._is_deleted(name)]

    def _is_deleted(self, name: str) -> bool:
        try:
            self._disk.delete(name)
        except FileNotFoundError:
            pass
        except StorageError:
            return False
        return True

    def _write_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        for pack in packs.packed(gathered, entries_max=min(packs.PACK_ENTRIES_MAX, self._bounds.entries_max)):
            if self._writer is not None and not self._fits(self._writer, pack):
                self._seal()
            writer = self._writer or self._begin()
            writer.append(Kind.RAFT_ENTRIES, self._group, pack.first, pack.parts, pack.kind, pack.term)
            self._last = pack.first + pack.entry_count - 1
            self._entry_count += pack.entry_count
            self._unwritten += pack.size + HEADER_BYTES
            if self._unwritten >= WRITE_BYTES:
                writer.sync()
                self._unwritten = 0

    def _fits(self, writer: SegmentWriter, pack: Pack) -> bool:
        entries_max, bytes_max = self._bounds
        return self._entry_count + pack.entry_count <= entries_max and writer.size + pack.size <= bytes_max

    def _begin(self) -> SegmentWriter:
        self._number = self._next_number()
        self._entry_count = self._unwritten = 0
        self._writer = self._create(self._number)
        return self._writer

    def _create(self, number: int) -> SegmentWriter:
        """The file of a segment, under another name until it is whole."""
        name = temporary(group_segment(self._group, number))
        with suppress(FileNotFoundError):  # of an attempt that a crash ended
            self._disk.delete(name)
        self.files.append(name)
        return SegmentWriter(self._disk, name, read_soon=self._read_soon)

    def _name(self, writer: SegmentWriter, number: int) -> None:
        name = group_segment(self._group, number)
        self._disk.rename(writer.name, name)
        self.files[self.files.index(writer.name)] = name

    def _seal(self) -> None:
        writer = self._writer
        if writer is None:
            return
        writer.seal()
        self._name(writer, self._number)
        self._writer = None
        self._rows.append(SegmentRow(self._number, writer.index.first, self._last, self._entry_count, writer.size))


def rewrite(disk: Disk, wanted: Wanted, victims: Sequence[SegmentRow], builder: SegmentBuilder) -> None:
    """What still counts of these segments, and is not hidden by newer ones, goes to new segments. Raises Damaged."""
    open_segments = OpenSegments(disk)
    try:
        copy_what_counts(open_segments, wanted, victims, builder)
    finally:
        open_segments.close()


def copy_what_counts(
    open_segments: OpenSegments, wanted: Wanted, victims: Sequence[SegmentRow], builder: SegmentBuilder
) -> None:
    """As `rewrite` does, reading with these. Raises Damaged."""
    numbers = {row.number for row in victims}
    stop = min(wanted.log_first, wanted.last + 1)
    at = 0
    for row in sorted(victims, key=lambda row: row.first):
        for first, end in wanted.ranges(max(at, row.first), min(row.last + 1, stop)):
            at = first
            while at < end:
                try:
                    entries, number = read_segments(open_segments, wanted, at, end)
                except Corrupt as error:
                    raise unreadable(wanted.group, at, error) from error
                if number in numbers:
                    builder.add(entries)
                at += len(entries)

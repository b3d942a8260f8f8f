"""The log of one stream on this node: segments of chunks, as Raft's log and as what readers read.

`durable` means fsynced in these files; what is durable in the node's log only does not count here. `committed` is what Raft has
said; readers see nothing else, and nothing of it is ever truncated.

What is appended is written at once and can be read at once. Making it durable is a job that may run in another thread:

    log.append(entries)                                 one write
    job = log.begin_sync()
    job.perform()                                       in a thread
    log.end_sync(job)                                   durable_index has risen

An entry may say that its segment ends behind it: then `must_roll`, and nothing is appended before another segment was begun
with the machine's state at this place. `fitting` says how many entries may be appended before that.

    job = log.begin_roll(state, version, number)
    job.perform()                                       in a thread; nothing is appended or truncated meanwhile
    log.end_roll(job)

All calls may raise DiskFull, after which nothing has changed, and DiskFailed, after which the log must not be used. Calls that
fsync say so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raft.core import membership
from raft.core.errors import Compacted
from raft.core.messages import Entry, EntryKind, Membership
from storage.disk import Buffer, Disk, File
from stream.checkpoint import Checkpoint
from stream.entries import summarize
from stream.framing import FrameHeader
from stream.index import IndexRow
from stream.log_recovery import FoundLog, decoded, delete_segments, first_indexes
from stream.segment_file import StreamSegment, create_segment, load_checkpoint
from stream.segment_tail import FoundEntries

OPEN_SEGMENTS_MAX = 4  # sealed ones of one log whose files stay open


class SyncJob(NamedTuple):
    """Makes durable what was written before it began. May be performed in another thread."""

    file: File
    first_index: int  # of its segment
    last_index: int
    end: int
    truncations: int

    def perform(self) -> None:
        """Raises DiskFailed."""
        self.file.sync()


class RollJob:
    """Makes the last segment durable, and another one behind it. May be performed in another thread."""

    def __init__(self, disk: Disk, directory: str, last: StreamSegment, checkpoint: Checkpoint, number: int) -> None:
        self.made: StreamSegment | None = None
        self._disk = disk
        self._directory = directory
        self._last = last
        self._checkpoint = checkpoint
        self._number = number

    def perform(self) -> None:
        """Raises DiskFull, DiskFailed. May be performed again."""
        self._last.sync()
        self.made = create_segment(self._disk, self._directory, self._checkpoint, self._number)


class StreamLog:
    """See the module."""

    def __init__(self, disk: Disk, directory: str, found: FoundLog) -> None:
        """`found` has a segment at least. Nothing can be appended behind damage before it is truncated."""
        assert found.segments, f"nothing of {directory} can be used: {found.damage}"
        self.damage = found.damage
        self.committed = found.segments[0].checkpoint.last_index  # index of an entry, at most last_index
        self.committed_offset = found.segments[0].checkpoint.first_offset  # behind the last message that is committed
        self.durable_index = 0  # highest entry that is fsynced, at most last_index
        self._disk = disk
        self._directory = directory
        self._segments = found.segments
        self._memberships = found.memberships
        self._durable_end = 0  # in the last segment
        self._truncations = 0
        self._recently_read: OrderedDict[int, StreamSegment] = OrderedDict()  # sealed ones, by their first index
        self._all_durable()

    # What it is.

    @property
    def first_index(self) -> int:
        return self._segments[0].first_index

    @property
    def last_index(self) -> int:
        """One less than the first when there is no entry."""
        return self._segments[-1].last_index

    @property
    def last_term(self) -> int:
        return self._segments[-1].tail.term

    @property
    def last_time_ms(self) -> int:
        """The highest time of an entry. Those that come must not be below it."""
        return self._segments[-1].tail.time_ms

    @property
    def first_offset(self) -> int:
        """Of the first message that is kept."""
        return self._segments[0].checkpoint.first_offset

    @property
    def next_offset(self) -> int:
        """Of the message that comes next."""
        return self._segments[-1].tail.next_offset

    @property
    def must_roll(self) -> bool:
        return self._segments[-1].tail.is_full

    @property
    def open_bytes(self) -> int:
        """Of the segment that grows."""
        return self._segments[-1].tail.end

    @property
    def open_entries(self) -> int:
        return self._segments[-1].tail.count

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.tail.end for segment in self._segments)

    @property
    def segments(self) -> Sequence[StreamSegment]:
        """In their order; the last is the one that grows."""
        return self._segments

    @property
    def rebuilt_indexes(self) -> int:
        """How often the index of a segment was missing or wrong, since the start."""
        return sum(segment.rebuilt for segment in self._segments)

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        """By the index from which on each is in force, ascending; the first is in force where the log begins."""
        return self._memberships

    # Growing.

    def fitting(self, entries: Sequence[Entry]) -> int:
        """How many of these can be appended before `roll`: up to the first that ends the segment."""
        if self.must_roll:
            return 0
        for number, entry in enumerate(entries, 1):
            if entry.kind == EntryKind.COMMAND and summarize(entry.data).ends_segment:
                return number
        return len(entries)

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries that follow on the last one. Raises BadBytes when they are not what can stand here."""
        assert self.damage is None, f"nothing is appended behind damage: {self.damage}"
        index = entries[0].index
        assert index == self.last_index + 1, f"entry {index} cannot follow entry {self.last_index}"
        self._segments[-1].append(entries, self._durable_end)
        for entry in entries:
            if entry.kind == EntryKind.MEMBERSHIP:
                self._memberships.append((entry.index, membership.decode(entry.data)))

    def begin_sync(self) -> SyncJob:
        last = self._segments[-1]
        return SyncJob(last.file, last.first_index, last.last_index, last.tail.end, self._truncations)

    def end_sync(self, job: SyncJob) -> None:
        """The job was performed. What was truncated or rolled meanwhile is durable by that."""
        if job.truncations == self._truncations and job.first_index == self._segments[-1].first_index:
            self._durable_end = max(self._durable_end, job.end)
            self.durable_index = max(self.durable_index, job.last_index)

    def begin_roll(self, state: Buffer, machine_version: int, number: int) -> RollJob:
        """Begin another segment, with the machine's state behind the last entry. `number` is random."""
        last = self._segments[-1]
        assert last.tail.is_full, f"{last.name} ends only when an entry says so"
        last.write_index()
        checkpoint = self.checkpoint(state, machine_version)._replace(previous_end=last.tail.end, begins_log=False)
        return RollJob(self._disk, self._directory, last, checkpoint, number)

    def end_roll(self, job: RollJob) -> None:
        """The job was performed."""
        assert job.made is not None and job.made.first_index == self.last_index + 1, "another log was rolled"
        last = self._segments[-1]
        self._segments = [*self._segments, job.made]
        self._all_durable()
        self._read_lately(last)

    def checkpoint(self, state: Buffer, machine_version: int) -> Checkpoint:
        """Behind the last entry, where the machine has this state."""
        tail = self._segments[-1].tail
        in_force = self._memberships[-1]
        return Checkpoint(self.last_index, tail.term, tail.next_offset, tail.time_ms, *in_force, machine_version, state)

    # Losing.

    def truncate(self, last_index: int) -> None:
        """All behind this entry is gone, durably: it is not what the group has agreed on, or it is damaged. Fsyncs."""
        assert last_index >= self.committed, f"entry {self.committed} is committed: no truncation to {last_index}"
        assert self.first_index - 1 <= last_index <= self.last_index, f"no truncation to {last_index}"
        kept = max(1, bisect_right(self._segments, last_index, key=lambda segment: segment.first_index))
        segment = self._segments[kept - 1]
        behind = [first for first in first_indexes(self._disk, self._directory) if first > segment.first_index]
        self._truncations += 1
        delete_segments(self._disk, self._directory, behind[::-1])
        was_sealed = kept < len(self._segments)
        self._segments = self._segments[:kept]
        segment.truncate(last_index - segment.checkpoint.last_index)
        self._recently_read.pop(segment.first_index, None)
        self.damage = None
        self._all_durable()
        self._forget_memberships(segment if was_sealed else None)

    def cut(self, first_offset: int) -> list[StreamSegment]:
        """Messages below this offset are not needed: segments that have no others leave the log, but for the last. Their files
        are left to `delete`."""
        kept = 0
        while kept + 1 < len(self._segments) and self._segments[kept + 1].checkpoint.first_offset <= first_offset:
            kept += 1
        assert self._segments[kept].checkpoint.last_index <= self.committed, f"offset {first_offset} is not committed"
        dropped, self._segments = self._segments[:kept], self._segments[kept:]
        for segment in dropped:
            self._recently_read.pop(segment.first_index, None)
        in_force = bisect_right(self._memberships, self.first_index - 1, key=lambda one: one[0])
        self._memberships = self._memberships[max(0, in_force - 1) :]
        return dropped

    def delete(self, dropped: Sequence[StreamSegment]) -> None:
        """The files of segments that left the log, the oldest first. Who reads them reads on. Fsyncs the directory, and may be
        called in another thread."""
        delete_segments(self._disk, self._directory, [segment.first_index for segment in dropped])

    # Reading.

    def commit(self, index: int) -> None:
        """Raft has committed this entry: readers may see it."""
        assert self.committed <= index <= self.last_index, (
            f"commit {index} behind {self.committed} of {self.last_index}"
        )
        if index > self.committed:
            self.committed_offset = self.row(index).next_offset if index < self.last_index else self.next_offset
            self.committed = index

    def term(self, index: int) -> int:
        """Of an entry, or of the last one that is missing before the first. Raises Compacted, Corrupt."""
        if index < self.first_index:
            if index < self.first_index - 1:
                raise Compacted(index, self.first_index)
            return self._segments[0].checkpoint.last_term
        segment = self.segment_of(index)
        if segment.checkpoint.last_term == segment.tail.term or index == segment.last_index:
            return segment.tail.term
        return self.row(index).term

    def row(self, index: int) -> IndexRow:
        """Where an entry lies. Raises Corrupt."""
        segment = self.segment_of(index)
        return segment.row(index - segment.first_index)

    def segment_of(self, index: int) -> StreamSegment:
        """The segment that has this entry."""
        assert self.first_index <= index <= self.last_index, f"entry {index} of a log to {self.last_index}"
        at = bisect_right(self._segments, index, key=lambda segment: segment.first_index) - 1
        segment = self._segments[at]
        if at + 1 < len(self._segments):
            self._read_lately(segment)
        return segment

    def heads(self, first_index: int) -> Iterator[tuple[FrameHeader, bytes]]:
        """Headers and heads of all entries from this one on: what a machine's state follows from. Raises Corrupt."""
        while first_index <= self.last_index:
            segment = self.segment_of(first_index)
            yield from segment.walk(first_index)
            first_index = segment.last_index + 1

    def stored_checkpoint(self, segment: StreamSegment) -> Checkpoint:
        """With the machine's state. Raises Corrupt."""
        return load_checkpoint(self._disk, segment.name)[0]

    def _all_durable(self) -> None:
        self._durable_end = self._segments[-1].tail.end
        self.durable_index = self.last_index

    def _forget_memberships(self, segment: StreamSegment | None) -> None:
        """Of entries that are gone; with `segment`, of which only the membership behind it was known."""
        found = [one for one in self._memberships if one[0] <= self.last_index]
        if segment is not None:
            entries = FoundEntries(segment.checkpoint, segment.start)
            entries.read(segment.frames())
            found += decoded(entries.memberships, self.last_index)
        self._memberships = sorted(dict(found).items())

    def _read_lately(self, segment: StreamSegment) -> None:
        """Keep the files of a few sealed segments open."""
        self._recently_read[segment.first_index] = segment
        self._recently_read.move_to_end(segment.first_index)
        if len(self._recently_read) > OPEN_SEGMENTS_MAX:
            self._recently_read.popitem(last=False)[1].let_go()


def begin_log(disk: Disk, directory: str, checkpoint: Checkpoint, number: int) -> StreamLog:
    """A log that begins behind this checkpoint: a new one, or with a snapshot in place of all that was there. Fsyncs."""
    disk.make_dir(directory)
    firsts = first_indexes(disk, directory)
    begin = checkpoint.last_index + 1
    delete_segments(disk, directory, [first for first in firsts[::-1] if first >= begin])
    segment = create_segment(disk, directory, checkpoint._replace(previous_end=0, begins_log=True), number)
    delete_segments(disk, directory, [first for first in firsts if first < begin])
    in_force = (checkpoint.membership_index, checkpoint.membership)
    return StreamLog(disk, directory, FoundLog([segment], [in_force]))

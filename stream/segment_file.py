"""One segment of a stream's log: a file of frames that begins with a checkpoint, and its index.

    frame of the checkpoint      stream/checkpoint.py, in a frame of stream/framing.py
    frames of entries            without gaps, their indexes ascending by 1

A segment takes its name when its checkpoint is durable. Then it grows until an entry says that it ends there, and is fsynced as
a whole before the next one is made: only the last segment of a log may end in an unfinished write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from raft.core.errors import BadBytes
from raft.core.messages import Entry, EntryKind
from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, DiskFull, StorageError
from storage.names import chunks_file, offsets_file, temporary
from stream.checkpoint import Checkpoint, decode_checkpoint, seal_checkpoint
from stream.entries import summarize
from stream.framing import (
    CHECKPOINT_KIND,
    FRAME_HEADER_BYTES,
    SINGLE_BYTES,
    FrameHeader,
    FrameHeads,
    UnreadableFrame,
    seal_frame,
)
from stream.index import BadIndex, IndexRow, OffsetIndex
from stream.segment_tail import FoundEntries, SegmentTail

T = TypeVar("T")


class StreamSegment:
    """See the module. Its checkpoint is kept without the machine's state."""

    __slots__ = ("_disk", "_file", "_offsets", "checkpoint", "index_name", "name", "number", "rebuilt", "start", "tail")

    def __init__(self, disk: Disk, directory: str, checkpoint: Checkpoint, number: int, start: int) -> None:
        self.name = chunks_file(directory, checkpoint.last_index + 1)
        self.index_name = offsets_file(directory, checkpoint.last_index + 1)
        self.checkpoint = checkpoint._replace(state=b"")
        self.number = number
        self.start = start  # of the frame of the first entry
        self.tail = SegmentTail(checkpoint, start)
        self.rebuilt = 0  # how often its index was not what it should be
        self._disk = disk
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None

    @property
    def first_index(self) -> int:
        return self.checkpoint.last_index + 1

    @property
    def last_index(self) -> int:
        """One less than the first if it has no entries."""
        return self.checkpoint.last_index + self.tail.count

    @property
    def file(self) -> File:
        """Open until `let_go`. Whoever reads keeps it, and may read on also when the segment was deleted meanwhile."""
        if self._file is None:
            try:
                self._file = self._disk.open(self.name)
            except FileNotFoundError as error:
                raise Corrupt(self.name, 0, 0, "the file is missing") from error
        return self._file

    def let_go(self) -> None:
        """Files are opened again when they are needed. The index has been written."""
        self._file = self._offsets = None

    # Changes.

    def append(self, entries: Sequence[Entry], durable: int) -> None:
        """Write these entries, which follow on the last one, at once. `durable`: bytes of this segment that are fsynced. Raises
        BadBytes, DiskFull, then nothing has changed; DiskFailed."""
        tail = self.tail.copy()
        parts: list[Buffer] = []
        rows = []
        for entry in entries:
            assert not tail.is_full, f"entry {entry.index} comes behind the end of {self.name}"
            data, kind = entry.data, entry.kind
            head = data[: summarize(data).head_bytes] if kind == EntryKind.COMMAND else data
            data_bytes = len(data) - len(head)
            parts += (seal_frame(kind, entry.term, entry.index, self.number, durable, head, data_bytes), data)
            rows.append(tail.add(entry.index, entry.term, kind, head, FRAME_HEADER_BYTES + len(data)))
        try:
            self.file.write_at(self.tail.end, parts)
        except DiskFull:
            with suppress(StorageError):
                self.file.truncate(self.tail.end)
            raise
        self._extend(tail, rows)

    def write_index(self) -> None:
        """Its index is not changed any more."""
        self.indexed(OffsetIndex.write)

    def sync(self) -> None:
        """Make all of it durable, with its index, behind `write_index`."""
        self.file.sync()
        self._index().sync()

    def truncate(self, count: int) -> None:
        """Keep only so many entries, durably."""
        if count < self.tail.count:
            tail = self._tail_at(count)
            self.file.truncate(tail.end)
            self.indexed(lambda offsets: offsets.truncate(count))
            self.tail = tail
        self.file.truncate(self.tail.end)  # also what a failed write has left
        self.file.sync()

    def end_before(self, following: Checkpoint) -> None:
        """It was sealed where this one begins. Raises Corrupt when that is not what it has."""
        count, size = following.last_index - self.checkpoint.last_index, self.file.size()
        if size < following.previous_end:
            raise Corrupt(self.name, size, following.previous_end - size, "its end is missing")
        tail = self.tail = SegmentTail(self.checkpoint, self.start)
        tail.count, tail.end, tail.is_full = count, following.previous_end, True
        tail.term, tail.time_ms, tail.next_offset = following.last_term, following.time_ms, following.first_offset
        last = self.indexed(lambda offsets: self.places(offsets, count - 1, 1))[0][0]
        if (last.next_offset, last.term) != (following.first_offset, following.last_term):
            raise Corrupt(self.name, last.position, 0, f"entry {last.entry_index} is not the one that follows")
        self.let_go()

    # Reading.

    def frames(self) -> FrameHeads:
        """All of its frames, to be read soon."""
        return FrameHeads(self.file, self.tail.end, self.number)

    def walk(self, first_index: int) -> Iterator[tuple[FrameHeader, bytes]]:
        """Headers and heads of the entries from this one on. Raises Corrupt."""
        number = first_index - self.first_index
        start = self.row(number).position if number else self.start
        try:
            for _, header, head in self.frames().walk(start):
                yield header, head
        except UnreadableFrame as error:
            raise self.damaged(error) from error

    def row(self, number: int) -> IndexRow:
        """Of the entry so many behind the first. Raises Corrupt when the segment is damaged."""
        return self.indexed(lambda offsets: offsets.row(number))

    def places(self, offsets: OffsetIndex, number: int, count: int) -> list[tuple[IndexRow, int]]:
        """The rows of so many entries, or as many as there are, each with the place where the entry ends. The first one is
        looked up in the segment. Raises BadIndex."""
        rows = offsets.rows(number, count + 1)
        self.must_be_at(rows[0])
        ends = [*(row.position for row in rows[1:]), self.tail.end]
        return list(zip(rows[:count], ends, strict=False))

    def indexed(self, look: Callable[[OffsetIndex], T]) -> T:
        """What is found in the index. It is made anew if that raises BadIndex; should it say so again, Corrupt is raised, as it
        is when the segment cannot be read."""
        try:
            return look(self._index())
        except BadIndex:
            self._rebuild()
        try:
            return look(self._index())
        except BadIndex as error:
            raise Corrupt(self.name, 0, self.tail.end, str(error)) from error

    def must_be_at(self, row: IndexRow) -> bytes:
        """The head of the entry that lies where this row says. Raises BadIndex when it does not."""
        try:
            header, head = FrameHeads(self.file, self.tail.end, self.number, SINGLE_BYTES).at(row.position)
        except UnreadableFrame as error:
            raise BadIndex(f"entry {row.entry_index} of {self.name} is not found: {error}") from error
        chunk = summarize(head).chunk if header.kind == EntryKind.COMMAND else None
        found = (chunk.first_offset, chunk.message_count) if chunk is not None else (row.offset, 0)
        if (header.entry_index, header.term, *found) != (row.entry_index, row.term, row.offset, row.message_count):
            raise BadIndex(f"another entry than {row.entry_index} is at {row.position} of {self.name}")
        return head

    def damaged(self, error: UnreadableFrame) -> Corrupt:
        return Corrupt(self.name, error.position, self.tail.end - error.position, error.reason)

    def _index(self) -> OffsetIndex:
        if self._offsets is None:
            offsets = OffsetIndex(self._disk, self.index_name, self.number, self.first_index)
            if self.tail.count:
                offsets.load(self.tail.count)
            self._offsets = offsets
        return self._offsets

    def _rebuild(self) -> None:
        self.rebuilt += 1
        found = FoundEntries(self.checkpoint, self.start)
        problem = found.read(self.frames())
        if problem is not None:
            raise self.damaged(problem)
        if (found.tail.count, found.tail.end) != (self.tail.count, self.tail.end):
            raise Corrupt(self.name, found.tail.end, 0, f"{self.tail.count} entries should be here")
        offsets = self.take(found, found.tail.count)
        with suppress(DiskFull):
            offsets.write()

    def take(self, found: FoundEntries, count: int) -> OffsetIndex:
        """It has the first ones of what was found in its file. Returns its new index."""
        offsets = OffsetIndex(self._disk, self.index_name, self.number, self.first_index)
        for row in found.rows[:count]:
            offsets.add(row)
        self.tail = found.tail
        if count < found.tail.count:
            self.tail = SegmentTail(self.checkpoint, self.start)
            self.tail.follow(found.rows[count - 1] if count else None, count, found.rows[count].position)
        self._offsets = offsets
        return offsets

    def _extend(self, tail: SegmentTail, rows: Sequence[IndexRow]) -> None:
        offsets = self._index()
        for row in rows:
            offsets.add(row)
        self.tail = tail
        with suppress(DiskFull):  # they wait in memory until there is room
            offsets.write_if_many()

    def _tail_at(self, count: int) -> SegmentTail:
        tail = SegmentTail(self.checkpoint, self.start)
        tail.follow(self.row(count - 1) if count else None, count, self.row(count).position)
        return tail


def create_segment(disk: Disk, directory: str, checkpoint: Checkpoint, number: int) -> StreamSegment:
    """A segment without entries, durable with its name. `number` is random. Raises DiskFull, DiskFailed; then there is none."""
    name = chunks_file(directory, checkpoint.last_index + 1)
    beside = temporary(name)
    with suppress(FileNotFoundError):  # of an attempt that a crash ended
        disk.delete(beside)
    sealed = seal_checkpoint(checkpoint, number)
    file = disk.create(beside)
    try:
        file.write_at(0, [sealed])
        file.sync()
    except StorageError:
        with suppress(StorageError, FileNotFoundError):
            disk.delete(beside)
        raise
    finally:
        file.close()
    disk.rename(beside, name)
    disk.sync_dir(directory)
    return StreamSegment(disk, directory, checkpoint, number, len(sealed))


def open_segment(disk: Disk, directory: str, first_index: int) -> StreamSegment:
    """As far as its checkpoint tells; of its entries nothing is known yet. Raises Corrupt."""
    name = chunks_file(directory, first_index)
    checkpoint, number, start = load_checkpoint(disk, name)
    if checkpoint.last_index + 1 != first_index:
        raise Corrupt(name, 0, start, f"it begins behind entry {checkpoint.last_index}")
    return StreamSegment(disk, directory, checkpoint, number, start)


def load_checkpoint(disk: Disk, name: str) -> tuple[Checkpoint, int, int]:
    """What a segment begins with, its number, and where its entries begin. Raises Corrupt."""
    try:
        file = disk.open(name)
    except FileNotFoundError as error:
        raise Corrupt(name, 0, 0, "the file is missing") from error
    size = file.size()
    try:
        header, payload = FrameHeads(file, size, None, SINGLE_BYTES).at(0)
        if header.kind != CHECKPOINT_KIND:
            raise Corrupt(name, 0, header.size, "it does not begin with a checkpoint")
        return decode_checkpoint(header, payload), header.segment, header.size
    except UnreadableFrame as error:
        raise Corrupt(name, 0, size, error.reason) from error
    except BadBytes as error:
        raise Corrupt(name, 0, size, str(error)) from error
    finally:
        file.close()

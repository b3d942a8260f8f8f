"""Where a segment of a stream ends, and the rows of its index: what follows from its entries one after another."""

from __future__ import annotations

from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from storage.disk import Buffer
from stream.checkpoint import Checkpoint
from stream.entries import summarize
from stream.framing import CHECKPOINT_KIND, FrameHeader, FrameHeads, UnreadableFrame
from stream.index import IndexRow


class SegmentTail:
    """Where a segment ends, and what its next entry must follow."""

    __slots__ = ("count", "end", "is_full", "next_offset", "term", "time_ms")

    def __init__(self, checkpoint: Checkpoint, start: int) -> None:
        self.end = start
        self.count = 0
        self.term = checkpoint.last_term
        self.time_ms = checkpoint.time_ms
        self.next_offset = checkpoint.first_offset
        self.is_full = False  # the last entry says that the segment ends behind it

    def add(self, index: int, term: int, kind: int, head: Buffer, size: int) -> IndexRow:
        """Take the entry behind the last one, whose frame has `size` bytes. Raises BadBytes when it cannot be that one."""
        chunk = None
        time_ms = self.time_ms
        if kind == EntryKind.COMMAND:
            _, time_ms, chunk, self.is_full = summarize(head)
        if term < self.term:
            raise BadBytes(f"entry {index} of term {term} stands behind one of term {self.term}")
        if chunk is not None and chunk.first_offset != self.next_offset:
            raise BadBytes(f"entry {index} begins with offset {chunk.first_offset}, not {self.next_offset}")
        self.term = term
        self.time_ms = max(self.time_ms, time_ms)
        sizes = (chunk.size, chunk.message_count) if chunk is not None else (0, 0)
        row = IndexRow(self.next_offset, self.time_ms, index, self.end, term, *sizes)
        self.next_offset += row.message_count
        self.end += size
        self.count += 1
        return row

    def follow(self, last: IndexRow | None, count: int, end: int) -> None:
        """Stand behind so many entries, of which this is the last, and which do not fill the segment."""
        self.end, self.count = end, count
        if last is not None:
            self.term, self.time_ms, self.next_offset = last.term, last.time_ms, last.next_offset

    def copy(self) -> SegmentTail:
        twin = object.__new__(SegmentTail)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin


class FoundEntries:
    """The entries that a segment's file has, whatever is known of it: up to the first that cannot be read."""

    def __init__(self, checkpoint: Checkpoint, start: int) -> None:
        """Its first one follows this checkpoint, and lies at `start`."""
        self.tail = SegmentTail(checkpoint, start)
        self.rows: list[IndexRow] = []
        self.memberships: list[tuple[int, bytes]] = []  # index, data of the entry
        self.durable = start  # up to where they say that the file had been fsynced
        self._first_index = checkpoint.last_index + 1

    def read(self, heads: FrameHeads) -> UnreadableFrame | None:
        """Find all entries, or why there are no more."""
        try:
            for position, header, head in heads.walk(self.tail.end):
                self._add(position, header, head)
        except UnreadableFrame as error:
            return error
        return None

    def _add(self, position: int, header: FrameHeader, head: bytes) -> None:
        expected = self._first_index + self.tail.count
        if header.entry_index != expected or header.kind == CHECKPOINT_KIND or self.tail.is_full:
            raise UnreadableFrame(position, f"entry {header.entry_index} lies where {expected} should")
        try:
            row = self.tail.add(header.entry_index, header.term, header.kind, head, header.size)
        except BadBytes as error:
            raise UnreadableFrame(position, str(error)) from error
        self.rows.append(row)
        self.durable = max(self.durable, header.durable)
        if header.kind == EntryKind.MEMBERSHIP:
            self.memberships.append((header.entry_index, head))

"""The machine of a stream's group: it decides which chunks count, and knows where they are. The messages stay in the log.

A chunk was sealed by the leader for a place in the log (stream/tail.py). It counts if it stands there: its first offset is the
one that comes next, its time is not before the last one's, and what its writer said before it is in the stream. Otherwise it is
passed over, by every member alike, and its writer says it again. So whatever becomes of leaders, offsets have no gaps, none is
given twice, and a portion that was said again is stored once.

The state encodes to, little endian:

    format u16 | machine version u32 | applied u64 | digest u64 | first offset u64 | next offset u64 | time i64
    | segments u32, of each: first entry index u64, first offset u64, bytes u64, last time i64
    | ranges u32, of each: first entry index u64, end u64                    entries that the stream consists of
    | writers u32, of each: node u32, incarnation u64, sequence u64
    | stored offsets u32, of each: reference (size u8, UTF-8), offset u64, time i64
    | places (stream/chunk_places.py)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct

from native.crc32c import crc32c
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.live_entries import LiveEntries
from storage.disk import Buffer
from stream.chunk import ChunkHeader
from stream.chunk_places import ChunkPlaces
from stream.entries import ChunkEntry, LogEntry, NamesForgotten, RetentionCut, StoredOffsets, WriterPosition, decode

MACHINE_VERSION = 1
STATE_FORMAT = 1

_HEAD = Struct("<HIQQQQq")
_COUNT = Struct("<I")
_SEGMENT = Struct("<QQQq")
_RANGE = Struct("<QQ")
_WRITER = Struct("<IQQ")
_STORED = Struct("<Qq")
_DIGEST_FACTOR = 0x9E3779B97F4A7C15
_DIGEST_MASK = (1 << 64) - 1


class Written(IntEnum):
    """What became of an entry."""

    DONE = 0
    KNOWN = 1  # it was in the stream already
    OUT_OF_PLACE = 2  # something before it is missing; nothing was done


@dataclass(slots=True)
class StreamSegmentSpan:
    """A part of the stream that retention removes as one."""

    first_index: int  # of the entry that it begins with, or will
    first_offset: int
    size: int = 0  # bytes of its chunks
    last_time_ms: int = 0


@dataclass(slots=True)
class StoredOffset:
    """What a consumer has stored under its reference."""

    offset: int
    time_ms: int


@dataclass(slots=True)
class StreamState:
    """Where the stream stands behind the last entry that was applied."""

    version: int = MACHINE_VERSION
    applied: int = 0
    digest: int = 0
    first_offset: int = 0
    next_offset: int = 0
    time_ms: int = 0
    segments: list[StreamSegmentSpan] = field(default_factory=list)  # the last one grows
    ranges: list[list[int]] = field(default_factory=list)  # entry indexes, first and end
    writers: dict[int, WriterPosition] = field(default_factory=dict)  # by node: of its latest life
    stored: dict[str, StoredOffset] = field(default_factory=dict)
    places: ChunkPlaces = field(default_factory=ChunkPlaces)
    last_chunk: int = -1  # offset of its first message; -1: there is none, or it came before the snapshot

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum(segment.size for segment in self.segments)

    @property
    def message_count(self) -> int:
        """Of those that are kept."""
        return self.next_offset - self.first_offset

    def entry_at_or_behind(self, index: int) -> int | None:
        """The first entry of the stream that is not before this one."""
        at = bisect_right(self.ranges, index, key=lambda one: one[0]) - 1
        if at >= 0 and index < self.ranges[at][1]:
            return index
        return self.ranges[at + 1][0] if at + 1 < len(self.ranges) else None


class StreamMachine:
    """See the module."""

    def __init__(self) -> None:
        self.state = StreamState()
        self._begins_segment = True  # with the next chunk

    # ComparedMachine of replicated/member.py

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def applied(self) -> int:
        return self.state.applied

    @property
    def digest(self) -> int:
        return self.state.digest

    @property
    def open_bytes(self) -> int:
        """Of the segment that the next chunk goes into."""
        return 0 if self._begins_segment else self.state.segments[-1].size

    # raft/machine.py

    def apply(self, index: int, data: bytes) -> Written:
        """One entry. Raises BadBytes for what this version does not know: no member can go on then."""
        entry = decode(data)
        state = self.state
        state.applied = index
        written = self._apply(index, entry)
        if written is Written.DONE:
            self._extend(index)
            waits = self._begins_segment and not isinstance(entry, ChunkEntry)  # for a chunk to begin it
            self._begins_segment = waits or entry.ends_segment
        outcome = crc32c(data) + state.next_offset + (state.first_offset << 20) + (index << 40)
        state.digest = (state.digest * _DIGEST_FACTOR + outcome) & _DIGEST_MASK
        return written

    def live_entries(self) -> LiveEntries:
        return LiveEntries.of_ranges(self.state.ranges)

    def snapshot(self) -> Sequence[Buffer]:
        return (encode_state(self.state, begins_segment=self._begins_segment),)

    def restore(self, data: bytes, version: int) -> None:
        """Raises BadBytes."""
        if version != MACHINE_VERSION:
            raise BadBytes(f"a stream's machine of version {version} is not known here")
        self.state, self._begins_segment = decode_state(data)

    # Entries.

    def _apply(self, index: int, entry: LogEntry) -> Written:
        state = self.state
        if isinstance(entry, ChunkEntry):
            return self._take(index, entry)
        state.time_ms = max(state.time_ms, entry.time_ms)
        if isinstance(entry, StoredOffsets):
            for reference, offset in entry.offsets:
                state.stored[reference] = StoredOffset(offset, entry.time_ms)
        elif isinstance(entry, NamesForgotten):
            for reference in entry.references:
                state.stored.pop(reference, None)
        else:
            self._cut(entry)
        return Written.DONE

    def _take(self, index: int, entry: ChunkEntry) -> Written:
        state, header = self.state, entry.header
        for writer in entry.writers:
            known = state.writers.get(writer.node)
            if known is not None and known[1:] >= writer[1:]:
                return Written.KNOWN
            before = known.sequence if known is not None and known.incarnation == writer.incarnation else 0
            if before + header.message_count != writer.sequence:
                return Written.OUT_OF_PLACE
        if header.first_offset != state.next_offset or header.time_ms < state.time_ms:
            return Written.OUT_OF_PLACE
        for writer in entry.writers:
            state.writers[writer.node] = writer
        self._append(index, header)
        return Written.DONE

    def _append(self, index: int, header: ChunkHeader) -> None:
        state = self.state
        begins = self._begins_segment
        if begins:
            state.segments.append(StreamSegmentSpan(index, header.first_offset))
        state.places.add(index, header, begins=begins)
        last = state.segments[-1]
        last.size += header.size
        last.last_time_ms = state.time_ms = header.time_ms
        state.last_chunk, state.next_offset = header.first_offset, header.next_offset

    def _cut(self, entry: RetentionCut) -> None:
        """Whole segments go, and the last one stays."""
        state = self.state
        while len(state.segments) > 1 and state.segments[1].first_offset <= entry.first_offset:
            del state.segments[0]
        if not state.segments or state.segments[0].first_offset <= state.first_offset:
            return
        first = state.segments[0]
        state.first_offset = first.first_offset
        state.places.cut(first.first_index)
        state.ranges = [[max(low, first.first_index), end] for low, end in state.ranges if end > first.first_index]

    def _extend(self, index: int) -> None:
        """This entry belongs to the stream. Before the first chunk there is nothing to keep."""
        ranges, state = self.state.ranges, self.state
        if not state.segments:
            return
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])


def encode_state(state: StreamState, *, begins_segment: bool) -> bytes:
    parts = [
        _HEAD.pack(
            STATE_FORMAT, state.version, state.applied, state.digest, state.first_offset, state.next_offset,
            state.time_ms,
        ),
        bytes((begins_segment,)),
        _COUNT.pack(len(state.segments)),
        *(_SEGMENT.pack(one.first_index, one.first_offset, one.size, one.last_time_ms) for one in state.segments),
        _COUNT.pack(len(state.ranges)),
        *(_RANGE.pack(*one) for one in state.ranges),
        _COUNT.pack(len(state.writers)),
        *(_WRITER.pack(*one) for one in state.writers.values()),
        _COUNT.pack(len(state.stored)),
    ]  # fmt: skip
    for reference, stored in state.stored.items():
        name = reference.encode()
        parts += [bytes((len(name),)), name, _STORED.pack(stored.offset, stored.time_ms)]
    return b"".join((*parts, state.places.encode()))


def decode_state(data: bytes) -> tuple[StreamState, bool]:
    """And whether the next entry begins a segment. Raises BadBytes."""
    reader = ByteReader(data)
    found, version, *numbers = reader.fields(_HEAD)
    if found != STATE_FORMAT or version != MACHINE_VERSION:
        raise BadBytes(f"the state of a stream in format {found}, version {version} is not known here")
    state = StreamState(version, *numbers)
    begins_segment = reader.flag()
    for _ in range(reader.u32()):
        state.segments.append(StreamSegmentSpan(*reader.fields(_SEGMENT)))
    state.ranges = [list(reader.fields(_RANGE)) for _ in range(reader.u32())]
    writers = (WriterPosition(*reader.fields(_WRITER)) for _ in range(reader.u32()))
    state.writers = {writer.node: writer for writer in writers}
    for _ in range(reader.u32()):
        reference = _reference(reader)
        state.stored[reference] = StoredOffset(*reader.fields(_STORED))
    state.places = ChunkPlaces.decode(reader)
    reader.must_end()
    return state, begins_segment


def _reference(reader: ByteReader) -> str:
    try:
        return reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a reference before {reader.at} is not UTF-8: {error}") from error

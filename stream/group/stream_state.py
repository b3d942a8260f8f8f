"""Where a stream stands behind an entry of its log: the state of its machine, and its bytes.

It encodes to, little endian:

    format u16 | machine version u32 | applied u64 | digest u64 | first offset u64 | next offset u64 | time i64
    | u8: 1 if the next chunk begins a segment
    | segments u32, of each: first entry index u64, first offset u64, bytes u64, last time i64
    | ranges u32, of each: first entry index u64, end u64                    entries that the stream consists of
    | writers u32, of each: node u32, incarnation u64, sequence u64
    | stored offsets u32, of each: reference (size u8, UTF-8), offset u64, time i64      who stored last is the last
    | publishers u32, of each: name (size u8, UTF-8), last id u64, offset u64, time i64  who published last is the last
    | last chunk i64
    | places (stream/group/chunk_places.py)

The format is 2; without publishers and last chunk it was 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from stream.chunks.entries import WriterPosition
from stream.group.chunk_places import ChunkPlaces

MACHINE_VERSION = 1
STATE_FORMAT = 2
FORMAT_WITHOUT_PUBLISHERS = 1
PUBLISHERS_MAX = 255  # names whose last ids are kept, those that published last
STORED_MAX = 16_384  # references whose offsets are kept, those that stored last

_HEAD = Struct("<HIQQQQq")
_COUNT = Struct("<I")
_SEGMENT = Struct("<QQQq")
_RANGE = Struct("<QQ")
_WRITER = Struct("<IQQ")
_STORED = Struct("<Qq")
_PUBLISHER = Struct("<QQq")
_LAST_CHUNK = Struct("<q")


@dataclass(slots=True)
class StreamSegmentSpan:
    """A part of the stream that retention removes as one."""

    first_index: int  # of the entry that it begins with, or will
    first_offset: int
    size: int = 0  # bytes of its chunks
    last_time_ms: int = 0


class StoredOffset(NamedTuple):
    """What a consumer has stored under its reference."""

    offset: int
    time_ms: int


class PublisherPosition(NamedTuple):
    """How far a publisher with a name has come."""

    last_id: int
    offset: int  # of the chunk with that
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
    last_chunk: int = (
        -1
    )  # offset of its first message; -1: there is none, or it is not known: stream/group/place_finder.py looks
    segments: list[StreamSegmentSpan] = field(default_factory=list)  # the last one grows
    ranges: list[list[int]] = field(default_factory=list)  # entry indexes, first and end
    writers: dict[int, WriterPosition] = field(default_factory=dict)  # by node: of its latest life
    stored: dict[str, StoredOffset] = field(default_factory=dict)  # the one that was stored last is the last
    publishers: dict[str, PublisherPosition] = field(default_factory=dict)  # the one that published last is the last
    places: ChunkPlaces = field(default_factory=ChunkPlaces)

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum(segment.size for segment in self.segments)

    @property
    def message_count(self) -> int:
        """Of those that are kept."""
        return self.next_offset - self.first_offset

    def publisher_id(self, name: str) -> int:
        """The last one that is in the stream; 0: none is known."""
        known = self.publishers.get(name)
        return known.last_id if known is not None else 0

    def entry_at_or_behind(self, index: int) -> int | None:
        """The first entry of the stream that is not before this one."""
        at = bisect_right(self.ranges, index, key=lambda one: one[0]) - 1
        if at >= 0 and index < self.ranges[at][1]:
            return index
        return self.ranges[at + 1][0] if at + 1 < len(self.ranges) else None


def remember(publishers: dict[str, PublisherPosition], name: str, position: PublisherPosition) -> None:
    """Who published longest ago is forgotten when there are too many."""
    publishers.pop(name, None)
    publishers[name] = position
    if len(publishers) > PUBLISHERS_MAX:
        del publishers[next(iter(publishers))]


def forget_oldest(stored: dict[str, StoredOffset]) -> None:
    """Where there are too many references, those that stored longest ago."""
    for reference in list(islice(stored, max(0, len(stored) - STORED_MAX))):
        del stored[reference]


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
    parts.append(_COUNT.pack(len(state.publishers)))
    for publisher, position in state.publishers.items():
        name = publisher.encode()
        parts += [bytes((len(name),)), name, _PUBLISHER.pack(*position)]
    parts.append(_LAST_CHUNK.pack(state.last_chunk))
    return b"".join((*parts, state.places.encode()))


def decode_state(data: bytes) -> tuple[StreamState, bool]:
    """And whether the next entry begins a segment. Raises BadBytes."""
    reader = ByteReader(data)
    found, version, *numbers = reader.fields(_HEAD)
    if found not in (STATE_FORMAT, FORMAT_WITHOUT_PUBLISHERS) or version != MACHINE_VERSION:
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
    if found == STATE_FORMAT:
        for _ in range(reader.u32()):
            name = _reference(reader)
            state.publishers[name] = PublisherPosition(*reader.fields(_PUBLISHER))
        state.last_chunk = reader.fields(_LAST_CHUNK)[0]
    state.places = ChunkPlaces.decode(reader)
    reader.must_end()
    return state, begins_segment


def _reference(reader: ByteReader) -> str:
    try:
        return reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a reference before {reader.at} is not UTF-8: {error}") from error

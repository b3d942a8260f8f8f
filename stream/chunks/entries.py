"""What the log of a stream consists of: its commands, as bytes that stay readable. Little endian.

    every entry
         0     1  kind      1 chunk   2 stored offsets   3 cut   4 names forgotten   5 all known
         1     1  version   1
         2     2  flags     1: a segment ends behind this entry   2: of a chunk, see below
         4     4  head      how many bytes stand before the data of a chunk; of the other kinds, all
         8        fields

    chunk              filter_len u8 | filter (stream/chunks/bloom.py)
                       | count u16, per publisher with a name: name | id u64, the last one that is in the chunk
                       | count u16, per writer: node u32 | incarnation u64 | sequence u64, the last one that is in the chunk
                       | with flag 2 u32: so many messages that the writer has said are known, and not in the chunk
                       | the chunk (stream/chunks/chunk.py): its header, which ends the head, and its data
    stored offsets     time i64 | count u32, per reference: name | offset u64
    cut                time i64 | offset u64: of the first message that is kept
    names forgotten    time i64 | count u32 | names of publishers | count u32 | references of stored offsets
    all known          time i64 | offset u64: the one that comes next | messages u32 that the writer has said, and all are known
                       | node u32 | incarnation u64 | sequence u64

    name               size u8 | UTF-8
    time               ms since 1970, never less than that of the entry before

What changes the machine stands in the head: the state at any place of a log follows from heads, whatever the size of the data.
Stored offsets without names that end a segment change nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunks.chunk import CHUNK_HEADER_BYTES, ChunkHeader, read_header

VERSION = 1
ENDS_SEGMENT = 1  # a flag, as the next one
LACKS_KNOWN = 2
NAME_BYTES_MAX = 255

_PREFIX = Struct("<BBHI")
_CHUNK_COUNT = Struct("<H")
_WRITER = Struct("<IQQ")
_NUMBER = Struct("<Q")
_TIME = Struct("<q")
_COUNT = Struct("<I")
_CUT = Struct("<qQ")
_ALL_KNOWN = Struct("<qQI")
PREFIX_BYTES = _PREFIX.size
# All that stands before the chunk's header in most entries: no filter, nobody has a name, one writer. Read and written at once:
# where messages come one by one, an entry costs as much as its message.
_USUAL = Struct("<BBHIBHHIQQ")
_USUAL_HEAD_BYTES = _USUAL.size + CHUNK_HEADER_BYTES


class LogEntryKind(IntEnum):
    """What a command of a stream's log is."""

    CHUNK = 1
    STORED_OFFSETS = 2
    CUT = 3
    NAMES_FORGOTTEN = 4
    ALL_KNOWN = 5


class WriterPosition(NamedTuple):
    """How far a node's part of the broker has written: all its publishes up to `sequence` are in the log."""

    node: int
    incarnation: int
    sequence: int


class ChunkEntry(NamedTuple):
    """Messages, and who published them. `chunk` begins with its header; the data behind it is missing where only the head of
    the entry was read."""

    chunk: Buffer
    chunk_filter: bytes = b""  # empty: no message has a filter value
    publishers: Sequence[tuple[str, int]] = ()  # name, last publishing id
    writers: Sequence[WriterPosition] = ()
    ends_segment: bool = False
    known_messages: int = 0  # said by its writer, and left out: their publishers have them in the stream already

    @property
    def header(self) -> ChunkHeader:
        return read_header(self.chunk)


class StoredOffsets(NamedTuple):
    """Consumers have stored these offsets under their references."""

    time_ms: int
    offsets: Sequence[tuple[str, int]]
    ends_segment: bool = False


class RetentionCut(NamedTuple):
    """The stream begins with this offset from now on."""

    time_ms: int
    first_offset: int
    ends_segment: bool = False


class NamesForgotten(NamedTuple):
    """These were not used for long."""

    time_ms: int
    publishers: Sequence[str]
    references: Sequence[str]
    ends_segment: bool = False


class AllKnown(NamedTuple):
    """A node has said what its publishers have in the stream already. Sealed for a place, as a chunk is."""

    time_ms: int
    next_offset: int
    message_count: int
    writer: WriterPosition
    ends_segment: bool = False


LogEntry = ChunkEntry | StoredOffsets | RetentionCut | NamesForgotten | AllKnown


def encode(entry: LogEntry) -> bytes:
    match entry:
        case ChunkEntry(chunk, chunk_filter, publishers, writers, ends_segment, known):
            header, data = memoryview(chunk)[:CHUNK_HEADER_BYTES], memoryview(chunk)[CHUNK_HEADER_BYTES:]
            return encode_chunk(header, [data], chunk_filter, publishers, writers, ends_segment, known)
        case StoredOffsets(time_ms, offsets, ends_segment):
            fields = _TIME.pack(time_ms) + _COUNT.pack(len(offsets)) + _numbered(offsets)
            return _encode(LogEntryKind.STORED_OFFSETS, fields, ends_segment)
        case RetentionCut(time_ms, first_offset, ends_segment):
            return _encode(LogEntryKind.CUT, _CUT.pack(time_ms, first_offset), ends_segment)
        case NamesForgotten(time_ms, publishers, references, ends_segment):
            fields = _TIME.pack(time_ms) + _names(publishers) + _names(references)
            return _encode(LogEntryKind.NAMES_FORGOTTEN, fields, ends_segment)
        case AllKnown(time_ms, next_offset, messages, writer, ends_segment):
            fields = _ALL_KNOWN.pack(time_ms, next_offset, messages) + _WRITER.pack(*writer)
            return _encode(LogEntryKind.ALL_KNOWN, fields, ends_segment)


def encode_chunk(
    header: Buffer,
    data: Sequence[Buffer],
    chunk_filter: bytes = b"",
    publishers: Sequence[tuple[str, int]] = (),
    writers: Sequence[WriterPosition] = (),
    ends_segment: bool = False,
    known_messages: int = 0,
) -> bytes:
    """A chunk entry whose data gathers from these parts. `header` is from `seal_chunk`."""
    if not (chunk_filter or publishers or known_messages) and len(writers) == 1:
        flags = ENDS_SEGMENT if ends_segment else 0
        usual = _USUAL.pack(LogEntryKind.CHUNK, VERSION, flags, _USUAL_HEAD_BYTES, 0, 0, 1, *writers[0])
        return b"".join((usual, header, *data))
    fields = b"".join(
        (
            bytes((len(chunk_filter),)),
            chunk_filter,
            _CHUNK_COUNT.pack(len(publishers)),
            _numbered(publishers),
            _CHUNK_COUNT.pack(len(writers)),
            *(_WRITER.pack(*writer) for writer in writers),
            _COUNT.pack(known_messages) if known_messages else b"",
            header,
        )
    )
    flags = (ENDS_SEGMENT if ends_segment else 0) | (LACKS_KNOWN if known_messages else 0)
    return b"".join((_prefix(LogEntryKind.CHUNK, len(fields), flags), fields, *data))


def decode(data: Buffer) -> LogEntry:
    """An entry, or the head of a chunk entry. Raises BadBytes."""
    usual = _read_usual(data)
    if usual is not None:
        return usual
    kind, flags, head = read_prefix(data)
    ends_segment = bool(flags & ENDS_SEGMENT)
    reader = ByteReader(data, PREFIX_BYTES, head)
    if kind is LogEntryKind.CHUNK:
        return _read_chunk(reader, flags)
    if head != len(data):
        raise BadBytes(f"{len(data) - head} bytes are left over behind an entry of kind {kind.name}")
    entry = _READERS[kind](reader, ends_segment)
    reader.must_end()
    return entry


def read_prefix(data: Buffer) -> tuple[LogEntryKind, int, int]:
    """Kind, flags, and where the data of a chunk begins; of other kinds, where the entry ends. Raises BadBytes."""
    if len(data) < PREFIX_BYTES:
        raise BadBytes(f"an entry of {len(data)} bytes says nothing")
    kind, version, flags, head = _PREFIX.unpack_from(data)
    if version != VERSION or kind not in _KINDS or flags & ~_FLAGS.get(kind, ENDS_SEGMENT):
        raise BadBytes(f"an entry of kind {kind}, version {version}, flags {flags} is not known here")
    if not PREFIX_BYTES <= head <= len(data):
        raise BadBytes(f"an entry of {len(data)} bytes cannot have a head of {head}")
    return LogEntryKind(kind), flags, head


def head_of(data: Buffer) -> memoryview:
    """Of an entry whose prefix was read: all that changes the machine."""
    return memoryview(data)[: _PREFIX.unpack_from(data)[-1]]


def chunk_header(data: Buffer) -> ChunkHeader | None:
    """Of a chunk entry, or of its head. None: the entry is another one. Raises BadBytes."""
    kind, _, head = read_prefix(data)
    return read_header(data, head - CHUNK_HEADER_BYTES) if kind is LogEntryKind.CHUNK else None


_KINDS = frozenset(LogEntryKind)
_FLAGS = {LogEntryKind.CHUNK.value: ENDS_SEGMENT | LACKS_KNOWN}


def _prefix(kind: LogEntryKind, fields_bytes: int, flags: int) -> bytes:
    return _PREFIX.pack(kind, VERSION, flags, PREFIX_BYTES + fields_bytes)


def _encode(kind: LogEntryKind, fields: bytes, ends_segment: bool) -> bytes:
    return _prefix(kind, len(fields), ENDS_SEGMENT if ends_segment else 0) + fields


def _name(name: str) -> bytes:
    encoded = name.encode()
    assert len(encoded) <= NAME_BYTES_MAX, f"a name of {len(encoded)} bytes was not refused"
    return bytes((len(encoded),)) + encoded


def _names(names: Sequence[str]) -> bytes:
    return _COUNT.pack(len(names)) + b"".join(map(_name, names))


def _numbered(names: Iterable[tuple[str, int]]) -> bytes:
    return b"".join(_name(name) + _NUMBER.pack(number) for name, number in names)


def _read_usual(data: Buffer) -> ChunkEntry | None:
    """None: it is another one, or none at all."""
    if len(data) < _USUAL_HEAD_BYTES:
        return None
    kind, version, flags, head, *counts, node, incarnation, sequence = _USUAL.unpack_from(data)
    if kind != LogEntryKind.CHUNK or version != VERSION or flags & ~ENDS_SEGMENT:
        return None
    if head != _USUAL_HEAD_BYTES or counts != [0, 0, 1]:
        return None
    read_header(data, _USUAL.size)
    writer = WriterPosition(node, incarnation, sequence)
    return ChunkEntry(memoryview(data)[_USUAL.size :], writers=(writer,), ends_segment=bool(flags))


def _read_chunk(reader: ByteReader, flags: int) -> ChunkEntry:
    chunk_filter = reader.take(reader.u8())
    publishers = _read_numbered(reader, reader.u16())
    writers = tuple(WriterPosition(*reader.fields(_WRITER)) for _ in range(reader.u16()))
    known = reader.u32() if flags & LACKS_KNOWN else 0
    if reader.end - reader.at != CHUNK_HEADER_BYTES:
        raise BadBytes(f"a head ends in {reader.end - reader.at} bytes where the header of a chunk should be")
    read_header(reader.data, reader.at)
    chunk, ends_segment = memoryview(reader.data)[reader.at :], bool(flags & ENDS_SEGMENT)
    return ChunkEntry(chunk, chunk_filter, publishers, writers, ends_segment, known)


def _read_offsets(reader: ByteReader, ends_segment: bool) -> StoredOffsets:
    return StoredOffsets(_read_time(reader), _read_numbered(reader, reader.u32()), ends_segment)


def _read_cut(reader: ByteReader, ends_segment: bool) -> RetentionCut:
    time_ms, first_offset = reader.fields(_CUT)
    return RetentionCut(time_ms, first_offset, ends_segment)


def _read_forgotten(reader: ByteReader, ends_segment: bool) -> NamesForgotten:
    return NamesForgotten(_read_time(reader), _read_names(reader), _read_names(reader), ends_segment)


def _read_all_known(reader: ByteReader, ends_segment: bool) -> AllKnown:
    time_ms, next_offset, messages = reader.fields(_ALL_KNOWN)
    return AllKnown(time_ms, next_offset, messages, WriterPosition(*reader.fields(_WRITER)), ends_segment)


_READERS: dict[LogEntryKind, Callable[[ByteReader, bool], LogEntry]] = {
    LogEntryKind.STORED_OFFSETS: _read_offsets,
    LogEntryKind.CUT: _read_cut,
    LogEntryKind.NAMES_FORGOTTEN: _read_forgotten,
    LogEntryKind.ALL_KNOWN: _read_all_known,
}


def _read_time(reader: ByteReader) -> int:
    time_ms: int = reader.fields(_TIME)[0]
    return time_ms


def _read_name(reader: ByteReader) -> str:
    try:
        return reader.take(reader.u8()).decode()
    except UnicodeDecodeError as error:
        raise BadBytes(f"a name before {reader.at} is not UTF-8: {error}") from error


def _read_names(reader: ByteReader) -> tuple[str, ...]:
    return tuple(_read_name(reader) for _ in range(reader.u32()))


def _read_numbered(reader: ByteReader, count: int) -> tuple[tuple[str, int], ...]:
    return tuple((_read_name(reader), reader.u64()) for _ in range(count))

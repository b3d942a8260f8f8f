"""Reading a stream's log: entries for other members, chunks for readers, and where to begin.

A reader's place in the log is the index of the next entry it has not seen. So it needs no handle here, and goes on wherever the
log begins when retention has passed it. Whatever is asked for is found by bisection: among the segments in memory, then in the
index of one of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from raft.core.errors import BadBytes, Compacted
from raft.core.messages import Entry
from storage.disk import File
from storage.errors import Corrupt
from storage.record_reader import BytesInMemory
from stream.chunk import CHUNK_HEADER_BYTES, must_be_sound, read_header
from stream.framing import FRAME_HEADER_BYTES, FrameHeads, UnreadableFrame
from stream.index import BadIndex, IndexRow, OffsetIndex
from stream.log import StreamLog
from stream.segment_file import StreamSegment

ROWS_MAX = 64  # of an index that are read at once


class ReadPosition(NamedTuple):
    """Where a reader begins: entry, and the first message that it wants, which may stand within that entry's chunk."""

    next_index: int
    offset: int


class ChunkRange(NamedTuple):
    """A chunk in a file, as clients get it: header and data."""

    position: int
    size: int
    first_offset: int
    message_count: int
    time_ms: int
    frame: int  # where the frame around it begins; its head has the filter


class ChunkRanges(NamedTuple):
    """Committed chunks of one segment, ascending, if these entries have any. `file` can be read as long as it is held."""

    file: File
    name: str
    ranges: Sequence[ChunkRange]
    next_index: int  # where to go on


# Chunks for readers.


def read_chunks(log: StreamLog, next_index: int, bytes_max: int) -> ChunkRanges | None:
    """Committed chunks from this entry on: up to `bytes_max`, but one at least if the entries looked at have one. None: there
    are no more yet. Begins with the first entry that is kept, if that is a later one. Raises Corrupt."""
    index = max(next_index, log.first_index)
    if index > log.committed:
        return None
    segment = log.segment_of(index)
    number, end = index - segment.first_index, min(log.committed, segment.last_index) + 1 - segment.first_index
    places = segment.indexed(lambda offsets: segment.places(offsets, number, min(end - number, ROWS_MAX)))
    ranges: list[ChunkRange] = []
    for row, frame_end in places:
        if row.message_count:
            bytes_max -= row.chunk_bytes
            if ranges and bytes_max < 0:
                break
            place = (frame_end - row.chunk_bytes, row.chunk_bytes)
            ranges.append(ChunkRange(*place, row.offset, row.message_count, row.time_ms, row.position))
        index += 1
    return ChunkRanges(segment.file, segment.name, ranges, index)


def chunk_bytes(found: ChunkRanges) -> list[memoryview]:
    """The chunks themselves, with one read, verified. Raises Corrupt."""
    if not found.ranges:
        return []
    base = found.ranges[0].position
    last = found.ranges[-1]
    view = memoryview(found.file.read_at(base, last.position + last.size - base))
    return [_sound(found.name, one, view[one.position - base :][: one.size]) for one in found.ranges]


def chunk_head(found: ChunkRanges, one: ChunkRange) -> bytes:
    """The head of the entry that holds this chunk, with its filter. Raises Corrupt."""
    end = one.position + CHUNK_HEADER_BYTES
    data = found.file.read_at(one.frame, end - one.frame)
    try:
        return FrameHeads(BytesInMemory(data), len(data) + one.size - CHUNK_HEADER_BYTES, None).at(0)[1]
    except UnreadableFrame as error:
        raise Corrupt(found.name, one.frame, end - one.frame, error.reason) from error


def _sound(name: str, one: ChunkRange, chunk: memoryview) -> memoryview:
    try:
        header = read_header(chunk)
        must_be_sound(header, chunk[CHUNK_HEADER_BYTES:])
    except BadBytes as error:
        raise Corrupt(name, one.position, one.size, str(error)) from error
    if (header.first_offset, header.message_count) != (one.first_offset, one.message_count):
        raise Corrupt(
            name, one.position, one.size, f"offset {header.first_offset} lies where {one.first_offset} should"
        )
    return chunk


# Where to begin.


def at_first(log: StreamLog) -> ReadPosition:
    """The first message that is kept."""
    return ReadPosition(log.first_index, log.first_offset)


def at_next(log: StreamLog) -> ReadPosition:
    """The message that will be committed next."""
    return ReadPosition(max(log.committed + 1, log.first_index), log.committed_offset)


def at_last(log: StreamLog) -> ReadPosition:
    """The begin of the last committed chunk; `at_next` if there is none. Raises Corrupt."""
    if log.committed_offset <= log.first_offset:
        return at_next(log)
    row = _row_of_offset(log, log.committed_offset - 1)
    return ReadPosition(row.entry_index, row.offset)


def at_offset(log: StreamLog, offset: int) -> ReadPosition:
    """This message; the first that is kept if it is below that, `at_next` if it is not committed. Raises Corrupt."""
    if offset < log.first_offset:
        return at_first(log)
    if offset >= log.committed_offset:
        return at_next(log)
    return ReadPosition(_row_of_offset(log, offset).entry_index, offset)


def at_time(log: StreamLog, time_ms: int) -> ReadPosition:
    """The begin of the first chunk that is not older; `at_next` if there is none. Raises Corrupt."""
    at = bisect_left(log.segments, time_ms, key=lambda segment: segment.tail.time_ms)
    if at == len(log.segments):
        return at_next(log)
    if log.segments[at].tail.count == 0:
        return at_next(log)
    segment = log.segment_of(log.segments[at].first_index)
    offset = segment.indexed(lambda offsets: _offset_at_time(segment, offsets, time_ms))
    if offset >= log.committed_offset:
        return at_next(log)
    row = _row_of_offset(log, max(offset, log.first_offset))
    return ReadPosition(row.entry_index, row.offset)


def _offset_at_time(segment: StreamSegment, offsets: OffsetIndex, time_ms: int) -> int:
    """Of the first message in or behind the first entry that is not older. Raises BadIndex."""
    number = offsets.count_while(lambda row: row.time_ms < time_ms)
    if number == segment.tail.count:
        raise BadIndex(f"{segment.name} has an entry of time {time_ms}, and its index none")
    row = offsets.row(number)
    segment.must_be_at(row)
    if number:
        before = offsets.row(number - 1)
        segment.must_be_at(before)
        if before.time_ms >= time_ms:
            raise BadIndex(f"the times in {offsets.name} do not ascend")
    return row.offset


def _row_of_offset(log: StreamLog, offset: int) -> IndexRow:
    """Of the chunk that has this message, which is in the log. Raises Corrupt."""
    at = bisect_right(log.segments, offset, key=lambda segment: segment.checkpoint.first_offset) - 1
    segment = log.segment_of(log.segments[at].first_index)
    return segment.indexed(lambda offsets: _row_with(segment, offsets, offset))


def _row_with(segment: StreamSegment, offsets: OffsetIndex, offset: int) -> IndexRow:
    """Raises BadIndex."""
    number = offsets.count_while(lambda row: row.offset <= offset)
    if number:
        row = offsets.row(number - 1)
        segment.must_be_at(row)
        if row.offset <= offset < row.next_offset:
            return row
    raise BadIndex(f"offset {offset} of {segment.name} is not in its index")


# Entries for other members.


def read_entries(log: StreamLog, low: int, high: int, bytes_max: int) -> list[Entry]:
    """Entries from `low` up to, without, `high`; fewer when they are more than `bytes_max`, but at least one. Raises Compacted,
    Corrupt."""
    if low < log.first_index:
        raise Compacted(low, log.first_index)
    assert low < high <= log.last_index + 1, (
        f"entries {low} to {high - 1} of a log from {log.first_index} to {log.last_index}"
    )
    found: list[Entry] = []
    while low < high and (bytes_max > 0 or not found):
        segment = log.segment_of(low)
        entries = _entries_in(
            segment, low, min(high, segment.last_index + 1), bytes_max if found else max(bytes_max, 1)
        )
        for entry in entries:
            bytes_max -= len(entry.data)
            if bytes_max < 0 and found:
                return found
            found.append(entry)
        low = found[-1].index + 1
    return found


def _entries_in(segment: StreamSegment, low: int, high: int, bytes_max: int) -> list[Entry]:
    """Entries of one segment that lie within so many bytes, one at least."""
    number, count = low - segment.first_index, min(high - low, ROWS_MAX)
    places = segment.indexed(lambda offsets: segment.places(offsets, number, count))
    start, end = places[0][0].position, places[0][1]
    for _, frame_end in places:
        if frame_end - start <= bytes_max:
            end = frame_end
    data = segment.file.read_at(start, end - start)
    frames = FrameHeads(BytesInMemory(data), len(data), segment.number)
    entries: list[Entry] = []
    try:
        for position, header, head in frames.walk(0):
            body = data[position + FRAME_HEADER_BYTES : position + header.size]
            if header.entry_index != low + len(entries):
                raise UnreadableFrame(position, f"entry {header.entry_index} lies where {low + len(entries)} should")
            _must_have_its_data(position, head, body)
            entries.append(Entry(header.entry_index, header.term, header.kind, body))
    except UnreadableFrame as error:
        raise Corrupt(segment.name, start + error.position, len(data) - error.position, error.reason) from error
    return entries


def _must_have_its_data(position: int, head: bytes, body: bytes) -> None:
    """Raises UnreadableFrame."""
    if len(body) == len(head):
        return
    try:
        must_be_sound(read_header(head, len(head) - CHUNK_HEADER_BYTES), memoryview(body)[len(head) :])
    except BadBytes as error:
        raise UnreadableFrame(position, str(error)) from error

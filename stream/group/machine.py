"""The machine of a stream's group: it decides which chunks count, and knows where they are. The messages stay in the log.

A chunk was sealed by the leader for a place in the log (stream/group/tail.py). It counts if it stands there: its first offset
is the one that comes next, its time is not before the last one's, and what its writer said before it is in the stream.
Otherwise it is passed over, by every member alike, and its writer says it again. So whatever becomes of leaders, offsets have
no gaps, none is given twice, and a portion that was said again is stored once.

The digest by which members are compared sums up the heads of entries: that of a chunk has the checksum of its data, which
whoever takes it apart compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from native.crc32c import crc32c
from raft.core.errors import BadBytes
from raft.core.live_entries import LiveEntries
from storage.disk import Buffer
from stream.chunks.chunk import ChunkHeader
from stream.chunks.entries import (
    AllKnown,
    ChunkEntry,
    LogEntry,
    NamesForgotten,
    RetentionCut,
    StoredOffsets,
    WriterPosition,
    decode,
    head_of,
)
from stream.group.stream_state import (
    MACHINE_VERSION,
    PublisherPosition,
    StoredOffset,
    StreamSegmentSpan,
    StreamState,
    decode_state,
    encode_state,
    forget_oldest,
    remember,
)

_DIGEST_FACTOR = 0x9E3779B97F4A7C15
_DIGEST_MASK = (1 << 64) - 1


class Written(IntEnum):
    """What became of an entry."""

    DONE = 0
    KNOWN = 1  # it was in the stream already
    OUT_OF_PLACE = 2  # something before it is missing; nothing was done


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
        outcome = crc32c(head_of(data)) + state.next_offset + (state.first_offset << 20) + (index << 40)
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
        if isinstance(entry, AllKnown):
            return self._take_nothing(entry)
        state.time_ms = max(state.time_ms, entry.time_ms)
        if isinstance(entry, StoredOffsets):
            self._store(entry)
        elif isinstance(entry, NamesForgotten):
            for reference in entry.references:
                state.stored.pop(reference, None)
            for publisher in entry.publishers:
                state.publishers.pop(publisher, None)
        else:
            self._cut(entry)
        return Written.DONE

    def _take(self, index: int, entry: ChunkEntry) -> Written:
        state, header = self.state, entry.header
        written = self._place_of(entry.writers, header.message_count + entry.known_messages)
        if written is not Written.DONE:
            return written
        if header.first_offset != state.next_offset or header.time_ms < state.time_ms:
            return Written.OUT_OF_PLACE
        for writer in entry.writers:
            state.writers[writer.node] = writer
        for name, last_id in entry.publishers:
            remember(state.publishers, name, PublisherPosition(last_id, header.first_offset, header.time_ms))
        self._append(index, header)
        return Written.DONE

    def _take_nothing(self, entry: AllKnown) -> Written:
        """What its writer says next follows on it."""
        state = self.state
        written = self._place_of((entry.writer,), entry.message_count)
        if written is Written.DONE and entry.next_offset != state.next_offset:
            return Written.OUT_OF_PLACE  # what it was compared with is not in the stream
        if written is Written.DONE:
            state.writers[entry.writer.node] = entry.writer
            state.time_ms = max(state.time_ms, entry.time_ms)
        return written

    def _place_of(self, writers: Sequence[WriterPosition], message_count: int) -> Written:
        """Whether so many messages are the next ones of these writers."""
        for writer in writers:
            known = self.state.writers.get(writer.node)
            if known is not None and known[1:] >= writer[1:]:
                return Written.KNOWN
            before = known.sequence if known is not None and known.incarnation == writer.incarnation else 0
            if before + message_count != writer.sequence:
                return Written.OUT_OF_PLACE
        return Written.DONE

    def _store(self, entry: StoredOffsets) -> None:
        stored = self.state.stored
        for reference, offset in entry.offsets:
            stored.pop(reference, None)
            stored[reference] = StoredOffset(offset, entry.time_ms)
        forget_oldest(stored)

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

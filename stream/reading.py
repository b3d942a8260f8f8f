"""Reading the messages of a stream on a node with a member: where to begin, and what comes there.

A reader's place is an entry of the log and an offset: messages of that entry below the offset are not for it. What retention
has removed meanwhile is passed over. The last chunks that were read are kept, taken apart, for all readers of all streams of
the node (ChunkCache): readers at the end of a stream read no file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from raft.core.errors import BadBytes, Damaged
from replicated.entry_cache import EntryCache
from stream.chunk import CHUNK_HEADER_BYTES, ChunkHeader, must_be_sound
from stream.entries import ChunkEntry, decode, summarize
from stream.machine import StreamMachine
from stream.stored_form import StreamMessages, stream_messages

KEPT_BYTES_MAX = 32 << 20  # of chunks that were read lately


class StreamPlace(NamedTuple):
    """Where a reader goes on."""

    entry_index: int
    offset: int


class ReadChunk(NamedTuple):
    """A chunk, taken apart."""

    next_offset: int
    messages: Sequence[StreamMessages]
    size: int


class ChunkCache:
    """Chunks of all streams of the node."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[int, int], ReadChunk] = OrderedDict()  # by group and index; the latest used last
        self._bytes = 0

    def get(self, group: int, index: int) -> ReadChunk | None:
        found = self._kept.get((group, index))
        if found is not None:
            self._kept.move_to_end((group, index))
        return found

    def keep(self, group: int, index: int, chunk: ReadChunk) -> None:
        self._kept[group, index] = chunk
        self._bytes += chunk.size
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].size


class StreamReading:
    """See the module. `read_entry` may raise Damaged."""

    def __init__(
        self,
        group: int,
        machine: StreamMachine,
        entries: EntryCache,
        cache: ChunkCache,
        read_entry: Callable[[int], bytes],
    ) -> None:
        self.reads = 0  # of entries that were not kept
        self._group = group
        self._machine = machine
        self._entries = entries
        self._cache = cache
        self._read_entry = read_entry

    def applied(self, index: int, data: bytes) -> None:
        """Readers at the end want it next."""
        self._entries.keep(self._group, index, data)

    # Where to begin.

    def knows(self, spec: OffsetSpec) -> bool:
        """Whether the place is known here, though there may be more in the stream than this member has."""
        state = self._machine.state
        if isinstance(spec, AtOffset):
            return spec.offset < state.next_offset
        if isinstance(spec, AtTime):
            return bool(state.segments) and spec.time_ms <= state.segments[-1].last_time_ms
        return spec is Begin.FIRST

    def place_of(self, spec: OffsetSpec) -> StreamPlace:
        """In what this member has. Raises Damaged."""
        state = self._machine.state
        if spec is Begin.FIRST and state.segments:
            return StreamPlace(state.segments[0].first_index, state.first_offset)
        if spec is Begin.LAST and state.next_offset > state.first_offset:
            index, header = self._chunk_with(state.next_offset - 1)
            return StreamPlace(index, header.first_offset)
        if isinstance(spec, AtOffset) and spec.offset < state.next_offset:
            offset = max(spec.offset, state.first_offset)
            return StreamPlace(self._chunk_with(offset)[0], offset)
        if isinstance(spec, AtTime):
            return self._place_at_time(spec.time_ms)
        return StreamPlace(state.applied + 1, state.next_offset)

    def _chunk_with(self, offset: int) -> tuple[int, ChunkHeader]:
        """The chunk that has this message, which is in the stream."""
        index = self._machine.state.places.at_offset(offset)
        while True:
            index, header = self._next_header(index)
            if offset < header.next_offset:
                return index, header
            index += 1

    def _place_at_time(self, time_ms: int) -> StreamPlace:
        state = self._machine.state
        if state.segments and state.next_offset > state.first_offset and time_ms <= state.segments[-1].last_time_ms:
            index = state.places.at_time(time_ms)
            while True:
                index, header = self._next_header(index)
                if header.time_ms >= time_ms:
                    return StreamPlace(index, header.first_offset)
                index += 1
        return StreamPlace(state.applied + 1, state.next_offset)

    def _next_header(self, index: int) -> tuple[int, ChunkHeader]:
        """Of the first chunk at or behind this entry that is in the stream; there is one."""
        while True:
            found = self._machine.state.entry_at_or_behind(index)
            assert found is not None, f"no chunk at or behind entry {index}"
            try:
                header = summarize(self._data(found)).chunk
            except BadBytes as error:
                raise self._damage(found, error) from error
            if header is not None:
                return found, header
            index = found + 1

    # What comes.

    def next_chunk(self, index: int) -> tuple[int, ReadChunk] | None:
        """The first chunk at or behind this entry, and where it is. None: there is none yet. Raises Damaged."""
        while True:
            found = self._machine.state.entry_at_or_behind(index)
            if found is None:
                return None
            chunk = self._cache.get(self._group, found) or self._read_chunk(found)
            if chunk is not None:
                return found, chunk
            index = found + 1

    def _read_chunk(self, index: int) -> ReadChunk | None:
        """None: the entry is another one."""
        try:
            entry = decode(self._data(index))
            if not isinstance(entry, ChunkEntry):
                return None
            header, data = entry.header, memoryview(entry.chunk)[CHUNK_HEADER_BYTES:]
            must_be_sound(header, data)
            chunk = ReadChunk(
                header.next_offset, stream_messages(data, header.item_count, header.first_offset), header.size
            )
        except BadBytes as error:
            raise self._damage(index, error) from error
        self._cache.keep(self._group, index, chunk)
        return chunk

    def _data(self, index: int) -> bytes:
        data = self._entries.get(self._group, index)
        if data is None:
            self.reads += 1
            data = self._read_entry(index)
        return data

    def _damage(self, index: int, error: BadBytes) -> Damaged:
        return Damaged(f"entry {index} of group {self._group} cannot be read: {error}", index)

"""Reading the chunks of a stream's log, whole or taken apart.

A reader's place is an entry of the log and an offset: messages of that entry below the offset are not for it. Entries have the
same index on all members, so a place is good on each of them. What retention has removed meanwhile is passed over.

The last chunks that were read are kept for all readers of all streams of the node (ReadingCaches): those at the end of a stream
read no file, and are given the same bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from raft.core.errors import BadBytes, Damaged
from replicated.entry_cache import EntryCache
from storage.disk import Buffer
from stream.chunk import CHUNK_HEADER_BYTES, ChunkHeader, must_be_sound
from stream.entries import ChunkEntry, decode, summarize
from stream.stored_form import OnUndecodable, StreamMessages, stream_messages

KEPT_BYTES_MAX = 32 << 20  # of chunks that were taken apart lately
ENTRY_BYTES_KEPT_MAX = 8 << 20  # of all streams, until their readers have them as chunks
STORED_BYTES_KEPT_MAX = 16 << 20  # of chunks that were read lately, as they are stored


class StreamPlace(NamedTuple):
    """Where a reader goes on."""

    entry_index: int
    offset: int


class FoundPlace(NamedTuple):
    """Where a reader is to begin."""

    place: StreamPlace
    chunk: int  # offset of the first message of the chunk there; behind the end, of what comes next


class StoredChunk(NamedTuple):
    """A chunk as it is stored, whose checksum was right."""

    header: ChunkHeader
    entry: Buffer  # all of it, as it stands in the log
    chunk: memoryview  # header and data, as clients of the stream protocol want them
    chunk_filter: bytes  # stream/bloom.py

    @property
    def size(self) -> int:
        return self.header.size


class ReadChunk(NamedTuple):
    """A chunk, taken apart."""

    first_offset: int
    next_offset: int
    messages: Sequence[StreamMessages]
    size: int


class KeptChunk(Protocol):
    """What is kept of a chunk."""

    @property
    def size(self) -> int: ...


C = TypeVar("C", bound=KeptChunk)


class ChunkCache(Generic[C]):
    """Chunks of all streams of the node, by group and index of the entry."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[int, int], C] = OrderedDict()  # the latest used last
        self._bytes = 0

    def get(self, group: int, index: int) -> C | None:
        found = self._kept.get((group, index))
        if found is not None:
            self._kept.move_to_end((group, index))
        return found

    def keep(self, group: int, index: int, chunk: C) -> None:
        assert (group, index) not in self._kept, f"entry {index} of group {group} was read twice"
        self._kept[group, index] = chunk
        self._bytes += chunk.size
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].size

    def forget(self, group: int) -> None:
        for key in [key for key in self._kept if key[0] == group]:
            self._bytes -= self._kept.pop(key).size


class ReadingCaches:
    """Of a node. Each keeps `bytes_max` at most."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.entries = EntryCache(min(ENTRY_BYTES_KEPT_MAX, bytes_max))
        self.stored = ChunkCache[StoredChunk](min(STORED_BYTES_KEPT_MAX, bytes_max))
        self.taken_apart = ChunkCache[ReadChunk](bytes_max)

    def forget(self, group: int) -> None:
        """Its entries may be others from now on: a member that lost its end goes on without it."""
        self.entries.forget(group)
        self.stored.forget(group)
        self.taken_apart.forget(group)


class ReadableLog(Protocol):
    """Where the entries are read: this node's member, or that of another node."""

    def at_or_behind(self, index: int) -> int | None:
        """The first committed entry of the stream that is not before this one. None: there is none yet."""

    def read(self, index: int) -> bytes:
        """An entry that `at_or_behind` has named. Raises Damaged."""

    def last_chunk(self) -> int:
        """See StreamReading."""


class StreamReading:
    """See the module."""

    def __init__(self, group: int, log: ReadableLog, caches: ReadingCaches, on_undecodable: OnUndecodable) -> None:
        self.reads = 0  # of entries that were not kept
        self._group = group
        self._log = log
        self._caches = caches
        self._on_undecodable = on_undecodable

    def applied(self, index: int, data: bytes) -> None:
        """By the member here: readers at the end want it next."""
        self._caches.entries.keep(self._group, index, data)

    def last_chunk(self) -> int:
        """Offset of the last chunk's first message, as far as it is known; -1 if it is not."""
        return self._log.last_chunk()

    def next_stored(self, index: int) -> tuple[int, StoredChunk] | None:
        """The first chunk at or behind this entry, and where it is. None: there is none yet. Raises Damaged."""
        while (found := self._log.at_or_behind(index)) is not None:
            stored = self._stored(found)
            if stored is not None:
                return found, stored
            index = found + 1
        return None

    def next_chunk(self, index: int) -> tuple[int, ReadChunk] | None:
        """The same, taken apart."""
        while (found := self._log.at_or_behind(index)) is not None:
            chunk = self._caches.taken_apart.get(self._group, found) or self._take_apart(found)
            if chunk is not None:
                return found, chunk
            index = found + 1
        return None

    def next_header(self, index: int) -> tuple[int, ChunkHeader]:
        """Of the first chunk at or behind this entry; there is one. Raises Damaged."""
        while True:
            found = self._log.at_or_behind(index)
            assert found is not None, f"no chunk at or behind entry {index}"
            try:
                header = summarize(self._data(found)).chunk
            except BadBytes as error:
                raise self._damage(found, error) from error
            if header is not None:
                return found, header
            index = found + 1

    def _stored(self, index: int) -> StoredChunk | None:
        """None: the entry is another one."""
        return self._caches.stored.get(self._group, index) or self._read_chunk(index)

    def _read_chunk(self, index: int) -> StoredChunk | None:
        try:
            data = self._data(index)
            entry = decode(data)
            if not isinstance(entry, ChunkEntry):
                return None
            stored = StoredChunk(entry.header, data, memoryview(entry.chunk), bytes(entry.chunk_filter))
            must_be_sound(stored.header, stored.chunk[CHUNK_HEADER_BYTES:])
        except BadBytes as error:
            raise self._damage(index, error) from error
        self._caches.stored.keep(self._group, index, stored)
        return stored

    def _take_apart(self, index: int) -> ReadChunk | None:
        stored = self._stored(index)
        if stored is None:
            return None
        header, data = stored.header, stored.chunk[CHUNK_HEADER_BYTES:]
        try:
            messages = stream_messages(data, header.item_count, header.first_offset, self._on_undecodable)
        except BadBytes as error:
            raise self._damage(index, error) from error
        size = sum([one.size for one in messages])  # more than the chunk has, where it was compressed
        chunk = ReadChunk(header.first_offset, header.next_offset, messages, max(size, header.size))
        self._caches.taken_apart.keep(self._group, index, chunk)
        return chunk

    def _data(self, index: int) -> bytes:
        data = self._caches.entries.get(self._group, index)
        if data is None:
            self.reads += 1
            data = self._log.read(index)
        return data

    def _damage(self, index: int, error: BadBytes) -> Damaged:
        return Damaged(f"entry {index} of group {self._group} cannot be read: {error}", index)

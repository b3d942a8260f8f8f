"""Reading the chunks of a stream's log, whole or taken apart.

A reader's place is an entry of the log and an offset: messages of that entry below the offset are not for it. Entries have the
same index on all members, so a place is good on each of them. What retention has removed meanwhile is passed over.

The last chunks that were read are kept for all readers of all streams of the node (ReadingCaches): those at the end of a stream
read no file, and are given the same bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from raft.core.errors import BadBytes, Damaged
from replicated.entry_cache import EntryCache
from replicated.stored_entries import LargeEntry
from storage.disk import Buffer
from stream.chunks.chunk import CHUNK_HEADER_BYTES, ChunkHeader, must_be_sound
from stream.chunks.entries import ChunkEntry, chunk_header, decode
from stream.chunks.stored_form import OnUndecodable, Steps, StreamMessages, messages_in_steps
from stream.group.sent_chunks import ChunksInFiles, SentChunk

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
    """A chunk as it is stored. The checksum of its record was right; its own one is for clients, and for who takes it apart."""

    header: ChunkHeader
    entry: Buffer  # all of it, as it stands in the log
    chunk: memoryview  # header and data, as clients of the stream protocol want them
    chunk_filter: bytes  # stream/chunks/bloom.py

    @property
    def size(self) -> int:
        return self.header.size


class ReadChunk(NamedTuple):
    """A chunk, taken apart."""

    first_offset: int
    next_offset: int
    messages: Sequence[StreamMessages]
    size: int
    time_ms: int


class StillTakenApart(Exception):
    """Raised where a chunk is asked for that takes more than this step: ask again, in another turn."""


class KeptChunk(Protocol):
    """What is kept of a chunk."""

    @property
    def size(self) -> int: ...


C = TypeVar("C", bound=KeptChunk)
T = TypeVar("T")


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

    def holds(self, group: int, index: int) -> bool:
        return (group, index) in self._kept

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
        self.in_files = ChunksInFiles()
        self.in_work: dict[int, tuple[int, Steps[ReadChunk]]] = {}  # by group: which entry is being taken apart

    def hold(self, group: int, index: int) -> bool:
        """Without having been used by that."""
        return (
            self.entries.holds(group, index) or self.stored.holds(group, index) or self.taken_apart.holds(group, index)
        )

    def forget(self, group: int) -> None:
        """Its entries may be others from now on: a member that lost its end goes on without it."""
        self.entries.forget(group)
        self.stored.forget(group)
        self.taken_apart.forget(group)
        self.in_files.forget(group)
        self.in_work.pop(group, None)


class ReadableLog(Protocol):
    """Where the entries are read: this node's member, or that of another node."""

    def at_or_behind(self, index: int) -> int | None:
        """The first committed entry of the stream that is not before this one. None: there is none yet."""

    def read(self, index: int) -> bytes:
        """An entry that `at_or_behind` has named. Raises Damaged."""

    def in_file(self, index: int) -> LargeEntry | None:
        """The same, if it is better sent from its file. Raises Damaged."""

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
        self._without_chunk = (0, 0)  # entries from the first to before the second: the end, when it was last looked at

    def applied(self, index: int, data: bytes) -> None:
        """By the member here: readers at the end want it next."""
        self._caches.entries.keep(self._group, index, data)

    def last_chunk(self) -> int:
        """Offset of the last chunk's first message, as far as it is known; -1 if it is not."""
        return self._log.last_chunk()

    def in_memory(self, index: int) -> bool:
        """Whether what comes at or behind this entry need not be read from a disk; also when there is nothing yet."""
        found = self._log.at_or_behind(index)
        return found is None or self._caches.hold(self._group, found)

    def next_stored(self, index: int) -> tuple[int, StoredChunk] | None:
        """The first chunk at or behind this entry, and where it is. None: there is none yet. Raises Damaged."""
        return self._next(index, self._stored)

    def next_sent(self, index: int) -> tuple[int, SentChunk] | None:
        """The same for a client that is sent all of it: a large one that is not in memory is not read."""
        return self._next(index, self._sent)

    def next_chunk(self, index: int) -> tuple[int, ReadChunk] | None:
        """The same, taken apart. Raises StillTakenApart, too."""
        return self._next(index, self._known_apart)

    def _next(self, index: int, read: Callable[[int], T | None]) -> tuple[int, T] | None:
        """Entries without a chunk are read once by all readers at the end, however often they look there."""
        begin, end = self._without_chunk
        at = end if begin <= index <= end else index
        while (found := self._log.at_or_behind(at)) is not None:
            chunk = read(found)
            if chunk is not None:
                return found, chunk
            at = found + 1
        self._without_chunk = (begin if begin <= index <= end else index), at
        return None

    def _known_apart(self, index: int) -> ReadChunk | None:
        return self._caches.taken_apart.get(self._group, index) or self._take_apart(index)

    def next_header(self, index: int) -> tuple[int, ChunkHeader]:
        """Of the first chunk at or behind this entry; there is one. Raises Damaged."""
        while True:
            found = self._log.at_or_behind(index)
            assert found is not None, f"no chunk at or behind entry {index}"
            try:
                header = chunk_header(self._data(found))
            except BadBytes as error:
                raise self._damage(found, error) from error
            if header is not None:
                return found, header
            index = found + 1

    def _sent(self, index: int) -> SentChunk | None:
        """None: the entry is another one."""
        group, caches = self._group, self._caches
        stored = caches.stored.get(group, index)
        if stored is None and caches.entries.get(group, index) is None:
            entry = self._log.in_file(index)
            sent = caches.in_files.chunk_in(entry, group, index) if entry is not None else None
            if sent is not None:
                return sent
        stored = stored or self._read_chunk(index)
        return SentChunk(stored.header, stored.chunk, stored.chunk_filter) if stored is not None else None

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
        except BadBytes as error:
            raise self._damage(index, error) from error
        self._caches.stored.keep(self._group, index, stored)
        return stored

    def _take_apart(self, index: int) -> ReadChunk | None:
        """A step of it; of another chunk, while another reader's is not at its end."""
        in_work = self._caches.in_work
        if self._group not in in_work:
            stored = self._stored(index)
            if stored is None:
                return None
            in_work[self._group] = index, self._in_steps(stored)
        taken, steps = in_work[self._group]
        try:
            next(steps)
        except StopIteration as end:
            del in_work[self._group]
            chunk: ReadChunk = end.value
            self._caches.taken_apart.keep(self._group, taken, chunk)
            if taken == index:
                return chunk
        except BadBytes as error:
            del in_work[self._group]
            raise self._damage(taken, error) from error
        raise StillTakenApart

    def _in_steps(self, stored: StoredChunk) -> Steps[ReadChunk]:
        """Raises BadBytes."""
        header, data = stored.header, stored.chunk[CHUNK_HEADER_BYTES:]
        must_be_sound(header, data)
        messages = yield from messages_in_steps(data, header.item_count, header.first_offset, self._on_undecodable)
        size = sum([one.size for one in messages])  # more than the chunk has, where it was compressed
        return ReadChunk(header.first_offset, header.next_offset, messages, max(size, header.size), header.time_ms)

    def _data(self, index: int) -> bytes:
        data = self._caches.entries.get(self._group, index)
        if data is None:
            self.reads += 1
            data = self._log.read(index)
        return data

    def _damage(self, index: int, error: BadBytes) -> Damaged:
        return Damaged(f"entry {index} of group {self._group} cannot be read: {error}", index)

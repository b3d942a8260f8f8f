"""The end of a stream's log as its leader sees it, committed or not: where the next chunk goes.

The leader seals a chunk before it is known whether it will be committed, so it counts on with what it has sealed. When an entry
turns out to be out of place, something before it never came into the log: the tail is `lost` then, and is found again, from the
machine, when all that was sealed has been applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream.chunks.chunk import seal_chunk
from stream.chunks.entries import AllKnown, NamesForgotten, StoredOffsets, WriterPosition, encode, encode_chunk
from stream.chunks.publish_ops import Publishing
from stream.chunks.store_ops import Storing
from stream.group.dedup import NewItems, new_items
from stream.group.machine import StreamMachine
from stream.group.stream_state import PublisherPosition, StoredOffset, forget_oldest, remember

SEGMENT_CHUNKS_MAX = 256_000
NAMES_KEPT_MS = 30 * 86_400_000  # after their last use
NOTHING = NewItems([], 0, 0, {})


class StreamTail:
    """Behind what the machine has applied; nothing else may be on its way to the log."""

    def __init__(self, machine: StreamMachine, term: int) -> None:
        state = machine.state
        self._term = term
        self._next_offset = state.next_offset
        self._time_ms = state.time_ms
        self._writers = dict(state.writers)
        self._publishers = dict(state.publishers)
        self._stored = dict(state.stored)
        self._open_bytes = machine.open_bytes
        self._open_chunks = 0  # since this leadership began: a segment may be longer by so many

    def seal(self, said: Publishing, now_ms: int, segment_bytes_max: int) -> bytes | None:
        """The entry that stores it. None: what its node said before is missing.

        What was said again is not stored again: the machine knows it, or finds the entry that says so out of place, as that is
        sealed behind what was lost. What publishers with names have said before is left out (stream/group/dedup.py)."""
        known = self._writers.get(said.writer.node)
        repeated = known is not None and known[1:] >= said.writer[1:]
        if not repeated and self._before(known, said.writer) + said.message_count != said.writer.sequence:
            return None
        new = NOTHING if repeated else new_items(said, self._publishers)
        time_ms = max(now_ms, self._time_ms)
        if not new.item_count:
            return self._nothing_new(said, time_ms, repeated=repeated)
        header = seal_chunk(
            new.data, new.item_count, new.message_count, time_ms, self._term, self._next_offset, new.publishers
        )
        for name, last_id in new.publishers.items():
            remember(self._publishers, name, PublisherPosition(last_id, self._next_offset, time_ms))
        ends = self._count(
            said.writer, new.message_count, time_ms, len(header) + sum(map(len, new.data)), segment_bytes_max
        )
        return encode_chunk(
            header,
            new.data,
            said.chunk_filter,
            list(new.publishers.items()),
            (said.writer,),
            ends,
            said.message_count - new.message_count,
        )

    def _nothing_new(self, said: Publishing, time_ms: int, *, repeated: bool) -> bytes:
        if not repeated:
            self._writers[said.writer.node] = said.writer
            self._time_ms = time_ms
        return encode(AllKnown(time_ms, self._next_offset, said.message_count, said.writer))

    def seal_stored(self, said: Sequence[Storing], now_ms: int) -> bytes:
        """The entry that stores offsets. What was said before, to whichever leader, takes no reference back; as long as it is
        not known what became of the greater one, that is stored with it."""
        self._time_ms = max(now_ms, self._time_ms)
        stored, new = self._stored, []
        for reference, offset, again in said:
            known = stored.pop(reference, None)
            latest = max(offset, known.offset) if again and known is not None else offset
            stored[reference] = StoredOffset(latest, self._time_ms)
            new.append((reference, latest))
        forget_oldest(stored)
        return encode(StoredOffsets(self._time_ms, new))

    def seal_forgotten(self, now_ms: int, first_offset: int) -> bytes | None:
        """The entry that forgets publishers who have published nothing for long, and offsets that were stored long ago and
        whose messages are gone. None: there are no such names."""
        before = now_ms - NAMES_KEPT_MS
        publishers = [name for name, one in self._publishers.items() if one.time_ms < before]
        stored = [name for name, one in self._stored.items() if one.time_ms < before and one.offset < first_offset]
        for name in publishers:
            del self._publishers[name]
        for name in stored:
            del self._stored[name]
        self._time_ms = max(now_ms, self._time_ms)
        return encode(NamesForgotten(self._time_ms, publishers, stored)) if publishers or stored else None

    @staticmethod
    def _before(known: WriterPosition | None, writer: WriterPosition) -> int:
        return known.sequence if known is not None and known.incarnation == writer.incarnation else 0

    def _count(
        self, writer: WriterPosition, message_count: int, time_ms: int, size: int, segment_bytes_max: int
    ) -> bool:
        """The chunk is at the end now. Whether it ends its segment."""
        self._writers[writer.node] = writer
        self._next_offset += message_count
        self._time_ms = time_ms
        self._open_bytes += size
        self._open_chunks += 1
        ends = self._open_bytes >= segment_bytes_max or self._open_chunks >= SEGMENT_CHUNKS_MAX
        if ends:
            self._open_bytes = self._open_chunks = 0
        return ends

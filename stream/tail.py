"""The end of a stream's log as its leader sees it, committed or not: where the next chunk goes.

The leader seals a chunk before it is known whether it will be committed, so it counts on with what it has sealed. When an entry
turns out to be out of place, something before it never came into the log: the tail is `lost` then, and is found again, from the
machine, when all that was sealed has been applied.
"""

from __future__ import annotations

from stream.chunk import seal_chunk
from stream.entries import WriterPosition, encode_chunk
from stream.machine import StreamMachine
from stream.publishing import Publishing

SEGMENT_CHUNKS_MAX = 256_000


class StreamTail:
    """Behind what the machine has applied; nothing else may be on its way to the log."""

    def __init__(self, machine: StreamMachine, term: int) -> None:
        state = machine.state
        self._term = term
        self._next_offset = state.next_offset
        self._time_ms = state.time_ms
        self._writers = dict(state.writers)
        self._open_bytes = machine.open_bytes
        self._open_chunks = 0  # since this leadership began: a segment may be longer by so many

    def seal(self, said: Publishing, now_ms: int, segment_bytes_max: int) -> bytes | None:
        """The entry that stores it. None: what its node said before is missing.

        What was said again is sealed again, without a place of its own: the machine knows it, or finds it out of place."""
        known = self._writers.get(said.writer.node)
        repeated = known is not None and known[1:] >= said.writer[1:]
        if not repeated and self._before(known, said.writer) + said.message_count != said.writer.sequence:
            return None
        time_ms = max(now_ms, self._time_ms)
        header = seal_chunk(
            (said.data,), said.item_count, said.message_count, time_ms, self._term, self._next_offset
        )  # fmt: skip
        ends = False
        if not repeated:
            ends = self._count(said, time_ms, len(header) + len(said.data), segment_bytes_max)
        return encode_chunk(header, (said.data,), said.chunk_filter, writers=(said.writer,), ends_segment=ends)

    @staticmethod
    def _before(known: WriterPosition | None, writer: WriterPosition) -> int:
        return known.sequence if known is not None and known.incarnation == writer.incarnation else 0

    def _count(self, said: Publishing, time_ms: int, size: int, segment_bytes_max: int) -> bool:
        """The chunk is at the end now. Whether it ends its segment."""
        self._writers[said.writer.node] = said.writer
        self._next_offset += said.message_count
        self._time_ms = time_ms
        self._open_bytes += size
        self._open_chunks += 1
        ends = self._open_bytes >= segment_bytes_max or self._open_chunks >= SEGMENT_CHUNKS_MAX
        if ends:
            self._open_bytes = self._open_chunks = 0
        return ends

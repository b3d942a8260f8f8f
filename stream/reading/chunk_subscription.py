"""A client of the stream protocol that reads a stream on this node: it is given whole chunks, for credit."""

from __future__ import annotations

from broker.queues.stream_contract import ChunkReader
from stream.chunks.filters import wanted_values
from stream.group.chunk_reading import StreamPlace, StreamReading
from stream.group.sent_chunks import SentChunk
from stream.reading.reader_figures import ReaderFigures
from stream.reading.readers import WaitsFor


class ChunkSubscription:
    """Fulfils PlacedReader. Begins with the chunk that holds its place, also when that begins before it."""

    def __init__(self, reader: ChunkReader, place: StreamPlace) -> None:
        self.place = place
        self.figures = ReaderFigures()
        self._reader = reader
        self._wanted = wanted_values(reader.wanted) if reader.wanted is not None else None

    @property
    def tag(self) -> str:
        return self._reader.tag

    @property
    def held(self) -> int:
        """Clients of the stream protocol settle nothing."""
        return 0

    def deleted(self) -> None:
        self._reader.unavailable()

    def read(self, reading: StreamReading, bytes_max: int) -> WaitsFor:
        """See PlacedReader."""
        figures = self.figures
        until = figures.bytes_read + bytes_max
        while self._reader.credit > 0:
            if figures.bytes_read >= until:
                return WaitsFor.TURN
            found = reading.next_sent(self.place.entry_index)
            if found is None:
                return WaitsFor.NEWS
            index, sent = found
            figures.bytes_read += sent.header.size
            figures.comes_to(self.place.offset, sent.header.first_offset, sent.header.time_ms)
            self.place = StreamPlace(index + 1, sent.header.next_offset)
            if self._wanted is None or self._wanted.may_match(sent.chunk_filter):
                self._deliver(sent, reading.last_chunk())
        return WaitsFor.ROOM

    def _deliver(self, sent: SentChunk, last_chunk: int) -> None:
        header = sent.header
        self.figures.delivered += header.message_count
        self.figures.bytes_sent += header.size
        self._reader.deliver(max(last_chunk, header.first_offset), sent.chunk, header.message_count)

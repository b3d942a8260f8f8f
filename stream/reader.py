"""A consumer of a stream on this node: where it stands, and what it is given next."""

from __future__ import annotations

from broker.consumer import Consumer
from broker.queue_type import Queue, Slice
from native.content import skip, take
from stream.reader_figures import TURN_BYTES_MAX, ReaderFigures
from stream.reading import ReadChunk, StreamPlace, StreamReading
from stream.stored_form import StreamMessages


class StreamReader:
    """Fulfils PlacedReader."""

    def __init__(self, queue: Queue, consumer: Consumer, number: int, place: StreamPlace) -> None:
        self.place = place
        self.figures = ReaderFigures()
        self._queue = queue
        self._consumer = consumer
        self._number = number

    @property
    def tag(self) -> str:
        return self._consumer.tag

    @property
    def held(self) -> int:
        return self._consumer.outstanding

    def unavailable(self) -> None:
        self._consumer.sink.consumer_cancelled(self._consumer)

    def deleted(self) -> None:
        """The broker has told it."""

    def read(self, reading: StreamReading) -> bool:
        """See PlacedReader."""
        until = self.figures.bytes_read + TURN_BYTES_MAX
        while self.figures.bytes_read < until:
            if not self._consumer.room():
                return False
            found = reading.next_chunk(self.place.entry_index)
            if found is None:
                return False
            self._give(*found)
        return True

    def _give(self, entry_index: int, chunk: ReadChunk) -> None:
        self.figures.comes_to(self.place.offset, chunk.first_offset)
        for messages in chunk.messages:
            if messages.first_offset + messages.message_count <= self.place.offset:
                continue
            room = self._consumer.room()
            if not room:
                self.place = StreamPlace(entry_index, max(self.place.offset, messages.first_offset))
                return
            self._deliver(messages, room)
            if self.place.offset < messages.first_offset + messages.message_count:
                self.place = self.place._replace(entry_index=entry_index)
                return
        self.place = StreamPlace(entry_index + 1, max(chunk.next_offset, self.place.offset))

    def _deliver(self, messages: StreamMessages, room: int) -> None:
        missed = max(0, self.place.offset - messages.first_offset)
        position = skip(messages.content, 0, missed) if missed else 0
        count = min(messages.message_count - missed, room)
        first = messages.first_offset + missed
        if count > 1 and len(messages.content) > TURN_BYTES_MAX:
            count = take(messages.content, position, count, TURN_BYTES_MAX)[0]
        piece = Slice(
            self._queue, self._number, first, count, position, messages.exchange,
            messages.key_in(self._queue.record.name), offset=first,
        )  # fmt: skip
        self.place = self.place._replace(offset=first + count)
        size = len(messages.content) * count // messages.message_count
        self.figures.delivered += count
        self.figures.bytes_sent += size
        self.figures.bytes_read += size
        self._consumer.deliver(piece, messages.content)

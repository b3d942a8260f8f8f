"""A consumer of a stream on this node: where it stands, and what it is given next."""

from __future__ import annotations

from collections.abc import Sequence

from broker.queues.consumer import Consumer
from broker.queues.queue_type import Queue, Slice
from native.content import skip, take
from stream.chunks.filters import WantedMessages, asked_filter
from stream.chunks.stored_form import StreamMessages
from stream.group.chunk_reading import ReadChunk, StillTakenApart, StreamPlace, StreamReading
from stream.reading.reader_figures import TURN_BYTES_MAX, ReaderFigures
from stream.reading.readers import WaitsFor

TAKING_APART_BYTES = 256 << 10  # what a step of taking a chunk apart costs a turn, in bytes that are given
EMPTY_CHUNK_BYTES = 4 << 10
LOOK_BYTES = 128  # what looking at one message for its filter value costs a turn, in bytes that are given


class StreamReader:
    """Fulfils PlacedReader."""

    def __init__(self, queue: Queue, consumer: Consumer, place: StreamPlace) -> None:
        self.place = place
        self.figures = ReaderFigures()
        self._queue = queue
        self._consumer = consumer
        asked = asked_filter(consumer.arguments)
        self._wanted = WantedMessages(asked) if asked is not None else None
        self._sifted: tuple[int, list[StreamMessages]] = 0, []  # of which entry, and what is wanted of it

    @property
    def tag(self) -> str:
        return self._consumer.tag

    @property
    def held(self) -> int:
        return self._consumer.outstanding

    def deleted(self) -> None:
        """The broker has told it."""

    def read(self, reading: StreamReading, bytes_max: int) -> WaitsFor:
        """See PlacedReader."""
        until = self.figures.bytes_read + bytes_max
        while self.figures.bytes_read < until:
            if not self._consumer.room():
                return WaitsFor.ROOM
            if self._wanted is not None and self._passes_over(self._wanted, reading):
                continue
            try:
                found = reading.next_chunk(self.place.entry_index)
            except StillTakenApart:
                self.figures.bytes_read += TAKING_APART_BYTES
                return WaitsFor.TURN
            if found is None:
                return WaitsFor.NEWS
            self._give(*found)
        return WaitsFor.TURN

    def _passes_over(self, wanted: WantedMessages, reading: StreamReading) -> bool:
        """Whether there is a next chunk, and surely nothing for it in there."""
        found = reading.next_stored(self.place.entry_index)
        if found is None or wanted.may_be_in(found[1].chunk_filter):
            return False
        entry_index, stored = found
        self.figures.bytes_read += stored.size
        self.figures.comes_to(self.place.offset, stored.header.first_offset, stored.header.time_ms)
        self.place = StreamPlace(entry_index + 1, max(stored.header.next_offset, self.place.offset))
        return True

    def _wanted_of(self, entry_index: int, chunk: ReadChunk) -> Sequence[StreamMessages]:
        if self._wanted is None:
            return chunk.messages
        if self._sifted[0] != entry_index:
            self._sifted = entry_index, self._wanted.among(chunk.messages)
            self.figures.bytes_read += LOOK_BYTES * (chunk.next_offset - chunk.first_offset)
        return self._sifted[1]

    def _give(self, entry_index: int, chunk: ReadChunk) -> None:
        if not chunk.messages:  # nothing of it could be taken apart, which was work all the same
            self.figures.bytes_read += EMPTY_CHUNK_BYTES + chunk.size
        self.figures.comes_to(self.place.offset, chunk.first_offset, chunk.time_ms)
        for messages in self._wanted_of(entry_index, chunk):
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
        position = skip(messages.content, messages.position, missed) if missed else messages.position
        count = min(messages.message_count - missed, room)
        first = messages.first_offset + missed
        if count > 1 and messages.size > TURN_BYTES_MAX:
            count = take(messages.content, position, count, TURN_BYTES_MAX)[0]
        piece = Slice(
            self._queue, self._consumer, first, count, position, messages.exchange,
            messages.key_in(self._queue.record.name), offset=first,
        )  # fmt: skip
        self.place = self.place._replace(offset=first + count)
        size = messages.size * count // messages.message_count
        self.figures.delivered += count
        self.figures.bytes_sent += size
        self.figures.bytes_read += size
        self._consumer.deliver(piece, messages.content)

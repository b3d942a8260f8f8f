"""A consumer of a stream on this node: where it stands, and what it is given next."""

from __future__ import annotations

from broker.consumer import Consumer
from broker.queue_type import Queue, Slice
from native.content import skip, take
from stream.reading import ReadChunk, StreamPlace, StreamReading
from stream.stored_form import StreamMessages

TURN_BYTES_MAX = 1 << 20  # given to one reader before others have their turn


class StreamReader:
    """`read` it whenever there may be something for it."""

    def __init__(self, consumer: Consumer, number: int, place: StreamPlace) -> None:
        self.consumer = consumer
        self.number = number
        self.place = place
        self.delivered = 0  # messages
        self.bytes_sent = 0

    def read(self, queue: Queue, reading: StreamReading) -> bool:
        """As much as its client can be given now. Whether there may be more for it, in another turn. Raises Damaged."""
        given = 0
        while given < TURN_BYTES_MAX:
            if not self.consumer.room():
                return False
            found = reading.next_chunk(self.place.entry_index)
            if found is None:
                return False
            given += self._give(queue, *found)
        return True

    def _give(self, queue: Queue, entry_index: int, chunk: ReadChunk) -> int:
        """Returns bytes."""
        given = 0
        for messages in chunk.messages:
            if messages.first_offset + messages.message_count <= self.place.offset:
                continue
            room = self.consumer.room()
            if not room:
                self.place = StreamPlace(entry_index, max(self.place.offset, messages.first_offset))
                return given
            given += self._deliver(queue, messages, room)
            if self.place.offset < messages.first_offset + messages.message_count:
                self.place = self.place._replace(entry_index=entry_index)
                return given
        self.place = StreamPlace(entry_index + 1, max(chunk.next_offset, self.place.offset))
        return given

    def _deliver(self, queue: Queue, messages: StreamMessages, room: int) -> int:
        missed = max(0, self.place.offset - messages.first_offset)
        position = skip(messages.content, 0, missed) if missed else 0
        count = min(messages.message_count - missed, room)
        first = messages.first_offset + missed
        if count > 1 and len(messages.content) > TURN_BYTES_MAX:
            count = take(messages.content, position, count, TURN_BYTES_MAX)[0]
        piece = Slice(
            queue, self.number, first, count, position, messages.exchange,
            messages.key_in(queue.record.name), offset=first,
        )  # fmt: skip
        self.place = self.place._replace(offset=first + count)
        size = len(messages.content) * count // messages.message_count
        self.delivered += count
        self.bytes_sent += size
        self.consumer.deliver(piece, messages.content)
        return size

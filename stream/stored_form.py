"""Messages of a chunk, as AMQP 0-9-1 has them: what they become and come from are sections of AMQP 1.0 (wire/amqp10/)."""

from __future__ import annotations

from typing import NamedTuple

from broker.message import Run
from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunk import is_sub_batch, sub_batch_at
from wire.amqp10.stream_messages import items_of, messages_of


class StreamMessages(NamedTuple):
    """Consecutive messages that were published with one exchange and routing key."""

    first_offset: int
    message_count: int
    exchange: str
    routing_key: str | None  # None: it is the name of the stream
    content: bytes  # native/content.py

    def key_in(self, stream: str) -> str:
        """The routing key with which they are delivered."""
        return stream if self.routing_key is None else self.routing_key


def items_of_run(run: Run) -> bytes:
    return items_of(run.content, 0, run.count, run.exchange, run.routing_key)


def stream_messages(data: Buffer, item_count: int, first_offset: int) -> list[StreamMessages]:
    """All messages of a chunk. Raises BadBytes where these are no items. What its publisher has compressed is left out."""
    found: list[StreamMessages] = []
    view = memoryview(data)
    at, offset, left = 0, first_offset, item_count
    while left:
        if at == len(view):
            raise BadBytes(f"{item_count - left} items, and {item_count} are announced")
        if is_sub_batch(view, at):
            batch, at = sub_batch_at(view, at)
            if not batch.compression:
                found += stream_messages(batch.data, batch.message_count, offset)
            offset += batch.message_count
            left -= 1
            continue
        try:
            some, at, taken = messages_of(view, at, left)
        except ValueError as error:
            raise BadBytes(str(error)) from error
        for alike in some:
            found.append(StreamMessages(offset, *alike))
            offset += alike.message_count
        left -= taken
    if at != len(view):
        raise BadBytes(f"{len(view) - at} bytes are left over behind {item_count} items")
    return found

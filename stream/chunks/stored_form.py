"""Messages of a chunk, as AMQP 0-9-1 has them: what they become and come from are sections of AMQP 1.0 (wire/amqp10/)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.message import Run
from native.stream_publish import count_items
from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunks.chunk import SubBatch, is_sub_batch, sub_batch_at
from stream.chunks.sub_batches import items_of_batch
from wire.amqp10.stream_messages import items_of, messages_of


class StreamMessages(NamedTuple):
    """Consecutive messages that were published with one exchange and routing key."""

    first_offset: int
    message_count: int
    exchange: str
    routing_key: str | None  # None: it is the name of the stream
    content: bytes  # native/content.py
    position: int = 0  # in the content, where the first of them begins
    size: int = 0  # their bytes in the content

    def key_in(self, stream: str) -> str:
        """The routing key with which they are delivered."""
        return stream if self.routing_key is None else self.routing_key


def items_of_run(run: Run) -> bytes:
    return items_of(run.content, 0, run.count, run.exchange, run.routing_key)


OnUndecodable = Callable[[int, str], None]  # so many messages are left out, for this reason


def _ignore(messages: int, why: str) -> None: ...


def stream_messages(
    data: Buffer, item_count: int, first_offset: int, on_undecodable: OnUndecodable = _ignore
) -> list[StreamMessages]:
    """All messages of a chunk. Raises BadBytes where these are no items. What cannot be taken apart is left out."""
    found: list[StreamMessages] = []
    view = memoryview(data)
    at, offset, left = 0, first_offset, item_count
    while left:
        if at == len(view):
            raise BadBytes(f"{item_count - left} items, and {item_count} are announced")
        if is_sub_batch(view, at):
            batches, at = _batches_at(view, at, left)
            found += _messages_of_batches(batches, offset, on_undecodable)
            offset += sum([batch.message_count for batch in batches])
            left -= len(batches)
        else:
            some, at, taken = _messages_of(view, at, left, offset)
            found += some
            offset += taken
            left -= taken
    if at != len(view):
        raise BadBytes(f"{len(view) - at} bytes are left over behind {item_count} items")
    return found


def _batches_at(view: memoryview, at: int, count: int) -> tuple[list[SubBatch], int]:
    """Those that follow each other from here on, so many at most, and where they end. Raises BadBytes."""
    batches: list[SubBatch] = []
    while len(batches) < count and at < len(view) and is_sub_batch(view, at):
        batch, at = sub_batch_at(view, at)
        batches.append(batch)
    return batches, at


def _messages_of_batches(batches: list[SubBatch], offset: int, on_undecodable: OnUndecodable) -> list[StreamMessages]:
    """Of those that are sound, in one go up to one that is not: alike messages of many small batches are delivered together."""
    found: list[StreamMessages] = []
    together: list[Buffer] = []
    first = offset
    for batch in batches:
        try:
            together.append(_messages_in(batch))
        except BadBytes as error:
            on_undecodable(batch.message_count, f"a sub-batch at offset {offset} cannot be taken apart: {error}")
            found += _messages_of(memoryview(b"".join(together)), 0, offset - first, first)[0]
            together, first = [], offset + batch.message_count
        offset += batch.message_count
    return found + _messages_of(memoryview(b"".join(together)), 0, offset - first, first)[0]


def _messages_in(batch: SubBatch) -> Buffer:
    """As items. Raises BadBytes: its publisher has made it so."""
    items = items_of_batch(batch)
    try:
        count, _, nested = count_items(items)
    except ValueError as error:
        raise BadBytes(str(error)) from error
    if nested or count != batch.message_count:
        raise BadBytes(f"{count - nested} messages in it, and {batch.message_count} are announced")
    return items


def _messages_of(view: memoryview, at: int, count: int, offset: int) -> tuple[list[StreamMessages], int, int]:
    """Up to `count` of them from `at` on, where they end, and how many there are before the end or a sub-batch."""
    try:
        some, at, taken = messages_of(view, at, count)
    except ValueError as error:
        raise BadBytes(str(error)) from error
    found = []
    for alike in some:
        found.append(StreamMessages(offset, *alike, size=len(alike.content)))
        offset += alike.message_count
    return found, at, taken

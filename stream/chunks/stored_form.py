"""Messages of a chunk, as AMQP 0-9-1 has them: what they become and come from are sections of AMQP 1.0 (wire/amqp10/).

Taking a chunk apart is done in steps of some milliseconds: a sub-batch of 64 KiB may have 64 MiB in it, and what the kernel
does not convert by itself takes 8 us a message and up to 1.3 us a byte.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import NamedTuple, TypeVar

from broker.messages.message import Run
from native.stream_publish import count_items
from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunks.chunk import SubBatch, is_sub_batch, sub_batch_at
from stream.chunks.sub_batches import items_of_batch
from wire.amqp10.stream_messages import from_sections, items_of, messages_of

STEP_BYTES, STEP_MESSAGES = 1 << 20, 4096  # of items that the kernel converts
LABORIOUS_BYTES, LABORIOUS_MESSAGES = 16 << 10, 128  # of others: 1 ms, and 20 ms at worst

T = TypeVar("T")
Steps = Generator[None, None, T]
_LENGTH = Struct(">I")
_SUB_BATCH_BIT = 0x8000_0000


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


class _Laborious(Exception):
    """Many messages are to be converted one by one: fewer at a time, then."""


class _FewOneByOne:
    """Converts some messages, as the kernel asks for it, and then raises _Laborious."""

    def __init__(self) -> None:
        self._left = LABORIOUS_BYTES

    def __call__(self, item: bytes) -> tuple[bytes, bytes | None, bytes, bytes, int]:
        if self._left <= 0:
            raise _Laborious
        self._left -= len(item) + LABORIOUS_BYTES // LABORIOUS_MESSAGES
        return from_sections(item)


OnUndecodable = Callable[[int, str], None]  # so many messages are left out, for this reason


def messages_in_steps(
    data: Buffer, item_count: int, first_offset: int, on_undecodable: OnUndecodable
) -> Steps[list[StreamMessages]]:
    """All messages of a chunk. Raises BadBytes where these are no items. What cannot be taken apart is left out."""
    found: list[StreamMessages] = []
    view = memoryview(data)
    at, offset, left = 0, first_offset, item_count
    while left:
        if at == len(view):
            raise BadBytes(f"{item_count - left} items, and {item_count} are announced")
        if is_sub_batch(view, at):
            batches, at = _batches_at(view, at, left)
            found += yield from _messages_of_batches(batches, offset, on_undecodable)
            offset += sum([batch.message_count for batch in batches])
            left -= len(batches)
        else:
            some, at, taken = yield from _messages_of(view, at, left, offset)
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


def _messages_of_batches(
    batches: list[SubBatch], offset: int, on_undecodable: OnUndecodable
) -> Steps[list[StreamMessages]]:
    """Of those that are sound, in one go up to one that is not: alike messages of many small batches are delivered together."""
    found: list[StreamMessages] = []
    together: list[Buffer] = []
    first = offset
    for batch in batches:
        try:
            together.append((yield from _messages_in(batch)))
        except BadBytes as error:
            on_undecodable(batch.message_count, f"a sub-batch at offset {offset} cannot be taken apart: {error}")
            found += yield from _all_messages_of(together, offset - first, first)
            together, first = [], offset + batch.message_count
        offset += batch.message_count
    return found + (yield from _all_messages_of(together, offset - first, first))


def _messages_in(batch: SubBatch) -> Steps[Buffer]:
    """As items. Raises BadBytes: its publisher has made it so."""
    items = yield from items_of_batch(batch)
    try:
        count, _, nested = count_items(items)
    except ValueError as error:
        raise BadBytes(str(error)) from error
    if nested or count != batch.message_count:
        raise BadBytes(f"{count - nested} messages in it, and {batch.message_count} are announced")
    return items


def _all_messages_of(items: list[Buffer], count: int, offset: int) -> Steps[list[StreamMessages]]:
    data = items[0] if len(items) == 1 else b"".join(items)
    return (yield from _messages_of(memoryview(data), 0, count, offset))[0]


def _messages_of(view: memoryview, at: int, count: int, offset: int) -> Steps[tuple[list[StreamMessages], int, int]]:
    """Up to `count` of them from `at` on, where they end, and how many there are before the end or a sub-batch."""
    found: list[StreamMessages] = []
    taken, laborious = 0, False
    while taken < count and at < len(view) and not is_sub_batch(view, at):
        if taken or laborious:
            yield
        wanted = _fit_in_a_step(view, at, count - taken, laborious)
        try:
            some, at, number = messages_of(view, at, wanted, None if laborious else _FewOneByOne())
        except _Laborious:
            laborious = True
            continue
        except ValueError as error:
            raise BadBytes(str(error)) from error
        for alike in some:
            found.append(StreamMessages(offset, *alike, size=len(alike.content)))
            offset += alike.message_count
        taken += number
    return _joined(found), at, taken


def _fit_in_a_step(view: memoryview, at: int, count: int, laborious: bool) -> int:
    """How many of the next items, one at least."""
    bytes_max, count_max = (LABORIOUS_BYTES, LABORIOUS_MESSAGES) if laborious else (STEP_BYTES, STEP_MESSAGES)
    count = min(count, count_max)
    if len(view) - at <= bytes_max:
        return count
    until, number = at + bytes_max, 0
    while number < count and at < until and at + _LENGTH.size <= len(view):
        (length,) = _LENGTH.unpack_from(view, at)
        if length & _SUB_BATCH_BIT:
            break
        at += _LENGTH.size + length
        number += 1
    return max(1, number)


def _joined(found: list[StreamMessages]) -> list[StreamMessages]:
    """Those that are alike are delivered together, though they were converted in several steps."""
    joined: list[StreamMessages] = []
    alike: list[StreamMessages] = []
    size = 0
    for one in found:
        if alike and (one[2:4] != alike[0][2:4] or size + one.size > STEP_BYTES):
            joined.append(_one_of(alike))
            alike, size = [], 0
        alike.append(one)
        size += one.size
    return [*joined, _one_of(alike)] if alike else joined


def _one_of(alike: list[StreamMessages]) -> StreamMessages:
    if len(alike) == 1:
        return alike[0]
    content = b"".join([one.content for one in alike])
    count = sum([one.message_count for one in alike])
    return alike[0]._replace(message_count=count, content=content, size=len(content))

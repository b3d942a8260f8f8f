"""What is published at once, as parts of chunks: items as chunks have them, each part small enough for one portion.

A run of AMQP 0-9-1 becomes items once, however many streams it is routed to. What stream clients publish are items already:
messages or sub-batches, never both in one part, nor in one chunk (stream/chunks/chunk.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from struct import Struct
from typing import NamedTuple

from broker.messages.message import LOOK_HEADERS, Run
from native.content import messages, take
from replicated.portions import PORTION_BYTES_MAX
from stream.chunks.chunk import is_sub_batch
from stream.chunks.filters import FILTER_FIELD, filter_value
from stream.chunks.stored_form import items_of_run
from wire.stream.publish_frame import ID_BYTES, NOTHING_FILTERED, StreamRun, pack_ids

# A chunk is read as a whole, whoever wants only its last message, and `last` means its first one: the 4,999 messages that a
# test of the client rstream sends in one frame are more than one chunk on RabbitMQ.
PORTION_MESSAGES_MAX = 4_096

_LENGTH = Struct(">I")


class PublishedPart(NamedTuple):
    """Consecutive items of one publisher."""

    item_count: int
    message_count: int
    items: bytes
    filter_values: frozenset[bytes] = NOTHING_FILTERED
    has_unfiltered: bool = True  # some message has no filter value
    reference: str = ""  # its publisher's name, if it has one
    ids: bytes = b""  # of the items, as in StreamRun, if they have a name
    unpacked_bytes: int = 0  # what its sub-batches say they have uncompressed

    @property
    def is_sub_batches(self) -> bool:
        """All of it. Otherwise its items are messages."""
        return is_sub_batch(self.items, 0)


def parts_of_run(run: Run) -> list[PublishedPart]:
    """Of messages as AMQP 0-9-1 has them."""
    return [_part_of_run(piece) for piece in _pieces(run)]


def numbered_run(first_number: int, run: Run) -> StreamRun:
    """The same as a client of streams would publish them whose ids are consecutive."""
    part = _part_of_run(run)
    ids = pack_ids(list(range(first_number, first_number + part.item_count)))
    return StreamRun(
        part.item_count, part.message_count, ids, part.items, part.filter_values, part.has_unfiltered
    )  # fmt: skip


def _part_of_run(run: Run) -> PublishedPart:
    items = items_of_run(run)
    if run.look & LOOK_HEADERS and FILTER_FIELD in run.content:
        return PublishedPart(run.count, run.count, items, *_filter_values(run))
    return PublishedPart(run.count, run.count, items)


def _filter_values(run: Run) -> tuple[frozenset[bytes], bool]:
    """What the messages have, and whether some have none."""
    values = {filter_value(props) for props, _ in messages(run.content, 0, run.count)}
    return frozenset([value for value in values if value is not None]), None in values


def _pieces(run: Run) -> Iterator[Run]:
    """Each fits a portion, or is a single message."""
    while run.count > 1 and (run.count > PORTION_MESSAGES_MAX or len(run.content) > PORTION_BYTES_MAX):
        taken, end, body_bytes = take(run.content, 0, PORTION_MESSAGES_MAX, PORTION_BYTES_MAX)
        if taken == run.count:
            break
        yield replace(run, content=run.content[:end], count=taken, body_bytes=body_bytes)
        run = replace(
            run, content=run.content[end:], count=run.count - taken, body_bytes=run.body_bytes - body_bytes
        )  # fmt: skip
    yield run


def parts_of_items(reference: str, run: StreamRun) -> list[PublishedPart]:
    """Of what a stream client publishes. A part may be larger than a portion should be, as large as frames are, but has no more
    messages than that; a sub-batch alone has as many as it likes."""
    ids = run.ids if reference else b""
    whole = PublishedPart(
        run.item_count,
        run.message_count,
        run.items,
        run.filter_values,
        run.has_unfiltered,
        reference,
        ids,
        run.unpacked_bytes,
    )
    return [whole] if run.item_count <= PORTION_MESSAGES_MAX else list(_split(whole))


def _split(whole: PublishedPart) -> Iterator[PublishedPart]:
    start = 0
    for first in range(0, whole.item_count, PORTION_MESSAGES_MAX):
        count = min(PORTION_MESSAGES_MAX, whole.item_count - first)
        end = behind_messages(whole.items, start, count)
        ids = whole.ids[first * ID_BYTES : (first + count) * ID_BYTES]
        yield whole._replace(item_count=count, message_count=count, items=whole.items[start:end], ids=ids)
        start = end


def behind_messages(items: bytes | memoryview, position: int, count: int) -> int:
    """Where `count` items of one message each end that begin at `position`."""
    unpack_from, length_bytes = _LENGTH.unpack_from, _LENGTH.size
    for _ in range(count):
        position += length_bytes + unpack_from(items, position)[0]
    return position

"""Cuts what a stream client sent into runs of messages, for frames that hold nothing else.

    frame      size u32 | key u16, 2 | version u16, 1 | publisher u8 | count u32 | messages          big endian
    message    id u64 | item: length u32, its top bit 0 | bytes

A client that sends each message as soon as it has it makes a frame of each; so a run goes on through frames of one publisher as
long as the ids ascend. Only whole, well-formed frames are taken. The first that is something else stops the walk, and judging
it is the work of wire/stream: sub-batches, filter values, and what is wrong. So does a frame whose ids descend again and again,
which is a run for each message: wire/stream reads it piece by piece. A walk ends when it has RUNS_MAX runs.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from native import compiled_twin

Buffer: TypeAlias = bytes | bytearray | memoryview
# (publisher, messages, their ids, their items)
PublishedRun: TypeAlias = tuple[int, int, bytes, bytes]

# What one chunk of a stream should hold at most; a single larger message is a run of its own.
STREAM_RUN_MESSAGES_MAX: Final = 8192
STREAM_RUN_ITEMS_BYTES_MAX: Final = 1 << 20
# What a caller can make something of in one turn of an event loop; a walk may have as many again as one frame may add.
RUNS_MAX: Final = 256
FRAME_DESCENTS_MAX: Final = 64

_FRAME = struct.Struct(">IHHBI")
_PUBLISH = (2, 1)
_MESSAGE = struct.Struct(">QI")
_ID_BYTES = 8
_SIZE_BYTES = 4
_SUB_BATCH_BIT = 0x8000_0000


def published_plain(data: Buffer, position: int, frame_bytes_max: int) -> tuple[list[PublishedRun], int]:
    """The runs of the frames from `position` on, and where the first frame begins that was not taken. With `frame_bytes_max` 0
    frames may have any size. Where nothing was taken, the frame at `position` is not for this walk."""
    runs: list[PublishedRun] = []
    ids: list[bytes] = []
    items: list[bytes] = []
    publisher, before, items_bytes = 0, -1, 0
    with memoryview(data) as view:
        while len(runs) + bool(ids) < RUNS_MAX and (found := _messages_at(view, position, frame_bytes_max)) is not None:
            number, messages, position = found
            for id_, start, end in messages:
                size = end - start
                if ids and (
                    number != publisher
                    or id_ <= before
                    or len(ids) == STREAM_RUN_MESSAGES_MAX
                    or items_bytes + size > STREAM_RUN_ITEMS_BYTES_MAX
                ):
                    runs.append((publisher, len(ids), b"".join(ids), b"".join(items)))
                    ids, items, items_bytes = [], [], 0
                publisher, before = number, id_
                items_bytes += size
                ids.append(bytes(view[start - _ID_BYTES : start]))
                items.append(bytes(view[start:end]))
    if ids:
        runs.append((publisher, len(ids), b"".join(ids), b"".join(items)))
    return runs, position


def _messages_at(
    view: memoryview, position: int, frame_bytes_max: int
) -> tuple[int, list[tuple[int, int, int]], int] | None:
    """Publisher, messages (id, where the item begins and ends), and the end of a frame; None for one that is not taken."""
    if len(view) - position < _FRAME.size:
        return None
    size, key, version, publisher, count = _FRAME.unpack_from(view, position)
    end, at = position + _SIZE_BYTES + size, position + _FRAME.size
    if (key, version) != _PUBLISH or end > len(view) or 0 < frame_bytes_max < size:
        return None
    if at + count * _MESSAGE.size > end:
        return None
    messages = []
    before, descents = -1, 0
    for _ in range(count):
        if at + _MESSAGE.size > end:
            return None
        id_, length = _MESSAGE.unpack_from(view, at)
        descents += id_ <= before
        before = id_
        start, at = at + _ID_BYTES, at + _MESSAGE.size + length
        if length & _SUB_BATCH_BIT or at > end:
            return None
        messages.append((id_, start, at))
    return (publisher, messages, end) if at == end and descents <= FRAME_DESCENTS_MAX else None


published = published_plain

if (_twin := compiled_twin("stream_publish")) is not None:
    published = _twin.published

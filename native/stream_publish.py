"""Cuts what a stream client sent into runs of items, for frames that hold nothing else.

    frame      size u32 | key u16, 2 | version u16, 1 | publisher u8 | count u32 | entries           big endian
    entry      id u64 | item
    item       a message     length u32, its top bit 0 | bytes
               a sub-batch   u8 128 + 16 x compression | messages u16 | uncompressed bytes u32 | length u32 | bytes

A client that sends each message as soon as it has it makes a frame of each; so a run goes on through frames of one publisher as
long as the ids ascend. Messages and sub-batches never share a run, as they never share a chunk. What a sub-batch announces
counts for the limits of a run: a chunk is taken apart as a whole for consumers that want single messages.

Only whole, well-formed frames are taken. The first that is something else stops the walk, and judging it is the work of
wire/stream: filter values, sub-batches that cannot be, and what is wrong. So does a frame that would become more than
FRAME_RUNS_MAX runs: wire/stream reads it piece by piece. A walk ends when it has RUNS_MAX runs.

Items that come from another node are counted, and their ids looked at, before a leader stores them.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from native import compiled_twin

Buffer: TypeAlias = bytes | bytearray | memoryview
# (publisher, items, messages in them, ids of the items, the items, what their sub-batches say they have uncompressed)
PublishedRun: TypeAlias = tuple[int, int, int, bytes, bytes, int]

# What one chunk of a stream should hold at most; a single larger item is a run of its own.
STREAM_RUN_MESSAGES_MAX: Final = 4096
STREAM_RUN_ITEMS_BYTES_MAX: Final = 1 << 20
STREAM_RUN_UNPACKED_BYTES_MAX: Final = 4 << 20  # gzip becomes so much in 25 ms, which is a long turn
# What a caller can make something of in one turn of an event loop; a walk may have as many again as one frame may add.
RUNS_MAX: Final = 256
FRAME_RUNS_MAX: Final = 64
SUB_BATCH_BYTES_MAX: Final = 64 << 20  # uncompressed
COMPRESSIONS: Final = 5  # kinds, none of them included

_FRAME = struct.Struct(">IHHBI")
_PUBLISH = (2, 1)
_ID = struct.Struct(">Q")
_LENGTH = struct.Struct(">I")
_SUB_BATCH = struct.Struct(">BHII")
_SIZE_BYTES = 4
_SUB_BATCH_BIT = 0x8000_0000


class _Item(NamedTuple):
    start: int
    end: int
    messages: int
    unpacked: int
    is_sub_batch: bool


class _Entry(NamedTuple):
    id_: int
    item: _Item


class _Run:
    """Entries of one publisher that go together."""

    def __init__(self, publisher: int, first: _Entry) -> None:
        self.publisher = publisher
        self.entries = [first]
        self.messages = first.item.messages
        self.items_bytes = first.item.end - first.item.start
        self.unpacked = first.item.unpacked

    def takes(self, publisher: int, one: _Entry) -> bool:
        """And has it then."""
        last, item = self.entries[-1], one.item
        messages, items_bytes = self.messages + item.messages, self.items_bytes + item.end - item.start
        unpacked = self.unpacked + item.unpacked
        if (
            publisher != self.publisher
            or one.id_ <= last.id_
            or item.is_sub_batch != last.item.is_sub_batch
            or messages > STREAM_RUN_MESSAGES_MAX
            or items_bytes > STREAM_RUN_ITEMS_BYTES_MAX
            or unpacked > STREAM_RUN_UNPACKED_BYTES_MAX
        ):
            return False
        self.entries.append(one)
        self.messages, self.items_bytes, self.unpacked = messages, items_bytes, unpacked
        return True


def published_plain(data: Buffer, position: int, frame_bytes_max: int) -> tuple[list[PublishedRun], int]:
    """The runs of the frames from `position` on, and where the first frame begins that was not taken. With `frame_bytes_max` 0
    frames may have any size. Where nothing was taken, the frame at `position` is not for this walk."""
    runs: list[_Run] = []
    with memoryview(data) as view:
        while len(runs) < RUNS_MAX and (found := _frame_at(view, position, frame_bytes_max)) is not None:
            publisher, entries, position = found
            _gather(runs, publisher, entries)
        return [_published(view, run) for run in runs], position


def _gather(runs: list[_Run], publisher: int, entries: list[_Entry]) -> None:
    for one in entries:
        if not (runs and runs[-1].takes(publisher, one)):
            runs.append(_Run(publisher, one))


def _published(view: memoryview, run: _Run) -> PublishedRun:
    ids = b"".join([_ID.pack(one.id_) for one in run.entries])
    items = b"".join([view[one.item.start : one.item.end] for one in run.entries])
    return run.publisher, len(run.entries), run.messages, ids, items, run.unpacked


def _frame_at(view: memoryview, position: int, frame_bytes_max: int) -> tuple[int, list[_Entry], int] | None:
    """Publisher, entries, and the end of a frame; None for one that is not taken."""
    if len(view) - position < _FRAME.size:
        return None
    size, key, version, publisher, count = _FRAME.unpack_from(view, position)
    end, at = position + _SIZE_BYTES + size, position + _FRAME.size
    if (key, version) != _PUBLISH or end > len(view) or 0 < frame_bytes_max < size:
        return None
    if at + count * (_ID.size + _LENGTH.size) > end:
        return None
    entries: list[_Entry] = []
    for _ in range(count):
        item = _item_at(view, at + _ID.size, end)
        if item is None:
            return None
        entries.append(_Entry(_ID.unpack_from(view, at)[0], item))
        at = item.end
    runs: list[_Run] = []
    _gather(runs, publisher, entries)
    return (publisher, entries, end) if at == end and len(runs) <= FRAME_RUNS_MAX else None


def _item_at(view: memoryview, at: int, end: int) -> _Item | None:
    """None: it is cut off, or cannot be."""
    if at + _LENGTH.size > end:
        return None
    (length,) = _LENGTH.unpack_from(view, at)
    if not length & _SUB_BATCH_BIT:
        one = _Item(at, at + _LENGTH.size + length, 1, 0, False)
        return one if one.end <= end else None
    if at + _SUB_BATCH.size > end:
        return None
    first, messages, unpacked, length = _SUB_BATCH.unpack_from(view, at)
    one = _Item(at, at + _SUB_BATCH.size + length, messages, unpacked, True)
    return one if one.end <= end and _is_possible(first >> 4 & 7, messages, unpacked, length) else None


def _is_possible(compression: int, messages: int, unpacked: int, length: int) -> bool:
    return (
        compression < COMPRESSIONS
        and messages > 0
        and messages * _LENGTH.size <= unpacked <= SUB_BATCH_BYTES_MAX
        and (compression == 0 or length > 0)
    )


def count_items_plain(data: Buffer) -> tuple[int, int, int]:
    """How many items these are, how many messages they have, and how many of them are sub-batches. Raises ValueError when one
    is cut off, or cannot be."""
    items: list[_Item] = []
    at = 0
    with memoryview(data) as view:
        while at < len(view):
            one = _item_at(view, at, len(view))
            if one is None:
                raise ValueError(f"no item is at {at} of {len(view)} bytes")
            items.append(one)
            at = one.end
    return len(items), sum([one.messages for one in items]), sum([one.is_sub_batch for one in items])


def ids_ascend_plain(ids: Buffer) -> bool:
    """Of u64s that lie one behind the other."""
    numbers = struct.unpack_from(f">{len(ids) // _ID.size}Q", ids)
    return all(one < following for one, following in pairwise(numbers))


published = published_plain
count_items = count_items_plain
ids_ascend = ids_ascend_plain

if (_twin := compiled_twin("stream_publish")) is not None:
    published = _twin.published
    count_items = _twin.count_items
    ids_ascend = _twin.ids_ascend

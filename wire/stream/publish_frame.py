"""The messages of a Publish frame, taken apart in one pass into runs that a stream stores as they are, one run after the other.

    version 1     id u64 | item        as chunks hold it: a message, or a sub-batch
    version 2     id u64 | filter string, a length of 65535 for none | message

    message       u32 length, its top bit 0 | bytes
    sub-batch     u8 128 + 16 x compression | u16 messages | u32 uncompressed bytes | u32 length | bytes

A run is consecutive messages, or consecutive sub-batches, whose ids ascend. Its items lie one behind the other without their
ids, and the ids as a confirm has them. So what is done for one message here is all that is done for one message: 0.2 µs in
frames of 100, 2.5 µs in frames of one (tests/bench/stream_publish.py). What a front gets most, whole frames of version 1,
native/stream_publish.py takes before them, in a hundredth of that.

A sub-batch that says impossible things is refused with all that follows it in the frame: those may depend on it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct, error
from typing import NamedTuple, TypeAlias

from native.stream_publish import (
    COMPRESSIONS,
    STREAM_RUN_MESSAGES_MAX,
    STREAM_RUN_UNPACKED_BYTES_MAX,
    SUB_BATCH_BYTES_MAX,
)
from wire.stream.command_fields import STRING_BYTES_MAX, BadStreamFrame
from wire.stream.stream_commands import PublishFrame

_ID = Struct(">Q")
ID_BYTES = _ID.size
_MESSAGE = Struct(">QI")  # its id, and its length
_SUB_BATCH = Struct(">QBHII")
_FILTERED = Struct(">QH")
_LENGTH = Struct(">I")
_SUB_BATCH_BIT = 0x8000_0000
_NO_FILTER = 0xFFFF
NOTHING_FILTERED: frozenset[bytes] = frozenset()


class StreamRun(NamedTuple):
    """Messages of one publisher that are stored together."""

    item_count: int
    message_count: int
    ids: bytes  # of its items, u64 each; they ascend
    items: bytes
    filter_values: frozenset[bytes] = NOTHING_FILTERED  # of its messages together
    has_unfiltered: bool = True  # some message has no filter value
    unpacked_bytes: int = 0  # what its sub-batches say they have uncompressed

    @property
    def first_id(self) -> int:
        first: int = _ID.unpack_from(self.ids)[0]
        return first

    @property
    def last_id(self) -> int:
        last: int = _ID.unpack_from(self.ids, len(self.ids) - _ID.size)[0]
        return last


class RefusedItems(NamedTuple):
    """A sub-batch that cannot be, and all behind it."""

    ids: bytes


PublishStep: TypeAlias = StreamRun | RefusedItems
Steps: TypeAlias = Generator[PublishStep, None, int]


def pack_ids(ids: list[int]) -> bytes:
    return Struct(f">{len(ids)}Q").pack(*ids)


def unpack_ids(ids: bytes) -> tuple[int, ...]:
    return Struct(f">{len(ids) // _ID.size}Q").unpack(ids)


def runs_of(frame: PublishFrame) -> Iterator[PublishStep]:
    """One after the other, for a frame may have a run for each message. Raises BadStreamFrame where it does not hold what it
    says; what came before counts."""
    entries = frame.entries
    if frame.entry_count * _MESSAGE.size > len(entries):
        raise BadStreamFrame(f"{frame.entry_count} messages in {len(entries)} bytes")
    read = _read_filtered if frame.version == 2 else _read_items
    try:
        end = yield from read(entries, frame.entry_count)
    except error as missing:  # a message begins behind the end
        raise BadStreamFrame(f"fewer than {frame.entry_count} messages in {len(entries)} bytes") from missing
    if end != len(entries):
        raise BadStreamFrame(f"{frame.entry_count} messages end at byte {end} of {len(entries)}")


def _read_items(entries: bytes, count: int) -> Steps:
    """Returns where the last item ends."""
    at = 0
    while count:
        read = _sub_batches if _MESSAGE.unpack_from(entries, at)[1] & _SUB_BATCH_BIT else _messages
        run, at = read(entries, at, count)
        if not run.item_count:
            refused, at = _refuse(entries, at, count)
            yield refused
            return at
        yield run
        count -= run.item_count
    return at


def _messages(entries: bytes, at: int, count: int) -> tuple[StreamRun, int]:
    """The run of messages that begins here, of so many at most, and where it ends."""
    ids: list[int] = []
    parts: list[bytes] = []
    before, unpack_from = -1, _MESSAGE.unpack_from
    for _ in range(min(count, STREAM_RUN_MESSAGES_MAX)):
        id_, length = unpack_from(entries, at)
        if length & _SUB_BATCH_BIT or id_ <= before:
            break
        start = at + _ID.size
        at += _MESSAGE.size + length
        ids.append(id_)
        parts.append(entries[start:at])
        before = id_
    _check_end(entries, at)
    return _run(ids, parts), at


def _sub_batches(entries: bytes, at: int, count: int) -> tuple[StreamRun, int]:
    """The same of sub-batches. It is empty if the first one cannot be."""
    ids: list[int] = []
    parts: list[bytes] = []
    before, messages, unpacked = -1, 0, 0
    for _ in range(count):
        id_, length = _MESSAGE.unpack_from(entries, at)
        if not length & _SUB_BATCH_BIT or id_ <= before or _is_impossible(entries, at):
            break
        _, _, some, size, length = _SUB_BATCH.unpack_from(entries, at)
        if ids and (messages + some > STREAM_RUN_MESSAGES_MAX or unpacked + size > STREAM_RUN_UNPACKED_BYTES_MAX):
            break
        start = at + _ID.size
        at += _SUB_BATCH.size + length
        ids.append(id_)
        parts.append(entries[start:at])
        before, messages, unpacked = id_, messages + some, unpacked + size
    _check_end(entries, at)
    return _run(ids, parts)._replace(message_count=messages, unpacked_bytes=unpacked), at


def _run(ids: list[int], parts: list[bytes]) -> StreamRun:
    return StreamRun(len(ids), len(ids), pack_ids(ids), b"".join(parts))


def _check_end(entries: bytes, at: int) -> None:
    """The last item of a run ends where there are bytes; of those before it, that was seen when the next one began."""
    if at > len(entries):
        raise BadStreamFrame(f"a message ends at byte {at} of {len(entries)}")


def _is_impossible(entries: bytes, at: int) -> bool:
    _, first, messages, uncompressed, length = _SUB_BATCH.unpack_from(entries, at)
    compression = first >> 4 & 7
    return (
        compression >= COMPRESSIONS
        or messages == 0
        or not messages * _LENGTH.size <= uncompressed <= SUB_BATCH_BYTES_MAX
        or (compression > 0 and length == 0)
    )


def _refuse(entries: bytes, at: int, count: int) -> tuple[RefusedItems, int]:
    """So many messages and sub-batches, and where they end."""
    refused: list[int] = []
    for _ in range(count):
        id_, length = _MESSAGE.unpack_from(entries, at)
        refused.append(id_)
        if length & _SUB_BATCH_BIT:
            at += _SUB_BATCH.size + _SUB_BATCH.unpack_from(entries, at)[-1]
        else:
            at += _MESSAGE.size + length
    return RefusedItems(pack_ids(refused)), at


def _read_filtered(entries: bytes, count: int) -> Steps:
    """As _read_items, of version 2."""
    ids: list[int] = []
    parts: list[bytes] = []
    values: set[bytes | None] = set()
    at, before = 0, -1
    for _ in range(count):
        id_, value_bytes = _FILTERED.unpack_from(entries, at)
        at += _FILTERED.size
        value = None
        if value_bytes != _NO_FILTER:
            if value_bytes > STRING_BYTES_MAX:
                raise BadStreamFrame(f"a filter value of {value_bytes - 2**16} bytes")
            value = entries[at : at + value_bytes]
            at += value_bytes
        (length,) = _LENGTH.unpack_from(entries, at)
        if length & _SUB_BATCH_BIT:
            raise BadStreamFrame("a sub-batch among messages with filter values")
        if ids and (id_ <= before or len(ids) == STREAM_RUN_MESSAGES_MAX):
            yield _filtered_run(ids, parts, values)
            ids, parts, values = [], [], set()
        start, at = at, at + _LENGTH.size + length
        ids.append(id_)
        parts.append(entries[start:at])
        values.add(value)
        before = id_
    _check_end(entries, at)
    if ids:
        yield _filtered_run(ids, parts, values)
    return at


def _filtered_run(ids: list[int], parts: list[bytes], values: set[bytes | None]) -> StreamRun:
    found = frozenset([value for value in values if value is not None])
    return _run(ids, parts)._replace(filter_values=found, has_unfiltered=None in values)

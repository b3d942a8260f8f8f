"""Entries of replicated logs as rows, in Python: what native/log_columns.py makes of the records that hold them.

A record holds a pack of entries (raft/core/packs.py); an entry of a quorum queue is a sequence of ops, as they are in
quorum/fifo/commands.py. The bytes may be anything: what does not fit its own lengths gives the rows before that place and no
more. The compiled twin is that of log_columns.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from native.log_tables import DEAD_SETTLED, PURGED
from native.record_scan import HEADER_SIZE

Buffer: TypeAlias = bytes | bytearray | memoryview
Row: TypeAlias = tuple[Any, ...]

RAFT_ENTRIES: Final = 32  # the kind of records that hold them
COMMAND: Final = 0  # the kind of entries that are for a machine
ENQUEUE, SETTLE, PURGE, DEAD_SETTLED_OP, PURGE_ONCE, ORIGINS_OP = 1, 2, 6, 12, 14, 17
PERSISTENT, NUMBERED, KNOWN_FLAGS = 1, 4, 7
ORIGIN_WAITED_FOR, ORIGIN_DIED = 1, 2
TIME_MS_MAX = (2**63 - 1) // 1000

NO_DEATH: Final[tuple[int | None, ...]] = (None,) * 5
DEATH = struct.Struct("<QQIIB")
RANGE = struct.Struct("<QI")

_U32 = struct.Struct("<I")
_ORIGIN = struct.Struct("<IQIB")
_ENTRY = struct.Struct("<BQ")
_OP = struct.Struct("<BI")
_ENQUEUE = struct.Struct("<IQQQIQQBBBB")
_PRODUCER = struct.Struct("<QB")
_CONSUMER = struct.Struct("<IQQ")


def whole_entry(skeleton: bytes, size: int) -> bytes:
    """The entry of `size` bytes that was cut to this, with zeros for contents; 0: it was not cut."""
    if not size:
        return skeleton
    made = bytearray(size)
    made[: _ENTRY.size] = skeleton[: _ENTRY.size]
    at = off = _ENTRY.size
    while off < size:
        kind, length = _OP.unpack_from(skeleton, at)
        kept = _OP.size + (_content_at(skeleton, at + _OP.size, length) if kind == ENQUEUE else length)
        made[off : off + kept] = skeleton[at : at + kept]
        at += kept
        off += _OP.size + length
    if at != len(skeleton) or off != size:
        raise ValueError(f"a skeleton of {len(skeleton)} bytes ends at {at}, and its entry of {size} at {off}")
    return bytes(made)


def whole(payload: memoryview, at: int, size: int) -> memoryview:
    """The pieces of this size that lie there, without what is left over."""
    return payload[at : at + max(0, len(payload) - at) // size * size]


def skeletons(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    for number, entry in enumerate(_pack(payload)):
        data = _skeleton(entry) if record["flags"] == COMMAND else bytes(entry)
        yield (
            record["writer"], record["index"] + number, record["term"], RAFT_ENTRIES, record["time"], record["flags"], data,
            len(entry) if len(data) < len(entry) else 0, record["offset"],
        )  # fmt: skip


def _skeleton(entry: memoryview) -> bytes:
    """What is left of a command without contents; all of one that is no sequence of ops."""
    if len(entry) < _ENTRY.size or entry[0] != 1:
        return bytes(entry)
    kept = [entry[: _ENTRY.size]]
    end = _ENTRY.size
    for off, kind, size in _ops_in(entry):
        start = off + _OP.size
        end = start + size
        kept.append(entry[off : start + _content_at(entry, start, size)] if kind == ENQUEUE else entry[off:end])
    return b"".join(kept) if end == len(entry) else bytes(entry)


def _content_at(data: Buffer, start: int, size: int) -> int:
    """Where in the payload of an ENQUEUE its content begins; behind all of it if there is none that is known."""
    if size < _ENQUEUE.size:
        return size
    flags, _, exchange_len, key_len = data[start + _ENQUEUE.size - 4 : start + _ENQUEUE.size]
    at = _ENQUEUE.size + exchange_len + key_len
    if flags & NUMBERED:
        if size - at < _PRODUCER.size:
            return size
        at += _PRODUCER.size + data[start + at + _PRODUCER.size - 1]
    return at if at <= size and flags <= KNOWN_FLAGS else size


def ops_of(record: dict[str, Any], payload: memoryview) -> Iterator[tuple[int, int, int, int, int, memoryview]]:
    """The ops of a pack of entries: index and time of the entry, the op's offset in it and its kind, where its payload lies in
    the record's, and the payload."""
    if record["flags"] != COMMAND:
        return
    entries = list(_pack(payload))
    at = len(payload) - sum(map(len, entries))
    for number, entry in enumerate(entries):
        if len(entry) >= _ENTRY.size and entry[0] == 1:
            time_ms = _ENTRY.unpack_from(entry)[1]
            for off, kind, size in _ops_in(entry):
                start = off + _OP.size
                yield record["index"] + number, time_ms, off, kind, at + start, entry[start : start + size]
        at += len(entry)


def _pack(payload: memoryview) -> Iterator[memoryview]:
    """The entries of a pack, which lie at its end; none if its lengths do not fit it."""
    count = _U32.unpack_from(payload)[0] if len(payload) >= _U32.size else 0
    if not 0 < count <= (len(payload) - 4) // 4:
        return
    lengths = struct.unpack_from(f"<{count}I", payload, 4)
    at = 4 + 4 * count
    if at + sum(lengths) != len(payload):
        return
    for length in lengths:
        yield payload[at : at + length]
        at += length


def _ops_in(entry: memoryview) -> Iterator[tuple[int, int, int]]:
    """Offset, kind and size of the ops of an entry."""
    off = _ENTRY.size
    while len(entry) - off >= _OP.size:
        kind, size = _OP.unpack_from(entry, off)
        if size > len(entry) - off - _OP.size:
            return
        yield off, kind, size
        off += _OP.size + size


def _micros(time_ms: int) -> int | None:
    return time_ms * 1000 if time_ms <= TIME_MS_MAX else None


def run_of_op(record: dict[str, Any], index: int, time_ms: int, off: int, at: int, op: memoryview) -> Iterator[Row]:
    if len(op) < _ENQUEUE.size:
        return
    (
        node, incarnation, sequence, _, count, body_bytes, expiration, flags, priority, exchange_len, key_len
    ) = _ENQUEUE.unpack_from(op)  # fmt: skip
    key_at = _ENQUEUE.size + exchange_len
    content_at = key_at + key_len
    names = bytes(op[_ENQUEUE.size : key_at]), bytes(op[key_at:content_at])
    producer = number = None
    if flags & NUMBERED:
        if len(op) - content_at < _PRODUCER.size:
            return
        number, name_len = _PRODUCER.unpack_from(op, content_at)
        name_at = content_at + _PRODUCER.size
        content_at = name_at + name_len
        producer = bytes(op[name_at:content_at])
    if content_at > len(op) or flags > KNOWN_FLAGS:
        return
    expires_at = time_ms + expiration
    yield (
        record["offset"], _micros(time_ms), record["writer"], index, off, count, body_bytes, len(op) - content_at,
        *names, flags & PERSISTENT, priority, expires_at if expires_at <= TIME_MS_MAX else None, node, incarnation, sequence,
        producer, number, record["offset"] + HEADER_SIZE + at + content_at, None, None, None, None, None, None,
    )  # fmt: skip


def parts_of_entries(record: dict[str, Any], payload: memoryview) -> Iterator[Row]:
    """Of each run the parts that the ORIGINS before it in its entry has for it."""
    entry, parts = -1, deque[Row]()
    for index, _, off, kind, _, op in ops_of(record, payload):
        if index != entry:
            entry, parts = index, deque()
        if kind == ORIGINS_OP:
            parts = deque(_origins_of_op(op))
        elif kind == ENQUEUE and len(op) >= _ENQUEUE.size:
            left, nth = _ENQUEUE.unpack_from(op)[4], 0
            while left and parts and 0 < parts[0][0] <= left:
                count, *said = parts.popleft()
                yield record["offset"], index, off, nth, count, *said
                nth, left = nth + count, left - count


def _origins_of_op(op: memoryview) -> Iterator[Row]:
    at = 0
    while len(op) - at >= _ORIGIN.size:
        actor, number, count, flags = _ORIGIN.unpack_from(op, at)
        at += _ORIGIN.size
        death = NO_DEATH
        if flags & ORIGIN_DIED:
            if len(op) - at < DEATH.size:
                return
            death = DEATH.unpack_from(op, at)
            at += DEATH.size
        yield count, actor, number or None, flags & ORIGIN_WAITED_FOR, *death


def settles_of_op(
    record: dict[str, Any], index: int, time_ms: int, off: int, kind: int, op: memoryview
) -> Iterator[Row]:
    head = (record["offset"], _micros(time_ms), record["writer"], index, off)
    if kind == PURGE:
        yield *head, PURGED, None, None, None, None, None, None
    elif kind == PURGE_ONCE and len(op) >= _CONSUMER.size:
        yield *head, PURGED, *_CONSUMER.unpack_from(op), None, None, None
    elif kind == DEAD_SETTLED_OP:
        for first, count in RANGE.iter_unpack(whole(op, 0, RANGE.size)):
            yield *head, DEAD_SETTLED, None, None, None, first, count, None
    elif kind == SETTLE and len(op) > _CONSUMER.size and op[_CONSUMER.size] < DEAD_SETTLED:
        for first, count in RANGE.iter_unpack(whole(op, _CONSUMER.size + 1, RANGE.size)):
            yield *head, op[_CONSUMER.size], *_CONSUMER.unpack_from(op), first, count, None

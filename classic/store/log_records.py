"""What classic queues write to the node's log. All integers are little endian.

    CLASSIC_PUBLISH        one run, in one or more queues; the content follows and is what the record's end leaves
        head_len u16 | queue_count u16 | flags u8 | priority u8 | count u32 | body_bytes u64 | expires_at i64 (-1: never)
        per queue: id u64 | first sequence u64
        exchange and key as in broker/route_names.py
    CLASSIC_SETTLE         messages of one queue that are done with
        queue id u64 | per range: first u64 | end u64
    CLASSIC_PURGE          the same, because the queue was purged
    CLASSIC_QUEUE_DELETED  nothing of this queue counts any more
        queue id u64

`head_len` is the length of everything before the content. The record's index counts the records of classic queues, without
a gap.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from broker import route_names
from native.sequence_set import SequenceSet

QUEUES_PER_RECORD_MAX = 1_000  # the head's length has 16 bits
_FIXED = struct.Struct("<HHBBIQq")
_QUEUE = struct.Struct("<QQ")
_ID = struct.Struct("<Q")
NEVER = -1


class Published(NamedTuple):
    """One CLASSIC_PUBLISH record without its content."""

    head_len: int
    queues: list[tuple[int, int]]  # (queue id, first sequence)
    priority: int
    message_count: int
    body_bytes: int
    expires_at: int | None
    exchange: str
    routing_key: str


def encode_published(
    queues: Sequence[tuple[int, int]],
    priority: int,
    count: int,
    body_bytes: int,
    expires_at: int | None,
    exchange: str,
    routing_key: str,
) -> bytes:
    name = route_names.encode(exchange, routing_key)
    head_len = _FIXED.size + _QUEUE.size * len(queues) + len(name)
    expires = NEVER if expires_at is None else expires_at
    fixed = _FIXED.pack(head_len, len(queues), 0, priority, count, body_bytes, expires)
    if len(queues) == 1:
        return fixed + _QUEUE.pack(*queues[0]) + name
    return b"".join((fixed, *(_QUEUE.pack(*queue) for queue in queues), name))


def decode_published(payload: memoryview) -> Published:
    head_len, queue_count, _, priority, count, body_bytes, expires = _FIXED.unpack_from(payload)
    at = _FIXED.size
    queues = list(_QUEUE.iter_unpack(payload[at : at + _QUEUE.size * queue_count]))
    name, key, _ = route_names.read(payload, at + _QUEUE.size * queue_count)
    return Published(head_len, queues, priority, count, body_bytes, None if expires == NEVER else expires, name, key)


def read_published(payload: memoryview) -> tuple[int, int, int, int, int, list[tuple[int, int]], bytes]:
    """Head length, priority, count, body bytes, expiry (-1: never), queues, and exchange and routing key as they are encoded.
    For a start, which reads a million of them."""
    head_len, queue_count, _, priority, count, body_bytes, expires = _FIXED.unpack_from(payload)
    at = _FIXED.size + _QUEUE.size * queue_count
    queues = list(_QUEUE.iter_unpack(payload[_FIXED.size : at]))
    return head_len, priority, count, body_bytes, expires, queues, bytes(payload[at:head_len])


def encode_settled(queue_id: int, settled: SequenceSet) -> bytes:
    return _ID.pack(queue_id) + b"".join(_QUEUE.pack(*pair) for pair in settled.ranges())


def decode_settled(payload: memoryview) -> tuple[int, list[tuple[int, int]]]:
    return _ID.unpack_from(payload)[0], list(_QUEUE.iter_unpack(payload[_ID.size :]))


def encode_deleted(queue_id: int) -> bytes:
    return _ID.pack(queue_id)


def decode_deleted(payload: memoryview) -> int:
    return int(_ID.unpack_from(payload)[0])

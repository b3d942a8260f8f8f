"""Messages as somebody saw them who looked into a queue and took nothing.

How nodes tell each other of them, one behind the other, little endian; texts are UTF-8:

    flags u8: 1 persistent, 2 redelivered, 4 of a stream | delivery_count u32 | acquired_count u32 | exchange_len u8 |
    key_len u8 | content_len u32 | if of a stream, offset u64 | exchange | routing key | content of one message
    (native/content.py)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

COUNT_MAX = 1_000  # in one answer
BYTES_MAX = 4 << 20  # of contents; the first message comes whatever its size
SKIP_MAX = 100_000  # what is skipped is walked over on the event loop, in some 80 ms for as many runs of one

_HEAD = Struct("<BIIBBI")
_OFFSET = Struct("<Q")
_PERSISTENT, _REDELIVERED, _OF_STREAM = 1, 2, 4


class Browsed(NamedTuple):
    """One message, where it stands."""

    exchange: str
    routing_key: str
    content: bytes
    persistent: bool
    redelivered: bool = False
    delivery_count: int = 0  # deliveries that failed; only quorum queues know these two
    acquired_count: int = 0  # times it was handed out before
    offset: int | None = None  # in its stream


def bounded(found: Iterable[Browsed], limit: int) -> list[Browsed]:
    """As many of them as fit an answer."""
    taken: list[Browsed] = []
    room = BYTES_MAX
    for one in found:
        room -= len(one.content)
        if taken and (len(taken) >= min(limit, COUNT_MAX) or room < 0):
            break
        taken.append(one)
    return taken


def encode(found: Iterable[Browsed]) -> bytes:
    parts: list[bytes] = []
    for one in found:
        exchange, key = (text.encode("utf-8", "surrogateescape") for text in one[:2])
        flags = _PERSISTENT * one.persistent | _REDELIVERED * one.redelivered
        offset = b"" if one.offset is None else _OFFSET.pack(one.offset)
        flags |= _OF_STREAM * bool(offset)
        head = _HEAD.pack(
            flags, one.delivery_count, one.acquired_count, len(exchange), len(key), len(one.content)
        )  # fmt: skip
        parts += [head, offset, exchange, key, one.content]
    return b"".join(parts)


def decode(data: bytes) -> list[Browsed]:
    """Raises ValueError."""
    return list(_decoded(data))


def _decoded(data: bytes) -> Iterator[Browsed]:
    at = 0
    while at < len(data):
        try:
            flags, failed, acquired, exchange_len, key_len, content_len = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            offset = _OFFSET.unpack_from(data, at)[0] if flags & _OF_STREAM else None
        except struct.error as error:
            raise ValueError(f"{len(data) - at} bytes are no message that was found in a queue") from error
        at += _OFFSET.size if flags & _OF_STREAM else 0
        key_at = at + exchange_len
        content_at = key_at + key_len
        exchange = data[at:key_at].decode("utf-8", "surrogateescape")
        key = data[key_at:content_at].decode("utf-8", "surrogateescape")
        at = content_at + content_len
        if at > len(data):
            raise ValueError(f"a message ends at {at}, of {len(data)} bytes")
        yield Browsed(
            exchange, key, data[content_at:at], bool(flags & _PERSISTENT), bool(flags & _REDELIVERED), failed, acquired,
            offset,
        )  # fmt: skip

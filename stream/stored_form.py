"""Messages of AMQP 0-9-1 as items of a chunk, and back: bare sections of AMQP 1.0, as clients of streams have them.

    00 53 72    message annotations, a map:
                    x-exchange, x-routing-key      as published
                    x-leveret-091                  the property list of AMQP 0-9-1, byte for byte
    00 53 75    data: the body

The property list itself is kept, so whoever reads over AMQP 0-9-1 gets what was published, exactly. Of consecutive messages the
annotations are mostly the same bytes: they are encoded, and read, once for all of them.

An item that has no such annotations was published elsewhere; its bytes are delivered as a body without properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from broker.message import Run
from native.content import encode, messages
from storage.disk import Buffer
from stream.chunk import SubBatch, items_in

_SMALL = 256
_LENGTHS = Struct(">I")

_ANNOTATIONS = b"\x00\x53\x72"
_DATA = b"\x00\x53\x75"
_MAP8, _MAP32 = 0xC1, 0xD1
_SYMBOL8 = 0xA3
_STRING8, _STRING32 = 0xA1, 0xB1
_BINARY8, _BINARY32 = 0xA0, 0xB0
_NO_PROPERTIES = b"\x00\x00"


class StreamMessages(NamedTuple):
    """Consecutive messages of a chunk that were published alike, as AMQP 0-9-1 has them."""

    first_offset: int
    message_count: int
    exchange: str
    routing_key: str
    content: bytes  # native/content.py


class _Head(NamedTuple):
    """What the annotations of a message say."""

    exchange: str
    routing_key: str
    properties: bytes


def items_of(run: Run) -> bytes:
    """The run's messages as items."""
    parts: list[bytes] = []
    before, head = None, b""
    for properties, body in messages(run.content, 0, run.count):
        if properties != before:
            before, head = bytes(properties), _encode_head(run.exchange, run.routing_key, bytes(properties))
        size = len(body)
        if size < _SMALL:
            parts += (_LENGTHS.pack(len(head) + 5 + size), head, _DATA, bytes((_BINARY8, size)), body)
        else:
            wide = bytes((_BINARY32,)) + _LENGTHS.pack(size)
            parts += (_LENGTHS.pack(len(head) + 8 + size), head, _DATA, wide, body)
    return b"".join(parts)


def stored_messages(data: Buffer, item_count: int, first_offset: int) -> list[StreamMessages]:
    """All messages of a chunk. Raises BadBytes where these are no items. What its publisher has compressed is left out."""
    found: list[StreamMessages] = []
    alike: list[bytes] = []  # contents of messages before `offset`, of one exchange and routing key
    head, head_bytes = _NO_HEAD, b""
    offset = first_offset

    def end_alike() -> None:
        if alike:
            found.append(
                StreamMessages(offset - len(alike), len(alike), head.exchange, head.routing_key, b"".join(alike))
            )
            alike.clear()

    for item in _single_items(items_in(data, item_count)):
        if isinstance(item, SubBatch):
            end_alike()
            offset += item.message_count
            continue
        body = _body(item, len(head_bytes)) if head_bytes and item[: len(head_bytes)] == head_bytes else None
        if body is None:
            other, other_bytes, body = _read_message(item)
            if other[:2] != head[:2]:
                end_alike()
            head, head_bytes = other, other_bytes
        alike.append(encode(head.properties, body))
        offset += 1
    end_alike()
    return found


_NO_HEAD = _Head("", "", _NO_PROPERTIES)


def _single_items(items: Iterator[Buffer | SubBatch]) -> Iterator[Buffer | SubBatch]:
    """With those of sub-batches that are not compressed."""
    for item in items:
        if isinstance(item, SubBatch) and not item.compression:
            yield from items_in(item.data, item.message_count)
        else:
            yield item


# Heads.


def _encode_head(exchange: str, routing_key: str, properties: bytes) -> bytes:
    pairs = (
        _symbol(b"x-exchange"), _string(exchange), _symbol(b"x-routing-key"), _string(routing_key),
        _symbol(b"x-leveret-091"), _binary(properties),
    )  # fmt: skip
    content = b"".join(pairs)
    if len(content) + 1 < _SMALL:
        return _ANNOTATIONS + bytes((_MAP8, len(content) + 1, len(pairs))) + content
    return _ANNOTATIONS + bytes((_MAP32,)) + _LENGTHS.pack(len(content) + 4) + _LENGTHS.pack(len(pairs)) + content


def _symbol(name: bytes) -> bytes:
    return bytes((_SYMBOL8, len(name))) + name


def _string(text: str) -> bytes:
    return _sized(text.encode("utf-8", "surrogateescape"), _STRING8, _STRING32)


def _binary(data: bytes) -> bytes:
    return _sized(data, _BINARY8, _BINARY32)


def _sized(data: bytes, small: int, large: int) -> bytes:
    if len(data) < _SMALL:
        return bytes((small, len(data))) + data
    return bytes((large,)) + _LENGTHS.pack(len(data)) + data


def _read_message(item: Buffer) -> tuple[_Head, bytes, bytes]:
    """Head, the bytes that say so, and the body."""
    try:
        values, at = _read_annotations(item)
        exchange, routing_key = values[b"x-exchange"], values[b"x-routing-key"]
        properties = values[b"x-leveret-091"]
    except (KeyError, _OtherForm):
        return _NO_HEAD, b"", bytes(item)
    body = _body(item, at)
    if body is None:
        return _NO_HEAD, b"", bytes(item)
    head = _Head(
        exchange.decode("utf-8", "surrogateescape"), routing_key.decode("utf-8", "surrogateescape"), properties
    )
    return head, bytes(item[:at]), body


class _OtherForm(Exception):
    """The item has other sections, or other values in them."""


def _read_annotations(item: Buffer) -> tuple[dict[bytes, bytes], int]:
    if item[:3] != _ANNOTATIONS or len(item) < 4:
        raise _OtherForm
    if item[3] == _MAP8 and len(item) > 5:
        end, count, at = 5 + item[4], item[5], 6
    elif item[3] == _MAP32 and len(item) >= 12:
        end, count, at = 8 + _LENGTHS.unpack_from(item, 4)[0], _LENGTHS.unpack_from(item, 8)[0], 12
    else:
        raise _OtherForm
    values: dict[bytes, bytes] = {}
    for _ in range(count // 2):
        name, at = _read_sized(item, at, end)
        values[name], at = _read_sized(item, at, end)
    if at != end:
        raise _OtherForm
    return values, at


_NARROW, _WIDE = {_SYMBOL8, _STRING8, _BINARY8}, {_STRING32, _BINARY32}


def _read_sized(item: Buffer, at: int, end: int) -> tuple[bytes, int]:
    if end > len(item) or at + 2 > end:
        raise _OtherForm
    if item[at] in _NARROW:
        start, size = at + 2, item[at + 1]
    elif item[at] in _WIDE and at + 5 <= end:
        start, size = at + 5, _LENGTHS.unpack_from(item, at + 1)[0]
    else:
        raise _OtherForm
    if start + size > end:
        raise _OtherForm
    return bytes(item[start : start + size]), start + size


def _body(item: Buffer, at: int) -> bytes | None:
    """Of the data section, if the item ends with one that begins there."""
    if item[at : at + 3] != _DATA:
        return None
    try:
        body, end = _read_sized(item, at + 3, len(item))
    except _OtherForm:
        return None
    return body if end == len(item) else None

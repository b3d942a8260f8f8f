"""Messages of AMQP 0-9-1 as items of a stream's chunk, and back.

item      length u32, its top bit 0 | sections of AMQP 1.0            big endian
sections  those before the body, the head | for most messages one data section: 00 53 75 | a0 length u8 or b0 length u32 | body

Each message is converted by a function that the caller gives (wire/amqp10/stream_messages.py has them): this module says when
they are asked, and that one head serves all messages that follow each other with the same properties. The compiled twin
converts what consists of scalars alone without asking; it must come out the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from native import compiled_twin
from native.content import Buffer, encode_plain, one

# Properties, body, exchange, routing key -> the head, and the sections of the body; None: a data section holds it.
ToSections: TypeAlias = Callable[[bytes, bytes, bytes, bytes], tuple[bytes, bytes | None]]
# An item -> exchange, routing key if it has one, properties, body, and how long the head is before a body that is one data
# section; 0 if it is another.
FromSections: TypeAlias = Callable[[bytes], tuple[bytes, bytes | None, bytes, bytes, int]]
# How many messages, their exchange and routing key, their content.
Alike: TypeAlias = tuple[int, bytes, bytes | None, bytes]

_LENGTH = struct.Struct(">I")
_DATA = b"\0\x53\x75"
_SMALL, _LARGE = 0xA0, 0xB0
_ITEM_BYTES_MAX = 2**31 - 1
_IS_SUB_BATCH = 0x80


def items_plain(
    content: Buffer, position: int, count: int, exchange: bytes, routing_key: bytes, convert: ToSections
) -> bytes:
    """`count` messages from `position` on as items. ValueError if the content is damaged or a message is too large."""
    parts: list[bytes] = []
    known: bytes | None = None
    head = b""
    for _ in range(count):
        properties, body, position = one(content, position)
        sections: bytes | None = None
        if properties != known:
            head, sections = convert(properties, body, exchange, routing_key)
            known = properties if sections is None else None
        message = head + (_data_section(body) if sections is None else sections)
        if len(message) > _ITEM_BYTES_MAX:
            raise ValueError(f"a message of {len(message)} bytes is too large for an item")
        parts += (_LENGTH.pack(len(message)), message)
    return b"".join(parts)


def messages_plain(data: Buffer, position: int, count: int, convert: FromSections) -> tuple[list[Alike], int, int]:
    """Up to `count` items from `position` on as messages, the position behind them, and how many they are.

    Messages that follow each other with one exchange and routing key are one content. Stops before a sub-batch. ValueError
    if an item reaches beyond the data.
    """
    found: list[Alike] = []
    alike: list[bytes] = []
    names: tuple[bytes, bytes | None] = (b"", None)
    properties, head = b"", b""
    taken = 0
    while taken < count and position < len(data) and not data[position] & _IS_SUB_BATCH:
        item, position = _item(data, position)
        body = _body_behind(item, head)
        message_names = names
        if body is None:
            exchange, routing_key, properties, body, head_bytes = convert(item)
            head, message_names = item[:head_bytes], (exchange, routing_key)
        if alike and message_names != names:
            found.append((len(alike), *names, b"".join(alike)))
            alike.clear()
        names = message_names
        alike.append(encode_plain(properties, body))
        taken += 1
    if alike:
        found.append((len(alike), *names, b"".join(alike)))
    return found, position, taken


def _data_section(body: bytes) -> bytes:
    length = bytes((_SMALL, len(body))) if len(body) < 256 else bytes((_LARGE,)) + _LENGTH.pack(len(body))
    return _DATA + length + body


def _item(data: Buffer, position: int) -> tuple[bytes, int]:
    left = len(data) - position - _LENGTH.size
    if left < 0 or (size := _LENGTH.unpack_from(data, position)[0]) > left:
        raise ValueError(f"damaged items: one at {position} reaches beyond {len(data)} bytes")
    end = position + _LENGTH.size + size
    return bytes(data[position + _LENGTH.size : end]), end


def _body_behind(item: bytes, head: bytes) -> bytes | None:
    """The body of an item that is this head, which is not empty, and one data section."""
    at = len(head) + len(_DATA)
    if not head or not item.startswith(head) or item[len(head) : at] != _DATA or len(item) < at + 2:
        return None
    if item[at] == _SMALL:
        start, size = at + 2, item[at + 1]
    elif item[at] == _LARGE and len(item) >= at + 5:
        start, size = at + 5, _LENGTH.unpack_from(item, at + 1)[0]
    else:
        return None
    return item[start:] if start + size == len(item) else None


items = items_plain
messages = messages_plain

if (_twin := compiled_twin("amqp10_items")) is not None:
    items = _twin.items
    messages = _twin.messages

"""The bytes in which a run's messages travel and rest.

    for each message    props_len u32 | body_len u32 | props | body              lengths little endian

`props` is an AMQP property list from its flags on, `body` the whole body. A content has no head and no count: who holds
it knows how many messages it has. Every function raises ValueError where the lengths do not fit the buffer, so damage
shows here at the latest; what a property list says is looked at nowhere in this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

from native import compiled_twin

Buffer: TypeAlias = bytes | bytearray | memoryview

_LENGTHS = struct.Struct("<II")
_LEN_MAX = 2**32 - 1


def encode_plain(props: Buffer, body: Buffer) -> bytes:
    """One message as a content."""
    for name, part in (("properties", props), ("body", body)):
        if len(part) > _LEN_MAX:
            raise ValueError(f"{name} of {len(part)} bytes: a message holds at most {_LEN_MAX}")
    return b"".join((_LENGTHS.pack(len(props), len(body)), props, body))


def skip_plain(content: Buffer, position: int, count: int) -> int:
    """The position after `count` messages."""
    for _ in range(count):
        position = _bounds(content, position)[2]
    return position


def take_plain(content: Buffer, position: int, count_max: int, bytes_max: int) -> tuple[int, int, int]:
    """How many messages to take, the position after them, and their body bytes.

    As many as fit into both limits and the content, but at least one (if count_max and the content allow it): who asks
    wants to make progress, and a message that is larger than bytes_max has to pass some day.
    """
    taken = body_bytes = 0
    while taken < count_max and position < len(content):
        _, body, end = _bounds(content, position)
        if taken and body_bytes + end - body > bytes_max:
            break
        taken, position, body_bytes = taken + 1, end, body_bytes + end - body
    return taken, position, body_bytes


def one(content: Buffer, position: int) -> tuple[bytes, bytes, int]:
    """Properties and body of the message at `position`, and the position after it."""
    props, body, end = _bounds(content, position)
    return bytes(content[props:body]), bytes(content[body:end]), end


def singles(content: bytes, position: int, count: int) -> Iterator[bytes]:
    """Each of `count` messages as a content of its own."""
    for _ in range(count):
        end = skip(content, position, 1)
        yield content[position:end]
        position = end


def messages_plain(content: Buffer, position: int, count: int) -> list[tuple[bytes, bytes]]:
    """Properties and body of each of `count` messages."""
    found = []
    for _ in range(count):
        props, body, position = one(content, position)
        found.append((props, body))
    return found


def body_bytes_plain(content: Buffer, position: int, count: int) -> int:
    """The bytes of `count` bodies together."""
    total = 0
    for _ in range(count):
        _, body, position = _bounds(content, position)
        total += position - body
    return total


def count_plain(content: Buffer) -> int:
    """How many messages the content has; walks over all of it, so it is also the check that its framing is whole."""
    position = found = 0
    while position < len(content):
        position = _bounds(content, position)[2]
        found += 1
    return found


def _bounds(content: Buffer, position: int) -> tuple[int, int, int]:
    """Where properties and body of the message at `position` start, and where it ends."""
    left = len(content) - position
    if position < 0 or left < _LENGTHS.size:
        raise ValueError(f"damaged content: no message at {position} of {len(content)} bytes")
    props_len, body_len = _LENGTHS.unpack_from(content, position)
    if _LENGTHS.size + props_len + body_len > left:
        raise ValueError(
            f"damaged content: message at {position} has {props_len} + {body_len} bytes, "
            f"the content ends at {len(content)}"
        )
    props = position + _LENGTHS.size
    return props, props + props_len, props + props_len + body_len


encode = encode_plain
skip = skip_plain
take = take_plain
messages = messages_plain
body_bytes = body_bytes_plain
count = count_plain

if (_twin := compiled_twin("content")) is not None:
    encode = _twin.encode
    skip = _twin.skip
    take = _twin.take
    messages = _twin.messages
    body_bytes = _twin.body_bytes
    count = _twin.count

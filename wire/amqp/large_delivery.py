"""Deliveries of large messages, whose bodies are sent from where they lie.

`native.deliver` copies a run's messages into one piece, which is best for small ones. From some size on copying costs more
than handing the kernel several pieces: with bodies of 64 KiB it took 8 % of the event loop.

deliver frame, header frame, then body frames of at most frame_max - 8 bytes; each body between its frame's head and end.
"""

from __future__ import annotations

import struct

from native.content import Buffer

BODY_BYTES_MIN = 16_384  # from here on this is worth its price

_LENGTHS = struct.Struct("<II")
_DELIVER_HEAD = struct.Struct(">BHIHH")
_AFTER_TAG = struct.Struct(">QB")
_HEADER = struct.Struct(">BHIHHQ")
_BODY = struct.Struct(">BHI")
_END = b"\xce"
_METHOD_KIND, _HEADER_KIND, _BODY_KIND = 1, 2, 3
_NO_FRAME_MAX = 2**31 - 1


def is_large(content: bytes, position: int) -> bool:
    """Whether the message at this position is."""
    _, body_bytes = _LENGTHS.unpack_from(content, position)
    return bool(body_bytes >= BODY_BYTES_MIN)


def pieces(
    content: bytes,
    position: int,
    count: int,
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    exchange: bytes,
    routing_key: bytes,
    frame_max: int,
) -> list[Buffer]:
    """What is to be sent, one piece behind the other, for `count` messages from `position` on."""
    view = memoryview(content)
    names = b"".join((bytes([len(exchange)]), exchange, bytes([len(routing_key)]), routing_key, _END))
    tag_name = bytes([len(consumer_tag)]) + consumer_tag
    method_bytes = 4 + len(tag_name) + _AFTER_TAG.size + len(names) - 1
    deliver_head = _DELIVER_HEAD.pack(_METHOD_KIND, channel, method_bytes, 60, 60) + tag_name
    body_max = frame_max - 8 if frame_max else _NO_FRAME_MAX
    out: list[Buffer] = []
    for tag in range(first_tag, first_tag + count):
        props_bytes, body_bytes = _LENGTHS.unpack_from(content, position)
        props = position + _LENGTHS.size
        body = props + props_bytes
        position = body + body_bytes
        assert position <= len(content), f"a message that ends at {position} of {len(content)} bytes"
        head: list[Buffer] = [
            deliver_head,
            _AFTER_TAG.pack(tag, redelivered),
            names,
            _HEADER.pack(_HEADER_KIND, channel, 12 + props_bytes, 60, 0, body_bytes),
            view[props:body],
            _END,
        ]
        for start in range(body, position, body_max):
            end = min(start + body_max, position)
            head.append(_BODY.pack(_BODY_KIND, channel, end - start))
            out += (b"".join(head), view[start:end])
            head = [_END]
        out.append(b"".join(head))
    return out

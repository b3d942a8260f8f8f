"""Turns messages of a content into the frames that deliver or publish them, ready to be sent: in one piece, which is best
for small ones. From some size on copying costs more than handing the kernel several pieces; there bodies stay where they lie.

deliver method   class 60 u16 | method 60 u16 | consumer tag short string | delivery tag u64 | redelivered u8
                 | exchange short string | routing key short string
publish method   class 60 u16 | method 40 u16 | reserved u16 | exchange short string | routing key short string | bits u8
header frame     class-id 60 u16 | weight 0 u16 | body size u64 | properties as they were published
body frames      at most frame_max - 8 bytes each; none for an empty body
"""

from __future__ import annotations

import struct

from native import compiled_twin
from native.content import Buffer, one

BODY_BYTES_MIN = 16_384  # of a large message

_LENGTHS = struct.Struct("<II")
_FRAME_HEAD = struct.Struct(">BHI")
_FRAME_END = b"\xce"
_FRAME_OVERHEAD = 8
_CONTENT_HEAD = struct.Struct(">HHQ")
_DELIVER_METHOD = b"\x00\x3c\x00\x3c"
_PUBLISH_METHOD = b"\x00\x3c\x00\x28\x00\x00"
_CLASS_BASIC = 60
_NO_FRAME_MAX = 2**31 - 1
_METHOD, _HEADER, _BODY = 1, 2, 3


def deliveries_plain(
    content: Buffer,
    position: int,
    count: int,
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    exchange: bytes,
    routing_key: bytes,
    frame_max: int,
) -> tuple[bytes, int]:
    """`count` messages from `position` on as Basic.Deliver, tagged first_tag, first_tag + 1, ...; and where they end.

    ValueError if the content is damaged or a name is longer than its short string can be.
    """
    before_tag, after_tag = _around_tag(consumer_tag, redelivered, exchange, routing_key)
    body_max = _body_max(frame_max)
    wire = bytearray()
    for tag in range(first_tag, first_tag + count):
        _put_frame(wire, _METHOD, channel, before_tag + struct.pack(">Q", tag) + after_tag)
        position = _put_content(wire, content, position, channel, body_max)
    return bytes(wire), position


def is_large(content: bytes, position: int) -> bool:
    """Whether the message at this position is."""
    _, body_bytes = _LENGTHS.unpack_from(content, position)
    return bool(body_bytes >= BODY_BYTES_MIN)


def large_deliveries_plain(
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
) -> tuple[list[Buffer], int]:
    """The bytes of `deliveries` in pieces, and how many those are: bodies as views of the content, framing between them."""
    before_tag, after_tag = _around_tag(consumer_tag, redelivered, exchange, routing_key)
    view, body_max = memoryview(content), _body_max(frame_max)
    pieces: list[Buffer] = []
    framing = bytearray()
    for tag in range(first_tag, first_tag + count):
        props, body, end = one(content, position)
        _put_frame(framing, _METHOD, channel, before_tag + struct.pack(">Q", tag) + after_tag)
        _put_frame(framing, _HEADER, channel, _CONTENT_HEAD.pack(_CLASS_BASIC, 0, len(body)) + props)
        for start in range(end - len(body), end, body_max):
            piece = view[start : min(start + body_max, end)]
            framing += _FRAME_HEAD.pack(_BODY, channel, len(piece))
            pieces += (bytes(framing), piece)
            framing = bytearray(_FRAME_END)
        position = end
    pieces.append(bytes(framing))
    return pieces, sum(map(len, pieces))


def publishes_plain(
    content: Buffer,
    position: int,
    count: int,
    channel: int,
    exchange: bytes,
    routing_key: bytes,
    mandatory: bool,
    frame_max: int,
) -> tuple[bytes, int]:
    """`count` messages from `position` on as Basic.Publish, and where they end.

    ValueError if the content is damaged or a name is longer than its short string can be.
    """
    names = _short("exchange", exchange) + _short("routing key", routing_key)
    method = _PUBLISH_METHOD + names + bytes([bool(mandatory)])
    body_max = _body_max(frame_max)
    wire = bytearray()
    for _ in range(count):
        _put_frame(wire, _METHOD, channel, method)
        position = _put_content(wire, content, position, channel, body_max)
    return bytes(wire), position


def content_frames_plain(content: Buffer, position: int, channel: int, frame_max: int) -> tuple[bytes, int]:
    """Header and body frames of the one message at `position`, and where it ends: for get-ok and return."""
    wire = bytearray()
    position = _put_content(wire, content, position, channel, _body_max(frame_max))
    return bytes(wire), position


def _around_tag(consumer_tag: bytes, redelivered: bool, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
    """The deliver method before its tag and behind it."""
    before = _DELIVER_METHOD + _short("consumer tag", consumer_tag)
    return before, bytes([bool(redelivered)]) + _short("exchange", exchange) + _short("routing key", routing_key)


def _short(name: str, value: bytes) -> bytes:
    if len(value) > 255:
        raise ValueError(f"{name} has {len(value)} bytes, a short string holds 255")
    return bytes([len(value)]) + value


def _body_max(frame_max: int) -> int:
    if frame_max == 0:
        return _NO_FRAME_MAX
    if frame_max <= _FRAME_OVERHEAD:
        raise ValueError(f"frame_max is {frame_max}: no body fits beside {_FRAME_OVERHEAD} bytes of framing")
    return frame_max - _FRAME_OVERHEAD


def _put_frame(wire: bytearray, kind: int, channel: int, payload: bytes) -> None:
    wire += _FRAME_HEAD.pack(kind, channel, len(payload)) + payload + _FRAME_END


def _put_content(wire: bytearray, content: Buffer, position: int, channel: int, body_max: int) -> int:
    props, body, position = one(content, position)
    _put_frame(wire, _HEADER, channel, _CONTENT_HEAD.pack(_CLASS_BASIC, 0, len(body)) + props)
    for start in range(0, len(body), body_max):
        _put_frame(wire, _BODY, channel, body[start : start + body_max])
    return position


deliveries = deliveries_plain
large_deliveries = large_deliveries_plain
publishes = publishes_plain
content_frames = content_frames_plain

if (_twin := compiled_twin("deliver")) is not None:
    deliveries = _twin.deliveries
    large_deliveries = _twin.large_deliveries
    publishes = _twin.publishes
    content_frames = _twin.content_frames

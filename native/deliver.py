"""Turns messages of a content into the frames that deliver or publish them, in one piece ready to be sent.

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
    before_tag = _DELIVER_METHOD + _short("consumer tag", consumer_tag)
    after_tag = bytes([bool(redelivered)]) + _short("exchange", exchange) + _short("routing key", routing_key)
    body_max = _body_max(frame_max)
    wire = bytearray()
    for tag in range(first_tag, first_tag + count):
        _put_frame(wire, _METHOD, channel, before_tag + struct.pack(">Q", tag) + after_tag)
        position = _put_content(wire, content, position, channel, body_max)
    return bytes(wire), position


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
publishes = publishes_plain
content_frames = content_frames_plain

if (_twin := compiled_twin("deliver")) is not None:
    deliveries = _twin.deliveries
    publishes = _twin.publishes
    content_frames = _twin.content_frames

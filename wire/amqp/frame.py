"""Frames as they leave: type u8 | channel u16 | size u32 | payload | 0xCE. Reading them is native/frame_split.py."""

from __future__ import annotations

import struct

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_HEAD = struct.Struct(">BHI")
# basic.ack and basic.nack whole: frame head, class and method, delivery tag, bits, end.
_SETTLED = struct.Struct(">BHIHHQBB")
_ACK_SIZE = 13


def method_frame(channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(METHOD, channel, len(payload)) + payload + b"\xce"


def confirms(channel: int, first: int, last: int, multiple: bool, ok: bool) -> bytes:
    """Basic.Ack (or Basic.Nack) of a range of publishes: one frame if it may answer for all below, else one for each."""
    method_id = 80 if ok else 120
    if multiple:
        return _SETTLED.pack(METHOD, channel, _ACK_SIZE, 60, method_id, last, 1, 0xCE)
    return b"".join(
        [_SETTLED.pack(METHOD, channel, _ACK_SIZE, 60, method_id, tag, 0, 0xCE) for tag in range(first, last + 1)]
    )

"""Frames of the stream protocol: size u32 | key u16 | version u16 | the fields of a command. Big endian; the size is of what
follows it.

A frame here is what the size counts. Chunks are not put together with the head of their frame: it is sent before them.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from wire.stream.command_fields import BadStreamFrame
from wire.stream.command_keys import RESPONSE_BIT, CommandKey, ResponseCode
from wire.stream.stream_commands import ALL_LAYOUTS, Command, CommandLayout

SIZE_BYTES = 4
HEAD_BYTES = 4  # key and version
REFUSAL_BYTES = 10  # an id and a code
_ID_BYTES = 8

_SIZE = Struct(">I")
_KEY_AND_VERSION = Struct(">HH")
_HEAD = Struct(">IHH")
_ANSWERED = Struct(">IHHBI")  # before what a PublishConfirm or a PublishError tells of each id
_DELIVER = Struct(">IHHB")
_DELIVER_2 = Struct(">IHHBQ")
_BY_KEY: dict[tuple[int, int], CommandLayout] = {(layout.key, layout.version): layout for layout in ALL_LAYOUTS}
# Tune is a response only to read, a StandardResponse says its key itself.
_BY_COMMAND: dict[tuple[type[Any], int], CommandLayout] = {
    (layout.command, layout.version): layout for layout in reversed(ALL_LAYOUTS)
}


def frame_end(data: bytes | bytearray | memoryview, position: int, frame_bytes_max: int) -> int | None:
    """Where the frame whose size is at `position` ends; None while it is incomplete. Raises BadStreamFrame when it is too short
    or too long, as soon as its size is there; with `frame_bytes_max` 0 any length is allowed."""
    if len(data) - position < SIZE_BYTES:
        return None
    (size,) = _SIZE.unpack_from(data, position)
    if 0 < frame_bytes_max < size:
        raise BadStreamFrame(f"a frame of {size} bytes, {frame_bytes_max} are allowed", ResponseCode.FRAME_TOO_LARGE)
    if size < HEAD_BYTES:
        raise BadStreamFrame(f"a frame of {size} bytes has no key and version")
    end: int = position + SIZE_BYTES + size
    return end if end <= len(data) else None


def decode_frame(frame: bytes) -> Command:
    """The command that a frame is; its size is not part of it. Raises BadStreamFrame."""
    if len(frame) < HEAD_BYTES:
        raise BadStreamFrame(f"a frame of {len(frame)} bytes has no key and version")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    layout = _BY_KEY.get((key, version))
    if layout is None:
        raise BadStreamFrame(f"no command has the key {key:#06x} in version {version}")
    at, values = HEAD_BYTES, []
    code_index = layout.code_index
    for kind, (read, _) in zip(layout.kinds, layout.fields, strict=True):
        value, at = read(frame, at)
        values.append(key & ~RESPONSE_BIT if kind == "key" else version if kind == "version" else value)
        if at == len(frame) and code_index == len(values) - 1 and value != ResponseCode.OK:
            break  # the rest is left out
    if at != len(frame):
        raise BadStreamFrame(f"{len(frame) - at} bytes are left over behind {layout.command.__name__}")
    command: Command = layout.command(*values)
    return command


def encode_frame(command: Command) -> bytes:
    """The whole frame, with its size. Raises BadStreamFrame for a value that its field cannot hold."""
    layout = _BY_COMMAND[type(command), getattr(command, "version", 1)]
    key = getattr(command, "key", layout.key)
    if layout.key & RESPONSE_BIT:
        key |= RESPONSE_BIT
    body = b"".join([write(value) for (_, write), value in zip(layout.fields, command, strict=True)])
    return _HEAD.pack(HEAD_BYTES + len(body), key, layout.version) + body


def publish_confirm(publisher: int, ids: bytes) -> bytes:
    """PublishConfirm for these ids, u64 each."""
    head = _ANSWERED.pack(HEAD_BYTES + 5 + len(ids), CommandKey.PUBLISH_CONFIRM, 1, publisher, len(ids) // _ID_BYTES)
    return head + ids


def publish_error(publisher: int, ids: bytes, code: int) -> bytes:
    """PublishError for many ids, u64 each, with one code. Column by column: pairs in Python would cost half a µs each."""
    count = len(ids) // _ID_BYTES
    refusals = bytearray(REFUSAL_BYTES * count)
    for place in range(_ID_BYTES):
        refusals[place::REFUSAL_BYTES] = ids[place::_ID_BYTES]
    for place, byte in enumerate(code.to_bytes(REFUSAL_BYTES - _ID_BYTES, "big"), _ID_BYTES):
        refusals[place::REFUSAL_BYTES] = bytes([byte]) * count
    head = _ANSWERED.pack(HEAD_BYTES + 5 + len(refusals), CommandKey.PUBLISH_ERROR, 1, publisher, count)
    return head + bytes(refusals)


def key_of(command: Command) -> CommandKey:
    """Without the bit of a response."""
    layout = _BY_COMMAND[type(command), getattr(command, "version", 1)]
    return CommandKey(getattr(command, "key", layout.key) & ~RESPONSE_BIT)


def deliver_head(version: int, subscription: int, committed_chunk: int, chunk_bytes: int) -> bytes:
    """What is sent before a chunk."""
    if version == 1:
        return _DELIVER.pack(HEAD_BYTES + 1 + chunk_bytes, CommandKey.DELIVER, 1, subscription)
    return _DELIVER_2.pack(HEAD_BYTES + 9 + chunk_bytes, CommandKey.DELIVER, 2, subscription, committed_chunk)

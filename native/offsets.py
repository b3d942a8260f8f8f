"""Adds the header x-stream-offset to messages of a stream: one number higher for each.

properties     flags u16 | content type short string? | content encoding short string? | headers? | further properties
headers        length u32 | its entries, without an x-stream-offset of theirs | added entry            big endian throughout
added entry    15 u8 | "x-stream-offset" | "l" | offset i64

All else stays as it was published. Entries that nobody can walk over make room for the one that is added: a client gets the
message in any case. Nested values are stepped over by their lengths, and not read.
"""

from __future__ import annotations

import struct

from native import compiled_twin
from native.content import Buffer, encode_plain, one
from native.frame_split import VALUE_SIZES

NAME = b"x-stream-offset"
OFFSET_MAX = 2**63 - 1

_KEY = bytes([len(NAME)]) + NAME
_FLAGS = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_OFFSET = struct.Struct(">q")
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 1 << 15, 1 << 14, 1 << 13
_UNKNOWN_FLAGS = 3


def with_offsets_plain(content: Buffer, position: int, count: int, first: int) -> bytes:
    """`count` messages from `position` on as a content of their own, with the offsets first, first + 1, ...

    Properties that equal those of the message before are extended once. ValueError if the content, or a property list up to
    its headers, is damaged; OverflowError for offsets that a header cannot hold.
    """
    if first < 0 or first + count - 1 > OFFSET_MAX:
        raise OverflowError(f"{count} offsets from {first} on are not within 63 bits")
    changed = []
    known, before, after = b"", b"", b""
    for offset in range(first, first + count):
        props, body, position = one(content, position)
        if not known or props != known:
            before, after = _around_offset(props)
            known = props
        changed.append(encode_plain(before + _OFFSET.pack(offset) + after, body))
    return b"".join(changed)


def _around_offset(props: bytes) -> tuple[bytes, bytes]:
    """The new properties, before and behind the offset in them."""
    try:
        (flags,) = _FLAGS.unpack_from(props)
        headers = _FLAGS.size
        for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
            if flags & flag:
                headers += 1 + props[headers]
        rest, entries = headers, b""
        if flags & _HEADERS:
            rest += _LENGTH.size + _LENGTH.unpack_from(props, headers)[0]
            entries = props[headers + _LENGTH.size : rest]
    except (struct.error, IndexError) as error:
        raise _damaged(props) from error
    if flags & _UNKNOWN_FLAGS or rest > len(props):
        raise _damaged(props)
    added = _without_offset(entries) + _KEY + b"l"
    length = _LENGTH.pack(len(added) + _OFFSET.size)
    return b"".join((_FLAGS.pack(flags | _HEADERS), props[_FLAGS.size : headers], length, added)), props[rest:]


def _without_offset(entries: bytes) -> bytes:
    kept, at = [], 0
    try:
        while at < len(entries):
            key_end = at + 1 + entries[at]
            end = key_end + 1
            size = VALUE_SIZES[entries[key_end]]
            end += 4 + _LENGTH.unpack_from(entries, end)[0] if size is None else size
            if end > len(entries):
                return b""
            if entries[at:key_end] != _KEY:
                kept.append(entries[at:end])
            at = end
    except (struct.error, IndexError, KeyError):
        return b""
    return b"".join(kept)


def _damaged(props: bytes) -> ValueError:
    return ValueError(f"damaged content: malformed property list of {len(props)} bytes")


with_offsets = with_offsets_plain

if (_twin := compiled_twin("offsets")) is not None:
    with_offsets = _twin.with_offsets

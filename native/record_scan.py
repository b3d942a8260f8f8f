"""Finds the whole records in the bytes of a log, and seals new ones.

    crc32c u32       over everything after this field: 28 more bytes of header, and the payload
    payload_len u32
    kind u8 | version u8 | flags u16
    term u32
    writer u64
    index u64        little endian, 32 bytes; then the payload

storage/record.py says what the fields mean; here they are numbers. A file that was allocated ahead is zero beyond its
last record, and a header of zeros is never a record, because the checksum of 28 zero bytes is not zero.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from native import compiled_twin
from native.crc32c import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

# kind, flags, term, writer, index, payload start, payload end
Record: TypeAlias = tuple[int, int, int, int, int, int, int]

# Why a scan stopped.
REACHED_END: Final = 0  # the last record ends exactly where the buffer does
CLEAN_END: Final = 1  # zeros follow: a file that was allocated ahead
TORN: Final = 2  # a record begins that is longer than what is left
DAMAGED: Final = 3  # the checksum differs, or the length is beyond anything ever written

HEADER_SIZE: Final = 32

_HEADER = struct.Struct("<IIBBHIQQ")
_SEALED = struct.Struct("<IBBHIQQ")  # the header without its checksum
_CRC = struct.Struct("<I")
_PAYLOAD_LEN_MAX = 2**32 - 1


def scan_plain(buffer: Buffer, start: int, end: int, payload_max: int) -> tuple[list[Record], int, int]:
    """The whole records from `start` on, the position after the last of them, and why there is no other before `end`."""
    with memoryview(buffer) as view:
        if not 0 <= start <= end <= len(view):
            raise ValueError(f"cannot scan from {start} to {end} in a buffer of {len(view)} bytes")
        records: list[Record] = []
        position = start
        while (reason := _why_none(view, position, end, payload_max)) is None:
            _, payload_len, kind, _, flags, term, writer, index = _HEADER.unpack_from(view, position)
            payload = position + HEADER_SIZE
            position = payload + payload_len
            records.append((kind, flags, term, writer, index, payload, position))
        return records, position, reason


def _why_none(view: memoryview, position: int, end: int, payload_max: int) -> int | None:
    """Why no whole record lies at a position, or None if one does."""
    if position == end:
        return REACHED_END
    if not any(view[position : min(position + HEADER_SIZE, end)]):
        return CLEAN_END
    if end - position < HEADER_SIZE:
        return TORN
    crc, payload_len = struct.unpack_from("<II", view, position)
    if payload_len > payload_max:
        return DAMAGED
    record_end = position + HEADER_SIZE + payload_len
    if record_end > end:
        return TORN
    if crc32c(view[position + _CRC.size : record_end]) != crc:
        return DAMAGED
    return None


def seal_plain(
    parts: Sequence[Buffer], kind: int, flags: int, term: int, writer: int, index: int, version: int
) -> bytes:
    """The header for a payload that will be written as these parts, one after another."""
    payload_len = sum(len(part) for part in parts)
    if payload_len > _PAYLOAD_LEN_MAX:
        raise ValueError(f"payload of {payload_len} bytes: a record holds at most {_PAYLOAD_LEN_MAX}")
    try:
        sealed = _SEALED.pack(payload_len, kind, version, flags, term, writer, index)
    except struct.error as error:
        raise OverflowError(f"a field of the record header is out of range: {error}") from error
    crc = crc32c(sealed)
    for part in parts:
        crc = crc32c(part, crc)
    return _CRC.pack(crc) + sealed


scan = scan_plain
seal = seal_plain

if (_twin := compiled_twin("record_scan")) is not None:
    scan = _twin.scan
    seal = _twin.seal

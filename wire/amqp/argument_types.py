"""The types of method arguments on the wire, each as a reader and a writer.

    octet u8 | short u16 | long u32 | longlong u64          shortstr u8 size, UTF-8 | longstr u32 size, bytes
    table    wire/amqp/tables.py                            bit      up to eight neighbours share one octet, first lowest

A reader takes (payload, position) and gives (value, position after it); it raises MalformedArguments, and never reads
beyond the payload. Names must be UTF-8, for they are compared, logged and shown; a longstr is any bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from wire.amqp.tables import TableError, decode_table, encode_table

SHORTSTR_BYTES_MAX = 255

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]


class MalformedArguments(ValueError):
    """Raised when a payload does not hold what its method says it holds."""


class MalformedText(MalformedArguments):
    """Raised when a name is not UTF-8."""


def _number(layout: str) -> tuple[Reader, Writer]:
    packed = struct.Struct(layout)

    def read(payload: bytes, position: int) -> tuple[int, int]:
        end = position + packed.size
        if end > len(payload):
            raise MalformedArguments(f"{packed.size} bytes are missing at byte {position} of {len(payload)}")
        return packed.unpack_from(payload, position)[0], end

    return read, packed.pack


def read_shortstr(payload: bytes, position: int) -> tuple[str, int]:
    start = position + 1
    if start > len(payload):
        raise MalformedArguments(f"a short string is missing at byte {position} of {len(payload)}")
    end = start + payload[position]
    if end > len(payload):
        raise MalformedArguments(f"a short string of {end - start} bytes at byte {position} of {len(payload)}")
    try:
        return payload[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise MalformedText("Malformed UTF-8 in shortstr") from error


def write_shortstr(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    assert len(raw) <= SHORTSTR_BYTES_MAX, f"a short string of {len(raw)} bytes: {text[:40]!r}..."
    return bytes((len(raw),)) + raw


def read_longstr(payload: bytes, position: int) -> tuple[bytes, int]:
    size, start = read_long(payload, position)
    end = start + size
    if end > len(payload):
        raise MalformedArguments(f"a long string of {size} bytes at byte {position} of {len(payload)}")
    return payload[start:end], end


def write_longstr(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def read_table(payload: bytes, position: int) -> tuple[dict[str, Any], int]:
    try:
        return decode_table(payload, position)
    except TableError as error:
        raise MalformedArguments(str(error)) from error


read_octet, write_octet = _number(">B")
read_short, write_short = _number(">H")
read_long, write_long = _number(">I")
read_longlong, write_longlong = _number(">Q")
write_table = encode_table

TYPES: dict[str, tuple[Reader, Writer]] = {
    "octet": (read_octet, write_octet),
    "short": (read_short, write_short),
    "long": (read_long, write_long),
    "longlong": (read_longlong, write_longlong),
    "shortstr": (read_shortstr, write_shortstr),
    "longstr": (read_longstr, write_longstr),
    "table": (read_table, write_table),
}

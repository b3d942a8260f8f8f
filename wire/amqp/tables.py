"""AMQP field tables and property lists as Python values, and back.

    table       size u32 | fields                      size counts the bytes of the fields
    field       name (short string) | letter | value
    short str   size u8 | bytes
    properties  flags u16, another u16 follows while bit 0 is set | values of those present, in the order of PROPERTIES

    letter  value on the wire            in Python           letter  value on the wire        in Python
    t       u8, 0 is false               bool                f d     IEEE 32, 64 bits         float
    b B     i8, u8                       int                 D       scale u8, unscaled i32   Decimal
    s u     i16, u16                     int                 S       size u32, bytes          str, or bytes if not UTF-8
    I i     i32, u32                     int                 x       size u32, bytes          bytes
    l L     i64 both                     int                 T       seconds u64              Timestamp
    A       size u32, letters + values   list                F       table                    dict
    V       nothing                      None

Python integers go out as `I` when they fit and as `l` otherwise or as a Long, floats as `d`, bytes as `x`. Who must give a
client's own fields back unchanged (dead letters) uses `split_properties` and `split_table`, which leave the values as bytes.

Everything read here came from a client. Sizes are checked against the buffer before anything is built, nesting is
limited, and what does not parse raises TableError naming the place. Of two fields with one name the first counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

# Tables and arrays within each other. Real clients use three or four levels; Python's stack would stand about 900.
NESTING_MAX = 32

# In the order of their flags, from bit 15 down.
PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
_OCTETS = frozenset({"delivery_mode", "priority"})
_FLAG_OF = {name: 1 << (15 - place) for place, name in enumerate(PROPERTIES)}
_KNOWN_FLAGS = sum(_FLAG_OF.values())

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


class TableError(ValueError):
    """Raised when bytes are not a table or property list, or a value has no place in one."""


class TooDeep(TableError):
    """Raised when tables and arrays within each other are more than NESTING_MAX."""


class Timestamp(int):
    """Seconds since the epoch. A number of its own, so that it goes back on the wire as it came."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


class Long(int):
    """Goes out as `l`, however small: where a broker takes nothing else."""

    __slots__ = ()


# ----------------------------------------------------------------------------- reading


def decode_table(data: bytes | memoryview, offset: int = 0) -> tuple[dict[str, Any], int]:
    """The table at `offset` and where it ends."""
    return _read_table(bytes(data), offset, 1)


def decode_value(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """The value, its letter first, at `offset` and where it ends."""
    return _read_value(data, offset, len(data), 1)


def split_table(data: bytes, offset: int = 0, trusted: str | None = None) -> dict[str, bytes]:
    """The fields of a table with their values left as they are, letter first: `join_table` puts them back.

    Values are checked, except that of `trusted`: it is a list of our own, and may be too long to be read each time. What is
    nested too deep to be read is passed on as it is.
    """
    position, end = _span(data, offset, len(data), "a table")
    fields: dict[str, bytes] = {}
    while position < end:
        name, position = _read_short(data, position, end)
        start = position
        if name == trusted and data[position : position + 1] == b"A":
            _, position = _span(data, position + 1, end, "an array")
        else:
            position = _end_of_value(data, position, end)
        fields.setdefault(name, data[start:position])
    return fields


def _end_of_value(data: bytes, offset: int, limit: int) -> int:
    try:
        return _read_value(data, offset, limit, 1)[1]
    except TooDeep:
        return _span(data, offset + 1, limit, "a value")[1]  # a table or an array: nothing else holds others


def _span(data: bytes, offset: int, limit: int, what: str) -> tuple[int, int]:
    """First and end byte of something that begins with its size."""
    if offset + 4 > limit:
        raise TableError(f"malformed table: {what} at byte {offset} has no size")
    (size,) = _U32.unpack_from(data, offset)
    if offset + 4 + size > limit:
        raise TableError(f"malformed table: {what} at byte {offset} of {size} bytes, but {limit - offset - 4} follow")
    return offset + 4, offset + 4 + size


def _read_short(data: bytes, offset: int, limit: int) -> tuple[str, int]:
    if offset >= limit:
        raise TableError(f"malformed table: a string is missing at byte {offset}")
    end = offset + 1 + data[offset]
    if end > limit:
        raise TableError(f"malformed table: a string at byte {offset} reaches beyond its table")
    # What is not UTF-8 must still be given back as it was.
    return data[offset + 1 : end].decode("utf-8", "surrogateescape"), end


def _read_table(data: bytes, offset: int, depth: int, limit: int | None = None) -> tuple[dict[str, Any], int]:
    _check_depth(depth, offset)
    position, end = _span(data, offset, len(data) if limit is None else limit, "a table")
    table: dict[str, Any] = {}
    while position < end:
        name, position = _read_short(data, position, end)
        value, position = _read_value(data, position, end, depth)
        table.setdefault(name, value)
    return table, end


def _read_array(data: bytes, offset: int, depth: int, limit: int) -> tuple[list[Any], int]:
    _check_depth(depth, offset)
    position, end = _span(data, offset, limit, "an array")
    items = []
    while position < end:
        value, position = _read_value(data, position, end, depth)
        items.append(value)
    return items, end


def _check_depth(depth: int, offset: int) -> None:
    if depth > NESTING_MAX:
        raise TooDeep(f"malformed table: more than {NESTING_MAX} tables within each other at byte {offset}")


def _read_value(data: bytes, offset: int, limit: int, depth: int) -> tuple[Any, int]:
    if offset >= limit:
        raise TableError(f"malformed table: a value is missing at byte {offset}")
    letter = data[offset]
    offset += 1
    fixed = _FIXED.get(letter)
    if fixed is not None:
        layout, convert = fixed
        if offset + layout.size > limit:
            raise TableError(f"malformed table: a value {chr(letter)!r} at byte {offset} reaches beyond its table")
        return convert(layout.unpack_from(data, offset)), offset + layout.size
    if letter == 0x53:  # S
        start, end = _span(data, offset, limit, "a string")
        return _text(data[start:end]), end
    if letter == 0x46:  # F
        return _read_table(data, offset, depth + 1, limit)
    if letter == 0x41:  # A
        return _read_array(data, offset, depth + 1, limit)
    if letter == 0x78:  # x
        start, end = _span(data, offset, limit, "a byte array")
        return data[start:end], end
    raise TableError(f"malformed table: unknown type {chr(letter)!r} at byte {offset - 1}")


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _first(values: tuple[Any, ...]) -> Any:
    return values[0]


def _fixed(letter: str, layout: str, convert: Callable[[tuple[Any, ...]], Any] = _first) -> tuple[int, Any]:
    return ord(letter), (struct.Struct(layout), convert)


_FIXED: dict[int, tuple[struct.Struct, Callable[[tuple[Any, ...]], Any]]] = dict(
    [
        _fixed("t", ">B", lambda values: values[0] != 0),
        _fixed("b", ">b"), _fixed("B", ">B"), _fixed("s", ">h"), _fixed("u", ">H"),
        _fixed("I", ">i"), _fixed("i", ">I"), _fixed("l", ">q"), _fixed("L", ">q"),
        _fixed("f", ">f"), _fixed("d", ">d"),
        _fixed("D", ">Bi", lambda values: Decimal(values[1]).scaleb(-values[0])),
        _fixed("T", ">Q", lambda values: Timestamp(values[0])),
        _fixed("V", ">", lambda values: None),
    ]
)  # fmt: skip


# ----------------------------------------------------------------------------- writing


def encode_table(table: Mapping[str, Any]) -> bytes:
    """The table with its size before it."""
    return _write_table(table, 1)


def encode_value(value: Any) -> bytes:
    """The value with its letter before it."""
    return _write_value(value, 1)


def join_table(fields: Mapping[str, bytes]) -> bytes:
    """The inverse of `split_table`."""
    body = b"".join([_write_short(name) + value for name, value in fields.items()])
    return _U32.pack(len(body)) + body


def _write_short(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise TableError(f"a short string holds at most 255 bytes, not {len(raw)}: {text[:40]!r}...")
    return bytes((len(raw),)) + raw


def _write_table(table: Mapping[str, Any], depth: int) -> bytes:
    _check_write_depth(depth)
    body = b"".join([_write_short(name) + _write_value(value, depth) for name, value in table.items()])
    return _U32.pack(len(body)) + body


def _check_write_depth(depth: int) -> None:
    if depth > NESTING_MAX:
        raise TableError(f"more than {NESTING_MAX} tables within each other")


def _write_value(value: Any, depth: int) -> bytes:
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        return b"S" + _U32.pack(len(raw)) + raw
    if value is True or value is False:
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        return _write_integer(value)
    if value is None:
        return b"V"
    if isinstance(value, float):
        return struct.pack(">cd", b"d", value)
    if isinstance(value, Mapping):
        return b"F" + _write_table(value, depth + 1)
    if isinstance(value, (list, tuple)):
        _check_write_depth(depth + 1)
        body = b"".join([_write_value(item, depth + 1) for item in value])
        return b"A" + _U32.pack(len(body)) + body
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        return b"x" + _U32.pack(len(raw)) + raw
    if isinstance(value, Decimal):
        return _write_decimal(value)
    raise TableError(f"a {type(value).__name__} has no place in a table: {value!r}")


def _write_integer(value: int) -> bytes:
    if isinstance(value, Timestamp):
        if not 0 <= value < 2**64:
            raise TableError(f"a timestamp has 64 bits and no sign, and {int(value)} does not fit")
        return b"T" + _U64.pack(value)
    if _I32_MIN <= value <= _I32_MAX and not isinstance(value, Long):
        return struct.pack(">ci", b"I", value)
    if _I64_MIN <= value <= _I64_MAX:
        return struct.pack(">cq", b"l", value)
    raise TableError(f"integers have 64 bits, and {value} does not fit")


def _write_decimal(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 256
    if scale > 255 or not _I32_MIN <= (unscaled := int(value.scaleb(scale))) <= _I32_MAX:
        raise TableError(f"decimals have up to 255 places and 32 bits, and {value} does not fit")
    return struct.pack(">cBi", b"D", scale, unscaled)


# ----------------------------------------------------------------------------- property lists


def split_properties(props: bytes) -> dict[str, bytes]:
    """The properties present, in order, with their values left as they are: `join_properties` puts them back."""
    fields: dict[str, bytes] = {}
    end = 2
    for name, start, end in _properties_in(props):
        fields[name] = props[start:end]
    if end != len(props):
        raise TableError(f"malformed properties: {len(props) - end} bytes left over")
    return fields


def property_span(props: bytes, wanted: str) -> tuple[int, int]:
    """From where to where the value of a property reaches; an empty span where it is not present. What comes behind it is not
    looked at."""
    return next(((start, end) for name, start, end in _properties_in(props) if name == wanted), (0, 0))


def _properties_in(props: bytes) -> Iterator[tuple[str, int, int]]:
    """Which properties are present, and from where to where they reach."""
    if len(props) < 2:
        raise TableError(f"malformed properties: {len(props)} bytes where flags should be")
    flags = props[0] << 8 | props[1]
    if flags & ~_KNOWN_FLAGS:
        raise TableError(f"malformed properties: unknown flags {flags & ~_KNOWN_FLAGS:#06x}")
    offset = 2
    for name, flag in _FLAG_OF.items():
        if flags & flag:
            end = _property_end(props, offset, name)
            if end > len(props):
                raise TableError(f"malformed properties: {name} at byte {offset} reaches beyond {len(props)} bytes")
            yield name, offset, end
            offset = end


def _property_end(props: bytes, offset: int, name: str) -> int:
    if name == "headers":
        return _span(props, offset, len(props), "headers")[1]
    if name == "timestamp":
        return offset + 8
    if name in _OCTETS:
        return offset + 1
    return offset + 1 + (props[offset] if offset < len(props) else 0)


def join_properties(fields: Mapping[str, bytes]) -> bytes:
    """The inverse of `split_properties`."""
    flags = sum(_FLAG_OF[name] for name in fields)
    return flags.to_bytes(2, "big") + b"".join([fields[name] for name in PROPERTIES if name in fields])


def decode_properties(props: bytes) -> dict[str, Any]:
    """The properties present as Python values: headers a dict, timestamp a Timestamp, numbers int, the rest str."""
    return {name: _read_property(name, raw) for name, raw in split_properties(props).items()}


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    """The property list; what is None is left out."""
    present = {name: value for name, value in properties.items() if value is not None}
    unknown = present.keys() - _FLAG_OF.keys()
    if unknown:
        raise TableError(f"no such message property: {', '.join(sorted(unknown))}")
    return join_properties({name: _write_property(name, value) for name, value in present.items()})


def _read_property(name: str, raw: bytes) -> Any:
    if name == "headers":
        return decode_table(raw)[0]
    if name == "timestamp":
        return Timestamp(_U64.unpack(raw)[0])
    if name in _OCTETS:
        return raw[0]
    return _read_short(raw, 0, len(raw))[0]


def _write_property(name: str, value: Any) -> bytes:
    if name == "headers":
        return encode_table(value)
    if name == "timestamp":
        return _write_integer(Timestamp(value))[1:]
    if name in _OCTETS:
        if not 0 <= value <= 255:
            raise TableError(f"{name} is between 0 and 255, not {value}")
        return bytes((value,))
    return _write_short(value)

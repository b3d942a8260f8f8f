"""The type system of AMQP 1.0: values with the names of their types, and their bytes. Big endian.

    value        constructor | bytes of the value
    constructor  code u8, or 0 | descriptor (a value) | code u8

    codes        type        in Python       codes        type        in Python
    40           null        None            83           timestamp   int, ms since 1970
    41 42 56     boolean     bool            98           uuid        UUID
    50           ubyte       int             a0 b0        binary      bytes
    60           ushort      int             a1 b1        string      str
    43 52 70     uint        int             a3 b3        symbol      str
    44 53 80     ulong       int             45 c0 d0     list        tuple of values
    51           byte        int             c1 d1        map         tuple of (key, value)
    61           short       int             e0 f0        array       tuple of values of one type
    54 71        int         int             72           float       float
    55 81        long        int             82           double      float
    73           char        str of one      74 84 94     decimal     bytes
    0            described   (descriptor, value)

A value says its type, because the same number in another type is another value to who reads it. Maps keep the order of their
keys, and keys may be of any type. Strings and symbols that are not UTF-8 keep their bytes as surrogates. Encoding takes the
shortest form of each type, except within arrays.

What is decoded came from a client. Each length is compared with what is left before anything is built, elements of arrays must
have bytes (a count costs its sender something), and nesting is limited.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

# Lists, maps, arrays and descriptors within each other. Python's stack would stand about 300.
NESTING_MAX = 32
# Within one value. More than a header frame of AMQP 0-9-1 has bytes nobody there can be given, and each takes a microsecond.
VALUES_MAX = 131_072
DESCRIBED = 0x00


class BadAmqp10(ValueError):
    """Raised when bytes are not an AMQP 1.0 message, or a value has no encoding."""


class ValueType(Enum):
    """What a value is, and the code of its longest form."""

    NULL = 0x40
    BOOLEAN = 0x56
    UBYTE = 0x50
    USHORT = 0x60
    UINT = 0x70
    ULONG = 0x80
    BYTE = 0x51
    SHORT = 0x61
    INT = 0x71
    LONG = 0x81
    FLOAT = 0x72
    DOUBLE = 0x82
    DECIMAL32 = 0x74
    DECIMAL64 = 0x84
    DECIMAL128 = 0x94
    CHAR = 0x73
    TIMESTAMP = 0x83
    UUID = 0x98
    BINARY = 0xB0
    STRING = 0xB1
    SYMBOL = 0xB3
    LIST = 0xD0
    MAP = 0xD1
    ARRAY = 0xF0
    DESCRIBED = 0x00


class TypedValue(NamedTuple):
    """A value and its type; the table above says what `content` is."""

    type: ValueType
    content: Any


NULL = TypedValue(ValueType.NULL, None)

_U32 = struct.Struct(">I")
_COUNTS = {1: struct.Struct(">B"), 4: _U32}


# ----------------------------------------------------------------------------- decoding


class _Nesting:
    """Where in a value its reader is."""

    __slots__ = ("_values", "depth")

    def __init__(self) -> None:
        self.depth = 1
        self._values = 0  # within others, so far

    def enter(self, values: int) -> None:
        """A value that has so many in it. Raises BadAmqp10."""
        self.depth += 1
        self._values += values
        if self._values > VALUES_MAX:
            raise BadAmqp10(f"more than {VALUES_MAX} values in one")

    def leave(self) -> None:
        self.depth -= 1


def decode_value(data: bytes, at: int = 0, limit: int | None = None) -> tuple[TypedValue, int]:
    """The value at `at` and where it ends. Raises BadAmqp10."""
    return _read_value(data, at, len(data) if limit is None else limit, _Nesting())


def value_end(data: bytes, at: int, limit: int) -> int:
    """Where a value ends. Looks at no more than its own length: what is in it may be damaged. Raises BadAmqp10."""
    code = _octet(data, at, limit)
    if code == DESCRIBED:
        raise BadAmqp10(f"a described value at {at}, where a plain one should be")
    width = _WIDTHS.get(code >> 4)
    if width is None:
        raise BadAmqp10(f"unknown type {code:#04x} at {at}")
    return _checked(at + 1, width, limit) if width >= 0 else _span(data, at + 1, -width, limit)[1]


# Upper half of a code -> bytes of the value; of those that say it themselves the bytes of their length, negative.
_WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 0xA: -1, 0xB: -4, 0xC: -1, 0xD: -4, 0xE: -1, 0xF: -4}


def _octet(data: bytes, at: int, limit: int) -> int:
    if at >= limit:
        raise BadAmqp10(f"a value is missing at {at}")
    return data[at]


def _checked(at: int, size: int, limit: int) -> int:
    """The end of `size` bytes."""
    if size > limit - at:
        raise BadAmqp10(f"{size} bytes at {at} reach beyond {limit}")
    return at + size


def _span(data: bytes, at: int, width: int, limit: int) -> tuple[int, int]:
    """Start and end of what begins with its size, which has `width` bytes."""
    start = _checked(at, width, limit)
    return start, _checked(start, int.from_bytes(data[at:start], "big"), limit)


def _read_value(data: bytes, at: int, limit: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    code = _octet(data, at, limit)
    return _read_content(data, code, at + 1, limit, nesting)


def _read_content(data: bytes, code: int, at: int, limit: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    """A value whose code stands before `at`."""
    if (fixed := _FIXED.get(code)) is not None:
        type_, convert = fixed
        end = _checked(at, _WIDTHS[code >> 4], limit)
        return TypedValue(type_, convert(data[at:end])), end
    if (text := _TEXTS.get(code)) is not None:
        type_, width, convert = text
        start, end = _span(data, at, width, limit)
        return TypedValue(type_, convert(data[start:end])), end
    if nesting.depth > NESTING_MAX:
        raise BadAmqp10(f"more than {NESTING_MAX} values within each other at {at}")
    if code == DESCRIBED:
        return _read_described(data, at, limit, nesting)
    if (compound := _COMPOUNDS.get(code)) is not None:
        read, width = compound
        return _read_compound(data, read, width, at, limit, nesting)
    raise BadAmqp10(f"unknown type {code:#04x} at {at - 1}")


def _read_described(data: bytes, at: int, limit: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    nesting.enter(2)
    descriptor, at = _read_value(data, at, limit, nesting)
    value, at = _read_value(data, at, limit, nesting)
    nesting.leave()
    return TypedValue(ValueType.DESCRIBED, (descriptor, value)), at


def _read_compound(
    data: bytes, read: _ReadItems, width: int, at: int, limit: int, nesting: _Nesting
) -> tuple[TypedValue, int]:
    """A list, map or array: size, count, items."""
    start, end = _span(data, at, width, limit)
    items = _checked(start, width, end)
    count = int.from_bytes(data[start:items], "big")
    if count > end - items:
        raise BadAmqp10(f"{count} items at {items} in {end - items} bytes")
    nesting.enter(count)
    value, items_end = read(data, items, end, count, nesting)
    nesting.leave()
    if items_end != end:
        raise BadAmqp10(f"{end - items_end} bytes are left over behind {count} items at {items_end}")
    return value, end


def _read_list(data: bytes, at: int, limit: int, count: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    values, at = _read_values(data, at, limit, count, nesting)
    return TypedValue(ValueType.LIST, tuple(values)), at


def _read_map(data: bytes, at: int, limit: int, count: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    if count % 2:
        raise BadAmqp10(f"a map at {at} has {count} items, and one key no value")
    values, at = _read_values(data, at, limit, count, nesting)
    return TypedValue(ValueType.MAP, tuple(zip(values[::2], values[1::2], strict=True))), at


def _read_values(data: bytes, at: int, limit: int, count: int, nesting: _Nesting) -> tuple[list[TypedValue], int]:
    values = []
    for _ in range(count):
        value, at = _read_value(data, at, limit, nesting)
        values.append(value)
    return values, at


def _read_array(data: bytes, at: int, limit: int, count: int, nesting: _Nesting) -> tuple[TypedValue, int]:
    code = _octet(data, at, limit)
    at += 1
    descriptor = None
    if code == DESCRIBED:
        descriptor, at = _read_value(data, at, limit, nesting)
        code = _octet(data, at, limit)
        at += 1
    if code == DESCRIBED or code >> 4 not in _WIDTHS:
        raise BadAmqp10(f"an array of unknown type {code:#04x} at {at - 1}")
    if count and not _WIDTHS[code >> 4]:
        raise BadAmqp10(f"{count} elements without bytes at {at}")
    values = []
    for _ in range(count):
        value, at = _read_content(data, code, at, limit, nesting)
        values.append(value if descriptor is None else TypedValue(ValueType.DESCRIBED, (descriptor, value)))
    return TypedValue(ValueType.ARRAY, tuple(values)), at


_ReadItems = Callable[[bytes, int, int, int, _Nesting], tuple[TypedValue, int]]
_COMPOUNDS: dict[int, tuple[_ReadItems, int]] = {
    0xC0: (_read_list, 1), 0xD0: (_read_list, 4), 0xC1: (_read_map, 1), 0xD1: (_read_map, 4),
    0xE0: (_read_array, 1), 0xF0: (_read_array, 4),
}  # fmt: skip


def _unsigned(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _boolean(raw: bytes) -> bool:
    if raw[0] > 1:
        raise BadAmqp10(f"a boolean is {raw[0]}")
    return raw[0] == 1


def _float(raw: bytes) -> float:
    number: float = struct.unpack(">f" if len(raw) == 4 else ">d", raw)[0]
    return number


def _character(raw: bytes) -> str:
    point = _unsigned(raw)
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise BadAmqp10(f"{point:#x} is no character")
    return chr(point)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _always(content: Any) -> Callable[[bytes], Any]:
    return lambda _: content


_FIXED: dict[int, tuple[ValueType, Callable[[bytes], Any]]] = {
    0x40: (ValueType.NULL, _always(None)),
    0x41: (ValueType.BOOLEAN, _always(True)),
    0x42: (ValueType.BOOLEAN, _always(False)),
    0x43: (ValueType.UINT, _always(0)),
    0x44: (ValueType.ULONG, _always(0)),
    0x45: (ValueType.LIST, _always(())),
    0x56: (ValueType.BOOLEAN, _boolean),
    0x50: (ValueType.UBYTE, _unsigned),
    0x60: (ValueType.USHORT, _unsigned),
    0x52: (ValueType.UINT, _unsigned),
    0x70: (ValueType.UINT, _unsigned),
    0x53: (ValueType.ULONG, _unsigned),
    0x80: (ValueType.ULONG, _unsigned),
    0x51: (ValueType.BYTE, _signed),
    0x61: (ValueType.SHORT, _signed),
    0x54: (ValueType.INT, _signed),
    0x71: (ValueType.INT, _signed),
    0x55: (ValueType.LONG, _signed),
    0x81: (ValueType.LONG, _signed),
    0x72: (ValueType.FLOAT, _float),
    0x82: (ValueType.DOUBLE, _float),
    0x74: (ValueType.DECIMAL32, bytes),
    0x84: (ValueType.DECIMAL64, bytes),
    0x94: (ValueType.DECIMAL128, bytes),
    0x73: (ValueType.CHAR, _character),
    0x83: (ValueType.TIMESTAMP, _signed),
    0x98: (ValueType.UUID, lambda raw: UUID(bytes=raw)),
}
_TEXTS: dict[int, tuple[ValueType, int, Callable[[bytes], Any]]] = {
    0xA0: (ValueType.BINARY, 1, bytes), 0xB0: (ValueType.BINARY, 4, bytes),
    0xA1: (ValueType.STRING, 1, _text), 0xB1: (ValueType.STRING, 4, _text),
    0xA3: (ValueType.SYMBOL, 1, _text), 0xB3: (ValueType.SYMBOL, 4, _text),
}  # fmt: skip


# ----------------------------------------------------------------------------- encoding


def encode_value(value: TypedValue) -> bytes:
    """The value with its constructor. Raises BadAmqp10 for content that its type cannot hold."""
    return _write_value(value, 1)


def _write_value(value: TypedValue, depth: int) -> bytes:
    type_, content = value
    if (short := _SHORT.get(type_)) is not None and (encoded := short(content)) is not None:
        return encoded
    if type_ is ValueType.DESCRIBED:
        _check_depth(depth)
        return b"\0" + _write_value(content[0], depth + 1) + _write_value(content[1], depth + 1)
    if type_ in _ITEMS:
        items = _write_items(type_, content, depth)
        count = len(content) * (2 if type_ is ValueType.MAP else 1)
        if count <= 255 and len(items) + 1 <= 255:
            return bytes((type_.value - 0x10, len(items) + 1, count)) + items
        return bytes((type_.value,)) + _sized(_U32.pack(count) + items)
    return bytes((type_.value,)) + _write_content(type_, content, depth)


def _write_content(type_: ValueType, content: Any, depth: int) -> bytes:
    """What follows the code of the type."""
    if type_ in _ITEMS:
        count = len(content) * (2 if type_ is ValueType.MAP else 1)
        return _sized(_U32.pack(count) + _write_items(type_, content, depth))
    if type_ in _BYTES_OF:
        return _sized(_BYTES_OF[type_](content))
    try:
        return _WRITTEN[type_](content)
    except (struct.error, OverflowError) as error:
        raise BadAmqp10(f"{content!r} does not fit {type_.name}") from error


_ITEMS = frozenset({ValueType.LIST, ValueType.MAP, ValueType.ARRAY})


def _write_items(type_: ValueType, content: Any, depth: int) -> bytes:
    _check_depth(depth)
    if type_ is ValueType.ARRAY:
        return _write_elements(content, depth + 1)
    values = content if type_ is ValueType.LIST else [value for pair in content for value in pair]
    return b"".join([_write_value(value, depth + 1) for value in values])


def _write_elements(elements: tuple[TypedValue, ...], depth: int) -> bytes:
    """The constructor that all elements share, and their contents. An empty array is one of null."""
    if not elements:
        return bytes((ValueType.NULL.value,))
    constructor, element_type = _constructor(elements[0], depth)
    contents = []
    for element in elements:
        if _constructor(element, depth)[0] != constructor:
            raise BadAmqp10(f"an array of {elements[0].type.name} has another element: {element!r}")
        plain = element.content[1] if element.type is ValueType.DESCRIBED else element
        contents.append(_write_content(element_type, plain.content, depth))
    return constructor + b"".join(contents)


def _constructor(element: TypedValue, depth: int) -> tuple[bytes, ValueType]:
    if element.type is not ValueType.DESCRIBED:
        if element.type is ValueType.NULL:
            raise BadAmqp10("an array of null: its elements have no bytes")
        return bytes((element.type.value,)), element.type
    descriptor, value = element.content
    if value.type in (ValueType.DESCRIBED, ValueType.NULL):
        raise BadAmqp10(f"an array of described elements of type {value.type.name}")
    return b"\0" + _write_value(descriptor, depth) + bytes((value.type.value,)), value.type


def _check_depth(depth: int) -> None:
    if depth > NESTING_MAX:
        raise BadAmqp10(f"more than {NESTING_MAX} values within each other")


def _sized(raw: bytes) -> bytes:
    return _U32.pack(len(raw)) + raw


def _text_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadAmqp10(f"{text!r} has no bytes: {error}") from error


_BYTES_OF: dict[ValueType, Callable[[Any], bytes]] = {
    ValueType.BINARY: bytes,
    ValueType.STRING: _text_bytes,
    ValueType.SYMBOL: _text_bytes,
}


def _packed(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _exactly(size: int) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        if len(raw) != size:
            raise BadAmqp10(f"a decimal of {size} bytes has {len(raw)}")
        return raw

    return write


_WRITTEN: dict[ValueType, Callable[[Any], bytes]] = {
    ValueType.NULL: _always(b""),
    ValueType.BOOLEAN: lambda content: b"\1" if content else b"\0",
    ValueType.UBYTE: _packed(">B"), ValueType.USHORT: _packed(">H"), ValueType.UINT: _packed(">I"),
    ValueType.ULONG: _packed(">Q"), ValueType.BYTE: _packed(">b"), ValueType.SHORT: _packed(">h"),
    ValueType.INT: _packed(">i"), ValueType.LONG: _packed(">q"), ValueType.FLOAT: _packed(">f"),
    ValueType.DOUBLE: _packed(">d"), ValueType.TIMESTAMP: _packed(">q"),
    ValueType.DECIMAL32: _exactly(4), ValueType.DECIMAL64: _exactly(8), ValueType.DECIMAL128: _exactly(16),
    ValueType.CHAR: lambda content: _U32.pack(ord(content)),
    ValueType.UUID: lambda content: bytes(content.bytes),
}  # fmt: skip


def _short_boolean(content: bool) -> bytes:
    return b"\x41" if content else b"\x42"


def _short_unsigned(zero: int, small: int) -> Callable[[int], bytes | None]:
    def write(content: int) -> bytes | None:
        if content == 0:
            return bytes((zero,))
        return bytes((small, content)) if 0 < content <= 255 else None

    return write


def _short_signed(small: int) -> Callable[[int], bytes | None]:
    return lambda content: bytes((small, content & 0xFF)) if -128 <= content <= 127 else None


def _short_bytes(code: int, raw_of: Callable[[Any], bytes]) -> Callable[[Any], bytes | None]:
    def write(content: Any) -> bytes | None:
        raw = raw_of(content)
        return bytes((code, len(raw))) + raw if len(raw) <= 255 else None

    return write


# Forms that are shorter than the one of `ValueType.code`, or None for content that needs that one.
_SHORT: dict[ValueType, Callable[[Any], bytes | None]] = {
    ValueType.BOOLEAN: _short_boolean,
    ValueType.UINT: _short_unsigned(0x43, 0x52),
    ValueType.ULONG: _short_unsigned(0x44, 0x53),
    ValueType.INT: _short_signed(0x54),
    ValueType.LONG: _short_signed(0x55),
    ValueType.LIST: lambda content: None if content else b"\x45",
    **{type_: _short_bytes(type_.value - 0x10, raw_of) for type_, raw_of in _BYTES_OF.items()},
}

"""Values of AMQP 0-9-1 field tables as values of AMQP 1.0, and back, as RabbitMQ converts them.

    table  1.0                                           1.0               table
    t      boolean                                       boolean           t
    b B    byte, ubyte                                   byte, ubyte       b B
    s u    short, ushort                                 short, ushort     s u
    I i    int, uint                                     int, uint         I i
    l L    long                                          long              l
                                                         ulong             l, its bits
    f d    float, double                                 float, double     f d
    T      timestamp in ms                               timestamp         T in seconds
    V      null                                          null              V
    S      string; binary if it has a NUL, more than     string, symbol    S
           4096 bytes, or is not UTF-8                   binary            S
    x      binary                                        uuid, char        S, as text
    A      list                                          list, array       A
    F      map with symbols as keys                      map               F; keys as text, numbers in decimal
    D      nothing                                       decimal           nothing
                                                         described         as what it describes

What has no place in the other form is left out of the list or map that it is in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from wire.amqp10.typed_values import TypedValue, ValueType

SHORT_BYTES_MAX = 255  # of a short string of AMQP 0-9-1
TEXT_BYTES_MAX = 4096  # of a table's string that is looked at for whether it is text

_U32 = struct.Struct(">I")
_BITS = 2**64 - 1


class NoEquivalent(Exception):
    """Returned when a value, or one within it, has no place in the other form."""


# ----------------------------------------------------------------------------- 0-9-1 to 1.0


def typed_value(field: bytes) -> TypedValue:
    """Of a table's value as `split_table` gives it. Raises NoEquivalent."""
    return _read(field, 0)[0]


def text_or_binary(raw: bytes) -> TypedValue:
    if len(raw) <= TEXT_BYTES_MAX and b"\0" not in raw:
        try:
            return TypedValue(ValueType.STRING, raw.decode())
        except UnicodeDecodeError:
            pass
    return TypedValue(ValueType.BINARY, raw)


def milliseconds(seconds: int) -> TypedValue:
    """Raises NoEquivalent."""
    if seconds * 1000 >= 2**63:
        raise NoEquivalent(f"{seconds} seconds have no place in 64 bits of milliseconds")
    return TypedValue(ValueType.TIMESTAMP, seconds * 1000)


def _read(raw: bytes, at: int) -> tuple[TypedValue, int]:
    """The value at `at`, which is whole, and where it ends."""
    letter, at = raw[at : at + 1], at + 1
    if letter in _FIXED:
        layout, convert = _FIXED[letter]
        return convert(layout.unpack_from(raw, at)[0]), at + layout.size
    if letter == b"V":
        return TypedValue(ValueType.NULL, None), at
    if letter not in _SIZED:
        raise NoEquivalent(f"a value {letter!r}")
    end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
    return _SIZED[letter](raw[at + 4 : end]), end


def _read_array(raw: bytes) -> TypedValue:
    items, at = [], 0
    while at < len(raw):
        item, at = _read(raw, at)
        items.append(item)
    return TypedValue(ValueType.LIST, tuple(items))


def _read_table(raw: bytes) -> TypedValue:
    pairs, at = [], 0
    while at < len(raw):
        name_end = at + 1 + raw[at]
        name = TypedValue(ValueType.SYMBOL, raw[at + 1 : name_end].decode("utf-8", "surrogateescape"))
        value, at = _read(raw, name_end)
        pairs.append((name, value))
    return TypedValue(ValueType.MAP, tuple(pairs))


def _as(type_: ValueType) -> Callable[[Any], TypedValue]:
    return lambda content: TypedValue(type_, content)


_FIXED: dict[bytes, tuple[struct.Struct, Callable[[Any], TypedValue]]] = {
    b"t": (struct.Struct(">?"), _as(ValueType.BOOLEAN)),
    b"b": (struct.Struct(">b"), _as(ValueType.BYTE)),
    b"B": (struct.Struct(">B"), _as(ValueType.UBYTE)),
    b"s": (struct.Struct(">h"), _as(ValueType.SHORT)),
    b"u": (struct.Struct(">H"), _as(ValueType.USHORT)),
    b"I": (struct.Struct(">i"), _as(ValueType.INT)),
    b"i": (struct.Struct(">I"), _as(ValueType.UINT)),
    b"l": (struct.Struct(">q"), _as(ValueType.LONG)),
    b"L": (struct.Struct(">q"), _as(ValueType.LONG)),
    b"f": (struct.Struct(">f"), _as(ValueType.FLOAT)),
    b"d": (struct.Struct(">d"), _as(ValueType.DOUBLE)),
    b"T": (struct.Struct(">Q"), milliseconds),
}
_SIZED: dict[bytes, Callable[[bytes], TypedValue]] = {
    b"S": text_or_binary,
    b"x": _as(ValueType.BINARY),
    b"A": _read_array,
    b"F": _read_table,
}


# ----------------------------------------------------------------------------- 1.0 to 0-9-1


def table_value(value: TypedValue) -> bytes:
    """With its letter, as `join_table` takes it. Raises NoEquivalent."""
    type_, content = value
    if type_ in _WRITTEN:
        letter, layout, convert = _WRITTEN[type_]
        return letter + layout.pack(convert(content))
    if type_ is ValueType.NULL:
        return b"V"
    if type_ in _TEXTS:
        return long_text(_TEXTS[type_](content))
    match type_:
        case ValueType.LIST | ValueType.ARRAY:
            return b"A" + _sized(b"".join(_present(content)))
        case ValueType.MAP:
            return b"F" + _sized(b"".join(_present_fields(content)))
        case ValueType.DESCRIBED:
            return table_value(content[1])
    raise NoEquivalent(f"a value of type {type_.name}")


def long_text(raw: bytes) -> bytes:
    return b"S" + _sized(raw)


def seconds(milliseconds: int) -> int:
    """Toward 1970, and before it as the bits that a client reads there."""
    return (milliseconds // 1000 if milliseconds >= 0 else -(-milliseconds // 1000)) & _BITS


def text_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _present(values: tuple[TypedValue, ...]) -> list[bytes]:
    found = []
    for value in values:
        try:
            found.append(table_value(value))
        except NoEquivalent:
            continue
    return found


def _present_fields(pairs: tuple[tuple[TypedValue, TypedValue], ...]) -> list[bytes]:
    found = []
    for key, value in pairs:
        name = _name(key)
        if name is None or len(name) > SHORT_BYTES_MAX:
            continue
        try:
            found.append(bytes((len(name),)) + name + table_value(value))
        except NoEquivalent:
            continue
    return found


def _name(key: TypedValue) -> bytes | None:
    if isinstance(key.content, str):
        return text_bytes(key.content)
    if isinstance(key.content, int) and key.type is not ValueType.BOOLEAN:
        return b"%d" % key.content
    return None


def _sized(raw: bytes) -> bytes:
    return _U32.pack(len(raw)) + raw


def _same(content: Any) -> Any:
    return content


_WRITTEN: dict[ValueType, tuple[bytes, struct.Struct, Callable[[Any], Any]]] = {
    ValueType.BOOLEAN: (b"t", struct.Struct(">?"), _same),
    ValueType.BYTE: (b"b", struct.Struct(">b"), _same),
    ValueType.UBYTE: (b"B", struct.Struct(">B"), _same),
    ValueType.SHORT: (b"s", struct.Struct(">h"), _same),
    ValueType.USHORT: (b"u", struct.Struct(">H"), _same),
    ValueType.INT: (b"I", struct.Struct(">i"), _same),
    ValueType.UINT: (b"i", struct.Struct(">I"), _same),
    ValueType.LONG: (b"l", struct.Struct(">q"), _same),
    ValueType.ULONG: (b"l", struct.Struct(">Q"), _same),
    ValueType.FLOAT: (b"f", struct.Struct(">f"), _same),
    ValueType.DOUBLE: (b"d", struct.Struct(">d"), _same),
    ValueType.TIMESTAMP: (b"T", struct.Struct(">Q"), seconds),
}
_TEXTS: dict[ValueType, Callable[[Any], bytes]] = {
    ValueType.STRING: text_bytes,
    ValueType.SYMBOL: text_bytes,
    ValueType.CHAR: text_bytes,
    ValueType.BINARY: bytes,
    ValueType.UUID: lambda content: str(content).encode(),
}

"""The types of fields in commands of the stream protocol, each as a reader and a writer. Big endian.

    u8 u16 u32 u64 i16 i64    numbers
    string     u16 length, 65535 is null | UTF-8                    a null string is read as an empty one
    bytes      u32 length, 2^32 - 1 is null | bytes                 the same
    map        u32 count | pairs of strings                         a key that comes twice has its last value
    map?       nothing, or a map                                    nothing is read as an empty map, and the reverse
    strings    u32 count | strings
    offset     u16 kind | u64 of kind OFFSET, i64 of TIMESTAMP, else nothing
    offset+    the same, and whatever follows: one client sends eight bytes always
    versions   u32 count | key u16, lowest u16, highest u16
    numbers    u32 count | name string, i64
    brokers    u32 count | place u16, host string, port u32
    located    u32 count | stream string, code u16, leader u16, u32 count of replicas, each u16
    ids        u32 count | u64 each, kept as these bytes
    refusals   u32 count | id u64, code u16
    challenge  nothing, or u16 length | bytes
    rest       all bytes up to the end of the frame
    key version none   no bytes: what the head of the frame has said, and None

A reader takes (frame, position) and gives (value, position after it). It raises BadStreamFrame, never reads beyond the frame,
and compares a count with the bytes that are left before it begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from wire.stream.command_keys import OffsetKind, ResponseCode

STRING_BYTES_MAX = 2**15 - 1
# Elements of an array or map. Metadata of so many streams takes one turn of 40 ms; of 65,536 it took 260.
ELEMENTS_MAX = 10_000

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]


class BadStreamFrame(ValueError):
    """Raised when bytes are no frame of the stream protocol, or a value has no place in one."""

    def __init__(self, text: str, code: ResponseCode = ResponseCode.UNKNOWN_FRAME) -> None:
        super().__init__(text)
        self.code = code  # with which a server closes the connection


class OffsetSpec(NamedTuple):
    """Where to begin reading. `value` is an offset, or ms since 1970."""

    kind: OffsetKind
    value: int = 0


class VersionRange(NamedTuple):
    """Which versions of one command a side takes. The key may be one that we do not know."""

    key: int
    lowest: int
    highest: int


class StreamBroker(NamedTuple):
    """A node, as metadata names it."""

    place: int  # by which streams refer to it
    host: str
    port: int


class LocatedStream(NamedTuple):
    """Where a stream is: places of brokers, NO_BROKER for a leader that is missing."""

    stream: str
    code: int
    leader: int
    replicas: tuple[int, ...]


NO_BROKER = 0xFFFF

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_I64 = struct.Struct(">q")
_NULL_STRING = 0xFFFF
_NULL_BYTES = 0xFFFF_FFFF
_WITH_VALUE = {OffsetKind.OFFSET: _U64, OffsetKind.TIMESTAMP: _I64}


def _unpack(layout: struct.Struct, frame: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    end = at + layout.size
    if end > len(frame):
        raise BadStreamFrame(f"{layout.size} bytes are missing at byte {at} of {len(frame)}")
    return layout.unpack_from(frame, at), end


def _pack(layout: struct.Struct, *values: Any) -> bytes:
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise BadStreamFrame(f"{values!r} does not fit: {error}") from error


def _read_count(frame: bytes, at: int, element_bytes_min: int) -> tuple[int, int]:
    (count,), at = _unpack(_U32, frame, at)
    if count == _NULL_BYTES:
        return 0, at
    if count > ELEMENTS_MAX or count * element_bytes_min > len(frame) - at:
        raise BadStreamFrame(f"{count} elements at byte {at}, with {len(frame) - at} bytes left")
    return count, at


# ----------------------------------------------------------------------------- texts


def _slice(frame: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(frame) - at:
        raise BadStreamFrame(f"{size} bytes at byte {at}, with {len(frame) - at} left")
    return frame[at : at + size], at + size


def _read_string(frame: bytes, at: int) -> tuple[str, int]:
    (size,), at = _unpack(_U16, frame, at)
    if size == _NULL_STRING:
        return "", at
    if size > STRING_BYTES_MAX:
        raise BadStreamFrame(f"a string of {size - 2**16} bytes at byte {at}")
    raw, end = _slice(frame, at, size)
    try:
        return raw.decode(), end
    except UnicodeDecodeError as error:
        raise BadStreamFrame(f"a string at byte {at} is not UTF-8") from error


def _write_string(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise BadStreamFrame(f"{text!r} is not UTF-8") from error
    if len(raw) > STRING_BYTES_MAX:
        raise BadStreamFrame(f"a string of {len(raw)} bytes: {text[:40]!r}...")
    return _U16.pack(len(raw)) + raw


def _read_bytes(frame: bytes, at: int) -> tuple[bytes, int]:
    (size,), at = _unpack(_U32, frame, at)
    return (b"", at) if size == _NULL_BYTES else _slice(frame, at, size)


def _write_bytes(raw: bytes) -> bytes:
    return _pack(_U32, len(raw)) + raw


def _read_challenge(frame: bytes, at: int) -> tuple[bytes, int]:
    if at == len(frame):
        return b"", at
    (size,), at = _unpack(_U16, frame, at)
    return _slice(frame, at, size)


def _write_challenge(raw: bytes) -> bytes:
    return _pack(_U16, len(raw)) + raw if raw else b""


def _read_rest(frame: bytes, at: int) -> tuple[bytes, int]:
    return frame[at:], len(frame)


# ----------------------------------------------------------------------------- arrays


def _array(read: Reader, write: Writer, element_bytes_min: int) -> tuple[Reader, Writer]:
    def read_array(frame: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = _read_count(frame, at, element_bytes_min)
        elements = []
        for _ in range(count):
            element, at = read(frame, at)
            elements.append(element)
        return tuple(elements), at

    def write_array(elements: tuple[Any, ...]) -> bytes:
        if len(elements) > ELEMENTS_MAX:
            raise BadStreamFrame(f"an array of {len(elements)} elements, {ELEMENTS_MAX} are allowed")
        return _U32.pack(len(elements)) + b"".join([write(element) for element in elements])

    return read_array, write_array


def _mapping(read: Reader, write: Writer, value_bytes_min: int) -> tuple[Reader, Writer]:
    def read_pair(frame: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_string(frame, at)
        value, at = read(frame, at)
        return (key, value), at

    read_pairs, write_pairs = _array(
        read_pair, lambda pair: _write_string(pair[0]) + write(pair[1]), 2 + value_bytes_min
    )

    def read_map(frame: bytes, at: int) -> tuple[dict[str, Any], int]:
        pairs, at = read_pairs(frame, at)
        return dict(pairs), at

    return read_map, lambda values: write_pairs(tuple(values.items()))


def _tuples(layout: struct.Struct, kind: Callable[..., Any] = lambda *values: values) -> tuple[Reader, Writer]:
    """An array of elements that have one size."""

    def read(frame: bytes, at: int) -> tuple[Any, int]:
        values, at = _unpack(layout, frame, at)
        return kind(*values), at

    return _array(read, lambda element: _pack(layout, *element), layout.size)


def _read_ids(frame: bytes, at: int) -> tuple[bytes, int]:
    """As many as there are bytes: a confirm has those of many frames."""
    (count,), at = _unpack(_U32, frame, at)
    return _slice(frame, at, count * _U64.size)


def _write_ids(ids: bytes) -> bytes:
    assert len(ids) % _U64.size == 0, f"{len(ids)} bytes are no publishing ids"
    return _pack(_U32, len(ids) // _U64.size) + ids


def _read_refusals(frame: bytes, at: int) -> tuple[tuple[tuple[int, int], ...], int]:
    (count,), at = _unpack(_U32, frame, at)
    raw, at = _slice(frame, at, count * _REFUSAL.size)
    return tuple(_REFUSAL.iter_unpack(raw)), at


def _write_refusals(refusals: tuple[tuple[int, int], ...]) -> bytes:
    return _pack(_U32, len(refusals)) + b"".join([_pack(_REFUSAL, *one) for one in refusals])


_REFUSAL = struct.Struct(">QH")


# ----------------------------------------------------------------------------- what has parts of its own


def _read_offset(frame: bytes, at: int) -> tuple[OffsetSpec, int]:
    (number,), at = _unpack(_U16, frame, at)
    if number > max(OffsetKind):
        raise BadStreamFrame(f"an offset of kind {number} at byte {at}")
    kind = OffsetKind(number)
    layout = _WITH_VALUE.get(kind)
    if layout is None:
        return OffsetSpec(kind), at
    (value,), at = _unpack(layout, frame, at)
    return OffsetSpec(kind, value), at


def _read_offset_and_more(frame: bytes, at: int) -> tuple[OffsetSpec, int]:
    return _read_offset(frame, at)[0], len(frame)


def _write_offset(spec: OffsetSpec) -> bytes:
    layout = _WITH_VALUE.get(spec.kind)
    return _U16.pack(spec.kind) + (b"" if layout is None else _pack(layout, spec.value))


def _read_broker(frame: bytes, at: int) -> tuple[StreamBroker, int]:
    (place,), at = _unpack(_U16, frame, at)
    host, at = _read_string(frame, at)
    (port,), at = _unpack(_U32, frame, at)
    return StreamBroker(place, host, port), at


def _write_broker(broker: StreamBroker) -> bytes:
    return _pack(_U16, broker.place) + _write_string(broker.host) + _pack(_U32, broker.port)


_READ_PLACES, _WRITE_PLACES = _array(
    lambda frame, at: (_U16.unpack_from(frame, at)[0], at + 2), lambda place: _pack(_U16, place), 2
)


def _read_located(frame: bytes, at: int) -> tuple[LocatedStream, int]:
    stream, at = _read_string(frame, at)
    (code, leader), at = _unpack(_CODE_AND_LEADER, frame, at)
    replicas, at = _READ_PLACES(frame, at)
    return LocatedStream(stream, code, leader, replicas), at


def _write_located(one: LocatedStream) -> bytes:
    return _write_string(one.stream) + _pack(_CODE_AND_LEADER, one.code, one.leader) + _WRITE_PLACES(one.replicas)


_CODE_AND_LEADER = struct.Struct(">HH")


# ----------------------------------------------------------------------------- all of them


def _number(letters: str) -> tuple[Reader, Writer]:
    layout = struct.Struct(letters)

    def read(frame: bytes, at: int) -> tuple[int, int]:
        (value,), at = _unpack(layout, frame, at)
        return value, at

    return read, lambda value: _pack(layout, value)


def _nothing(frame: bytes, at: int) -> tuple[None, int]:
    return None, at


_MAP = _mapping(_read_string, _write_string, 2)

FIELD_TYPES: dict[str, tuple[Reader, Writer]] = {
    "u8": _number(">B"),
    "u16": _number(">H"),
    "u32": _number(">I"),
    "u64": _number(">Q"),
    "i16": _number(">h"),
    "i64": _number(">q"),
    "string": (_read_string, _write_string),
    "bytes": (_read_bytes, _write_bytes),
    "map": _MAP,
    "map?": (
        lambda frame, at: ({}, at) if at == len(frame) else _MAP[0](frame, at),
        lambda values: _MAP[1](values) if values else b"",
    ),
    "strings": _array(_read_string, _write_string, 2),
    "offset": (_read_offset, _write_offset),
    "offset+": (_read_offset_and_more, _write_offset),
    "versions": _tuples(struct.Struct(">HHH"), VersionRange),
    "numbers": _mapping(*_number(">q"), 8),
    "brokers": _array(_read_broker, _write_broker, 8),
    "located": _array(_read_located, _write_located, 10),
    "ids": (_read_ids, _write_ids),
    "refusals": (_read_refusals, _write_refusals),
    "challenge": (_read_challenge, _write_challenge),
    "rest": (_read_rest, bytes),
    "none": (_nothing, lambda value: b""),
    "key": (_nothing, lambda value: b""),
    "version": (_nothing, lambda value: b""),
}

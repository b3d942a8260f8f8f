"""Values of AMQP 1.0 over the whole type system, for tests of whatever reads them."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from wire.amqp10.typed_values import NULL, TypedValue, ValueType


def _of(type_: ValueType, contents: st.SearchStrategy[Any]) -> st.SearchStrategy[TypedValue]:
    return contents.map(lambda content: TypedValue(type_, content))


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from(
        [number for number in (0, 255, 256, low, high) if low <= number <= high]
    )


TEXTS = st.text(max_size=30) | st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
LONG_TEXTS = st.sampled_from(["x" * 255, "x" * 256, "ü" * 128])
SINGLES = st.floats(allow_nan=False, width=32)
ELEMENTS: dict[ValueType, st.SearchStrategy[Any]] = {
    ValueType.BOOLEAN: st.booleans(),
    ValueType.UBYTE: _integers(8, False), ValueType.USHORT: _integers(16, False), ValueType.UINT: _integers(32, False),
    ValueType.ULONG: _integers(64, False), ValueType.BYTE: _integers(8, True), ValueType.SHORT: _integers(16, True),
    ValueType.INT: _integers(32, True), ValueType.LONG: _integers(64, True), ValueType.TIMESTAMP: _integers(64, True),
    ValueType.FLOAT: SINGLES, ValueType.DOUBLE: st.floats(allow_nan=False),
    ValueType.DECIMAL32: st.binary(min_size=4, max_size=4), ValueType.DECIMAL64: st.binary(min_size=8, max_size=8),
    ValueType.DECIMAL128: st.binary(min_size=16, max_size=16),
    ValueType.CHAR: st.characters(exclude_categories=["Cs"]), ValueType.UUID: st.uuids(),
    ValueType.BINARY: st.binary(max_size=30) | st.sampled_from([b"x" * 255, b"x" * 256]),
    ValueType.STRING: TEXTS | LONG_TEXTS, ValueType.SYMBOL: TEXTS | LONG_TEXTS,
}  # fmt: skip
SCALARS = st.just(NULL) | st.one_of(*(_of(type_, contents) for type_, contents in ELEMENTS.items()))
ARRAYS = st.one_of(
    *(
        _of(ValueType.ARRAY, st.lists(_of(type_, contents), max_size=4).map(tuple))
        for type_, contents in ELEMENTS.items()
    )
)


def _compound(inner: st.SearchStrategy[TypedValue]) -> st.SearchStrategy[TypedValue]:
    items = st.lists(inner, max_size=5).map(tuple)
    pairs = st.lists(st.tuples(inner, inner), max_size=4).map(tuple)
    lists, maps = _of(ValueType.LIST, items), _of(ValueType.MAP, pairs)
    return (
        lists
        | maps
        | _of(ValueType.DESCRIBED, st.tuples(inner, inner))
        | _of(ValueType.ARRAY, st.lists(lists, max_size=3).map(tuple))
        | _of(ValueType.ARRAY, st.lists(maps, max_size=3).map(tuple))
        | _of(ValueType.ARRAY, st.tuples(ARRAYS, ARRAYS))
        | _of(ValueType.ARRAY, st.lists(st.integers(0, 9).map(_described_uint), max_size=3).map(tuple))
    )


def _described_uint(number: int) -> TypedValue:
    symbol = TypedValue(ValueType.SYMBOL, "example:uint")
    return TypedValue(ValueType.DESCRIBED, (symbol, TypedValue(ValueType.UINT, number)))


VALUES = st.recursive(SCALARS | ARRAYS, _compound, max_leaves=12)
PAIRS = st.lists(st.tuples(_of(ValueType.SYMBOL, TEXTS), VALUES), max_size=4).map(tuple)


def nested(levels: int, opening: bytes) -> bytes:
    """A null within so many lists (`d0`), maps (`d1`), arrays (`f0`) or descriptions (`00`)."""
    value = b"\x40"
    for _ in range(levels):
        if opening == b"\0":
            value = b"\0\x44" + value
        elif opening == b"\xf0":
            value = opening + _counted(1, b"\xb0\0\0\0\0" if value == b"\x40" else value)
        else:
            value = opening + (_counted(1, value) if opening == b"\xd0" else _counted(2, b"\x44" + value))
    return value


def _counted(count: int, items: bytes) -> bytes:
    return struct.pack(">II", len(items) + 4, count) + items

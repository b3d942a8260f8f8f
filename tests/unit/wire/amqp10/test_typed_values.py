"""wire/amqp10/typed_values.py: all types come back as they were, and what is damaged is refused with one error."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.typed_examples import VALUES, nested
from wire.amqp10.typed_values import (
    NESTING_MAX,
    NULL,
    VALUES_MAX,
    BadAmqp10,
    TypedValue,
    ValueType,
    decode_value,
    encode_value,
    value_end,
)

T = ValueType
UINTS = (TypedValue(T.UINT, 1), TypedValue(T.UINT, 300))

# Value, the bytes that encoding makes of it, and other bytes that mean the same: AMQP 1.0 part 1, section 1.6.
EXAMPLES = [
    (NULL, "40", []),
    (TypedValue(T.BOOLEAN, True), "41", ["5601"]),
    (TypedValue(T.BOOLEAN, False), "42", ["5600"]),
    (TypedValue(T.UBYTE, 255), "50ff", []),
    (TypedValue(T.USHORT, 258), "600102", []),
    (TypedValue(T.UINT, 0), "43", ["5200", "7000000000"]),
    (TypedValue(T.UINT, 255), "52ff", ["70000000ff"]),
    (TypedValue(T.UINT, 256), "7000000100", []),
    (TypedValue(T.ULONG, 0), "44", ["5300", "800000000000000000"]),
    (TypedValue(T.ULONG, 1), "5301", []),
    (TypedValue(T.ULONG, 2**64 - 1), "80ffffffffffffffff", []),
    (TypedValue(T.BYTE, -1), "51ff", []),
    (TypedValue(T.SHORT, -2), "61fffe", []),
    (TypedValue(T.INT, -128), "5480", ["71ffffff80"]),
    (TypedValue(T.INT, 128), "7100000080", []),
    (TypedValue(T.LONG, 127), "557f", ["81000000000000007f"]),
    (TypedValue(T.LONG, -129), "81ffffffffffffff7f", []),
    (TypedValue(T.FLOAT, 1.5), "723fc00000", []),
    (TypedValue(T.DOUBLE, 1.5), "823ff8000000000000", []),
    (TypedValue(T.DECIMAL32, b"1234"), "7431323334", []),
    (TypedValue(T.CHAR, "ü"), "73000000fc", []),
    (TypedValue(T.TIMESTAMP, 1000), "8300000000000003e8", []),
    (TypedValue(T.UUID, UUID(int=1)), "98" + "00" * 15 + "01", []),
    (TypedValue(T.BINARY, b"ab"), "a0026162", ["b0000000026162"]),
    (TypedValue(T.STRING, "ü"), "a102c3bc", ["b100000002c3bc"]),
    (TypedValue(T.STRING, "\udcff"), "a101ff", []),
    (TypedValue(T.SYMBOL, "x"), "a30178", ["b30000000178"]),
    (TypedValue(T.LIST, ()), "45", ["c00100", "d00000000400000000"]),
    (TypedValue(T.LIST, (NULL,)), "c0020140", ["d0000000050000000140"]),
    (TypedValue(T.LIST, (NULL,) * 255), "d00000010300 0000ff" + "40" * 255, []),
    (TypedValue(T.MAP, ()), "c10100", ["d10000000400000000"]),
    (TypedValue(T.MAP, ((NULL, NULL),)), "c103024040", ["d100000006000000024040"]),
    (TypedValue(T.ARRAY, ()), "e0020040", ["e00200a1"]),
    (TypedValue(T.ARRAY, UINTS), "e00a0270000000010000012c", ["f00000000d0000000270000000010000012c"]),
    (TypedValue(T.DESCRIBED, (TypedValue(T.ULONG, 119), NULL)), "00537740", ["00800000000000000077 40"]),
]  # fmt: skip

# What is wrong, and the bytes of it.
REFUSED = {
    "nothing": "",
    "unknown type": "99",
    "unknown type of known width": "46",
    "constructor without value": "00",
    "descriptor without value": "005377",
    "value cut short": "7000",
    "boolean of two": "5602",
    "string longer than the buffer": "a10261",
    "string of four gigabytes": "b1ffffffff61",
    "list longer than the buffer": "c0020240",
    "list without a count": "c000",
    "list of more items than bytes": "d00000000400ffffff",
    "list with bytes left over": "c003014040",
    "list whose item reaches behind it": "c00301a10561616161",
    "map of an odd count": "c1020140",
    "array without a constructor": "e00100",
    "array of nulls without end": "f000000005ffffffff40",
    "array of empty lists": "e00201" + "45",
    "array of described described": "e00601" + "00530100" + "5301",
    "array of more elements than bytes": "e00502500102",
    "surrogate as character": "730000d800",
    "character above Unicode": "7300110000",
}


@pytest.mark.parametrize(("value", "encoded", "others"), EXAMPLES, ids=[example[1][:12] for example in EXAMPLES])
def test_a_value_has_the_bytes_that_amqp_defines(value: TypedValue, encoded: str, others: list[str]) -> None:
    assert encode_value(value) == bytes.fromhex(encoded)
    for form in (encoded, *others):
        raw = bytes.fromhex(form)
        assert decode_value(raw) == (value, len(raw))


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_what_is_no_value_is_refused(raw: str) -> None:
    with pytest.raises(BadAmqp10):
        decode_value(bytes.fromhex(raw))


def test_so_many_values_in_one_that_a_turn_would_be_long_are_refused() -> None:
    """One message of a stream with a million of them held its readers' node for 1.3 s of processor time."""
    half = TypedValue(ValueType.LIST, (NULL,) * (VALUES_MAX // 2 - 1))
    both = encode_value(TypedValue(ValueType.LIST, (half, half)))
    assert decode_value(both)[1] == len(both)
    with pytest.raises(BadAmqp10, match="values in one"):
        decode_value(encode_value(TypedValue(ValueType.LIST, (half, half, NULL))))


@given(VALUES, st.binary(max_size=3))
def test_a_value_comes_back_as_it_was(value: TypedValue, behind: bytes) -> None:
    raw = encode_value(value)
    assert decode_value(raw + behind) == (value, len(raw))
    if value.type is not ValueType.DESCRIBED:
        assert value_end(raw + behind, 0, len(raw) + len(behind)) == len(raw)


@given(VALUES)
@settings(max_examples=25)
def test_no_prefix_of_a_value_is_one(value: TypedValue) -> None:
    raw = encode_value(value)
    for length in range(len(raw)):
        with pytest.raises(BadAmqp10):
            decode_value(raw[:length])


@given(VALUES)
@settings(max_examples=25)
def test_each_flipped_bit_gives_another_value_or_is_refused(value: TypedValue) -> None:
    raw = bytearray(encode_value(value))
    for bit in range(min(len(raw), 200) * 8):
        raw[bit // 8] ^= 1 << bit % 8
        try:
            decoded, end = decode_value(bytes(raw))
            assert end <= len(raw)
            encode_value(decoded)
        except BadAmqp10:
            pass
        raw[bit // 8] ^= 1 << bit % 8


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        value, end = decode_value(raw)
    except BadAmqp10:
        return
    assert decode_value(encode_value(value))[0] == value or _has_nan(raw)
    assert end <= len(raw)


def _has_nan(raw: bytes) -> bool:
    return b"\x72" in raw or b"\x82" in raw


@pytest.mark.parametrize("opening", [b"\xd0", b"\xd1", b"\xf0", b"\0"])
def test_nesting_is_limited(opening: bytes) -> None:
    allowed = nested(NESTING_MAX, opening)
    value, end = decode_value(allowed)
    assert end == len(allowed)
    assert decode_value(encode_value(value))[0] == value
    with pytest.raises(BadAmqp10, match="within each other"):
        decode_value(nested(NESTING_MAX + 1, opening))
    with pytest.raises(BadAmqp10, match="within each other"):
        decode_value(nested(100_000, b"\0"))


def test_content_that_its_type_cannot_hold_is_refused() -> None:
    for value in (
        TypedValue(T.UBYTE, 256), TypedValue(T.UINT, -1), TypedValue(T.LONG, 2**63), TypedValue(T.FLOAT, 1e300),
        TypedValue(T.DECIMAL32, b"12345"), TypedValue(T.STRING, "\ud800"), TypedValue(T.ARRAY, (NULL,)),
        TypedValue(T.ARRAY, (TypedValue(T.UINT, 1), TypedValue(T.ULONG, 1))),
    ):  # fmt: skip
        with pytest.raises(BadAmqp10):
            encode_value(value)


def test_what_is_nested_too_deeply_is_not_encoded() -> None:
    value = NULL
    for _ in range(NESTING_MAX + 1):
        value = TypedValue(T.LIST, (value,))
    with pytest.raises(BadAmqp10, match="within each other"):
        encode_value(value)

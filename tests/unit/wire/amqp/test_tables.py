"""Tables and property lists: our bytes are what another implementation writes, and nothing a client sends breaks us."""

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.amqp.tables import (
    NESTING_MAX,
    PROPERTIES,
    Long,
    TableError,
    Timestamp,
    decode_properties,
    decode_table,
    decode_value,
    encode_properties,
    encode_table,
    encode_value,
    join_properties,
    join_table,
    property_span,
    split_properties,
    split_table,
)

NAMES = st.text(max_size=60)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.integers(0, 2**64 - 1).map(Timestamp)
    | st.builds(lambda n, scale: Decimal(n).scaleb(-scale), st.integers(-(2**31), 2**31 - 1), st.integers(0, 20))
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=6)
PROPERTY_LISTS = st.fixed_dictionaries(
    {},
    optional={
        "headers": TABLES,
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**64 - 1).map(Timestamp),
        "correlation_id": NAMES,
        "expiration": NAMES,
        "cluster_id": NAMES,
    },
)


@given(TABLES)
def test_a_table_comes_back_as_it_was(table: dict[str, Any]) -> None:
    encoded = encode_table(table)
    assert decode_table(encoded) == (table, len(encoded))
    assert decode_table(b"xy" + encoded, 2) == (table, len(encoded) + 2)
    assert join_table(split_table(encoded)) == encoded


@given(st.dictionaries(st.text(max_size=20), st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=20)))
def test_bytes_are_those_of_another_implementation(table: dict[str, Any]) -> None:
    theirs = pamqp.encode.field_table(table)
    assert decode_table(theirs)[0] == table
    assert pamqp.decode.field_table(encode_table(table))[1] == table


def test_every_letter_is_read() -> None:
    fields: list[tuple[bytes, Any]] = [
        (b"t\x02", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xff", -1),
        (b"i\xff\xff\xff\xff", 2**32 - 1),
        (b"l" + b"\xff" * 8, -1),
        (b"L" + b"\xff" * 8, -1),
        (b"f" + struct.pack(">f", 1.5), 1.5),
        (b"d" + struct.pack(">d", 1.1), 1.1),
        (b"D\x02" + struct.pack(">i", -314), Decimal("-3.14")),
        (b"S\0\0\0\x02\xc3\xa4", "ä"),
        (b"S\0\0\0\x01\xff", b"\xff"),
        (b"x\0\0\0\x01a", b"a"),
        (b"T" + (2**63).to_bytes(8, "big"), Timestamp(2**63)),
        (b"A\0\0\0\x02VV", [None, None]),
        (b"F\0\0\0\x03\x01aV", {"a": None}),
        (b"V", None),
    ]
    for raw, value in fields:
        table = join_table({"k": raw})
        found = decode_table(table)[0]["k"]
        assert found == value and type(found) is type(value), raw
        assert split_table(table) == {"k": raw}


def test_timestamps_are_what_other_libraries_call_dates() -> None:
    encoded = pamqp.encode.field_table({"when": datetime(2026, 1, 2, tzinfo=UTC)})
    value = decode_table(encoded)[0]["when"]
    assert value == 1767312000 and isinstance(value, Timestamp)
    assert encode_table({"when": value}) == encoded


def test_of_two_fields_with_one_name_the_first_counts() -> None:
    fields = b"\x01aI\0\0\0\x01\x01aI\0\0\0\x02"
    assert decode_table(struct.pack(">I", len(fields)) + fields)[0] == {"a": 1}


def nested(depth: int, letter: bytes) -> bytes:
    value = b"V"
    for _ in range(depth - 1):
        content = value if letter == b"A" else b"\x01k" + value
        value = letter + struct.pack(">I", len(content)) + content
    return join_table({"k": value})


@pytest.mark.parametrize("letter", [b"A", b"F"])
def test_nesting_is_limited(letter: bytes) -> None:
    decode_table(nested(NESTING_MAX, letter))
    for depth in (NESTING_MAX + 1, 100_000 // 6):
        with pytest.raises(TableError, match=f"more than {NESTING_MAX} tables within each other"):
            decode_table(nested(depth, letter))


@pytest.mark.parametrize("letter", [b"A", b"F"])
@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 500, 100_000 // 6])
def test_what_is_nested_too_deep_to_be_read_is_passed_on_with_all_beside_it(letter: bytes, depth: int) -> None:
    """Its message lost all of its headers when it died."""
    deep = split_table(nested(depth, letter))["k"]
    fields = {"before": b"V", "deep": deep, "after": b"t\x01"}
    assert split_table(join_table(fields)) == fields


def test_what_is_nested_too_deep_ends_within_its_table() -> None:
    table = join_table({"k": split_table(nested(NESTING_MAX + 1, b"F"))["k"]})
    cut = struct.pack(">I", len(table) - 5) + table[4:-1]
    with pytest.raises(TableError, match="malformed table"):
        split_table(cut)


def test_nesting_is_limited_when_writing() -> None:
    value: Any = None
    for _ in range(NESTING_MAX):
        value = [value]
    with pytest.raises(TableError, match="within each other"):
        encode_table({"k": value})


@given(st.binary(max_size=60))
def test_garbage_is_a_table_or_one_clear_error(garbage: bytes) -> None:
    for read in (decode_table, split_table, split_properties, decode_properties):
        try:
            read(garbage)
        except TableError as error:
            assert str(error).startswith("malformed ")


@given(TABLES, st.data())
def test_a_table_cut_anywhere_is_refused(table: dict[str, Any], data: st.DataObject) -> None:
    encoded = encode_table(table)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(TableError):
        decode_table(encoded[:cut])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63, "integers have 64 bits, and 9223372036854775808 does not fit"),
        (object, "a type has no place in a table"),
        (Decimal(2**40), "decimals have"),
        (Decimal("NaN"), "decimals have"),
        ({"k" * 256: 1}, "a short string holds at most 255 bytes, not 256"),
        (Timestamp(-1), "a timestamp has 64 bits and no sign"),
    ],
)
def test_what_has_no_place_in_a_table_is_named(value: Any, text: str) -> None:
    with pytest.raises(TableError, match=text):
        encode_value(value)


@given(PROPERTY_LISTS)
def test_properties_come_back_as_they_were(properties: dict[str, Any]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    assert join_properties(split_properties(encoded)) == encoded
    for name, raw in split_properties(encoded).items():
        start, end = property_span(encoded, name)
        assert encoded[start:end] == raw


def test_properties_stand_in_the_order_of_their_flags() -> None:
    encoded = encode_properties({"app_id": "app", "content_type": "text"})
    assert encoded == b"\x80\x08" + b"\x04text" + b"\x03app"
    assert list(decode_properties(encoded)) == ["content_type", "app_id"]
    assert len(PROPERTIES) == 14


@pytest.mark.parametrize(
    ("props", "text"),
    [
        (b"", "0 bytes where flags should be"),
        (b"\x00\x01\x00\x00", "unknown flags 0x0001"),
        (b"\x80\x00", "content_type at byte 2 reaches beyond 2 bytes"),
        (b"\x80\x00\x05abc", "content_type at byte 2 reaches beyond 6 bytes"),
        (b"\x20\x00\x00\x00\x00\x09", "headers at byte 2 of 9 bytes, but 0 follow"),
        (b"\x00\x00x", "1 bytes left over"),
    ],
)
def test_malformed_properties_say_where(props: bytes, text: str) -> None:
    with pytest.raises(TableError, match=text):
        split_properties(props)


def test_text_that_is_not_utf8_is_given_back_unchanged() -> None:
    props = b"\x04\x00\x02\xff\xfe"
    assert encode_properties(decode_properties(props)) == props


def test_unknown_properties_are_refused() -> None:
    with pytest.raises(TableError, match="no such message property: colour"):
        encode_properties({"colour": "red"})
    with pytest.raises(TableError, match="priority is between 0 and 255, not 300"):
        encode_properties({"priority": 300})


def test_a_long_is_written_with_eight_bytes_and_read_as_the_number_it_is() -> None:
    assert encode_value(Long(1)) == b"l\0\0\0\0\0\0\0\x01"
    assert decode_value(encode_value(Long(-1)))[0] == -1

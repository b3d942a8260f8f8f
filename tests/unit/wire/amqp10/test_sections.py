"""wire/amqp10/sections.py: messages come back section by section, and what is none is refused with one error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.typed_examples import PAIRS, SCALARS, VALUES
from wire.amqp10.sections import (
    HeaderSection,
    PropertiesSection,
    SectionCode,
    Sections,
    decode_sections,
    encode_section,
    encode_sections,
    spans,
)
from wire.amqp10.typed_values import NULL, BadAmqp10, TypedValue, ValueType

T = ValueType
DATA, SEQUENCE, VALUE = SectionCode.DATA, SectionCode.AMQP_SEQUENCE, SectionCode.AMQP_VALUE

binaries = st.binary(max_size=40).map(lambda raw: TypedValue(T.BINARY, raw))
lists = st.lists(VALUES, max_size=3).map(lambda values: TypedValue(T.LIST, tuple(values)))
bodies = (
    st.tuples(st.just(DATA), st.lists(binaries, max_size=3).map(tuple))
    | st.tuples(st.just(SEQUENCE), st.lists(lists, min_size=1, max_size=2).map(tuple))
    | st.tuples(st.just(VALUE), VALUES.map(lambda value: (value,)))
)
messages = st.builds(
    lambda before, properties, application, body, footer: Sections(*before, properties, application, *body, footer),
    st.tuples(st.none() | st.builds(HeaderSection, *[SCALARS] * 5), st.none() | PAIRS, st.none() | PAIRS),
    st.none() | st.builds(PropertiesSection, *[SCALARS] * 13),
    st.none() | PAIRS,
    bodies,
    st.none() | PAIRS,
)

PLAIN = bytes.fromhex("005370c006054240404143 005375a005") + b"hello"
NAMED = b"\0\xa3\x10amqp:data:binary\xa0\1x"

# What is wrong, and the bytes of it.
REFUSED = {
    "a value that is no section": "a0026162",
    "raw text": b"hello".hex(),
    "unknown code": "00537945",
    "unknown name": b"\0\xa3\1x\x45".hex(),
    "descriptor of another type": "00a1" + b"\x10amqp:data:binary\xa0\0".hex(),
    "section without value": "005375",
    "header that is a map": "005370c10100",
    "header of six fields": "005370c00706" + "40" * 6,
    "properties of fourteen fields": "005373c00f0e" + "40" * 14,
    "annotations that are a list": "00537245",
    "application properties that are null": "00537440",
    "data that is text": "005375a10161",
    "sequence that is binary": "005376a00161",
    "two headers": "00537045" * 2,
    "header behind properties": "0053734500537045",
    "two values": "00537740" * 2,
    "data and a value": "005375a000" + "00537740",
    "a footer before the body": "005378c10100" + "005375a000",
    "bytes behind the last section": "005375a00000",
    "described data": "005375" + "005301a000",
}


def test_a_plain_message_is_read() -> None:
    true, false, zero = TypedValue(T.BOOLEAN, True), TypedValue(T.BOOLEAN, False), TypedValue(T.UINT, 0)
    header = HeaderSection(false, NULL, NULL, true, zero)
    assert decode_sections(PLAIN) == Sections(header, body=(TypedValue(T.BINARY, b"hello"),))
    assert encode_sections(decode_sections(PLAIN)) == PLAIN


def test_nothing_is_a_message_without_sections() -> None:
    assert decode_sections(b"") == Sections()
    assert encode_sections(Sections()) == b""


def test_sections_may_be_named_by_symbols() -> None:
    assert decode_sections(NAMED) == Sections(body=(TypedValue(T.BINARY, b"x"),))


def test_fields_that_are_null_at_the_end_are_left_out() -> None:
    properties = PropertiesSection(subject=TypedValue(T.STRING, "s"))
    assert encode_sections(Sections(properties=properties)) == bytes.fromhex("005373c0070440 4040a10173")


@given(messages)
def test_a_message_comes_back_as_it_was(message: Sections) -> None:
    raw = encode_sections(message)
    assert decode_sections(raw) == message
    assert encode_sections(decode_sections(raw)) == raw
    assert b"".join(raw[span.start : span.end] for span in spans(raw)) == raw


@given(messages)
@settings(max_examples=25)
def test_a_prefix_is_a_message_only_where_a_section_ends(message: Sections) -> None:
    raw = encode_sections(message)
    whole = {0, *(span.end for span in spans(raw))}
    for length in range(len(raw)):
        if length not in whole:
            with pytest.raises(BadAmqp10):
                decode_sections(raw[:length])


@given(messages)
@settings(max_examples=25)
def test_each_flipped_bit_gives_another_message_or_is_refused(message: Sections) -> None:
    raw = bytearray(encode_sections(message))
    for bit in range(min(len(raw), 200) * 8):
        raw[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(BadAmqp10):
            encode_sections(decode_sections(bytes(raw)))
        raw[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_is_refused(raw: str) -> None:
    with pytest.raises(BadAmqp10):
        decode_sections(bytes.fromhex(raw))


def test_a_body_that_no_section_holds_is_not_encoded() -> None:
    for message in (
        Sections(body_code=VALUE, body=(NULL, NULL)),
        Sections(body_code=DATA, body=(NULL,)),
        Sections(body_code=SectionCode.HEADER, body=(NULL,)),
    ):
        with pytest.raises(BadAmqp10):
            encode_sections(message)


def test_a_section_is_encoded_alone() -> None:
    assert encode_section(SectionCode.DATA, TypedValue(T.BINARY, b"")) == bytes.fromhex("005375a000")

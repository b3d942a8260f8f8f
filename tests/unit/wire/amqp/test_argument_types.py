"""Values on the wire, and what is said when they are cut short."""

from __future__ import annotations

from typing import Any

import pytest

from wire.amqp import argument_types
from wire.amqp.argument_types import MalformedArguments


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        ("octet", 255, b"\xff"),
        ("short", 258, b"\x01\x02"),
        ("long", 1, b"\x00\x00\x00\x01"),
        ("longlong", 2**63, b"\x80" + bytes(7)),
        ("shortstr", "é", b"\x02\xc3\xa9"),
        ("longstr", b"\xff\x00", b"\x00\x00\x00\x02\xff\x00"),
        ("table", {"k": True}, b"\x00\x00\x00\x04\x01kt\x01"),
    ],
)
def test_each_type_has_its_bytes(kind: str, value: Any, wire: bytes) -> None:
    read, write = argument_types.TYPES[kind]
    assert write(value) == wire
    assert read(b"??" + wire + b"!", 2) == (value, 2 + len(wire))
    for end in range(len(wire)):
        with pytest.raises(MalformedArguments):
            read(wire[:end], 0)


def test_names_are_utf8() -> None:
    with pytest.raises(MalformedArguments, match="Malformed UTF-8 in shortstr"):
        argument_types.read_shortstr(b"\x02\xff\xfe", 0)


def test_nesting_has_an_end() -> None:
    table = b"\x00\x00\x00\x00"
    for _ in range(40):
        fields = b"\x01kF" + table
        table = len(fields).to_bytes(4, "big") + fields
    with pytest.raises(MalformedArguments, match="more than 32 tables within each other"):
        argument_types.read_table(table, 0)


def test_a_text_too_long_for_a_short_string_is_our_own_fault() -> None:
    with pytest.raises(AssertionError, match="256 bytes"):
        argument_types.write_shortstr("x" * 256)

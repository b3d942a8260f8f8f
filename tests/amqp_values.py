"""Whatever AMQP lets in, as bytes on the wire: field tables and property lists over the whole grammar.

Made of letters and bytes rather than of Python values, for what breaks listings is just what no Python client would send.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from wire.amqp.tables import NESTING_MAX, PROPERTIES, Timestamp

SHORTSTR_BYTES_MAX = 255


def sized(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def short(raw: bytes) -> bytes:
    return bytes((len(raw),)) + raw


def field_table(*fields: tuple[bytes, bytes]) -> bytes:
    """A table of names and values, the values with their letters."""
    return sized(b"".join(short(name) + value for name, value in fields))


def nested(levels: int, letter: bytes) -> bytes:
    """A value within so many tables (`F`) or arrays (`A`)."""
    value = b"S" + sized(b"x")
    for _ in range(levels):
        value = letter + (field_table((b"k", value)) if letter == b"F" else sized(value))
    return value


# UTF-8 and what is none; control characters, right-to-left marks and names that end like fields with a unit.
TEXTS = (
    st.binary(max_size=40)
    | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
    | st.sampled_from(
        [b"\xff\xfe", b"[bold]", b"\x1b[31m", "\u202e\x9b".encode(), b"at_ms", b"n_bytes", b"Not UTF-8, base64 is: "]
    )
)
NAMES = TEXTS | st.binary(min_size=SHORTSTR_BYTES_MAX, max_size=SHORTSTR_BYTES_MAX)
_WIDTHS = {b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"u": 2, b"I": 4, b"i": 4, b"f": 4, b"l": 8, b"L": 8, b"d": 8, b"D": 5}
_EDGES = {
    b"f": [struct.pack(">f", number) for number in (float("nan"), float("inf"), float("-inf"), 3.4e38)],
    b"d": [struct.pack(">d", number) for number in (float("nan"), float("inf"), float("-inf"), 1e308, -0.0)],
    b"T": [struct.pack(">Q", moment) for moment in (0, 253_402_300_800, 2**62, 2**63 - 1, 2**63, 2**64 - 1)],
    b"D": [b"\xff\x7f\xff\xff\xff", b"\x00\x80\x00\x00\x00"],
}


def _of_width(letter: bytes, width: int) -> st.SearchStrategy[bytes]:
    return (st.binary(min_size=width, max_size=width) | st.sampled_from(_EDGES.get(letter, [bytes(width)]))).map(
        lambda raw: letter + raw
    )


_LEAVES = (
    st.one_of([_of_width(letter, width) for letter, width in {**_WIDTHS, b"T": 8}.items()])
    | st.just(b"V")
    | st.builds(lambda letter, raw: letter + sized(raw), st.sampled_from([b"S", b"x"]), TEXTS)
    | st.builds(nested, st.integers(1, NESTING_MAX - 1), st.sampled_from([b"F", b"A"]))
)
VALUES: st.SearchStrategy[bytes] = _LEAVES | st.recursive(
    st.builds(lambda letter, raw: letter + sized(raw), st.sampled_from([b"S", b"x"]), TEXTS) | st.just(b"V"),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: b"A" + sized(b"".join(items)))
        | st.lists(st.tuples(NAMES, inner), max_size=3).map(lambda fields: b"F" + field_table(*fields))
    ),
    max_leaves=8,
)
TABLES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(lambda fields: field_table(*fields))

_PROPERTY: dict[str, st.SearchStrategy[bytes]] = {
    **{name: NAMES.map(short) for name in PROPERTIES},
    "headers": TABLES | st.binary(max_size=20).map(sized),  # the edge looks at the size of headers, not into them
    "delivery_mode": st.binary(min_size=1, max_size=1),
    "priority": st.binary(min_size=1, max_size=1),
    "timestamp": st.binary(min_size=8, max_size=8) | st.sampled_from(_EDGES[b"T"]),
    "expiration": (st.sampled_from([b"", b"60000", b"9" * 60, "\u00b2".encode(), b"-1"]) | NAMES).map(short),
}
PROPERTY_LISTS = st.fixed_dictionaries({}, optional=_PROPERTY)  # for wire.amqp.tables.join_properties


def json_carries(value: Any) -> bool:
    """Whether a value comes back from JSON as what it was; the others come back by RabbitMQ's conventions."""
    if isinstance(value, dict):
        return all(map(json_carries, value.values()))
    if isinstance(value, list):
        return all(map(json_carries, value))
    if isinstance(value, bytes):
        return False
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    return not isinstance(value, (Timestamp, Decimal))

"""Headers and arguments cross the wire and come back as they were; what cannot is refused with its value."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leveret
from leveret.message import from_wire, to_wire
from leveret.v1 import message_pb2
from leveret.values import from_table, to_table

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
LEAVES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXT | st.binary()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_table_survives(table: dict[str, Any]) -> None:
    wire = to_table(table).SerializeToString()
    assert from_table(message_pb2.Table.FromString(wire)) == table


def test_moments_and_decimals_survive() -> None:
    table = {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "price": Decimal("19.90")}
    returned = from_table(to_table(table))
    assert returned == table
    assert str(returned["price"]) == "19.90"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (object, TypeError, "a type cannot be a header or an argument"),
        ({1, 2}, TypeError, "a set cannot be"),
        (datetime(2026, 1, 1), ValueError, "has no time zone"),
        (Decimal("NaN"), ValueError, "is no number"),
    ],
)
def test_what_has_no_place_is_refused(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        to_table({"key": value})


def test_a_message_survives_with_all_its_properties() -> None:
    message = leveret.Message(
        b"body",
        headers={"a": [1, {"b": None}]},
        persistent=False,
        content_type="text/plain",
        content_encoding="gzip",
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration_ms=0,
        message_id="m",
        timestamp=datetime(2026, 1, 2, tzinfo=UTC),
        type="t",
        user_id="u",
        app_id="a",
        cluster_id="x",
    )
    assert from_wire(to_wire(message)) == message


def test_bytes_are_a_persistent_message_without_properties() -> None:
    assert to_wire(b"x") == message_pb2.Message(body=b"x")
    with pytest.raises(TypeError, match=r"publish bytes or a leveret\.Message, not a str: 'text'"):
        to_wire("text")  # type: ignore[arg-type]

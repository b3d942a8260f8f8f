"""Documents of definitions as JSON: read in steps, the same as in one, and refused with the place where they are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.catalog.definitions.definitions_text import ENTRY_CHARACTERS_MAX, PIECE_CHARACTERS, collect
from broker.errors import PreconditionFailed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def collected(raw: bytes) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in collect(raw, document):
        pass
    return document


@given(document=st.dictionaries(st.text(), VALUES, max_size=5), indent=st.sampled_from([None, 2]))
def test_it_is_the_same_as_read_in_one_go(document: dict[str, Any], indent: int | None) -> None:
    assert collected(json.dumps(document, indent=indent).encode()) == document
    assert collected(b"\xef\xbb\xbf" + json.dumps(document, ensure_ascii=False).encode()) == document


@pytest.mark.parametrize("length", [PIECE_CHARACTERS - 1, PIECE_CHARACTERS, PIECE_CHARACTERS + 1, 3 * PIECE_CHARACTERS])
def test_an_entry_is_whole_however_long_it_is(length: int) -> None:
    for value in ("x" * length, int("1" * min(length, 18)), ["y" * length, 1, {"z": length}], {"k": "ü" * length}):
        document = {"a": value, "b": [value, value]}
        assert collected(json.dumps(document).encode()) == document


def test_a_list_is_read_in_as_many_steps_as_it_has_entries() -> None:
    document: dict[str, Any] = {}
    seen = [len(document["queues"]) for _ in collect(b'{"queues": [1, 2, 3]}', document)]
    assert seen == [1, 2, 3, 3]


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"nonsense", b"[]", b"[" * 100_000, b'"\xff"', b"{", b'{"a"', b'{"a":', b'{"a": 1', b'{"a": 1,}', b'{"a": [1,]}',
        b'{"a": [1', b'{"a": NaN}', b'{"a": 1} {"b": 2}', b'{"a": "\\ud800"}', b'{1: 2}', b'{"a": ' + b"[" * 20_000 + b"}",
        b'{"queues": [{"name": "x}]}', b'{"a": "\n"}',
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(PreconditionFailed, match="definitions are "):
        collected(raw)


def test_an_entry_is_bounded() -> None:
    with pytest.raises(PreconditionFailed, match="has more than 262144 characters"):
        collected(b'{"queues": ["' + b"x" * ENTRY_CHARACTERS_MAX + b'", 1]}')

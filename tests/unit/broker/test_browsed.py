"""Browsed messages as nodes tell each other of them."""

from __future__ import annotations

import pytest

from broker.messages.browsed import BYTES_MAX, COUNT_MAX, Browsed, bounded, decode, encode
from broker.names import NAME_BYTES_MAX

SOME = [
    Browsed("", "key", b"content", True),
    Browsed("x" * NAME_BYTES_MAX, "caf\udce9", b"", False, True, 3, 1 << 31),
    Browsed("", "of a stream", b"content", True, offset=1 << 62),
]


def test_what_was_written_is_read() -> None:
    assert decode(encode(SOME)) == SOME
    assert decode(encode([])) == []


def test_no_part_of_it_is_taken_for_less() -> None:
    data = encode(SOME)
    whole = {len(encode(SOME[:count])) for count in range(len(SOME) + 1)}
    for end in set(range(len(data))) - whole:
        with pytest.raises(ValueError, match="message"):
            decode(data[:end])


def test_an_answer_is_bounded() -> None:
    assert len(bounded([SOME[0]] * 5, 3)) == 3
    assert len(bounded([SOME[0]] * (COUNT_MAX + 1), COUNT_MAX + 1)) == COUNT_MAX
    large = Browsed("", "", bytes(BYTES_MAX), True)
    assert bounded([large, large], 2) == [large]
    assert bounded([large._replace(content=bytes(BYTES_MAX + 1))] * 2, 2) == [
        large._replace(content=bytes(BYTES_MAX + 1))
    ]

"""Filters of chunks: no wanted value is ever missed, and the bits are the same for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.chunks.bloom import FILTER_BYTES_MAX, FILTER_BYTES_MIN, WantedValues, hash_of, make_filter

values = st.frozensets(st.binary(max_size=20), max_size=12)
sizes = st.integers(FILTER_BYTES_MIN, FILTER_BYTES_MAX)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"", 0xEFD01F60BA992926), (b"eu", 0xAB53F147CA0B949F), (b"region-1", 0x8C83E458F9702D7D)],
)
def test_the_hash_stays_as_it_is(value: bytes, expected: int) -> None:
    assert hash_of(value) == expected


def test_the_bits_stay_where_they_are() -> None:
    assert make_filter([b"eu", b"us"], True, 16).hex() == "01000000000800000000108000004000"


@given(values, st.booleans(), sizes, values, st.booleans())
def test_a_chunk_with_a_wanted_message_is_never_skipped(
    stored: frozenset[bytes], has_unfiltered: bool, size: int, wanted: frozenset[bytes], match_unfiltered: bool
) -> None:
    chunk_filter = make_filter(stored, has_unfiltered or not stored, size)
    if stored & wanted or (match_unfiltered and (has_unfiltered or not stored)):
        assert WantedValues(wanted, match_unfiltered).may_match(chunk_filter)


def test_no_values_make_no_filter_and_that_means_messages_without_a_value() -> None:
    assert make_filter([], True, 16) == make_filter([], False, 255) == b""
    assert WantedValues([b"eu"], True).may_match(b"")
    assert not WantedValues([b"eu"], False).may_match(b"")


def test_messages_without_a_value_are_told_from_those_with_one() -> None:
    only, both = make_filter([b"eu"], False, 16), make_filter([b"eu"], True, 16)
    assert not WantedValues([b"us"], True).may_match(only)
    assert WantedValues([b"us"], True).may_match(both)
    assert not WantedValues([b"us"], False).may_match(both)


def test_one_reader_sees_filters_of_several_sizes() -> None:
    """A policy changes the size while the stream is used."""
    wanted = WantedValues([b"eu"], False)
    for size in (16, 64, 16, 255, 17):
        assert wanted.may_match(make_filter([b"eu"], False, size))
        assert not wanted.may_match(make_filter([b"us"], False, size))


@pytest.mark.parametrize(("size", "count", "wrong_max"), [(16, 10, 0.05), (64, 50, 0.06), (255, 200, 0.06)])
def test_few_chunks_are_sent_in_vain(size: int, count: int, wrong_max: float) -> None:
    chunk_filter = make_filter((b"in-%d" % at for at in range(count)), False, size)
    wrong = sum(WantedValues([b"out-%d" % at], False).may_match(chunk_filter) for at in range(5_000))
    assert wrong / 5_000 <= wrong_max

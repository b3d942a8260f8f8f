"""The records that count what the log does not have, and bytes that are none."""

from __future__ import annotations

import pytest

from broker.unlogged import Unlogged
from storage.history.count_records import NAME_BYTES_MAX, CountRow, decode_counts, encode_counts

ROWS = [
    CountRow(7, Unlogged.RETURNED, 3, 300, "orders", "x.y"),
    CountRow(0, Unlogged.DEAD_UNROUTABLE, 1 << 40, 0, "", "é\udcff"),
]
# As they were first written, and are to be read for ever.
OLD = bytes.fromhex(
    "e8030000" "07000000" "0300000000000000" "2c01000000000000" "02" "06" "03" "6f7264657273" "782e79"
)  # fmt: skip


def test_counts_are_read_as_they_were_written() -> None:
    assert decode_counts(encode_counts(950, ROWS)) == (950, ROWS)
    assert decode_counts(encode_counts(0, [])) == (0, [])


def test_records_of_the_first_version_are_read() -> None:
    assert encode_counts(1_000, ROWS[:1]) == OLD
    assert decode_counts(memoryview(OLD)) == (1_000, ROWS[:1])


def test_a_name_longer_than_a_name_of_amqp_is_cut() -> None:
    _, (row,) = decode_counts(encode_counts(0, [ROWS[0]._replace(exchange="x" * 300, routing_key="é" * 200)]))
    assert (row.exchange, len(row.routing_key.encode("utf-8", "surrogateescape"))) == (
        "x" * NAME_BYTES_MAX,
        NAME_BYTES_MAX,
    )


def test_what_is_cut_off_is_no_record_of_counts() -> None:
    payload = encode_counts(5, ROWS)
    ends = {len(encode_counts(5, ROWS[:rows])) for rows in range(3)}
    for length in set(range(len(payload))) - ends:
        with pytest.raises(ValueError, match="counts"):
            decode_counts(payload[:length])

"""native/event_buckets.py: what `events` finds in one piece after another, by buckets of queues, and commits beside it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native import compiled_twin
from native.columns import rows_of
from native.event_buckets import EventBucketsPlain
from native.log_columns import FilePlace, events_plain, records_plain
from native.log_tables import EVENTS, FILE_BITS, GATHERED, RECORDS
from storage.record import Kind
from tests.unit.native.test_log_columns import (
    ENQUEUED,
    FILE,
    GROUP,
    OTHERS_GROUPS,
    PAYLOAD_MAX,
    WHOLE,
    Log,
    a_log,
    a_record,
    entries,
    op,
)

BUCKETS = 4
TIME = 1_700_000_000_000_000
_TWIN = compiled_twin("log_columns")
FORMS = [
    pytest.param(EventBucketsPlain, id="plain"),
    *([] if _TWIN is None else [pytest.param(_TWIN.EventBuckets, id="compiled")]),
]


def a_log_with_commits() -> bytes:
    commits = [a_record(Kind.RAFT_COMMIT, group, 31, b"", term=5) for group in (GROUP, GROUP + 1, 2**64 - 1)]
    return b"".join((commits[0], a_log(), *commits))


def take(buckets: Any, data: bytes, base: int = 0) -> None:
    rows, columns, *_ = records_plain(data, 0, len(data), PAYLOAD_MAX, FilePlace(base))
    buckets.take(data, base, (rows, columns), FILE, OTHERS_GROUPS)


def gathered(buckets: Any) -> list[list[list[dict[str, Any]]]]:
    """The rows of the tables of each bucket."""
    return [[plain_rows(table) for table in buckets.tables(number)] for number in range(BUCKETS)]


def plain_rows(table: Any) -> list[dict[str, Any]]:
    return [row | {"data": bytes(row["data"])} for row in rows_of(GATHERED, table)]


def told(data: bytes, base: int = 0) -> list[dict[str, Any]]:
    """What `events` says of a piece, as rows of GATHERED."""
    rows, columns, *_ = records_plain(data, 0, len(data), PAYLOAD_MAX, FilePlace(base))
    found = rows_of(EVENTS, events_plain(data, base, (rows, columns), FILE, OTHERS_GROUPS))
    return [row | {"written": (FILE << FILE_BITS) + row.pop("offset"), "file": FILE} for row in found]


def flat(tables: Sequence[Sequence[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [row for bucket in tables for table in bucket for row in table]


@pytest.mark.parametrize("form", FORMS)
class TestEventBuckets:
    def test_a_bucket_has_the_events_of_its_queues_in_their_order(self, form: Any) -> None:
        data, buckets = a_log(), form(BUCKETS)
        take(buckets, data)
        take(buckets, data, base=len(data))
        both = told(data) + told(data, len(data))
        for number, tables in enumerate(gathered(buckets)):
            assert flat([tables]) == [row for row in both if row["queue"] % BUCKETS == number]

    def test_commits_of_all_groups_are_a_table_of_their_own(self, form: Any) -> None:
        buckets = form(BUCKETS)
        take(buckets, a_log_with_commits())
        commits = [table for bucket in gathered(buckets) for table in bucket if table[0]["kind"] == Kind.RAFT_COMMIT]
        assert [[row["queue"] for row in table] for table in commits] == [[GROUP, GROUP], [GROUP + 1, -1]]
        said = {"place": 0, "term": 5, "kind": Kind.RAFT_COMMIT, "at": None, "first": 31, "data": b"", "size": 0}
        assert commits[0][0] == {"queue": GROUP, **said, "written": 0, "file": FILE}

    def test_there_is_room_for_any_number_of_rows_of_any_size(self, form: Any) -> None:
        log = Log()
        for index in range(3_000):
            log.add(entries(GROUP + index % 3, index, [op(ENQUEUED), b"x" * (index % 50)]))
        buckets = form(BUCKETS)
        take(buckets, log.bytes)
        found = gathered(buckets)
        assert [len(flat([tables])) for tables in found] == [
            sum(row["queue"] % BUCKETS == number for row in told(log.bytes)) for number in range(BUCKETS)
        ]
        assert sorted(flat(found), key=lambda row: (row["written"], row["place"])) == told(log.bytes)

    def test_what_was_taken_is_not_there_again_and_leaves_nothing_behind(self, form: Any) -> None:
        timed, untimed = Log(), Log()
        timed.mark(time_us=TIME)
        for log in (timed, untimed):
            log.add(*(entries(GROUP, index, [op(ENQUEUED)]) for index in range(300)))
        buckets = form(BUCKETS)
        for log in (timed, untimed, timed):
            rows, columns, *_ = records_plain(log.bytes, 0, len(log.bytes), PAYLOAD_MAX, WHOLE)
            buckets.take(log.bytes, 0, (rows, columns), FILE, OTHERS_GROUPS)
            assert {row["at"] for row in flat(gathered(buckets))} == {TIME if log is timed else None}
            assert len(flat(gathered(buckets))) == 300
            buckets.clear()
            assert (flat(gathered(buckets)), buckets.size) == ([], 0)

    def test_who_still_looks_at_rows_does_not_keep_others_from_coming(self, form: Any) -> None:
        buckets = form(BUCKETS)
        take(buckets, entries(GROUP, 1, [op(ENQUEUED)]))
        looked_at = buckets.tables(GROUP % BUCKETS)
        take(buckets, b"".join(entries(GROUP, index, [op(ENQUEUED)]) for index in range(2, 2_000)))
        assert len(flat(gathered(buckets))) == 1_999
        assert looked_at[0][0] == 1
        buckets.clear()

    def test_the_size_is_that_of_all_that_waits(self, form: Any) -> None:
        buckets = form(BUCKETS)
        assert buckets.size == 0
        take(buckets, a_log_with_commits())
        rows = flat(gathered(buckets))
        assert buckets.size == 72 * len(rows) + sum(len(row["data"]) for row in rows)

    def test_a_record_that_is_not_in_the_piece_is_refused(self, form: Any) -> None:
        data = a_log()
        rows, columns, *_ = records_plain(data, 0, len(data), PAYLOAD_MAX, FilePlace(0))
        with pytest.raises(ValueError, match="is not in the"):
            form(BUCKETS).take(data[:-1], 0, (rows, columns), FILE, OTHERS_GROUPS)


@pytest.mark.skipif(_TWIN is None, reason="nothing was compiled")
class TestBothForms:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8), st.integers(1, 1 << 62))
    def test_damaged_payloads_say_the_same(self, changes: list[tuple[int, int]], base: int) -> None:
        """The records were found before their payloads were damaged, so that their checksums keep none out."""
        data = a_log_with_commits()
        rows, columns, *_ = records_plain(data, 0, len(data), PAYLOAD_MAX, FilePlace(base))
        found = rows_of(RECORDS, (rows, columns))
        damaged = bytearray(data)
        for at, value in changes:
            record = found[at % len(found)]
            if record["size"]:
                damaged[record["offset"] - base + 32 + at % record["size"]] = value
        said = []
        assert _TWIN is not None
        for form in (EventBucketsPlain, _TWIN.EventBuckets):
            buckets = form(BUCKETS)
            buckets.take(bytes(damaged), base, (rows, columns), FILE, struct.pack("<Q", 7))
            said.append((gathered(buckets), buckets.size))
        assert said[0] == said[1]

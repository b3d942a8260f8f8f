"""native/log_tally.py: what records say is counted, wherever the buffers they are in were cut."""

from __future__ import annotations

import struct
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import compiled_twin, log_tally
from native.log_tally import LogTallyPlain
from native.record_scan import seal
from storage.record import Kind, Mark, encode_mark

_TWIN = compiled_twin("log_tally")
FORMS = [pytest.param(LogTallyPlain, id="plain")]
if _TWIN is not None:
    FORMS.append(pytest.param(_TWIN.LogTally, id="compiled"))

LOG_ID = b"log of the tests"


def record(kind: int, writer: int, index: int, payload: bytes) -> bytes:
    return bytes(seal([payload], kind, 0, 0, writer, index, 1)) + payload


def told(tally: Any) -> dict[str, object]:
    names = ("first_us", "last_us", "commits", "queues", "names", "rows")
    return {name: getattr(tally, name) for name in names} | {"writers": tally.writers()}


def published(queues: list[int]) -> bytes:
    pairs = b"".join(struct.pack("<QQ", queue, 5) for queue in queues)
    return struct.pack("<HHBBIQq", 30 + len(pairs), len(queues), 0, 0, 1, 3, -1) + pairs + b"\0\0abc"


ids = st.sampled_from([0, 1, 7, 8, 2**63, 2**64 - 1])
payloads = st.one_of(
    st.binary(max_size=40),
    st.lists(ids, max_size=4).map(published),
    st.tuples(ids, st.binary(max_size=20)).map(lambda one: struct.pack("<Q", one[0]) + one[1]),
    st.tuples(st.integers(0, 1), ids).map(lambda one: bytes(56) + struct.pack("<QQ", *one)),
)
marks = st.tuples(st.integers(0, 1), ids).map(lambda one: bytes(56) + struct.pack("<QQ", *one))
kinds_and_payloads = st.one_of(  # that fit, and that do not
    st.tuples(st.just(int(Kind.CLASSIC_PUBLISH)), st.lists(ids, min_size=1, max_size=4).map(published)),
    st.tuples(st.just(int(Kind.MARK)), marks),
    st.tuples(st.sampled_from([int(kind) for kind in Kind]), payloads),
    st.tuples(st.sampled_from([0, 1, 2, 15, 16, 17, 24, 27, 32, 50, 255]), payloads),
)
records = st.lists(
    st.tuples(kinds_and_payloads, ids, ids).map(lambda one: record(one[0][0], one[1], one[2], one[0][1])), max_size=8
)


def test_what_is_drawn_has_all_that_is_counted() -> None:
    """Once no mark of a hundred examples had a time, and two began a commit."""
    reached = Counter[str]()

    @given(records)
    def look(drawn: list[bytes]) -> None:
        tally = LogTallyPlain()
        tally.take(drawn)
        reached["times"] += bool(tally.last_us)
        reached["times that differ"] += tally.first_us != tally.last_us
        reached["commits"] += bool(tally.commits)
        reached["several queues"] += len(tally.queues) > 1
        reached["names"] += bool(tally.names)
        reached["several writers"] += len(tally.writers()) > 1
        reached["a writer with several records"] += any(row[1] > 1 for row in tally.writers())

    look()
    assert min(reached.values()) >= 10, reached


@pytest.mark.parametrize("form", FORMS)
class TestTally:
    @given(records, st.lists(st.integers(0, 400), max_size=6))
    def test_where_the_buffers_are_cut_makes_no_difference(
        self, form: Any, records: list[bytes], cuts: list[int]
    ) -> None:
        data = b"".join(records)
        at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        whole, one_by_one, cut = LogTallyPlain(), form(), form()
        whole.take([data])
        for one in records:
            one_by_one.take([bytearray(one)])
        cut.take([memoryview(data)[start:end] for start, end in pairwise(at)])
        assert told(one_by_one) == told(cut) == told(whole)

    @given(records.filter(bool), st.integers(1, 400))
    def test_buffers_that_end_within_a_record_are_refused(self, form: Any, records: list[bytes], cut: int) -> None:
        kept = records[-1][: -min(cut, len(records[-1]) - 1)]
        with pytest.raises(
            ValueError, match=f"the {len(b''.join(records[:-1])) + len(kept)} bytes end within a record"
        ):
            form().take([*records[:-1], kept])

    def test_a_record_is_counted_for_the_writer_in_its_head(self, form: Any) -> None:
        tally = form()
        for index in (5, 6, 3, 4):
            tally.take([record(Kind.RAFT_FACTS, 7, index, b"abc"), record(Kind.RAFT_ENTRIES, 2**64 - 1, 9, b"")])
        tally.take([record(Kind.ROLL, 0, 0, b"abc"), b"", record(Kind.CLASSIC_SETTLE, 0, 1, struct.pack("<Q", 4))])
        assert tally.writers() == [(0, 1, 40, 1, 1), (7, 4, 4 * 35, 3, 6), (2**64 - 1, 4, 4 * 32, 9, 9)]
        assert tally.queues == {4, 2**64 - 1} and tally.rows == 5

    def test_a_publish_tells_of_all_its_queues(self, form: Any) -> None:
        tally = form()
        tally.take([record(Kind.CLASSIC_PUBLISH, 0, 1, published([7, 8, 2**64 - 1]))])
        assert tally.queues == {7, 8, 2**64 - 1}

    @pytest.mark.parametrize("kind", [kind for kind in Kind if Kind.CLASSIC_SETTLE <= kind <= Kind.CLASSIC_CHECKPOINT])
    def test_of_the_other_records_of_classic_queues_those_of_the_log_tell_of_theirs(
        self, form: Any, kind: Kind
    ) -> None:
        tally = form()
        tally.take([record(kind, 0, 1, struct.pack("<Q", 7) + bytes(9))])
        in_queue_files = Kind.CLASSIC_INDEX <= kind <= Kind.CLASSIC_STORED
        assert tally.queues == (set() if in_queue_files else {7})

    @pytest.mark.parametrize("size", [0, 25, 26, 41, 42, 57])
    def test_a_publish_that_has_not_the_queues_it_claims_tells_of_none(self, form: Any, size: int) -> None:
        tally = form()
        tally.take([record(Kind.CLASSIC_PUBLISH, 0, 1, published([7, 8])[:size])])
        assert tally.queues == set() and tally.writers() == [(0, 1, 32 + size, 1, 1)]

    def test_a_publish_that_ends_behind_its_queues_tells_of_them(self, form: Any) -> None:
        tally = form()
        tally.take([record(Kind.CLASSIC_PUBLISH, 0, 1, published([7, 8])[:58])])
        assert tally.queues == {7, 8}

    def test_a_mark_of_an_earlier_build_within_a_commit_begins_none(self, form: Any) -> None:
        tally = form()
        tally.take([record(Kind.MARK, 0, 0, bytes(56) + struct.pack("<Q", 2))])
        assert tally.commits == 0

    def test_a_name_is_of_whom_its_index_says(self, form: Any) -> None:
        tally = form()
        tally.take([record(Kind.NAME, 0, 7, text) for text in (b"orders", b"orders", b"others", b"")])
        assert tally.names == {(7, b"orders"), (7, b"others"), (7, b"")} and tally.queues == set()

    def test_marks_tell_times_and_commits(self, form: Any) -> None:
        tally = form()
        for time_us, begins in ((0, True), (7, False), (9, True), (0, True)):
            tally.take([encode_mark(Mark(LOG_ID, 1, 0, 1, 0, 1, begins, time_us))])
        assert (tally.first_us, tally.last_us, tally.commits) == (7, 9, 3)

    def test_a_mark_of_an_earlier_build_begins_a_commit_and_tells_no_time(self, form: Any) -> None:
        tally = form()
        for size in (63, 64, 65, 73):
            tally.take([record(Kind.MARK, 0, 0, (bytes(56) + struct.pack("<QQ", 1, 5) + b"x")[:size])])
        assert (tally.first_us, tally.last_us, tally.commits) == (0, 0, 1)


def test_the_kind_of_a_name_is_that_of_the_log() -> None:
    assert Kind.NAME == log_tally.NAME

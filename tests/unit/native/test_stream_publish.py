"""native/stream_publish.py: runs are what wire/stream reads from the same frames, joined; other frames stay where they are."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.stream_publish import (
    FRAME_DESCENTS_MAX,
    RUNS_MAX,
    STREAM_RUN_ITEMS_BYTES_MAX,
    STREAM_RUN_MESSAGES_MAX,
)
from tests.unit.native.both import forms
from wire.stream.command_frames import decode_frame, encode_frame
from wire.stream.publish_frame import StreamRun, pack_ids, runs_of, unpack_ids
from wire.stream.stream_commands import HeartbeatCommand, PublishFrame

FORMS = forms("stream_publish", "published")


def item(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def frame(publisher: int, *messages: tuple[int, bytes], version: int = 1) -> bytes:
    entries = b"".join([struct.pack(">Q", id_) + item(body) for id_, body in messages])
    return encode_frame(PublishFrame(version, publisher, len(messages), entries))


def run(publisher: int, *messages: tuple[int, bytes]) -> tuple[int, int, bytes, bytes]:
    ids = pack_ids([id_ for id_, _ in messages])
    return publisher, len(messages), ids, b"".join([item(body) for _, body in messages])


SUB_BATCH = encode_frame(PublishFrame(1, 0, 1, struct.pack(">QBHII", 1, 0x80, 1, 5, 5) + item(b"x")))
A, B, C = (1, b"a"), (2, b""), (9, b"ccc")

messages = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=20)), max_size=5)
frames = st.lists(st.builds(lambda number, some: frame(number, *some), st.integers(0, 2), messages), max_size=6)


@pytest.mark.parametrize("form", FORMS)
class TestPublished:
    def test_a_run_goes_on_through_frames_of_one_publisher(self, form: Any) -> None:
        data = frame(3, A) + frame(3) + frame(3, B, C)
        assert form.published(data, 0, 0) == ([run(3, A, B, C)], len(data))

    def test_another_publisher_begins_another_run(self, form: Any) -> None:
        data = frame(3, A) + frame(4, B) + frame(3, C)
        assert form.published(data, 0, 0) == ([run(3, A), run(4, B), run(3, C)], len(data))

    def test_an_id_that_does_not_ascend_begins_another_run(self, form: Any) -> None:
        data = frame(3, B, A, A) + frame(3, (2**64 - 1, b""), (0, b""))
        assert form.published(data, 0, 0)[0] == [run(3, B), run(3, A), run(3, A, (2**64 - 1, b"")), run(3, (0, b""))]

    def test_it_begins_where_it_is_told(self, form: Any) -> None:
        data = b"noise" + frame(3, A)
        assert form.published(data, 5, 0) == ([run(3, A)], len(data))
        assert form.published(memoryview(data), len(data), 0) == ([], len(data))
        assert form.published(data, len(data) + 5, 0) == ([], len(data) + 5)

    @pytest.mark.parametrize(
        "other",
        [
            encode_frame(HeartbeatCommand()),
            SUB_BATCH,
            frame(3, B, version=2),
            frame(3, B)[:-1],
            b"\0\0",
            struct.pack(">IHHBI", 9, 2, 1, 0, 1),  # a message is missing
            struct.pack(">IHHBI", 10, 2, 1, 0, 0) + b"x",  # a byte is left over
            struct.pack(">IHHBI", 21, 2, 1, 0, 2) + bytes(12),
            struct.pack(">IHHBI", 21, 2, 1, 0, 1) + struct.pack(">QI", 1, 1),
            struct.pack(">IHHBI", 4, 2, 1, 0, 0),
            struct.pack(">IHHBI", 2**32 - 1, 2, 1, 0, 0),
        ],
        ids=[
            "heartbeat", "sub-batch", "version 2", "incomplete", "no head", "count too high", "left over", "message missing",
            "message too long", "too short", "absurd size",
        ],
    )  # fmt: skip
    def test_another_frame_stops_the_walk_and_stays(self, form: Any, other: bytes) -> None:
        before = frame(3, A)
        data = before + other
        assert form.published(data, 0, 0) == ([run(3, A)], len(before))

    def test_a_frame_above_the_limit_is_not_taken(self, form: Any) -> None:
        data = frame(3, A) + frame(3, B, C)
        size = len(frame(3, B, C)) - 4
        assert form.published(data, 0, size)[1] == len(data)
        assert form.published(data, 0, size - 1)[1] == len(frame(3, A))

    def test_a_run_has_a_limit_of_messages(self, form: Any) -> None:
        data = b"".join([frame(0, (id_, b"")) for id_ in range(STREAM_RUN_MESSAGES_MAX + 1)])
        runs, _ = form.published(data, 0, 0)
        assert [count for _, count, _, _ in runs] == [STREAM_RUN_MESSAGES_MAX, 1]

    def test_a_run_has_a_limit_of_bytes_but_for_one_message(self, form: Any) -> None:
        half, whole = bytes(STREAM_RUN_ITEMS_BYTES_MAX // 2 - 4), bytes(STREAM_RUN_ITEMS_BYTES_MAX)
        data = frame(0, (1, half), (2, half), (3, b""), (4, whole), (5, b""))
        runs, _ = form.published(data, 0, 0)
        assert [unpack_ids(ids) for _, _, ids, _ in runs] == [(1, 2), (3,), (4,), (5,)]

    def test_a_walk_ends_with_the_frame_that_brings_enough_runs(self, form: Any) -> None:
        data = b"".join([frame(number % 2, A) for number in range(RUNS_MAX + 10)])
        runs, end = form.published(data, 0, 0)
        assert (len(runs), end) == (RUNS_MAX, RUNS_MAX * len(frame(0, A)))
        assert form.published(data, end, 0) == ([run(number % 2, A) for number in range(10)], len(data))

    def test_a_frame_whose_ids_descend_again_and_again_is_not_taken(self, form: Any) -> None:
        ids = range(FRAME_DESCENTS_MAX, -1, -1)
        taken, refused = frame(3, *[(id_, b"") for id_ in ids]), frame(3, *[(id_, b"") for id_ in (*ids, 0)])
        assert len(form.published(taken, 0, 0)[0]) == FRAME_DESCENTS_MAX + 1
        assert form.published(refused, 0, 0) == ([], 0)
        assert form.published(taken + refused, 0, 0)[1] == len(taken)

    @given(data=frames.map(b"".join), cut=st.integers(0, 40))
    def test_runs_are_those_that_wire_reads_joined(self, form: Any, data: bytes, cut: int) -> None:
        runs, end = form.published(data[: len(data) - cut], 0, 0)
        at, expected = 0, []
        while at < end:
            size = int.from_bytes(data[at : at + 4], "big")
            decoded = decode_frame(data[at + 4 : at + 4 + size])
            assert isinstance(decoded, PublishFrame)
            expected += [(decoded.publisher, id_) for one in runs_of(decoded) for id_ in unpack_ids(one.ids)]
            at += 4 + size
        assert at == end
        assert [(number, id_) for number, _, ids, _ in runs for id_ in unpack_ids(ids)] == expected
        for _, count, ids, items in runs:
            ascending = unpack_ids(ids)
            assert len(ascending) == count
            assert list(ascending) == sorted(set(ascending))
            entries = PublishFrame(1, 0, count, b"".join(interleaved(ascending, items)))
            assert list(runs_of(entries)) == [StreamRun(count, count, ids, items)]


def interleaved(ids: tuple[int, ...], items: bytes) -> list[bytes]:
    parts, at = [], 0
    for id_ in ids:
        end = at + 4 + int.from_bytes(items[at : at + 4], "big")
        parts.append(struct.pack(">Q", id_) + items[at:end])
        at = end
    assert at == len(items)
    return parts


@given(
    data=st.binary(max_size=60) | frames.map(b"".join),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    frame_max=st.sampled_from((0, 20, 40)),
)
def test_hostile_bytes_come_out_the_same(data: bytes, changes: list[tuple[int, int]], frame_max: int) -> None:
    changed = bytearray(data)
    for place, value in changes:
        if place < len(changed):
            changed[place] = value
    results = [form.values[0].published(changed, 0, frame_max) for form in FORMS]  # type: ignore[attr-defined]
    assert all(one == results[0] for one in results)

"""native/stream_publish.py: runs are what wire/stream reads from the same frames, joined; other frames stay where they are."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.stream_publish import (
    FRAME_RUNS_MAX,
    RUNS_MAX,
    STREAM_RUN_ITEMS_BYTES_MAX,
    STREAM_RUN_MESSAGES_MAX,
    STREAM_RUN_UNPACKED_BYTES_MAX,
    SUB_BATCH_BYTES_MAX,
    PublishedRun,
)
from tests.unit.native.both import forms
from wire.stream.command_frames import decode_frame, encode_frame
from wire.stream.publish_frame import StreamRun, pack_ids, runs_of, unpack_ids
from wire.stream.stream_commands import HeartbeatCommand, PublishFrame

FORMS = forms("stream_publish", "published", "count_items", "ids_ascend")


def item(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


class Batch(NamedTuple):
    """A sub-batch."""

    messages: int
    data: bytes
    compression: int = 1
    unpacked: int = 0  # 0: as little as there can be

    @property
    def announced(self) -> int:
        return self.unpacked or 4 * self.messages

    @property
    def item(self) -> bytes:
        head = struct.pack(">BHII", 0x80 | self.compression << 4, self.messages, self.announced, len(self.data))
        return head + self.data


Body = bytes | Batch


def item_of(body: Body) -> bytes:
    return body.item if isinstance(body, Batch) else item(body)


def frame(publisher: int, *entries: tuple[int, Body], version: int = 1) -> bytes:
    encoded = b"".join([struct.pack(">Q", id_) + item_of(body) for id_, body in entries])
    return encode_frame(PublishFrame(version, publisher, len(entries), encoded))


def run(publisher: int, *entries: tuple[int, Body]) -> PublishedRun:
    ids = pack_ids([id_ for id_, _ in entries])
    batches = [body for _, body in entries if isinstance(body, Batch)]
    messages = sum([one.messages for one in batches]) or len(entries)
    items = b"".join([item_of(body) for _, body in entries])
    return publisher, len(entries), messages, ids, items, sum([one.announced for one in batches])


A, B, C = (1, b"a"), (2, b""), (9, b"ccc")
X, Y, Z = (1, Batch(3, b"xxx")), (2, Batch(1, b"", 0)), (9, Batch(2**16 - 1, b"z", 4))

bodies = st.binary(max_size=20) | st.builds(
    Batch, st.integers(0, 9000), st.binary(max_size=9), st.integers(0, 5), st.sampled_from((0, 3 << 20, 65 << 20))
)
entries = st.lists(st.tuples(st.integers(0, 2**64 - 1), bodies), max_size=5)
frames = st.lists(st.builds(lambda number, some: frame(number, *some), st.integers(0, 2), entries), max_size=6)


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
            frame(3, (1, Batch(0, b"x"))),
            frame(3, (1, Batch(3, b"x", 0, 11))),
            frame(3, (1, Batch(1, b"x", 5))),
            frame(3, (1, Batch(1, b"x", 1, SUB_BATCH_BYTES_MAX + 1))),
            frame(3, (1, Batch(1, b""))),
            frame(3, X)[:-1],
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
            "heartbeat", "batch of none", "batch too short", "batch of compression 5", "batch above 64 MiB", "no data",
            "incomplete batch", "version 2", "incomplete", "no head", "count too high", "left over", "message missing",
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
        assert [one[1] for one in runs] == [STREAM_RUN_MESSAGES_MAX, 1]

    def test_sub_batches_are_runs_as_messages_are_and_both_never_share_one(self, form: Any) -> None:
        data = frame(3, X, Y) + frame(3, (4, Batch(2, b"zz"))) + frame(3, (5, b"a"), (6, Batch(1, b"b")))
        runs = [run(3, X, Y, (4, Batch(2, b"zz"))), run(3, (5, b"a")), run(3, (6, Batch(1, b"b")))]
        assert form.published(data, 0, 0) == (runs, len(data))
        assert form.published(frame(3, Y, X), 0, 0)[0] == [run(3, Y), run(3, X)]

    def test_what_sub_batches_announce_counts_for_the_limits_of_a_run(self, form: Any) -> None:
        full, one = Batch(STREAM_RUN_MESSAGES_MAX - 1, b"x"), Batch(1, b"x")
        data = frame(3, (1, full), (2, one), (3, one))
        assert form.published(data, 0, 0)[0] == [run(3, (1, full), (2, one)), run(3, (3, one))]
        large = Batch(1, b"x", 1, STREAM_RUN_UNPACKED_BYTES_MAX - 4)
        data = frame(3, (1, large), (2, one), (3, one))
        assert form.published(data, 0, 0)[0] == [run(3, (1, large), (2, one)), run(3, (3, one))]
        largest = Batch(2**16 - 1, b"x", 1, SUB_BATCH_BYTES_MAX)
        data = frame(3, (1, one), (2, largest), (3, one))
        assert form.published(data, 0, 0)[0] == [run(3, (1, one)), run(3, (2, largest)), run(3, (3, one))]

    def test_a_run_has_a_limit_of_bytes_but_for_one_message(self, form: Any) -> None:
        half, whole = bytes(STREAM_RUN_ITEMS_BYTES_MAX // 2 - 4), bytes(STREAM_RUN_ITEMS_BYTES_MAX)
        data = frame(0, (1, half), (2, half), (3, b""), (4, whole), (5, b""))
        runs, _ = form.published(data, 0, 0)
        assert [unpack_ids(one[3]) for one in runs] == [(1, 2), (3,), (4,), (5,)]

    def test_a_walk_ends_with_the_frame_that_brings_enough_runs(self, form: Any) -> None:
        data = b"".join([frame(number % 2, A) for number in range(RUNS_MAX + 10)])
        runs, end = form.published(data, 0, 0)
        assert (len(runs), end) == (RUNS_MAX, RUNS_MAX * len(frame(0, A)))
        assert form.published(data, end, 0) == ([run(number % 2, A) for number in range(10)], len(data))

    @pytest.mark.parametrize(
        "runs",
        [
            [(id_, b"") for id_ in range(FRAME_RUNS_MAX, -1, -1)],
            [(id_, b"" if id_ % 2 else Batch(1, b"x")) for id_ in range(FRAME_RUNS_MAX + 1)],
            [(id_, Batch(STREAM_RUN_MESSAGES_MAX, b"x")) for id_ in range(FRAME_RUNS_MAX + 1)],
        ],
        ids=["ids descend", "both kinds", "large sub-batches"],
    )
    def test_a_frame_of_too_many_runs_is_not_taken(self, form: Any, runs: list[tuple[int, Body]]) -> None:
        taken, refused = frame(3, *runs[:-1]), frame(3, *runs)
        assert len(form.published(taken, 0, 0)[0]) == FRAME_RUNS_MAX
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
        assert [(one[0], id_) for one in runs for id_ in unpack_ids(one[3])] == expected
        for _, count, messages, ids, items, unpacked in runs:
            ascending = unpack_ids(ids)
            assert len(ascending) == count
            assert list(ascending) == sorted(set(ascending))
            entries = PublishFrame(1, 0, count, b"".join(interleaved(ascending, items)))
            assert list(runs_of(entries)) == [StreamRun(count, messages, ids, items, unpacked_bytes=unpacked)]


@pytest.mark.parametrize("form", FORMS)
class TestItemsOfAnotherNode:
    @given(st.lists(bodies, max_size=6))
    def test_items_are_counted_unless_one_cannot_be(self, form: Any, some: list[Body]) -> None:
        data = b"".join(map(item_of, some))
        batches = [one for one in some if isinstance(one, Batch)]
        if all(map(is_possible, batches)):
            messages = len(some) - len(batches) + sum([one.messages for one in batches])
            assert form.count_items(memoryview(data)) == (len(some), messages, len(batches))
        else:
            with pytest.raises(ValueError, match="no item is at"):
                form.count_items(data)

    def test_what_is_cut_off_is_no_item(self, form: Any) -> None:
        last = Batch(3, b"xxx")
        data = item(b"abc") + last.item
        for missing in range(1, len(last.item)):
            with pytest.raises(ValueError, match=f"no item is at 7 of {len(data) - missing} bytes"):
                form.count_items(data[: len(data) - missing])
        assert form.count_items(b"") == (0, 0, 0)

    @given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=6))
    def test_ids_ascend_or_do_not(self, form: Any, ids: list[int]) -> None:
        assert form.ids_ascend(pack_ids(ids)) == (ids == sorted(set(ids)))
        assert form.ids_ascend(pack_ids(sorted(set(ids))))


def is_possible(batch: Batch) -> bool:
    return (
        batch.messages > 0
        and batch.compression < 5
        and 4 * batch.messages <= batch.announced <= SUB_BATCH_BYTES_MAX
        and (batch.compression == 0 or batch.data != b"")
    )


def interleaved(ids: tuple[int, ...], items: bytes) -> list[bytes]:
    parts, at = [], 0
    for id_ in ids:
        head = at + 7 if items[at] & 0x80 else at
        end = head + 4 + int.from_bytes(items[head : head + 4], "big")
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

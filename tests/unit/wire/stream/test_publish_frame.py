"""wire/stream/publish_frame.py: a frame of messages becomes runs that are stored as they are."""

from __future__ import annotations

import contextlib
import struct
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.stream_publish import (
    STREAM_RUN_MESSAGES_MAX,
    STREAM_RUN_UNPACKED_BYTES_MAX,
    SUB_BATCH_BYTES_MAX,
)
from wire.stream.command_fields import BadStreamFrame
from wire.stream.publish_frame import (
    NOTHING_FILTERED,
    RefusedItems,
    StreamRun,
    pack_ids,
    runs_of,
    unpack_ids,
)
from wire.stream.stream_commands import PublishFrame


def item(message: bytes) -> bytes:
    return struct.pack(">I", len(message)) + message


def batch(messages: int, data: bytes, *, compression: int = 1, uncompressed: int | None = None) -> bytes:
    size = max(len(data), 4 * messages) if uncompressed is None else uncompressed
    return struct.pack(">BHII", 0x80 | compression << 4, messages, size, len(data)) + data


def published(*entries: tuple[int, bytes]) -> PublishFrame:
    """Pairs of an id and an item."""
    return PublishFrame(1, 3, len(entries), b"".join([struct.pack(">Q", id_) + one for id_, one in entries]))


def filtered(*entries: tuple[int, bytes | None, bytes]) -> PublishFrame:
    parts = []
    for id_, value, message in entries:
        length = struct.pack(">H", 0xFFFF if value is None else len(value))
        parts.append(struct.pack(">Q", id_) + length + (value or b"") + item(message))
    return PublishFrame(2, 3, len(entries), b"".join(parts))


def run(*entries: tuple[int, bytes]) -> StreamRun:
    ids, items = pack_ids([id_ for id_, _ in entries]), b"".join(one for _, one in entries)
    return StreamRun(len(entries), len(entries), ids, items)


class Read(NamedTuple):
    runs: list[StreamRun]
    refused_ids: bytes = b""


def read_runs(frame: PublishFrame) -> Read:
    """All of it."""
    steps = list(runs_of(frame))
    runs = [one for one in steps if isinstance(one, StreamRun)]
    return Read(runs, b"".join([one.ids for one in steps if isinstance(one, RefusedItems)]))


def test_messages_lie_together_without_their_ids() -> None:
    entries = [(5, item(b"a")), (6, item(b"")), (9, item(b"ccc"))]
    assert read_runs(published(*entries)) == Read([run(*entries)])


def test_a_frame_without_messages_has_no_run() -> None:
    assert read_runs(published()) == Read([])


def test_a_run_knows_its_first_and_last_id() -> None:
    (one,) = read_runs(published((5, item(b"a")), (2**64 - 1, item(b"b")))).runs
    assert (one.first_id, one.last_id) == (5, 2**64 - 1)
    assert unpack_ids(one.ids) == (5, 2**64 - 1)


def test_ids_that_do_not_ascend_begin_another_run() -> None:
    entries = [(5, item(b"a")), (5, item(b"b")), (4, item(b"c")), (7, item(b"d"))]
    assert read_runs(published(*entries)).runs == [run(entries[0]), run(entries[1]), run(entries[2], entries[3])]


def test_messages_and_sub_batches_never_share_a_run() -> None:
    packed = batch(10, b"packed")
    plain = [(5, item(b"a")), (7, item(b"b"))]
    assert read_runs(published(plain[0], (6, packed), (6, packed), (7, packed), plain[1])).runs == [
        run(plain[0]),
        StreamRun(1, 10, pack_ids([6]), packed, unpacked_bytes=40),
        StreamRun(2, 20, pack_ids([6, 7]), packed * 2, unpacked_bytes=80),
        run(plain[1]),
    ]


def test_what_sub_batches_announce_counts_for_the_limits_of_a_run() -> None:
    many = batch(STREAM_RUN_MESSAGES_MAX - 1, b"x")
    large = batch(1, b"x", uncompressed=STREAM_RUN_UNPACKED_BYTES_MAX - 4)
    for one in (many, large):
        runs = read_runs(published((1, one), (2, batch(1, b"x")), (3, batch(1, b"x")))).runs
        assert [run.item_count for run in runs] == [2, 1]


@pytest.mark.parametrize(
    "impossible",
    [
        batch(0, b"x"),
        batch(3, b"x" * 11, compression=0, uncompressed=11),
        batch(1, b"x", compression=5),
        batch(1, b"x", compression=7),
        batch(1, b"x", uncompressed=SUB_BATCH_BYTES_MAX + 1),
        batch(1, b""),
    ],
    ids=["no messages", "too short for its messages", "compression 5", "compression 7", "above 64 MiB", "no data"],
)
def test_an_impossible_sub_batch_is_refused_with_all_behind_it(impossible: bytes) -> None:
    before, behind = (5, item(b"a")), (9, item(b"b"))
    frame = published(before, (6, batch(2, b"good")), (7, impossible), (8, batch(2, b"good")), behind)
    runs, refused = read_runs(frame)
    assert [(one.first_id, one.item_count) for one in runs] == [(5, 1), (6, 1)]
    assert unpack_ids(refused) == (7, 8, 9)


def test_the_largest_sub_batch_is_taken() -> None:
    assert read_runs(published((1, batch(2**16 - 1, b"x", uncompressed=SUB_BATCH_BYTES_MAX)))).refused_ids == b""
    assert read_runs(published((1, batch(3, b"x" * 12, compression=0)))).refused_ids == b""


def test_filter_values_of_a_run_are_kept_together() -> None:
    frame = filtered((1, b"a", b"x"), (2, b"b", b"y"), (3, b"a", b"z"))
    assert read_runs(frame).runs == [
        run((1, item(b"x")), (2, item(b"y")), (3, item(b"z")))._replace(
            filter_values=frozenset({b"a", b"b"}), has_unfiltered=False
        )
    ]


def test_no_filter_value_is_not_an_empty_one() -> None:
    (none,) = read_runs(filtered((1, None, b"x"))).runs
    assert none == run((1, item(b"x")))
    assert (none.filter_values, none.has_unfiltered) == (NOTHING_FILTERED, True)
    (empty,) = read_runs(filtered((1, b"", b"x"))).runs
    assert (empty.filter_values, empty.has_unfiltered) == (frozenset({b""}), False)
    (both,) = read_runs(filtered((1, None, b"x"), (2, b"v", b"y"))).runs
    assert (both.filter_values, both.has_unfiltered) == (frozenset({b"v"}), True)


def test_filter_values_do_not_pass_to_the_next_run() -> None:
    first, second = read_runs(filtered((2, b"a", b"x"), (1, b"b", b"y"))).runs
    assert (first.filter_values, second.filter_values) == (frozenset({b"a"}), frozenset({b"b"}))


GOOD = [
    published((5, item(b"abc")), (6, item(b"de"))),
    published((5, item(b"abc")), (6, batch(3, b"packed-packed")), (7, item(b"f"))),
    published((5, batch(0, b"refused")), (6, batch(3, b"packed-packed")), (7, item(b"f"))),
    filtered((5, b"value", b"abc"), (6, None, b"de")),
]


@pytest.mark.parametrize("frame", GOOD, ids=["messages", "sub-batch", "refused", "filtered"])
def test_a_frame_that_holds_less_or_more_than_it_says_is_refused(frame: PublishFrame) -> None:
    read_runs(frame)
    for end in range(len(frame.entries)):
        with pytest.raises(BadStreamFrame):
            read_runs(frame._replace(entries=frame.entries[:end]))
    for wrong in (
        frame._replace(entries=frame.entries + b"\0"),
        frame._replace(entry_count=frame.entry_count - 1),
        frame._replace(entry_count=frame.entry_count + 1),
        frame._replace(entry_count=2**32 - 1),
    ):
        with pytest.raises(BadStreamFrame):
            read_runs(wrong)


def test_no_part_of_a_message_is_taken_for_one() -> None:
    """What stands before the mistake counts; a message, or a sub-batch, that the frame cuts off does not."""
    for frame in GOOD:
        whole = read_runs(frame).runs
        for end in range(len(frame.entries)):
            taken: list[StreamRun] = []
            with pytest.raises(BadStreamFrame):
                for one in runs_of(frame._replace(entries=frame.entries[:end])):
                    taken += [one] if isinstance(one, StreamRun) else []
            assert taken == whole[: len(taken)]


def test_a_long_frame_is_read_run_by_run() -> None:
    ascending = [(id_, item(b"")) for id_ in range(STREAM_RUN_MESSAGES_MAX + 1)]
    assert [one.item_count for one in read_runs(published(*ascending)).runs] == [STREAM_RUN_MESSAGES_MAX, 1]
    values = [(id_, b"v", b"") for id_ in range(STREAM_RUN_MESSAGES_MAX + 1)]
    assert [one.item_count for one in read_runs(filtered(*values)).runs] == [STREAM_RUN_MESSAGES_MAX, 1]


def test_a_message_longer_than_the_frame_is_refused() -> None:
    with pytest.raises(BadStreamFrame):
        read_runs(PublishFrame(1, 3, 1, struct.pack(">QI", 1, 2**31 - 1) + b"abc"))


def test_no_sub_batches_among_filter_values() -> None:
    entries = struct.pack(">QH", 1, 0xFFFF) + batch(2, b"packed")
    with pytest.raises(BadStreamFrame):
        read_runs(PublishFrame(2, 3, 1, entries))


def test_a_filter_value_of_negative_length_is_refused() -> None:
    with pytest.raises(BadStreamFrame):
        read_runs(PublishFrame(2, 3, 1, struct.pack(">QH", 1, 0x8000) + bytes(2**15) + item(b"a")))


ITEMS = st.binary(max_size=20).map(item) | st.builds(batch, st.integers(0, 3), st.binary(max_size=20))
ENTRIES = st.lists(st.tuples(st.integers(0, 2**64 - 1), ITEMS), max_size=12)


@settings(max_examples=200)
@given(ENTRIES)
def test_runs_hold_every_message_in_order_until_one_is_refused(entries: list[tuple[int, bytes]]) -> None:
    runs, refused = read_runs(published(*entries))
    ids = [id_ for one in runs for id_ in unpack_ids(one.ids)] + list(unpack_ids(refused))
    assert ids == [id_ for id_, _ in entries]
    taken = len(entries) - len(refused) // 8
    assert b"".join(one.items for one in runs) == b"".join(one for _, one in entries[:taken])
    assert sum(one.item_count for one in runs) == taken
    for one in runs:
        ascending = unpack_ids(one.ids)
        assert list(ascending) == sorted(set(ascending))


@settings(max_examples=200)
@given(st.sampled_from((1, 2)), st.integers(0, 5), st.binary(max_size=80))
def test_random_bytes_are_messages_or_refused(version: int, count: int, data: bytes) -> None:
    with contextlib.suppress(BadStreamFrame):
        runs, refused = read_runs(PublishFrame(version, 3, count, data))
        assert sum(one.item_count for one in runs) + len(refused) // 8 == count

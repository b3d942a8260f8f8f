"""Which chunks count, whatever came into the log, and that a machine stands where another one's snapshot stood."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.errors import BadBytes
from stream.chunks.chunk import message_item, seal_chunk
from stream.chunks.entries import (
    NamesForgotten,
    RetentionCut,
    StoredOffsets,
    WriterPosition,
    chunk_header,
    encode,
    encode_chunk,
)
from stream.group.machine import StreamMachine, Written
from stream.group.stream_state import MACHINE_VERSION

NODE, LIFE = 1, 7


def chunk(
    offset: int,
    count: int = 1,
    *,
    sequence: int | None = None,
    time_ms: int = 0,
    node: int = NODE,
    life: int = LIFE,
    ends: bool = False,
) -> bytes:
    """`sequence`: of its last message; without one it is as if this writer had written all of the stream."""
    data = message_item(b"body") * count
    header = seal_chunk((data,), count, count, time_ms, 1, offset)
    writer = WriterPosition(node, life, offset + count if sequence is None else sequence)
    return encode_chunk(header, (data,), writers=(writer,), ends_segment=ends)


def applied(*entries: bytes) -> tuple[StreamMachine, list[Written]]:
    machine = StreamMachine()
    return machine, [machine.apply(index, entry) for index, entry in enumerate(entries, 1)]


def test_chunks_that_follow_each_other_count() -> None:
    machine, written = applied(chunk(0, 3), chunk(3, 2, time_ms=5), chunk(5, time_ms=5))
    assert written == [Written.DONE] * 3
    assert (machine.state.next_offset, machine.state.time_ms, machine.state.message_count) == (6, 5, 6)


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(chunk(4, sequence=4, time_ms=10), id="an offset is left out"),
        pytest.param(chunk(2, sequence=4, time_ms=10), id="an offset is given twice"),
        pytest.param(chunk(3, sequence=5, time_ms=10), id="a message of its writer is missing"),
        pytest.param(chunk(3, time_ms=9), id="it is older than the one before"),
        pytest.param(chunk(3, 2, node=2, sequence=3, time_ms=10), id="the first of another writer is missing"),
    ],
)
def test_what_is_out_of_place_is_passed_over_and_leaves_no_trace(late: bytes) -> None:
    machine, written = applied(chunk(0, 3, time_ms=10), late, chunk(3, time_ms=10))
    assert written == [Written.DONE, Written.OUT_OF_PLACE, Written.DONE]
    assert machine.state.next_offset == 4
    assert [list(one) for one in machine.state.ranges] == [[1, 2], [3, 4]]


def test_what_is_said_again_is_stored_once() -> None:
    machine, written = applied(
        chunk(0, 3), chunk(3, 3, sequence=3), chunk(3), chunk(9, 2, sequence=3), chunk(4, sequence=1, life=LIFE - 1)
    )
    assert written == [Written.DONE, Written.KNOWN, Written.DONE, Written.KNOWN, Written.KNOWN]
    assert machine.state.next_offset == 4


def test_what_was_said_before_a_snapshot_is_known_behind_it() -> None:
    machine, _ = applied(chunk(0, 3))
    behind = StreamMachine()
    behind.restore(b"".join(map(bytes, machine.snapshot())), MACHINE_VERSION)
    assert behind.apply(2, chunk(3, 3, sequence=3)) is Written.KNOWN
    assert behind.apply(3, chunk(3)) is Written.DONE


def test_another_life_of_a_node_counts_from_the_beginning() -> None:
    _, written = applied(chunk(0, 3), chunk(3, 2, sequence=2, life=LIFE + 1), chunk(5, sequence=3, life=LIFE + 1))
    assert written == [Written.DONE] * 3


def test_what_consumers_store_is_kept_and_forgotten() -> None:
    machine, _ = applied(
        chunk(0, 5),
        encode(StoredOffsets(10, (("a", 3), ("b", 4)))),
        encode(StoredOffsets(11, (("a", 5),))),
        encode(NamesForgotten(12, (), ("b", "c"))),
    )
    assert {name: (one.offset, one.time_ms) for name, one in machine.state.stored.items()} == {"a": (5, 11)}


def test_retention_removes_whole_segments_and_never_the_last() -> None:
    machine, _ = applied(
        chunk(0, 2, ends=True), chunk(2, ends=True), encode(RetentionCut(0, 0)), chunk(3), chunk(4, ends=True)
    )
    assert [one.first_offset for one in machine.state.segments] == [0, 2, 3]
    for cut, first in ((1, 0), (2, 2), (1, 2), (99, 3)):
        machine.apply(machine.applied + 1, encode(RetentionCut(0, cut)))
        assert machine.state.first_offset == first
    assert machine.state.message_count == 2
    assert machine.state.ranges[0][0] == 4, "entries before it are not referred to any more"
    assert machine.apply(machine.applied + 1, chunk(5)) is Written.DONE
    assert [one.first_offset for one in machine.state.segments] == [3, 5]


def test_entries_of_the_stream_are_found_past_others() -> None:
    machine = StreamMachine()
    for index, offset in ((3, 0), (4, 1), (7, 2)):
        machine.apply(index, chunk(offset))
    found = [machine.state.entry_at_or_behind(index) for index in range(1, 9)]
    assert found == [3, 3, 3, 4, 7, 7, 7, None]
    assert list(machine.live_entries()) == [3, 4, 7]


def test_an_entry_that_nobody_knows_stops_the_machine() -> None:
    with pytest.raises(BadBytes):
        StreamMachine().apply(1, b"\x63\x01\x00\x00\x08\x00\x00\x00")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("chunk"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("again"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("gap"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("cut"), st.integers(0, 40), st.booleans()),
        st.tuples(st.just("store"), st.integers(0, 40), st.booleans()),
    ),
    max_size=40,
)


def entries_of(script: Sequence[tuple[str, int, bool]]) -> list[bytes]:
    """With a leader that knows what counts."""
    entries: list[bytes] = []
    offset = 0
    for what, number, flag in script:
        if what == "chunk":
            entries.append(chunk(offset, number, ends=flag, time_ms=len(entries)))
            offset += number
        elif what == "again":
            entries.append(chunk(offset, number, sequence=min(offset, number), time_ms=len(entries)))
            if not offset:
                offset = number  # there was nothing to say again
                entries[-1] = chunk(0, number, time_ms=len(entries))
        elif what == "gap":
            entries.append(chunk(offset + 1, number, ends=flag, time_ms=len(entries)))
        elif what == "cut":
            entries.append(encode(RetentionCut(len(entries), number)))
        else:
            entries.append(encode(StoredOffsets(len(entries), ((f"r{flag}", number),))))
    return entries


@given(steps, st.integers(0, 40))
def test_a_machine_stands_where_the_snapshot_of_another_one_stood(
    script: Sequence[tuple[str, int, bool]], at: int
) -> None:
    entries = entries_of(script)
    whole = StreamMachine()
    restored = StreamMachine()
    for index, entry in enumerate(entries, 1):
        if index == min(at, len(entries)):
            restored.restore(b"".join(map(bytes, whole.snapshot())), MACHINE_VERSION)
        whole.apply(index, entry)
        if index >= min(at, len(entries)) > 0:
            restored.apply(index, entry)
    if min(at, len(entries)) > 0:
        assert b"".join(map(bytes, restored.snapshot())) == b"".join(map(bytes, whole.snapshot()))


@given(steps)
def test_offsets_have_no_gaps_and_every_message_has_one_place(script: Sequence[tuple[str, int, bool]]) -> None:
    entries = entries_of(script)
    machine, written = applied(*entries)
    kept = [chunk_header(entries[index - 1]) for index in machine.live_entries()]
    headers = [header for header in kept if header is not None and header.first_offset >= machine.state.first_offset]
    expected = machine.state.first_offset
    for index in machine.live_entries():
        header = chunk_header(entries[index - 1])
        assert written[index - 1] is Written.DONE
        if header is not None:
            assert header.first_offset == expected
            expected = header.next_offset
    assert expected == machine.state.next_offset
    assert sum(header.size for header in headers) == machine.state.size


@given(steps, st.integers(0, 60))
def test_a_message_is_found_near_the_place_that_is_named(script: Sequence[tuple[str, int, bool]], asked: int) -> None:
    entries = entries_of(script)
    machine, _ = applied(*entries)
    state = machine.state
    if not state.message_count:
        return
    asked = state.first_offset + asked % state.message_count
    index: int | None = state.places.at_offset(asked)
    while index is not None:
        index = state.entry_at_or_behind(index)
        assert index is not None, "the message is behind the place"
        header = chunk_header(entries[index - 1])
        if header is not None and header.first_offset <= asked < header.next_offset:
            return
        assert header is None or header.next_offset <= asked, "the place is behind the message"
        index += 1


def test_a_damaged_state_is_refused() -> None:
    machine, _ = applied(*entries_of([("chunk", 3, True), ("store", 3, True), ("chunk", 2, False)]))
    state = b"".join(map(bytes, machine.snapshot()))
    for size in range(len(state)):
        with pytest.raises(BadBytes):
            StreamMachine().restore(state[:size], MACHINE_VERSION)
    with pytest.raises(BadBytes):
        StreamMachine().restore(state + b"\0", MACHINE_VERSION)
    with pytest.raises(BadBytes):
        StreamMachine().restore(state, MACHINE_VERSION + 1)

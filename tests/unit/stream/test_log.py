"""A stream's log while nothing goes wrong: what was appended is found again, by index, by offset and by time."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from raft.core.errors import BadBytes, Compacted
from raft.core.messages import Entry, EntryKind, Membership
from storage.errors import DiskFull
from stream.bloom import make_filter
from stream.checkpoint import Checkpoint
from stream.chunk import message_item, seal_chunk
from stream.entries import encode_chunk, filter_of
from stream.index import ROW_BYTES
from stream.log import begin_log
from stream.log_reading import (
    ReadPosition,
    at_first,
    at_last,
    at_next,
    at_offset,
    at_time,
    chunk_bytes,
    chunk_head,
    read_chunks,
    read_entries,
)
from tests.sim.disk import Call, Fault, fault_on, no_faults
from tests.unit.stream.stream_world import DIRECTORY, MEMBERS, NUMBER, STATE, Stored, World, everything, wanted_chunks

OTHERS = Membership((1 << 32,), (3 << 32,))


def mixed(world: World, rounds: int = 30, roll_every: int = 8) -> World:
    """Entries of all kinds, in several segments."""
    world.append(world.noop())
    for at in range(rounds):
        term = 1 + at // 12
        world.append(world.chunk(*[b"m%d" % at * 3] * (at % 4 + 1), term=term, later_ms=at % 3 * 5))
        if at % 4 == 1:
            world.append(world.offsets(term=term), world.noop(term=term))
        if at % roll_every == roll_every - 1:
            world.append(world.chunk(b"the last", term=term, ends=True))
    world.append(world.membership(OTHERS), world.offsets())
    return world


def test_a_new_log_has_nothing_and_says_where_it_begins() -> None:
    world = World(before=41, first_offset=1_000)
    log = world.log
    assert (log.first_index, log.last_index, log.committed, log.durable_index) == (42, 41, 41, 41)
    assert (log.first_offset, log.next_offset, log.committed_offset) == (1_000, 1_000, 1_000)
    assert log.memberships() == [(41, MEMBERS)] and log.term(41) == log.last_term == 0
    assert (
        at_first(log)
        == at_next(log)
        == at_last(log)
        == at_offset(log, 5_000)
        == at_time(log, 0)
        == ReadPosition(42, 1_000)
    )
    assert read_chunks(log, 0, 1) is None


def test_what_was_appended_is_read_back_as_entries_and_as_chunks() -> None:
    world = mixed(World())
    assert len(world.log.segments) == 4
    world.commit()
    for bytes_max in (1, 300, 1 << 20):
        assert everything(world.log, bytes_max) == wanted_chunks(world.entries)
        found: list[Entry] = []
        while len(found) < len(world.entries):
            some = read_entries(world.log, len(found) + 1, world.last_index + 1, bytes_max)
            assert len(some) == 1 or sum(len(entry.data) for entry in some) <= bytes_max
            found += some
        assert found == [one.entry for one in world.entries]
    assert read_entries(world.log, 5, 7, 1 << 20) == [one.entry for one in world.entries[4:6]]
    assert [world.log.term(index) for index in range(1, world.last_index + 1)] == [
        one.entry.term for one in world.entries
    ]


def test_only_what_is_committed_is_given_to_readers() -> None:
    world = mixed(World())
    for stored in world.entries:
        world.commit(stored.entry.index)
        assert world.log.committed_offset == stored.offset + len(stored.bodies)
        assert at_next(world.log) == ReadPosition(stored.entry.index + 1, world.log.committed_offset)
        assert everything(world.log) == wanted_chunks(world.entries[: stored.entry.index])


def test_each_offset_and_each_time_is_found() -> None:
    world = mixed(World(before=3, first_offset=500))
    world.commit()
    log, chunks = world.log, world.chunks()
    for chunk in chunks:
        for offset in range(chunk.offset, chunk.offset + len(chunk.bodies)):
            assert at_offset(log, offset) == ReadPosition(chunk.entry.index, offset)
    assert at_offset(log, 499) == at_first(log) == ReadPosition(4, 500)
    assert at_offset(log, log.next_offset) == at_offset(log, 1 << 63) == at_next(log)
    assert at_last(log) == ReadPosition(chunks[-1].entry.index, chunks[-1].offset)
    times = [chunk.time_ms for chunk in chunks]
    for time_ms in range(-1, times[-1] + 3):
        at = bisect_left(times, time_ms)
        expected = at_next(log) if at == len(times) else ReadPosition(chunks[at].entry.index, chunks[at].offset)
        assert at_time(log, time_ms) == expected, time_ms


def test_a_place_is_found_in_few_reads_however_long_the_log_is() -> None:
    world = World()
    world.fill(3_000, size=200)
    world.append(world.chunk(b"end", ends=True))
    world.fill(3_000, size=200)
    world.commit()
    reads: list[Call] = []
    world.disk.faults = lambda call: reads.append(call) if call.operation == "read" else None
    for offset in (0, 17, 2_999, 3_000, 4_500, 6_000):
        reads.clear()
        assert at_offset(world.log, offset).offset == offset
        assert len(reads) <= 16, offset
        reads.clear()
        at_time(world.log, offset * 10)
        assert len(reads) <= 32, offset


def test_an_entry_that_ends_its_segment_is_followed_by_a_checkpoint() -> None:
    world = World()
    world.append(world.chunk(b"a", b"b"), world.membership(OTHERS), world.chunk(b"c", ends=True))
    world.append(world.chunk(b"d"), world.offsets(ends=True))
    first, second, third = world.log.segments
    assert [one.first_index for one in (first, second, third)] == [1, 4, 6]
    found = world.log.stored_checkpoint(second)
    assert found == Checkpoint(3, 1, 3, 20, 2, OTHERS, 1, b"behind 3", first.tail.end, begins_log=False)
    assert world.log.stored_checkpoint(third).first_offset == 4
    assert world.log.stored_checkpoint(first).state == STATE
    assert world.disk.files() == sorted(
        f"{DIRECTORY}/{number:020}{suffix}" for number, suffix in
        [(1, ".chunks"), (1, ".offsets"), (4, ".chunks"), (4, ".offsets"), (6, ".chunks")]
    )  # fmt: skip
    assert len(world.disk.content(first.index_name)) == 4 * ROW_BYTES


def test_entries_that_come_together_are_cut_where_a_segment_ends() -> None:
    world = World()
    entries = []
    for ends in (False, True, False):
        entries.append(world.chunk(b"x", ends=ends).entry)
    assert world.log.fitting(entries) == 2
    world.log.append(entries[:2])
    assert world.log.must_roll and world.log.fitting(entries[2:]) == 0
    with pytest.raises(AssertionError, match="behind the end"):
        world.log.append(entries[2:])


def test_a_batch_is_written_with_one_call() -> None:
    world = World()
    writes: list[Call] = []
    world.disk.faults = lambda call: writes.append(call) if call.operation == "write" else None
    world.append(*[world.chunk(b"%d" % at) for at in range(20)])
    assert len(writes) == 1


def test_heads_say_all_but_the_messages() -> None:
    world = mixed(World())
    for first in (1, 10, world.last_index):
        found = list(world.log.heads(first))
        assert [header.entry_index for header, _ in found] == list(range(first, world.last_index + 1))
        for (header, head), stored in zip(found, world.entries[first - 1 :], strict=True):
            assert stored.entry.data.startswith(head) and header.term == stored.entry.term
            assert len(head) + header.data_bytes == len(stored.entry.data)


def test_filters_lie_beside_their_chunks() -> None:
    world = World()
    data = message_item(b"one")
    for at in range(3):
        header = seal_chunk([data], 1, 1, 0, 1, at)
        chunk_filter = make_filter([b"v%d" % at], False, 16 + at) if at else b""
        world.log.append([Entry(at + 1, 1, EntryKind.COMMAND, encode_chunk(header, [data], chunk_filter))])
    world.commit()
    found = read_chunks(world.log, 1, 1 << 20)
    assert found is not None
    assert [filter_of(chunk_head(found, one)) for one in found.ranges] == [
        b"", make_filter([b"v1"], False, 17), make_filter([b"v2"], False, 18)
    ]  # fmt: skip


def test_truncated_entries_are_gone_and_their_offsets_come_again() -> None:
    for last in range(20):
        world = World()
        world.append(world.chunk(b"a"), world.noop(), world.chunk(b"b", b"c"), world.chunk(b"d", ends=True))
        world.append(world.membership(OTHERS), world.offsets(ends=True), world.chunk(b"e"), world.noop())
        if last > world.last_index:
            break
        world.truncate(last)
        assert (world.log.last_index, world.log.next_offset) == (last, world.next_offset)
        assert world.log.memberships() == [(0, MEMBERS), (5, OTHERS)][: 2 if last >= 5 else 1]
        assert world.log.term(last) == world.last_term
        world.append(world.chunk(b"other", b"than", b"before", term=2), world.membership(MEMBERS))
        world.commit()
        assert everything(world.log) == wanted_chunks(world.entries)
        assert world.log.memberships()[-1] == (last + 2, MEMBERS)
        assert read_entries(world.log, 1, world.last_index + 1, 1 << 20) == [one.entry for one in world.entries]


def test_what_is_committed_is_not_truncated() -> None:
    world = World()
    world.fill(5)
    world.commit(3)
    with pytest.raises(AssertionError, match="is committed"):
        world.log.truncate(2)
    world.truncate(3)


def test_an_fsync_that_ends_behind_a_truncation_makes_nothing_durable() -> None:
    """The entries that it was begun for are gone, and others are in their place."""
    world = World()
    world.fill(6)
    job = world.log.begin_sync()
    world.truncate(2)
    world.fill(8, term=2)
    job.perform()
    world.log.end_sync(job)
    assert world.log.durable_index == 2


def test_an_fsync_of_an_earlier_segment_makes_nothing_of_the_next_durable() -> None:
    world = World()
    world.fill(3)
    job = world.log.begin_sync()
    world.append(world.chunk(b"x", ends=True))
    world.fill(3)
    job.perform()
    world.log.end_sync(job)
    assert world.log.durable_index == 4
    world.sync()
    assert world.log.durable_index == 7


def test_retention_removes_whole_segments_but_never_the_last() -> None:
    world = World()
    for _ in range(4):
        world.fill(4, at_once=2)
        world.append(world.chunk(b"end", ends=True))
    world.commit()
    for first_offset, kept_from in ((8, 0), (9, 9), (26, 18), (1 << 40, 36)):
        world.cut(first_offset)
        assert world.log.first_offset == kept_from
        assert everything(world.log) == wanted_chunks(world.entries)
        assert at_first(world.log).offset == at_offset(world.log, 0).offset == kept_from
        with pytest.raises(Compacted):
            read_entries(world.log, world.log.first_index - 1, world.log.last_index + 1, 100)
        assert world.log.term(world.log.first_index - 1) == (1 if kept_from else 0)
    assert len(world.disk.files()) == 1 and world.log.last_index == world.log.first_index - 1
    assert world.log.memberships() == [(0, MEMBERS)]
    world.fill(3)
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries)


def test_a_reader_reads_on_in_a_file_that_retention_has_removed() -> None:
    world = World()
    world.fill(4)
    world.append(world.chunk(b"end", ends=True))
    world.fill(4)
    world.commit()
    found = read_chunks(world.log, 2, 1 << 20)
    wanted = wanted_chunks(world.entries)
    world.cut(5)
    assert found is not None and [bytes(chunk) for chunk in chunk_bytes(found)] == [chunk for _, chunk in wanted[1:5]]
    later = read_chunks(world.log, 3, 1 << 20)
    assert later is not None and later.ranges[0].first_offset == 5


def test_a_snapshot_takes_the_place_of_all_that_was_there() -> None:
    for before in (0, 3, 4, 6, 20):
        world = World()
        world.fill(3)
        world.append(world.chunk(b"end", ends=True))
        world.fill(3)
        checkpoint = Checkpoint(before, 9, 777, 5_000, before, OTHERS, 2, b"from the leader")
        log = begin_log(world.disk, DIRECTORY, checkpoint, NUMBER + 1)
        assert (log.first_index, log.last_index, log.next_offset) == (before + 1, before, 777)
        assert log.term(before) == 9 and log.memberships() == [(before, OTHERS)] and log.last_time_ms == 5_000
        assert log.stored_checkpoint(log.segments[0]) == checkpoint
        assert world.disk.files() == [f"{DIRECTORY}/{before + 1:020}.chunks"]


def test_an_entry_that_cannot_stand_here_is_refused_and_nothing_is_written() -> None:
    world = World()
    world.fill(2)
    content = world.disk.content(world.log.segments[0].name)
    data = message_item(b"x")
    for offset in (1, 3):
        wrong = encode_chunk(seal_chunk([data], 1, 1, 0, 1, offset), [data])
        with pytest.raises(BadBytes, match="offset"):
            world.log.append([Entry(3, 1, EntryKind.COMMAND, wrong)])
    with pytest.raises(BadBytes, match="of term 0"):
        world.log.append([Entry(3, 0, EntryKind.NOOP, b"")])
    with pytest.raises(AssertionError, match="cannot follow"):
        world.log.append([Entry(4, 1, EntryKind.NOOP, b"")])
    assert world.disk.content(world.log.segments[0].name) == content
    world.fill(2)


@pytest.mark.parametrize("fault", [Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_without_room_nothing_is_appended_and_later_it_is(fault: Fault) -> None:
    world = World()
    world.fill(2)
    stored: list[Stored] = [world.chunk(b"x" * 100)]
    world.disk.faults = fault_on("write", fault)
    with pytest.raises(DiskFull):
        world.log.append([stored[0].entry])
    assert world.log.last_index == 2
    world.disk.faults = no_faults
    assert world.restart().torn_bytes == 0
    world.append(*stored)
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries)


def test_without_room_for_another_segment_the_log_rolls_later() -> None:
    world = World()
    world.fill(2)
    world.log.append([world.chunk(b"end", ends=True).entry])
    world.disk.faults = fault_on("create", Fault.ENOSPC)
    with pytest.raises(DiskFull):
        world.roll()
    world.disk.faults = no_faults
    assert world.log.must_roll
    world.fill(2)
    assert len(world.log.segments) == 2
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries)


def test_an_index_that_cannot_be_written_waits_in_memory() -> None:
    world = World()
    world.disk.faults = lambda call: (
        Fault.ENOSPC if call.operation in ("create", "write") and "offsets" in call.name else None
    )
    world.fill(300)
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries)
    world.disk.faults = no_faults
    world.append(world.chunk(b"end", ends=True))
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries) and world.log.rebuilt_indexes == 0

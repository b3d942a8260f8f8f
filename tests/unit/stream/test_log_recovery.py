"""What a start makes of a stream's files: an unfinished write is cut, damage is reported and stays, and an index never lies."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from raft.core.messages import Entry, Membership
from storage.errors import Corrupt
from storage.names import chunks_file, offsets_file
from stream.checkpoint import Checkpoint
from stream.framing import FRAME_HEADER_BYTES, FrameHeads
from stream.index import ROW_BYTES, IndexRow, OffsetIndex
from stream.log import begin_log
from stream.log_reading import at_offset, at_time, read_entries
from tests.sim.disk import Fault, fault_on, no_faults
from tests.unit.stream.stream_world import DIRECTORY, MEMBERS, NUMBER, World, everything, wanted_chunks

FIRST = chunks_file(DIRECTORY, 1)
FIRST_INDEX = offsets_file(DIRECTORY, 1)
OTHERS = Membership((3 << 32,))


def small() -> World:
    """One segment: a few entries that were fsynced, and a few that were written after that."""
    world = World()
    world.append(world.noop(), world.chunk(b"one", b"two"), world.membership(OTHERS), world.offsets())
    world.sync()
    world.append(world.chunk(b"three", term=2))
    world.append(world.chunk(b"four" * 5, b"five"), world.offsets())
    return world


def ends(world: World, segment: int = 0) -> list[int]:
    """Where the checkpoint and each entry of a segment end."""
    one = world.log.segments[segment]
    found = [position for position, _, _ in one.frames().walk(0)]
    return [*found[1:], one.tail.end]


def readable(world: World) -> None:
    """The log is a prefix of what was appended, whole, and takes further entries."""
    last = world.log.last_index
    del world.entries[last - world.before :]
    assert world.log.next_offset == world.next_offset and world.log.last_term == world.last_term
    if last >= world.log.first_index:
        found: list[Entry] = []
        while len(found) < last:
            found += read_entries(world.log, len(found) + 1, last + 1, 1 << 20)
        assert found == [one.entry for one in world.entries]
    world.append(world.chunk(b"after the start"))
    world.commit()
    assert everything(world.log) == wanted_chunks(world.entries)
    assert [at_offset(world.log, offset).offset for offset in range(world.next_offset)] == [*range(world.next_offset)]


def test_a_start_finds_what_was_written() -> None:
    world = small()
    found = world.restart()
    assert (found.damage, found.torn_bytes, world.log.last_index) == (None, 0, 7)
    assert world.log.memberships() == [(0, MEMBERS), (3, OTHERS)]
    assert world.log.durable_index == 7
    readable(world)


def test_a_log_without_files_is_none() -> None:
    world = World()
    for name in world.disk.files():
        world.disk.delete(name)
    assert world.restart().segments == []


def test_every_prefix_of_a_segment_is_cut_behind_its_last_whole_entry() -> None:
    """Below what had been fsynced, nothing in such a file can say so. But whoever keeps it may know it."""
    world = small()
    content, edges = world.disk.content(FIRST), ends(world)
    for length in range(len(content)):
        twin = small()
        twin.disk.overwrite(FIRST, content[:length])
        found = twin.restart()
        if length < edges[0]:
            assert found.segments == [] and found.damage is not None and found.damage.name == FIRST
            assert twin.disk.content(FIRST) == content[:length]
            continue
        whole = max(edge for edge in edges if edge <= length)
        assert (found.damage, found.torn_bytes) == (None, length - whole)
        assert twin.log.last_index == edges.index(whole)
        assert twin.disk.content(FIRST) == content[:whole]
        readable(twin)


def test_every_flipped_bit_of_a_segment_is_torn_or_damage_and_no_entry_is_made_up() -> None:
    world = small()
    content, edges = world.disk.content(FIRST), ends(world)
    fsynced = edges[4]
    data_of_two = range(edges[2] - 7 - 7, edges[2])  # messages whose heads are whole: found when they are read
    for bit in range(len(content) * 8):
        twin, at = small(), bit // 8
        twin.disk.flip_bit(FIRST, bit)
        damaged = twin.disk.content(FIRST)
        found = twin.restart()
        whole = max((edge for edge in edges if edge <= at), default=0)
        if at < fsynced and at not in data_of_two:
            assert found.damage is not None and found.damage.name == FIRST, f"bit {bit}"
            assert (found.damage.offset, twin.disk.content(FIRST)) == (whole, damaged)
            if found.segments:
                assert twin.log.last_index == edges.index(whole)
        elif at < fsynced:
            assert found.damage is None
            twin.commit()
            with pytest.raises(Corrupt):
                everything(twin.log)
            with pytest.raises(Corrupt):
                read_entries(twin.log, 1, 8, 1 << 20)
        else:
            assert found.damage is None and twin.log.last_index == edges.index(whole), f"bit {bit}"
            readable(twin)


def test_damage_is_not_cut_before_the_owner_gives_up_what_follows() -> None:
    world = small()
    edges = ends(world)
    world.disk.flip_bit(FIRST, (edges[1] + 3) * 8)
    damaged = world.disk.content(FIRST)
    for _ in range(2):
        found = world.restart()
        assert found.damage is not None and world.log.last_index == 1
        assert (found.damage.offset, found.damage.length) == (edges[1], edges[4] - edges[1])
        assert world.disk.content(FIRST) == damaged
        with pytest.raises(AssertionError, match="behind damage"):
            world.log.append([world.entries[1].entry])
    world.truncate(1)
    assert world.disk.content(FIRST) == damaged[: edges[1]]
    readable(world)


def test_what_is_known_to_be_durable_is_missed() -> None:
    world = small()
    world.disk.overwrite(FIRST, world.disk.content(FIRST)[: ends(world)[5]])
    assert world.restart(durable_index=5).damage is None
    found = world.restart(durable_index=6)
    assert found.damage is not None and "entry 6 had been fsynced" in found.damage.reason
    world.truncate(5)
    readable(world)


def test_a_chunk_that_straddles_a_torn_write_is_cut_with_all_behind_it() -> None:
    """Any of its blocks may have been written, and those of the chunks behind it too."""
    torn = 0
    for seed in range(300):
        world = World()
        world.fill(3, size=700)
        world.sync()
        for _ in range(4):
            world.fill(1, size=1_300, at_once=2)
        world.append(world.noop(), world.offsets())
        world.crash(Random(seed))
        found = world.restart(durable_index=3)
        assert found.damage is None and world.log.last_index >= 3, seed
        torn += bool(found.torn_bytes)
        readable(world)
        assert world.restart(durable_index=world.log.last_index).damage is None
    assert torn > 50


def test_whatever_a_payload_imitates_a_torn_write_is_told_from_damage() -> None:
    """Messages that hold whole segments of this very stream, frames that claim all to be durable, zeros and ones."""
    world = small()
    copy = world.disk.content(FIRST)
    forged = bytearray(copy)
    forged[16:24] = bytes(8)
    for payload in (bytes(copy), bytes(forged), bytes(600), b"\xff" * 600):
        for cut in (1, len(payload) // 2, len(payload) - 1):
            twin = World(numbers=Random(5))
            twin.log = begin_log(twin.disk, DIRECTORY, Checkpoint(0, 0, 0, 0, 0, MEMBERS, 1, b""), NUMBER + 1)
            twin.fill(2)
            twin.sync()
            edge = twin.log.segments[0].tail.end
            twin.append(twin.chunk(payload, payload))
            whole = twin.disk.content(FIRST)
            # The first block of the write is lost, those with the payload are there.
            lost = whole[:edge] + bytes(60) + whole[edge + 60 : len(whole) - cut]
            twin.disk.overwrite(FIRST, lost)
            found = twin.restart()
            assert found.damage is None and found.torn_bytes == len(lost) - edge
            readable(twin)


def test_an_offset_is_never_given_to_two_messages_that_were_durable() -> None:
    """A truncation is durable when it returns: what was cut does not come back behind what took its place."""
    for seed in range(150):
        random = Random(seed)
        world = World()
        world.fill(4, size=random.randrange(600))
        world.append(world.chunk(b"end", ends=random.random() < 0.5))
        world.fill(4, size=random.randrange(600))
        world.sync()
        world.truncate(random.randrange(1, 9))
        kept = world.last_index
        world.fill(random.randrange(1, 4), size=random.randrange(600), term=2)
        if random.random() < 0.5:
            world.sync()
            kept = world.last_index
        world.crash(random)
        found = world.restart()
        assert found.damage is None and kept <= world.log.last_index <= world.last_index, seed
        assert [entry.term for entry in read_entries(world.log, 1, world.log.last_index + 1, 1 << 20)] == [
            one.entry.term for one in world.entries[: world.log.last_index]
        ]
        readable(world)


# Several segments.


def long() -> World:
    world = World()
    for _ in range(3):
        world.fill(3)
        world.append(world.membership(OTHERS), world.chunk(b"end", ends=True))
    world.fill(2)
    return world


@pytest.mark.parametrize("cut", [1, 30, 10_000])
def test_a_sealed_segment_without_its_end_is_damaged(cut: int) -> None:
    world = long()
    name = world.log.segments[1].name
    content = world.disk.content(name)
    kept = max(len(content) - cut, world.log.segments[1].start)
    world.disk.overwrite(name, content[:kept])
    before = {one: world.disk.content(one) for one in world.disk.files()}
    found = world.restart()
    assert found.damage is not None and found.damage.name == name
    assert 5 <= world.log.last_index < 10
    world.truncate(world.log.last_index)
    assert set(world.disk.files()) < set(before)
    readable(world)


@pytest.mark.parametrize(("which", "last"), [(0, None), (1, 5), (2, 10), (3, 15)])
def test_behind_a_damaged_checkpoint_the_log_ends_and_all_files_stay(which: int, last: int | None) -> None:
    world = long()
    name = world.log.segments[which].name
    world.disk.flip_bit(name, 8 * FRAME_HEADER_BYTES + 3)
    before = {one: world.disk.content(one) for one in world.disk.files() if one.endswith(".chunks")}
    found = world.restart()
    assert found.damage is not None and found.damage.name == name
    assert {one: world.disk.content(one) for one in before} == before
    if last is None:
        assert found.segments == []
        return
    assert world.log.last_index == last
    world.truncate(last)
    readable(world)


def test_a_missing_segment_ends_the_log() -> None:
    world = long()
    world.disk.delete(world.log.segments[1].name)
    found = world.restart()
    assert found.damage is not None and world.log.last_index == 5
    world.truncate(5)
    readable(world)


def test_a_crash_while_a_segment_is_begun_leaves_the_log_at_its_end() -> None:
    """With the entry that ended the segment, or without it; the next start rolls."""
    for seed in range(60):
        world = World()
        world.fill(2)
        world.log.append([world.chunk(b"end", ends=True).entry])
        world.sync()
        job = world.log.begin_roll(b"behind 3", 1, 99)
        calls = iter(range(100))
        stop = Random(seed).randrange(8)
        world.disk.faults = lambda call, calls=calls, stop=stop: Fault.EIO if next(calls) >= stop else None  # type: ignore[misc]
        with pytest.raises(Exception, match="simulated"):
            job.perform()
            raise AssertionError("simulated: it was finished")
        world.disk.faults = no_faults
        world.crash(Random(seed))
        found = world.restart()
        assert found.damage is None and world.log.last_index == 3
        assert world.log.must_roll == (len(found.segments) == 1)
        readable(world)
        assert [name for name in world.disk.files() if name.endswith(".tmp")] == []


@pytest.mark.parametrize("operation", ["delete", "sync_dir", "truncate", "sync", "create", "rename", "write"])
def test_a_crash_amid_any_step_of_a_change_leaves_a_whole_log(operation: str) -> None:
    """Truncation, retention and a snapshot in place of all, ended at each call of an operation."""
    changes: dict[str, Callable[[World], object]] = {
        "truncate": lambda world: world.log.truncate(4),
        "cut": lambda world: world.log.delete(world.log.cut(11)),
        "install": lambda world: begin_log(
            world.disk, DIRECTORY, Checkpoint(12, 3, 400, 9, 12, OTHERS, 1, b"from the leader"), 77
        ),
    }
    for name, change in changes.items():
        for number in range(20):
            world = long()
            world.commit(4 if name == "truncate" else None)
            world.sync()
            calls = iter(range(number))
            world.disk.faults = lambda call, calls=calls: (  # type: ignore[misc]
                Fault.EIO if call.operation == operation and next(calls, None) is None else None
            )
            try:
                change(world)
                done = True
            except Exception:
                done = False
            world.disk.faults = no_faults
            world.crash(Random(number))
            found = world.restart()
            assert found.damage is None, (name, number)
            first, last = world.log.first_index, world.log.last_index
            match name:
                case "truncate":
                    assert first == 1 and 4 <= last <= 17 and (not done or last == 4)
                case "cut":
                    assert first in (1, 6, 11) and last == 17 and (not done or first == 11)
                case "install":
                    assert (first, last) == (13, 12) or (first == 1 and last in (17, 15, 10) and not done), (
                        first,
                        last,
                    )
            if done:
                break
        assert done


# The index.


def with_index() -> World:
    """A sealed segment with its index, and one that grows."""
    world = World()
    world.append(world.chunk(b"a", b"b"), world.noop(), world.chunk(b"c", later_ms=20), world.offsets())
    world.append(world.chunk(b"d", ends=True), world.chunk(b"e"))
    world.sync()
    world.disk.settle()
    return world


def check_places(world: World) -> None:
    world.commit()
    assert [at_offset(world.log, offset).next_index for offset in range(5)] == [1, 1, 3, 5, 6]
    assert [at_time(world.log, time).offset for time in (0, 10, 11, 30, 31, 50, 60)] == [0, 0, 2, 2, 3, 3, 4]
    assert [world.log.term(index) for index in range(1, 7)] == [1] * 6
    assert everything(world.log) == wanted_chunks(world.entries)


def test_every_prefix_of_an_index_is_completed() -> None:
    content = with_index().disk.content(FIRST_INDEX)
    assert len(content) == 6 * ROW_BYTES
    for length in range(len(content)):
        world = with_index()
        world.disk.overwrite(FIRST_INDEX, content[:length])
        assert world.restart().damage is None
        check_places(world)
        assert world.log.rebuilt_indexes == 1 and world.disk.content(FIRST_INDEX) == content


def test_every_flipped_bit_of_an_index_is_found_out() -> None:
    content = with_index().disk.content(FIRST_INDEX)
    for bit in range(len(content) * 8):
        world = with_index()
        world.disk.flip_bit(FIRST_INDEX, bit)
        assert world.restart().damage is None
        check_places(world)
        assert world.log.rebuilt_indexes == 1 and world.disk.content(FIRST_INDEX) == content


def test_a_missing_index_is_made_anew() -> None:
    world = with_index()
    world.disk.delete(FIRST_INDEX)
    assert world.restart().damage is None
    check_places(world)


@pytest.mark.parametrize("segment_is_old", [False, True])
@pytest.mark.parametrize("index_is_old", [False, True])
def test_an_index_and_a_segment_of_different_times(segment_is_old: bool, index_is_old: bool) -> None:
    """What is on the disk of the two after power was lost may be of different moments."""
    world = World()
    world.fill(100)
    old = {name: world.disk.content(name) for name in (FIRST, FIRST_INDEX)}
    world.fill(100)
    if segment_is_old:
        world.disk.overwrite(FIRST, old[FIRST])
    if index_is_old:
        world.disk.overwrite(FIRST_INDEX, old[FIRST_INDEX])
    assert world.restart().damage is None
    assert world.log.last_index == (100 if segment_is_old else 200)
    readable(world)


def lie(world: World, change: Callable[[IndexRow], IndexRow], which: int) -> None:
    """An index whose checksums are right, and that is wrong in one row."""
    segment = world.log.segments[0]
    rows = [segment.row(number) for number in range(segment.tail.count)]
    rows[which] = change(rows[which])
    index = OffsetIndex(world.disk, FIRST_INDEX, segment.number, 1)
    for row in rows:
        index.add(row)
    index.sync()


@pytest.mark.parametrize("which", [0, 2, 4])
@pytest.mark.parametrize(
    "change",
    [
        lambda row: row._replace(offset=row.offset + 1),
        lambda row: row._replace(offset=row.offset + 1_000),
        lambda row: row._replace(position=row.position + 8),
        lambda row: row._replace(position=1 << 40),
        lambda row: row._replace(message_count=row.message_count + 1),
        lambda row: row._replace(term=row.term + 1),
    ],
    ids=["offset", "far offset", "position", "far position", "count", "term"],
)
def test_an_index_that_lies_is_found_out_where_it_is_used(change: Callable[[IndexRow], IndexRow], which: int) -> None:
    world = with_index()
    lie(world, change, which)
    world.restart()
    world.commit()
    assert [at_offset(world.log, offset).next_index for offset in range(5)] == [1, 1, 3, 5, 6]
    assert world.log.rebuilt_indexes == 1
    check_places(world)


def test_an_index_of_another_segment_of_the_same_name_is_not_believed() -> None:
    """A truncation took the segment, and another one began with the same entry."""
    world = with_index()
    index = world.disk.content(FIRST_INDEX)
    world.truncate(0)
    log = begin_log(world.disk, DIRECTORY, Checkpoint(0, 0, 0, 0, 0, MEMBERS, 1, b""), NUMBER + 1)
    world.log = log
    world.append(world.chunk(b"a"), world.chunk(b"b", b"b"), world.chunk(b"c"), world.offsets())
    world.append(world.chunk(b"d", ends=True), world.chunk(b"e"))
    world.disk.overwrite(FIRST_INDEX, index)
    assert world.restart().damage is None
    world.commit()
    assert world.log.rebuilt_indexes == 1 and everything(world.log) == wanted_chunks(world.entries)


def test_what_cannot_be_written_of_an_index_is_no_reason_not_to_start() -> None:
    world = with_index()
    world.disk.delete(FIRST_INDEX)
    world.disk.faults = fault_on("create", Fault.ENOSPC)
    assert world.restart().damage is None
    check_places(world)


def test_frames_of_a_segment_are_found_by_position_only_if_they_are_of_it() -> None:
    world = small()
    segment = world.log.segments[0]
    assert FrameHeads(segment.file, segment.tail.end, segment.number).at(0)[0].size == segment.start
    with pytest.raises(Exception, match="no frame of this segment"):
        FrameHeads(segment.file, segment.tail.end, segment.number + 1).at(0)

"""What one group's store answers, whether entries lie in memory, in the log or in segments; and snapshots that cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest

from raft.core import packs
from raft.core.errors import Compacted, Damaged
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, SnapshotChunk, SnapshotMeta
from raft.store.group_records import SegmentRow
from raft.store.wal_log_store import WalLogStore
from storage.beside_loop import AtOnce
from storage.names import INCOMING_SUFFIX, RAFT_DIRECTORY, RAFT_GROUPS, group_segment
from storage.segment import Segment
from tests.sim.disk import Fault, fault_on, no_faults
from tests.unit.raft.store_world import FIRST, TINY, World, digest_of, receive


def world_with(entries: int, world: World | None = None) -> World:
    world = world or World().open()
    world.create(7)
    for first in range(1, entries + 1, 5):
        world.append(7, first, 1, [b"%d " % index * 8 for index in range(first, min(first + 5, entries + 1))])
        world.settle()
    return world


def test_entries_are_cut_by_bytes_but_one_is_always_given() -> None:
    store = world_with(40).store.group(7)
    assert [entry.index for entry in store.entries(3, 10, 1)] == [3]
    assert [entry.index for entry in store.entries(3, 10, 0)] == [3]
    assert [entry.index for entry in store.entries(3, 10, 48)] == [3, 4, 5]
    assert [entry.index for entry in store.entries(38, 41, 10_000)] == [38, 39, 40]


def test_entries_are_cut_by_records_that_have_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member was to catch up with what was published one by one: 2,000 records were read in one turn of its leader."""
    monkeypatch.setattr("raft.store.wal_log_store.READS_MAX", 2)
    store = world_with(40, World(file_bytes_max=1 << 16).open()).store.group(7)
    store.forget(40)
    assert [entry.index for entry in store.entries(3, 41, 100_000)] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [entry.index for entry in store.entries(3, 7, 100_000)] == [3, 4, 5, 6]
    found: list[int] = []
    while len(found) < 40:
        found += [entry.index for entry in store.entries(len(found) + 1, 41, 100_000)]
    assert found == list(range(1, 41))


def test_entries_in_front_of_the_log_are_compacted() -> None:
    world = world_with(20)
    world.snapshot(7, 12, [], b"state")
    store = world.store.group(7)
    assert (store.first_index(), store.term(12)) == (13, 1)
    with pytest.raises(Compacted):
        store.entries(12, 14, 100)
    with pytest.raises(Compacted):
        store.term(11)


def test_some_entries_below_the_snapshot_stay_for_slow_followers() -> None:
    world = world_with(20, World(limits=replace(TINY, entries_kept=5)).open())
    world.snapshot(7, 12, [1], b"state")
    store = world.store.group(7)
    assert (store.first_index(), store.term(7)) == (8, 1)
    assert [entry.index for entry in store.entries(8, 13, 10_000)] == [8, 9, 10, 11, 12]
    world.check_now()


@pytest.mark.parametrize("moved_out", [False, True])
def test_no_more_stays_below_the_snapshot_than_so_many_bytes(moved_out: bool) -> None:
    """1,024 entries stayed, of a megabyte each where messages were large."""
    limits = replace(TINY, segment_entries_max=5, entries_kept=100, bytes_kept=1_200)
    world = World(limits=limits, file_bytes_max=2_000 if moved_out else 1 << 20).open()
    world.create(7)
    world.create(8)
    for first in range(1, 21, 5):
        world.append(7, first, 1, [bytes(80)] * 5)
        world.settle()
    world.append(8, 1, 1, [bytes(3_000)])
    world.settle()
    store = world.store.group(7)
    assert (bool(store.log.segments), store.log.rows is None) == (moved_out, moved_out)
    assert store.log.first_of_recent(20, world.limits) == 11
    assert store.log.first_of_recent(18, world.limits) == 11
    assert store.log.first_of_recent(20, replace(world.limits, entries_kept=3)) == 18
    assert store.log.first_of_recent(20, replace(world.limits, bytes_kept=10)) == 21
    assert store.log.first_of_recent(20, replace(world.limits, bytes_kept=10_000)) == 1


def test_nothing_stays_below_a_snapshot_that_is_to_make_room() -> None:
    world = world_with(20, World(limits=replace(TINY, entries_kept=5)).open())
    store, kept = world.store.group(7), list[bool]()
    meta = SnapshotMeta(12, 1, FIRST, 3)
    store.save_snapshot(meta, [b"state"], LiveEntries([1]), kept.append, keeps_recent=False)
    world.settle()
    assert (kept, store.first_index()) == ([True], 13)


def test_a_local_snapshot_that_ends_late_never_replaces_a_newer_one() -> None:
    """Ra de94f929 (C9)."""
    world, donor = world_with(20), world_with(30, World(node=2).open())
    donor.snapshot(7, 30, [2, 29], b"the leader's")
    donor.settle()
    late: list[bool] = []
    world.store._jobs._busy = True  # the local one waits
    world.store.group(7).save_snapshot(SnapshotMeta(12, 1, FIRST, 3), [b"ours"], LiveEntries([1]), late.append)
    waiting, world.store._jobs._waiting = world.store._jobs._waiting, type(world.store._jobs._waiting)()
    world.store._jobs._busy = False
    assert world.install(7, donor)
    for job in waiting:
        world.store._jobs.add(job)
    world.settle()
    assert late == [False]
    world.check_now()
    world.disk.kill()
    assert digest_of(world.reopened().store.group(7)) == world.now(7)


def test_a_snapshot_is_received_in_chunks_of_any_size() -> None:
    donor = world_with(30, World(node=2).open())
    donor.snapshot(7, 25, [1, 2, 9, 24], b"state" * 100)
    for chunk_bytes in (1, 7, 100, 10_000):
        world = world_with(3)
        assert world.install(7, donor, chunk_bytes)
        world.check_now()
        world.append(7, 26, 2, [b"behind it"])
        world.settle()
        world.disk.kill()
        assert digest_of(world.reopened().store.group(7)) == world.now(7)


def test_without_a_snapshot_there_is_none_to_send() -> None:
    world = World().open()
    world.create(7)
    assert world.store.group(7).read_snapshot(0, 0, 100) is None


def test_a_snapshot_that_replaced_the_one_that_was_sent_before_is_sent_itself() -> None:
    """What had been read of the one before was sent as this one, and no follower could install it."""
    donor = world_with(30, World(node=2).open())
    donor.snapshot(7, 12, [], b"before")
    world = world_with(5)
    assert world.install(7, donor)
    donor.snapshot(7, 22, [], b"newer")
    assert world.install(7, donor)
    assert world.store.group(7).load_state() == b"newer"


def test_who_waited_for_a_snapshot_of_a_group_that_was_removed_is_told_nothing_when_it_is_here_again() -> None:
    donor, world = world_with(30, World(node=2).open()), world_with(3)
    donor.snapshot(7, 25, [1, 2], b"state")
    told: list[bytes | None] = []
    before = world.store.group(7)
    receive(before, donor.store.group(7))
    before.install(donor.store.group(7).snapshot(), told.append)
    world.remove(7)
    world.create(7)
    world.settle()
    assert told == [] and world.store.group(7) is not before
    world.check_now()


def arrived(world: World) -> list[str]:
    """Files of snapshots that are being received."""
    return [name for name in world.disk.files() if name.endswith(INCOMING_SUFFIX)]


def receiving() -> tuple[World, World]:
    """A node that has the first part of a snapshot, and the node that has sent it."""
    donor, world = world_with(30, World(node=2).open()), world_with(3)
    donor.snapshot(7, 25, [1, 2, 9], b"state" * 20)
    part = donor.store.group(7).read_snapshot(25, 0, 100)
    assert part is not None
    meta = donor.store.group(7).snapshot()
    world.store.group(7).receive(SnapshotChunk(0, 0, 1, meta, 0, part[0], False))
    assert arrived(world)
    return world, donor


def test_a_group_that_is_removed_while_it_receives_a_snapshot_leaves_nothing_of_it() -> None:
    """It stayed until the next start, with all that had come of the snapshot."""
    world, donor = receiving()
    world.remove(7)
    assert not arrived(world)
    world.create(7)
    world.settle()
    assert world.install(7, donor), "it is here again, and receives another"
    world.check_now()


def test_a_member_that_becomes_another_one_while_it_receives_a_snapshot_leaves_nothing_of_it() -> None:
    """The leader may send the new one entries instead."""
    world, _ = receiving()
    members: list[int] = []
    world.store.repair(7, Damaged("entry 2 cannot be read", 2), members.append)
    world.settle()
    assert members == [world.store.group(7).member]
    assert not arrived(world)


def test_a_snapshot_that_finds_no_room_gives_back_what_it_has_taken() -> None:
    world, donor = receiving()
    world.disk.faults = fault_on("write", Fault.ENOSPC)
    world.store.group(7).receive(SnapshotChunk(0, 0, 1, donor.store.group(7).snapshot(), 100, b"more", False))
    assert not arrived(world)
    assert len(world.findings) == 1
    world.disk.faults = no_faults
    assert world.install(7, donor)
    world.check_now()


def test_a_group_that_is_removed_before_a_snapshot_is_installed_leaves_nothing_of_it() -> None:
    """The work beside the loop may have its file open by then."""
    donor, world = world_with(30, World(node=2).open()), world_with(3)
    donor.snapshot(7, 25, [1, 2, 9], b"state" * 20)
    store, works, told = world.store.group(7), list[Callable[[], None]](), list[bytes | None]()
    receive(store, donor.store.group(7))
    background = world.store._jobs._background
    with patch.object(background, "run", lambda work, done: works.append(lambda: AtOnce().run(work, done))):
        store.install(donor.store.group(7).snapshot(), told.append)
        world.remove(7)
    works.pop()()
    world.settle()
    world.store.tick(10**7)
    world.settle()
    assert (told, world.findings, world.store.failed) == ([None], [], None)
    assert [name for name in world.disk.files() if name.startswith(RAFT_DIRECTORY)] == list(RAFT_GROUPS)


def test_an_installed_snapshot_leaves_nothing_of_the_log_before_it_in_memory() -> None:
    """Ra 85cfe271 (B4): entries that were discarded with the log were read again."""
    donor = world_with(30, World(node=2).open())
    donor.snapshot(7, 22, [], b"state")
    world = world_with(20, World(limits=replace(TINY, memory_bytes_max=100_000)).open())
    assert world.install(7, donor)
    world.append(7, 23, 2, [b"one", b"two", b"three", b"four"])
    world.check_now()


def test_entries_that_overwrite_others_are_read_in_their_place() -> None:
    world = world_with(20, World(limits=replace(TINY, memory_bytes_max=100_000)).open())
    for first in (20, 18, 12, 3):
        world.append(7, first, 30 - first, [b"%d instead" % first] * (21 - first))
        world.check_now()
    world.append(7, 5, 40, [b"the last one"])
    world.check_now()
    world.settle()
    world.check_recovered(world.log.durable, world.reopened())


def test_entries_that_were_overwritten_when_they_had_moved_to_a_segment_are_read_as_they_are_now() -> None:
    world = world_with(100)
    assert any(row.first <= 12 for row in world.store.group(7).log.segments)
    for first in range(12, 212, 5):
        world.append(7, first, 2, [b"%d instead" % index * 8 for index in range(first, first + 5)])
        world.settle()
    assert sum(row.first <= 12 <= row.last for row in world.store.group(7).log.segments) == 2
    world.check_now()
    world.disk.kill()
    world.check_recovered(world.log.durable, world.reopened())


def test_a_block_that_was_written_to_another_place_is_damage() -> None:
    """Its records are sound, and hold entries: only not those that were asked for (brokers, seed 10000555)."""
    with patch.object(packs, "PACK_BYTES_MAX", 100):
        world = world_with(100, World(limits=replace(TINY, segment_entries_max=20)).open())
    store, disk = world.store.group(7), world.disk
    number = next(row.number for row in store.log.segments if row.first > 10 and row.entries > 10)
    name = group_segment(7, number)
    segment = Segment(disk, name)
    places = [segment.place_from(index) for index in (segment.index.first, segment.index.last)]
    (first, one), (second, other) = [place for place in places if place is not None]
    size = len(segment.read_at(one)[1])
    assert size == len(segment.read_at(other)[1]) and one + size <= other
    segment.close()
    content = disk.content(name)
    disk.overwrite(name, content[:one] + content[other : other + size] + content[one + size :])
    world.store.open_segments.close()
    assert [entry.index for entry in store.entries(second, second + 1, 1)] == [second]
    for index in (first, first + 1):
        with pytest.raises(Damaged, match="was written here"):
            store.entries(index, index + 1, 1)


def test_what_was_damaged_on_its_way_is_not_installed() -> None:
    donor = world_with(30, World(node=2).open())
    donor.snapshot(7, 25, [1, 2, 9, 24], b"state" * 20)
    source = donor.store.group(7)
    meta, size = source.snapshot(), source.snapshot_size()
    part = source.read_snapshot(25, 0, size)
    assert part is not None and part[1] and len(part[0]) == size
    whole = part[0]
    for at in range(0, size + 1, 13):
        world = world_with(3)
        store = world.store.group(7)
        sent = whole[:at] if at % 2 else whole[:at] + b"\xff" + whole[at + 1 :]
        if sent == whole:
            continue
        store.receive(SnapshotChunk(0, 0, 1, meta, 0, sent, True))
        answers: list[bytes | None] = []
        store.install(meta, answers.append)
        world.settle()
        assert answers == [None] and world.findings
        world.check_now()
        assert world.install(7, donor), "and the next attempt begins anew"


def test_a_stream_goes_on_where_it_was_though_its_entries_move() -> None:
    """C10: between two chunks the log is released and segments are rewritten."""
    world = world_with(30)
    world.snapshot(7, 25, [1, 2, 9, 24], b"state" * 20)
    store = world.store.group(7)
    expected = store.read_snapshot(25, 0, store.snapshot_size())
    assert expected is not None
    parts: list[bytes] = []
    last = False
    while not last:
        part = store.read_snapshot(25, sum(map(len, parts)), 50)
        assert part is not None and part[0]
        data, last = part
        parts.append(data)
        first = world.now(7).last + 1
        world.append(7, first, 1, [b"more" * 30] * 4)
        world.settle()
        world.store.tick(1_000_000 * len(parts))
    assert (b"".join(parts), True) == expected
    assert store.read_snapshot(25, len(expected[0]), 50) == (b"", True), "nothing is behind its end"
    world.snapshot(7, 26, [9], b"newer")
    assert store.read_snapshot(25, 50, 50) is None


def test_a_snapshot_is_not_read_before_it_is_sent() -> None:
    """Its live entries may be a million messages: whoever sends the first part must not wait for all of them."""
    world = world_with(400)
    world.snapshot(7, 390, list(range(1, 390, 3)), b"state")
    store, read = world.store.group(7), []
    entries_from = WalLogStore._run

    def counted(one: WalLogStore, index: int, end: int) -> Sequence[Entry]:
        read.append(index)
        return entries_from(one, index, end)

    with patch.object(WalLogStore, "_run", counted):
        store.read_snapshot(390, 0, 100)
        first_part = len(read)
        store.read_snapshot(390, store.snapshot_size() - 10, 100)
    assert first_part <= 2 and len(read) >= 130, f"{first_part} of {len(read)} reads for the first part"


def test_flushed_entries_cost_no_objects() -> None:
    world = world_with(2000, World(limits=replace(TINY, memory_bytes_max=10_000)).open())
    store = world.store.group(7)
    assert len(store._tail) < 100
    rows = store.log.rows
    assert rows is None or len(rows) < 100
    assert store.entries(1000, 1001, 1)[0].data == b"1000 " * 8


def test_segments_of_which_nothing_counts_are_deleted_and_sparse_ones_rewritten() -> None:
    world = world_with(200)
    before = world.store.group(7).log.segments
    assert len(before) > 20
    world.snapshot(7, 190, [3, 4, 100], b"state")
    world.settle()
    world.store.tick(10_000_000)
    world.settle()
    after = world.store.group(7).log.segments
    assert sum(row.entries for row in after) < 20 and {row.first for row in after} >= {3}
    files = [name for name in world.disk.list("raft") if name.endswith(".seg")]
    assert len(files) == len(after)
    world.check_now()
    world.disk.kill()
    assert digest_of(world.reopened().store.group(7)) == world.now(7)


def test_segments_that_came_with_a_snapshot_stay_while_a_start_would_look_for_them() -> None:
    """Nothing of them counts any more, but the log still says that a snapshot came with them."""
    donor = world_with(30, World(node=2).open())
    donor.snapshot(7, 22, [1, 2, 21], b"state")
    world = world_with(3)
    assert world.install(7, donor)
    came = {row.number for row in world.store.group(7).log.segments}
    world.append(7, 23, 2, [b"one"])
    world.settle()
    assert came and world.snapshot(7, 23, [], b"newer")
    world.store.tick(10_000_000)
    world.settle()
    assert {row.number for row in world.store.group(7).log.segments} >= came
    world.disk.kill()
    world.check_recovered(world.log.durable, world.reopened())


def test_segments_are_not_kept_for_a_snapshot_of_a_group_that_was_removed() -> None:
    """Those of the group that is here under its number now waited for the log file with that snapshot to go."""
    donor, world = world_with(30, World(node=2).open()), world_with(3)
    donor.snapshot(7, 22, [1, 2, 21], b"state")
    assert world.install(7, donor)
    assert world.store.must_keep_segments(7)
    world.remove(7)
    world.create(7)
    assert not world.store.must_keep_segments(7)


def test_log_files_are_let_go_once_what_counts_is_elsewhere() -> None:
    world = world_with(200)
    assert world.log.files().start > 3
    assert world.store.groups_file.first_file >= world.log.files().start
    world.check_now()


def test_a_removed_group_stays_away_when_the_log_has_forgotten_its_removal() -> None:
    """LavinMQ (C15): a deleted queue came back."""
    world = world_with(100)
    world.create(8)
    world.settle()
    assert 7 in world.store.groups_file.states
    world.remove(7)
    removed_in = world.log.files().stop
    while world.log.files().start <= removed_in:
        world.append(8, world.now(8).last + 1, 1, [b"x" * 300])
        world.settle()
    world.check_recovered(world.log.durable, world.reopened())


def test_entries_that_do_not_follow_are_a_mistake_of_ours() -> None:
    store = world_with(5).store.group(7)
    with pytest.raises(AssertionError, match="entry 9 follows 5"):
        store.append(None, [Entry(9, 1, 0, b"")])


def test_live_entries_are_ranges() -> None:
    live = LiveEntries([1, 2, 3, 9, 11, 12])
    assert (list(live), live.count) == ([1, 2, 3, 9, 11, 12], 6)
    assert list(LiveEntries.decode(live.encode())) == list(live)
    assert list(live.within(2, 12)) == [(2, 4), (9, 10), (11, 12)]
    assert [index for index in range(14) if index in live] == list(live)


def test_what_large_entries_leave_of_a_log_file_is_never_copied_again() -> None:
    """Segments of few entries were joined with all that was joined before, as it was of few entries, too: a log of 1.3 GB was
    copied anew for each 0.6 GB that came."""
    limits = replace(TINY, segment_entries_max=1_000, segment_bytes_max=2048)
    world = World(limits=limits).open()
    world.create(7)
    kept: list[SegmentRow] = []
    for first in range(1, 60):
        world.append(7, first, 1, [b"%d large" % first * 60])
        world.settle()
        world.snapshot(7, first, list(range(1, first + 1)), b"all of them count")
        world.store.tick(first * 1_000)
        world.settle()
        segments = world.store.group(7).log.segments
        assert [row for row in segments if row in kept] == kept, "a large segment was rewritten"
        kept = [row for row in segments if row.size * 4 > 2048]
    assert len(kept) > 3 * limits.small_segments_max
    world.check_now()


@pytest.mark.parametrize("size", [10, 700, 5_000])
def test_a_segment_takes_no_more_bytes_than_it_may_but_one_pack_at_least(size: int) -> None:
    limits = replace(TINY, segment_entries_max=1_000, segment_bytes_max=2048, kept_pack_bytes_min=1 << 20)
    with patch.object(packs, "PACK_BYTES_MAX", 100):
        world = World(limits=limits).open()
        world.create(7)
        for first in range(1, 200, 4):
            world.append(7, first, 1, [b"%d" % (first % 10) * size] * 4)
            world.settle()
    segments = world.store.group(7).log.segments
    beside = 200 + 24 * max(row.entries for row in segments)  # index and footer
    assert segments and all(row.entries == 1 or row.size <= 2048 + beside for row in segments)
    world.check_now()

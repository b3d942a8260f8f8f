"""Segments whose entries stay in a log file that is kept: raft/store/kept_logs.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import raft.store.group_formats  # noqa: F401  registers the formats
from raft.core.errors import Damaged
from raft.core.live_entries import NONE_LIVE
from raft.core.messages import Entry, EntryKind
from raft.core.packs import PACK_BYTES_MAX
from raft.store.kept_logs import KeptPack, worth_keeping
from raft.store.segments import READ_AHEAD_BYTES, OpenSegments, SegmentBuilder, Wanted, read_segments
from raft.store.store_limits import SegmentBounds, StoreLimits
from storage import doctor
from storage.errors import DiskFailed
from storage.names import KEPT_SUFFIX, RAFT_DIRECTORY, SEGMENT_SUFFIX
from storage.os_disk import OsDisk
from tests.sim.disk import Call, Fault, SimDisk, SimFile, fault_at, no_faults
from tests.unit.raft.disks_without_room import NoRoomAtOnce
from tests.unit.raft.store_world import TINY, PowerCut, World, digest_of

LARGE, SMALL = 7, 8  # groups: one has most of the log
KEEPING = replace(TINY, segment_entries_max=1_000, kept_pack_bytes_min=1, small_segments_max=1_000)


def world(limits: StoreLimits = KEEPING) -> World:
    opened = World(limits=limits).open()
    for group in (LARGE, SMALL):
        opened.create(group)
    return opened


def publish(world: World, turns: int) -> None:
    for _ in range(turns):
        for group, size in ((LARGE, 150), (SMALL, 5)):
            first = world.now(group).last + 1
            term = max(1, world.store.group(group).term(first - 1))
            world.append(group, first, term, [b"%d " % index * size for index in (first, first + 1)])
        world.settle()


def files(world: World, suffix: str, group: int = LARGE) -> list[str]:
    return [name for name in world.disk.files() if name.endswith(suffix) and name.startswith(f"raft/{group:020d}-")]


def snapshot(world: World, since: int) -> None:
    """All from this one on are live."""
    last = world.now(LARGE).last
    world.snapshot(LARGE, last, list(range(since, last + 1)), b"a state")
    world.settle()


def compact(world: World) -> None:
    for turn in (1, 2, 3):
        world.store.tick(turn * 10**6)
        world.settle()


def test_a_log_file_that_is_mostly_of_one_group_is_kept_and_not_copied() -> None:
    run = world(replace(KEEPING, small_segments_max=3))
    publish(run, 40)
    snapshot(run, since=1)
    compact(run)
    kept = files(run, KEPT_SUFFIX)
    assert len(kept) > 5 and not files(run, KEPT_SUFFIX, SMALL)
    assert files(run, SEGMENT_SUFFIX, SMALL), "what little of another group is in it was copied"
    assert sum(len(run.disk.content(name)) for name in files(run, SEGMENT_SUFFIX)) * 5 < 40 * 2 * 450
    assert run.log.files().start >= len(kept), "the log has let go of them"
    run.check_now()
    run.disk.crash(Random(1))
    run.check_recovered(run.log.durable, run.reopened())


def test_packs_that_are_small_on_average_are_copied() -> None:
    run = world(replace(KEEPING, kept_pack_bytes_min=4_096))
    publish(run, 20)
    assert files(run, SEGMENT_SUFFIX) and not files(run, KEPT_SUFFIX)
    run.check_now()


@pytest.mark.parametrize(
    ("sizes", "file_bytes", "keeps"),
    [
        ([], 0, False),
        ([], 100, False),
        ([50], 0, False),
        ([50], 100, True),
        ([50], 101, False),
        ([20, 30], 100, True),
        ([9, 41], 100, True),
        ([9, 9, 32], 100, False),
    ],
)
def test_a_file_is_kept_for_half_of_it_in_packs_of_some_size(sizes: list[int], file_bytes: int, keeps: bool) -> None:
    packs = [KeptPack(at, 1, 0, 0, size, 1) for at, size in enumerate(sizes)]
    assert worth_keeping(packs, file_bytes, 20) == keeps


def test_where_the_file_system_has_no_second_names_entries_are_copied() -> None:
    run = world()
    run.disk.links = False
    publish(run, 20)
    assert files(run, SEGMENT_SUFFIX) and not files(run, KEPT_SUFFIX)
    run.check_now()
    run.check_recovered(run.log.durable, run.reopened())


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_second_name_that_was_given_up_goes_later_if_it_could_not_be_deleted_at_once(operation: str) -> None:
    """A file of the log is long, and nothing else would tell that it takes room. See also test_store_faults.py."""
    run = world()
    faults = run.disk.faults = NoRoomAtOnce(operation, ".seg.tmp", 1)
    publish(run, 20)
    assert [name for name in faults.undeleted if name.endswith(KEPT_SUFFIX)]
    run.disk.faults = no_faults
    compact(run)
    kept = {name for row in run.store.group(LARGE).log.segments for name in row.files(LARGE)}
    assert set(files(run, KEPT_SUFFIX)) <= kept and run.store.dead_files == []
    run.check_now()


def test_entries_that_were_overwritten_in_a_kept_file_stay_hidden() -> None:
    run = world()
    for term, first in ((1, 1), (2, 5), (3, 3), (4, 4)):
        run.append(LARGE, first, term, [b"%d in term %d" % (index, term) for index in range(first, first + 9)])
        run.settle()
        run.check_now()
    publish(run, 20)
    assert run.store.group(LARGE).log.segments[0].keeps_log
    run.check_now()
    run.disk.kill()
    opened = run.reopened()
    run.check_recovered(run.log.durable, opened)
    for first in range(1, 12):
        found = opened.store.group(LARGE).entries(first, 13, 1 << 20)
        assert [(entry.term, int(entry.kind), entry.data) for entry in found] == run.now(LARGE).entries[first - 1 : 12]


def test_a_kept_file_goes_when_nothing_in_it_counts() -> None:
    run = world()
    publish(run, 40)
    before = files(run, KEPT_SUFFIX)
    snapshot(run, since=61)
    compact(run)
    after = files(run, KEPT_SUFFIX)
    assert len(after) * 2 < len(before) and set(after) <= set(before), "and none is copied as long as half counts"
    run.check_now()
    publish(run, 1)
    snapshot(run, since=run.now(LARGE).last + 1)
    compact(run)
    assert files(run, KEPT_SUFFIX) == files(run, SEGMENT_SUFFIX) == []
    run.check_recovered(run.log.durable, run.reopened())


def test_a_kept_file_of_which_less_than_half_counts_is_copied_at_last() -> None:
    run = world()
    publish(run, 40)
    last = run.now(LARGE).last
    assert run.snapshot(LARGE, last, list(range(1, last + 1, 5)), b"every fifth")
    compact(run)
    assert not files(run, KEPT_SUFFIX) and files(run, SEGMENT_SUFFIX)
    run.check_now()
    run.check_recovered(run.log.durable, run.reopened())


def test_what_lies_in_kept_files_is_sent_with_a_snapshot() -> None:
    donor = World(limits=KEEPING, node=2).open()
    donor.create(LARGE)
    donor.create(SMALL)
    publish(donor, 20)
    snapshot(donor, since=3)
    assert files(donor, KEPT_SUFFIX)
    run = world()
    publish(run, 1)
    assert run.install(LARGE, donor)
    run.check_now()


def test_all_of_a_removed_group_goes() -> None:
    run = world()
    publish(run, 20)
    run.remove(LARGE)
    run.settle()
    compact(run)
    assert files(run, KEPT_SUFFIX) == files(run, SEGMENT_SUFFIX) == []


def removed(run: World) -> None:
    run.remove(LARGE)


def renumbered(run: World) -> None:
    snapshot(run, since=1)
    run.store.repair(LARGE, Damaged("entry 1 cannot be read", 1), lambda member: None)


def installed(run: World) -> None:
    donor = World(limits=KEEPING, node=2).open()
    donor.create(LARGE)
    donor.create(SMALL)
    publish(donor, 30)
    snapshot(donor, since=50)
    assert run.install(LARGE, donor)


@pytest.mark.parametrize("goes", [removed, renumbered, installed])
def test_files_that_were_read_and_go_leave_the_disk(goes: Callable[[World], None], tmp_path: Path) -> None:
    """An open descriptor keeps all of a file on the disk, which has no name any more."""
    run = World(limits=KEEPING, disk=OsDisk(str(tmp_path / "data"))).open()  # type: ignore[arg-type]
    for group in (LARGE, SMALL):
        run.create(group)
    publish(run, 20)
    for index in range(1, run.now(LARGE).last + 1):
        run.store.group(LARGE).read_entry(index)
    goes(run)
    run.settle()
    compact(run)
    links = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    assert [name for name in links if name.startswith(str(tmp_path)) and name.endswith(" (deleted)")] == []
    run.store.open_segments.close()


@pytest.mark.parametrize("suffix", [KEPT_SUFFIX, SEGMENT_SUFFIX])
def test_a_start_without_one_of_the_two_files_makes_another_member_of_this_group_alone(suffix: str) -> None:
    run = world()
    publish(run, 20)
    small, lost = run.now(SMALL), files(run, suffix)[2]
    row = next(row for row in run.store.group(LARGE).log.segments if lost in row.files(LARGE))
    run.disk.kill()
    run.disk.settle()
    run.disk.delete(lost)
    run.disk.settle()
    opened = run.reopened()
    assert opened.store.renumbered == [LARGE]
    assert digest_of(opened.store.group(SMALL)) == small
    found = digest_of(opened.store.group(LARGE))
    assert found.last == row.first - 1 and found.entries == run.now(LARGE).entries[: found.last]


@pytest.mark.parametrize("live", [False, True])
def test_a_damaged_end_of_what_says_where_packs_lie_costs_no_entry(live: bool) -> None:
    """What it still counts of the kept file is copied to a segment, and both of them go."""
    run = world()
    publish(run, 20)
    if live:
        snapshot(run, since=1)
    run.log.close()
    now = run.now(LARGE)
    for name in files(run, SEGMENT_SUFFIX):
        disk = run.disk.copy()
        disk.overwrite(name, disk.content(name)[:-1])
        opened = replace(run, disk=disk, findings=[]).open()
        assert opened.store.renumbered == [LARGE]
        found = digest_of(opened.store.group(LARGE))
        assert (found.entries, found.live, found.state) == (now.entries, now.live, now.state)
        kept = name.removesuffix(SEGMENT_SUFFIX) + KEPT_SUFFIX
        assert not {name, kept} & set(opened.disk.files())
        assert opened.reopened().store.renumbered == []


def test_a_flipped_bit_in_a_kept_file_is_damage_or_changes_nothing() -> None:
    run = world()
    publish(run, 12)
    name = files(run, KEPT_SUFFIX)[0]
    found_damage = 0
    for bit in range(0, len(run.disk.content(name)) * 8, 131):
        run.disk.flip_bit(name, bit)
        run.store.open_segments.close()
        try:
            assert digest_of(run.store.group(LARGE)) == run.now(LARGE)
        except Damaged:
            found_damage += 1
        run.disk.flip_bit(name, bit)
    assert found_damage > 50


def test_the_doctor_looks_into_both_files(tmp_path: Path) -> None:
    run = world()
    publish(run, 12)
    (tmp_path / RAFT_DIRECTORY).mkdir()
    pair = [files(run, suffix)[0] for suffix in (SEGMENT_SUFFIX, KEPT_SUFFIX)]
    for name in pair:
        (tmp_path / name).write_bytes(run.disk.content(name))
    segment, kept = (tmp_path / name for name in pair)
    assert doctor.verify(str(segment)) == doctor.verify(str(kept)) == []
    assert {row["kind"] for row in doctor.dump(str(segment))} >= {"RAFT_PLACE"}
    content = bytearray(kept.read_bytes())
    content[content.index(b"1 1 1 1 1 ")] ^= 1
    kept.write_bytes(content)
    assert doctor.verify(str(segment)) and doctor.verify(str(kept))
    kept.unlink()
    assert [one.reason for one in doctor.verify(str(segment))] == ["the file is missing"]


# Every call may fail, and power may be lost at every call.


def busy_life(run: World) -> None:
    for group in (LARGE, SMALL):
        run.create(group)
    publish(run, 6)
    run.append(LARGE, 8, 2, [b"instead" * 40] * 3)
    publish(run, 3)
    snapshot(run, since=5)
    publish(run, 4)
    snapshot(run, since=20)
    compact(run)
    publish(run, 2)
    run.remove(SMALL)
    run.settle()
    compact(run)


def test_the_busy_life_keeps_rewrites_and_deletes_files() -> None:
    run = World(limits=KEEPING).open()
    gone: list[str] = []
    run.disk.on_delete = gone.append
    busy_life(run)
    run.check_now()
    assert files(run, KEPT_SUFFIX) and sum(name.endswith(KEPT_SUFFIX) for name in gone) > 3
    assert run.store.idle and run.store.failed is None


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_fault_at_every_call_of_a_busy_life_loses_nothing(fault: Fault) -> None:
    for number in at_every_call():
        run = World(limits=KEEPING).open()
        run.disk.faults = fault_at(number, fault)
        try:
            busy_life(run)
            if fault is not Fault.EIO and run.store.failed is None:
                run.check_now()
                assert run.store.idle, f"a fault at call {number} was never made up for"
        except DiskFailed:
            pass  # a failed read or fsync: what matters is what a new process finds
        except AssertionError:
            if not (run.log.failed or run.store.failed or fault is Fault.EIO):
                raise
        finds_all(run, number, run.disk.kill if number % 2 else partial(run.disk.crash, Random(number)))


def test_power_may_be_lost_at_every_call_of_a_busy_life() -> None:
    for number in at_every_call():
        run = World(limits=KEEPING).open()
        run.disk.faults = partial(no_power, run.disk, number)
        with pytest.raises(PowerCut):
            busy_life(run)
        finds_all(run, number, partial(run.disk.crash, Random(number)))


def at_every_call() -> range:
    quiet = World(limits=KEEPING).open()
    start = quiet.disk.calls
    busy_life(quiet)
    return range(start + 1, quiet.disk.calls + 1)


def no_power(disk: SimDisk, since: int, call: Call) -> Fault | None:
    if disk.calls >= since:
        raise PowerCut
    return None


def finds_all(run: World, number: int, end: Callable[[], None]) -> None:
    run.disk.faults = no_faults
    durable = run.log.durable
    end()
    opened = run.reopened()
    run.check_recovered(durable, opened)
    named = [name for store in opened.store.stores.values() for row in store.log.segments for name in row.files(LARGE)]
    assert set(files(opened, KEPT_SUFFIX)) <= set(named), f"call {number} left a log file that nobody needs"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """Bytes that are fetched ahead."""
    asked: list[range] = []
    monkeypatch.setattr(SimFile, "read_ahead", lambda file, offset, size: asked.append(range(offset, offset + size)))
    return asked


def test_what_follows_in_a_kept_log_is_fetched_while_packs_are_read_one_behind_the_other(fetched: list[range]) -> None:
    run = world()
    publish(run, 40)
    snapshot(run, since=1)
    fetched.clear()
    store = run.store.group(LARGE)
    first, *_ = store.log.segments
    for index in (first.last, first.first):
        store.read_entry(index)
    assert fetched == []
    for index in range(first.first, first.last + 1):
        store.read_entry(index)
    assert len(fetched) == first.entries // 2 - 1, "two entries are a pack, and nothing is behind the first"
    assert [one.start for one in fetched] == sorted([one.start for one in fetched])


def test_what_follows_in_a_segment_is_fetched_while_packs_are_read_one_behind_the_other(fetched: list[range]) -> None:
    disk = SimDisk()
    disk.make_dir(RAFT_DIRECTORY)
    builder = SegmentBuilder(disk, LARGE, iter((1,)).__next__, SegmentBounds(100, 1 << 20))
    builder.add(Entry(index, 1, EntryKind.COMMAND, bytes(PACK_BYTES_MAX)) for index in range(1, 6))
    (row,) = builder.finish()
    opened = OpenSegments(disk)
    wanted = Wanted(LARGE, 1, 5, NONE_LIVE, (row,), 6)
    for index in (5, 3, 1):
        read_segments(opened, wanted, index, 6)
    assert fetched == []
    for index in (2, 3, 5):
        read_segments(opened, wanted, index, 6)
    assert [one.start for one in fetched] == [opened.get(LARGE, 1).index.find(3), opened.get(LARGE, 1).index.find(4)]


def test_all_of_a_next_pack_is_fetched_that_is_longer_than_what_is_fetched_beyond_it(fetched: list[range]) -> None:
    """Chunks of a stream are packs of 520 KiB, and 512 were fetched: the loop waited for the last bytes of each."""
    disk = SimDisk()
    disk.make_dir(RAFT_DIRECTORY)
    builder = SegmentBuilder(disk, LARGE, iter((1,)).__next__, SegmentBounds(100, 8 << 20))
    builder.add(Entry(index, 1, EntryKind.COMMAND, bytes(READ_AHEAD_BYTES + 20_000)) for index in range(1, 6))
    (row,) = builder.finish()
    opened = OpenSegments(disk)
    for index in range(1, 6):
        read_segments(opened, Wanted(LARGE, 1, 5, NONE_LIVE, (row,), 6), index, 6)
    index_of = opened.get(LARGE, 1).index.find
    for ahead, following, end in zip(fetched, range(3, 5), range(4, 6), strict=False):
        assert ahead.start == index_of(following)
        assert ahead.stop >= (index_of(end) or 0) + READ_AHEAD_BYTES


def test_all_of_a_next_pack_in_a_kept_log_is_fetched_though_little_is_fetched_beyond_it(
    fetched: list[range], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raft.store.segments.READ_AHEAD_BYTES", 500)
    run = world()
    publish(run, 40)
    snapshot(run, since=1)
    fetched.clear()
    store = run.store.group(LARGE)
    first, *_ = store.log.segments
    for index in range(first.first, first.last + 1):
        store.read_entry(index)
    for one, following in pairwise(fetched):
        assert one.stop >= following.start

"""Jobs beside the loop: one after another, and nobody waits for one that will never be done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raft.store.jobs import Job, Jobs
from raft.store.log_replay import files_of
from storage.beside_loop import AtOnce
from storage.errors import DiskFailed, DiskFull
from storage.names import RAFT_DIRECTORY, RAFT_GROUPS, SEGMENT_SUFFIX, group_segment
from tests.sim.disk import Call, Fault, fault_on, no_faults
from tests.unit.raft.store_world import World

Done = Callable[[None, Exception | None], None]


class Held:
    """A thread whose work, and the news of it, come when the test says so."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []
        self.dones: list[Done] = []

    def run(self, work: Callable[[], None], done: Done) -> None:
        self.works.append(work)
        self.dones.append(done)

    def work(self) -> None:
        self.works.pop(0)()

    def end(self, error: Exception | None = None) -> None:
        self.dones.pop(0)(None, error)


class Noted:
    """A job that does nothing, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def plan(self) -> int | None:
        return 0

    def work(self) -> None:
        self.told.append("work")

    def end(self) -> None:
        self.told.append("end")

    def full(self) -> bool:
        self.told.append("full")
        return False


class Patient(Noted):
    """It is to be tried again when there may be room."""

    def full(self) -> bool:
        super().full()
        return True


def test_after_a_failed_job_nobody_waits_for_another() -> None:
    """A member whose snapshot is never installed, and never refused, would not take part in anything any more."""
    held = Held()

    def failed(job: Job, error: Exception) -> None:
        jobs.stop()

    jobs = Jobs(held, lambda: 0, failed)
    first, second, third = Noted(), Noted(), Noted()
    jobs.add(first)
    jobs.add(second)
    held.end(DiskFailed("EIO"))
    jobs.add(third)
    assert (first.told, second.told, third.told) == (["full"], ["full"], ["full"])
    assert jobs.idle


def test_a_job_that_waits_for_room_is_told_when_no_job_is_done_any_more() -> None:
    """Its next attempt, at a later tick, would never have come."""
    held = Held()
    jobs = Jobs(held, lambda: 0, lambda job, error: pytest.fail(f"{job} failed: {error}"))
    job = Patient()
    jobs.add(job)
    held.end(DiskFull("ENOSPC"))
    assert jobs.lacks_room
    jobs.stop()
    assert job.told == ["full", "full"]
    assert jobs.idle


def test_a_job_that_failed_alone_is_told_and_the_others_go_on() -> None:
    held = Held()
    failures: list[str] = []
    jobs = Jobs(held, lambda: 0, lambda job, error: failures.append(str(error)))
    first, second = Noted(), Noted()
    jobs.add(first)
    jobs.add(second)
    held.end(DiskFailed("EIO"))
    held.work()
    held.work()
    held.end()
    assert failures == ["EIO"]
    assert (first.told, second.told) == (["full", "work"], ["work", "end"])
    assert jobs.idle


def test_a_snapshot_after_the_disk_has_failed_a_job_is_answered() -> None:
    world = World().open()
    world.create(1)
    world.append(1, 1, 1, [b"a" * 500] * 4)
    world.settle()
    world.disk.faults = fault_on("create", Fault.EIO)
    assert not world.snapshot(1, 2, [], b"the state")
    world.disk.faults = fault_on("nothing", Fault.EIO)
    assert world.store.failed is not None
    assert not world.snapshot(1, 3, [], b"the state")


def test_a_segment_is_not_deleted_before_the_group_reads_another() -> None:
    """Compaction ends in the thread before the loop hears of it; until then entries are read where they were."""
    world = World().open()
    world.create(1)
    for index in range(1, 40):
        world.append(1, index, 1, [b"%d " % index * 40])
        world.settle()
    assert world.snapshot(1, 30, [], b"the state")
    world.settle()
    held = Held()
    world.store._jobs._background = held
    before = world.store.group(1).log.segments
    world.store.tick(10**7)
    assert held.works, "there is nothing to be compacted"
    held.work()
    assert all(world.disk.exists(group_segment(1, row.number)) for row in before)
    world.store.group(1).forget_all()
    world.check_now()
    held.end()
    held.work()
    held.end()
    after = [row.number for row in world.store.group(1).log.segments]
    gone = [row.number for row in before if row.number not in after]
    assert gone and not any(world.disk.exists(group_segment(1, number)) for number in gone)
    world.check_now()


def test_attempts_that_found_no_room_leave_nothing_behind() -> None:
    """Each attempt to move entries out of the log left its segments, and so filled the disk that was full already."""
    world = World().open()
    world.create(1)
    world.create(2)
    full = True
    made = 0

    def no_room(call: Call) -> Fault | None:
        nonlocal made
        made += call.operation == "create" and ".seg" in call.name
        return Fault.ENOSPC if full and call.operation == "create" and made % 3 == 2 else None

    world.disk.faults = no_room
    for index in range(1, 30):
        world.append(1, index, 1, [b"%d " % index * 40])
        world.append(2, index, 1, [b"%d " % index * 40])
        world.settle()
        world.store.tick(index * 10_000)
    full = False
    for turn in range(5):
        world.store.tick(10**7 + turn * 10_000)
        world.settle()
    named = [name for store in world.store.stores.values() for name in files_of(store.log)]
    lie = [f"{RAFT_DIRECTORY}/{name}" for name in world.disk.list(RAFT_DIRECTORY)]
    assert made > 6
    assert sorted([*named, *RAFT_GROUPS]) == lie
    world.check_now()


def test_a_group_that_is_removed_while_there_is_no_room_to_compact_it_is_not_looked_for_again() -> None:
    """The next compaction did, and with it all work beside the loop ended."""
    world = sparse(World().open(), 1)
    held = Held()
    world.store._jobs._background = held
    world.store.tick(10**7)
    assert held.works, "there is nothing to be compacted"
    world.remove(1)
    held.end(DiskFull("ENOSPC"))
    world.store._jobs._background = AtOnce()
    world.store.tick(2 * 10**7)
    world.settle()
    assert world.store.idle
    assert not segments_on(world)


def test_the_files_of_a_removed_group_make_room_on_a_full_disk() -> None:
    """They are deleted by compaction, which did not begin before log files could be moved out: that needs room."""
    world = sparse(World().open(), 1, 2)
    world.create(3)
    world.disk.faults = lambda call: Fault.ENOSPC if call.operation == "create" and ".seg" in call.name else None
    for index in range(1, 20):
        world.append(3, index, 1, [b"%d " % index * 40])
        world.settle()
    assert not world.store.idle, "there is room for what is in the log"
    world.remove(1)
    world.settle()
    for turn in range(3):
        world.store.tick(10**7 + turn * 20_000)
        world.settle()
    assert {int(name.split("/")[1].split("-")[0]) for name in segments_on(world)} == {2}
    world.check_now()
    world.disk.faults = no_faults
    for turn in range(3):
        world.store.tick(2 * 10**7 + turn * 20_000)
        world.settle()
    assert world.store.idle
    world.check_now()
    world.check_recovered(world.log.durable, world.reopened())


def sparse(world: World, *groups: int) -> World:
    """Each of these groups has segments of which little counts."""
    for group in groups:
        world.create(group)
        for index in range(1, 40):
            world.append(group, index, 1, [b"%d " % index * 40])
            world.settle()
        assert world.snapshot(group, 30, [3, 13, 23], b"the state")
        world.settle()
    return world


def segments_on(world: World) -> list[str]:
    return [name for name in world.disk.files() if name.endswith(SEGMENT_SUFFIX)]


def test_a_store_that_is_closed_takes_no_snapshot_any_more_and_says_so() -> None:
    world = World().open()
    world.create(7)
    world.append(7, 1, 1, [b"a", b"b"])
    world.settle()
    before = world.disk.files()
    world.store.close()
    assert not world.snapshot(7, 2, [], b"state")
    assert world.disk.files() == before

"""Every single call to the disk may fail: nothing that was durable is lost, and what had no room is done later."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from random import Random

import pytest

from raft.store.log_replay import files_of
from storage import names
from storage.errors import DiskFailed, StorageError
from tests.sim.disk import Call, Fault, SimDisk, fault_at, fault_on, no_faults
from tests.unit.raft.disks_without_room import NeedsRoomToDelete, NoRoomAtOnce
from tests.unit.raft.store_world import PowerCut, World

GROUPS = (7, 8)


def donor() -> World:
    world = World(node=2).open()
    world.create(8)
    world.append(8, 1, 4, [b"theirs %d" % at for at in range(60)])
    world.settle()
    assert world.snapshot(8, 60, [3, 4, 30], b"state of the donor")
    world.settle()
    return world


def busy_life(world: World, source: World) -> None:
    """Appends, flushes, snapshots, an installation, compaction, the end of a group. Raises DiskFailed once the log failed."""
    for group in GROUPS:
        world.create(group)
    for turn in range(8):
        for group in GROUPS:
            world.append(group, world.now(group).last + 1, 1, [b"%d" % turn * 60, b"x" * 80])
        world.settle()
    world.snapshot(7, 9, [2, 3], b"a state")
    world.settle()
    world.facts(8, 4, 0)
    world.install(8, source)
    for turn in range(8):
        for group in GROUPS:
            world.append(group, world.now(group).last + 1, 4, [b"%d" % turn * 60, b"y" * 80])
        world.settle()
        world.store.tick(20_000 * turn)
        world.settle()
    world.snapshot(7, 24, [2, 20], b"another state")
    world.settle()
    world.store.tick(1_000_000)
    world.settle()
    world.store.tick(2_000_000)
    world.store.tick(3_000_000)
    world.settle()


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_fault_at_every_call_of_a_busy_life_loses_nothing(fault: Fault) -> None:
    source = donor()
    quiet = World().open()
    start = quiet.disk.calls
    busy_life(quiet, source)
    quiet.check_now()
    assert quiet.store.idle and quiet.store.failed is None
    calls = quiet.disk.calls
    assert calls > 150
    for number in range(start + 1, calls + 1):
        world = World().open()
        world.disk.faults = fault_at(number, fault)
        try:
            busy_life(world, source)
            if fault is not Fault.EIO and world.store.failed is None:
                world.check_now()
                assert world.store.idle, f"a fault at call {number} was never made up for"
        except DiskFailed:
            pass  # a failed read or fsync, whatever the fault is called; what matters is what a new process finds
        except AssertionError:
            if not (world.log.failed or world.store.failed or fault is Fault.EIO):
                raise
        world.disk.faults = no_faults
        durable = world.log.durable
        if number % 2:
            world.disk.crash(Random(number))
        else:
            world.disk.kill()
        world.check_recovered(durable, world.reopened())


def test_power_may_be_lost_at_every_call_of_a_busy_life() -> None:
    """Names that were not fsynced are lost one by one, so a file may be gone, and another one that names it be there."""
    source = donor()
    for number in count(1):
        world = World().open()
        world.disk.faults = partial(no_power, world.disk, world.disk.calls + number)
        try:
            busy_life(world, source)
        except PowerCut:
            through = False
        else:
            through = True
        world.disk.faults = no_faults
        world.disk.crash(Random(number))
        world.check_recovered(world.log.durable, world.reopened())
        if through:
            break
    assert number > 150


def no_power(disk: SimDisk, since: int, call: Call) -> Fault | None:
    if disk.calls >= since:
        raise PowerCut
    return None


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_fault_at_every_call_of_a_start_changes_nothing(fault: Fault) -> None:
    world = World().open()
    busy_life(world, donor())
    durable, disk = world.log.durable, world.disk
    disk.crash(Random(1))
    for number in range(1, 10_000):
        twin = disk.copy()
        twin.faults = fault_at(number, fault)
        opened = World(twin, replicas=world.replicas)
        with suppress(StorageError):
            opened.open()
        through = twin.calls < number
        twin.faults = no_faults
        twin.crash(Random(number))
        again = World(twin, history=dict(world.history), replicas=world.replicas).open()
        world.check_recovered(durable, again)
        if through:
            return
    raise AssertionError("the start never came to its end")


@pytest.mark.parametrize(
    ("faults", "left"),
    [({"write": Fault.ENOSPC, "delete": Fault.EIO}, ".snap.tmp"), ({"sync_dir": Fault.EMFILE}, ".snap")],
)
def test_a_snapshot_that_was_given_up_goes_later_if_it_could_not_be_deleted_at_once(
    faults: dict[str, Fault], left: str
) -> None:
    """Found by the simulated brokers (seeds 18000826 and 19000450): it lay around until the next start."""
    world = World().open()
    world.create(7)
    world.append(7, 1, 1, [b"entry"])
    world.settle()
    world.disk.faults = lambda call: (
        faults.get(call.operation) if any(".snap" in name for name in world.disk.files()) else None
    )
    assert not world.snapshot(7, 1, [1], b"a state")
    world.settle()
    world.disk.faults = no_faults
    assert [name for name in world.disk.files() if name.endswith(left)]
    world.store.tick(20_000)
    world.settle()
    assert not [name for name in world.disk.files() if ".snap" in name]


def test_a_clock_that_was_ahead_at_the_last_compaction_does_not_put_off_the_next() -> None:
    """Found by the simulated brokers (seed 17957746380481): a snapshot lay around for as long as the clock had been wrong."""
    world = World().open()
    world.create(7)
    world.append(7, 1, 1, [b"entry"])
    world.settle()
    for now_ms in (3_600_000, 20_000):
        world.disk.faults = fault_on("sync_dir", Fault.EMFILE)
        assert not world.snapshot(7, 1, [1], b"a state")
        world.settle()
        world.disk.faults = no_faults
        assert [name for name in world.disk.files() if name.endswith(".snap")]
        world.store.tick(now_ms)
        world.settle()
        assert not [name for name in world.disk.files() if ".snap" in name]


@pytest.mark.parametrize("turn", range(1, 8))
@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_segment_that_was_given_up_goes_later_if_it_could_not_be_deleted_at_once(operation: str, turn: int) -> None:
    """Found by the simulated brokers (seed 17957501550034): it lay around until the next start, in no list."""
    world = World().open()
    faults = world.disk.faults = NoRoomAtOnce(operation, ".seg.tmp", turn)
    busy_life(world, donor())
    assert faults.undeleted and world.store.failed is None
    assert go_on(world) == []


def test_what_an_installation_without_room_made_goes() -> None:
    """Its segments were whole already, and then its snapshot could not have its name."""
    world, source = World().open(), donor()
    world.create(8)
    world.disk.faults = NoRoomAtOnce("rename", ".snap.tmp", 1)
    assert not world.install(8, source)
    assert [name for name in world.disk.files() if name.endswith(".seg")]
    assert go_on(world) == []


def test_what_could_not_be_deleted_for_lack_of_room_is_tried_again() -> None:
    disk = NeedsRoomToDelete()
    world = World(disk).open()
    busy_life(world, donor())
    assert disk.undeleted and world.store.failed is None
    assert go_on(world) == []


def go_on(world: World) -> list[str]:
    """With a sound disk. Returns files that are there and that no group names."""
    world.disk.faults = no_faults
    for turn in range(4):
        world.store.tick(10**9 * (turn + 1))
        world.settle()
    named = {name for store in world.store.stores.values() for name in files_of(store.log)}
    named.update(names.RAFT_GROUPS)
    return [name for name in world.disk.files() if name.startswith(names.RAFT_DIRECTORY) and name not in named]


def test_the_world_of_these_tests_is_busy() -> None:
    """Segments, two kinds of snapshots, rewriting and releasing all happen in it."""
    synced: set[str] = set()
    disk = SimDisk()
    disk.on_sync = lambda name: synced.add(name.partition("/")[0] + name[-9:])
    world = World(disk).open()
    busy_life(world, donor())
    assert world.log.files().start > 3
    assert any(name.endswith(".seg.tmp") for name in synced)
    assert world.store.untidy == {} and world.store.dead_files == []

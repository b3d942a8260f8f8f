"""What a stop in order writes down, and that it is believed once."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from broker.queues.queue_type import Outcome
from classic.recovery import clean_stop
from classic.recovery.clean_stop import VERSION, CleanStop, LevelSummary, QueueSummary
from storage import snapshot_file
from storage.errors import Corrupt
from storage.names import CLASSIC_CLEAN_STOP, CLASSIC_DIRECTORY
from tests.sim.disk import Call, Fault, SimDisk, fault_on
from tests.unit.classic.classic_world import World, record_of

LEVEL = LevelSummary(40, 300, [(1, 5), (30, 40)], [b"older", b""], (10, 30, 20), [b"newer"])
SUMMARY = CleanStop(VERSION, 77, {1: QueueSummary([LEVEL, LEVEL], [(1, 2)])}, {4: 9}, [(4, 100, 1, 32, 90, 2)])


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_dir(CLASSIC_DIRECTORY)
    return disk


def stopped(count: int = 30) -> World:
    world = World([record_of("q", 1)])
    for number in range(count):
        world.publish(["q"], [b"%d" % number], confirm=number)
        world.loop.run_soon()
    world.stop()
    return world


def numbers(world: World) -> list[int]:
    return [int(body) for body, _ in world.waiting("q")]


def test_after_a_crash_there_is_none(disk: SimDisk) -> None:
    assert clean_stop.take(disk) is None


def test_what_was_saved_is_taken_once(disk: SimDisk) -> None:
    clean_stop.save(disk, SUMMARY)
    assert clean_stop.take(disk) == SUMMARY
    assert clean_stop.take(disk) is None


@pytest.mark.parametrize("seed", range(20))
def test_what_was_taken_is_gone_after_a_power_cut_too(disk: SimDisk, seed: int) -> None:
    """Otherwise the start after next would believe what is long past."""
    clean_stop.save(disk, SUMMARY)
    assert clean_stop.take(disk) is not None
    disk.crash(Random(seed))
    assert clean_stop.take(disk) is None


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "truncated"),
        (b"\xc1", "malformed"),
        (msgspec.msgpack.encode([1, 2]), "Expected"),
        (msgspec.msgpack.encode({"version": VERSION}), "missing required field"),
        (msgspec.msgpack.encode(msgspec.structs.replace(SUMMARY, version=VERSION + 1)), "its version is 2, not 1"),
    ],
)
def test_one_that_says_something_else_is_damage_and_stays_to_be_looked_at(
    disk: SimDisk, payload: bytes, said: str
) -> None:
    snapshot_file.save(disk, CLASSIC_CLEAN_STOP, [payload])
    with pytest.raises(Corrupt, match=said):
        clean_stop.take(disk)
    assert disk.exists(CLASSIC_CLEAN_STOP)


def test_a_start_after_a_stop_in_order_marks_nothing() -> None:
    world = stopped()
    world.start()
    assert not world.disk.exists(CLASSIC_CLEAN_STOP)
    assert world.waiting("q") == [(b"%d" % number, False) for number in range(30)]
    assert not world.kind.findings


def test_a_start_after_a_stop_in_order_reads_no_queue_s_files() -> None:
    """There may be ten thousands of them. One that is written to is read before."""
    world = stopped(200)
    read: list[str] = []

    def note(call: Call) -> Fault | None:
        if call.operation == "read" and call.name.endswith((".idx", ".body", ".rdq")):
            read.append(call.name)
        return None

    world.disk.faults = note
    world.start()
    queue = world.queues["q"]
    assert len(queue.backing.index.segments) > 20 and len(set(read)) <= 2, "more than what is first in the queue"
    read.clear()
    for number in range(200, 220):
        world.publish(["q"], [b"%d" % number])
    assert {name for name in read if name.endswith(".idx")} <= {
        queue.backing.index._index_name(number) for number in range(200 // 8, 220 // 8 + 1)
    }
    assert numbers(world) == list(range(220))


def test_a_crash_after_such_a_start_loses_nothing_of_what_the_stop_had_said() -> None:
    world = stopped()
    world.start()
    for number in range(30, 40):
        world.publish(["q"], [b"%d" % number], confirm=number)
    world.loop.run_soon()
    for _ in range(5):
        got = world.get("q")
        assert got is not None
        world.queues["q"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick()
    world.log.commit_now()
    world.disk.kill()
    world.start()
    assert numbers(world) == list(range(5, 40))


def test_a_stop_whose_disk_is_full_leaves_it_to_the_next_start_to_read_everything() -> None:
    world = World([record_of("q", 1)])
    world.publish(["q"], [b"1"], confirm=1)
    world.loop.run_soon()
    world.disk.faults = lambda call: Fault.ENOSPC if call.name.startswith(CLASSIC_CLEAN_STOP) else None
    world.kind.stop(world.now)
    assert any("will have to read everything" in finding for finding in world.kind.findings)
    world.disk.kill()
    world.disk.faults = lambda call: None
    world.start()
    assert world.waiting("q") == [(b"1", True)]


def test_what_a_consumer_still_has_at_a_stop_is_there_after_it() -> None:
    """A summary knows what is ready, and was believed to be all: what a consumer of another node had was lost."""
    world = World([record_of("q", 1)])
    for number in range(4):
        world.publish(["q"], [b"%d" % number], confirm=number)
        world.loop.run_soon()
    assert world.get("q") is not None and world.get("q") is not None
    world.kind.stop(world.now)
    assert not world.disk.exists(CLASSIC_CLEAN_STOP)
    assert any("messages of queue 'q' in vhost '/' were not given back" in finding for finding in world.kind.findings)
    world.disk.kill()
    world.start()
    assert numbers(world) == [0, 1, 2, 3]


def test_a_stop_after_the_log_failed_says_nothing() -> None:
    """What is durable then nobody knows."""
    world = stopped()
    world.start()
    world.disk.faults = fault_on("sync", Fault.EIO)
    world.publish(["q"], [b"30"], confirm=30)
    world.loop.run_soon()
    world.kind.stop(world.now)
    assert not world.disk.exists(CLASSIC_CLEAN_STOP)


def test_one_that_is_older_than_the_log_is_not_believed_and_the_next_start_reads_everything() -> None:
    """Somebody put an old copy of it back."""
    world = stopped()
    old = world.disk.content(CLASSIC_CLEAN_STOP)
    world.start()
    world.publish(["q"], [b"30"], confirm=30)
    world.loop.run_soon()
    world.disk.kill()
    world.disk.overwrite(CLASSIC_CLEAN_STOP, old)
    with pytest.raises(Corrupt, match="start again"):
        world.start()
    world.disk.kill()
    world.start()
    assert numbers(world) == list(range(31))

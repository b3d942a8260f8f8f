"""Sparse files of the message stores: what lives in them is copied, and only then do they go."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker.queues.queue_type import Outcome
from classic.store import manifest
from classic.store.store import MessageStore
from native.content import messages
from storage import names
from tests.sim.disk import Call, Fault, no_faults
from tests.unit.classic.classic_world import TINY, World, record_of
from tests.unit.classic.test_disk_failures import Later

LARGE = b"L" * 90
EACH_KEPT = 3  # of so many messages one is kept


def number_in(body: bytes) -> int:
    return int(body.partition(b"|")[0])


def filled(count: int = 24, interval_ms: int = 15_000, file_bytes: int = TINY.store_file_bytes_max) -> World:
    """Large messages of one queue in the store, four to a file, and nothing of them in the log."""
    limits = replace(TINY, compaction_interval_ms=interval_ms, store_file_bytes_max=file_bytes)
    world = World([record_of("a", 1), record_of("passing", 2)], limits=limits)
    world.kind._housekeeping._compaction_pause.begin(world.now)
    for number in range(count):
        world.publish(["a"], [b"%d|" % number + LARGE], confirm=number)
        world.loop.run_soon()
    store = world.kind._storage.store
    for _ in range(3_000):
        if len(store.contents) == count and world.log.files().start > 3:
            break
        pass_by(world)
    assert len(store.contents) == count
    return world


def pass_by(world: World, ticks: int = 1) -> None:
    """Messages that are consumed at once, so that the log goes on."""
    for _ in range(ticks):
        world.publish(["passing"], [b"s" * 30])
        world.loop.run_soon()
        assert world.get("passing", no_ack=True) is not None
        world.tick()


def thin_out(world: World, kept: int = EACH_KEPT) -> list[int]:
    """Acknowledge all but some, durably; which are kept."""
    taken = []
    while (got := world.get("a")) is not None:
        taken.append((number_in(messages(got.content[got.piece.position :], 0, 1)[0][1]), got.piece))
    for number, piece in taken:
        outcome = Outcome.ACKNOWLEDGED if number % kept else Outcome.REQUEUED
        world.queues["a"].settle(piece, outcome, world.now)
    return [number for number, _ in taken if not number % kept]


def waiting(world: World) -> list[int]:
    found = world.waiting("a")
    assert all(body.endswith(b"|" + LARGE) for body, _ in found)
    return [number_in(body) for body, _ in found]


def sizes(store: MessageStore) -> tuple[int, int]:
    return sum(file.size for file in store.files.values()), sum(file.living for file in store.files.values())


def test_a_file_goes_only_after_the_disk_vouches_for_the_copies() -> None:
    """The copies were made and there was no room for the manifest. The file of which they were made was deleted later, with a
    manifest that noted the size which the copies' file had had before: at the next start they were cut off."""
    for seed in range(6):
        world = filled()
        kept = thin_out(world)
        refused: list[str] = []

        def no_room_once(call: Call, refused: list[str] = refused) -> Fault | None:
            if call.name.startswith(names.CLASSIC_FILES) and call.operation == "create" and not refused:
                refused.append(call.name)
                return Fault.ENOSPC
            return None

        world.core.file_bytes_max = 1 << 20  # no log file is released meanwhile, which would note all sizes
        world.disk.faults = no_room_once
        world.tick(90)
        assert refused
        world.disk.faults = no_faults
        if seed:
            world.disk.crash(Random(seed))
        else:
            world.disk.kill()
        world.start()
        assert waiting(world) == kept
        assert not world.kind.findings


def test_what_cannot_be_read_stays_with_its_file_and_the_others_are_copied() -> None:
    world = filled(count=36, file_bytes=800)
    store, disk = world.kind._storage.store, world.disk
    kept = thin_out(world)
    world.tick(1)
    world.log.commit_now()
    world.kind._storage.release_durable()
    sparse = next(number for number in store.sparse_files() if len(store.living_in(number)) > 1)
    content_id, stored = next((one, stored) for one, stored in store.contents.items() if stored.file == sparse)
    damaged = store.name_of(stored.file)
    others = [one for one, other in store.contents.items() if other.file == stored.file and one != content_id]
    assert others
    disk.flip_bit(damaged, (stored.offset + 20) * 8)
    bytes_kept = disk.content(damaged)
    world.kind._storage.files.forget(damaged)
    world.tick(400)
    assert disk.content(damaged) == bytes_kept
    assert len([finding for finding in world.kind.findings if damaged in finding]) == 1
    assert [disk.content(f"quarantine/{name}") for name in disk.list("quarantine")] == [bytes_kept]
    assert store.contents[content_id].file == stored.file
    assert all(store.contents[one].file != stored.file for one in others)
    disk.crash(Random(1))
    world.start()
    found = waiting(world)
    assert set(found) < set(kept) and len(found) == len(kept) - 1
    assert damaged in world.disk.files()


def test_a_store_that_is_mostly_garbage_is_compacted_at_once_and_several_files_into_one() -> None:
    world = filled(count=48, interval_ms=1 << 40)
    store = world.kind._storage.store
    kept = thin_out(world, kept=8)
    world.tick(6)
    size, living = sizes(store)
    assert size < 2 * living + 2 * TINY.store_file_bytes_max, f"{size} bytes for {living}"
    assert len(store.files) <= 1 + len(kept) * 132 // TINY.store_file_bytes_max + 1
    assert waiting(world) == kept


def test_little_garbage_waits_for_the_interval() -> None:
    world = filled(count=8, interval_ms=5_000)
    store = world.kind._storage.store
    first = min(store.files)
    for _ in range(3):
        got = world.get("a")
        assert got is not None
        world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(30)
    assert first in store.files
    world.tick(30)
    assert first not in store.files
    assert waiting(world) == list(range(3, 8))


def test_a_clock_that_was_ahead_at_the_last_look_does_not_put_off_the_next() -> None:
    """By as much as it was wrong: files of the store stayed for hours."""
    world = filled(count=8, interval_ms=5_000)
    first = min(world.kind._storage.store.files)
    world.now += 3_600_000
    world.tick()
    world.now -= 3_600_000
    for _ in range(3):
        got = world.get("a")
        assert got is not None
        world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(60)
    assert first not in world.kind._storage.store.files


def test_the_transient_store_is_compacted_too() -> None:
    world = World([record_of("a", 1)])
    for number in range(60):
        world.publish(["a"], [b"%d|" % number + LARGE], persistent=False)
    world.tick(2)
    store = world.kind._storage.spilled
    before, _ = sizes(store)
    kept = thin_out(world, kept=6)
    world.tick(30)
    size, living = sizes(store)
    assert living and size < before / 3, f"{size} bytes of {before} are left, {living} of them live"
    assert len(world.disk.list(names.STORE_TRANSIENT)) == len(store.files)
    assert waiting(world) == kept


@pytest.mark.parametrize("way", ["purge", "delete"])
def test_contents_that_left_memory_without_their_positions_go_with_a_purge_or_their_queue(way: str) -> None:
    world = World([record_of("a", 1), record_of("b", 2)], limits=replace(TINY, runs_max=100))
    for number in range(20):
        for name in ("a", "b"):
            world.publish([name], [b"%d|" % number + LARGE], persistent=False)
    world.tick(2)
    spilled = world.kind._storage.spilled
    before = len(spilled.contents)
    assert before > 30 and not any(run.indexed for run in world.queues["a"].levels[0].runs())
    if way == "purge":
        world.queues["a"].purge(world.now)
    else:
        world.kind.delete(world.queues["a"], world.now)
    assert len(spilled.contents) == before // 2
    assert [int(body.split(b"|")[0]) for body, _ in world.waiting("b")] == list(range(20))


def test_a_file_that_is_being_compacted_is_not_deleted_and_the_copy_of_what_went_meanwhile_is_garbage() -> None:
    world = filled()
    kept = thin_out(world)
    later = Later()
    world.kind._housekeeping._background = later
    world.kind._housekeeping._compaction_pause.end()
    store = world.kind._storage.store
    for _ in range(20):
        world.tick()
        if any(file.held for file in store.files.values()):
            break
        if later.waiting:
            later.work()
            later.tell()
    held = [number for number, file in store.files.items() if file.held]
    assert held and len(later.waiting) == 1
    thin_out(world, kept=2 * EACH_KEPT)
    world.tick(5)
    assert set(held) <= set(store.files)
    while later.waiting:
        later.work()
        later.tell()
    assert not set(held) & set(store.files)
    assert waiting(world) == [number for number in kept if number % (2 * EACH_KEPT) == 0]
    world.disk.crash(Random(3))
    world.start()
    assert [number for number in waiting(world) if number % (2 * EACH_KEPT) == 0] == kept[::2]
    assert not world.kind.findings


def test_what_a_failed_attempt_copied_is_taken_away_again() -> None:
    world = filled()
    kept = thin_out(world)
    world.kind._housekeeping._compaction_pause.end()
    files = set(world.disk.list(names.STORE_PERSISTENT))
    world.disk.faults = lambda call: Fault.ENOSPC if call.operation == "write" and call.name.endswith(".rdq") else None
    world.tick(200)
    assert set(world.disk.list(names.STORE_PERSISTENT)) <= files
    assert world.kind._storage.failed is None
    world.disk.faults = no_faults
    world.tick(200)
    size, living = sizes(world.kind._storage.store)
    assert size <= 2 * living + 2 * TINY.store_file_bytes_max
    assert waiting(world) == kept
    assert set(manifest.load(world.disk).store) == {
        number for number, f in world.kind._storage.store.files.items() if f.size
    }

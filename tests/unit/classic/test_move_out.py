"""A log file on its way to the queues' own files: a stop, a failure, a full disk or damage comes in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from broker.background_work import BackgroundWork
from classic.store import move_out
from classic.store.housekeeping import RETRY_MS
from classic.stored_run import StoredRun
from storage import names
from storage.errors import DiskFailed
from tests.sim.disk import Call, Fault, no_faults
from tests.unit.classic.classic_world import TINY, World, record_of

FIRST = 1  # log file
TURNS_MAX = 100
LARGE = TINY.embed_below  # bodies of this size go to the shared store


class Turns(deque[Callable[[], None]]):
    """Of work that is done in slices, one step in each."""

    def work(self) -> BackgroundWork:
        return BackgroundWork(self.append, lambda: 0.0, steps_max=1)

    def take(self, count: int) -> None:
        for _ in range(count):
            if self:
                self.popleft()()


def body(number: int, size: int = 30) -> bytes:
    return b"%02d|" % number + bytes(size)


def filled(world: World, count: int = 40, size: int = 30) -> World:
    """Some log files of messages that live, with those of all queues."""
    for number in range(count):
        world.publish(list(world.queues), [body(number, size)], confirm=number)
        world.loop.run_soon()
    assert len(world.confirmed.accepted) == count
    return world


def numbers(world: World, name: str) -> list[int]:
    return [int(found[:2]) for found, _ in world.waiting(name)]


@pytest.mark.parametrize("end", ["stop", "failure"])
def test_whenever_the_node_stops_or_the_disk_fails_a_walk_ends_and_nothing_is_written_or_released_by_it(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_out, "PIECE_BYTES", 500)
    for after in range(TURNS_MAX):
        turns = Turns()
        world = filled(World([record_of("q", 1)], work=turns.work))
        world.tick()
        assert turns, "nothing is being moved out"
        turns.take(after)
        if not turns:
            break
        first = world.log.files().start
        if end == "stop":
            world.kind.stop(world.now)
        else:
            world.kind._storage.fail(DiskFailed("input/output error"))
        calls: list[Call] = []
        world.disk.faults = calls.append
        turns.take(TURNS_MAX)
        assert not calls and world.log.files().start == first, f"after {after} turns"
        world.disk.faults = no_faults
        world.disk.kill()
        world.start()
        assert numbers(world, "q") == list(range(40))
    assert 3 < after < TURNS_MAX - 1, "the walk ended too early or never"


def index_is_full(call: Call) -> Fault | None:
    return Fault.ENOSPC if call.name.endswith(names.INDEX_SUFFIX) and call.operation == "write" else None


def test_on_a_full_disk_the_walk_is_tried_again_after_a_while_and_not_at_each_tick() -> None:
    world = filled(World([record_of("q", 1)]))
    tries: list[int] = []

    def full(call: Call) -> Fault | None:
        fault = index_is_full(call)
        if fault is not None:
            tries.append(world.now)
        return fault

    world.disk.faults = full
    world.tick(2 * RETRY_MS // 100)
    assert len(set(tries)) == 2
    world.disk.faults = no_faults
    world.tick(3 * RETRY_MS // 100)
    assert world.log.files().start > FIRST
    world.disk.kill()
    world.start()
    assert numbers(world, "q") == list(range(40))


def bodies_are_full(call: Call) -> Fault | None:
    return Fault.ENOSPC if call.name.endswith(names.BODY_SUFFIX) and call.operation == "write" else None


def test_a_content_that_there_is_no_room_for_beside_the_index_is_read_from_memory() -> None:
    world = filled(World([record_of("q", 1)]), 44)
    world.disk.faults = bodies_are_full
    world.tick()
    index = world.queues["q"].backing.index
    assert index._bodies, "nothing is to be written"
    assert numbers(world, "q") == list(range(44)) and index._bodies
    world.disk.faults = no_faults
    world.tick(3 * RETRY_MS // 100)
    assert not index._bodies
    for number in range(44, 95):
        world.publish(["q"], [body(number)])
        world.loop.run_soon()
    world.disk.faults = bodies_are_full
    world.tick(2)
    in_memory = {number: sum(map(len, parts)) for number, parts in index._bodies.items()}
    assert any(index.segments[number].body_size > size for number, size in in_memory.items()), "no file has both"
    assert numbers(world, "q") == list(range(95)) and index._bodies


def test_what_a_walk_had_no_room_for_is_not_written_for_a_queue_that_was_deleted_since() -> None:
    world = filled(World([record_of("q", 1), record_of("stays", 2)]))
    world.disk.faults = index_is_full
    world.tick()
    world.disk.faults = no_faults
    world.kind.delete(world.queues.pop("q"), world.now)
    before = set(world.disk.files())
    world.tick(3 * RETRY_MS // 100)
    assert world.log.files().start > FIRST
    directory = names.queue_directory("/", "q", 1)
    assert not [name for name in {*world.disk.files(), *before} if name.startswith(f"{directory}/")]


def test_what_was_walked_twice_on_a_full_disk_goes_when_it_is_settled_once() -> None:
    world = filled(World([record_of("a", 1), record_of("b", 2)]), size=LARGE)
    world.disk.faults = index_is_full
    world.tick(2)
    world.disk.faults = no_faults
    world.tick(3 * RETRY_MS // 100)
    assert world.kind._storage.store.files, "nothing was moved out"
    for queue in world.queues.values():
        queue.purge(world.now)
    world.tick(3 * RETRY_MS // 100)
    assert not world.kind._storage.store.contents


class PowerCut(BaseException):
    """The machine is off."""


def cut_before_a_release(call: Call) -> Fault | None:
    """What was moved out is durable, and the log still has it."""
    if call.name.startswith(names.LOG_FACTS):
        raise PowerCut
    return None


def test_what_a_power_cut_brings_back_in_one_queue_is_not_gone_when_it_is_settled_in_the_other() -> None:
    """It had been settled when the content was stored for the other one, and the log has the message, and not that."""
    in_memory = replace(TINY, runs_max=100, ram_count_max=100, ram_bytes_kept=1 << 20)
    world = filled(World([record_of("a", 1), record_of("b", 2)], limits=in_memory), size=LARGE)
    world.queues["b"].purge(world.now)
    world.disk.faults = cut_before_a_release
    with pytest.raises(PowerCut):
        world.tick()
    world.disk.faults = no_faults
    world.disk.kill()
    world.start()
    assert numbers(world, "b") == list(range(40))
    world.tick(20)
    assert world.log.files().start > FIRST
    world.queues["a"].purge(world.now)
    world.tick(20)
    assert numbers(world, "b") == list(range(40))
    assert not world.kind.findings
    world.queues["b"].purge(world.now)
    world.tick(20)
    assert not world.kind._storage.store.contents


def test_a_log_file_that_cannot_be_read_to_its_end_is_kept_with_all_that_follow() -> None:
    world = filled(World([record_of("q", 1)]))
    first = world.log.files().start
    name = names.log_file(first)
    world.disk.flip_bit(name, 8 * (len(world.disk.content(name).rstrip(b"\0")) // 2))
    world.tick(3 * RETRY_MS // 100)
    assert world.log.files().start == first and world.disk.exists(name)
    told = [found for found in world.kind.findings if f"{name} cannot be read from" in found]
    assert len(told) == 1 and world.kind._housekeeping.failed
    world.disk.kill()
    world.start()
    found = numbers(world, "q")
    assert len(found) == 39 and found[-1] == 39, "one message was damaged"


def test_a_log_file_that_is_still_to_be_written_is_not_moved_out() -> None:
    """The commit that fills it waits for a file descriptor, and the next one is for the next file."""
    world = World([record_of("q", 1)], limits=replace(TINY, log_files_kept=0))
    world.disk.faults = lambda call: Fault.EMFILE if call.operation == "create" else None
    for number in range(40):
        world.publish(["q"], [body(number, 100 if number else 2_000)], confirm=number)
        world.loop.run_soon()
    assert not world.confirmed.accepted and len(world.log.files()) > 1
    world.tick(3)
    assert world.log.files().start == FIRST
    world.disk.faults = no_faults
    world.tick(3 * RETRY_MS // 100)
    assert len(world.confirmed.accepted) == 40
    world.disk.kill()
    world.start()
    assert numbers(world, "q") == list(range(40))


@pytest.mark.parametrize("ends_there", [False, True])
def test_records_that_are_larger_than_a_piece_are_moved_out(ends_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ends_there`: a start has cut the file behind the last of them."""
    monkeypatch.setattr(move_out, "PIECE_BYTES", 40)
    world = World([record_of("q", 1)], log_file_bytes_max=1 << 20)
    filled(world)
    world.disk.kill() if ends_there else world.stop()
    world.start()
    for number in range(40, 80):
        world.publish(["q"], [body(number)])
        world.loop.run_soon()
    world.restart()  # the next log file
    world.restart()
    world.tick(200)
    assert world.log.files().start > FIRST and not world.kind.findings
    world.disk.kill()
    world.start()
    assert numbers(world, "q") == list(range(80))


def test_what_is_known_of_a_log_file_goes_with_it() -> None:
    world = filled(World([record_of("q", 1)]))
    world.tick(3 * RETRY_MS // 100)
    files = world.log.files()
    assert files.start > FIRST
    assert set(world.kind._storage.live) <= set(files)


def fan_out(queues: int, messages: int, size: int) -> tuple[World, Turns]:
    """Log files of messages that live in many queues each. Work that is done in slices takes a step a turn."""
    turns = Turns()
    world = World([record_of(f"q{number}", number) for number in range(1, queues + 1)], work=turns.work)
    return filled(world, messages, size), turns


@pytest.mark.parametrize("size", [30, LARGE])
def test_one_run_in_many_queues_is_moved_out_in_steps(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may be of 500 queues: all of them in one step took 60 to 110 ms."""
    monkeypatch.setattr(move_out, "PLACES_PER_STEP", 6)
    world, turns = fan_out(40, 12, size)
    looked_at: list[int] = []
    for queue in world.queues.values():
        keep = queue.backing.index.write_runs

        def write_runs(runs: Sequence[StoredRun], keep: Callable[..., None] = keep) -> None:
            looked_at[-1] += len(runs)
            keep(runs)

        monkeypatch.setattr(queue.backing.index, "write_runs", write_runs)
    steps = 0
    for _ in range(TURNS_MAX):
        looked_at.append(0)
        world.tick()
        while turns:
            looked_at.append(0)
            turns.take(1)
            steps += 1
    assert steps > 40 * 12 // 6 // 2 and 0 < max(looked_at) <= 2 * 6, "the turn that begins it may go on with it"
    assert world.log.files().start > FIRST
    world.disk.kill()
    world.start()
    assert all(numbers(world, name) == list(range(12)) for name in world.queues)


def half_moved(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Turns]:
    """A run of twenty queues is in the shared store, and the index of some says so."""
    monkeypatch.setattr(move_out, "PLACES_PER_STEP", 3)
    world, turns = fan_out(20, 30, LARGE)
    world.tick()
    while not world.kind._storage.store.contents:
        assert turns, "nothing is moved out"
        turns.take(1)
    moving = world.kind._housekeeping._moving
    assert moving is not None and moving._piece[0].referred and 10 < len(moving._piece[0].places) < 20
    return world, turns


@pytest.mark.parametrize("way", ["purge", "acknowledge", "delete"])
def test_what_goes_while_its_run_is_moved_out_queue_by_queue_leaves_nothing_behind(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store counts the queues that need a content when the run is begun; those that let go of it in between count, too."""
    world, turns = half_moved(monkeypatch)
    for name in list(world.queues)[10:]:
        if way == "purge":
            world.queues[name].purge(world.now)
        elif way == "delete":
            world.kind.delete(world.queues.pop(name), world.now)
        else:
            while world.get(name, no_ack=True) is not None:
                pass
    for _ in range(TURNS_MAX):
        world.tick()
        turns.take(TURNS_MAX)
    for name in list(world.queues)[:10]:
        assert numbers(world, name) == list(range(30))
        world.queues[name].purge(world.now)
    for _ in range(TURNS_MAX):
        world.tick()
        turns.take(TURNS_MAX)
    assert not world.kind._storage.store.contents and not world.kind._storage.unindexed


@pytest.mark.parametrize("crash", [False, True])
def test_a_node_may_stop_while_a_run_is_moved_out_queue_by_queue(crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world, turns = half_moved(monkeypatch)
    if not crash:
        world.kind.stop(world.now)
    world.disk.kill()
    turns.clear()
    world.start()
    for name in list(world.queues)[5:]:
        world.queues[name].purge(world.now)
    for _ in range(TURNS_MAX):
        world.tick()
        turns.take(TURNS_MAX)
    assert all(numbers(world, name) == list(range(30)) for name in list(world.queues)[:5])
    for queue in world.queues.values():
        queue.purge(world.now)
    for _ in range(TURNS_MAX):
        world.tick()
        turns.take(TURNS_MAX)
    assert not world.kind._storage.store.contents


def test_a_disk_that_fills_up_within_a_run_of_many_queues_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(move_out, "PLACES_PER_STEP", 3)
    for after in range(1, 30, 4):
        world, turns = fan_out(10, 30, 30)
        writes = 0

        def full(call: Call) -> Fault | None:
            nonlocal writes
            writes += call.operation == "write" and call.name.endswith(names.INDEX_SUFFIX)
            return index_is_full(call) if writes > after else None  # noqa: B023  # called before the next round

        world.disk.faults = full
        for _ in range(10):
            world.tick()
            turns.take(TURNS_MAX)
        world.disk.faults = no_faults
        for _ in range(3 * RETRY_MS // 100):
            world.tick()
            turns.take(TURNS_MAX)
        assert world.log.files().start > FIRST
        index = world.queues["q1"].backing.index
        entries = [fields[0] for number in sorted(index.segments) for fields in index.load(number).entries]
        assert entries == sorted(set(entries)), f"full after {after} writes"
        world.disk.kill()
        world.start()
        assert all(numbers(world, name) == list(range(30)) for name in world.queues)

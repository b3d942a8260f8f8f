"""The disk fails, or is full, at any one of its calls, and syncs are done beside the loop: the node goes on or refuses.

The same model as in test_crashes.py: whatever was confirmed and not acknowledged is there after the next start. Until then some
of it may be out of reach, which the node says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from broker.background_work import BackgroundWork
from broker.errors import ResourceExhausted
from broker.queues.queue_type import Outcome
from broker.records import QueueRecord
from classic.store import housekeeping, manifest
from classic.store.node_storage import ClassicLimits
from classic.store.noting import Noting
from classic.store.queue_index import Alive, QueueIndex
from native.content import messages
from storage.errors import DiskFailed, DiskFull
from tests.sim.disk import Call, Fault, Faults, no_faults
from tests.unit.classic.classic_world import TINY, World, record_of
from tests.unit.classic.test_crashes import NAMES, Story, give_back

Work = Callable[[], None]
Done = Callable[[None, Exception | None], None]


class Later:
    """Work that is done beside the loop, some time after it was asked for, and told on the loop some time after that."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Done]] = []
        self.worked: list[tuple[Done, Exception | None]] = []

    def run(self, work: Work, done: Done) -> None:
        self.waiting.append((work, done))

    def close(self) -> None:
        while self.waiting:
            self.work()
        self.worked.clear()

    def work(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            work()
        except Exception as error:
            self.worked.append((done, error))
        else:
            self.worked.append((done, None))

    def tell(self) -> None:
        done, error = self.worked.pop(0)
        done(None, error)


class Failing(Story):
    """A story whose disk may fail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.hidden: dict[str, set[int]] = {name: set() for name in NAMES}  # could not be read
        self.perhaps: set[int] = set()  # their publisher was told that they were not taken
        self.faulty = False
        self.world.disk.kill()
        self.world = World(self.world.records, background=self.new_background)

    def new_background(self) -> Later:
        self.background = Later()
        return self.background

    def step(self) -> None:
        if self.background.waiting and self.chance.random() < 0.2:
            self.background.work()
        if self.background.worked and self.chance.random() < 0.2:
            self.background.tell()
        super().step()

    def publish(self) -> None:
        before, models = self.next, {name: list(model.waiting) for name, model in self.models.items()}
        refused = set(self.world.confirmed.refused)
        try:
            super().publish()
        except ResourceExhausted:
            pass
        else:
            if self.world.confirmed.refused == refused:
                return
        assert self.faulty
        self.perhaps.update(range(before, self.next))
        for name, waiting in models.items():
            self.models[name].waiting = waiting

    def take(self, name: str, count: int) -> None:
        model = self.models[name]
        for _ in range(count):
            got = self.world.get(name)
            number = None
            if got is not None:
                body = messages(got.content[got.piece.position :], 0, 1)[0][1]
                number = int(body.partition(b"|")[0])
                assert body == self.body(number)
            while model.waiting and model.waiting[0] != number:
                assert self.world.kind.findings, f"{model.waiting[0]} is not there, and nobody says why"
                self.hidden[name].add(model.waiting.pop(0))
            if got is None or number is None:
                return
            model.waiting.pop(0)
            model.out[number] = got.piece

    def purge(self, name: str) -> None:
        with suppress(ResourceExhausted):
            super().purge(name)

    def crash(self) -> None:
        for name, model in self.models.items():
            model.waiting = sorted({*model.waiting, *self.hidden[name]})
            model.acknowledged |= self.perhaps
            model.persistent |= self.perhaps
            self.hidden[name].clear()
        self.perhaps.clear()
        self.faulty = False
        super().crash()


def at_call(number: int, fault: Fault, forever: bool, only: str) -> Faults:
    """A fault at the first call from this one on that concerns a file with `only` in its name, or at all of them."""
    hit: list[int] = []

    def faults(call: Call) -> Fault | None:
        if call.number < number or only not in call.name or (hit and not forever):
            return None
        hit.append(call.number)
        return fault

    return faults


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_call_of_the_disk_fails_nothing_confirmed_is_lost(seed: int, fault: Fault) -> None:
    story = Failing(seed)
    chance = story.chance
    for _ in range(5):
        for _ in range(chance.randrange(200)):
            story.step()
        if chance.random() < 0.3:  # with work on its way
            give_back(story)
            story.clean_restart()
        story.faulty = True
        story.world.disk.faults = at_call(
            story.world.disk.calls + chance.randrange(1, 150),
            fault,
            forever=chance.random() < 0.4,
            only=chance.choice(("classic", "classic", "idx", "body", "rdq", "")),
        )
        for _ in range(chance.randrange(250)):
            story.step()
        story.crash()


def moved_out(background: Later, limits: ClassicLimits = TINY) -> World:
    """A world in which one log file was walked to its end; what was moved is now to be synced."""
    world = World([record_of("a", 1), record_of("b", 2)], limits=limits, background=lambda: background)
    for number in range(40):
        world.publish(["a", "b"], [b"%02d|" % number + b"z" * (30 if number % 2 else 60)], confirm=number)
        world.loop.run_soon()
    while not (background.waiting and world.kind._housekeeping._moving):
        while background.waiting:
            background.work()
            background.tell()
        world.tick()
    return world


def test_a_queue_that_is_deleted_while_the_manifest_is_saved_is_not_missed_later() -> None:
    background = Later()
    world = moved_out(background)
    world.kind.delete(world.queues["b"], world.now)
    background.work()
    background.tell()
    assert list(world.kind._housekeeping.manifest.queues) == [1]
    world.records.pop()
    world.restart()
    assert not world.kind.findings
    assert len(world.waiting("a")) == 40


def test_a_stop_waits_for_what_is_done_beside_the_loop_and_does_not_hear_of_it_later() -> None:
    background = Later()
    world = moved_out(background)
    _, done = background.waiting[0]
    world.kind.stop(world.now)
    assert not background.waiting
    calls = world.disk.calls
    done(None, None)
    assert world.disk.calls == calls
    world.log.close()
    world.disk.kill()
    world.start()
    assert not world.kind.findings
    assert len(world.waiting("a")) == len(world.waiting("b")) == 40


def test_a_full_disk_does_not_get_a_second_copy_of_what_was_moved_out() -> None:
    """Only the manifest had no room. The log file was walked again at every attempt, and all of it written again."""
    background = Later()
    world = moved_out(background)
    sizes = [{s.number: s.body_size for s in q.backing.index.segments.values()} for q in world.queues.values()]
    world.disk.faults = lambda call: Fault.ENOSPC if "files" in call.name and call.operation == "create" else None
    for _ in range(200):
        if background.waiting:
            background.work()
            background.tell()
        world.tick()
    again = [{s.number: s.body_size for s in q.backing.index.segments.values()} for q in world.queues.values()]
    assert again == sizes and any(sizes[0].values())
    world.disk.faults = no_faults
    assert not world.kind.findings


def test_a_dead_file_is_not_deleted_before_the_manifest_says_so_though_that_was_tried_before() -> None:
    background = Later()
    world = moved_out(background)
    background.work()
    background.tell()
    world.queues["a"].purge(world.now)
    world.loop.run_soon()
    full = True
    world.disk.faults = lambda call: (
        Fault.ENOSPC if full and "files" in call.name and call.operation == "create" else None
    )
    for _ in range(150):
        if background.waiting:
            background.work()
            background.tell()
        world.tick()
    world.disk.kill()
    world.disk.faults = no_faults
    world.start()
    assert not world.kind.findings, world.kind.findings
    assert world.queues["a"].ready_count == 0


def test_a_dead_file_that_a_failed_save_may_have_noted_is_not_deleted_before_another_save() -> None:
    """The error came after the list had been replaced: the file is named there, though the node knows nothing of that."""
    background = Later()
    world = moved_out(background, replace(TINY, store_file_bytes_max=200))  # two contents each
    store = world.kind._storage.store
    first = min(store.files)
    for queue in world.queues.values():
        queue.purge(world.now)
    for _ in range(3):
        world.publish(["b"], [b"so that the log is written"])
        world.loop.run_soon()
        world.tick()
    assert store.dead_files() == [first]
    save, done = background.waiting.pop()
    save()
    assert first in manifest.load(world.disk).store
    done(None, DiskFull("there is no room, but the new list is in its place"))
    for _ in range(150):
        world.tick()
        if first in store.files and background.waiting:
            background.work()
            background.tell()
        if first not in store.files:
            break
    assert first not in store.files
    assert first not in manifest.load(world.disk).store
    world.disk.kill()
    world.start()
    assert not world.kind.findings, world.kind.findings


def test_a_message_whose_bytes_cannot_be_read_is_told_of_and_there_again_after_a_restart() -> None:
    background = Later()
    world = moved_out(background)
    background.work()
    background.tell()
    world.disk.faults = lambda call: Fault.EIO if call.operation == "read" and "classic" in call.name else None
    seen = len(world.waiting("a"))
    assert seen < 40 and world.kind.findings
    world.disk.faults = no_faults
    world.tick(100)
    world.stop()
    world.start()
    assert len(world.waiting("a")) == 40


def test_a_queue_that_finds_no_room_does_not_look_for_it_at_every_message() -> None:
    """A long backlog on a full disk: each attempt concerns all of its runs."""
    world = World([record_of("a", 1)], log_file_bytes_max=1 << 20)
    world.disk.faults = lambda call: Fault.ENOSPC if call.name.endswith(".idx") else None
    for number in range(10):
        world.publish(["a"], [b"%d" % number])
    before = world.disk.calls
    for number in range(10, 200):
        world.publish(["a"], [b"%d" % number])
    assert world.disk.calls == before
    world.disk.faults = no_faults
    world.tick(2)
    assert world.queues["a"].levels[0].delta_count > 150
    assert [int(body) for body, _ in world.waiting("a")] == list(range(200))


def test_what_was_moved_out_before_a_crash_is_not_counted_again_from_the_log() -> None:
    """The begin of each run was settled and left behind; the manifest was saved, the log file not released yet."""
    background = Later()
    world = World([record_of("a", 1), record_of("passing", 2)], background=lambda: background)
    for number in range(6):
        world.publish(["a"], [b"x" * 10, b"y" * 10, b"z" * 10], confirm=number)
        world.loop.run_soon()
    for number in range(18):
        got = world.get("a")
        assert got is not None
        if number % 3 == 0:
            world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(2)
    while not (background.waiting and world.kind._housekeeping._moving):
        while background.waiting:
            background.work()
            background.tell()
        world.publish(["passing"], [b"1" * 20])
        assert world.get("passing", no_ack=True) is not None
        world.tick()
    background.work()
    world.disk.kill()
    world.start()
    assert (world.queues["a"].ready_count, world.queues["a"].ready_bytes) == (12, 120)
    assert not world.kind._storage.live.get(1)


def test_a_segment_for_which_there_was_no_room_harms_nobody_when_its_messages_are_consumed() -> None:
    """Its index was begun, there was no room for the bodies, and then there were no messages for it any more. Which of its
    messages are settled was asked for a range that ends before it begins, at each release and at the stop."""
    world = World([record_of("a", 1), record_of("b", 2)])
    world.publish(["a"], [b"small"], confirm=0)
    world.loop.run_soon()
    refused: list[str] = []

    def no_room(call: Call) -> Fault | None:
        if call.operation == "create" and call.name.endswith(".body"):
            refused.append(call.name)
            return Fault.ENOSPC
        return None

    world.disk.faults = no_room
    for number in range(1, 300):
        if refused:
            break
        world.publish(["b"], [b"x" * 50], confirm=number)
        world.loop.run_soon()
        world.tick()
    got = world.get("a")
    assert refused and got is not None
    world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.disk.faults = no_faults
    start = world.log.files().start
    for number in range(300, 500):
        world.publish(["b"], [b"x" * 50], confirm=number)
        world.loop.run_soon()
        world.tick()
    assert world.log.files().start > start + 3
    world.restart()
    assert not world.kind.findings and not world.waiting("a")


def test_a_queue_may_be_deleted_while_its_files_are_synced() -> None:
    """Its directory was gone when it was to be synced, and no log file was released after that."""
    background = Later()
    world = moved_out(background)
    directory = world.queues["b"].backing.index.directory

    def delete(name: str) -> None:
        if name.startswith(directory) and "b" in world.queues:
            world.kind.delete(world.queues.pop("b"), world.now)

    world.disk.on_sync = delete
    background.work()
    background.tell()
    assert "b" not in world.queues and world.kind._storage.failed is None
    assert world.log.files().start > 1
    world.records.pop()
    world.restart()
    assert not world.kind.findings and len(world.waiting("a")) == 40


def test_contents_are_let_go_while_housekeeping_waits_for_room() -> None:
    """What was settled and durable was remembered for as long as nothing could be released: for ever after a failure."""
    world = moved_out(background := Later())
    while background.waiting:
        background.work()
        background.tell()
    world.kind._storage.fail(DiskFailed("a test"))
    for _ in range(20):
        got = world.get("a")
        assert got is not None
        world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
        world.tick()
    assert len(world.kind._storage._releases) <= 1


def test_a_release_costs_what_has_changed_and_not_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record_of(f"q{number}", number) for number in range(1, 101)]
    world = World([*records, record_of("passing", 101)], log_file_bytes_max=20_000)
    for record in records:
        world.publish([record.name], [b"stays"])

    def roll() -> None:
        start = world.log.files().start
        while world.log.files().start == start:
            world.publish(["passing"], [b"x" * 500])
            world.loop.run_soon()
            assert world.get("passing", no_ack=True) is not None
            world.tick()

    roll()
    roll()
    looked_at: list[str] = []
    write_settled = QueueIndex.write_settled

    def note(index: QueueIndex, alive: Alive, numbers: Iterable[int]) -> None:
        looked_at.append(index.directory)
        write_settled(index, alive, numbers)

    monkeypatch.setattr(QueueIndex, "write_settled", note)
    roll()
    assert not looked_at
    for name in ("q7", "q8"):
        got = world.get(name)
        assert got is not None
        world.queues[name].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    roll()
    assert len(set(looked_at)) <= 2
    world.disk.kill()
    world.start()
    assert not world.waiting("q7") and [body for body, _ in world.waiting("q9")] == [b"stays"]


def in_turns(records: list[QueueRecord]) -> tuple[World, deque[Callable[[], None]]]:
    """A world whose background work takes one step in each turn."""
    turns: deque[Callable[[], None]] = deque()
    work = partial(BackgroundWork, turns.append, lambda: 0.0, steps_max=1)
    return World(records, log_file_bytes_max=4_000, work=work), turns


def tick_and_take_turns(world: World, turns: deque[Callable[[], None]], ticks: int) -> None:
    for _ in range(ticks):
        world.tick()
        while turns:
            turns.popleft()()


def test_queues_are_noted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SEGMENTS_PER_STEP", 7)
    records = [record_of(f"q{number}", number) for number in range(1, 41)]
    world, turns = in_turns(records)
    for record in records:
        world.publish([record.name], [b"stays"], confirm=record.id)
    world.loop.run_soon()
    keeper = world.kind._housekeeping
    while keeper._noting is None:
        world.publish(["q1"], [b"more" * 20])
        world.loop.run_soon()
        if turns:
            turns.popleft()()
        else:
            world.tick()
    noting = keeper._noting
    assert noting is not None and sum(len(segments) for _, segments in noting._noted) == 7
    world.tick()
    assert keeper._noting is noting, "the tick after began another one"
    turns.popleft()()
    assert sum(len(segments) for _, segments in noting._noted) == 14
    world.kind.delete(world.queues.pop("q2"), world.now)  # in between
    world.kind.delete(world.queues.pop("q40"), world.now)
    world.records = [record for record in records if record.name not in ("q2", "q40")]
    tick_and_take_turns(world, turns, 20)
    assert keeper._noting is None and world.log.files().start > 1
    assert not {2, 40} & set(keeper.manifest.queues)
    world.disk.kill()
    world.start()
    assert not world.kind.findings
    assert all(world.waiting(record.name)[0][0] == b"stays" for record in world.records)


def test_the_segments_of_one_queue_are_noted_in_slices_and_those_touched_meanwhile_another_time() -> None:
    """Otherwise a queue whose messages are acknowledged here and there would be noted for ever."""
    limits = replace(TINY, sequences_per_segment=4)
    world = World([record_of("q", 1)], limits=limits, log_file_bytes_max=4_000)
    for number in range(60):
        world.publish(["q"], [b"%02d" % number], confirm=number)
        world.loop.run_soon()
        world.tick()
    index = world.queues["q"].backing.index
    numbers = sorted(index.segments)
    assert len(numbers) > 5, "too few segments were written"
    index.touch_all()
    noting = Noting(world.kind._storage, world.kind._queues, world.kind._housekeeping.manifest)
    noting.all_queues()
    rounds = 0
    while not noting.note_queues(2):
        rounds += 1
        index.touch(numbers[0])
        assert rounds <= len(numbers), "it does not end"
    assert rounds >= len(numbers) // 2 - 1
    assert [number for _, some in noting._noted for number in some] == numbers
    assert index.touched == {numbers[0]} and 1 in world.kind._storage.touched


def test_a_stop_does_not_vouch_for_what_failed_to_be_synced_just_before_it() -> None:
    """The loop did not know of the failure yet. The stop synced the same files again, which says yes after the pages were
    dropped, and wrote down that all is well."""
    background = Later()
    world = moved_out(background)
    failed: list[str] = []

    def fails_once(call: Call) -> Fault | None:
        if call.operation == "sync" and call.name.endswith((".idx", ".body", ".rdq")) and not failed:
            failed.append(call.name)
            return Fault.EIO
        return None

    world.disk.faults = fails_once
    world.kind.stop(world.now)
    assert failed and any("will have to read everything" in finding for finding in world.kind.findings)
    world.disk.faults = no_faults
    world.log.close()
    world.disk.kill()
    world.start()
    assert len(world.waiting("a")) == len(world.waiting("b")) == 40
    assert not world.kind.findings


def test_nothing_is_done_any_more_in_the_turn_in_which_a_sync_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where work is done at once the next step of the same turn wrote to a file whose pages had been dropped, and vouched for
    it."""
    world = World([record_of("a", 1)])
    house, done = world.kind._housekeeping, list[str]()
    monkeypatch.setattr(house, "_delete_dead", lambda: world.kind._storage.fail(DiskFailed("a failed sync")))
    monkeypatch.setattr(house, "_compact", lambda now: done.append("compact"))
    monkeypatch.setattr(house, "_shorten_log", lambda: done.append("shorten the log"))
    world.tick()
    assert done == []

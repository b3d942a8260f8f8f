"""Classic queues over a log and files: what is shared, what is released, what a restart keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from gc import collect
from itertools import pairwise
from typing import Any
from weakref import ref

import pytest

from broker.background_work import BackgroundWork
from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeadMessage, Outcome, Queue
from broker.records import QueueRecord
from classic import driver
from classic.driver import ClassicQueues
from classic.limits import REJECT_PUBLISH_DLX
from classic.queue import ClassicQueue
from classic.store import housekeeping, move_out
from classic.store.node_storage import QUEUES_PER_STEP, ClassicLimits
from classic.store.noting import Noting
from classic.stored_run import InStore
from native.content import messages
from storage import names
from storage.errors import DiskFailed
from storage.wal.log_core import Location
from tests.sim.disk import Call, Fault, fault_on, no_faults
from tests.unit.classic.classic_world import TINY, Host, Sink, World, record_of

LARGE = b"z" * 100  # TINY says that this goes to the shared store


def fill_log(world: World, name: str, count: int = 120) -> None:
    """Messages that come and go, so that log files roll and old ones are moved out."""
    for number in range(count):
        world.publish([name], [b"%d" % number])
        assert world.get(name, no_ack=True) is not None
        world.loop.run_soon()
        world.tick()
    world.tick(5)


@pytest.fixture
def world() -> World:
    return World([record_of("a", 1), record_of("b", 2), record_of("passing", 3), record_of("brief", 4, durable=False)])


def test_a_confirm_waits_for_the_log(world: World) -> None:
    world.publish(["a"], [b"1", b"2"], confirm=1)
    assert world.confirmed.accepted == set()
    world.loop.run_soon()
    assert world.confirmed.accepted == {1, 2}


def test_a_confirm_waits_for_its_own_commit_and_not_for_the_one_before(world: World) -> None:
    confirmed_at_sync: list[set[int]] = []

    def publish_meanwhile(call: Call) -> None:
        if call.operation == "sync":
            confirmed_at_sync.append(set(world.confirmed.accepted))
            if len(confirmed_at_sync) == 1:
                world.publish(["a"], [b"gathered while the first is synced"], confirm=2)

    world.publish(["a"], [b"first"], confirm=1)
    world.disk.faults = publish_meanwhile
    world.loop.run_soon()
    assert confirmed_at_sync[-1] == {1}, "the first is durable by then, and the second is not yet"
    assert world.confirmed.accepted == {1, 2}


def test_what_a_failed_disk_cannot_keep_is_refused_and_never_confirmed(world: World) -> None:
    """One answer for all its queues, also those that only need memory."""
    world.disk.faults = fault_on("sync", Fault.EIO)
    world.publish(["a"], [b"on its way"], confirm=1)
    world.loop.run_soon()
    world.publish(["brief", "a"], [b"1", b"2"], confirm=2)
    world.loop.run_soon()
    assert world.failures
    assert world.confirmed.accepted == set()
    assert world.confirmed.refused == {2, 3}
    with pytest.raises(ResourceExhausted):
        world.publish(["a"], [b"nobody waits for it"])


def test_a_transient_message_is_confirmed_at_once_and_the_log_never_sees_it(world: World) -> None:
    before = world.log.gathering_bytes
    world.publish(["a"], [b"1"], persistent=False, confirm=1)
    assert world.confirmed.accepted == {1}
    assert world.log.gathering_bytes == before


def test_a_transient_message_is_confirmed_when_each_of_its_queues_has_it(world: World) -> None:
    world.publish(["a", "b", "passing"], [b"1"], persistent=False, confirm=1)
    world.publish(["a", "brief", "b"], [b"2"], confirm=2)
    assert world.confirmed.accepted == {1}
    world.loop.run_soon()
    assert world.confirmed.accepted == {1, 2}


def test_more_queues_than_a_record_names_all_have_the_message_and_keep_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "QUEUES_PER_RECORD_MAX", 2)
    names = ["a", "b", "passing"]
    world.publish(names, [b"1"], confirm=1)
    world.loop.run_soon()
    assert world.confirmed.accepted == {1}
    world.disk.kill()
    world.start()
    assert [[body for body, _ in world.waiting(name)] for name in names] == [[b"1"]] * 3


class OneQueueIsLimited(World):
    """`full`, whose dead letters go to `b`."""

    def __init__(self, **limits: Any) -> None:
        self._limits = EffectiveArguments(dead_letter_exchange="dlx", **limits)
        super().__init__([record_of("full", 1), record_of("b", 2)])

    def effective_of(self, record: QueueRecord) -> EffectiveArguments:
        return self._limits if record.name == "full" else EffectiveArguments()

    def new_host(self) -> Host:
        host = super().new_host()
        vars(host)["dead_letter"] = self._to_b
        return host

    def _to_b(self, queue: Queue, reason: object, dead: Sequence[DeadMessage], now: int) -> None:
        for _, _, content, *_ in dead:
            self.publish(["b"], [b"dead " + messages(content, 0, 1)[0][1]])


@pytest.mark.parametrize("names", [["full", "b"], ["b", "full"]])
def test_what_one_queue_refuses_may_die_into_another_queue_of_the_same_publish(names: list[str]) -> None:
    world = OneQueueIsLimited(max_length=1, overflow=REJECT_PUBLISH_DLX)
    world.publish(["full"], [b"old"])
    world.publish(names, [b"new"], confirm=1)
    world.loop.run_soon()
    assert world.confirmed.refused == {1}
    assert [body for body, _ in world.waiting("full")] == [b"old"]
    assert [body for body, _ in world.waiting("b")] == [b"dead new", b"new"]


@pytest.mark.parametrize("names", [["full", "b"], ["b", "full"]])
def test_what_a_publish_drives_out_of_one_queue_may_die_into_another_of_its_queues(names: list[str]) -> None:
    world = OneQueueIsLimited(max_length=1)
    world.publish(["full"], [b"old"])
    world.publish(names, [b"new"], confirm=1)
    world.loop.run_soon()
    assert world.confirmed.accepted == {1}
    assert [body for body, _ in world.waiting("full")] == [b"new"]
    assert [body for body, _ in world.waiting("b")] == [b"new", b"dead old"]


def test_a_node_that_has_stopped_takes_no_durable_message_any_more(world: World) -> None:
    """The summary for the next start is written: it would not know of the message."""
    world.kind.stop(world.now)
    world.publish(["a"], [b"1"], confirm=1)
    with pytest.raises(ResourceExhausted, match="this node is stopping"):
        world.publish(["a"], [b"2"])
    world.loop.run_soon()
    assert (world.confirmed.accepted, world.confirmed.refused) == (set(), {1})


def test_memory_pressure_moves_what_idle_queues_hold() -> None:
    """Nothing is published or taken there that would have them looked at."""
    roomy = replace(TINY, runs_max=100, ram_count_max=100, ram_bytes_kept=1 << 20)
    world = World([record_of("a", 1)], limits=roomy)
    world.publish(["a"], [b"x"] * 50, persistent=False)
    level = world.queues["a"].levels[0]
    world.tick(5)
    world.kind._storage.active.clear()
    assert level.ram_count == 50
    world.kind.set_pressure(0.9)
    world.tick(5)
    assert level.ram_count < 50


def test_what_is_acknowledged_by_being_delivered_never_sees_the_disk(world: World) -> None:
    sink = Sink()
    world.queues["a"].consume(Consumer("c", world.queues["a"], sink, no_ack=True), world.now)
    world.turn()
    before = world.log.gathering_bytes
    world.publish(["a"], [b"1", b"2"])
    assert sink.got == [(b"1", False), (b"2", False)]
    assert world.log.gathering_bytes == before


def test_what_needs_no_disk_does_not_overtake_what_waits_for_the_end_of_the_turn(world: World) -> None:
    sink = Sink()
    world.queues["a"].consume(Consumer("c", world.queues["a"], sink, no_ack=True), world.now)
    world.turn()
    world.publish(["a"], [b"logged"], confirm=1)
    world.publish(["a"], [b"in memory"], persistent=False, confirm=2)
    world.turn()
    assert [body for body, _ in sink.got] == [b"logged", b"in memory"]


def test_queues_share_one_copy_of_a_large_body_and_one_may_go_before_the_other(world: World) -> None:
    world.publish(["a", "b"], [LARGE], confirm=1)
    world.loop.run_soon()
    fill_log(world, "passing")
    store = world.kind._storage.store
    assert [stored.references for stored in store.contents.values()] == [2]
    got = world.get("a")
    assert got is not None and got.content.endswith(LARGE)
    world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(3)
    assert [stored.references for stored in store.contents.values()] == [1]
    assert world.waiting("b") == [(LARGE, False)]
    world.queues["b"].purge(world.now)
    world.tick(3)
    assert not store.contents


def test_sparse_store_files_are_compacted_and_dead_ones_deleted(world: World) -> None:
    for number in range(24):
        world.publish(["a"], [b"%02d" % number + LARGE])
        world.loop.run_soon()
    fill_log(world, "passing")
    store = world.kind._storage.store
    files = len(store.files)
    assert files > 4
    pieces = [world.get("a") for _ in range(24)]
    for number, got in enumerate(pieces):
        assert got is not None
        if number % 4:
            world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(40)
    assert len(store.files) < files
    world.disk.kill()
    world.start()
    assert not world.kind.findings
    assert [body[:2] for body, _ in world.waiting("a")] == [b"%02d" % number for number in range(0, 24, 4)]


def test_one_old_message_does_not_hold_the_log(world: World) -> None:
    world.publish(["a"], [b"old"], confirm=1)
    world.loop.run_soon()
    fill_log(world, "passing", 200)
    assert world.log.files().start > 2
    assert len(world.log.files()) <= 4
    assert world.waiting("a") == [(b"old", False)]


def test_a_log_file_goes_when_whole_runs_of_it_are_done_with() -> None:
    """However many files may wait for their messages to be consumed: it has none that lives."""
    world = World([record_of("a", 1)], limits=replace(TINY, log_files_kept=100))
    sink = Sink()
    queue = world.queues["a"]
    queue.consume(Consumer("c", queue, sink), world.now)
    for _ in range(30):
        world.publish(["a"], [b"consumed at once"] * 10)
        world.loop.run_soon()
        world.tick()
        while sink.pieces:
            piece = sink.pieces.pop()
            assert piece.count > 1, "messages are settled one by one"
            queue.settle(piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(5)
    assert world.log.files().stop > 4
    assert len(world.log.files()) <= 2


def test_a_log_file_stays_for_the_queue_that_still_has_what_another_one_is_done_with(world: World) -> None:
    """One record names both. The file was released when the first had acknowledged, and the other's message was gone."""
    world.publish(["a", "b"], [b"for both"])
    world.loop.run_soon()
    assert world.get("a", no_ack=True) is not None
    fill_log(world, "passing")
    assert world.log.files().start > 1
    world.disk.kill()
    world.start()
    assert (world.waiting("a"), world.waiting("b")) == ([], [(b"for both", True)])


def test_what_only_the_log_knows_to_be_settled_stays_settled_when_that_is_released_after_a_crash(world: World) -> None:
    """The segment was noted again only if something else was written to it."""
    world.publish(["a"], [b"done with"])
    world.publish(["a"], [b"stays"])
    world.loop.run_soon()
    fill_log(world, "passing")
    assert world.get("a", no_ack=True) is not None
    world.kind._storage.write_settled()
    world.log.commit_now()
    for _ in range(2):
        world.disk.kill()
        world.start()
        assert world.waiting("a") == [(b"stays", True)]
        first = world.log.files().stop
        fill_log(world, "passing")
        assert world.log.files().start > first


def test_what_was_settled_just_before_a_stop_in_order_leaves_no_content_behind(world: World) -> None:
    """The stop wrote down a reference that nobody had any more: the file was kept for good."""
    world.publish(["a"], [LARGE])
    world.loop.run_soon()
    fill_log(world, "passing")
    assert world.kind._storage.store.contents
    assert world.get("a", no_ack=True) is not None
    world.restart()
    assert not world.kind._storage.store.contents


def test_what_comes_as_redelivered_is_handed_out_so(world: World) -> None:
    """Somebody has had it where it was before."""
    world.publish(["a"], [b"known"], redelivered=True)
    world.publish(["a"], [b"new"])
    assert world.waiting("a") == [(b"known", True), (b"new", False)]


def test_a_clean_restart_brings_back_marks_and_order_and_drops_what_is_transient(world: World) -> None:
    for number in range(30):
        world.publish(["a"], [b"%d" % number], persistent=number % 5 != 0)
    world.publish(["brief"], [b"1"])
    for _ in range(3):
        got = world.get("a")
        assert got is not None
        world.queues["a"].settle(got.piece, Outcome.REQUEUED, world.now)
    first = world.get("a", no_ack=True)
    assert first is not None
    got = world.get("a")
    assert got is not None
    world.queues["a"].settle(got.piece, Outcome.REQUEUED, world.now)
    world.restart()
    expected = [(b"%d" % number, number == 1) for number in range(30) if number % 5]
    assert world.waiting("a") == expected
    assert world.queues["a"].ready_bytes == sum(len(body) for body, _ in expected)
    world.restart()
    assert world.waiting("a") == expected
    assert not world.kind.findings


def test_priorities_keep_their_order_through_paging_restart_and_crash() -> None:
    world = World([record_of("a", 1)], effective=EffectiveArguments(max_priority=3))
    for number in range(40):
        world.publish(["a"], [b"%d" % number], priority=number % 5, confirm=number)
        world.loop.run_soon()
    world.tick(5)
    expected = [number for level in (3, 2, 1, 0) for number in range(40) if min(number % 5, 3) == level]
    assert [int(body) for body, _ in world.waiting("a")] == expected
    world.restart()
    assert [int(body) for body, _ in world.waiting("a")] == expected
    world.disk.kill()
    world.start()
    assert [int(body) for body, _ in world.waiting("a")] == expected


def test_a_deleted_queue_leaves_no_file_and_does_not_come_back(world: World) -> None:
    for number in range(60):
        world.publish(["a"], [b"%d" % number + LARGE], confirm=number)
        world.loop.run_soon()
    fill_log(world, "passing")
    record = world.records[0]
    directory = names.queue_directory("/", "a", record.id)
    assert world.disk.list(directory)
    assert world.kind.delete(world.queues.pop("a"), world.now) == 60
    assert not world.disk.exists(directory)
    world.tick(5)
    assert not world.kind._storage.store.contents
    del world.records[0]
    world.disk.kill()
    world.start()
    assert not world.kind.findings


def test_whoever_still_knows_a_deleted_queue_keeps_nothing_of_it_in_memory(world: World) -> None:
    """The routes of a channel did: 100 KB for each queue that it had sent a message of that size."""
    queue = world.queues["a"]
    world.publish(["a"], [b"0" + LARGE], confirm=0)
    level = ref(queue.levels[0])
    assert world.kind.delete(world.queues.pop("a"), world.now) == 1
    world.tick(5)
    collect()
    assert level() is None and (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_a_purge_is_answered_when_it_is_durable(world: World) -> None:
    for number in range(20):
        world.publish(["a"], [b"%d" % number], confirm=number)
    world.loop.run_soon()
    answers: list[int] = []
    world.queues["a"].purge(world.now).then(answers.append, lambda error: None)
    assert answers == [] and world.queues["a"].ready_count == 0
    world.loop.run_soon()
    assert answers == [20]
    world.disk.kill()
    world.start()
    assert world.waiting("a") == []


def test_what_was_purged_stays_away_when_the_log_has_forgotten_the_purge(world: World) -> None:
    """What a consumer still has keeps the segment, and that the others are done with has to be written down there."""
    world.publish(["a"], [b"held"])
    world.publish(["a"], [b"purged"] * 3)
    world.loop.run_soon()
    fill_log(world, "passing")
    assert world.queues["a"].backing.index.segments, "all of it is in the log only"
    assert world.get("a") is not None
    world.queues["a"].purge(world.now)
    world.loop.run_soon()
    purged_in = world.log.files().stop
    fill_log(world, "passing")
    assert world.log.files().start > purged_in, "the log still tells of the purge"
    world.disk.kill()
    world.start()
    assert world.waiting("a") == [(b"held", True)]


def test_a_purge_of_a_queue_that_is_deleted_before_it_is_durable_is_answered(world: World) -> None:
    world.publish(["a"], [b"1", b"2"])
    world.loop.run_soon()
    answers: list[int] = []
    world.queues["a"].purge(world.now).then(answers.append, lambda error: None)
    assert answers == []
    world.kind.delete(world.queues["a"], world.now)
    assert answers == [2]


def test_a_purge_waits_for_its_own_commit_and_not_for_the_one_before(world: World) -> None:
    world.publish(["a"], [b"1", b"2"])
    world.loop.run_soon()
    answers: list[int] = []
    answered_at_sync: list[list[int]] = []

    def purge_meanwhile(call: Call) -> None:
        if call.operation == "sync":
            answered_at_sync.append(list(answers))
            if len(answered_at_sync) == 1:
                world.queues["a"].purge(world.now).then(answers.append, lambda _: None)

    world.publish(["b"], [b"on its way"], confirm=1)
    world.disk.faults = purge_meanwhile
    world.loop.run_soon()
    assert world.confirmed.accepted == {1}
    assert answered_at_sync[-1] == [], "the commit before is durable by then, and that of the purge is not yet"
    assert answers == [2]


def test_a_full_disk_holds_nothing_up_and_loses_nothing(world: World) -> None:
    for number in range(10):
        world.publish(["a"], [b"%d" % number], persistent=False)
    world.disk.capacity = 0
    for number in range(10, 40):
        world.publish(["a"], [b"%d" % number], persistent=False)
        world.kind.tick(world.now)
    world.disk.capacity = 1 << 30
    assert [int(body) for body, _ in world.waiting("a")] == list(range(40))


def test_many_active_queues_are_looked_after_in_turn_so_that_no_tick_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [f"q{number}" for number in range(200)]
    world = World([record_of(name, number) for number, name in enumerate(queues, 1)])
    for name in queues:
        world.publish([name], [b"one"])
    world.loop.run_soon()
    seen: list[str] = []
    tick = ClassicQueue.tick

    def noted(queue: ClassicQueue, now: int, pressure: float) -> bool:
        seen.append(queue.record.name)
        return tick(queue, now, pressure)

    monkeypatch.setattr(ClassicQueue, "tick", noted)
    for _ in range(4):
        before = len(seen)
        world.tick()
        assert len(seen) - before == 50
    assert sorted(seen) == sorted(queues)


def test_what_is_given_back_on_a_full_disk_is_neither_lost_nor_the_end_of_the_node(world: World) -> None:
    """Its old place may be in delta by then, and delta is on the disk: there is no room for its index entry."""
    pieces = []
    for number in range(12):  # each is taken before it was paged out, so the index knows none of them
        world.publish(["a"], [b"%d" % number], confirm=number)
        world.loop.run_soon()
        got = world.get("a")
        assert got is not None
        pieces.append(got.piece)
    for number in range(12, 16):
        world.publish(["a"], [b"%d" % number], confirm=number)
        world.loop.run_soon()
    got = world.get("a")  # the only one in q4: what comes back now goes to q3, and from its tail to delta
    assert got is not None
    pieces.append(got.piece)
    for number in range(4):
        world.queues["a"].settle(pieces[number], Outcome.REQUEUED, world.now)
        world.tick()
    (level,) = world.queues["a"].levels
    assert level.delta_count and level.delta_start < 4 and level.delta_end == 16
    world.disk.faults = lambda call: Fault.ENOSPC if call.operation in ("write", "create") else None
    for number in (7, 10, 9, 4, 12, 6, 8, 11, 5):
        world.queues["a"].settle(pieces[number], Outcome.REQUEUED, world.now)
        world.turn()
        world.kind.tick(world.now)
    world.disk.faults = no_faults
    assert [int(body) for body, _ in world.waiting("a")] == list(range(16))
    assert not world.kind.findings
    world.disk.kill()
    world.start()
    assert [int(body) for body, _ in world.waiting("a")] == list(range(16))


def test_rates_of_a_backlog_are_measured_though_nobody_publishes_any_more(world: World) -> None:
    world.publish(["a"], [b"1", b"2", b"3"])
    world.restart()
    assert world.get("a") is not None
    world.tick(3)
    assert world.queues["a"].levels[0].rates.egress.per_second > 0


def test_an_idle_node_does_not_touch_the_disk(world: World) -> None:
    """After a restart there is a log file that holds nothing and has to stay; it was let go again on every tick."""
    world.publish(["a"], [b"1"], confirm=1)
    world.loop.run_soon()
    assert world.get("a", no_ack=True) is not None
    world.tick(5)
    world.restart()
    world.tick(5)
    before = world.disk.calls
    world.tick(50)
    assert world.disk.calls == before


def test_bytes_are_counted_right_when_the_begin_of_a_run_was_not_moved_out_with_the_rest(world: World) -> None:
    world.publish(["a"], [b"x" * 3, b"y" * 20, b"z" * 7, b"w"], confirm=1)
    world.loop.run_soon()
    queue = world.queues["a"]
    first, *others = [world.get("a") for _ in range(4)]
    assert first is not None
    queue.settle(first.piece, Outcome.ACKNOWLEDGED, world.now)
    for other in others:
        assert other is not None
        queue.settle(other.piece, Outcome.RETURNED, world.now)
    assert queue.ready_bytes == 28
    fill_log(world, "passing", 150)
    assert world.log.files().start > 1
    left = []
    while world.get("a") is not None:
        left.append((queue.ready_bytes, queue.statistics().unacknowledged_bytes))
    assert left == [(8, 20), (1, 27), (0, 28)]


def test_a_message_is_read_while_the_commit_that_makes_its_log_file_is_on_its_way(world: World) -> None:
    """The commit fills the file, so the log is at the next one already, and this one does not exist yet."""
    bodies = [b"%d" % number + bytes(700) for number in range(4)]
    for number, body in enumerate(bodies):
        world.publish(["a"], [body], confirm=number)
    seen: list[list[bytes]] = []

    def look(call: Call) -> None:
        if call.operation == "create" and not seen:
            seen.append([])
            seen[0] += [body for body, _ in world.waiting("a")]

    world.disk.faults = look
    world.loop.run_soon()
    assert not world.kind.findings
    assert seen == [bodies]


def test_a_clean_restart_does_not_count_bytes_of_what_it_dropped_from_delta() -> None:
    """They stayed in the queue's sum, and its length limit dropped confirmed messages for them."""
    world = World([record_of("a", 1)], effective=EffectiveArguments(max_length_bytes=200))
    for number in range(20):
        world.publish(["a"], [b"%09d." % number], persistent=number % 2 == 0, confirm=number)
        world.loop.run_soon()
    world.tick(3)
    queue = world.queues["a"]
    assert queue.levels[0].delta_count > 10 and queue.ready_bytes == 200
    world.restart()
    queue = world.queues["a"]
    assert (queue.ready_count, queue.ready_bytes) == (10, 100)
    for number in range(20, 30):
        world.publish(["a"], [b"%09d." % number])
    assert queue.ready_count == 20


def test_a_damaged_store_file_is_told_of_once_and_others_are_compacted(world: World) -> None:
    for number in range(24):
        world.publish(["a"], [b"%02d" % number + LARGE], confirm=number)
        world.loop.run_soon()
    fill_log(world, "passing")
    store = world.kind._storage.store
    pieces = [world.get("a") for _ in range(24)]
    kept = sorted(store.contents.values(), key=lambda one: (one.file, one.offset))[3]
    world.disk.flip_bit(store.name_of(kept.file), (kept.offset + 50) * 8)
    world.kind._storage.files.forget(store.name_of(kept.file))
    for number, got in enumerate(pieces):
        assert got is not None
        if number % 4 != 3:
            world.queues["a"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(60)
    assert len(world.kind.findings) == 1, world.kind.findings
    sparse = [one for one in store.files.values() if 0 < one.living * 2 < one.size]
    assert len(sparse) <= 2, "the damaged one, and the one that is written"


@pytest.mark.parametrize("clean", [False, True])
def test_a_start_that_fails_half_way_does_not_stop_in_order(world: World, clean: bool) -> None:
    """One queue could not be opened, so the node gave up. What it wrote down then had nothing of that queue, and the next
    start believed it."""
    world.publish(["a", "b"], [b"1", b"2"], confirm=1)
    world.loop.run_soon()
    if clean:
        world.stop()
    else:
        world.disk.kill()
    opened = ClassicQueues.open

    def fails(kind: ClassicQueues, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        if record.name == "b":
            raise DiskFailed("cannot read")
        return opened(kind, record, effective, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClassicQueues, "open", fails)
        with pytest.raises(DiskFailed):
            world.start()
    world.stop()
    world.start()
    assert [len(world.waiting(name)) for name in ("a", "b")] == [2, 2]


def test_neighbours_in_the_log_file_that_is_being_written_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was one read of the disk, on the event loop: 50,000 dead letters that had just been published."""
    world = World([record_of("q", 1)], limits=ClassicLimits(ram_count_max=3), log_file_bytes_max=1_000_000)
    for number in range(40):
        world.publish(["q"], [b"%d" % number])
        world.loop.run_soon()
    world.tick()
    alone: list[Location] = []
    read = world.log.read

    def counted(location: Location) -> bytes:
        alone.append(location)
        return read(location)

    monkeypatch.setattr(world.log, "read", counted)
    before = world.kind._storage.files.reads
    assert [world.get("q", no_ack=True) is not None for _ in range(20)] == [True] * 20
    assert (alone, world.kind._storage.files.reads - before) == ([], 1)


def test_what_was_read_along_before_it_was_written_is_read_again() -> None:
    world = World([record_of("q", 1)], limits=ClassicLimits(ram_count_max=1), log_file_bytes_max=1_000_000)
    got: list[bytes] = []
    for number in range(40):
        world.publish(["q"], [b"a%d" % number, b"b%d" % number])
        world.loop.run_soon()
        world.tick()
        piece = world.get("q", no_ack=True)
        assert piece is not None
        got += [body for _, body in messages(piece.content[piece.piece.position :], 0, 1)]
    got += [body for body, _ in world.waiting("q")]
    assert got == [b"%s%d" % (letter, number) for number in range(40) for letter in (b"a", b"b")]


def test_many_queues_get_files_of_their_own_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each makes a directory and two files: of 800 queues in one piece of the log, the loop stood for 170 ms."""
    monkeypatch.setattr("classic.store.move_out.BEGUN_PER_STEP", 3)
    monkeypatch.setattr("classic.store.housekeeping.BEGUN_PER_TICK", 5)
    names_of_queues = [f"q{number}" for number in range(40)]
    records = [record_of(name, number) for number, name in enumerate(names_of_queues, 1)]
    world = World(
        [*records, record_of("passing", 100)],
        limits=ClassicLimits(embed_below=64, log_files_kept=1),
        log_file_bytes_max=8_000,
    )
    for name in names_of_queues:
        for body in (b"small " + name.encode(), LARGE + name.encode()):
            world.publish([name], [body], confirm=1)
        world.loop.run_soon()
    begun: list[int] = []
    for number in range(300):
        world.publish(["passing"], [b"%d" % number])
        assert world.get("passing", no_ack=True) is not None
        world.loop.run_soon()
        before = len(world.kind._storage.indexed)
        world.tick()
        begun.append(len(world.kind._storage.indexed) - before)
    assert sum(begun) == len(names_of_queues)
    assert max(begun) <= 7, "a step is ended by the queue that is one too many, and a tick by the step"
    world.disk.kill()
    world.start()
    for name in names_of_queues:
        assert [body for body, _ in world.waiting(name)] == [b"small " + name.encode(), LARGE + name.encode()]


def test_a_segment_that_got_new_messages_after_it_was_found_dead_stays() -> None:
    world = World([record_of("a", 1)], log_file_bytes_max=1_000_000)
    storage, housekeeping = world.kind._storage, world.kind._housekeeping

    def publish(numbers: range) -> None:
        for number in numbers:
            world.publish(["a"], [b"%d" % number])
        world.loop.run_soon()
        world.tick()

    publish(range(5))
    assert [world.get("a", no_ack=True) is not None for _ in range(5)] == [True] * 5
    index = world.queues["a"].backing.index
    dead = index.dead_segments(world.queues["a"].alive_in)
    assert dead, "nothing was paged out"
    housekeeping._look_for_dead(storage.write_settled())
    publish(range(5, 12))
    assert dead[0] not in index.dead_segments(world.queues["a"].alive_in), "it got none of the new messages"
    storage.log.commit_now()
    housekeeping._delete_dead()
    world.tick(5)
    assert [body for body, _ in world.waiting("a")] == [b"%d" % number for number in range(5, 12)]
    world.disk.kill()
    world.start()
    assert [body for body, _ in world.waiting("a")] == [b"%d" % number for number in range(5, 12)]


def test_a_segment_stays_until_the_log_durably_says_that_its_messages_are_settled() -> None:
    """With the segment gone and the settling lost in a crash, the log would name messages that nothing holds any more."""
    world = World([record_of("a", 1)], log_file_bytes_max=1_000_000)
    storage, keeper = world.kind._storage, world.kind._housekeeping
    for number in range(5):
        world.publish(["a"], [b"%d" % number])
    world.loop.run_soon()
    world.tick()
    assert [world.get("a", no_ack=True) is not None for _ in range(5)] == [True] * 5
    index = world.queues["a"].backing.index
    dead = index.dead_segments(world.queues["a"].alive_in)
    assert dead, "nothing was paged out"
    keeper._look_for_dead(storage.write_settled())
    keeper._delete_dead()
    assert set(dead) <= index.segments.keys(), "the log has not even been written"
    storage.log.commit_now()
    keeper._delete_dead()
    assert not index.segments


def test_a_store_file_stays_until_the_log_durably_says_that_its_contents_are_settled() -> None:
    world = World([record_of("a", 1)])
    storage, keeper = world.kind._storage, world.kind._housekeeping
    world.publish(["a"], [b"not durable yet"])
    store = storage.store
    for index in range(8):  # two files
        store.put(InStore(1, index), LARGE, 1)
    store.release(InStore(1, 0))
    first = min(store.files)
    for content_id in [one for one, stored in store.contents.items() if stored.file == first]:
        store.release(content_id)
    assert store.dead_files() == [first]
    keeper._look_for_dead(storage.write_settled())
    keeper._delete_dead()
    assert first in store.files, "the log has not even been written"
    storage.log.commit_now()
    keeper._delete_dead()
    assert first not in store.files


def test_no_segment_goes_while_a_log_file_is_being_moved_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what the file holds of a queue is written: the other half would begin a segment of the same number."""
    monkeypatch.setattr(housekeeping, "TICK_BYTES_MIN", 1)
    monkeypatch.setattr(move_out, "PIECE_BYTES", 200)
    world = World([record_of("a", 1)])
    keeper = world.kind._housekeeping
    for number in range(200):
        world.publish(["a"], [b"%d" % number])
        world.loop.run_soon()
        if keeper._moving is not None and world.queues["a"].backing.index.segments:
            break
        world.tick()
    moving, index = keeper._moving, world.queues["a"].backing.index
    assert moving is not None and not moving.done
    while world.get("a", no_ack=True) is not None:
        pass
    dead = index.dead_segments(world.queues["a"].alive_in)
    assert dead
    ticks = 0
    while keeper._moving is moving:
        assert set(dead) <= index.segments.keys(), f"after {ticks} ticks"
        world.tick()
        ticks += 1
    assert ticks > 2, "the walk ended before anything could have gone"
    world.tick(3)
    assert not index.segments


def test_the_log_is_told_at_a_start_what_only_a_segment_knows_to_be_settled() -> None:
    """The segment may go before the log file that has the messages: they would come back."""
    world = World([record_of("a", 1)], log_file_bytes_max=1_000_000)
    for number in range(7):
        world.publish(["a"], [b"%d" % number])
    world.loop.run_soon()
    world.tick()
    for head in (2, 3):  # the first two never left the log
        world.tick()
        assert [world.get("a", no_ack=True) is not None for _ in range(head)] == [True] * head
    assert world.queues["a"].backing.index.segments, "nothing was paged out"
    noting = Noting(world.kind._storage, world.kind._queues, world.kind._housekeeping.manifest)
    noting.all_queues()
    assert noting.note_queues(100)
    noting.make_durable(world.disk)  # and the node is killed before its log has heard what was settled
    world.disk.kill()
    world.start()
    assert [body for body, _ in world.waiting("a")] == [b"5", b"6"]
    assert [world.get("a", no_ack=True) is not None for _ in range(2)] == [True] * 2
    world.tick(5)
    assert not world.queues["a"].backing.index.segments, "the segment is still there"
    world.disk.kill()
    world.start()
    assert world.waiting("a") == []


def test_a_log_file_is_moved_out_over_many_turns_and_nothing_else_is_begun_meanwhile() -> None:
    turns: deque[Callable[[], None]] = deque()
    world = World(
        [record_of("q", 1), record_of("passing", 2)],
        limits=ClassicLimits(log_files_kept=1),
        log_file_bytes_max=500_000,
        work=lambda: BackgroundWork(turns.append, lambda: 0.0, steps_max=1),
    )
    world.publish(["q"], [b"kept"], confirm=1)
    for number in range(1_500):
        world.publish(["passing"], [b"%d" % number + bytes(700)], confirm=1)
        assert world.get("passing", no_ack=True) is not None
        world.loop.run_soon()
    keeper = world.kind._housekeeping
    world.tick()
    moving = keeper._moving
    assert moving is not None and keeper._in_slices and len(turns) == 1
    positions = [moving._position]
    world.tick()
    assert moving._position == positions[0], "the tick after began a second walk"
    while turns:
        turns.popleft()()
        positions.append(moving._position)
    assert len(positions) > 5 and positions == sorted(positions)
    assert max(after - before for before, after in pairwise(positions)) <= move_out.PIECE_BYTES
    assert not keeper._in_slices
    for _ in range(20):
        world.tick()
        while turns:
            turns.popleft()()
    assert keeper._moving is not moving and world.log.files().start > moving.file_number
    world.disk.kill()
    world.start()
    assert [body for body, _ in world.waiting("q")] == [b"kept"]


def test_what_is_settled_over_many_queues_is_told_to_the_log_over_several_turns() -> None:
    """All at once, ten thousand queues' took a turn of 80 ms."""
    told, count = 2 * QUEUES_PER_STEP, 2 * QUEUES_PER_STEP + 1  # a step of the tick itself, and one of this turn's
    later: deque[Callable[[], None]] = deque()
    work = BackgroundWork(later.append, lambda: 0.0, steps_max=1)
    queues = [record_of(f"q{number}", number) for number in range(1, count + 1)]
    world = World(queues, work=lambda: work, log_file_bytes_max=1_000_000)
    for record in queues:
        world.publish([record.name], [b"1"])
        assert world.get(record.name, no_ack=True) is not None
    world.loop.run_soon()
    index = world.kind._storage.next_index
    world.tick()
    assert world.kind._storage.next_index == index + told
    world.tick()
    assert world.kind._storage.next_index == index + told, "another tick began beside it"
    work.turn_ended()
    later.popleft()()
    assert world.kind._storage.next_index == index + count
    world.tick()
    world.disk.kill()
    world.start()
    assert not any(world.get(record.name) for record in queues)

"""What a checkpoint says that a queue has is what all records before it come to, through paging, rolls, stops and crashes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.history_level import HistoryLevel
from broker.queues.queue_type import Outcome
from classic.store.log_records import (
    CHECKPOINT_RANGES_MAX,
    Checkpoint,
    decode_checkpoint,
    decode_published,
    decode_reasoned,
    decode_settled,
    encode_checkpoint,
)
from native.sequence_set import SequenceSet
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.record import PAYLOAD_BYTES_MAX, Kind, scan
from tests.unit.classic.classic_world import World, record_of
from tests.unit.classic.test_crashes import Story, give_back, live_and_die


class Log:
    """All that a disk's log has ever had: what is deleted is kept here."""

    def __init__(self, world: World) -> None:
        self._disk = world.disk
        self._deleted: dict[str, bytes] = {}
        world.disk.on_delete = self._keep

    def _keep(self, name: str) -> None:
        if name.startswith(LOG_DIRECTORY):
            self._deleted[name] = self._disk.read_file(name)

    def records(self) -> Iterator[tuple[int, memoryview]]:
        there = [log_file(number) for number in numbers_in(self._disk.list(LOG_DIRECTORY), LOG_SUFFIX)]
        files = self._deleted | {name: self._disk.read_file(name) for name in there}
        for _, data in sorted(files.items()):
            for kind, *_, start, end in scan(data, 0, len(data), PAYLOAD_BYTES_MAX)[0]:
                yield kind, memoryview(data)[start:end]


class Told:
    """What the records of one queue come to."""

    def __init__(self) -> None:
        self.living = SequenceSet()
        self.next = 0
        self.missed = 0  # messages that are gone as checkpoints say, and no record before them

    def published(self, first: int, count: int) -> None:
        self.living.add(first, first + count)
        self.next = first + count

    def compare(self, made: Checkpoint) -> None:
        living, count = SequenceSet(), 0
        for first, end in (*made.ready_ranges, *made.out_ranges):
            count += living.add(first, end)
            assert self.living.intersect(first, end) == [(first, end)], "all of it was there"
        assert count == made.ready + made.out, "nothing is both ready and out"
        assert made.next_sequences[0] >= self.next
        for first, end in living.ranges():
            self.living.remove(first, end)
        self.missed += self.living.count
        self.living = living

    def gone(self, ranges: list[tuple[int, int]]) -> None:
        for first, end in ranges:
            self.living.remove(first, end)


def compared(log: Log) -> tuple[int, int]:
    """How many checkpoints there were, all of them right, and how many messages had gone without a word."""
    told: dict[int, Told] = {}
    seen = 0
    for kind, payload in log.records():
        if kind == Kind.CLASSIC_PUBLISH:
            published = decode_published(payload)
            for queue, first in published.queues:
                told.setdefault(queue, Told()).published(first, published.message_count)
        elif kind in (Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE):
            queue, ranges = decode_settled(payload)
            told.setdefault(queue, Told()).gone(ranges)
        elif kind == Kind.CLASSIC_DONE:
            queue, _, _, ranges = decode_reasoned(payload)
            told.setdefault(queue, Told()).gone(ranges)
        elif kind == Kind.CLASSIC_CHECKPOINT:
            made = decode_checkpoint(payload)
            told.setdefault(made.queue_id, Told()).compare(made)
            seen += 1
    return seen, sum(one.missed for one in told.values())


@pytest.mark.parametrize("seed", range(20))
def test_a_checkpoint_says_what_all_records_before_it_come_to(seed: int) -> None:
    story = Story(seed, HistoryLevel.FULL)
    log = Log(story.world)
    for _ in range(4):
        for _ in range(100):
            story.step()
        give_back(story)
        story.clean_restart()
    seen, missed = compared(log)
    assert seen > 10 and not missed


@pytest.mark.parametrize("seed", range(20))
def test_behind_a_crash_it_says_nothing_that_no_record_says(seed: int) -> None:
    """But it lacks what an index knows to be settled, where a crash took the record of that."""
    story = Story(seed, HistoryLevel.FULL)
    log = Log(story.world)
    live_and_die(story, 5)
    story.world.log.commit_now()
    assert compared(log)[0] > 10


def test_each_file_that_tells_of_a_queue_begins_with_what_it_had() -> None:
    world = World([record_of("q", 9)], history=HistoryLevel.FULL)
    log = Log(world)
    for _ in range(60):
        world.publish(["q"], [b"x" * 100])
        world.log.commit_now()
    known = False
    files = 0
    for kind, _ in log.records():
        if kind == Kind.ROLL:
            known, files = False, files + 1
        elif kind == Kind.CLASSIC_CHECKPOINT:
            assert not known, "once"
            known = True
        elif kind in (Kind.CLASSIC_PUBLISH, Kind.CLASSIC_DONE, Kind.CLASSIC_SETTLE):
            assert known
    assert files > 2


def test_what_a_purge_drops_is_there_before_it() -> None:
    world = World([record_of("q", 9)], history=HistoryLevel.FULL)
    log = Log(world)
    world.publish(["q"], [b"a", b"b"])
    world.restart()
    log = Log(world)
    got = world.get("q")
    assert got is not None
    world.queues["q"].purge(world.now)
    world.tick()
    world.log.commit_now()
    assert compared(log) == (2, 0)


def test_other_levels_of_the_history_have_none() -> None:
    world = World([record_of("q", 9)])
    log = Log(world)
    world.publish(["q"], [b"a"])
    world.log.commit_now()
    assert Kind.CLASSIC_CHECKPOINT not in {kind for kind, _ in log.records()}


def test_messages_that_do_not_outlive_the_node_are_left_out() -> None:
    world = World([record_of("q", 9)], history=HistoryLevel.FULL, log_file_bytes_max=1 << 20)
    log = Log(world)
    world.publish(["q"], [b"a"], persistent=False)
    world.publish(["q"], [b"b"])
    world.log.commit_now()
    (made,) = [decode_checkpoint(payload) for kind, payload in log.records() if kind == Kind.CLASSIC_CHECKPOINT]
    assert made == Checkpoint(9, 0, 0, [1], [], [])


def test_of_too_many_ranges_it_says_how_many_messages_there_are() -> None:
    apart = [(2 * at, 2 * at + 1) for at in range(CHECKPOINT_RANGES_MAX + 1)]
    made = Checkpoint(9, len(apart) - 1, 1, [5_000, 1 << 56], apart[1:], apart[:1])
    read = decode_checkpoint(memoryview(encode_checkpoint(made)))
    assert read == made._replace(ready_ranges=[], out_ranges=[]) and not read.has_ranges
    fewer = made._replace(ready=1, ready_ranges=apart[1:2])
    assert decode_checkpoint(memoryview(encode_checkpoint(fewer))) == fewer and fewer.has_ranges


def test_one_with_other_ranges_than_it_says_is_refused() -> None:
    payload = encode_checkpoint(Checkpoint(9, 4, 1, [9], [(1, 3), (4, 6)], [(7, 8)]))
    for wrong in (payload[:-12], payload + payload[-12:]):
        with pytest.raises(ValueError, match="a checkpoint of 2 and 1 ranges has"):
            decode_checkpoint(memoryview(wrong))


def test_of_a_queue_with_too_many_ranges_how_many_outlive_the_node() -> None:
    world = World([record_of("q", 9)], history=HistoryLevel.FULL, log_file_bytes_max=1 << 20)
    log = Log(world)
    for at in range(2 * CHECKPOINT_RANGES_MAX + 10):
        world.publish(["q"], [b"x"], persistent=at % 2 == 0)
    for _ in range(3):
        world.get("q")
    world.queues["q"].named_in = 0
    world.publish(["q"], [b"x"])
    world.log.commit_now()
    made = [decode_checkpoint(payload) for kind, payload in log.records() if kind == Kind.CLASSIC_CHECKPOINT][-1]
    assert (made.ready, made.out, made.has_ranges) == (CHECKPOINT_RANGES_MAX + 5 - 2, 2, False)


def test_what_came_back_since_the_last_tick_is_out_until_its_record_says_so() -> None:
    world = World([record_of("q", 9)], history=HistoryLevel.FULL, log_file_bytes_max=1 << 20)
    log = Log(world)
    world.publish(["q"], [b"a", b"b"])
    got = world.get("q")
    world.tick()
    assert got is not None
    world.queues["q"].settle(got.piece, Outcome.REQUEUED, world.now)
    world.queues["q"].named_in = 0
    world.tick()
    world.log.commit_now()
    made = [decode_checkpoint(payload) for kind, payload in log.records() if kind == Kind.CLASSIC_CHECKPOINT]
    assert made == [Checkpoint(9, 0, 0, [0], [], []), Checkpoint(9, 1, 1, [2], [(1, 2)], [(0, 1)])]
    kinds = [kind for kind, _ in log.records() if kind >= Kind.CLASSIC_PUBLISH and kind != Kind.NAME]
    behind = [Kind.CLASSIC_PUBLISH, Kind.CLASSIC_OUT, Kind.CLASSIC_CHECKPOINT, Kind.CLASSIC_BACK]
    assert kinds == [Kind.CLASSIC_CHECKPOINT, *behind]


@pytest.mark.parametrize("limit", [EffectiveArguments(max_length=1), EffectiveArguments(message_ttl_ms=50)])
def test_what_left_while_it_was_ready_is_ready_until_its_record_says_so(limit: EffectiveArguments) -> None:
    """Whose fold begins there would have some consumer take it."""
    world = World([record_of("q", 9)], history=HistoryLevel.FULL, log_file_bytes_max=1 << 20, effective=limit)
    log = Log(world)
    world.publish(["q"], [b"a"])
    world.now += 60
    world.host.make_calls(world.now)
    world.publish(["q"], [b"b"])
    world.turn()
    world.queues["q"].named_in = 0
    world.publish(["q"], [b"c"])
    world.log.commit_now()
    made = [decode_checkpoint(payload) for kind, payload in log.records() if kind == Kind.CLASSIC_CHECKPOINT][-1]
    assert made.ready_ranges[0][0] == 0 and made.out_ranges == []

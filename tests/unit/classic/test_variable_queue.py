"""The variable queue against a plain list, with so little memory that everything pages all the time."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Sequence

import pytest

from classic.queue_figures import states
from classic.run_backing import ContentLost, ContentOutOfReach
from classic.stored_run import InBody, StoredRun
from classic.variable_queue import CONTENTS_IN_A_STEP, VariableQueue, in_one_step
from native.content import encode
from native.sequence_set import Range


class MemoryBacking:
    """A disk made of dictionaries. Whatever is in `damaged` cannot be read any more."""

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}
        self.index: dict[int, StoredRun] = {}
        self.damaged: set[int] = set()
        self.lost_ranges: list[Range] = []
        self.full = False
        self.index_in_reach = True

    def load(self, run: StoredRun) -> None:
        if run.first in self.damaged:
            raise ContentLost(f"run {run.first}")
        run.loaded(self.contents[run.first], run.first)

    def spill(self, run: StoredRun) -> bool:
        if self.full:
            return False
        assert run.content is not None
        self.contents[run.first] = run.content
        run.where = InBody(run.first, len(run.content))
        return True

    def page_out(self, runs: Sequence[StoredRun]) -> bool:
        if self.full or not all(run.where is not None or self.spill(run) for run in runs):
            return False
        for run in runs:
            run.indexed = True
            self.index[run.first] = run
        return True

    def page_in(self, start: int, end: int, count_max: int) -> tuple[list[StoredRun], int]:
        if not self.index_in_reach:
            raise ContentOutOfReach
        found = sorted(first for first in self.index if start <= first < end)[:count_max]
        runs = []
        for first in found:
            known = self.index[first]
            copy = StoredRun(
                first,
                known.count,
                known.exchange,
                known.routing_key,
                None,
                known.body_bytes,
                True,
                0,
                None,
                known.where,
            )
            copy.indexed = True
            runs.append(copy)
        return runs, runs[-1].end if len(runs) == count_max else end

    def lost(self, ranges: Sequence[Range]) -> None:
        self.lost_ranges += ranges


def new_run(queue: VariableQueue, count: int, on_disk: MemoryBacking | None) -> StoredRun:
    first = queue.next_sequence
    content = b"".join(encode(b"", b"%d" % sequence) for sequence in range(first, first + count))
    size = sum(len(b"%d" % sequence) for sequence in range(first, first + count))
    run = StoredRun(first, count, "x", "k", content, size, True, 0, None)
    if on_disk is not None:  # as what the log holds
        on_disk.contents[first] = content
        run.where = InBody(first, len(content))
    return run


def bodies(content: bytes, position: int, count: int) -> list[int]:
    from native.content import messages

    return [int(body) for _, body in messages(memoryview(content)[position:].tobytes(), 0, count)]


@pytest.mark.parametrize("seed", range(30))
def test_every_message_comes_once_and_in_order_however_little_memory_there_is(seed: int) -> None:
    chance = random.Random(seed)
    backing = MemoryBacking()
    runs_max, count_max, bytes_kept = chance.choice((1, 2, 3, 8)), chance.choice((1, 3, 10)), chance.choice((0, 40))
    queue = VariableQueue(backing, 0, 0, runs_max, count_max, bytes_kept)
    queue.target_ram_count = chance.choice((1, 2, 3))
    ready: list[int] = []
    out: dict[int, StoredRun] = {}
    for step in range(600):
        action = chance.random()
        if action < 0.4:
            run = new_run(queue, chance.choice((1, 1, 2, 5)), backing if chance.random() < 0.7 else None)
            queue.publish(run)
            ready.extend(range(run.first, run.end))
        elif action < 0.7 and ready:
            run, first, count, content, position = queue.take(chance.choice((1, 2, 100)), 1 << 20)
            taken = list(range(first, first + count))
            assert taken == ready[:count]
            assert bodies(content, position, count) == taken
            del ready[:count]
            out.update((sequence, run) for sequence in taken)
        elif action < 0.8 and out:
            first = chance.choice(sorted(out))
            run, count = out[first], 1
            while count < 3 and out.get(first + count) is run:
                count += 1
            for sequence in range(first, first + count):
                del out[sequence]
                insort(ready, sequence)
            queue.requeue(run, first, count)
        elif action < 0.9 and out:
            for sequence in chance.sample(sorted(out), min(3, len(out))):
                del out[sequence]  # settled: the variable queue has nothing to do with it
        elif action < 0.91:
            assert sum(end - first for first, end in queue.purge()) == len(ready)
            ready.clear()
        elif action < 0.95 and ready:
            _, first, count = queue.drop(chance.choice((1, 4)))
            assert list(range(first, first + count)) == ready[:count]
            del ready[:count]
        else:
            backing.full = chance.random() < 0.2
            queue.tick(step * 50, chance.choice((0.0, 0.0, 0.7)))
        queue.reduce(lambda: chance.random() < 0.5)
        assert len(queue) == len(ready)
        assert queue.ready_bytes >= 0
    while ready:
        _, first, count, _, _ = queue.take(100, 1 << 20)
        assert list(range(first, first + count)) == ready[:count]
        del ready[:count]
    assert queue.ready_bytes == 0
    assert not backing.lost_ranges


def filled(count: int, runs_max: int = 2) -> tuple[VariableQueue, MemoryBacking]:
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=runs_max)
    for _ in range(count):
        queue.publish(new_run(queue, 1, backing))
        queue.reduce()
    return queue, backing


def test_a_backlog_keeps_a_bounded_number_of_runs_in_memory() -> None:
    queue, _ = filled(1000)
    assert len(queue.runs()) <= 4
    assert queue.delta_count >= 996
    assert states(queue) == {"num_alphas": 0, "num_betas": 3, "num_gammas": 0, "num_deltas": 997} or (
        sum(states(queue).values()) == 1000
    )
    assert queue.ram_count <= queue.target_ram_count


@pytest.mark.parametrize(
    ("bytes_kept", "runs", "kept"),
    [(0, 3, 3), (0, 4, 3), (1_000, 24, 24), (1_000, 30, 24), (9, 9, 9), (9, 12, 9)],
    ids=["few", "nothing more is kept", "few bytes", "too many messages", "as many bytes as may be", "too many bytes"],
)
def test_small_contents_that_are_on_no_disk_stay_in_memory(bytes_kept: int, runs: int, kept: int) -> None:
    """Transient messages between a fast publisher and its consumer were written and read again."""
    queue = VariableQueue(MemoryBacking(), 0, 0, runs_max=100, ram_count_max=3, ram_bytes_kept=bytes_kept)
    for _ in range(runs):
        run = new_run(queue, 1, None)
        run.body_bytes = 1
        queue.publish(run)
    queue.reduce()
    assert queue.ram_count == kept


def test_under_memory_pressure_small_contents_leave_it_too() -> None:
    queue = VariableQueue(MemoryBacking(), 0, 0, runs_max=100, ram_count_max=3, ram_bytes_kept=1_000)
    for _ in range(10):
        queue.publish(new_run(queue, 1, None))
    queue.tick(0, 0.5)
    queue.reduce()
    assert queue.ram_count == 1


def test_what_memory_pressure_has_written_is_written_a_little_in_each_turn() -> None:
    """Fifty queues with 16,000 small messages each wrote all of them in one turn of the event loop: 18 seconds."""
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=100, ram_count_max=1_000, ram_bytes_kept=1 << 20)
    for _ in range(1_000):
        queue.publish(new_run(queue, 1, None))
        assert not queue.reduce()
    queue.tick(0, 1.0)
    turns, most, written = 0, 0, 0
    while queue.reduce(in_one_step()):
        turns, most = turns + 1, max(most, len(backing.contents) - written)
        written = len(backing.contents)
    assert turns > 30 and most <= CONTENTS_IN_A_STEP
    assert (queue.ram_count, len(queue.runs()) <= 65) == (1, True)
    assert [queue.take(1, 1 << 20)[1] for _ in range(1_000)] == list(range(1_000))


def test_what_came_and_went_within_its_turn_is_not_owed_to_a_later_look_at_memory() -> None:
    """Fifty messages that consumers had given back were written in a turn that had no more room."""
    queue = VariableQueue(MemoryBacking(), 0, 0, ram_count_max=1)
    out = []
    for _ in range(50):
        queue.publish(new_run(queue, 1, None))
        out.append(queue.take(1, 1 << 20)[0])
    for run in out:
        queue.requeue(run, run.first, 1)
    assert queue.reduce(lambda: False), "they wait for another turn"
    assert queue.ram_count == 50


def test_contents_that_stay_take_no_turn_from_positions_that_go() -> None:
    """Background work never ended: each step was for contents that may stay in memory (seed 7 of the brokers, no_storm)."""
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=4, ram_count_max=1_000, ram_bytes_kept=1 << 20)
    for _ in range(7):
        queue.publish(new_run(queue, 1, backing))
    assert queue.reduce(lambda: False), "positions wait"
    for _ in range(10):
        queue.publish(new_run(queue, 1, None))
    assert queue.reduce(lambda: False)
    steps = 0
    while queue.reduce(in_one_step()):
        steps += 1
        assert steps < 10
    assert queue.ram_count == 11  # one of those on disk, too


def test_memory_shrinks_under_pressure_however_fast_messages_come_and_though_no_turn_has_room() -> None:
    queue = VariableQueue(MemoryBacking(), 0, 0, runs_max=100, ram_count_max=1_000, ram_bytes_kept=1 << 20)
    for _ in range(1_000):
        queue.publish(new_run(queue, 1, None))
    queue.reduce()
    queue.tick(0, 1.0)
    for _ in range(1_000):
        queue.publish(new_run(queue, 1, None))
        queue.reduce(lambda: False)
    assert queue.ram_count < 100
    assert len(queue.runs()) < 300
    assert [queue.take(1, 1 << 20)[1] for _ in range(2_000)] == list(range(2_000))


def test_positions_are_written_when_a_turn_has_room_or_twice_as_many_wait() -> None:
    queue, backing = filled(3, runs_max=4)
    for _ in range(5):
        queue.publish(new_run(queue, 1, backing))
        waits = queue.reduce(lambda: False)
        assert waits is (len(queue.runs()) > 5)
    assert (len(queue.runs()), queue.delta_count, backing.index) == (8, 0, {})
    assert not queue.reduce(lambda: True)
    assert queue.delta_count > 0
    for _ in range(50):
        queue.publish(new_run(queue, 1, backing))
        queue.reduce(lambda: False)
        assert len(queue.runs()) <= 10


def test_a_run_goes_to_q4_first_and_to_q1_when_something_waits_on_disk() -> None:
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0)
    queue.publish(new_run(queue, 2, backing))
    assert (queue.q4.count, queue.q1.count) == (2, 0)
    queue.reduce()
    assert (queue.q4.count, queue.q3.count) == (0, 2)
    queue.publish(new_run(queue, 1, backing))
    assert (queue.q1.count, queue.q3.count) == (1, 2)
    queue.take(10, 1 << 20)
    assert (queue.q1.count, queue.q3.count, queue.q4.count) == (0, 0, 1)


def test_what_the_disk_has_no_room_for_stays_in_memory() -> None:
    queue, backing = filled(2)
    backing.full = True
    for _ in range(50):
        queue.publish(new_run(queue, 1, None))
        queue.reduce()
    assert len(queue) == 52
    assert [queue.take(1, 1 << 20)[1] for _ in range(52)] == list(range(52))


def test_a_content_that_cannot_be_read_is_dropped_and_the_rest_goes_on() -> None:
    queue, backing = filled(10)
    queue.drop(1)
    backing.damaged.add(1)
    with pytest.raises(ContentLost):
        queue.take(1, 1 << 20)
    assert queue.take(1, 1 << 20)[1] == 2
    assert len(queue) == 7


def test_messages_that_the_index_has_lost_are_reported_and_not_waited_for() -> None:
    queue, backing = filled(10)
    gone = sorted(backing.index)[2]
    del backing.index[gone]
    got = []
    while len(queue):
        got.append(queue.take(1, 1 << 20)[1])
    assert got == [sequence for sequence in range(10) if sequence != gone]
    assert backing.lost_ranges == [(gone, gone + 1)]
    assert queue.ready_bytes == 0


def delta_out_of_reach() -> tuple[VariableQueue, MemoryBacking, list[int]]:
    """All that was in memory has left the queue, and no file descriptor is left for the rest."""
    queue, backing = filled(10)
    backing.index_in_reach = False
    taken = []
    while queue.head() is not None:
        taken.append(queue.take(1, 1 << 20)[1])
    assert queue.delta_count == len(queue) == 10 - len(taken) > 0
    return queue, backing, taken


def test_what_is_published_while_delta_is_out_of_reach_stays_behind_it() -> None:
    queue, backing, taken = delta_out_of_reach()
    for _ in range(3):
        queue.publish(new_run(queue, 1, backing))
        queue.reduce()
    assert queue.head() is None
    with pytest.raises(ContentOutOfReach):
        queue.take(1, 1 << 20)
    backing.index_in_reach = True
    while len(queue):
        taken.append(queue.take(1, 1 << 20)[1])
    assert taken == list(range(13))


def test_a_delta_that_was_out_of_reach_is_read_by_whoever_asks_next() -> None:
    """Nothing else moves meanwhile: nobody publishes, and nothing comes back."""
    queue, backing, taken = delta_out_of_reach()
    for _ in range(2):
        with pytest.raises(ContentOutOfReach):
            queue.reach()
    backing.index_in_reach = True
    run = queue.reach()
    assert run is not None and run.first == len(taken)


def test_bytes_that_were_estimated_for_what_was_lost_go_with_the_last_message() -> None:
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=2)
    for length in (1, 1, 1, 1, 500, 1, 1, 1, 1, 1):
        run = new_run(queue, 1, backing)
        run.body_bytes = length
        queue.publish(run)
        queue.reduce()
    del backing.index[4]  # the large one
    while len(queue):
        queue.drop(1)
    assert backing.lost_ranges == [(4, 5)]
    assert queue.ready_bytes == 0


def test_the_target_follows_the_rate_at_which_messages_leave() -> None:
    queue, _ = filled(0)
    queue.tick(200, 0.0)
    assert queue.target_ram_count == 1
    for second in range(1, 30):
        queue.rates.egress.count += 100
        queue.tick(200 + second * 1000, 0.0)
    assert 150 < queue.target_ram_count < 202
    queue.tick(40_000, 1.0)
    assert queue.target_ram_count == 1


def test_insertion_finds_the_exact_old_place() -> None:
    queue, _ = filled(0)
    order: list[int] = []
    for _ in range(20):
        queue.publish(new_run(queue, 1, None))
    taken = [queue.take(1, 1 << 20) for _ in range(20)]
    random.Random(5).shuffle(taken)
    for run, first, count, _, _ in taken:
        queue.requeue(run, first, count)
        order.insert(bisect_left(order, first), first)
    assert [queue.take(1, 1 << 20)[1] for _ in range(20)] == order == list(range(20))


def test_what_comes_back_into_delta_on_a_full_disk_waits_in_memory() -> None:
    """There is no room for its index entry, so it cannot be in delta, and nothing may be ready beside it there."""
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=2)
    taken = []
    for _ in range(12):
        queue.publish(new_run(queue, 1, backing))
        taken.append(queue.take(1, 1 << 20))
    for _ in range(4):
        queue.publish(new_run(queue, 1, backing))
        queue.reduce()
    # The only one in q4 is taken: what comes back now goes to q3, and from its tail to delta.
    taken.append(queue.take(1, 1 << 20))
    for sequence in range(4):
        queue.requeue(*taken[sequence][:3])
        queue.reduce()
    assert queue.delta_count and queue.delta_start < 4 and queue.delta_end == 16 and not taken[4][0].indexed
    backing.full = True
    for sequence in (7, 10, 9, 4, 12, 6, 8, 11, 5):
        queue.requeue(*taken[sequence][:3])
        queue.reduce()
    assert [queue.take(1, 1 << 20)[1] for _ in range(16)] == list(range(16))
    assert not backing.lost_ranges

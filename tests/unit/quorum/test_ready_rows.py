"""Ready rows against a list, and what a backlog costs."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest

from quorum.fifo.ready_rows import BLOCK_ROWS, ROW_BYTES, ReadyRows
from quorum.fifo.stored import NEVER, StoredMessages
from tests.unit.quorum.queue_world import QueueWorld, restored

BACKLOG = 200_000


def test_rows_come_out_as_they_went_in_over_many_blocks() -> None:
    ready_rows = ReadyRows(7)
    rows = 3 * BLOCK_ROWS + 5
    for entry in range(1, rows + 1):
        ready_rows.add(entry, entry * 3, 2, 10, NEVER)
    assert ready_rows.row_count == rows
    first = ready_rows.take(1)
    assert first == StoredMessages(1, 3, 0, 1, 2, 10, NEVER, 7, 0, 0)
    assert ready_rows.take(9) == StoredMessages(1, 3, 1, 1, 2, 10, NEVER, 7, 0, 0)
    for entry in range(2, rows + 1):
        assert ready_rows.take(9) == StoredMessages(entry, entry * 3, 0, 2, 2, 10, NEVER, 7, 0, 0)
    assert not ready_rows
    ready_rows.add(1, 0, 1, 1, NEVER)
    assert [stored.entry for stored in ready_rows] == [1]


@pytest.mark.parametrize("seed", [1, 2])
def test_anything_done_to_ready_rows_leaves_what_is_left_in_order(seed: int) -> None:
    random = Random(seed)
    ready_rows, model = ReadyRows(0), list[StoredMessages]()
    now, entry = 0, 0
    encoded = ready_rows.encode()
    then = b""
    for step in range(300):
        if step % 7 == 0:  # that long it takes to write the snapshot that refers to the blocks
            assert b"".join(encoded) == then, "a snapshot changed while it was written"
            encoded = ready_rows.encode()
            then = b"".join(encoded)
        choice = random.random()
        if choice < 0.5:
            for _ in range(random.choice((1, 3, BLOCK_ROWS))):
                entry += 1
                length, expires_at = random.randint(1, 3), random.choice((NEVER, now + random.randint(1, 400)))
                ready_rows.add(entry, 9, length, 10, expires_at)
                model.append(StoredMessages(entry, 9, 0, length, length, 10, expires_at, 0, 0, 0))
        elif choice < 0.9:
            for _ in range(random.choice((1, 3, BLOCK_ROWS))):
                if not model:
                    break
                limit = random.randint(1, 3)
                taken = ready_rows.take(limit)
                assert taken == (model[0] if model[0].length <= limit else model[0].part(0, limit))
                if taken.length == model[0].length:
                    del model[0]
                else:
                    model[0] = model[0].part(limit, model[0].length - limit)
        elif choice < 0.93 and model:
            at = random.randrange(len(model))
            stored = model[at]
            message = stored.first + random.randrange(stored.length)
            before, behind = message - stored.first, stored.first + stored.length - message - 1
            assert ready_rows.withdraw(stored.entry, 9, message) == stored.part(before, 1)
            assert ready_rows.withdraw(stored.entry, 9, message) is None
            left = ((0, before), (before + 1, behind))
            model[at : at + 1] = [stored.part(start, length) for start, length in left if length]
        elif choice < 0.97:
            now += random.randint(0, 30)
            limit = random.choice((1, 3, BLOCK_ROWS, 1 << 30))
            due = [stored for stored in model if stored.expires_at <= now][:limit]
            assert ready_rows.expire(now, limit) == due
            gone = set(due)
            model = [stored for stored in model if stored not in gone]
            assert ready_rows.soonest() <= min((stored.expires_at for stored in model), default=NEVER)
        else:
            again = ReadyRows(0)
            again.decode(memoryview(b"".join(ready_rows.encode())))
            ready_rows = again
            assert ready_rows.soonest() == min((stored.expires_at for stored in model), default=NEVER)
        assert bool(ready_rows) == bool(model)
        if random.random() < 0.05:
            assert list(ready_rows) == model
    assert list(ready_rows) == model
    assert ready_rows.row_count == len(model)


def test_what_is_due_at_any_time_expires_in_its_millisecond_in_the_order_of_the_log() -> None:
    """Some rows a millisecond, in blocks of which none is looked at in vain and none is forgotten."""
    random = Random(3)
    ready_rows, due_at = ReadyRows(0), dict[int, list[int]]()
    entry = 0
    for now in range(500):
        for _ in range(40):
            entry += 1
            expires_at = now + random.randint(1, 200)
            ready_rows.add(entry, 9, 1, 10, expires_at)
            due_at.setdefault(expires_at, []).append(entry)
        assert [stored.entry for stored in ready_rows.expire(now, 1 << 30)] == due_at.pop(now, [])
        assert ready_rows.soonest() == min(due_at)
    assert ready_rows.row_count == sum(map(len, due_at.values()))


def test_no_full_block_is_sorted_when_its_first_row_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows that wait expire in most of their 4,000 blocks within the first third of a second in which any do."""
    random, ready_rows = Random(5), ReadyRows(0)
    for entry in range(3 * BLOCK_ROWS):
        ready_rows.add(entry, 0, 1, 10, 1_000 + random.randrange(10_000))
    ready_rows.add(3 * BLOCK_ROWS, 0, 1, 10, NEVER)
    due = [stored for stored in ready_rows if stored.expires_at <= 2_000]
    assert len({stored.entry // BLOCK_ROWS for stored in due}) == 3

    def sorts(times: object) -> bytes:
        raise AssertionError("the order of a full block was not known")

    monkeypatch.setattr("quorum.fifo.ready_rows.order_of", sorts)
    assert ready_rows.expire(2_000, 1 << 30) == due


@pytest.mark.parametrize("seed", range(4))
def test_members_that_look_at_any_times_expire_the_same_rows_whatever_is_taken_in_between(seed: int) -> None:
    """And so does one that begins with a snapshot: what expires is in the log of none of them."""
    random = Random(seed)
    ready_rows, model = ReadyRows(0), list[tuple[int, int]]()  # entry, and when it expires
    now = entry = 0
    for _ in range(250):
        now += random.choice((0, 1, 2, 19, 20, 21))
        for _ in range(random.choice((0, 5, BLOCK_ROWS))):
            entry += 1
            expires_at = now + random.choice((1, 19, 20, 21, 22, 40, random.randint(1, 100)))
            ready_rows.add(entry, 9, 1, 10, expires_at)
            model.append((entry, expires_at))
        if random.random() < 0.3:
            for _ in range(min(len(model), random.choice((1, BLOCK_ROWS, 2 * BLOCK_ROWS)))):
                assert ready_rows.take(1).entry == model.pop(0)[0]
        if model and random.random() < 0.3:
            gone = model.pop(random.randrange(len(model)))[0]
            withdrawn = ready_rows.withdraw(gone, 9, 0)
            assert withdrawn is not None and withdrawn.entry == gone
        due = [one for one, expires_at in model if expires_at <= now]
        if random.random() < 0.1:
            again = ReadyRows(0)
            again.decode(memoryview(b"".join(ready_rows.encode())))
            assert [stored.entry for stored in again.expire(now, 1 << 30)] == due
        assert [stored.entry for stored in ready_rows.expire(now, 1 << 30)] == due
        model = [(one, expires_at) for one, expires_at in model if expires_at > now]
        assert ready_rows.soonest() <= min((expires_at for _, expires_at in model), default=NEVER)


def test_a_message_that_is_not_there_is_not_taken_out() -> None:
    ready_rows = ReadyRows(0)
    assert ready_rows.withdraw(5, 9, 0) is None
    for entry in range(5, 5 + 3 * BLOCK_ROWS):
        ready_rows.add(entry, 9, 2, 10, NEVER)
    ready_rows.take(1)
    for entry, offset, message in ((4, 9, 0), (5, 9, 0), (6, 8, 0), (6, 9, 2), (6, 10, 0), (5 + 3 * BLOCK_ROWS, 9, 0)):
        assert ready_rows.withdraw(entry, offset, message) is None
    assert ready_rows.row_count == 3 * BLOCK_ROWS


def test_a_snapshot_copies_none_of_the_blocks_between_the_first_and_the_last() -> None:
    ready_rows = ReadyRows(0)
    for entry in range(100 * BLOCK_ROWS):
        ready_rows.add(entry, 0, 1, 1, NEVER)
    ready_rows.take(1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        encoded = ready_rows.encode()
        assert tracemalloc.get_traced_memory()[0] - before < 10 * BLOCK_ROWS * ROW_BYTES  # a tenth of them
    finally:
        tracemalloc.stop()
    assert sum(map(len, encoded)) == (100 * BLOCK_ROWS - 1) * ROW_BYTES


def test_a_backlog_costs_at_most_64_bytes_for_each_entry_and_keeps_no_objects() -> None:
    world = QueueWorld()
    world.publish()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for index in range(10, 10 + BACKLOG):
            world.machine.state.ready.add(index, 9, 1, 100, NEVER, 4)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 64 * BACKLOG

        objects = len(gc.get_objects())
        live = world.machine.live_entries()
        state = world.machine.snapshot()
        gc.collect()
        assert len(gc.get_objects()) - objects < 2 * BACKLOG / BLOCK_ROWS + 100
        assert live.count == BACKLOG + 1
        assert sum(map(len, state)) < (ROW_BYTES + 1) * BACKLOG
    finally:
        tracemalloc.stop()


def test_a_backlog_comes_back_from_a_snapshot() -> None:
    world = QueueWorld()
    world.publish(3)
    for index in range(10, 10 + 5 * BLOCK_ROWS):
        world.machine.state.ready.add(index, 9, 1, 100, index, index % 3)
    again = restored(world.machine)
    assert again.state_digest() == world.machine.state_digest()
    assert list(again.live_entries()) == [1, *range(10, 10 + 5 * BLOCK_ROWS)]
    assert (again.figures().ready, again.figures().ready_bytes) == (3 + 5 * BLOCK_ROWS, 30 + 500 * BLOCK_ROWS)
    assert again.deadline == 10

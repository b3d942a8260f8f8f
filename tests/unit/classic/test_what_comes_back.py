"""Messages that clients held come back to their old place, many at once and long after others were published."""

from __future__ import annotations

import random
from bisect import insort

import pytest

from classic.stored_run import StoredRun
from classic.variable_queue import VariableQueue
from tests.unit.classic.test_variable_queue import MemoryBacking, bodies, new_run


@pytest.mark.parametrize("transient", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_order_holds_when_a_client_gives_back_much_at_once(seed: int, transient: bool) -> None:
    """Long phases of taking and of giving back, in any order, and memory is seen to only now and then."""
    chance = random.Random(seed)
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=chance.choice((1, 2, 3, 8)), ram_count_max=chance.choice((1, 3, 10)))
    ready: list[int] = []
    out: dict[int, StoredRun] = {}
    for _ in range(60):
        phase = chance.choice(("publish", "take", "requeue", "publish and take", "settle"))
        which = chance.choice((min, min, max, lambda of: chance.choice(sorted(of))))
        for _ in range(chance.randrange(1, 30)):
            if phase.startswith("publish"):
                run = new_run(queue, chance.choice((1, 1, 3)), None if transient else backing)
                queue.publish(run)
                ready.extend(range(run.first, run.end))
            if phase.endswith("take") and ready:
                run, first, count, content, position = queue.take(chance.choice((1, 2, 100)), 1 << 20)
                assert list(range(first, first + count)) == ready[:count] == bodies(content, position, count)
                del ready[:count]
                out.update((sequence, run) for sequence in range(first, first + count))
            if phase == "requeue" and out:
                sequence = which(out)
                queue.requeue(out.pop(sequence), sequence, 1)
                insort(ready, sequence)
            if phase == "settle" and out:
                del out[chance.choice(sorted(out))]
            if chance.random() < 0.2:
                queue.reduce()
        queue.reduce()
    while ready:
        _, first, count, _, _ = queue.take(100, 1 << 20)
        assert list(range(first, first + count)) == ready[:count]
        del ready[:count]
    assert not backing.lost_ranges


def test_what_comes_back_behind_delta_does_not_overtake_it() -> None:
    """Only the first ones came back and were paged out; then later ones come, and nothing was ready behind delta."""
    queue = VariableQueue(MemoryBacking(), 0, 0, runs_max=3, ram_count_max=3)
    taken = []
    for _ in range(16):
        queue.publish(new_run(queue, 1, None))
        taken.append(queue.take(1, 1 << 20))
    for run, first, count, _, _ in taken[:10]:
        queue.requeue(run, first, count)
    queue.reduce()
    assert queue.delta_count and queue.delta_end == 10
    for run, first, count, _, _ in (taken[13], taken[12]):
        queue.requeue(run, first, count)
    assert [queue.take(1, 1 << 20)[1] for _ in range(12)] == [*range(10), 12, 13]


def test_a_client_that_gives_back_a_backlog_does_not_leave_it_in_memory() -> None:
    """Its contents are on disk, and all its positions stood in q4 for as long as nobody took them."""
    backing = MemoryBacking()
    queue = VariableQueue(backing, 0, 0, runs_max=8, ram_count_max=8)
    taken = []
    for _ in range(500):
        queue.publish(new_run(queue, 1, backing))
        taken.append(queue.take(1, 1 << 20))
    for run, first, count, _, _ in taken:
        queue.requeue(run, first, count)
    queue.reduce()
    assert len(queue.runs()) <= 16, f"{len(queue.runs())} of 500 runs are in memory"
    assert [queue.take(1, 1 << 20)[1] for _ in range(500)] == list(range(500))

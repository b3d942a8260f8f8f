"""What is held, against a dictionary."""

from __future__ import annotations

from random import Random

import pytest

from quorum.fifo.checked_out import CheckedOut
from quorum.fifo.stored import NEVER, StoredMessages


def run(entry: int, length: int) -> StoredMessages:
    return StoredMessages(entry, 9, 0, length, length, 10 * length, NEVER, 4, 0, 0)


def each(parts: list[StoredMessages]) -> list[tuple[int, int]]:
    """Entry and place in the run of each message."""
    return [(part.entry, part.first + at) for part in parts for at in range(part.length)]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_settled_in_whatever_order_the_rest_is_held(seed: int) -> None:
    random = Random(seed)
    checked_out, model, since = CheckedOut(), dict[int, tuple[int, int]](), dict[int, int]()
    next_id, now = 1, 0
    for entry in range(1, 600):
        now += random.randint(0, 2)
        length = random.choice((1, 1, 1, 5, 40))
        checked_out.add(next_id, run(entry, length), now)
        for at in range(length):
            model[next_id + at], since[next_id + at] = (entry, at), now
        next_id += length
        if random.random() < 0.8:
            first, count = random.randint(1, next_id), random.choice((1, 1, 3, 60))
            if random.random() < 0.6 and model:
                first = min(model)
            ids = [one for one in sorted(model) if first <= one < first + count]
            assert each(checked_out.take(first, count)) == [model.pop(one) for one in ids]
        if random.random() < 0.02:
            until = now - 10
            ids = [one for one in sorted(model) if since[one] <= until]
            assert each([held.stored for held in checked_out.take_until(until)]) == [model.pop(one) for one in ids]
        start = random.randint(0, next_id)
        shown = [held.first_id + at for held in checked_out.from_id(start) for at in range(held.stored.length)]
        assert shown == [one for one in sorted(model) if one >= start]
        assert (checked_out.count, checked_out.size) == (len(model), 10 * len(model))
        assert checked_out.since == (since[min(model)] if model else None)
    assert each(checked_out.take_all()) == [model[one] for one in sorted(model)]
    assert (checked_out.count, checked_out.size, list(checked_out)) == (0, 0, [])


def test_sizes_of_parts_add_up_to_the_run() -> None:
    stored = StoredMessages(1, 9, 0, 7, 7, 100, NEVER, 4, 0, 0)
    assert sum(stored.part(at, 1).size for at in range(7)) == 100
    assert stored.part(2, 3).size == stored.part(2, 2).size + stored.part(4, 1).size
    with pytest.raises(AssertionError, match="3 from 5 of 7"):
        stored.part(5, 3)

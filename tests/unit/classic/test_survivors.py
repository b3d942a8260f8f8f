"""Which sequences a queue goes on with after a crash: none is given twice."""

from __future__ import annotations

import pytest

from classic.recovery.logged_queues import LoggedQueue
from classic.recovery.survivors import Survivors
from classic.store.queue_index import Segment
from tests.unit.classic.classic_world import World, record_of


@pytest.mark.parametrize("told_by", ["the log", "a segment that cannot be read"])
def test_new_messages_are_numbered_behind_all_that_were_ever_given(told_by: str) -> None:
    """What was published may be out of the log by then, and that it was settled is not: it was taken for what became of the
    new message with its number, at the next crash."""
    world = World([record_of("a", 1)])
    queue, logged = world.queues["a"], LoggedQueue()
    survivors = Survivors(world.kind._storage, queue, logged)
    if told_by == "the log":
        logged.settled.add(0, 5)
    else:
        index = queue.backing.index
        world.disk.make_dir(index.directory)
        world.disk.create(index._index_name(0))
        survivors.read_segment(Segment(0, first=0, end=5, index_size=100))
    survivors.mark_ready()
    assert (queue.ready_count, queue.next_sequences) == (0, [5])

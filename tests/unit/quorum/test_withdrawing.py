"""One message that waits is taken out of a queue, once, however often that is said."""

from __future__ import annotations

import pytest

from quorum.fifo.commands import ENTRY_HEAD, Consume, SessionGone, Upgrade, Withdraw
from quorum.fifo.results import Purged, Result, ResultCode
from quorum.fifo.stored import StoredMessages
from quorum.fifo.versions import VERSION_NEWEST, WITHDRAWS
from tests.unit.quorum.queue_world import SESSION, QueueWorld, consumer, restored


@pytest.fixture
def world() -> QueueWorld:
    world = QueueWorld()
    world.say(Upgrade(VERSION_NEWEST))
    return world


def withdraw(world: QueueWorld, number: int, message: int = 0, *, entry: int = 2, answered: int = 0) -> Result:
    (result,) = world.say(Withdraw(consumer(number), answered, entry, ENTRY_HEAD.size, message))
    return result


def waiting(world: QueueWorld) -> list[tuple[int, int, int]]:
    return [(stored.entry, stored.first, stored.length) for stored in world.machine.state.ready]


def test_one_of_a_run_goes_and_the_others_stay_in_their_order(world: QueueWorld) -> None:
    world.publish(5)
    world.publish()
    assert withdraw(world, 1, 2) == Purged(1)
    assert waiting(world) == [(2, 0, 2), (2, 3, 2), (3, 0, 1)]
    assert (world.machine.figures().ready, world.machine.figures().ready_bytes) == (5, 50)
    assert list(world.machine.live_entries()) == [2, 3]


def test_what_a_queue_s_limits_count_goes_with_it_until_there_is_none_left(world: QueueWorld) -> None:
    for priority in (4, 9):
        world.publish(priority=priority)
    for left, entry in ((10, 3), (0, 2)):
        assert withdraw(world, 4 - entry, entry=entry) == Purged(1)
        assert world.machine.figures().ready_bytes == left
    world.say(Consume(consumer(9), "tag"))
    assert world.machine.figures().unacknowledged == 0
    world.publish()
    assert world.machine.figures().unacknowledged == 1


def test_said_again_it_takes_no_other_and_tells_the_same_also_after_a_snapshot(world: QueueWorld) -> None:
    world.publish(2)
    assert withdraw(world, 1) == Purged(1)
    world.machine = restored(world.machine)
    assert withdraw(world, 1) == Purged(1)
    assert withdraw(world, 2) == Purged(0), "another one asks for what is gone"
    assert waiting(world) == [(2, 1, 1)]
    assert withdraw(world, 1, answered=2) is None, "its session has the answer"


def test_what_was_handed_out_is_not_taken_away(world: QueueWorld) -> None:
    world.publish()
    world.say(Consume(consumer(1), "tag"))
    assert withdraw(world, 2) == Purged(0)
    assert world.machine.figures().unacknowledged == 1


def test_a_group_of_an_earlier_version_does_nothing_and_says_so() -> None:
    world = QueueWorld()
    world.say(Upgrade(WITHDRAWS - 1))
    world.publish()
    assert withdraw(world, 1) is ResultCode.UNKNOWN
    assert waiting(world) == [(2, 0, 1)]


def test_a_node_that_is_taken_for_gone_takes_nothing(world: QueueWorld) -> None:
    world.publish()
    world.say(SessionGone(SESSION))
    assert withdraw(world, 1) is ResultCode.GONE
    assert [type(one) for one in world.machine.state.ready] == [StoredMessages]

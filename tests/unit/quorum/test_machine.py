"""What holds for the machine as a whole; each row of behaviour has its scenario in tests/scenarios/quorum."""

from __future__ import annotations

from broker.queue_type import Outcome
from quorum.commands import Answer, Gap, Got, Piece, SessionKey
from quorum.effects import Deliver
from tests.unit.quorum.queue_world import SESSION, QueueWorld, consumer


def test_a_run_goes_out_whole_and_is_settled_by_ranges() -> None:
    world = QueueWorld()
    world.consume(prefetch=200)
    assert world.publish(100) is Answer.ACCEPTED
    assert world.take() == [Deliver(consumer(), 1, Piece(2, 9, 0, 100), 0, 0)]
    world.settle(11, 80)
    assert list(world.held()) == [*range(1, 11), *range(91, 101)]
    world.settle(1, 100)
    assert world.held() == {}
    assert list(world.machine.live_entries()) == []


def test_an_enqueuer_says_everything_once() -> None:
    world = QueueWorld()
    assert [world.publish(2), world.publish(3)] == [Answer.ACCEPTED, Answer.ACCEPTED]
    assert world.publish(2, sequence=1) is Answer.DUPLICATE
    assert world.publish(3, sequence=3) is Answer.DUPLICATE
    assert world.publish(1, sequence=9) == Gap(6)
    assert world.publish(5, sequence=4) == Gap(6)
    assert world.publish(1, session=SessionKey(2, 1)) is Answer.ACCEPTED
    assert world.ready() == [0, 1, 2, 3, 4, 16]
    assert world.machine.sessions() == [SESSION, SessionKey(2, 1)]


def test_a_get_that_is_said_again_takes_nothing_more() -> None:
    world = QueueWorld()
    world.publish(3)
    first = world.get(1)
    assert first == Got(1, Piece(1, 9, 0, 1), 0, 0, 2)
    assert world.get(1) == first
    world.settle(1, by=1)
    assert world.get(1) is None
    assert world.get(2, no_ack=True) == Got(1, Piece(1, 9, 1, 1), 0, 0, 1)
    assert world.get(2, no_ack=True) is None
    assert world.ready() == [2]


def test_a_consumer_overtaken_by_a_later_one_is_begun_all_the_same_but_only_once() -> None:
    world = QueueWorld()
    world.consume(3)
    world.consume(1)
    world.cancel(1)
    world.consume(1)
    assert [one.tag for one in world.machine.consumer_figures()] == ["c3"]


def test_messages_that_came_back_are_delivered_before_the_others() -> None:
    world = QueueWorld()
    world.consume(prefetch=2)
    world.publish(4)
    assert world.delivered() == [0, 1]
    world.settle(2, outcome=Outcome.REQUEUED)
    assert world.delivered() == [1]
    assert world.held() == {1: 0, 3: 1}

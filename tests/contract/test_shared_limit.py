"""A limit that the consumers of a channel share (broker/queues/shared_limit.py), over queues of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.queues.consumer import Consumer
from broker.queues.held_back import KEPT_WAITING_MS
from broker.queues.queue_type import Outcome, Queue
from broker.queues.shared_limit import RESERVED_MS, SharedLimit
from tests.contract.kinds import KINDS, Kind
from tests.contract.world import Taker, World

LONG_MS = 3 * (KEPT_WAITING_MS + RESERVED_MS)  # what a slow client takes for a message


@pytest.fixture(params=[kind for kind in KINDS if kind.keeps is None], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kind: Kind = request.param
    world = World()
    world.opened = kind.open(world, tmp_path)
    yield world
    world.opened.close()


class Channel:
    """Consumers, each of a queue of its own, with a limit of their own together."""

    def __init__(self, world: World, limit: int) -> None:
        self.world = world
        self.shared = SharedLimit()
        self.shared.limit = limit
        self.consumers: list[tuple[Consumer, Taker]] = []

    def consume(self, queue: Queue, prefetch: int = 0) -> Taker:
        tag = f"c{len(self.consumers)}"
        self.consumers.append(self.world.consumer(queue, tag, prefetch=prefetch, shared=self.shared))
        self.world.turn()
        return self.consumers[-1][1]

    def set_limit(self, limit: int) -> None:
        """As broker/session/session.py does it."""
        self.shared.limit = limit
        for queue in self.shared.take_waiting():
            self.world.wake(queue)
        for consumer, _ in self.consumers:
            self.world.wake(consumer.queue)
        self.world.turn()

    @property
    def held(self) -> int:
        return sum(piece.count for _, taker in self.consumers for piece in taker.held)

    def acknowledge(self) -> None:
        """All that is held."""
        for consumer, taker in self.consumers:
            self.world.settle_all(consumer, taker)
        self.world.turn()

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, taker in self.consumers for body in taker.bodies]


def two_queues(world: World, count: int) -> list[Queue]:
    queues = []
    for name in ("a", "b"):
        queue = world.queue()
        world.publish(queue, *[b"%s%d" % (name.encode(), number) for number in range(count)])
        queues.append(queue)
    world.turn()
    return queues


def test_all_consumers_together_never_hold_more_than_the_limit_and_get_everything(world: World) -> None:
    channel = Channel(world, 3)
    takers = [channel.consume(queue) for queue in two_queues(world, 5)]
    rounds = 0
    while channel.held:
        assert channel.held <= 3
        channel.acknowledge()
        rounds += 1
    assert [taker.bodies for taker in takers] == [[b"%s%d" % (name, n) for n in range(5)] for name in (b"a", b"b")]
    assert rounds == 4, "ten messages, three at a time"


def test_queues_are_served_in_turn_when_there_is_room_for_one(world: World) -> None:
    channel = Channel(world, 1)
    takers = [channel.consume(queue) for queue in two_queues(world, 6)]
    for served in range(1, 9):
        assert channel.held == 1
        counts = [len(taker.bodies) for taker in takers]
        assert sum(counts) == served
        assert abs(counts[0] - counts[1]) <= 2, f"{counts}: the first one waits before the second has come"
        channel.acknowledge()


def test_a_client_that_takes_long_for_each_message_is_given_those_of_all_queues(world: World) -> None:
    """What waited for it too long has gone back meanwhile, and is asked for again."""
    channel = Channel(world, 1)
    takers = [channel.consume(queue) for queue in two_queues(world, 6)]
    for _ in range(8):
        assert channel.held == 1
        world.pass_time(LONG_MS)
        channel.acknowledge()
        world.pass_time(KEPT_WAITING_MS // 10)
    assert min(len(taker.bodies) for taker in takers) >= 3, [taker.bodies for taker in takers]
    assert not any(taker.redelivered.count(True) for taker in takers), "what no client has seen is not redelivered"


def test_what_exceeds_the_limit_is_there_for_others(world: World) -> None:
    channel = Channel(world, 1)
    for queue in two_queues(world, 1):
        channel.consume(queue)
    (held,) = [consumer for consumer, taker in channel.consumers if taker.held]
    other_queue = next(consumer.queue for consumer, _ in channel.consumers if consumer is not held)
    _, other = world.consumer(other_queue, "other")
    world.turn()
    world.pass_time(KEPT_WAITING_MS)
    world.pass_time(1)
    assert len(other.bodies) == 1
    assert len(channel.bodies) == 1
    assert other.redelivered == [False]


def test_one_reserved_message_that_does_not_come_holds_up_the_others_for_a_second(world: World) -> None:
    a, b = two_queues(world, 2)
    channel = Channel(world, 1)
    at_a, at_b = channel.consume(a), channel.consume(b)
    assert (len(at_a.bodies), len(at_b.bodies)) == (1, 0)
    world.pass_time(LONG_MS)
    world.purge(b)
    world.turn()
    channel.acknowledge()
    world.pass_time(RESERVED_MS)
    world.pass_time(1)
    assert (len(at_a.bodies), len(at_b.bodies)) == (2, 0)


def test_the_limit_is_raised_and_lowered_while_they_run(world: World) -> None:
    channel = Channel(world, 1)
    takers = [channel.consume(queue) for queue in two_queues(world, 10)]
    for limit in (2, 5, 7):
        channel.set_limit(limit)
        assert channel.held == limit
    channel.set_limit(2)
    first, taker = max(channel.consumers, key=lambda one: len(one[1].held))
    while len(taker.held) > 1:
        world.settle(first, taker.held.pop(), Outcome.ACKNOWLEDGED)
    world.turn()
    assert sum(len(one.bodies) for one in takers) == 7, "more are out than may be: nobody is given anything"
    channel.acknowledge()
    assert channel.held == 2
    channel.set_limit(0)
    assert sum(len(one.bodies) for one in takers) == 20, "0 is no limit"


def test_a_limit_of_its_own_and_a_shared_one_hold_at_once(world: World) -> None:
    a, b = two_queues(world, 10)
    channel = Channel(world, 4)
    at_a, at_b = channel.consume(a, prefetch=1), channel.consume(b)
    assert (len(at_a.bodies), len(at_b.bodies)) == (1, 3)


def test_a_run_is_delivered_whole_within_the_limit(world: World) -> None:
    queue = world.queue()
    channel = Channel(world, 700)
    taker = channel.consume(queue)
    world.publish(queue, *[b"%d" % number for number in range(500)])
    world.turn()
    assert [piece.count for piece in taker.pieces] == [500]
    world.publish(queue, *[b"%d" % number for number in range(500, 1000)])
    world.turn()
    assert [piece.count for piece in taker.pieces] == [500, 200]
    channel.acknowledge()
    assert [piece.count for piece in taker.pieces] == [500, 200, 300]
    assert taker.bodies == [b"%d" % number for number in range(1000)]


def test_a_channel_that_ends_gives_back_what_waited_for_it(world: World) -> None:
    channel = Channel(world, 1)
    queues = two_queues(world, 3)
    for queue in queues:
        channel.consume(queue)
    for consumer, taker in channel.consumers:
        channel.shared.leave(consumer)
        consumer.queue.cancel(consumer, world.now)
        world.settle_all(consumer, taker, Outcome.REQUEUED)
    world.turn()
    assert [world.drain(queue) for queue in queues] == [[b"%s%d" % (n, i) for i in range(3)] for n in (b"a", b"b")]

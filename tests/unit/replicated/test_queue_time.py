"""Clocks that are wrong, and then set right: what is due in a queue comes none the later."""

from __future__ import annotations

import pytest

from broker.queues.queue_type import DeathReason, Outcome
from replicated.queue_time import QueueTime
from tests.sim.clock import SimClock
from tests.unit.quorum.clients import Clients, Publisher, Taker

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> SimClock:
    return SimClock(wall_ms=HOUR_MS)


@pytest.fixture
def time(clock: SimClock) -> QueueTime:
    return QueueTime(clock.wall_ms, clock.monotonic)


def test_it_is_what_the_wall_clock_says(clock: SimClock, time: QueueTime) -> None:
    for _ in range(3):
        assert time.now(told=HOUR_MS - 1) == clock.wall_ms()
        clock.advance(0.5)
    clock.jump_wall_ms(HOUR_MS)
    assert time.now(told=HOUR_MS) == 2 * HOUR_MS + 1_500


def test_it_goes_on_from_what_the_queue_was_told_until_the_wall_clock_is_there(
    clock: SimClock, time: QueueTime
) -> None:
    told = 2 * HOUR_MS
    assert time.now(told) == told
    clock.advance(1.5)
    assert time.now(told) == told + 1_500
    assert time.now(told + 1_400) == told + 1_500, "it is not begun with anew when it has told the queue itself"
    clock.advance(1)
    clock.jump_wall_ms(HOUR_MS)
    assert time.now(told) == clock.wall_ms() == told + 2_500
    clock.advance(1)
    assert time.now(told) == clock.wall_ms()


def test_a_clock_that_is_set_back_takes_nothing_of_the_time_that_has_passed(clock: SimClock, time: QueueTime) -> None:
    """The queue may have been told nothing for long."""
    before = time.now(told=1)
    clock.jump_wall_ms(-HOUR_MS // 2)
    clock.advance(2)
    assert time.now(told=1) == before
    clock.advance(2)
    assert time.now(told=1) == before + 2_000


def test_a_clock_that_goes_back_and_forth_adds_nothing_up(clock: SimClock, time: QueueTime) -> None:
    told = 0
    for _ in range(5):
        for jump in (HOUR_MS // 2, -HOUR_MS // 2):
            clock.jump_wall_ms(jump)
            clock.advance(1)
            told = time.now(told)
    assert HOUR_MS * 3 // 2 <= told <= HOUR_MS * 3 // 2 + 10_000


def test_who_led_meanwhile_may_have_told_more(clock: SimClock, time: QueueTime) -> None:
    time.now(2 * HOUR_MS)
    clock.advance(1)
    assert time.now(3 * HOUR_MS) == 3 * HOUR_MS
    clock.advance(1)
    assert time.now(3 * HOUR_MS) == 3 * HOUR_MS + 1_000


def test_when_a_leader_whose_clock_ran_ahead_is_gone_retries_and_lost_nodes_wait_no_longer_for_it() -> None:
    """Found by the simulation of brokers, seed 698: they waited until the others' clocks had come as far, an hour here."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare(
        "q",
        [1, 2, 3],
        home=1,
        **{"x-delayed-retry-type": "all", "x-delayed-retry-min": 500, "x-delayed-retry-max": 500},
    )
    leader = cluster.leader(record).number
    lost, other = {1, 2, 3} - {leader}
    publisher = Publisher(clients, leader, record)
    taker, gone = (Taker(clients, node, record, settles=False, prefetch=1) for node in (other, lost))
    cluster.run(0.5)
    cluster.loop.clock.jump_wall_ms(HOUR_MS)
    publisher.publish()
    publisher.publish()
    cluster.run(1)
    assert sorted(taker.bodies + gone.bodies) == [b"0", b"1"]
    cluster.loop.clock.jump_wall_ms(-HOUR_MS)
    cluster.nodes[leader].kill()
    taker.settle_all(Outcome.REQUEUED)
    cluster.run(3)
    assert taker.bodies == taker.bodies[:1] * 2
    taker.settle_all()
    cluster.nodes[lost].kill()
    cluster.restart(leader)
    cluster.run(70)
    assert taker.bodies[2:] == gone.bodies


def test_what_waits_when_its_leaders_clock_is_set_back_dies_in_time() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1, **{"x-message-ttl": 5_000, "x-dead-letter-exchange": ""})
    leader = cluster.leader(record).number
    Publisher(clients, leader, record).publish()
    cluster.run(2)
    cluster.loop.clock.jump_wall_ms(-HOUR_MS)
    cluster.run(2.5)
    assert clients.hosts[leader].dead == []
    cluster.run(2.5)
    assert clients.hosts[leader].dead == [(DeathReason.EXPIRED, b"0")]

"""A fast client's consumer is handed out more than the client may hold; nobody sees a difference but by the time it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.queues.queue_type import Outcome
from broker.records import QueueRecord
from quorum.ahead import AHEAD_MS, AHEAD_TIMES, Ahead
from quorum.fifo.consumers import MachineConsumer
from quorum.fifo.rules import Retry
from quorum.fifo.versions import VERSION_NEWEST, WINDOWS_CHANGE
from tests.unit.quorum.clients import Clients, Publisher, Taker

PREFETCH = 10
HANDED_OUT = PREFETCH * (1 + AHEAD_TIMES)
BACKLOG = 1_000
PASSED_S = 3 * AHEAD_MS / 1_000


class FastClient:
    """It settles what it holds every two milliseconds."""

    def __init__(self, node: int = 1, version: int = VERSION_NEWEST, backlog: int = BACKLOG, **arguments: Any) -> None:
        self.clients = Clients()
        self.cluster = self.clients.cluster
        for one in self.cluster.alive():
            one.kind.machine_version = version
        self.record: QueueRecord = self.cluster.declare("q", [1, 2, 3], home=1, **arguments)
        self.cluster.leader(self.record)
        self.cluster.run(3)  # the group goes to its version
        self.publisher = Publisher(self.clients, 1, self.record)
        self.node = node
        self.backlog = backlog

    def publish(self, **properties: Any) -> None:
        for _ in range(self.backlog // 20):
            self.publisher.publish(20, **properties)
        self.cluster.run(0.5)
        assert len(self.publisher.confirmed) == self.backlog

    def begin(self, **properties: Any) -> None:
        self.taker = Taker(self.clients, self.node, self.record, settles=False, prefetch=PREFETCH, **properties)
        self.cluster.run(0.1)

    def consume(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.cluster.loop.time() + seconds
        while self.cluster.loop.time() < end and not until():
            self.taker.settle_all()
            self.cluster.run(0.002)
            assert self.taker.consumer.outstanding <= PREFETCH, (
                f"{self.taker.consumer.outstanding} are out to the client"
            )

    def is_ahead(self) -> bool:
        return self.machines_consumer().window == HANDED_OUT

    def machines_consumer(self) -> MachineConsumer:
        _, queue = self.clients.of(1, self.record)
        return next(iter(queue.member.machine.state.consumers.all.values()))

    def come_ahead(self) -> None:
        self.publish()
        self.begin()
        self.consume(1, until=self.is_ahead)
        assert self.is_ahead(), "the client is fast, and there is a backlog"


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("node", [1, 2])
def test_a_fast_client_gets_all_in_order_and_once_and_holds_no_more_than_its_prefetch(node: int) -> None:
    world = FastClient(node)
    world.come_ahead()
    assert len(world.taker.bodies) < BACKLOG // 2
    world.consume(2, until=lambda: len(world.taker.bodies) == BACKLOG)
    assert world.taker.got == [(body, False) for body in numbered(BACKLOG)]
    world.cluster.run(1)
    assert world.clients.get(2, world.record) is None
    world.cluster.close()


def test_what_waits_is_given_as_the_client_makes_room_before_the_group_has_heard_of_it() -> None:
    world = FastClient()
    world.come_ahead()
    world.consume(0.02)
    before = len(world.taker.bodies)
    for other in (2, 3):
        world.cluster.cut(1, other)
    for _ in range(AHEAD_TIMES):
        world.taker.settle_all()
        world.cluster.run(0.001)
    assert len(world.taker.bodies) >= before + PREFETCH * (AHEAD_TIMES - 1)
    assert world.taker.consumer.outstanding <= PREFETCH
    world.cluster.close()


def test_what_a_client_settles_within_a_round_trip_is_one_entry() -> None:
    world = FastClient()
    world.come_ahead()
    world.cluster.run(0.02)
    _, queue = world.clients.of(1, world.record)
    applied = queue.member.machine.applied
    for _ in range(AHEAD_TIMES):
        world.taker.settle_all()
        queue.pump(world.clients.now)
    world.cluster.run(0.02)
    assert queue.member.machine.applied == applied + 2, "the first is on its way while the others gather"
    world.cluster.close()


def test_when_a_fast_client_has_left_what_the_next_one_settles_makes_room_for_it_at_once_again() -> None:
    """It waited for the entry before, though nothing lay on its node for it meanwhile."""
    world = FastClient()
    world.come_ahead()
    world.taker.cancel()
    world.taker.settle_all()
    world.begin()
    world.cluster.run(0.02)
    _, queue = world.clients.of(1, world.record)
    applied = queue.member.machine.applied
    piece = world.taker.held[0]
    for at in range(AHEAD_TIMES):
        queue.settle(replace(piece, sequence=piece.sequence + at, count=1), Outcome.ACKNOWLEDGED, world.clients.now)
        queue.pump(world.clients.now)
    world.cluster.run(0.02)
    assert queue.member.machine.applied == applied + AHEAD_TIMES
    world.cluster.close()


def test_a_client_that_stops_settling_leaves_the_rest_to_others_soon_and_as_never_seen() -> None:
    world = FastClient()
    world.come_ahead()
    world.cluster.run(PASSED_S)
    seen = len(world.taker.bodies)
    consumer = world.machines_consumer()
    assert (consumer.window, consumer.checked_out.count) == (PREFETCH, PREFETCH)
    other = Taker(world.clients, 2, world.record)
    world.cluster.run(1)
    assert other.got == [(body, False) for body in numbered(BACKLOG)[seen:]]
    world.cluster.close()


def test_a_client_that_cannot_be_written_to_leaves_the_rest_to_others() -> None:
    world = FastClient()
    world.come_ahead()
    world.taker.writable = False
    world.taker.settle_all()
    world.cluster.run(PASSED_S)
    assert world.machines_consumer().window == PREFETCH
    world.cluster.run(PASSED_S)
    assert world.machines_consumer().checked_out.count <= PREFETCH
    world.cluster.close()


def test_when_another_consumer_comes_both_get_theirs_in_order_and_nothing_comes_twice() -> None:
    world = FastClient()
    world.come_ahead()
    other = Taker(world.clients, 3, world.record, prefetch=PREFETCH)
    world.consume(0.05)
    assert world.machines_consumer().window == PREFETCH
    world.consume(3, until=lambda: len(world.taker.bodies) + len(other.bodies) == BACKLOG)
    for one in (world.taker, other):
        assert one.bodies == sorted(one.bodies, key=int)
    assert sorted(world.taker.bodies + other.bodies, key=int) == numbered(BACKLOG)
    world.cluster.close()


def test_when_the_client_goes_the_next_one_gets_all_in_the_old_order_and_knows_what_was_seen() -> None:
    world = FastClient()
    world.come_ahead()
    taker = world.taker
    seen, held = len(taker.bodies), taker.consumer.outstanding
    taker.cancel()
    taker.settle_all(Outcome.REQUEUED)
    world.cluster.run(0.5)
    other = Taker(world.clients, 2, world.record)
    world.cluster.run(1)
    left = numbered(BACKLOG)[seen - held :]
    assert other.got == [(body, number < held) for number, body in enumerate(left)]
    world.cluster.close()


def test_where_many_came_back_the_next_client_but_one_gets_them_in_the_old_order() -> None:
    """Found with real nodes: what was handed out ahead and never seen went back behind the others that had come back."""
    world = FastClient()
    world.publish()
    first = Taker(world.clients, 2, world.record, settles=False, prefetch=20 * HANDED_OUT)
    world.cluster.run(0.5)
    returned = len(first.bodies)
    first.cancel()
    first.settle_all(Outcome.REQUEUED)
    world.cluster.run(0.5)
    world.begin()
    world.consume(0.05)
    taker = world.taker
    seen = len(taker.bodies)
    assert PREFETCH < seen < returned - HANDED_OUT
    taker.cancel()
    taker.settle_all()
    world.cluster.run(0.5)
    other = Taker(world.clients, 2, world.record)
    world.cluster.run(1)
    assert other.bodies == numbered(BACKLOG)[seen:]
    world.cluster.close()


def test_when_the_leader_is_killed_nothing_is_lost_or_comes_twice() -> None:
    world = FastClient(node=2)
    world.come_ahead()
    world.cluster.nodes[1].kill()
    world.consume(5, until=lambda: len(world.taker.bodies) == BACKLOG)
    assert world.taker.got == [(body, False) for body in numbered(BACKLOG)]
    world.cluster.close()


def test_after_a_pause_the_client_is_ahead_again() -> None:
    world = FastClient()
    world.come_ahead()
    world.cluster.run(PASSED_S)
    assert not world.is_ahead()
    world.consume(1, until=world.is_ahead)
    assert world.is_ahead()
    world.cluster.close()


def test_a_slow_client_is_handed_out_what_it_may_hold() -> None:
    world = FastClient()
    world.publish()
    world.begin()
    for _ in range(10):
        world.taker.settle_all()
        world.cluster.run(AHEAD_MS / 1_000)
        assert not world.is_ahead()
    world.cluster.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 60_000},
        {"x-max-length": 5_000},
        {"x-max-length-bytes": 5_000_000},
        {"x-single-active-consumer": True},
        {"x-delayed-retry-type": "all", "x-delayed-retry-min": 10},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_where_a_rule_looks_at_ready_messages_nobody_is_ahead(arguments: dict[str, Any]) -> None:
    world = FastClient(**arguments)
    world.publish()
    world.begin()
    world.consume(1, until=world.is_ahead)
    assert not world.is_ahead()
    world.cluster.close()


def test_where_messages_expire_nobody_is_ahead() -> None:
    world = FastClient()
    world.publish(expiration_ms=60_000)
    world.begin()
    world.consume(1, until=world.is_ahead)
    assert not world.is_ahead()
    world.cluster.close()


def test_a_client_without_acknowledgements_has_nothing_to_be_ahead_of() -> None:
    world = FastClient()
    world.publish()
    taker = Taker(world.clients, 1, world.record, prefetch=PREFETCH, no_ack=True)
    world.cluster.run(1)
    assert taker.bodies == numbered(BACKLOG)
    assert taker.queue.consumers.subscriptions[1].ahead.messages == 0
    world.cluster.close()


def test_a_group_of_a_version_without_windows_goes_on_without() -> None:
    world = FastClient(version=WINDOWS_CHANGE - 1)
    world.publish()
    world.begin()
    world.consume(3, until=lambda: len(world.taker.bodies) == BACKLOG)
    assert world.taker.bodies == numbered(BACKLOG)
    assert not world.is_ahead()
    world.cluster.close()


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_meanwhile_all_come_in_order_and_once(seed: int) -> None:
    """Its client stops and goes on; leaders change, links break, a node is killed and comes back."""
    random = Random(seed)
    world = FastClient(node=random.randint(1, 3))
    cluster, others = world.cluster, [number for number in (1, 2, 3) if number != world.node]
    world.come_ahead()
    for _ in range(30):
        match random.choice(["pause", "transfer", "cut", "kill", "go on", "go on"]):
            case "pause":
                world.cluster.run(random.choice([0.02, 0.06, 0.2]))
            case "transfer":
                kind, queue = world.clients.of(world.node, world.record)
                kind.administration.transfer(queue, random.randint(1, 3)).then(lambda _: None, lambda _: None)
            case "cut":
                cluster.cut(world.node, random.choice(others))
                world.consume(random.choice([0.05, 0.5]))
                cluster.heal()
            case "kill":
                victim = random.choice(others)
                cluster.nodes[victim].kill()
                world.consume(random.choice([0.05, 1.0]))
                cluster.restart(victim)
            case "go on" if world.node == 1:  # the publisher's node is never killed then
                world.publisher.publish(20)
            case _:
                pass
        world.consume(random.choice([0.01, 0.1]))
    world.consume(20, until=lambda: len(world.taker.bodies) >= world.publisher.next)
    cluster.run(1)
    assert world.taker.bodies == numbered(world.publisher.next)
    cluster.close()


# One consumer's, alone.

NOW = 10_000


def state_with(ready: int = BACKLOG, alike: bool = True, consumers: int = 1, **rules: Any) -> Any:
    none = {"message_ttl_ms": None, "max_length": None, "max_length_bytes": None}
    all_rules = SimpleNamespace(**{**none, "retry": Retry.DISABLED, "single_active": False, **rules})
    ready_ones = SimpleNamespace(count=ready, alike=alike)
    return SimpleNamespace(ready=ready_ones, consumers=SimpleNamespace(count=consumers), rules=all_rules)


def begins(ahead: Ahead, state: Any, now: int = NOW) -> bool:
    """Its client takes all that it would be handed out within a millisecond."""
    ahead.keep(PREFETCH, state, waits=False, now=now - 1)
    ahead.given(HANDED_OUT, now - 1)
    ahead.keep(PREFETCH, state, waits=False, now=now - 1)
    ahead.given(HANDED_OUT, now)
    ahead.keep(PREFETCH, state, waits=False, now=now)
    return ahead.messages > 0


@pytest.mark.parametrize(
    ("different", "is_ahead"),
    [
        ({}, True),
        ({"ready": HANDED_OUT - PREFETCH - 1}, False),
        ({"alike": False}, False),
        ({"consumers": 2}, False),
        ({"message_ttl_ms": 1}, False),
        ({"max_length": 1}, False),
        ({"max_length_bytes": 1}, False),
        ({"retry": Retry.ALL}, False),
        ({"single_active": True}, False),
    ],
)
def test_a_consumer_is_ahead_only_where_nobody_sees_a_difference(different: dict[str, Any], is_ahead: bool) -> None:
    ahead = Ahead()
    assert begins(ahead, state_with(**different)) is is_ahead
    if not is_ahead and "ready" not in different:
        ahead = Ahead()
        assert begins(ahead, state_with())
        ahead.keep(PREFETCH, state_with(**different), waits=False, now=NOW)
        assert not ahead.messages, "and no longer"


def test_what_has_waited_too_long_goes_back_once_and_when_the_group_hands_out_no_more() -> None:
    ahead, slow = Ahead(), NOW + AHEAD_MS
    assert begins(ahead, state_with())
    assert not ahead.gives_back(99, slow), "it is ahead yet"
    ahead.keep(PREFETCH, state_with(), waits=True, now=slow)
    assert not ahead.messages and not ahead.gives_back(99, slow), "the group has not heard of it"
    ahead.ended(7)
    assert not ahead.gives_back(6, slow), "what it handed out before may still come"
    assert not ahead.gives_back(7, slow - 1)
    assert ahead.gives_back(7, slow)
    assert not ahead.gives_back(7, slow)


def test_a_clock_that_was_set_back_does_not_keep_what_waits() -> None:
    ahead = Ahead()
    assert begins(ahead, state_with())
    ahead.keep(PREFETCH, None, waits=True, now=NOW)
    ahead.ended(7)
    assert ahead.gives_back(7, NOW - 3_600_000)


def test_nothing_goes_back_when_the_consumer_is_ahead_again() -> None:
    ahead = Ahead()
    assert begins(ahead, state_with())
    ahead.keep(PREFETCH, None, waits=False, now=NOW)
    ahead.ended(7)
    assert begins(ahead, state_with(), NOW + 5)
    assert not ahead.gives_back(7, NOW + 5 + AHEAD_MS)


def test_what_waits_is_looked_at_each_time_that_it_may_have_waited_too_long() -> None:
    ahead, looks, woken = Ahead(), list[tuple[int, Callable[[int], None]]](), list[int]()

    def look_again() -> None:
        ahead.look_again(lambda delay_ms, look: looks.append((delay_ms, look)), lambda: woken.append(NOW))

    look_again()
    assert not looks, "nobody is ahead"
    assert begins(ahead, state_with())
    look_again()
    look_again()
    assert [delay_ms for delay_ms, _ in looks] == [AHEAD_MS]
    looks[0][1](NOW + AHEAD_MS)
    assert len(woken) == 1
    look_again()
    assert len(looks) == 2

"""quorum/local_consumers.py: what comes for consumers of this node behind a gap, or when they have left already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import AccessRefused
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, QueueStatistics
from native.content import encode
from quorum.ahead import Ahead
from quorum.bodies import Body
from quorum.fifo.commands import Cancel, Consume, ConsumerKey, Op, Piece, SessionKey
from quorum.fifo.effects import Deliver
from quorum.fifo.versions import VERSION_NEWEST, WINDOWS_CHANGE
from quorum.letters import NO_NEWS
from quorum.local_consumers import UNSEEN_MAX, LocalConsumers
from quorum.subscription import FIRST_ID, WaitingDelivery
from tests.contract.world import Taker as Client
from tests.unit.quorum.clients import Clients, Publisher, Taker

KEY = SessionKey(4, 1)
RUN = b"".join([encode(b"\0\0", b"%d" % number) for number in range(20)])
NOW = 0
NODE_OF_CLIENTS = 4  # has no member


class World:
    """Consumers on one node. What is said to the group waits for the test to answer; what the member here has applied, and
    what it knows to be out, the test says. Message n of the queue, from 0, is out under id n + 1."""

    def __init__(self) -> None:
        self.said: list[tuple[Op, Callable[[Any], None] | None]] = []
        self.settled: list[tuple[int, int, Outcome]] = []  # first id, count
        self.out: list[tuple[int, int]] = []  # as the machine has it: first id, count
        state = SimpleNamespace(applied=0, consumers=SimpleNamespace(subscribed=lambda: (), count=1))
        self.machine = SimpleNamespace(state=state, checked_out=self.checked_out)
        self.member = SimpleNamespace(
            has_timed_out=lambda key: False,
            machine=self.machine,
            active=None,
            holds=lambda key, first_id: True,
            bodies=SimpleNamespace(get=lambda piece: body_from(piece.first)),
        )
        self.session = SimpleNamespace(
            key=KEY,
            ahead=False,
            new_number=iter(range(1, 100)).__next__,
            consumer_key=lambda number: ConsumerKey(*KEY, number),
            say=lambda op, asker=None: self.said.append((op, asker)),
            settle=lambda number, first, count, outcome: self.settled.append((first, count, outcome)),
            flush=lambda: None,
        )
        self.queue: Any = SimpleNamespace(
            session=self.session,
            rules=SimpleNamespace(single_active=False, consumer_timeout_ms=None),
            member=self.member,
            readable_member=self.member,
            leading=None,
            news=NO_NEWS,
            remote_serving=None,
            record=SimpleNamespace(label="queue 'q'"),
            attend=lambda: None,
            say_who=lambda number, actor: None,
        )
        ports: Any = SimpleNamespace(loop=SimpleNamespace(), actor_number=lambda actor: 0)
        host: Any = SimpleNamespace(wake=lambda queue: None)
        self.consumers = LocalConsumers(self.queue, ports, host, QueueStatistics())
        self.client = Client()

    def checked_out(self, key: ConsumerKey, next_id: int) -> Sequence[Deliver]:
        return [
            Deliver(key, first, Piece(1, 0, first - FIRST_ID, count), 0, 0)
            for first, count in self.out
            if first >= next_id
        ]

    def answer(self, what: type[Op]) -> None:
        """The leader's node has applied it, and says so."""
        (answered,) = [asker for op, asker in self.said if type(op) is what]
        assert answered is not None
        answered(None)

    def consume(self) -> Consumer:
        consumer = Consumer("c", self.queue, self.client)
        self.consumers.consume(consumer)
        self.answer(Consume)
        return consumer

    def comes(self, first_id: int, count: int) -> None:
        """Brought along by the leader's node."""
        self.consumers.take(1, WaitingDelivery(first_id, count, 0, 0, body_from(first_id - FIRST_ID)))

    def pump(self) -> None:
        self.consumers.look_up()
        self.consumers.pump(NOW)

    def leave(self, consumer: Consumer) -> None:
        """And forget what is said at once: all that its client was not given goes back."""
        self.consumers.cancel(consumer)
        assert [(count, outcome) for _, count, outcome in self.settled] == [(UNSEEN_MAX, Outcome.RETURNED)]
        self.settled.clear()


def body_from(first: int) -> Body:
    return Body(RUN, 0, "", "key", 0).after(first)


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------------------- those that are there


def test_what_is_out_behind_messages_that_were_settled_meanwhile_is_found_and_given(world: World) -> None:
    """It was out to a client that was never given it, for as long as that consumed."""
    world.consume()
    world.out = [(5, 2)]
    world.consumers.resync()
    world.pump()
    assert world.client.bodies == [b"4", b"5"]
    world.comes(7, 1)
    world.pump()
    assert world.client.bodies == [b"4", b"5", b"6"]


def test_who_became_the_single_active_consumer_by_entries_that_were_not_seen_here_is_told(world: World) -> None:
    world.queue.rules.single_active = True
    consumer = world.consume()
    assert not consumer.active
    world.member.active = world.session.consumer_key(1)
    world.consumers.resync()
    world.pump()
    assert consumer.active


# ------------------------------------------------------------------------- those that have left


def test_what_comes_again_for_a_consumer_that_left_goes_back_but_for_what_its_client_holds(world: World) -> None:
    """Two nodes had led, and each sent what it knew to be out: the client could still settle what others were given, too."""
    consumer = world.consume()
    world.comes(1, 3)
    world.pump()
    world.leave(consumer)
    world.comes(1, 3)
    assert world.settled == []
    world.comes(1, 6)
    assert (world.client.bodies, world.settled) == ([b"0", b"1", b"2"], [(4, 3, Outcome.RETURNED)])
    world.comes(4, 3)
    assert len(world.settled) == 1, "once is enough"


def test_what_is_out_to_a_consumer_that_left_goes_back_where_the_entries_that_said_so_were_not_seen(
    world: World,
) -> None:
    """A snapshot had them: it stayed out to nobody until this node ended."""
    world.leave(world.consume())
    world.out = [(3, 2)]
    world.consumers.resync()
    world.pump()
    assert world.settled == [(3, 2, Outcome.RETURNED)]


def test_a_consumer_that_left_is_remembered_until_the_member_here_has_seen_it_leave(world: World) -> None:
    """The leader's node had seen it, and what it was handed out before came later: nobody gave it back."""
    world.leave(world.consume())
    world.queue.news = NO_NEWS._replace(applied=9)
    world.answer(Cancel)
    world.machine.state.applied = 8
    world.pump()
    world.comes(1, 2)
    assert world.settled == [(1, 2, Outcome.RETURNED)]
    world.machine.state.applied = 9
    world.pump()
    assert not world.consumers


def test_a_node_that_leads_has_seen_who_left_whatever_it_heard_of_a_log_that_is_lost(world: World) -> None:
    """The last copy of a queue goes on with what is left of it, so its entries have smaller indexes than before."""
    world.queue.news = NO_NEWS._replace(applied=1_000)
    world.queue.leading = SimpleNamespace()
    world.machine.state.applied = 5
    world.leave(world.consume())
    world.answer(Cancel)
    world.pump()
    assert not world.consumers


@pytest.mark.parametrize("node", [1, 2])
def test_consumers_that_come_and_go_leave_nothing_behind_on_a_node_with_a_member(node: int) -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3], home=1)
    clients.cluster.leader(record)
    for _ in range(3):
        Taker(clients, node, record).cancel()
        clients.cluster.run(0.5)
    _, queue = clients.of(node, record)
    clients.hosts[node].wake(queue)
    clients.cluster.run(0.1)
    assert not queue.consumers
    clients.cluster.close()


@pytest.mark.parametrize("version", [WINDOWS_CHANGE - 1, VERSION_NEWEST])
def test_what_was_not_seen_by_a_client_that_left_goes_back_where_its_node_applies_entries_late(version: int) -> None:
    """An earlier version hands it out again to the consumer that leaves, which its node knew no more when it saw that."""
    clients = Clients()
    cluster = clients.cluster
    for one in cluster.alive():
        one.kind.machine_version = version
    record = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(record).number == 1
    cluster.run(3)
    stuck = Taker(clients, 2, record, prefetch=5)
    cluster.run(0.5)
    stuck.writable = False
    bodies = Publisher(clients, 1, record).publish(10)
    cluster.run(0.5)
    carry = cluster.carry
    late: list[tuple[Any, ...]] = []
    cluster.carry = lambda *letter: late.append(letter) if letter[1] == 2 else carry(*letter)  # type: ignore[method-assign]
    stuck.cancel()
    cluster.run(0.05)
    _, queue = clients.of(2, record)
    assert queue.news.applied > queue.member.machine.state.applied, "it was told before it saw it"
    cluster.carry = carry  # type: ignore[method-assign]
    for letter in late:
        carry(*letter)
    cluster.run(1)
    assert clients.drain(3, record) == bodies
    cluster.close()


# ------------------------------------------------------------------------- one of very many


def test_who_comes_to_a_queue_with_very_many_consumers_does_not_have_all_of_them_looked_at(world: World) -> None:
    """2,000 on one queue took seconds, and each of them was looked at twice by each that came after it."""
    looked_at = 0

    def subscribed() -> Iterator[Any]:
        nonlocal looked_at
        for number in range(1000):
            looked_at += 1
            yield SimpleNamespace(exclusive=False, key=ConsumerKey(9, 1, number))

    world.machine.state.consumers.subscribed = subscribed
    world.consume()
    assert looked_at <= 1


def test_whether_one_may_be_ahead_is_asked_only_where_it_is_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5,000 on a queue it was asked of each of them with each commit, half the time that they took."""
    asked: list[object] = []
    monkeypatch.setattr(Ahead, "keep", lambda self, *_: asked.append(self))
    world.consume()
    world.machine.state.consumers.count = 2
    world.pump()
    assert asked == []
    world.machine.state.consumers.count = 1
    world.pump()
    assert len(asked) == 1


def test_an_exclusive_consumer_of_another_node_keeps_others_out(world: World) -> None:
    others = [SimpleNamespace(exclusive=True, key=ConsumerKey(9, 1, 1))]
    world.machine.state.consumers.subscribed = lambda: iter(others)
    with pytest.raises(AccessRefused):
        world.consume()


# ------------------------------------------------------------------------- on a node without a member


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)], ids=["the first is", "the second is"])
def test_a_client_that_cancels_and_consumes_again_is_not_in_its_own_way_if_exclusive(before: bool, after: bool) -> None:
    """What this node was told last still counts the consumer that has just left."""
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.leader(record)
    _, queue = clients.of(NODE_OF_CLIENTS, record)
    first = Taker(clients, NODE_OF_CLIENTS, record, exclusive=before)
    cluster.run(2)
    assert (queue.news.consumers, queue.news.exclusive) == (1, before)
    first.cancel()
    assert queue.consumer_count == 0
    second = Taker(clients, NODE_OF_CLIENTS, record, exclusive=after)
    cluster.run(1)
    assert (second.answered, second.errors) == (True, [])
    with pytest.raises(AccessRefused):
        Taker(clients, NODE_OF_CLIENTS, record, exclusive=True)
    cluster.close()


def test_one_that_was_ahead_is_asked_again_when_another_comes_though_nothing_waits(world: World) -> None:
    world.consume()
    (subscription,) = world.consumers.subscriptions.values()
    subscription.ahead.messages = 100
    world.machine.state.consumers.count = 2
    world.machine.state.ready = SimpleNamespace(alike=True, count=0)
    world.pump()
    assert subscription.ahead.messages == 0


def test_an_exclusive_one_of_this_node_that_has_left_keeps_nobody_out(world: World) -> None:
    left = [SimpleNamespace(exclusive=True, key=ConsumerKey(*KEY, 1))]
    world.machine.state.consumers.subscribed = lambda: iter(left)
    world.consume()
    assert len(world.consumers.subscriptions) == 1

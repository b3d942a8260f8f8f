"""Dead letters that are kept until they have arrived: published by the leader's node, 32 at a time, again if refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.queues.queue_type import Arrival, DeadMessage, DeathReason, OnArrival, Outcome, Queue
from native.content import encode, messages, skip
from quorum.dead_letters import (
    IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_MAX,
    LOOKED_AT_MAX,
    NOWHERE_MAX,
    NOWHERE_RETRY_MS_MAX,
    RELEASED_MAX,
    RETRY_MS,
    DeadLetterWorker,
)
from quorum.fifo.commands import FIRST_ID, DeadSettled, Op, Piece
from raft.core.errors import Damaged
from raft.core.messages import NodeId
from tests.unit.quorum.clients import Clients, Publisher, Taker

HOLDING = "amq.delayed.x"  # the queue of a delayed exchange
AT_LEAST_ONCE = {
    "x-dead-letter-exchange": "dlx",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


class Target:
    """Where dead letters go. Every node's host asks it."""

    def __init__(self) -> None:
        self.accepts: Arrival | None = Arrival.ARRIVED  # None: it answers later
        self.nowhere: set[bytes] = set()  # messages that have no way
        self.reaches: set[int] = set()  # queues that take what others may refuse
        self.reached: list[set[int]] = []  # queues that had it, at each attempt
        self.arrived: list[tuple[DeathReason, bytes]] = []
        self.refused = 0
        self.waiting: list[Callable[[Arrival], None]] = []

    def dead_letter_confirmed(
        self, queue: Queue, reason: DeathReason, message: DeadMessage, now: int, reached: set[int],
        on_answer: Callable[[Arrival], None],
    ) -> None:  # fmt: skip
        self.reached.append(set(reached))
        reached |= self.reaches
        if self.accepts is None:
            self.waiting.append(on_answer)
            return
        body = messages(message[2], 0, 1)[0][1]
        answer = Arrival.NOWHERE if body in self.nowhere else self.accepts
        if answer is Arrival.ARRIVED:
            self.arrived.append((reason, body))
        else:
            self.refused += 1
        on_answer(answer)


class World:
    def __init__(self, **arguments: Any) -> None:
        self.clients = Clients()
        self.cluster = self.clients.cluster
        self.target = Target()
        for host in self.clients.hosts.values():
            host.target = self.target
        self.record = self.cluster.declare("q", [1, 2, 3], home=1, **{**AT_LEAST_ONCE, **arguments})
        self.cluster.leader(self.record)

    def reject(self, count: int) -> list[bytes]:
        publisher = Publisher(self.clients, 1, self.record)
        bodies = publisher.publish(count)
        taker = Taker(self.clients, 2, self.record, settles=False)
        self.cluster.run(0.5)
        taker.cancel()
        taker.settle_all(Outcome.REJECTED)
        self.cluster.run(0.5)
        return bodies

    def kept(self, node: NodeId) -> int:
        member = self.cluster.nodes[node].queue(self.record).member
        assert member is not None
        return member.machine.figures().dead


@pytest.fixture
def world() -> World:
    return World()


def test_what_has_arrived_is_forgotten_by_all_members(world: World) -> None:
    bodies = world.reject(100)
    world.cluster.run(0.5)
    assert world.target.arrived == [(DeathReason.REJECTED, body) for body in bodies]
    assert [world.kept(node) for node in (1, 2, 3)] == [0, 0, 0]


def test_what_is_refused_is_tried_again_until_it_arrives(world: World) -> None:
    world.target.accepts = Arrival.REFUSED
    bodies = world.reject(3)
    world.cluster.run(2 * RETRY_MS / 1000)
    assert world.kept(2) == 3
    assert 2 <= world.target.refused <= 4, "one at a time, and not more often than is said"
    world.target.accepts = Arrival.ARRIVED
    world.cluster.run(2 * RETRY_MS / 1000)
    assert [body for _, body in world.target.arrived] == bodies
    assert world.kept(2) == 0


def test_queues_that_took_what_another_one_refused_are_remembered_until_it_has_arrived(world: World) -> None:
    world.target.accepts = Arrival.REFUSED
    world.target.reaches = {7}
    world.reject(1)
    world.target.reaches = {8}
    world.cluster.run(RETRY_MS / 1000 + 0.5)
    world.target.accepts = Arrival.ARRIVED
    world.cluster.run(RETRY_MS / 1000 + 1)
    assert world.target.reached == [set(), {7}, {7, 8}]
    assert world.kept(2) == 0
    worker = world.cluster.leader(world.record).queue(world.record).leading._worker
    assert worker._reached == {}


def test_only_so_many_are_on_their_way(world: World) -> None:
    world.target.accepts = None
    world.reject(100)
    assert len(world.target.waiting) == IN_FLIGHT_MAX
    for on_answer in world.target.waiting[:10]:
        on_answer(Arrival.ARRIVED)
    world.cluster.run(0.5)
    assert len(world.target.waiting) == IN_FLIGHT_MAX + 10


def test_a_new_leader_goes_on_where_the_old_one_has_not_been_heard(world: World) -> None:
    world.target.accepts = None
    world.reject(3)
    world.cluster.nodes[1].kill()
    world.target.accepts = Arrival.ARRIVED
    world.cluster.run(3)
    assert [body for _, body in world.target.arrived] == [b"0", b"1", b"2"]
    assert world.kept(2) == 0


def test_a_message_that_expires_is_kept_too() -> None:
    world = World(**{"x-message-ttl": 200})
    Publisher(world.clients, 3, world.record).publish(2)
    world.cluster.run(2)
    assert world.target.arrived == [(DeathReason.EXPIRED, b"0"), (DeathReason.EXPIRED, b"1")]


def test_a_message_with_nowhere_to_go_holds_nobody_up_and_goes_when_there_is_a_way(world: World) -> None:
    world.target.nowhere = {b"0", b"2"}
    bodies = world.reject(40)
    world.cluster.run(1)
    assert [body for _, body in world.target.arrived] == [body for body in bodies if body not in world.target.nowhere]
    assert world.kept(2) == 2
    leading = world.cluster.nodes[1].queue(world.record).leading
    assert leading is not None and leading.dead_letters_nowhere == 2
    world.cluster.run(3 * NOWHERE_RETRY_MS_MAX / 1000)
    assert world.target.refused <= 2 * 9, "later and later"
    world.target.nowhere = set()
    world.cluster.run(NOWHERE_RETRY_MS_MAX / 1000 + 1)
    assert sorted(body for _, body in world.target.arrived) == sorted(bodies)
    assert (world.kept(2), leading.dead_letters_nowhere) == (0, 0)


def test_of_very_many_with_nowhere_to_go_only_some_are_gone_past(world: World) -> None:
    world.target.nowhere = {b"%d" % number for number in range(NOWHERE_MAX + 100)}
    world.reject(NOWHERE_MAX + 100)
    world.cluster.run(60)
    leading = world.cluster.nodes[1].queue(world.record).leading
    assert leading is not None and leading.dead_letters_nowhere == NOWHERE_MAX
    world.target.nowhere = set()
    world.cluster.run(2 * NOWHERE_RETRY_MS_MAX / 1000)
    assert world.kept(2) == 0


@pytest.mark.parametrize("answer", [Arrival.REFUSED, Arrival.NOWHERE])
def test_a_wall_clock_that_is_set_back_does_not_hold_up_dead_letters(world: World, answer: Arrival) -> None:
    """A leader's clock was an hour ahead when they were refused: they waited for that hour."""
    ahead_ms = 3_600_000
    world.cluster.loop.clock.jump_wall_ms(ahead_ms)
    world.target.accepts = answer
    world.reject(3)
    assert world.target.refused > 0
    world.cluster.loop.clock.jump_wall_ms(-ahead_ms)
    world.target.accepts = Arrival.ARRIVED
    world.cluster.run(2 * RETRY_MS / 1000)
    assert world.kept(2) == 0


def test_what_an_earlier_leader_settled_does_not_count_as_nowhere(world: World) -> None:
    """It leaves when the new leader applies what was committed, and would count for ever."""
    world.target.accepts = Arrival.NOWHERE
    world.reject(3)
    leading = world.cluster.nodes[1].queue(world.record).leading
    assert leading is not None and leading.dead_letters_nowhere == 3
    leading.propose((DeadSettled([(FIRST_ID, 2)]),), lambda done: None)
    world.cluster.run(2 * RETRY_MS / 1000)
    assert (world.kept(1), leading.dead_letters_nowhere) == (1, 1)
    leading.propose((DeadSettled([(FIRST_ID + 2, 1)]),), lambda done: None)
    world.cluster.run(0.5)
    assert leading.dead_letters_nowhere == 0


def test_what_has_arrived_is_forgotten_though_the_first_word_of_it_was_lost(world: World) -> None:
    """It was held until another node led, and then published again."""
    leading = world.cluster.nodes[1].queue(world.record).leading
    assert leading is not None
    propose, lost = leading._worker._propose, []

    def loses_the_first(ops: Sequence[Op], on_done: Callable[[bool], None]) -> None:
        if lost:
            propose(ops, on_done)
        else:
            lost.append(ops)
            on_done(False)

    leading._worker._propose = loses_the_first
    bodies = world.reject(1)
    assert len(lost) == 1
    world.cluster.run(2)
    assert world.target.arrived == [(DeathReason.REJECTED, body) for body in bodies]
    assert world.kept(1) == 0


class Worker:
    """One leadership's, alone: dead letters from 1 on; what becomes of them, and of what is proposed, the test says."""

    def __init__(self, count: int, name: str = "q") -> None:
        self.now_s = 0.0
        self.damaged: list[Damaged] = []
        self.unreadable = False
        self.published: list[Callable[[Arrival], None]] = []
        self.proposed: list[tuple[list[tuple[int, int]], Callable[[bool], None]]] = []
        self.looked_at = 0  # messages that were asked for
        self.released: list[tuple[int, OnArrival]] = []  # how many together, and whom to tell
        self.reached: list[set[int]] = []  # queues that had it, of each that went alone
        state = SimpleNamespace(dead=SimpleNamespace(count=count))
        machine = SimpleNamespace(state=state, dead_letters=self.held)
        content = b"".join([encode(b"\0\0", b"%d" % number) for number in range(count)])
        self.count = count
        self.body = SimpleNamespace(content=content, position=0, exchange="", routing_key="q", persistent=True)
        member: Any = SimpleNamespace(machine=machine, bodies=SimpleNamespace(get=self.read))
        groups = SimpleNamespace(damaged=lambda group, damage: self.damaged.append(damage))
        ports: Any = SimpleNamespace(monotonic=lambda: self.now_s, wall_ms=lambda: 0, groups=groups)
        host: Any = SimpleNamespace(dead_letter_confirmed=self.dead_letter_confirmed, release=self.release)
        queue: Any = SimpleNamespace(record=SimpleNamespace(name=name))
        self.worker = DeadLetterWorker(queue, 1, member, ports, host, self.propose)

    def read(self, piece: Piece) -> Any:
        if self.unreadable:
            raise Damaged("entry 1 cannot be read")
        return SimpleNamespace(**{**vars(self.body), "position": skip(self.body.content, 0, piece.first)})

    def held(self, from_id: int = FIRST_ID, limit: int = 32) -> list[Any]:
        """None of them is settled before the test ends."""
        length = min(limit, self.count + FIRST_ID - from_id)
        if length <= 0:
            return []
        self.looked_at += length
        piece = Piece(1, 0, from_id - FIRST_ID, length)
        return [
            SimpleNamespace(
                first_id=from_id, piece=piece, reason=DeathReason.REJECTED, delivery_count=0, acquired_count=0
            )
        ]

    def dead_letter_confirmed(self, *arguments: Any) -> None:
        *_, reached, on_answer = arguments
        self.reached.append(set(reached))
        self.published.append(on_answer)

    def release(self, queue: Queue, messages: Sequence[DeadMessage], now: int, on_answer: OnArrival) -> None:
        self.released.append((len(messages), on_answer))
        for nth in range(len(messages)):
            self.published.append(lambda arrival, nth=nth: on_answer([nth], arrival, set()))

    def settle_all(self) -> None:
        while self.proposed:
            self.proposed.pop()[1](True)

    def propose(self, ops: Sequence[Op], on_done: Callable[[bool], None]) -> None:
        ((settled,),) = ops
        self.proposed.append((list(settled), on_done))

    def pass_ms(self, ms: int) -> None:
        self.now_s += ms / 1000
        self.worker.look()


def test_what_arrives_while_the_word_of_others_is_lost_is_said_with_them() -> None:
    """They stayed in flight for ever, and when that was as many as may be, no dead letter left any more."""
    world = Worker(4)
    world.worker.look()
    for published in world.published[:3]:
        published(Arrival.ARRIVED)
    ((first, done),) = world.proposed
    assert first == [(1, 1)], "one word at a time"
    done(False)
    world.worker.look()
    assert world.proposed[1][0] == [(1, 3)]
    world.published[3](Arrival.ARRIVED)
    world.proposed[1][1](True)
    assert world.proposed[2][0] == [(4, 1)]


def test_a_message_that_has_found_its_way_counts_no_more_among_those_that_have_none() -> None:
    world = Worker(1)
    world.worker.look()
    world.published[0](Arrival.NOWHERE)
    assert world.worker.nowhere == 1
    world.pass_ms(RETRY_MS)
    world.published[1](Arrival.ARRIVED)
    assert world.worker.nowhere == 0


def test_a_message_that_cannot_be_read_is_tried_again_after_a_while_and_those_behind_it_wait() -> None:
    world = Worker(3)
    world.unreadable = True
    world.worker.look()
    world.pass_ms(RETRY_MS - 1)
    assert len(world.damaged) == 1
    world.unreadable = False
    world.pass_ms(1)
    assert (len(world.damaged), len(world.published)) == (1, 3)


def test_each_is_looked_at_once_however_many_are_on_their_way() -> None:
    world = Worker(10 * RELEASED_MAX, HOLDING)
    world.worker.look()
    for at in range(9 * RELEASED_MAX):
        world.published[at](Arrival.ARRIVED)
        if at % 100 == 0:
            world.settle_all()
    world.settle_all()
    assert len(world.published) == 10 * RELEASED_MAX
    assert world.looked_at <= 12 * RELEASED_MAX  # the first look asks for twice as many as it takes


def test_behind_a_lost_leader_more_go_while_the_first_have_arrived_and_are_not_settled() -> None:
    """1,024 were on their way until the log had said that they had arrived: on busy nodes, 5,000 a second of 10,000 that fell
    due. No turn looks at more than that many."""
    world = Worker(10 * RELEASED_MAX, HOLDING)
    world.worker.look()
    for _ in range(RELEASED_MAX // LOOKED_AT_MAX - 1):
        count, on_answer = world.released[-1]
        assert count == LOOKED_AT_MAX
        on_answer(range(count), Arrival.ARRIVED, set())
    world.worker.look()
    assert (len(world.published), len(world.proposed)) == (RELEASED_MAX, 1)


def test_one_that_is_refused_is_looked_for_when_its_time_has_come_and_no_other_twice() -> None:
    world = Worker(100, HOLDING)
    world.worker.look()
    world.published[5](Arrival.REFUSED)
    world.pass_ms(RETRY_MS - 1)
    assert (len(world.published), world.looked_at) == (100, 100)
    world.pass_ms(1)
    assert (len(world.published), world.looked_at) == (101, 200)
    world.published[-1](Arrival.ARRIVED)
    world.settle_all()
    world.pass_ms(RETRY_MS)
    assert (len(world.published), world.looked_at) == (101, 200)


def test_of_those_released_together_only_what_has_arrived_is_settled_and_the_rest_goes_to_queues_without_it() -> None:
    world = Worker(5, HOLDING)
    world.worker.look()
    ((together, tell),) = world.released
    assert together == 5, "all that are due are handed over at once"
    tell([0, 1, 3, 4], Arrival.ARRIVED, {7, 8})
    tell([2], Arrival.REFUSED, {8})
    ((settled, done),) = world.proposed
    assert settled == [(1, 2), (4, 2)]
    world.pass_ms(RETRY_MS)
    assert world.reached == [{8}]
    assert len(world.released) == 1, "what goes again goes alone"
    world.published[-1](Arrival.ARRIVED)
    done(True)
    assert world.proposed[1][0] == [(3, 1)]


def test_a_leadership_that_has_ended_settles_nothing_that_arrives_later() -> None:
    world = Worker(2, HOLDING)
    world.worker.look()
    world.worker.end()
    _, tell = world.released[0]
    tell([0], Arrival.ARRIVED, {7})
    tell([1], Arrival.REFUSED, {7})
    assert (world.proposed, world.worker.nowhere, world.worker._arrived, world.worker._reached) == ([], 0, [], {})


def test_large_ones_go_a_few_at_a_time_and_one_that_is_larger_alone() -> None:
    world = Worker(3, HOLDING)
    large = encode(b"\0\0", bytes(IN_FLIGHT_BYTES_MAX))
    world.body.content = large * 3
    world.worker.look()
    assert len(world.published) == 1
    world.published[0](Arrival.ARRIVED)
    world.settle_all()
    assert len(world.published) == 2


def test_small_enough_ones_go_together_up_to_so_many_bytes() -> None:
    world = Worker(3, HOLDING)
    world.body.content = encode(b"\0\0", bytes(IN_FLIGHT_BYTES_MAX // 2)) * 3
    world.worker.look()
    assert len(world.published) == 2


def test_one_that_is_refused_after_others_were_published_is_tried_again() -> None:
    """Most refusals come from another node: by then the worker has looked beyond that message."""
    world = Worker(3)
    world.worker.look()
    assert len(world.published) == 3
    world.published[0](Arrival.REFUSED)
    for published in world.published[1:3]:
        published(Arrival.ARRIVED)
    world.settle_all()
    world.pass_ms(RETRY_MS - 1)
    assert len(world.published) == 3
    world.pass_ms(1)
    assert len(world.published) > 3


def test_what_arrives_while_another_waits_to_be_tried_again_is_settled_without_waiting() -> None:
    world = Worker(3)
    world.worker.look()
    world.published[0](Arrival.ARRIVED)
    world.published[1](Arrival.REFUSED)
    world.published[2](Arrival.ARRIVED)
    ((first, done),) = world.proposed
    assert first == [(1, 1)]
    done(True)
    assert world.proposed[1][0] == [(3, 1)]
    assert world.worker._reached.keys() == {2}, "where it is known is kept of what is refused alone"


def test_one_with_nowhere_to_go_is_never_left_alone_for_longer_than_is_said() -> None:
    world = Worker(1)
    world.worker.look()
    for _ in range(20):
        world.published[-1](Arrival.NOWHERE)
        before = len(world.published)
        world.pass_ms(NOWHERE_RETRY_MS_MAX)
        assert len(world.published) == before + 1

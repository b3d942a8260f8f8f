"""The consumers of one quorum queue on this node: what the queue gives to each of them, and those that have left.

    subscriptions   consumers, by the number the session gave them
    departed        those that have left, while something may still come for them: it goes back to the queue

Deliveries come from the member of this node, or from the leader's node where this node has none. They are passed on when the
queue is pumped, as far as clients have room. After a gap in them, or with a new member, the machine is asked what is out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from broker.actors import LogActor
from broker.errors import AccessRefused
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, Queue, QueueHost, QueueStatistics
from native.content import take
from quorum.bodies import Body
from quorum.fifo.commands import Cancel, Consume, ConsumerKey, UponCancel, Window
from quorum.fifo.consumers import MachineConsumer
from quorum.fifo.effects import Deliver
from quorum.fifo.results import ResultCode
from quorum.fifo.rules import Rules
from quorum.leading import Leading
from quorum.letters import QueueNews
from quorum.member import QueueMember
from quorum.session import QueueSession
from quorum.subscription import Departed, Subscription, WaitingDelivery, slice_of, without_first
from quorum.windows import Windows
from raft.core.errors import Damaged
from replicated.ports import QueuePorts
from replicated.remote_serving import RemoteServing

DELIVERY_BYTES_MAX = 1 << 20  # given to a client in one go
UNSEEN_MAX = (1 << 31) - 1  # one range of SETTLE, whatever reads it: more than a consumer is ever handed out at a time


class ConsumedQueue(Queue, Protocol):
    """The queue whose consumers these are."""

    @property
    def group(self) -> int: ...

    @property
    def session(self) -> QueueSession: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def member(self) -> QueueMember | None: ...

    @property
    def readable_member(self) -> QueueMember | None: ...

    @property
    def leading(self) -> Leading | None: ...

    @property
    def news(self) -> QueueNews: ...

    @property
    def remote_serving(self) -> RemoteServing | None: ...

    def attend(self) -> None: ...

    def say_who(self, number: int, actor: LogActor | None) -> None: ...


class LocalConsumers:
    """See the module."""

    def __init__(self, queue: ConsumedQueue, ports: QueuePorts, host: QueueHost, figures: QueueStatistics) -> None:
        """What is delivered is counted in `figures`."""
        self.subscriptions: dict[int, Subscription] = {}
        self.departed: dict[int, Departed] = {}
        self.windows = Windows(
            queue, self.subscriptions, self.give_back_waiting, self.answered_at, queue.session, host, ports.loop
        )
        self._queue = queue
        self._ports = ports
        self._host = host
        self._figures = figures
        self._by_consumer: dict[Consumer, Subscription] = {}
        self._leaving: list[Subscription] = []  # single active, and their session ends: until what they hold is back
        self.must_look_up = False  # what is out to our consumers is to be looked up in the machine

    def __bool__(self) -> bool:
        return bool(self.subscriptions or self.departed)

    # ------------------------------------------------------------------------- coming and going

    def consume(self, consumer: Consumer) -> Pending[None]:
        """Answered when the group knows the consumer; it waits for a leader if there is none."""
        queue, session = self._queue, self._queue.session
        self._check_access(consumer)
        number = session.new_number()
        subscription = Subscription(consumer, number, self._host)
        self.subscriptions[number] = self._by_consumer[consumer] = subscription
        consumer.active = not queue.rules.single_active
        consumer.timeout_ms = self._timeout_of(consumer)
        timeout = consumer.arguments.get("x-consumer-timeout")
        op = Consume(
            session.consumer_key(number), consumer.tag, consumer.window, consumer.no_ack, consumer.exclusive,
            consumer.priority, timeout,
        )  # fmt: skip
        answer: Pending[None] = Pending()
        session.say(op, partial(self._consumed, subscription, answer))
        queue.say_who(number, consumer.actor)
        queue.attend()
        session.flush()
        return answer

    def keep_rules(self) -> None:
        """The queue's have changed."""
        for subscription in self.subscriptions.values():
            subscription.consumer.timeout_ms = self._timeout_of(subscription.consumer)

    def _timeout_of(self, consumer: Consumer) -> int | None:
        own: int | None = consumer.arguments.get("x-consumer-timeout")
        return self._queue.rules.consumer_timeout_ms if own is None else own

    def _check_access(self, consumer: Consumer) -> None:
        """As far as is known here; what other nodes say at the same time the machine puts in order. An exclusive one is alone,
        so the first tells of all: who looks at each has 10,000 consumers wait for half a minute."""
        queue = self._queue
        first = next(iter(self.subscriptions.values()), None)
        exclusive = first is not None and first.consumer.exclusive
        if queue.member is None:
            exclusive = exclusive or (queue.news.exclusive and not self.departed)
        else:
            other = next(iter(queue.member.machine.state.consumers.subscribed()), None)
            exclusive = exclusive or (other is not None and other.exclusive and other.key[:2] != queue.session.key)
        if exclusive or (consumer.exclusive and (self.count_everywhere() or queue.rules.single_active)):
            raise self._in_use()

    def _consumed(self, subscription: Subscription, answer: Pending[None], result: Any) -> None:
        if isinstance(result, ResultCode) and subscription.number in self.subscriptions:
            self._forget(subscription)
            answer.fail(self._in_use())
            return
        subscription.known = True  # or it has left: said again, it is taken for one that was refused
        answer.resolve(None)
        self._host.wake(self._queue)

    def _in_use(self) -> AccessRefused:
        return AccessRefused(f"{self._queue.record.label} in exclusive use")

    def cancel(self, consumer: Consumer) -> None:
        subscription = self._by_consumer.get(consumer)
        if subscription is None:
            return
        self._forget(subscription)
        self.departed[subscription.number] = Departed(subscription.next_id)
        self._take_back_unseen(subscription)
        if consumer.session_ends and consumer.outstanding and self._queue.rules.single_active:
            self._leaving.append(subscription)
        else:
            self._say_that_it_left(subscription)
        self._host.wake(self._queue)

    def _take_back_unseen(self, subscription: Subscription) -> None:
        """Its client keeps what it was given. All else goes back before another consumer is given anything, also what is still
        on its way here: with a single active consumer the next one begins at that."""
        session, number = self._queue.session, subscription.number
        session.say(Window(session.consumer_key(number), 0))  # or what goes back would be handed out to it again
        session.settle(number, subscription.first_unseen, UNSEEN_MAX, Outcome.RETURNED)

    def _say_that_it_left(self, subscription: Subscription) -> None:
        session, number = self._queue.session, subscription.number
        session.say(Cancel(session.consumer_key(number), UponCancel.STAYS), partial(self._cancelled, number))

    def _cancel_settled(self) -> None:
        """What a single active consumer held when its session ended is ready again: only now the next one may be active, which
        would be given later messages before it."""
        for subscription in [one for one in self._leaving if not one.consumer.outstanding]:
            self._leaving.remove(subscription)
            self._say_that_it_left(subscription)

    def _cancelled(self, number: int, _: Any) -> None:
        self.departed[number].known_at = self.answered_at()
        self._host.wake(self._queue)

    def answered_at(self) -> int:
        """Index of the state that an answer speaks of; what this node's own member leads, it has seen."""
        return 0 if self._queue.leading is not None else self._queue.news.applied

    def _forget(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.number]
        del self._by_consumer[subscription.consumer]
        self._queue.session.ahead = False

    def _forget_departed(self) -> None:
        """Those to whom nothing can come any more: the member here has seen that they left. Where there is none, the node
        that serves us says so (replicated/remote_serving.py)."""
        member = self._queue.member
        if member is None:
            return
        applied = member.machine.state.applied
        for number, departed in list(self.departed.items()):
            if departed.known_at is not None and departed.known_at <= applied:
                del self.departed[number]

    def timed_out(self, number: int) -> None:
        """A consumer of this node did not settle in time. What is out to it can still be settled."""
        subscription = self.subscriptions.get(number)
        if subscription is not None:
            consumer = subscription.consumer
            self.cancel(consumer)
            consumer.timed_out = True
            consumer.sink.consumer_cancelled(consumer)

    def clear(self) -> None:
        """The queue is deleted."""
        self.subscriptions.clear()
        self.departed.clear()
        self._by_consumer.clear()
        self._leaving.clear()

    # ------------------------------------------------------------------------- who consumes

    def count_everywhere(self) -> int:
        return self._count_elsewhere() + len(self.subscriptions)

    def _count_elsewhere(self) -> int:
        queue = self._queue
        if queue.member is None:
            return max(0, queue.news.consumers - len(self.subscriptions) - len(self.departed))
        return sum(1 for _ in self._elsewhere())

    def _elsewhere(self) -> Iterable[MachineConsumer]:
        """Consumers of other nodes, as the machine here knows them."""
        queue = self._queue
        subscribed = queue.member.machine.state.consumers.subscribed() if queue.member is not None else ()
        return (one for one in subscribed if one.key[:2] != queue.session.key)

    def set_active(self, active: ConsumerKey | None) -> None:
        """Of a queue with a single active consumer."""
        if not self._queue.rules.single_active:
            return
        for subscription in self.subscriptions.values():
            subscription.consumer.active = active == (*self._queue.session.key, subscription.number)

    def with_next_ids(self) -> Sequence[tuple[int, int]]:
        """Number, and the first delivery that has not come."""
        consumers = [(one.number, one.next_id) for one in self.subscriptions.values()]
        return consumers + [(number, departed.next_id) for number, departed in self.departed.items()]

    # ------------------------------------------------------------------------- what comes for them

    def take(self, number: int, delivery: WaitingDelivery) -> None:
        """Messages have come for a consumer of this node."""
        subscription = self.subscriptions.get(number)
        if subscription is not None:
            if not subscription.take(delivery):
                self._missed()
            return
        departed = self.departed.get(number)
        if departed is None:
            return
        # Its client left before they came; some may have come before, for what is sent may repeat.
        missed = max(0, departed.next_id - delivery.first_id)
        if missed < delivery.length:
            departed.next_id = delivery.first_id + delivery.length
            self._give_back(number, without_first(delivery, missed) if missed else delivery)

    def skip_to(self, firsts: Sequence[tuple[int, int]]) -> None:
        """Consumers to which nothing is out before these ids: where something is missing, it was settled on its way here."""
        for number, first_id in firsts:
            subscription = self.subscriptions.get(number)
            if subscription is not None:
                subscription.skip_to(first_id)

    def _missed(self) -> None:
        """Something on the way was lost: what is out is looked up where it is known."""
        if self._queue.member is not None:
            self.resync()
        elif self._queue.remote_serving is not None:
            self._queue.remote_serving.missed()

    def resync(self) -> None:
        """Look up what is out to them with the next pump."""
        self.must_look_up = True
        self._host.wake(self._queue)

    def look_up(self) -> None:
        """The machine knows what our consumers have been given, and who of them timed out, also by entries that this member
        never saw."""
        member = self._queue.member
        if not self.must_look_up:
            return
        self.must_look_up = False
        if member is None:
            return
        self.set_active(member.active)
        consumer_key = self._queue.session.consumer_key
        for subscription in list(self.subscriptions.values()):
            for effect in member.machine.checked_out(consumer_key(subscription.number), subscription.next_id):
                subscription.skip_to(effect.first_id)  # what lies between was settled
                subscription.take(waiting_delivery(effect))
            if member.has_timed_out(consumer_key(subscription.number)):
                self.timed_out(subscription.number)
        for number, departed in self.departed.items():
            for effect in member.machine.checked_out(consumer_key(number), departed.next_id):
                self.take(number, waiting_delivery(effect))

    def take_back(self) -> None:
        """The member of this node is gone: what clients were not given yet is to come again, from somewhere else."""
        for subscription in self.subscriptions.values():
            subscription.take_back()

    def give_back_waiting(self, subscription: Subscription) -> None:
        for delivery in subscription.waiting:
            self._give_back(subscription.number, delivery)
        subscription.waiting.clear()

    def _give_back(self, number: int, delivery: WaitingDelivery) -> None:
        self._queue.session.settle(number, delivery.first_id, delivery.length, Outcome.RETURNED)
        self._host.wake(self._queue)

    # ------------------------------------------------------------------------- what clients get

    def pump(self, now: int) -> None:
        if self._leaving:
            self._cancel_settled()
        member = self._queue.member
        alone = member is not None and member.machine.state.consumers.count == 1  # else none begins to be ahead
        for subscription in list(self.subscriptions.values()):
            if subscription.known:
                if subscription.waiting:
                    self._deliver(subscription, now)
                if alone or subscription.waiting or subscription.ahead.messages:
                    self._keep_ahead(subscription, now)
                self.windows.keep(subscription)
        if self.departed:
            self._forget_departed()

    def _keep_ahead(self, subscription: Subscription, now: int) -> None:
        """See quorum/ahead.py."""
        ahead, queue = subscription.ahead, self._queue
        state = queue.member.machine.state if queue.member is not None else None
        waits = bool(subscription.waiting)
        ahead.keep(subscription.own_window, state, waits, now)
        if waits:
            if ahead.gives_back(state.applied if state is not None else queue.news.applied, now):
                self.give_back_waiting(subscription)
            ahead.look_again(self._host.call_after, partial(self._host.wake, queue))

    def _deliver(self, subscription: Subscription, now: int) -> None:
        """As much as its client can be given now. The group keeps to its window; but what it took away, because this node was
        not heard of for long, the client may still hold, and so may other consumers of its channel."""
        consumer = subscription.consumer
        while subscription.waiting and consumer.sink.writable and subscription.number in self.subscriptions:
            room = consumer.prefetch_left()
            if not room:
                self.windows.full(subscription)
                return
            delivery = subscription.waiting[0]
            if self._was_taken_away(subscription, delivery):
                subscription.waiting.popleft()
                continue
            body = self._body(delivery)
            if body is None:
                return
            self._deliver_part(subscription, delivery, body, room, now)

    def _deliver_part(
        self, subscription: Subscription, delivery: WaitingDelivery, body: Body, room: int, now: int
    ) -> None:
        """As much of the first that waits as there is room for."""
        count = min(delivery.length, room)
        if count > 1 and len(body.content) > DELIVERY_BYTES_MAX:
            count = take(body.content, body.position, count, DELIVERY_BYTES_MAX)[0]
        if count == delivery.length:
            subscription.waiting.popleft()
        else:
            subscription.waiting[0] = without_first(delivery, count)
            delivery = delivery._replace(length=count)
        piece = slice_of(self._queue, subscription.number, delivery, body)
        if piece.redelivered:
            self._figures.redelivered += count
        if subscription.consumer.no_ack:
            self._figures.delivered_no_ack += count
            self._queue.session.settle(subscription.number, delivery.first_id, count, Outcome.ACKNOWLEDGED)
        else:
            self._figures.delivered += count
        subscription.held_back.served()
        subscription.ahead.given(count, now)
        subscription.consumer.deliver(piece, body.content)

    def _was_taken_away(self, subscription: Subscription, delivery: WaitingDelivery) -> bool:
        """The group has given it to somebody else since: the client could not be written to for too long."""
        member = self._queue.member
        if member is None or isinstance(delivery.source, Body):
            return False
        return not member.holds(self._queue.session.consumer_key(subscription.number), delivery.first_id)

    def _body(self, delivery: WaitingDelivery) -> Body | None:
        """None: it cannot be read here, or not now. A damaged member is given up then, and what is out is looked up in its
        successor; one that is sent a snapshot looks it up when it stands on that."""
        if isinstance(delivery.source, Body):
            return delivery.source
        member = self._queue.readable_member
        if member is None:
            return None
        try:
            return member.bodies.get(delivery.source)
        except Damaged as damage:
            self._ports.groups.damaged(self._queue.group, damage)
            return None


def waiting_delivery(effect: Deliver) -> WaitingDelivery:
    return WaitingDelivery(
        effect.first_id, effect.piece.length, effect.delivery_count, effect.acquired_count, effect.piece
    )

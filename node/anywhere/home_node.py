"""Another node whose classic queues clients of this one use, as long as the link to it lives.

    receipts        of publishes that were sent there, by number, until it answers
    subscriptions   consumers of this node's clients
    settles         gathered in this turn, as ranges

When the link breaks, publishes that were not answered are refused, consumers are cancelled, and what a client still holds can
be settled to no effect: its home has requeued it. Whoever asks for something is told that the home node is down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from broker.errors import BrokerError, NotFound, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.names import not_found
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.held_back import HeldBack
from broker.queues.queue_type import Outcome, Queue, Slice
from broker.queues.shared_limit import WakingHost
from node.anywhere import wire as words
from node.anywhere.wire import Op
from node.peers.calls import CLASSIC, PAYLOAD_BYTES_MAX, Payload, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

T = TypeVar("T")

WINDOW_BYTES_MAX = 4 << 20  # what may be under way to one consumer
WINDOW_BYTES_MIN = 64 << 10
CONTENT_BYTES_MAX = PAYLOAD_BYTES_MAX - (1 << 20)  # what is said about it, too, must fit


class UsedQueue(Queue, Protocol):
    """A queue of that node, as this one has it: node/anywhere/remote_queues.py."""

    arrived: deque[tuple[RemoteSubscription, words.RemoteDelivery]]  # for its consumers, in the order of the queue
    subscriptions: dict[Consumer, RemoteSubscription]

    @property
    def host(self) -> WakingHost: ...

    def is_down(self) -> NotFound:
        """What is said of it when its home cannot be asked."""


class UsedNodes(Protocol):
    """What all homes have in common."""

    host: WakingHost
    calls: PeerCalls
    reads_deaths: Callable[[NodeId], bool]


class Home:
    """Another node while its link lives."""

    def __init__(self, node: NodeId, remote: UsedNodes) -> None:
        self.node = node
        self.alive = True
        self.held = False  # it takes no publishes for now
        self._remote = remote
        self._published = 0  # number of the newest publish with a receipt
        self._receipts: dict[int, tuple[Receipt, int]] = {}  # by number, and how many queues owe it
        self._subscriptions: dict[int, RemoteSubscription] = {}
        self._settles: list[tuple[int, int, int, int]] = []  # outcome, number, first tag, the one behind the last

    def tell(self, payload: Payload) -> None:
        if self._settles:
            self._tell_settles()
        self._remote.calls.tell(self.node, CLASSIC, payload)

    def ask(self, queue: UsedQueue, payload: bytes, decode: Callable[[bytes], T]) -> Pending[T]:
        """What a good answer says; NotFound if the queue is gone, or the link breaks."""
        pending: Pending[T] = Pending()

        def answered(answer: bytes | None) -> None:
            if answer is None:
                pending.fail(queue.is_down())
                return
            try:
                result = self._result(queue, answer, decode)
            except BrokerError as error:
                pending.fail(error)
            except Exception:  # unreadable, or a fault of ours: the link ends, and with it what is asked
                pending.fail(queue.is_down())
                raise
            else:
                pending.resolve(result)

        if self._settles:
            self._tell_settles()
        self._remote.calls.ask(self.node, CLASSIC, payload, answered)
        return pending

    def _result(self, queue: UsedQueue, answer: bytes, decode: Callable[[bytes], T]) -> T:
        if answer[:1] == bytes((words.DONE,)):
            return decode(answer)
        if answer[:1] == bytes((words.REFUSED,)):
            raise words.decode_refusal(answer)
        raise not_found("queue", queue.record.name, queue.record.vhost)

    # publishing

    def publish(self, queue_ids: Sequence[int], run: Run, receipt: Receipt | None) -> None:
        if len(run.content) > CONTENT_BYTES_MAX:
            raise ResourceExhausted(
                f"{len(run.content)} bytes for a queue on another node: at most {CONTENT_BYTES_MAX} can be sent there"
            )
        number = 0
        if receipt is not None:
            number = self._published = self._published + 1
            self._receipts[number] = receipt, len(queue_ids)
        tells_death = run.died_in is not None and self._remote.reads_deaths(self.node)
        self.tell(words.encode_publish(queue_ids, number, run, tells_death=tells_death))

    def confirm(self, first: int, last: int, accepted: bool) -> None:
        """The home has answered for these."""
        for number in range(first, last + 1):
            owed = self._receipts.pop(number, None)
            if owed is None:
                raise BadBytes(f"publish {number} of {first} to {last} waits for no answer")
            receipt, queue_count = owed
            for _ in range(queue_count):
                if accepted:
                    receipt.accepted()
                else:
                    receipt.refused()

    def refuse_part(self, number: int, refused: Sequence[int]) -> None:
        """The home takes the others of this publish, and will say so."""
        owed = self._receipts.get(number)
        if owed is None:
            raise BadBytes(f"publish {number} is refused in part, and waits for no answer")
        receipt = owed[0]
        for at in refused:
            if at > receipt.last - receipt.first:
                raise BadBytes(f"message {at} of publish {number} is refused, which has no such")
            receipt.refuse_tag(receipt.first + at)

    # consuming

    def consume(self, subscription: RemoteSubscription) -> Pending[None]:
        """Fails with what the home refuses it for."""
        queue, consumer = subscription.queue, subscription.consumer
        number, prefetch = subscription.number, subscription.prefetch
        self._subscriptions[number] = subscription
        credit = 0 if subscription.stopped else subscription.window
        wish = words.RemoteConsume(
            queue.record.id, number, consumer.exclusive, prefetch, consumer.priority, credit, consumer.tag
        )
        consuming: Pending[None] = Pending()

        def began(active: bool) -> None:
            consumer.active = active
            consuming.resolve(None)

        def refused(error: BrokerError) -> None:
            self._subscriptions.pop(number, None)
            queue.subscriptions.pop(consumer, None)
            consuming.fail(error)

        self.ask(queue, words.encode_consume(wish), words.decode_flag).then(began, refused)
        return consuming

    def deliver(self, delivery: words.RemoteDelivery) -> None:
        subscription = self._subscriptions.get(delivery.number)
        if subscription is not None:  # else it is cancelled, and its home takes this back when it hears of that
            subscription.queue.arrived.append((subscription, delivery))
            self._remote.host.wake(subscription.queue)

    def give_back(self, delivery: words.RemoteDelivery) -> None:
        """No client has seen it."""
        self.settle(Outcome.RETURNED, delivery.number, delivery.first, delivery.first + delivery.message_count)

    def set_active(self, number: int, active: bool) -> None:
        subscription = self._subscriptions.get(number)
        if subscription is not None:
            subscription.consumer.active = active

    def cancel(self, subscription: RemoteSubscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is not None:
            self.tell(words.encode_cancel(subscription.number, subscription.next_tag))

    def forget(self, subscription: RemoteSubscription) -> None:
        """Its queue is deleted."""
        self._subscriptions.pop(subscription.number, None)

    def settle(self, outcome: Outcome, number: int, first: int, end: int) -> None:
        settles = self._settles
        if not settles:
            self._remote.calls.at_turn_end(self._tell_settles)
        elif settles[-1][:2] == (outcome, number) and settles[-1][3] == first:
            settles[-1] = outcome, number, settles[-1][2], end
            return
        settles.append((outcome, number, first, end))

    def _tell_settles(self) -> None:
        settles, self._settles = self._settles, []
        if self.alive:
            for settle in settles:
                self._remote.calls.tell(self.node, CLASSIC, words.encode_settle(*settle))

    # the end

    def end(self) -> None:
        """The link is gone. Who asked was told already."""
        self.alive = False
        receipts, self._receipts = self._receipts, {}
        for receipt, queue_count in receipts.values():
            for _ in range(queue_count):
                receipt.refused()
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscription in subscriptions.values():
            del subscription.queue.subscriptions[subscription.consumer]
            subscription.consumer.sink.consumer_cancelled(subscription.consumer)


class Source:
    """Where messages came from that a client holds: the handle of their slices."""

    __slots__ = ("home", "number")

    def __init__(self, home: Home, number: int) -> None:
        self.home = home
        self.number = number


class RemoteSubscription(Source):
    """A consumer of this node's clients. Its home may send what it has credit for. When the client's socket takes no more, what
    has come goes back, for others to take; each time it gets less credit then, and more as long as that does not happen."""

    __slots__ = (
        "consumer",
        "held_back",
        "next_tag",
        "passed_bytes",
        "prefetch",
        "queue",
        "stopped",
        "waiting",
        "window",
    )

    def __init__(self, home: Home, number: int, queue: UsedQueue, consumer: Consumer) -> None:
        super().__init__(home, number)
        self.queue = queue
        self.consumer = consumer
        self.prefetch = consumer.window  # as its home knows it
        self.window = WINDOW_BYTES_MAX  # credit of a consumer for which nothing is under way
        self.next_tag = 1  # of the first message that was neither passed on nor given back
        self.passed_bytes = 0  # to the client, since its home was told
        self.stopped = not consumer.sink.writable
        self.held_back = HeldBack(consumer, queue.host)
        self.waiting: deque[words.RemoteDelivery] = deque()  # has come, and the limit of the channel keeps it here

    def look(self) -> None:
        """What has changed since its home was told: it may go on, or must stop, or has another prefetch."""
        consumer = self.consumer
        if consumer.window != self.prefetch:
            self.prefetch = consumer.window
            self.home.tell(words.encode_prefetch(self.number, self.prefetch))
        may_come = consumer.sink.writable and not self.held_back.still()
        if self.stopped != may_come:
            return
        self.stopped = not may_come
        if may_come:
            self.passed_bytes = 0
            self.home.tell(words.encode_credit(self.number, self.window))
            return
        if not consumer.sink.writable:
            self.window = max(self.window // 4, WINDOW_BYTES_MIN)
        self.home.tell(words.encode_number(Op.STOP, self.number))

    def serve(self) -> None:
        """Pass on what the client takes and the limit of its channel allows; the rest waits, or goes back."""
        while self.waiting and not self.stopped:
            if not self.consumer.sink.writable:
                self.look()
                break
            room = self.consumer.shared_left()
            if not room:
                if not self.held_back.keep_waiting():
                    self.look()
                break
            self.held_back.served()
            delivery = self.waiting.popleft()
            if delivery.message_count > room:
                delivery, rest = words.divided(delivery, room)
                self.waiting.appendleft(rest)
            self.next_tag = delivery.first + delivery.message_count
            self.pass_on(delivery)
        if self.stopped:
            while self.waiting:
                delivery = self.waiting.popleft()
                self.next_tag = delivery.first + delivery.message_count
                self.home.give_back(delivery)

    def pass_on(self, delivery: words.RemoteDelivery) -> None:
        """To the client."""
        redelivered, number, first, count, exchange, routing_key, payload, position = delivery
        consumer, home = self.consumer, self.home
        self.passed_bytes += len(payload) - position
        consumer.deliver(Slice(self.queue, self, first, count, position, exchange, routing_key, redelivered), payload)
        if not home.alive:
            return
        if consumer.no_ack:
            home.settle(Outcome.ACKNOWLEDGED, number, first, first + count)
        if self.passed_bytes >= self.window // 4:
            more = min(self.window, WINDOW_BYTES_MAX - self.window)
            self.window += more
            home.tell(words.encode_credit(number, self.passed_bytes + more))
            self.passed_bytes = 0

"""Another node whose clients use the classic queues of this one, as long as the link to it lives.

    subscribers     its clients' consumers, each a consumer of its queue like any other, with
    held            what it was given and is not settled, by tags; also of gets
    credit          bytes that it may still be given: what its client's socket does not take stays in the queue, or comes
                    back to it, and holds up no other consumer

For a consumer that does not acknowledge its node does so when a message was passed on to the client: what is in flight between
the nodes when a consumer is cancelled comes back. When the link is gone, its consumers are cancelled and what they held is
requeued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from broker.actors import ActorKind, GoneReason, LogActor
from broker.messages.confirms import Answer as Confirmed
from broker.messages.confirms import Receipt, merged
from broker.queues.consumer import Consumer
from broker.queues.queue_type import BackReason, Outcome, Queue, Slice
from broker.session.deliveries import Unacknowledged
from native.content import skip
from node.anywhere import wire as words
from node.peers.calls import CLASSIC, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

CREDIT_BYTES_MAX = 16 << 20  # of a subscriber: more is not believed
# What a node says of why messages come back; that its client's channel or connection ended is not told apart from a reject.
BACK_REASONS = {Outcome.RETURNED: BackReason.NEVER_SEEN, Outcome.RELEASED: BackReason.NACKED}


class HomeHost(Protocol):
    """What the broker does."""

    def wake(self, queue: Queue) -> None: ...

    def deliver_from(self, queue: Queue, now: int) -> None: ...


class Taker:
    """Who holds messages of a queue on another node: one that got a message, or a consumer."""

    consumer: Consumer | None = None
    stays = False  # also when nothing is held

    def __init__(self, number: int, queue: Queue, piece: Slice | None = None) -> None:
        self.number = number
        self.queue = queue
        self.held = Unacknowledged()
        if piece is not None:
            self.held.add(1, piece, None)


class Subscriber(Taker):
    """A consumer on another node. Fulfils DeliverySink."""

    def __init__(self, peer: AwayNode, queue: Queue, wish: words.RemoteConsume) -> None:
        super().__init__(wish.number, queue)
        self.stays = True
        self.peer = peer
        self.credit = min(wish.credit, CREDIT_BYTES_MAX)
        self.next_tag = 1
        self.says_active = False  # not before its node knows that it consumes
        self.consumer: FarConsumer = FarConsumer(wish, queue, self)

    @property
    def writable(self) -> bool:
        return self.credit > 0 and self.peer.writable

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        first = self.next_tag
        self.next_tag = first + piece.count
        self.held.add(first, piece, consumer)
        part = messages_of(content, piece)
        self.credit -= len(part)
        self.peer.say(
            words.encode_deliver(
                piece.redelivered, self.number, first, piece.count, piece.exchange, piece.routing_key, part
            )
        )

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("only consumers that the broker knows are told")

    def active_changed(self, active: bool) -> None:
        if self.says_active:
            self.peer.say(words.encode_active(self.number, active))


class FarConsumer(Consumer):
    """Tells its node when the queue has made it its active one."""

    __slots__ = ("_active", "_subscriber")

    def __init__(self, wish: words.RemoteConsume, queue: Queue, subscriber: Subscriber) -> None:
        self._active = True
        self._subscriber = subscriber
        actor = LogActor(
            ActorKind.CONSUMER, subscriber.peer.actor, tag=wish.tag, queue=queue.record.name, prefetch=wish.prefetch
        )
        super().__init__(
            wish.tag,
            queue,
            subscriber,
            prefetch=wish.prefetch,
            exclusive=wish.exclusive,
            priority=wish.priority,
            actor=actor,
        )

    @property
    def active(self) -> bool:
        return self._active

    @active.setter
    def active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self._subscriber.active_changed(active)


class PublishedAway:
    """Tells a node what became of one of its publishes; tags count the run's messages from 0. Fulfils AnswersTo."""

    __slots__ = ("_in_part", "_number", "_peer")

    def __init__(self, peer: AwayNode, number: int, in_part: bool) -> None:
        self._peer = peer
        self._number = number
        self._in_part = in_part

    def answered(self, receipt: Receipt) -> None:
        refused = receipt.refused_tags
        if refused is None or receipt.refusals or not self._in_part:
            self._peer.answer(self._number, receipt.taken)
        else:
            self._peer.refuse_part(self._number, sorted(refused))

    def given_up(self, receipt: Receipt) -> None:
        self._peer.answer(self._number, False)


class AwayNode:
    """Another node while its link lives."""

    def __init__(self, node: NodeId, host: HomeHost, calls: PeerCalls) -> None:
        self.node = node
        self.actor = LogActor(ActorKind.NODE, address=str(node))
        self.alive = True
        self.takers: dict[int, Taker] = {}  # by number
        self.coming: dict[int, int] = {}  # consumers that wait for their queue to be here, and which
        self.waiting_bytes = 0
        self._changed: set[int] = set()  # queues of which it knows that they have become others
        self._late: dict[int, list[Callable[[], None]]] = {}  # answers for when it knows, by queue
        self._host = host
        self._calls = calls
        self._of_queue: dict[Queue, dict[int, Taker]] = {}
        self._answers: list[Confirmed] = []

    def say(self, payload: Sequence[Any] | bytes) -> None:
        self._calls.tell(self.node, CLASSIC, payload)

    # queues that have become others

    def waits_for_change(self, queue_id: int, then: Callable[[], None]) -> bool:
        """Until it has heard what became of the queue; False: it has."""
        if queue_id not in self._changed:
            self._late.setdefault(queue_id, []).append(then)
            return True
        return False

    def has_heard_of_change(self, queue_id: int) -> None:
        self._changed.add(queue_id)
        for answer in self._late.pop(queue_id, ()):
            answer()

    # receipts

    def refuse_part(self, number: int, refused: Sequence[int]) -> None:
        if self.alive:
            self.say(words.encode_partial(number, refused))
        self.answer(number, True)

    def answer(self, number: int, accepted: bool) -> None:
        if not self._answers:
            self._calls.at_turn_end(self._confirm)
        self._answers.append((number, number, accepted))

    def _confirm(self) -> None:
        answers, self._answers = self._answers, []
        if self.alive:
            self.say(words.encode_confirm(merged(answers)))

    # consumers

    @property
    def writable(self) -> bool:
        return self.alive and self._calls.writable(self.node)

    def add(self, taker: Taker) -> None:
        self.takers[taker.number] = taker
        self._of_queue.setdefault(taker.queue, {})[taker.number] = taker

    def remove(self, taker: Taker) -> None:
        del self.takers[taker.number]
        of_queue = self._of_queue[taker.queue]
        del of_queue[taker.number]
        if not of_queue:
            del self._of_queue[taker.queue]

    def held_of(self, queue: Queue) -> list[Slice]:
        """What its clients have been given and have not settled, as far as is known here."""
        return [piece for taker in self._of_queue.get(queue, {}).values() for piece in taker.held.of_queue(queue)]

    def forget(self, queue: Queue) -> None:
        """It is deleted."""
        for number in self._of_queue.pop(queue, ()):
            del self.takers[number]

    def wake_all(self) -> None:
        for queue in self._of_queue:
            self._host.wake(queue)

    def credit(self, number: int, size: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            was_out, taker.credit = taker.credit <= 0, min(taker.credit + size, CREDIT_BYTES_MAX)
            if was_out:
                self._host.wake(taker.queue)

    def stop(self, number: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            taker.credit = 0

    def set_prefetch(self, number: int, prefetch: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            taker.consumer.prefetch = prefetch
            self._host.wake(taker.queue)

    def cancel(self, number: int, unseen: int, now: int) -> None:
        """What its client has seen, from the first tag up to `unseen`, stays with it."""
        taker = self.takers.get(number)
        if not isinstance(taker, Subscriber):
            return
        if not 0 < unseen <= taker.next_tag:
            raise BadBytes(
                f"consumer {number} has seen all before {unseen}, and was given those before {taker.next_tag}"
            )
        taker.says_active = False
        taker.queue.cancel(taker.consumer, now)
        _gone(taker, GoneReason.CLOSED)
        if unseen < taker.next_tag:
            self.settle(Outcome.RETURNED, number, unseen, taker.next_tag, now)
        taker.stays = False
        if not taker.held.count:
            self.remove(taker)

    def settle(self, outcome: Outcome, number: int, first: int, end: int, now: int) -> None:
        taker = self.takers.get(number)
        if taker is None:
            return  # its queue was deleted
        taken = taker.held.take_range(first, end - 1)
        if taken is None:
            raise BadBytes(f"not all of the tags from {first} on and before {end} are out to {number}")
        if not taker.stays and not taker.held.count:
            self.remove(taker)
        if taker.consumer is not None:
            taker.consumer.outstanding -= end - first
        queue = taker.queue
        for held in taken:
            held.back = BACK_REASONS.get(outcome, BackReason.NOT_SAID)
            queue.settle(held.slice(), outcome, now)
        self._host.wake(queue)

    def end(self, now: int) -> None:
        """The link is gone."""
        self.alive = False
        takers, self.takers, self._of_queue = self.takers, {}, {}
        for taker in takers.values():
            if taker.stays:
                cast(Subscriber, taker).says_active = False
                taker.queue.cancel(cast(Consumer, taker.consumer), now)
        for taker in takers.values():
            for held in taker.held.take_all():
                held.back = BackReason.CONNECTION_LOST
                taker.queue.settle(held.slice(), Outcome.REQUEUED, now)
            _gone(taker, GoneReason.CONNECTION_LOST)
            self._host.wake(taker.queue)
        self.actor.gone(GoneReason.CONNECTION_LOST)


def _gone(taker: Taker, reason: GoneReason) -> None:
    if taker.consumer is not None and taker.consumer.actor is not None:
        taker.consumer.actor.gone(reason)


def messages_of(content: bytes, piece: Slice) -> memoryview | bytes:
    """These messages and no others."""
    end = skip(content, piece.position, piece.count)
    if piece.position == 0 and end == len(content):
        return content
    return memoryview(content)[piece.position : end]

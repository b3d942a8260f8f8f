"""The classic queues of this node, served to clients of other nodes. What is said is in node/anywhere/wire.py.

For each other node, as long as its link lives:

    subscribers     its clients' consumers, each a consumer of its queue like any other, with
    held            what it was given and is not settled, by tags; also of gets
    credit          bytes that it may still be given: what its client's socket does not take stays in the queue, or comes
                    back to it, and holds up nobody else

Who does not acknowledge does so here, by its node, when a message was passed on to the client: what is under way between the
nodes when a consumer is cancelled comes back. When a link is gone, its consumers are cancelled and what they held is
requeued.

The node of a client may hear of a new queue before this one does: what it says about it waits until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, cast

from broker.confirms import Answer as Confirmed
from broker.confirms import Receipt, merged
from broker.consumer import Consumer
from broker.errors import BrokerError, ResourceExhausted
from broker.message import Run
from broker.queue_deletion import counted
from broker.queue_type import Got, Outcome, Queue, QueueStatistics, QueueType, Slice
from broker.session.deliveries import Unacknowledged
from native.content import skip
from node.anywhere import wire as words
from node.anywhere.wire import Op
from node.peers.calls import CLASSIC, Answer, CallsLoop, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

CREDIT_BYTES_MAX = 16 << 20  # of a subscriber: more is not believed
WAITING_BYTES_MAX = 64 << 20  # said by one node about queues that this one has not heard of
OF_CONSUMERS = frozenset({Op.CREDIT, Op.STOP, Op.PREFETCH, Op.CANCEL})

FIGURES_PER_TICK = 500
FIGURES_INTERVAL_MS = 1_000


class HomeHost(Protocol):
    """What the broker does."""

    def wake(self, queue: Queue) -> None: ...

    def deliver_from(self, queue: Queue, now: int) -> None: ...


class HomeQueues:
    """See the module. `may_come` says whether a queue of that id is declared, or may still be: it is not deleted."""

    def __init__(
        self,
        kind: QueueType,
        host: HomeHost,
        calls: PeerCalls,
        loop: CallsLoop,
        wall_ms: Callable[[], int],
        may_come: Callable[[int], bool],
    ) -> None:
        self.kind = kind
        self.host = host
        self.calls = calls
        self.loop = loop
        self.wall_ms = wall_ms
        self.queues: dict[int, Queue] = {}
        self._may_come = may_come
        self._held = False
        self._closed = False
        self._peers: dict[NodeId, _AwayNode] = {}
        self._waiting: dict[int, list[_WaitingLetter]] = {}  # by queue, for those that are not here yet
        self._told: dict[int, QueueStatistics] = {}  # figures as others know them
        self._told_at = 0
        self._to_tell: list[int] = []
        calls.on_link(self._link)
        calls.on_writable(self._writable)

    # what happens on this node

    def opened(self, queue: Queue) -> None:
        """One that lives here."""
        queue_id = queue.record.id
        self.queues[queue_id] = queue
        if queue_id in self._waiting:
            self.loop.call_soon(self._catch_up, queue_id)  # when whoever opens it knows it, too

    def deleted(self, queue: Queue) -> None:
        queue_id = queue.record.id
        del self.queues[queue_id]
        self._told.pop(queue_id, None)
        for peer in self._peers.values():
            peer.forget(queue)

    def hold(self, held: bool) -> None:
        """Other nodes publish nothing more, or do so again: too much waits for the disk."""
        if held != self._held:
            self._held = held
            for node in self._peers:
                self._tell_hold(node)

    def tick(self, now: int) -> None:
        """Tell other nodes the figures that have changed, a part of all queues at a time."""
        if not self._peers:
            return
        for queue_id in [queue_id for queue_id in self._waiting if not self._may_come(queue_id)]:
            self._catch_up(queue_id)
        if not self._to_tell and now >= self._told_at + FIGURES_INTERVAL_MS:
            self._told_at = now
            self._to_tell = list(self.queues)
        if self._to_tell:
            part, self._to_tell = self._to_tell[:FIGURES_PER_TICK], self._to_tell[FIGURES_PER_TICK:]
            self.tell_figures(part)

    def tell_figures(self, queue_ids: Sequence[int]) -> None:
        changed = []
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue is not None and (figures := replace(queue.statistics())) != self._told.get(queue_id):
                self._told[queue_id] = figures
                changed.append((queue_id, figures))
        if changed:
            said = words.encode_figures(changed)
            for node in self._peers:
                self.calls.tell(node, CLASSIC, said)

    def close(self, now: int) -> None:
        """Serve nobody any more; what clients of other nodes hold goes back to its queues."""
        self._closed = True
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.end(now)

    # links

    def _link(self, node: NodeId, came: bool) -> None:
        if self._closed:
            return
        if not came:
            self._peers.pop(node).end(self.wall_ms())
            return
        self._peers[node] = _AwayNode(node, self)
        if self._held:
            self._tell_hold(node)
        told = iter(self._told.items())
        while some := list(islice(told, FIGURES_PER_TICK)):
            self.calls.tell(node, CLASSIC, words.encode_figures(some))

    def _tell_hold(self, node: NodeId) -> None:
        self.calls.tell(node, CLASSIC, words.encode_flag(Op.HOLD, self._held))

    def _writable(self, node: NodeId) -> None:
        if not self._closed:
            self._peers[node].wake_all()

    # what other nodes say

    def hear(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        """Raises BadBytes."""
        if self._closed:
            return  # no answer: the link ends soon
        peer, op = self._peers[node], payload[0]
        if op == Op.PUBLISH:
            self._hear_publish(peer, payload)
        elif op == Op.SETTLE:
            peer.settle(*words.decode_settle(payload), self.wall_ms())
        elif op in OF_CONSUMERS:
            self._hear_of_consumer(peer, op, payload)
        elif answer is None:
            raise BadBytes(f"operation {op} was told, not asked")
        else:
            self._hear_ask(peer, op, payload, answer)

    def _hear_of_consumer(self, peer: _AwayNode, op: int, payload: bytes) -> None:
        number = words.consumer_of(payload)
        queue_id = peer.coming.get(number)
        if queue_id is not None:
            self._when_here(peer, queue_id, 0, lambda _: self._hear_of_consumer(peer, op, payload))
        elif op == Op.CREDIT:
            peer.credit(*words.decode_pair(payload))
        elif op == Op.STOP:
            peer.stop(words.decode_number(payload))
        elif op == Op.PREFETCH:
            peer.set_prefetch(*words.decode_prefetch(payload))
        else:
            peer.cancel(*words.decode_pair(payload), self.wall_ms())

    def _hear_ask(self, peer: _AwayNode, op: int, payload: bytes, answer: Answer) -> None:
        match op:
            case Op.CONSUME:
                wish = words.decode_consume(payload)
                if wish.number in peer.takers or wish.number in peer.coming:
                    raise BadBytes(f"consumer {wish.number} is there already")
                self._ask(peer, wish.queue, answer, lambda queue: self._consume(peer, queue, wish, answer))
                if wish.queue in self._waiting:
                    peer.coming[wish.number] = wish.queue
            case Op.GET:
                queue_id, number = words.decode_pair(payload)
                self._ask(peer, queue_id, answer, lambda queue: self._get(peer, queue, number, answer))
            case Op.BROWSE:
                queue_id, skip, limit = words.decode_browse(payload)
                self._ask(peer, queue_id, answer, lambda queue: self._browse(queue, skip, limit, answer))
            case Op.PURGE:
                self._ask(peer, words.decode_number(payload), answer, lambda queue: self._purge(queue, answer))
            case Op.USE:
                self._ask(peer, words.decode_number(payload), answer, lambda queue: self._use(queue, answer))
            case _:
                raise BadBytes(f"there is no operation {op}")

    def _ask(self, peer: _AwayNode, queue_id: int, answer: Answer, act: Callable[[Queue], None]) -> None:
        def try_to(queue: Queue | None) -> None:
            if queue is None:
                answer(words.QUEUE_GONE)
                return
            try:
                act(queue)
            except BrokerError as error:
                answer(words.encode_refusal(error))

        self._when_here(peer, queue_id, 0, try_to)

    def _when_here(self, peer: _AwayNode, queue_id: int, size: int, act: Callable[[Queue | None], None]) -> None:
        """Now, or when the queue is here; with None when it is deleted."""
        queue = self.queues.get(queue_id)
        if queue_id not in self._waiting and (queue is not None or not self._may_come(queue_id)):
            act(queue)
            return
        peer.waiting_bytes += size
        if peer.waiting_bytes > WAITING_BYTES_MAX:
            raise BadBytes(f"more than {WAITING_BYTES_MAX} bytes for queues that this node has not heard of")
        self._waiting.setdefault(queue_id, []).append(_WaitingLetter(peer, size, act))

    def _catch_up(self, queue_id: int) -> None:
        """The queue is here, or is not to be expected any more."""
        queue = self.queues.get(queue_id)
        waiting = self._waiting.pop(queue_id, ())
        for peer in self._peers.values():
            peer.coming = {number: queue for number, queue in peer.coming.items() if queue != queue_id}
        for one in waiting:
            one.peer.waiting_bytes -= one.size
            if one.peer.alive:
                one.act(queue)

    # publishing

    def _hear_publish(self, peer: _AwayNode, payload: bytes) -> None:
        queue_ids, number, run, in_part = words.decode_publish(payload)
        receipt = None
        if number:
            receipt = Receipt(_Published(peer, number, in_part), 0, run.count - 1, len(queue_ids))
        here = []
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue is not None and queue_id not in self._waiting:
                here.append(queue)
            else:
                self._when_here(peer, queue_id, len(payload), lambda late: self._publish_late(late, run, receipt))
        if here:
            self._publish(here, run, receipt)

    def _publish_late(self, queue: Queue | None, run: Run, receipt: Receipt | None) -> None:
        if queue is not None:
            self._publish([queue], run, receipt)
        elif receipt is not None:
            receipt.accepted()  # what was published to a queue that is gone counts as confirmed

    def _publish(self, queues: list[Queue], run: Run, receipt: Receipt | None) -> None:
        try:
            self.kind.publish(queues, run, receipt, self.wall_ms())
        except ResourceExhausted:
            if receipt is not None:
                receipt.give_up()

    # consuming

    def _consume(self, peer: _AwayNode, queue: Queue, wish: words.RemoteConsume, answer: Answer) -> None:
        subscriber = Subscriber(peer, queue, wish)
        consumer = subscriber.consumer
        queue.consume(consumer, self.wall_ms())
        peer.add(subscriber)
        subscriber.says_active = True
        answer(words.encode_flag(words.DONE, consumer.active))
        self.host.wake(queue)

    def _get(self, peer: _AwayNode, queue: Queue, number: int, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)

        def got(one: Got | None) -> None:
            if one is None:
                answer(words.NOTHING_GOT)
                return
            piece = one.piece
            if not peer.alive:
                queue.settle(piece, Outcome.RETURNED, self.wall_ms())
                self.host.wake(queue)
                return
            peer.add(Taker(number, queue, piece))
            content = _part(one.content, piece)
            answer(words.encode_got(one.remaining, piece.redelivered, piece.exchange, piece.routing_key, content))

        queue.get(False, now).then(got, lambda error: answer(words.encode_refusal(error)))
        self.host.wake(queue)  # what comes to the head now may be too old

    def _browse(self, queue: Queue, skip: int, limit: int, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)
        queue.browse(skip, limit, now).then(
            lambda found: answer(words.encode_browsed(found)), lambda error: answer(words.encode_refusal(error))
        )

    def _purge(self, queue: Queue, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)
        queue.purge(now).then(
            lambda count: answer(words.encode_count(count)), lambda error: answer(words.encode_refusal(error))
        )

    def _use(self, queue: Queue, answer: Answer) -> None:
        now = self.wall_ms()
        counted(self.host, queue, now).then(
            lambda _: answer(words.encode_statistics(queue.statistics())),
            lambda error: answer(words.encode_refusal(error)),
        )


@dataclass(slots=True)
class _WaitingLetter:
    """Something that was said about a queue that is not here yet."""

    peer: _AwayNode
    size: int
    act: Callable[[Queue | None], None]


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

    def __init__(self, peer: _AwayNode, queue: Queue, wish: words.RemoteConsume) -> None:
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
        part = _part(content, piece)
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
        super().__init__(
            wish.tag, queue, subscriber, prefetch=wish.prefetch, exclusive=wish.exclusive, priority=wish.priority
        )

    @property
    def active(self) -> bool:
        return self._active

    @active.setter
    def active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self._subscriber.active_changed(active)


class _Published:
    """Tells a node what became of one of its publishes; tags count the run's messages from 0. Fulfils AnswersTo."""

    __slots__ = ("_in_part", "_number", "_peer")

    def __init__(self, peer: _AwayNode, number: int, in_part: bool) -> None:
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


class _AwayNode:
    """Another node while its link lives."""

    def __init__(self, node: NodeId, home: HomeQueues) -> None:
        self.node = node
        self.alive = True
        self.takers: dict[int, Taker] = {}  # by number
        self.coming: dict[int, int] = {}  # consumers that wait for their queue to be here, and which
        self.waiting_bytes = 0
        self._home = home
        self._of_queue: dict[Queue, dict[int, Taker]] = {}
        self._answers: list[Confirmed] = []

    def say(self, payload: Sequence[Any] | bytes) -> None:
        self._home.calls.tell(self.node, CLASSIC, payload)

    # receipts

    def refuse_part(self, number: int, refused: Sequence[int]) -> None:
        if self.alive:
            self.say(words.encode_partial(number, refused))
        self.answer(number, True)

    def answer(self, number: int, accepted: bool) -> None:
        if not self._answers:
            self._home.calls.at_turn_end(self._confirm)
        self._answers.append((number, number, accepted))

    def _confirm(self) -> None:
        answers, self._answers = self._answers, []
        if self.alive:
            self.say(words.encode_confirm(merged(answers)))

    # consumers

    @property
    def writable(self) -> bool:
        return self.alive and self._home.calls.writable(self.node)

    def add(self, taker: Taker) -> None:
        self.takers[taker.number] = taker
        self._of_queue.setdefault(taker.queue, {})[taker.number] = taker

    def remove(self, taker: Taker) -> None:
        del self.takers[taker.number]
        of_queue = self._of_queue[taker.queue]
        del of_queue[taker.number]
        if not of_queue:
            del self._of_queue[taker.queue]

    def forget(self, queue: Queue) -> None:
        """It is deleted."""
        for number in self._of_queue.pop(queue, ()):
            del self.takers[number]

    def wake_all(self) -> None:
        for queue in self._of_queue:
            self._home.host.wake(queue)

    def credit(self, number: int, size: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            was_out, taker.credit = taker.credit <= 0, min(taker.credit + size, CREDIT_BYTES_MAX)
            if was_out:
                self._home.host.wake(taker.queue)

    def stop(self, number: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            taker.credit = 0

    def set_prefetch(self, number: int, prefetch: int) -> None:
        taker = self.takers.get(number)
        if isinstance(taker, Subscriber):
            taker.consumer.prefetch = prefetch
            self._home.host.wake(taker.queue)

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
            queue.settle(held.slice(), outcome, now)
        self._home.host.wake(queue)

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
                taker.queue.settle(held.slice(), Outcome.REQUEUED, now)
            self._home.host.wake(taker.queue)


def _part(content: bytes, piece: Slice) -> memoryview | bytes:
    """These messages and no others."""
    end = skip(content, piece.position, piece.count)
    if piece.position == 0 and end == len(content):
        return content
    return memoryview(content)[piece.position : end]

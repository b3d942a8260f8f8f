"""The classic queues of this node, served to clients of other nodes. What is said is in node/anywhere/wire.py.

Consumers of other nodes, and what they hold, are in node/anywhere/away_node.py.

The node of a client may hear of a new queue before this one does: what it says about it waits until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from broker.actors import ActorKind
from broker.errors import BrokerError, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_deletion import counted
from broker.queues.queue_type import Got, Outcome, Queue, QueueType, Slice
from node.anywhere import wire as words
from node.anywhere.away_node import AwayNode, HomeHost, PublishedAway, Subscriber, Taker, messages_of
from node.anywhere.told_figures import ToldFigures
from node.anywhere.wire import Op
from node.peers.calls import CLASSIC, Answer, CallsLoop, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

WAITING_BYTES_MAX = 64 << 20  # said by one node about queues that this one has not heard of
OF_CONSUMERS = frozenset({Op.CREDIT, Op.STOP, Op.PREFETCH, Op.CANCEL})

FIGURES_PER_TICK = 500
FIGURES_INTERVAL_MS = 1_000


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
        self._peers: dict[NodeId, AwayNode] = {}
        self._waiting: dict[int, list[_WaitingLetter]] = {}  # by queue, for those that are not here yet
        self._figures = ToldFigures()
        self._told_at = 0
        self._to_tell: list[int] = []
        self._became: dict[int, _Became] = {}  # queues that lived here, by their ids of old
        self._passing: dict[int, list[Answer]] = {}  # who asks for them before this node has heard of it
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
        self._figures.forget(queue_id)
        for peer in self._peers.values():
            peer.forget(queue)

    def became(
        self, queue_id: int, queue: Queue, kind: QueueType, when_said: Callable[[Callable[[], None]], None]
    ) -> None:
        """A queue that lived here has become another one: what is still on its way to it is for that one. `when_said` calls
        when all that was said to that one before is in it."""
        self._became[queue_id] = _Became(queue, kind, when_said)
        for answer in self._passing.pop(queue_id, ()):
            self._answer_passed(queue_id, answer)

    def has_gone(self, queue_id: int) -> None:
        """What it had become is deleted: who asks for it is told so, and who waits for an answer."""
        if self._became.pop(queue_id, None) is not None:
            for peer in self._peers.values():
                peer.has_heard_of_change(queue_id)

    def _passed(self, queue_id: int, answer: Answer) -> None:
        if queue_id in self._became:
            self._answer_passed(queue_id, answer)
        elif queue_id in self.queues or self._may_come(queue_id):  # this node is yet to be told of what it has become
            self._passing.setdefault(queue_id, []).append(answer)
        else:
            answer(words.QUEUE_GONE)

    def _forget_passing(self) -> None:
        """Of queues that are gone, and have become nothing as far as this node was told: a snapshot says no more."""
        for queue_id in [one for one in self._passing if one not in self.queues and not self._may_come(one)]:
            for answer in self._passing.pop(queue_id):
                answer(words.QUEUE_GONE)

    def _answer_passed(self, queue_id: int, answer: Answer) -> None:
        self._became[queue_id].when_said(lambda: answer(words.encode_count(0)))

    def was_refused(self, run: Run, receipt: Receipt | None) -> bool:
        """Whether its publisher has been told so: it came from another node, and the link has ended without an answer. Who
        asked for none was told nothing."""
        by = run.publisher
        if receipt is None or by is None or by.kind is not ActorKind.NODE:
            return False
        return all(by is not peer.actor for peer in self._peers.values())

    def held_of(self, queue: Queue) -> list[Slice]:
        """What other nodes have of a queue that lives here."""
        return [piece for peer in self._peers.values() for piece in peer.held_of(queue)]

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
        self._forget_passing()
        if not self._to_tell and now >= self._told_at + FIGURES_INTERVAL_MS:
            self._told_at = now
            self._figures.next_round()
            self._to_tell = list(self.queues)
        if self._to_tell:
            part, self._to_tell = self._to_tell[:FIGURES_PER_TICK], self._to_tell[FIGURES_PER_TICK:]
            self.tell_figures(part)

    def tell_figures(self, queue_ids: Sequence[int]) -> None:
        queues = [self.queues[queue_id] for queue_id in queue_ids if queue_id in self.queues]
        if changed := self._figures.changed(queues):
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
        self._peers[node] = AwayNode(node, self.host, self.calls)
        if self._held:
            self._tell_hold(node)
        told = self._figures.all()
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

    def _hear_of_consumer(self, peer: AwayNode, op: int, payload: bytes) -> None:
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

    def _hear_ask(self, peer: AwayNode, op: int, payload: bytes, answer: Answer) -> None:
        match op:
            case Op.CONSUME:
                wish = words.decode_consume(payload)
                if wish.number in peer.takers or wish.number in peer.coming:
                    raise BadBytes(f"consumer {wish.number} is there already")
                if not self._waits_for_change(peer, wish.queue, partial(answer, words.QUEUE_GONE)):
                    self._ask(peer, wish.queue, answer, lambda queue: self._consume(peer, queue, wish, answer))
                if wish.queue in self._waiting:
                    peer.coming[wish.number] = wish.queue
            case Op.GET:
                queue_id, number = words.decode_pair(payload)
                if not self._waits_for_change(peer, queue_id, partial(answer, words.NOTHING_GOT)):
                    self._ask(peer, queue_id, answer, lambda queue: self._get(peer, queue, number, answer))
            case Op.BROWSE:
                queue_id, skip, limit = words.decode_browse(payload)
                self._ask_heir(peer, queue_id, answer, lambda queue: self._browse(queue, skip, limit, answer))
            case Op.PURGE:
                queue_id = words.decode_number(payload)
                self._ask_heir(peer, queue_id, answer, lambda queue: self._purge(peer, queue, answer))
            case Op.PASSED:
                queue_id = words.decode_number(payload)
                self._passed(queue_id, answer)
                peer.has_heard_of_change(queue_id)
            case Op.USE:
                self._ask_heir(peer, words.decode_number(payload), answer, lambda queue: self._use(queue, answer))
            case _:
                raise BadBytes(f"there is no operation {op}")

    def _waits_for_change(self, peer: AwayNode, queue_id: int, then: Callable[[], None]) -> bool:
        """The queue has become another one, and that node is yet to hear of it. Its client is told that the queue is gone when
        it has been brought to what has the queue's place: the node says so (PASSED)."""
        return queue_id in self._became and peer.waits_for_change(queue_id, then)

    def _ask(self, peer: AwayNode, queue_id: int, answer: Answer, act: Callable[[Queue], None]) -> None:
        self._when_here(peer, queue_id, 0, lambda queue: _try_to(act, queue, answer))

    def _ask_heir(self, peer: AwayNode, queue_id: int, answer: Answer, act: Callable[[Queue], None]) -> None:
        """Of what the queue has become, when it has, for that node has not heard of it yet: its client's queue is there."""
        became = self._became.get(queue_id)
        if became is None:
            self._ask(peer, queue_id, answer, act)
        else:
            _try_to(act, became.queue, answer)

    def _when_here(self, peer: AwayNode, queue_id: int, size: int, act: Callable[[Queue | None], None]) -> None:
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

    def _hear_publish(self, peer: AwayNode, payload: bytes) -> None:
        queue_ids, number, run, in_part = words.decode_publish(payload)
        run.publisher = peer.actor
        receipt = None
        if number:
            receipt = Receipt(PublishedAway(peer, number, in_part), 0, run.count - 1, len(queue_ids))
        here = []
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue_id in self._became:
                became = self._became[queue_id]
                self._publish([became.queue], run, receipt, became.kind)
            elif queue is not None and queue_id not in self._waiting:
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

    def _publish(self, queues: list[Queue], run: Run, receipt: Receipt | None, kind: QueueType | None = None) -> None:
        try:
            (kind or self.kind).publish(queues, run, receipt, self.wall_ms())
        except ResourceExhausted:
            if receipt is not None:
                receipt.give_up()

    # consuming

    def _consume(self, peer: AwayNode, queue: Queue, wish: words.RemoteConsume, answer: Answer) -> None:
        subscriber = Subscriber(peer, queue, wish)
        consumer = subscriber.consumer
        queue.consume(consumer, self.wall_ms())
        peer.add(subscriber)
        subscriber.says_active = True
        answer(words.encode_flag(words.DONE, consumer.active))
        self.host.wake(queue)

    def _get(self, peer: AwayNode, queue: Queue, number: int, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)

        def got(one: Got | None) -> None:
            if one is None:
                answer(words.NOTHING_GOT)
                return
            piece = one.piece
            if not peer.alive or piece.queue is not queue:  # or it has become another one, of which that node is to ask
                piece.queue.settle(piece, Outcome.RETURNED, self.wall_ms())
                self.host.wake(piece.queue)
                if peer.alive:
                    answer(words.NOTHING_GOT)
                return
            peer.add(Taker(number, queue, piece))
            content = messages_of(one.content, piece)
            answer(words.encode_got(one.remaining, piece.redelivered, piece.exchange, piece.routing_key, content))

        queue.get(False, now, peer.actor).then(got, lambda error: answer(words.encode_refusal(error)))
        self.host.wake(queue)  # what comes to the head now may be too old

    def _browse(self, queue: Queue, skip: int, limit: int, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)
        queue.browse(skip, limit, now).then(
            lambda found: answer(words.encode_browsed(found)), lambda error: answer(words.encode_refusal(error))
        )

    def _purge(self, peer: AwayNode, queue: Queue, answer: Answer) -> None:
        now = self.wall_ms()
        self.host.deliver_from(queue, now)
        queue.purge(now, peer.actor).then(
            lambda count: answer(words.encode_count(count)), lambda error: answer(words.encode_refusal(error))
        )

    def _use(self, queue: Queue, answer: Answer) -> None:
        now = self.wall_ms()
        counted(self.host, queue, now).then(
            lambda _: answer(words.encode_statistics(queue.statistics())),
            lambda error: answer(words.encode_refusal(error)),
        )


def _try_to(act: Callable[[Queue], None], queue: Queue | None, answer: Answer) -> None:
    if queue is None:
        answer(words.QUEUE_GONE)
        return
    try:
        act(queue)
    except BrokerError as error:
        answer(words.encode_refusal(error))


@dataclass(slots=True, frozen=True)
class _Became:
    """What a queue has become."""

    queue: Queue
    kind: QueueType
    when_said: Callable[[Callable[[], None]], None]


@dataclass(slots=True)
class _WaitingLetter:
    """Something that was said about a queue that is not here yet."""

    peer: AwayNode
    size: int
    act: Callable[[Queue | None], None]

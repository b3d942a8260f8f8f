"""Classic queues that live on other nodes, as clients of this one see them. What is said is in node/anywhere/wire.py, and who
says it in home_node.py: each home node, as long as the link to it lives.

A queue's figures are those that its home told last. `used` has them told anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.errors import NotFound, QueueAway
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, HeldSlice, Outcome, QueueStatistics, Slice
from broker.queues.shared_limit import WakingHost
from broker.records import QueueRecord
from node.anywhere import wire as words
from node.anywhere.home_node import Home, RemoteSubscription, Source
from node.anywhere.wire import Op
from node.peers.calls import PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId


class RemoteQueues:
    """All of them. `number_of` knows nodes by name; None: there is none of that name."""

    def __init__(self, host: WakingHost, calls: PeerCalls, number_of: Callable[[str], NodeId | None]) -> None:
        self.host = host
        self.calls = calls
        self.reads_deaths: Callable[[NodeId], bool] = lambda node: False  # set once nodes are asked what they read
        self._number_of = number_of
        self._homes: dict[NodeId, Home] = {}  # to which there is a link
        self._queues: dict[int, RemoteQueue] = {}
        self._numbers = 0
        calls.on_link(self._link)

    @property
    def congested(self) -> bool:
        """Whether publishers of this node should pause: a home takes nothing more, or the way to it is full."""
        return any(home.held or not self.calls.writable(home.node) for home in self._homes.values())

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def home_of(self, record: QueueRecord) -> Home | None:
        """None: it cannot be reached."""
        number = self._number_of(record.home)
        return self._homes.get(number) if number is not None else None

    # what the kind is asked

    def open(self, record: QueueRecord) -> RemoteQueue:
        queue = self._queues[record.id] = RemoteQueue(record, self)
        return queue

    def delete(self, queue: RemoteQueue) -> int:
        """Both nodes hear of the command; receipts are still answered by the home."""
        del self._queues[queue.record.id]
        return queue.close()

    def publish(self, queues: Sequence[RemoteQueue], run: Run, receipt: Receipt | None) -> None:
        if len(queues) == 1:
            self._publish(queues[0].record, queues, run, receipt)
            return
        by_home: dict[str, list[RemoteQueue]] = {}
        for queue in queues:
            by_home.setdefault(queue.record.home, []).append(queue)
        for some in by_home.values():
            self._publish(some[0].record, some, run, receipt)

    def _publish(self, record: QueueRecord, queues: Sequence[RemoteQueue], run: Run, receipt: Receipt | None) -> None:
        """To queues of one home."""
        home, ids = self.home_of(record), [queue.record.id for queue in queues]
        if home is not None and run.died_in is not None and run.died_in.further and self.reads_deaths(home.node):
            for one, owed in one_by_one(run, receipt, len(queues)):  # a letter says where one message has died
                home.publish(ids, one, owed)
        elif home is not None:
            home.publish(ids, run, receipt)
        elif receipt is not None:
            for _ in queues:
                receipt.refused()

    # links, and what home nodes say

    def _link(self, node: NodeId, came: bool) -> None:
        if came:
            self._homes[node] = Home(node, self)
        else:
            self._homes.pop(node).end()

    def hear(self, node: NodeId, payload: bytes) -> None:
        """Raises BadBytes."""
        home = self._homes[node]
        match payload[0]:
            case Op.DELIVER:
                home.deliver(words.decode_deliver(payload))
            case Op.CONFIRM:
                for first, last, accepted in words.decode_confirm(payload):
                    home.confirm(first, last, accepted)
            case Op.PARTIAL:
                home.refuse_part(*words.decode_partial(payload))
            case Op.ACTIVE:
                home.set_active(*words.decode_active(payload))
            case Op.FIGURES:
                for queue_id, figures in words.decode_figures(payload):
                    if (queue := self._queues.get(queue_id)) is not None:
                        queue.figures = figures
            case Op.HOLD:
                home.held = words.decode_flag(payload)
            case op:
                raise BadBytes(f"a home node does not say {op}")


class RemoteQueue:
    """One of them. Fulfils broker.queues.queue_type.Queue."""

    def __init__(self, record: QueueRecord, remote: RemoteQueues) -> None:
        self.record = record
        self.deleted = False
        self.figures = QueueStatistics()
        self.arrived: deque[tuple[RemoteSubscription, words.RemoteDelivery]] = deque()
        self.subscriptions: dict[Consumer, RemoteSubscription] = {}
        self._remote = remote

    @property
    def host(self) -> WakingHost:
        return self._remote.host

    def is_down(self) -> NotFound:
        record = self.record
        durable = "durable " if record.durable else ""
        return QueueAway(f"home node '{record.home}' of {durable}{record.label} is down or inaccessible")

    def _home(self) -> Home:
        """Raises NotFound."""
        home = self._remote.home_of(self.record)
        if home is None:
            raise self.is_down()
        return home

    # what the contract asks

    @property
    def ready_count(self) -> int:
        return self.figures.ready

    @property
    def consumer_count(self) -> int:
        return self.figures.consumers

    def consume(self, consumer: Consumer, now: int) -> Pending[None]:
        home = self._home()
        subscription = RemoteSubscription(home, self._remote.next_number(), self, consumer)
        self.subscriptions[consumer] = subscription
        return home.consume(subscription)

    def cancel(self, consumer: Consumer, now: int) -> None:
        subscription = self.subscriptions.pop(consumer, None)
        if subscription is None:
            return
        subscription.home.cancel(subscription)

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        home, number = self._home(), self._remote.next_number()

        def decode(payload: bytes) -> Got | None:
            far = words.decode_got(payload)
            if far is None:
                self.figures.ready = 0
                return None
            self.figures.ready = far.remaining
            source, position = Source(home, number), far.position
            piece = Slice(self, source, 1, 1, position, far.exchange, far.routing_key, far.redelivered)
            if no_ack:
                home.settle(Outcome.ACKNOWLEDGED, number, 1, 2)
            return Got(piece, far.payload, far.remaining)

        return home.ask(self, words.encode_get(self.record.id, number), decode)

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        source = cast(Source, piece.handle)
        if source.home.alive and not self.deleted:
            source.home.settle(outcome, source.number, piece.sequence, piece.sequence + piece.count)

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        for one in held:
            self.settle(one.slice(), outcome, now)

    def pump(self, now: int) -> None:
        for subscription in list(self.subscriptions.values()):
            subscription.look()
            subscription.serve()
        while self.arrived:
            subscription, delivery = self.arrived.popleft()
            if self.subscriptions.get(subscription.consumer) is subscription:
                subscription.waiting.append(delivery)
                subscription.serve()
            # else the link broke, or it was cancelled: its home has requeued this

    def used(self, now: int) -> Pending[None]:
        return self._home().ask(self, words.encode_number(Op.USE, self.record.id), self._used)

    def _used(self, payload: bytes) -> None:
        self.figures = words.decode_statistics(payload)

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        return self._home().ask(self, words.encode_browse(self.record.id, skip, limit), words.decode_browsed)

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        return self._home().ask(self, words.encode_number(Op.PURGE, self.record.id), self._purged)

    def _purged(self, payload: bytes) -> int:
        self.figures.ready = self.figures.ready_bytes = 0
        return words.decode_number(payload)

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        """Its home knows policies, too."""

    @property
    def accounted_here(self) -> bool:
        return False

    @property
    def is_starving(self) -> bool:
        return False

    def counts(self) -> QueueStatistics:
        return self.figures

    def statistics(self) -> QueueStatistics:
        self.figures.state = "running" if self._remote.home_of(self.record) is not None else "down"
        return self.figures

    def sizes(self) -> QueueStatistics:
        return self.statistics()

    # its end

    def close(self) -> int:
        """Its consumers were told already. Returns how many messages were ready, as far as is known here."""
        self.deleted = True
        for subscription in self.subscriptions.values():
            subscription.home.forget(subscription)
        self.subscriptions.clear()
        self.arrived.clear()
        return self.figures.ready

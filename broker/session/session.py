"""The door of the broker: one session is one client's channel, whatever protocol it speaks.

    session.publisher   publishes and their confirms (publish.py)
    session.topology    declares, binds, deletes and purges (topology.py)
    session.looks       browses queues and counts what they have ready (queue_looks.py)
    session.delayed     looks at delayed messages, and cancels one (delayed_messages.py)
    the session itself  consumes and gets; keeps what is delivered and not settled (deliveries.py); commits

Who may do what is found in permissions.py, what exists in the catalog. Errors that are known at once are raised; a request
that takes time answers a `Pending`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker import names
from broker.actors import ActorKind, GoneReason, LogActor
from broker.background_work import Steps, begin
from broker.catalog import arguments as argument_rules
from broker.catalog import permissions
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.errors import BrokerError, NotAllowed, NotSupported, PreconditionFailed
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import BackReason, Got, Outcome, Queue, Slice
from broker.queues.shared_limit import SharedLimit
from broker.routing.reply_to import is_reply_name
from broker.session.delayed_messages import DelayedMessages
from broker.session.deliveries import Held, Unacknowledged, marked
from broker.session.publish import Publisher
from broker.session.queue_looks import QueueLooks
from broker.session.session_sink import GONE, SessionSink
from broker.session.topology import Topology
from broker.session.transactions import CARRIED_OUT_PER_STEP, Completion, Transaction, Transactions

SETTLED_QUEUES_PER_STEP = 50
CANCELLED_PER_STEP = 50  # consumers
GIVEN_BACK_ONE_BY_ONE_MAX = 256  # deliveries; of more the queues make what they need in slices


@dataclass(slots=True)
class GotMessage:
    tag: int
    piece: Slice
    content: bytes
    remaining: int


class Session:
    """One channel of one connection."""

    def __init__(
        self,
        broker: NodeQueues,
        connection: Connection,
        sink: SessionSink,
        number: int,
        on_closed: Callable[[Session], None],
    ) -> None:
        self.connection = connection
        self.user = connection.user
        self.vhost = connection.vhost
        self.number = number
        self.closed = False
        self._left = GoneReason.CLOSED  # how it ends
        self.counters = Counters()
        self._transactions = Transactions()
        self.actor = LogActor(ActorKind.CHANNEL, connection.actor)
        self.topology = Topology(broker, connection)
        self.looks = QueueLooks(broker, self.topology)
        self.delayed = DelayedMessages(broker.catalog, self.topology, connection.vhost)
        self.publisher = Publisher(broker, connection, sink, self.counters, self._transactions, self.actor, number)
        self._broker = broker
        self._sink: SessionSink = sink
        self._on_closed = on_closed
        self._prefetch = 0
        self._shared = SharedLimit()
        self._next_tag = 1
        self._traced = broker.catalog.traced_vhosts
        self.unacknowledged = Unacknowledged()
        self._consumers: dict[str, Consumer] = {}
        self._commits: deque[tuple[Transaction, Completion]] = deque()  # not finished; the first is being carried out

    # consuming

    def set_prefetch(self, count: int, global_: bool) -> None:
        """For each consumer added from now on; with `global_` for all consumers together, including existing ones."""
        if not global_:
            self._prefetch = count
            return
        self._shared.limit = count
        self._wake_waiting()
        for consumer in self._consumers.values():
            self._broker.wake(consumer.queue)

    def consume(
        self,
        queue: str,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        no_local: bool,
        arguments: dict[str, Any],
        now: int,
    ) -> Pending[str]:
        """Answers the consumer's tag. `no_local` is ignored, as RabbitMQ does."""
        names.check_length("consumer tag", tag)
        if tag in self._consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        consumers_max = self._broker.limits.consumers_per_channel
        if consumers_max and len(self._consumers) >= consumers_max:
            raise NotAllowed(f"reached maximum ({consumers_max}) of consumers per channel")
        found = self._consumable(queue, no_ack, arguments)
        tag = tag or names.server_consumer_tag(self._broker.random_bytes(16))
        actor = LogActor(
            ActorKind.CONSUMER, self.actor, tag=tag, queue=found.record.name, prefetch=self._prefetch, no_ack=no_ack
        )
        consumer = Consumer(
            tag,
            found,
            self,
            no_ack=no_ack,
            prefetch=self._prefetch,
            exclusive=exclusive,
            priority=arguments.get("x-priority", 0),
            arguments=arguments,
            shared=self._shared,
            actor=actor,
        )
        consuming = found.consume(consumer, now)
        self._consumers[consumer.tag] = consumer
        self._broker.consumer_added(consumer)
        self._broker.wake(found)
        return Pending.of(consumer.tag) if consuming is None else self._consumes_later(consumer, consuming)

    def _consumes_later(self, consumer: Consumer, consuming: Pending[None]) -> Pending[str]:
        answer: Pending[str] = Pending()
        asked = consumer.queue

        def refused(error: BrokerError) -> None:
            if consumer.queue is not asked:  # it has become another one meanwhile, which has the consumer
                answer.resolve(consumer.tag)
                return
            if self._consumers.get(consumer.tag) is consumer:
                del self._consumers[consumer.tag]
                self._shared.leave(consumer)
                self._broker.consumer_removed(consumer)
            answer.fail(error)

        consuming.then(lambda _: answer.resolve(consumer.tag), refused)
        return answer

    def _consumable(self, queue: str, no_ack: bool, arguments: dict[str, Any]) -> Queue:
        if is_reply_name(queue):
            if not no_ack:
                raise PreconditionFailed("reply consumer cannot acknowledge")
            if self.publisher.reply_queue is not None:
                raise PreconditionFailed("reply consumer already set")
            argument_rules.check_consumer(self.vhost, queue, "classic", arguments)
            self.publisher.reply_queue = self._broker.replies.open(self.vhost)
            return self.publisher.reply_queue
        found = self.topology.takeable(queue)
        name = found.queue.record.name
        argument_rules.check_consumer(self.vhost, name, found.kind.name, arguments)
        return found.queue

    def cancel(self, tag: str, now: int) -> Pending[None]:
        """An unknown tag is not an error. A queue that lives here and goes with its last consumer has gone with the answer: who
        declares it next gets another one."""
        consumer = self._consumers.pop(tag, None)
        if consumer is None:
            return Pending.of(None)
        if consumer.actor is not None:
            consumer.actor.gone(self._left)
        self._shared.leave(consumer)
        self._broker.consumer_removed(consumer)
        if consumer.queue is self.publisher.reply_queue:
            self.publisher.reply_queue = None
        consumer.queue.cancel(consumer, now)
        return self._broker.deletion_of(consumer.queue)

    def resume(self, now: int) -> None:
        """The sink is writable again."""
        for consumer in self._consumers.values():
            self._broker.wake(consumer.queue)

    def get(self, queue: str, no_ack: bool, now: int) -> Pending[GotMessage | None]:
        if is_reply_name(queue):
            return self._get_reply(no_ack, now)
        found = self.topology.takeable(queue).queue
        self._broker.deliver_from(found, now)
        return found.get(no_ack, now, self.actor).map(lambda got: self._numbered(got, no_ack, now))

    def _get_reply(self, no_ack: bool, now: int) -> Pending[GotMessage | None]:
        """Get replies one by one: the first get makes this session a requester."""
        if self.publisher.reply_queue is None:
            if not no_ack:
                raise PreconditionFailed("reply consumer cannot acknowledge")
            self.publisher.reply_queue = self._broker.replies.open(self.vhost)
        return self.publisher.reply_queue.get(no_ack, now).map(lambda got: self._numbered(got, True, now))

    def _numbered(self, got: Got | None, no_ack: bool, now: int) -> GotMessage | None:
        counters = self.counters
        if got is None:
            counters.got_empty += 1
            return None
        if self.closed:
            if not no_ack:  # it was read from disk, and the client disconnected in the meantime
                got.piece.taker, got.piece.back = self.actor, BackReason.NEVER_SEEN
                got.piece.queue.settle(got.piece, Outcome.RETURNED, now)
                self._broker.wake(got.piece.queue)
            return None
        tag = self._next_tag
        self._next_tag += 1
        if no_ack:
            counters.got_no_ack += 1
        else:
            counters.got += 1
            got.piece.taker = self.actor
            self.unacknowledged.add(tag, got.piece, None)
        if got.piece.redelivered:
            counters.redelivered += 1
        if self._traced:
            self._broker.tracer.delivered(self.connection, self.number, got.piece, got.content)
        return GotMessage(tag, got.piece, got.content, got.remaining)

    # deliveries to its consumers (DeliverySink)

    @property
    def writable(self) -> bool:
        return not self.closed and self._sink.writable

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        first = self._next_tag
        count = piece.count
        self._next_tag = first + count
        consumer.delivered += count
        counters = self.counters
        if consumer.no_ack:
            counters.delivered_no_ack += count
        else:
            counters.delivered += count
            self.unacknowledged.add(first, piece, consumer)
        if piece.redelivered:
            counters.redelivered += count
        if self._traced:
            self._broker.tracer.delivered(self.connection, self.number, piece, content)
        self._sink.deliver(consumer, first, piece, content)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Its unacknowledged messages can still be settled, to no effect."""
        if self._consumers.get(consumer.tag) is consumer:
            del self._consumers[consumer.tag]
            if consumer.actor is not None:
                consumer.actor.gone(GoneReason.TIMED_OUT if consumer.timed_out else GoneReason.QUEUE_GONE)
            self._shared.leave(consumer)
            self._broker.consumer_removed(consumer)
            if self.closed:
                return
            if consumer.timed_out:
                self._sink.timed_out(consumer.tag)
            else:
                self._sink.cancelled(consumer.tag)

    def cancel_for_operator(self, tag: str, now: int) -> bool:
        """Tell its client that the subscription has ended; what was delivered can still be settled. False: there is none, or
        it waits for replies."""
        consumer = self._consumers.get(tag)
        if consumer is None or consumer.queue is self.publisher.reply_queue:
            return False
        consumer.queue.cancel(consumer, now)
        self.consumer_cancelled(consumer)
        return True

    def permissions_changed(self) -> None:
        """Stop deliveries that the user may not read any more; what was delivered can still be settled."""
        self.publisher.permissions_changed()
        for consumer in list(self._consumers.values()):
            if consumer.queue is self.publisher.reply_queue or self._may_read(consumer.queue.record.name):
                continue
            consumer.queue.cancel(consumer, self._broker.turns.now)
            self.consumer_cancelled(consumer)

    def _may_read(self, queue: str) -> bool:
        return permissions.allowed(self._broker.catalog, self.connection.who, self.vhost, "read", queue)

    # settling

    def acknowledge(self, first: int, last: int, multiple: bool, now: int) -> None:
        """Tags first .. last; with `multiple` everything up to last, and 0 is everything. Raises PreconditionFailed."""
        self._settle(first, last, multiple, Outcome.ACKNOWLEDGED, BackReason.NOT_SAID, now)

    def reject(self, tag: int, requeue: bool, now: int) -> None:
        """Requeued messages count as failed once more."""
        self._settle(tag, tag, False, Outcome.REQUEUED if requeue else Outcome.REJECTED, BackReason.REJECTED, now)

    def nack(self, tag: int, multiple: bool, requeue: bool, now: int) -> None:
        """Requeued messages do not count as failed."""
        self._settle(tag, tag, multiple, Outcome.RELEASED if requeue else Outcome.REJECTED, BackReason.NACKED, now)

    def recover(self, requeue: bool, now: int) -> None:
        """Return all unacknowledged messages to their queues."""
        if not requeue:
            raise NotSupported("requeue=false")
        self._give_back(self.unacknowledged.take_all(), Outcome.RELEASED, now, BackReason.RECOVERED)

    def put_back(self, now: int) -> None:
        """Return all unacknowledged messages to their places as if nobody had been given them."""
        self._give_back(self.unacknowledged.take_all(), Outcome.RETURNED, now, BackReason.NEVER_SEEN)

    def _settle(self, first: int, last: int, multiple: bool, outcome: Outcome, back: BackReason, now: int) -> None:
        unknown: int | None = None
        if not multiple:
            held = self.unacknowledged.take_range(first, last)
            if held is None:  # the range merges several requests: those before the first unknown tag are valid
                unknown = next(tag for tag in range(first, last + 1) if not self.unacknowledged.holds(tag))
                held = self.unacknowledged.take_range(first, unknown - 1) if first < unknown else []
        elif last == 0:
            held = self.unacknowledged.take_all()
        else:
            held = self.unacknowledged.take_up_to(last)
            if held is None:
                unknown = last
        if held:
            if self._transactions.current is not None:
                self._transactions.current.settlements.append((marked(held, back), outcome))
            else:
                self._give_back(held, outcome, now, back)
        if unknown is not None:
            raise PreconditionFailed(f"unknown delivery tag {unknown}")

    def _give_back(self, taken: list[Held], outcome: Outcome, now: int, back: BackReason = BackReason.NOT_SAID) -> None:
        if outcome is not Outcome.ACKNOWLEDGED and back:
            marked(taken, back)
        if len(taken) > GIVEN_BACK_ONE_BY_ONE_MAX:
            self._give_back_many(taken, outcome, now)
            return
        count, wake = 0, self._broker.wake
        for held in taken:
            some = held.end - held.first
            count += some
            consumer = held.consumer
            if consumer is not None:
                consumer.settled(some)
                if consumer.queue is not held.piece.queue:  # that was converted since
                    wake(consumer.queue)
        if self._shared.limit:
            self._wake_waiting()  # first, or the queues of what was settled would use up the room
        for held in taken:
            piece = held.slice()
            queue = piece.queue
            queue.settle(piece, outcome, now)
            wake(queue)
        if outcome is Outcome.ACKNOWLEDGED:
            self.counters.acknowledged += count

    def _give_back_many(self, taken: list[Held], outcome: Outcome, now: int) -> None:
        """The same with one call for each consumer and each queue, which do large work in slices; with very many queues some
        are called in later turns. Consumers that end hold what they have until it is back: another one may wait for that."""
        of_consumers: defaultdict[Consumer | None, int] = defaultdict(int)
        of_queues: defaultdict[Queue, list[Held]] = defaultdict(list)
        for held in taken:
            of_consumers[held.consumer] += held.end - held.first
            of_queues[held.piece.queue].append(held)
        leaving: defaultdict[Queue, list[tuple[Consumer, int]]] = defaultdict(list)
        for consumer, count in of_consumers.items():
            if consumer is None:
                continue
            if consumer.session_ends and consumer.queue in of_queues:
                leaving[consumer.queue].append((consumer, count))
                continue
            consumer.settled(count)
            if consumer.queue not in of_queues:
                self._broker.wake(consumer.queue)
        self._wake_waiting()
        if outcome is Outcome.ACKNOWLEDGED:
            self.counters.acknowledged += sum(of_consumers.values())
        begin(self._broker.work, self._given_back(of_queues, leaving, outcome))

    def _given_back(
        self,
        of_queues: Mapping[Queue, list[Held]],
        leaving: Mapping[Queue, list[tuple[Consumer, int]]],
        outcome: Outcome,
    ) -> Iterator[None]:
        for count, (queue, some) in enumerate(of_queues.items(), 1):
            for consumer, held in leaving.get(queue, ()):
                consumer.settled(held)
            if self._broker.is_open(queue):
                queue.settle_all(some, outcome, self._broker.turns.now)
                self._broker.wake(queue)
            if count % SETTLED_QUEUES_PER_STEP == 0:
                yield

    def _wake_waiting(self) -> None:
        """Wake the queues whose consumers waited for room under the limit of the whole channel."""
        for queue in self._shared.take_waiting():
            self._broker.wake(queue)

    # transactions

    def select_transactions(self) -> None:
        if self.publisher.confirms:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        self._transactions.select()

    def commit(self, now: int) -> Pending[None]:
        """Publish and settle what was gathered, after the commits before it, over several turns if it is much. Answered when
        every queue has taken its part. It is carried out even if the client disconnects meanwhile."""
        answer: Pending[None] = Pending()

        def done(refusals: int) -> None:
            if refusals:
                answer.fail(PreconditionFailed("partial tx completion"))
            else:
                answer.resolve(None)

        self._broker.turns.now = now
        self._commits.append((self._transactions.end(), Completion(done)))
        if len(self._commits) == 1:
            self._broker.work.do(self._carry_out_commits())
        return answer

    def _carry_out_commits(self) -> Iterator[None]:
        while self._commits:
            transaction, completion = self._commits[0]
            yield from self.publisher.hand_over_all(transaction, completion)
            for count, (held, outcome) in enumerate(transaction.settlements, 1):
                self._give_back(held, outcome, self._broker.turns.now)
                if count % CARRIED_OUT_PER_STEP == 0:
                    yield
            self._commits.popleft()
            completion.close()

    def rollback(self, now: int) -> None:
        """Forget the publishes; what was settled is unacknowledged again."""
        settlements = self._transactions.end().settlements
        self.unacknowledged.put_back([held for taken, _ in settlements for held in taken])

    # the end, and figures

    def close(self, now: int) -> None:
        """The client's channel is gone: remove its consumers, return unacknowledged messages to the front of their queues."""
        self._broker.turns.now = now
        if not self.closed:
            begin(self._broker.work, self.close_in_steps())

    def close_in_steps(self, left: GoneReason = GoneReason.CLOSED) -> Steps:
        """The same in steps. From this call on the session delivers and confirms nothing."""
        self.closed = True
        self._left = left
        self._sink = GONE
        self.publisher.close()
        return self._leave()

    def _leave(self) -> Steps:
        turns = self._broker.turns
        lost = self._left is not GoneReason.CLOSED
        back = BackReason.CONNECTION_LOST if lost else BackReason.CHANNEL_CLOSED
        for count, (tag, consumer) in enumerate(list(self._consumers.items()), 1):
            consumer.session_ends = True
            self.cancel(tag, turns.now)
            if count % CANCELLED_PER_STEP == 0:
                yield
        if self.publisher.reply_queue is not None:
            self._broker.replies.close(self.publisher.reply_queue)
        if self._transactions.current is not None:
            self.rollback(turns.now)  # its messages go now: the session may stay for long, being part of a cycle
        self._give_back(self.unacknowledged.take_all(), Outcome.REQUEUED, turns.now, back)
        self.actor.gone(self._left)
        self._on_closed(self)

    def consumers(self) -> Iterable[Consumer]:
        return self._consumers.values()

    def statistics(self) -> dict[str, Any]:
        transaction = self._transactions.current
        return {
            "number": self.number,
            "user": self.user,
            "vhost": self.vhost,
            "consumers": len(self._consumers),
            "prefetch": self._prefetch,
            "global_prefetch": self._shared.limit,
            "unacknowledged": self.unacknowledged.count,
            "unconfirmed": self.publisher.unconfirmed,
            "uncommitted": sum(run.count for run, _ in transaction.publishes) if transaction is not None else 0,
            "confirms": self.publisher.confirms,
            "transactional": transaction is not None,
            **self.counters.as_dict(),
        }

"""What a session publishes: a run goes to the queues of its target, with a receipt if the client wants confirms.

    publish_raw     the method's bytes are looked up: one dictionary for exchange, key, permission and queues (targets.py)
    _publish        alarm, user-id, and what must be looked at: CC and BCC, reply-to, x-death, what exchanges ask of a message
    _hand_over      to the queues, one call for each kind; over several turns if they are very many; or returned, or dropped

Whatever refuses a run refuses it at once, before any queue has got a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from broker.actors import LogActor
from broker.catalog.catalog import Catalog
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.counting.flows import FlowCounts, Flows
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.messages.confirms import ConfirmTracker, Receipt
from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_CC, LOOK_HEADERS, LOOK_REPLY_TO, Run
from broker.messages.run_parts import part
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.queues.stream_contract import StreamContract
from broker.routing.dead_letter import without_history
from broker.routing.fan_out import FanOut, Handover
from broker.routing.reply_to import ReplyQueue, addressed
from broker.routing.sender_selected import further_keys, raw_headers, without_header
from broker.routing.targets import Router, Target, TargetCache
from broker.session.session_sink import GONE, SessionSink
from broker.session.transactions import (
    CARRIED_OUT_PER_STEP,
    MESSAGES_AS_A_PUBLISH,
    Completion,
    Transaction,
    Transactions,
)
from broker.unlogged import Unlogged
from native.content import encode, one
from native.frame_split import parse_publish

NO_ROUTE = 312


class Publisher:
    """A session's publishes, its confirms, and the publishes of its transactions."""

    def __init__(
        self,
        broker: NodeQueues,
        connection: Connection,
        sink: SessionSink,
        counters: Counters,
        transactions: Transactions,
        actor: LogActor,
        number: int,
    ) -> None:
        """`number`: of the session."""
        self.reply_queue: ReplyQueue | None = None  # for the answers to its requests; set by the session
        self._connection = connection
        self._actor = actor
        self._user = connection.user
        self._vhost = connection.vhost
        self._number = number
        self._closed = False
        self._counters = counters  # of the session
        self._transactions = transactions  # of the session
        self._broker = broker
        self._catalog: Catalog = broker.catalog
        self._traced = broker.catalog.traced_vhosts
        self._rates = broker.rates
        self._rate_limited = broker.rates.limited
        self._sink: SessionSink = sink
        self._router = Router(broker.catalog, broker.open_queues, broker.asks, connection)
        self._flows = Flows()
        self._sizes = broker.message_sizes[connection.protocol]
        self._targets = TargetCache(self._flows.fold)
        self._confirms: ConfirmTracker | None = None
        self._fan_out: FanOut | None = None  # while queues are still to get what was published

    # publishing

    def publish_raw(
        self,
        method_payload: bytes,
        count: int,
        content: bytes,
        body_bytes: int,
        persistent: bool,
        priority: int,
        expiration: bytes | None,
        user_id: bytes | None,
        look: int,
        now: int,
    ) -> Pending[None] | None:
        """A run as the frame splitter cut it out, with the bytes of its publish method. Raises and answers as `publish`."""
        target = self._targets.by_publish.get(method_payload)
        if target is None or target.version != self._catalog.version:
            target = self._targets.add(method_payload, self._router.target(*parse_publish(method_payload)))
        run = Run(
            target.exchange,
            target.keys[0],
            content,
            count,
            body_bytes,
            persistent,
            target.mandatory,
            priority,
            None if expiration is None else expiration_ms(expiration),
            None if user_id is None else user_id.decode("utf-8", "replace"),
            look,
        )
        return self._publish(run, target, now)

    def publish(self, run: Run, now: int) -> Pending[None] | None:
        """Raises NotFound, AccessRefused or PreconditionFailed; then nothing of the run was published. None: the session's next
        request may follow at once; otherwise when this is answered. Publishes until then get the same `Pending`."""
        return self._publish(run, self._target_of(run), now)

    def queues_of(self, run: Run) -> list[str]:
        """Names of the queues that would get this run, of one message. Raises as `publish`."""
        target = self._target_of(run)
        if target.by_message or (target.by_headers and run.look & LOOK_HEADERS):
            target = self._router.for_message(target, target.keys, one(run.content, 0)[0])
        return [queue.record.name for _, some in target.groups for queue in some]

    def _target_of(self, run: Run) -> Target:
        key = run.exchange, run.routing_key, run.mandatory
        target = self._targets.by_publish.get(key)
        if target is None or target.version != self._catalog.version:
            target = self._targets.add(key, self._router.target(*key, immediate=False))
        return target

    def publish_numbered(self, run: Run, reference: str, first_number: int, now: int) -> Pending[None] | None:
        """A run for the stream that its key names, by a publisher with a name, who has numbered the messages from this number
        on; see StreamContract. Its client wants confirms. Raises and answers as `publish`."""
        assert self._confirms is not None and self._transactions.current is None, "numbered messages are confirmed"
        target = self._router.target("", run.routing_key, run.mandatory, immediate=False)
        queues = [queue for _, some in target.groups for queue in some]
        if run.exchange or not queues or queues[0].record.kind != "stream":
            raise PreconditionFailed(
                "only a stream takes numbered messages: publish to the default exchange with its name"
            )
        alarm = self._broker.alarms.blocked_reason
        if not self._connection.publishes or alarm is not None:
            self._connection.note_publishing(alarm)
        if run.user_id is not None:
            self._check_user_id(run.user_id)
        counters = self._counters
        counters.published += run.count
        counters.routed += run.count
        counters.published_confirm += run.count
        target.published += run.count
        self._flows.fold(target)
        self._sizes.add(run.count, run.body_bytes)
        receipt = self._confirms.expect(run.count, 1)
        try:
            cast(StreamContract, queues[0]).publish_numbered(reference, first_number, run, receipt)
        except ResourceExhausted:
            receipt.give_up()
        return self._charge(run) if self._rate_limited else None

    def _publish(self, run: Run, target: Target, now: int) -> Pending[None] | None:
        alarm = self._broker.alarms.blocked_reason
        if not self._connection.publishes or alarm is not None:
            self._connection.note_publishing(alarm)
        if run.user_id is not None:
            self._check_user_id(run.user_id)
        if run.look or target.by_message:
            for some, own in self._looked_at(run, target):
                self._pass_on(some, own, now)
                if own is not target:
                    self._flows.fold(own)  # few are cached
        else:
            self._pass_on(run, target, now)
        held = self._charge(run) if self._rate_limited else None
        return held if self._fan_out is None else self._fan_out.over

    def _charge(self, run: Run) -> Pending[None] | None:
        return self._rates.charge(self._vhost, self._user, run.count, run.body_bytes, lambda: self._closed)

    def _pass_on(self, run: Run, target: Target, now: int) -> None:
        transaction = self._transactions.current
        if transaction is None:
            self._hand_over(run, target, None, now)
        else:
            transaction.add(run, target)

    def _hand_over(self, run: Run, target: Target, completion: Completion | None, now: int) -> None:
        """To the queues; confirmed when all of them have it."""
        counters = self._counters
        counters.published += run.count
        target.published += run.count
        self._sizes.add(run.count, run.body_bytes)
        for exchange in target.history_exchanges:
            self._broker.histories.add(exchange, run)
        if self._traced:
            self._broker.tracer.published(self._connection, self._number, run, target)
        if target.queue_count == 0:
            self._finish_unqueued(run, target, now)
            return
        counters.routed += run.count
        receipt: Receipt | None = None
        run.publisher = self._actor
        if self._confirms is not None:
            counters.published_confirm += run.count
            receipt = self._confirms.expect(run.count, target.queue_count)
            run.number = receipt.first
        else:
            run.number = counters.published + 1 - run.count
            if completion is not None:
                receipt = completion.expect(run.count, target.queue_count)
        if self._fan_out is not None:
            self._fan_out.add(Handover(target.groups, run, receipt))
            return
        if target.queue_count > self._broker.queues_per_step:
            self._begin_fan_out(Handover(target.groups, run, receipt))
            return
        try:
            for kind, queues in target.groups:
                kind.publish(queues, run, receipt, now)
        except ResourceExhausted:
            if receipt is None:
                raise
            receipt.give_up()  # its sequence numbers are assigned: it is nacked, and later numbers stay valid

    def _begin_fan_out(self, first: Handover) -> None:
        """Raises an error that occurs in the first step."""
        fan_out = self._fan_out = FanOut(
            self._broker.queues_per_step,
            self._broker.is_open,
            self._broker.was_converted,
            lambda: self._broker.turns.now,
            self._fanned_out,
        )
        fan_out.add(first)
        self._broker.work.do(fan_out.steps())
        if fan_out.over.error is not None:
            raise fan_out.over.error

    def _fanned_out(self) -> None:
        self._fan_out = None

    def _finish_unqueued(self, run: Run, target: Target, now: int) -> None:
        """No queue gets it: it is a reply, or is returned, or dropped. Its confirm follows its return."""
        counters = self._counters
        if target.reply_name and self._broker.replies.deliver(self._vhost, run, now):
            counters.routed += run.count
        elif run.mandatory:
            counters.returned += run.count
            self._count_unlogged(Unlogged.RETURNED, run)
            self._sink.returned(run, NO_ROUTE, "NO_ROUTE")
        else:
            counters.dropped += run.count
            self._count_unlogged(Unlogged.UNROUTABLE, run)
        if self._confirms is not None:
            counters.published_confirm += run.count
            self._confirms.expect(run.count, 0)

    def _count_unlogged(self, what: Unlogged, run: Run) -> None:
        counter = self._broker.unlogged
        if counter is not None:
            counter.count(what, self._actor, run.exchange, run.routing_key, run.count, run.body_bytes)

    def _check_user_id(self, user_id: str) -> None:
        if user_id == self._user:
            return
        who = self._connection.who
        current = self._catalog.users.get(who.name) if who.vouched is None else who
        if current is None or "impersonator" not in current.tags:
            raise PreconditionFailed(f"user_id property set to '{user_id}' but authenticated user was '{self._user}'")

    # runs whose headers or properties matter

    def _looked_at(self, run: Run, target: Target) -> list[tuple[Run, Target]]:
        """The run in one or more parts, each with its target."""
        if run.look & LOOK_HEADERS:
            run = without_history(run)
        if run.look & (LOOK_CC | LOOK_REPLY_TO):
            return [self._special(run, target)]
        if target.by_headers or target.by_message:
            return list(self._divided(run, target))
        return [(run, target)]

    def _special(self, run: Run, target: Target) -> tuple[Run, Target]:
        """One message with CC, BCC, or the reply-to that has to be replaced."""
        assert run.count == 1, f"a run of {run.count} messages with CC, BCC or reply-to: these travel alone"
        props, body, _ = one(run.content, 0)
        if run.look & LOOK_REPLY_TO:
            props = addressed(props, self.reply_queue)
        headers = raw_headers(props) if run.look & LOOK_CC or target.by_headers else None
        if target.by_message or headers is not None:
            keys = [run.routing_key, *(further_keys(headers) if headers is not None and run.look & LOOK_CC else ())]
            if not target.reply_name:  # a reply goes to its requester only, even if it copied the request's headers
                target = self._router.for_message(target, keys, props)
            if not target.is_held:  # then its exchange looks at them once its time has come
                props = without_header(props, "BCC")
        return run.with_content(encode(props, body)), target

    def _divided(self, run: Run, target: Target) -> Iterator[tuple[Run, Target]]:
        """Neighbours that go to the same queues stay together."""
        start = position = count = 0
        last, for_message = target, self._router.for_message
        for _ in range(run.count):
            props, _, end = one(run.content, position)
            own = for_message(target, target.keys, props) if target.by_message else self._for_headers(target, props)
            if (
                count
                and own is not last
                and (own.groups, own.history_exchanges) != (last.groups, last.history_exchanges)
            ):
                yield part(run, start, position, count), last
                start, count = position, 0
            last, position, count = own, end, count + 1
        yield part(run, start, position, count), last

    def _for_headers(self, target: Target, props: bytes) -> Target:
        headers = raw_headers(props)
        if headers is None:
            return target
        own = target.for_headers.get(headers)
        if own is None:
            own = self._router.for_message(target, target.keys, props)
            self._targets.add_for_headers(target, headers, own)
        return own

    # confirms

    @property
    def confirms(self) -> bool:
        """Its client asked for them."""
        return self._confirms is not None

    @property
    def unconfirmed(self) -> int:
        return self._confirms.unanswered_count if self._confirms is not None else 0

    def select_confirms(self) -> None:
        if self._transactions.current is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        if self._confirms is None:
            self._confirms = ConfirmTracker(partial(self._broker.turns.confirm, self))

    def flush_confirms(self) -> None:
        """Tell the client what was answered. Called at the end of a turn."""
        assert self._confirms is not None, "answers without confirms"
        if self._closed:
            return
        counters = self._counters
        for first, last, multiple, ok in self._confirms.take():
            if ok:
                counters.confirmed += last + 1 - first
            else:
                counters.refused += last + 1 - first
            self._sink.confirm(first, last, multiple, ok)

    # the publishes of a transaction

    def hand_over_all(self, transaction: Transaction, completion: Completion) -> Iterator[None]:
        """Hand its publishes over to their queues, some with each step."""
        carried_out = 0
        for run, target in transaction.publishes:
            current = self._router.up_to_date(target)
            self._hand_over(run, current, completion, self._broker.turns.now)
            self._flows.fold(current)
            carried_out += 1 + run.count // MESSAGES_AS_A_PUBLISH
            if carried_out >= CARRIED_OUT_PER_STEP:
                carried_out = 0
                yield

    # called by the session

    def flows(self) -> FlowCounts:
        """Where its messages went so far."""
        return self._flows.counts(self._targets.all())

    def permissions_changed(self) -> None:
        self._targets.clear()

    def close(self) -> None:
        """The client is gone: it hears of no more confirms. What it has published goes on to its queues."""
        self._closed = True
        self._sink = GONE
        if self._confirms is not None:
            self._confirms.close()

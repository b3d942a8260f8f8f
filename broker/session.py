"""The door of the broker: one session is one client's channel, whatever protocol it speaks.

A session numbers what it publishes and what it delivers, holds what is not settled, and passes everything else on: where a
run goes is found in publish.py, who may do what in permissions.py, what exists in the catalog. Errors are raised at once
when they are known at once; what takes time answers a `Pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from broker import arguments as argument_rules
from broker import catalog_commands as commands
from broker import names, permissions
from broker.catalog import check_exclusive_access
from broker.confirms import ConfirmTracker, Receipt
from broker.consumer import Consumer
from broker.deliveries import Held, Unacknowledged
from broker.errors import BrokerError, NotAllowed, NotFound, NotSupported, PreconditionFailed
from broker.expiration import expiration_ms
from broker.message import LOOK_CC, LOOK_REPLY_TO, Run
from broker.pending import Pending
from broker.publish import Group, Router, Target
from broker.queue_type import Got, Outcome, Queue, Slice
from broker.records import BindingRecord, ExchangeRecord, QueueRecord
from broker.reply_to import NO_QUEUE, is_reply_name
from broker.sender_selected import Selected
from native.content import encode, one
from native.frame_split import parse_publish

if TYPE_CHECKING:
    from broker.broker import Broker, Connection

NO_ROUTE = 312
TARGETS_MAX = 4_096  # remembered routes of one session; keys may be chosen by a hostile client


class SessionSink(Protocol):
    """The front's side of a session."""

    @property
    def writable(self) -> bool: ...

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None: ...

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None: ...

    def returned(self, run: Run, code: int, text: str) -> None: ...

    def cancelled(self, consumer_tag: str) -> None: ...

    def failed(self, error: BrokerError) -> None: ...


@dataclass(slots=True)
class Declared:
    name: str
    ready: int
    consumers: int


@dataclass(slots=True)
class GotMessage:
    tag: int
    piece: Slice
    content: bytes
    remaining: int


class Session:
    """One channel of one connection."""

    def __init__(self, broker: Broker, connection: Connection, sink: SessionSink, number: int) -> None:
        self.connection = connection
        self.number = number
        self.user = connection.user
        self.vhost = connection.vhost
        self.closed = False
        self._broker = broker
        self._catalog = broker.catalog
        self._sink = sink
        self._router = Router(broker.catalog, broker.find_queue, self.user, self.vhost)
        self._targets: dict[bytes, Target] = {}
        self._confirms: ConfirmTracker | None = None
        self._transaction: Transaction | None = None
        self._prefetch = 0
        self._next_tag = 1
        self._held = Unacknowledged()
        self._consumers: dict[str, Consumer] = {}
        self._last_declared: str | None = None
        self.published = 0

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
    ) -> None:
        target = self._targets.get(method_payload)
        if target is None or target.version != self._catalog.version:
            target = self._router.target(*parse_publish(method_payload))
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[method_payload] = target
        run = Run(
            target.exchange,
            target.routing_key,
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
        self._publish(run, target, now)

    def publish(self, run: Run, now: int) -> None:
        self._publish(run, self._router.target(run.exchange, run.routing_key, run.mandatory, False), now)

    def _publish(self, run: Run, target: Target, now: int) -> None:
        self._broker.note_publishing(self.connection)
        if run.user_id is not None:
            self._check_user_id(run.user_id)
        if self._transaction is not None:
            self._transaction.publishes.append((run, target))
            return
        self._route(run, target, None, now)

    def _route(self, run: Run, target: Target, completion: Completion | None, now: int) -> None:
        self.published += run.count
        if target.reply_name:
            found = self._broker.replies.deliver(run)
            self._finish_unqueued(run, found)
        elif target.by_headers or run.look & (LOOK_CC | LOOK_REPLY_TO):
            self._publish_singly(run, completion, now)
        else:
            self._hand_over(run, target.groups, target.queue_count, completion, now)

    def _finish_unqueued(self, run: Run, taken: bool) -> None:
        if run.mandatory and not taken:
            self._sink.returned(run, NO_ROUTE, "NO_ROUTE")
        if self._confirms is not None:
            self._confirms.expect(run.count, 0)

    def _publish_singly(self, run: Run, completion: Completion | None, now: int) -> None:
        """For messages whose properties decide where they go."""
        position = 0
        for _ in range(run.count):
            props, body, position = one(run.content, position)
            selected = Selected(props)
            keys = [run.routing_key]
            if run.look & LOOK_CC:
                keys += selected.further_keys()
                for key in keys[1:]:
                    permissions.check_topic(self._catalog, self.user, self.vhost, "write", run.exchange, key)
            props = selected.without_bcc()
            if run.look & LOOK_REPLY_TO:
                props = self._broker.replies.addressed(self, props)
            message = replace(run, content=encode(props, body), count=1, body_bytes=len(body))
            groups = self._router.route(run.exchange, keys, selected.headers)
            self._hand_over(message, groups, sum(len(queues) for _, queues in groups), completion, now)

    def _hand_over(
        self, run: Run, groups: tuple[Group, ...], queue_count: int, completion: Completion | None, now: int
    ) -> None:
        """To the queues; confirmed when all of them have it."""
        if queue_count == 0:
            self._finish_unqueued(run, False)
            return
        receipt: Receipt | None = None
        if self._confirms is not None:
            receipt = self._confirms.expect(run.count, queue_count)
        elif completion is not None:
            receipt = completion.expect(run.count, queue_count)
        for kind, queues in groups:
            kind.publish(queues, run, receipt, now)

    def _check_user_id(self, user_id: str) -> None:
        if user_id == self.user:
            return
        record = self._catalog.users.get(self.user)
        if record is None or "impersonator" not in record.tags:
            raise PreconditionFailed(f"user_id property set to '{user_id}' but authenticated user was '{self.user}'")

    def select_confirms(self) -> None:
        if self._transaction is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        if self._confirms is None:
            self._confirms = ConfirmTracker(lambda: self._broker.confirms_ready(self))

    def flush_confirms(self) -> None:
        """Tell the client what was answered. Called by the broker at the end of a turn."""
        assert self._confirms is not None, "answers without confirms"
        if not self.closed:
            for first, last, multiple, ok in self._confirms.take():
                self._sink.confirm(first, last, multiple, ok)

    # transactions

    def select_transactions(self) -> None:
        if self._confirms is not None:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        if self._transaction is None:
            self._transaction = Transaction()

    def commit(self, now: int) -> Pending[None]:
        """Publish and settle what was gathered; answered when every queue has what it was given."""
        transaction = self._in_transaction()
        self._transaction = Transaction()
        answer: Pending[None] = Pending()

        def done(refusals: int) -> None:
            if refusals:
                answer.fail(PreconditionFailed("partial tx completion"))
            else:
                answer.resolve(None)

        completion = Completion(done)
        for run, target in transaction.publishes:
            if target.version != self._catalog.version:
                target = self._router.target(run.exchange, run.routing_key, run.mandatory, False)
            self._route(run, target, completion, now)
        for held, outcome in transaction.settles:
            self._give_back(held, outcome, now)
        completion.close()
        return answer

    def rollback(self, now: int) -> None:
        """Forget what was published; what was settled is held again."""
        transaction = self._in_transaction()
        self._transaction = Transaction()
        for held, _ in transaction.settles:
            self._held.put_back(held)

    def _in_transaction(self) -> Transaction:
        if self._transaction is None:
            raise PreconditionFailed("channel is not transactional")
        return self._transaction

    # consuming

    def set_prefetch(self, count: int, global_: bool) -> None:
        self._prefetch = count

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
        if is_reply_name(queue):
            return self._consume_replies(tag, no_ack)
        name = self._named(queue)
        permissions.check(self._catalog, self.user, self.vhost, "read", "queue", name)
        record, found = self._existing(name)
        argument_rules.check_consumer(self.vhost, name, record.kind, arguments)
        if tag in self._consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        if not tag:
            tag = names.server_consumer_tag(self._broker.random_bytes(16))
        priority = arguments.get("x-priority", 0)
        consumer = Consumer(
            tag,
            found,
            self,
            no_ack=no_ack,
            prefetch=self._prefetch,
            exclusive=exclusive,
            priority=priority,
            arguments=arguments,
        )
        found.consume(consumer, now)
        self._consumers[tag] = consumer
        self._broker.wake(found)
        return Pending.of(tag)

    def _consume_replies(self, tag: str, no_ack: bool) -> Pending[str]:
        if tag in self._consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        tag = tag or names.server_consumer_tag(self._broker.random_bytes(16))
        consumer = Consumer(tag, NO_QUEUE, self, no_ack=no_ack)
        self._broker.replies.subscribe(self, consumer)
        self._consumers[tag] = consumer
        return Pending.of(tag)

    @property
    def writable(self) -> bool:
        return not self.closed and self._sink.writable

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        first = self._next_tag
        self._next_tag += piece.count
        if not consumer.no_ack:
            self._held.add(first, piece, consumer)
        self._sink.deliver(consumer, first, piece, content)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        if self._consumers.pop(consumer.tag, None) is not None:
            self._sink.cancelled(consumer.tag)

    def cancel(self, tag: str, now: int) -> None:
        consumer = self._consumers.pop(tag, None)
        if consumer is None:
            return
        if consumer.queue is NO_QUEUE:
            self._broker.replies.unsubscribe(self)
        else:
            consumer.queue.cancel(consumer, now)

    def resume(self, now: int) -> None:
        for consumer in self._consumers.values():
            if consumer.queue is not NO_QUEUE:
                self._broker.wake(consumer.queue)

    def get(self, queue: str, no_ack: bool, now: int) -> Pending[GotMessage | None]:
        name = self._named(queue)
        permissions.check(self._catalog, self.user, self.vhost, "read", "queue", name)
        _, found = self._existing(name)

        def number(got: Got | None) -> GotMessage | None:
            if got is None:
                return None
            tag = self._next_tag
            self._next_tag += 1
            if not no_ack:
                self._held.add(tag, got.piece, None)
            return GotMessage(tag, got.piece, got.content, got.remaining)

        return found.get(no_ack, now).map(number)

    # settling

    def acknowledge(self, first: int, last: int, multiple: bool, now: int) -> None:
        self._settle(first, last, multiple, Outcome.ACKNOWLEDGED, now)

    def reject(self, tag: int, multiple: bool, requeue: bool, now: int) -> None:
        self._settle(tag, tag, multiple, Outcome.REQUEUED if requeue else Outcome.REJECTED, now)

    def recover(self, requeue: bool, now: int) -> None:
        if not requeue:
            raise NotSupported("requeue=false")
        self._give_back(self._held.take_all(), Outcome.REQUEUED, now)

    def _settle(self, first: int, last: int, multiple: bool, outcome: Outcome, now: int) -> None:
        if multiple:
            held = self._held.take_all() if last == 0 else self._held.take_up_to(last)
        else:
            held = self._held.take_range(first, last)
        if held is None:
            unknown = last if multiple else next(tag for tag in range(first, last + 1) if not self._held.holds(tag))
            raise PreconditionFailed(f"unknown delivery tag {unknown}")
        if self._transaction is not None:
            self._transaction.settles.append((held, outcome))
        else:
            self._give_back(held, outcome, now)

    def _give_back(self, held: list[Held], outcome: Outcome, now: int) -> None:
        for delivery in held:
            piece = delivery.piece
            if delivery.consumer is not None:
                delivery.consumer.outstanding -= piece.count
            piece.queue.settle(piece, outcome, now)
            self._broker.wake(piece.queue)

    # topology

    def _named(self, name: str) -> str:
        if name:
            return name
        if self._last_declared is None:
            raise NotFound("no previously declared queue")
        return self._last_declared

    def _existing(self, name: str) -> tuple[QueueRecord, Queue]:
        record = self._catalog.queue(self.vhost, name)
        if record is None:
            raise names.not_found("queue", name, self.vhost)
        check_exclusive_access(record, self.connection.id)
        return record, self._broker.queue(self.vhost, name)

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, Any],
        now: int,
    ) -> Pending[None]:
        name = names.clean(name)
        names.check_not_default_exchange(name)
        if passive:
            if self._catalog.exchange(self.vhost, name) is None:
                raise names.not_found("exchange", name, self.vhost)
            return Pending.of(None)
        permissions.check(self._catalog, self.user, self.vhost, "configure", "exchange", name)
        wish = ExchangeRecord(self.vhost, name, kind, durable, auto_delete, internal, arguments)
        if self._catalog.exchange(self.vhost, name) is None:
            names.check_not_reserved("exchange", name)
        alternate = arguments.get("alternate-exchange")
        if isinstance(alternate, str):
            permissions.check(self._catalog, self.user, self.vhost, "read", "exchange", name)
            permissions.check(self._catalog, self.user, self.vhost, "write", "exchange", alternate)
        return self._broker.metadata.submit(commands.DeclareExchange(wish)).map(nothing)

    def delete_exchange(self, name: str, *, if_unused: bool, now: int) -> Pending[None]:
        name = names.clean(name)
        names.check_deletable_exchange(name, self.vhost)
        permissions.check(self._catalog, self.user, self.vhost, "configure", "exchange", name)
        return self._broker.metadata.submit(commands.DeleteExchange(self.vhost, name, if_unused)).map(nothing)

    def bind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: dict[str, Any], now: int
    ) -> Pending[None]:
        return self._change_binding("exchange", destination, source, routing_key, arguments, bind=True)

    def unbind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: dict[str, Any], now: int
    ) -> Pending[None]:
        return self._change_binding("exchange", destination, source, routing_key, arguments, bind=False)

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: dict[str, Any], now: int
    ) -> Pending[None]:
        if not queue and not routing_key:
            routing_key = self._named(queue)
        return self._change_binding("queue", self._named(queue), exchange, routing_key, arguments, bind=True)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: dict[str, Any], now: int
    ) -> Pending[None]:
        if not queue and not routing_key:
            routing_key = self._named(queue)
        return self._change_binding("queue", self._named(queue), exchange, routing_key, arguments, bind=False)

    def _change_binding(
        self, kind: Any, destination: str, source: str, routing_key: str, arguments: dict[str, Any], *, bind: bool
    ) -> Pending[None]:
        destination, source = names.clean(destination), names.clean(source)
        names.check_not_default_exchange(source)
        if kind == "exchange":
            names.check_not_default_exchange(destination)
        catalog = self._catalog
        permissions.check(catalog, self.user, self.vhost, "write", kind, destination)
        permissions.check(catalog, self.user, self.vhost, "read", "exchange", source)
        permissions.check_topic(catalog, self.user, self.vhost, "read", source, routing_key)
        record = BindingRecord(self.vhost, source, destination, kind, routing_key, arguments)
        command = commands.Bind(record, self.connection.id) if bind else commands.Unbind(record)
        return self._broker.metadata.submit(command).map(nothing)

    def declare_queue(
        self,
        name: str,
        *,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, Any],
        now: int,
    ) -> Pending[Declared]:
        name = names.clean(name)
        if is_reply_name(name):
            return Pending.of(Declared(name, 0, 1))
        if passive:
            self._existing(name)
            return Pending.of(self._declared(name))
        if not name:
            name = names.server_named(self._broker.random_bytes(16))
        elif self._catalog.queue(self.vhost, name) is None:
            names.check_not_reserved("queue", name)
        permissions.check(self._catalog, self.user, self.vhost, "configure", "queue", name)
        dead_letters = arguments.get("x-dead-letter-exchange")
        if isinstance(dead_letters, str):
            permissions.check(self._catalog, self.user, self.vhost, "read", "queue", name)
            permissions.check(self._catalog, self.user, self.vhost, "write", "exchange", dead_letters)
        wish = commands.DeclareQueue(
            self.vhost,
            name,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
            home=self._broker.node,
            owner=self.connection.id if exclusive else None,
        )
        return self._broker.metadata.submit(wish).map(lambda _: self._declared(name))

    def _declared(self, name: str) -> Declared:
        self._last_declared = name
        queue = self._broker.queue(self.vhost, name)
        return Declared(name, queue.ready_count, queue.consumer_count)

    def purge_queue(self, name: str, now: int) -> Pending[int]:
        name = self._named(names.clean(name))
        permissions.check(self._catalog, self.user, self.vhost, "read", "queue", name)
        _, queue = self._existing(name)
        return queue.purge(now)

    def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool, now: int) -> Pending[int]:
        name = self._named(names.clean(name))
        permissions.check(self._catalog, self.user, self.vhost, "configure", "queue", name)
        record = self._catalog.queue(self.vhost, name)
        if record is None:
            return Pending.of(0)
        _, queue = self._existing(name)
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{names.labelled('queue', name, self.vhost)} in use")
        if if_empty and queue.ready_count:
            raise PreconditionFailed(f"{names.labelled('queue', name, self.vhost)} not empty")
        ready = queue.ready_count
        return self._broker.metadata.submit(commands.DeleteQueue(self.vhost, name, record.id)).map(lambda _: ready)

    def close(self, now: int) -> None:
        """The client's channel is gone: what it held goes back to its queues, in front of others."""
        if self.closed:
            return
        self.closed = True
        for tag in list(self._consumers):
            self.cancel(tag, now)
        if self._transaction is not None:
            for held, _ in self._transaction.settles:
                self._give_back(held, Outcome.REQUEUED, now)
        self._give_back(self._held.take_all(), Outcome.REQUEUED, now)
        self._broker.session_closed(self)

    def permissions_changed(self) -> None:
        """The user's rights may be others now: whatever was remembered about them is looked up again."""
        self._targets.clear()

    def consumers(self) -> Iterable[Consumer]:
        return self._consumers.values()

    def statistics(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "user": self.user,
            "vhost": self.vhost,
            "consumers": len(self._consumers),
            "prefetch": self._prefetch,
            "unacknowledged": self._held.count,
            "unconfirmed": self._confirms.unanswered_count if self._confirms is not None else 0,
            "uncommitted": len(self._transaction.publishes) if self._transaction is not None else 0,
            "confirms": self._confirms is not None,
            "transactional": self._transaction is not None,
            "published": self.published,
        }


def nothing(_: Any) -> None:
    """For answers that say no more than that it is done."""


class Transaction:
    """What waits for commit, in order."""

    __slots__ = ("publishes", "settles")

    def __init__(self) -> None:
        self.publishes: list[tuple[Run, Target]] = []
        self.settles: list[tuple[list[Held], Outcome]] = []


class Completion:
    """Counts the receipts of one commit; calls back once with the number of refusals when all are in."""

    __slots__ = ("_done", "_refusals", "_waiting")

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done = done
        self._waiting = 1  # the commit itself, until `close`
        self._refusals = 0

    def expect(self, count: int, queues: int) -> Receipt:
        self._waiting += 1
        return Receipt(self, 1, count, queues)

    def answered(self, receipt: Receipt) -> None:
        self._refusals += receipt.refusals
        self.close()

    def close(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._done(self._refusals)

"""A broker small enough to be read at a glance, for tests of the AMQP front: queues are lists, nothing is durable.

It knows the default exchange only. Requests are answered at once, except those made while `answers_later` is set: these wait
in `pending` for the test to answer them. Errors come from `refuse`: name of a session method -> the error it raises.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from broker.errors import AccessRefused, BrokerError, NotAllowed, NotFound, NotSupported, PreconditionFailed
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.queue_type import Slice
from broker.records import UserRecord
from broker.turns import Turns
from native.content import messages
from native.frame_split import parse_publish
from tests.unit.broker.vouched.bearers import bearer

SECRET = b"open sesame"
TOKEN = b"token of "  # and a name


@dataclass
class FakeQueue:
    name: str
    ready: deque[tuple[str, str, bytes, bool]] = field(default_factory=deque)
    consumers: list[Any] = field(default_factory=list)


class FakeBroker:
    """To its turns all queues are one, which is woken by whatever sessions are asked."""

    record = SimpleNamespace(label="every queue")

    def __init__(self, soon: Callable[[Callable[[], None]], object] = lambda end: None) -> None:
        self.turns = Turns(soon, lambda: time.time_ns() // 1_000_000)
        self.queues: dict[str, FakeQueue] = {}
        self.connections: list[Any] = []
        self.sessions: list[FakeSession] = []
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: dict[str, BrokerError] = {}
        self.answers_later = False
        self.fans_out = False  # what is published is under way until it is answered
        self.pending: list[tuple[Pending[Any], Any]] = []
        self.audited: list[str] = []
        self.audit = Audit(note=self.audited.append, warn=self.audited.append)

    def answer(self, value: Any) -> Pending[Any]:
        if not self.answers_later:
            return Pending.of(value)
        pending: Pending[Any] = Pending()
        self.pending.append((pending, value))
        return pending

    def answer_all(self) -> None:
        waiting, self.pending = self.pending, []
        for pending, value in waiting:
            pending.resolve(value)

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[Any]:
        if "authenticate" in self.refuse:
            return Pending.failed(self.refuse["authenticate"])
        if password.startswith(TOKEN):
            return self.authenticate_token(password, client)
        if password != SECRET:
            return Pending.failed(AccessRefused(f"invalid credentials of user '{user}'"))
        return self.answer(UserRecord(user, None))

    def authenticate_token(self, token: bytes, client: ClientAddress) -> Pending[Any]:
        if not token.startswith(TOKEN):
            return Pending.failed(AccessRefused("it is no token"))
        return self.answer(bearer(token.removeprefix(TOKEN).decode()))

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[Any]:
        return self.answer(UserRecord(user, None))

    def open_connection(self, connection: Any, now: int) -> None:
        if connection.vhost != "/":
            raise NotAllowed(f"vhost {connection.vhost} not found")
        self.connections.append(connection)

    def renew_login(self, connection: Any, user: Any, now: int) -> None:
        if "renew_login" in self.refuse:
            raise self.refuse["renew_login"]
        connection.login = user

    def connection_closed(self, connection: Any, now: int) -> None:
        self.connections.remove(connection)
        for session in [one for one in self.sessions if one.connection is connection]:
            session.close(now)

    def open_session(self, connection: Any, sink: Any, now: int) -> FakeSession:
        if "open_session" in self.refuse:
            raise self.refuse["open_session"]
        session = FakeSession(self, connection, sink)
        self.sessions.append(session)
        return session

    def pump(self, now: int) -> None:
        for queue in self.queues.values():
            self._pump(queue)
        for session in self.sessions:
            session.confirm_all()

    def _pump(self, queue: FakeQueue) -> None:
        for consumer in queue.consumers:
            session = consumer.session
            while queue.ready and session.sink.writable and session.has_room(consumer):
                message = queue.ready.popleft()
                tag = session.next_tag
                session.next_tag += 1
                if not consumer.no_ack:
                    session.unacknowledged[tag] = (queue, message)
                session.sink.deliver(consumer, tag, piece_of(message), message[2])


def piece_of(message: tuple[str, str, bytes, bool]) -> Slice:
    exchange, routing_key, _, redelivered = message
    return Slice(None, None, 0, 1, 0, exchange, routing_key, redelivered)  # type: ignore[arg-type]


class FakeSession:
    """Its own topology and publisher, too."""

    def __init__(self, broker: FakeBroker, connection: Any, sink: Any) -> None:
        self.topology = self.publisher = self
        self.broker = broker
        self.connection = connection
        self.sink = sink
        self.confirms = False
        self.published = 0
        self.confirmed = 0
        self.next_tag = 1
        self.prefetch = 0
        self.unacknowledged: dict[int, tuple[FakeQueue, tuple[str, str, bytes, bool]]] = {}
        self.consumers: dict[str, Any] = {}
        self.last_queue: str | None = None
        self.closed = False

    def _called(self, name: str, *arguments: Any) -> None:
        assert not self.closed, f"{name} on a session that was closed"
        self.broker.calls.append((name, *arguments))
        self.broker.turns.wake(self.broker)  # type: ignore[arg-type]
        if name in self.broker.refuse:
            raise self.broker.refuse[name]

    def _queue(self, name: str) -> FakeQueue:
        if not name:
            if self.last_queue is None:
                raise NotFound("no previously declared queue")
            name = self.last_queue
        if name not in self.broker.queues:
            raise NotFound(f"no queue '{name}' in vhost '/'")
        return self.broker.queues[name]

    # publishing

    def publish_raw(
        self, method_payload: bytes, count: int, content: bytes, body_bytes: int, persistent: bool, priority: int,
        expiration: bytes | None, user_id: bytes | None, look: int, now: int,
    ) -> Pending[Any] | None:  # fmt: skip
        exchange, routing_key, mandatory, immediate = parse_publish(method_payload)
        self._called("publish_raw", exchange, routing_key, count, body_bytes, persistent)
        if immediate:
            raise NotSupported("immediate=true")
        if exchange:
            raise NotFound(f"no exchange '{exchange}' in vhost '/'")
        found = messages(content, 0, count)
        assert sum(len(body) for _, body in found) == body_bytes, "body_bytes does not fit the content"
        if routing_key in self.broker.queues:
            for props, body in found:
                one = len(props).to_bytes(4, "little") + len(body).to_bytes(4, "little") + props + body
                self.broker.queues[routing_key].ready.append((exchange, routing_key, one, False))
        elif mandatory:
            self.sink.returned(Run(exchange, routing_key, content, count, body_bytes), 312, "NO_ROUTE")
        self.published += count
        self.connection.publishes = True
        return self.broker.answer(None) if self.broker.fans_out else None

    def confirm_all(self) -> None:
        if self.confirms and self.published > self.confirmed and not self.closed:
            self.sink.confirm(self.confirmed + 1, self.published, True, True)
        self.confirmed = self.published

    def select_confirms(self) -> None:
        self._called("select_confirms")
        self.confirms = True
        self.published = self.confirmed = 0

    def select_transactions(self) -> None:
        self._called("select_transactions")
        if self.confirms:
            raise PreconditionFailed("cannot switch from confirm to tx mode")

    def commit(self, now: int) -> Pending[None]:
        self._called("commit")
        return self.broker.answer(None)

    def rollback(self, now: int) -> None:
        self._called("rollback")

    # consuming

    def has_room(self, consumer: Any) -> bool:
        return consumer.no_ack or not self.prefetch or len(self.unacknowledged) < self.prefetch

    def set_prefetch(self, count: int, global_: bool) -> None:
        self._called("set_prefetch", count, global_)
        self.prefetch = count

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
        self._called("consume", queue, tag)
        tag = tag or "amq.ctag-fake"
        if tag in self.consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        consumer = SimpleNamespace(tag=tag, no_ack=no_ack, session=self, queue=self._queue(queue))
        self.consumers[tag] = consumer
        consumer.queue.consumers.append(consumer)
        return self.broker.answer(tag)

    def cancel(self, tag: str, now: int) -> Pending[None]:
        self._called("cancel", tag)
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.consumers.remove(consumer)
        return self.broker.answer(None)

    def get(self, queue: str, no_ack: bool, now: int) -> Pending[Any]:
        self._called("get", queue)
        found = self._queue(queue)
        if not found.ready:
            return self.broker.answer(None)
        message = found.ready.popleft()
        tag = self.next_tag
        self.next_tag += 1
        if not no_ack:
            self.unacknowledged[tag] = (found, message)
        return self.broker.answer(
            SimpleNamespace(tag=tag, piece=piece_of(message), content=message[2], remaining=len(found.ready))
        )

    def _take_out(self, first: int, last: int, multiple: bool) -> list[tuple[FakeQueue, Any]]:
        if multiple:
            tags = [tag for tag in self.unacknowledged if last == 0 or tag <= last]
            if last and last not in self.unacknowledged:
                raise PreconditionFailed(f"unknown delivery tag {last}")
        else:
            if last - first > 100_000:
                raise PreconditionFailed(f"unknown delivery tag {first}")
            tags = list(range(first, last + 1))
            for tag in tags:
                if tag not in self.unacknowledged:
                    raise PreconditionFailed(f"unknown delivery tag {tag}")
        return [self.unacknowledged.pop(tag) for tag in tags]

    def acknowledge(self, first: int, last: int, multiple: bool, now: int) -> None:
        self._called("acknowledge", first, last, multiple)
        self._take_out(first, last, multiple)

    def reject(self, tag: int, requeue: bool, now: int) -> None:
        self._called("reject", tag, requeue)
        self._give_back(tag, False, requeue)

    def nack(self, tag: int, multiple: bool, requeue: bool, now: int) -> None:
        self._called("nack", tag, multiple, requeue)
        self._give_back(tag, multiple, requeue)

    def _give_back(self, tag: int, multiple: bool, requeue: bool) -> None:
        for queue, (exchange, routing_key, content, _) in reversed(self._take_out(tag, tag, multiple)):
            if requeue:
                queue.ready.appendleft((exchange, routing_key, content, True))

    def recover(self, requeue: bool, now: int) -> None:
        self._called("recover", requeue)
        for queue, (exchange, routing_key, content, _) in reversed(self._take_out(0, 0, True)):
            queue.ready.appendleft((exchange, routing_key, content, True))

    def resume(self, now: int) -> None:
        self._called("resume")

    # topology

    def declare_queue(
        self, name: str, *, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, Any],
        now: int,
    ) -> Pending[Any]:  # fmt: skip
        self._called("declare_queue", name, durable, arguments)
        name = name or "amq.gen-fake"
        if passive and name not in self.broker.queues:
            raise NotFound(f"no queue '{name}' in vhost '/'")
        queue = self.broker.queues.setdefault(name, FakeQueue(name))
        self.last_queue = name
        return self.broker.answer(SimpleNamespace(name=name, ready=len(queue.ready), consumers=len(queue.consumers)))

    def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool, now: int) -> Pending[int]:
        self._called("delete_queue", name, if_unused, if_empty)
        queue = self.broker.queues.pop(name, None)
        if queue is None:
            return self.broker.answer(0)
        for consumer in queue.consumers:
            del consumer.session.consumers[consumer.tag]
            consumer.session.sink.cancelled(consumer.tag)
        return self.broker.answer(len(queue.ready))

    def purge_queue(self, name: str, now: int) -> Pending[int]:
        self._called("purge_queue", name)
        queue = self._queue(name)
        count = len(queue.ready)
        queue.ready.clear()
        return self.broker.answer(count)

    def bind_queue(self, *arguments: Any) -> Pending[None]:
        self._called("bind_queue", *arguments)
        return self.broker.answer(None)

    def unbind_queue(self, *arguments: Any) -> Pending[None]:
        self._called("unbind_queue", *arguments)
        return self.broker.answer(None)

    def bind_exchange(self, *arguments: Any) -> Pending[None]:
        self._called("bind_exchange", *arguments)
        return self.broker.answer(None)

    def unbind_exchange(self, *arguments: Any) -> Pending[None]:
        self._called("unbind_exchange", *arguments)
        return self.broker.answer(None)

    def declare_exchange(self, name: str, kind: str, **arguments: Any) -> Pending[None]:
        self._called("declare_exchange", name, kind)
        return self.broker.answer(None)

    def delete_exchange(self, name: str, *, if_unused: bool, now: int) -> Pending[None]:
        self._called("delete_exchange", name, if_unused)
        return self.broker.answer(None)

    # the end

    def permissions_changed(self) -> None:
        self._called("permissions_changed")

    def close(self, now: int) -> None:
        assert not self.closed, "a session is closed once"
        for tag in list(self.consumers):
            self.cancel(tag, now)
        self.recover(True, now)
        self.closed = True
        self.broker.sessions.remove(self)

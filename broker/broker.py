"""One node's broker: who is connected, which queues are open, and what has to happen at the end of each turn.

Everything declared comes from the catalog: a queue is opened when a command has created it and deleted when one has removed
it, whoever submitted it. A *turn* is one batch of a client's input; at its end woken queues deliver and confirms go out, so
that the work of a batch is passed on as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker import catalog_commands as commands
from broker import names, permissions
from broker.alarms import Alarms
from broker.catalog import Catalog
from broker.consumer import Consumer
from broker.dead_letter import dead_lettered
from broker.errors import AccessRefused, BrokerError, ConnectionForced, NotAllowed
from broker.metadata import Metadata
from broker.pending import Pending
from broker.queue_type import DeathReason, Queue, QueueType
from broker.records import QueueRecord, UserRecord
from broker.reply_to import Replies
from broker.session import Session, SessionSink
from broker.timers import Timers

LOGIN_REFUSED = "Login was refused"


class Authenticator(Protocol):
    """Checks passwords, slowly and elsewhere."""

    def verify(self, user: UserRecord | None, password: bytes) -> Pending[bool]: ...


@dataclass(slots=True)
class Connection:
    """A client's connection as the broker sees it."""

    id: str
    name: str
    user: str
    vhost: str
    protocol: str
    client_properties: dict[str, Any]
    connected_at: int
    close: Callable[[BrokerError], None]
    set_blocked: Callable[[str | None], None]
    statistics: Callable[[], dict[str, Any]]
    publishes: bool = False


class Broker:
    """Fulfils QueueHost."""

    def __init__(
        self,
        *,
        node: str,
        catalog: Catalog,
        metadata: Metadata,
        authenticator: Authenticator,
        request_turn: Callable[[], None],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.node = node
        self.catalog = catalog
        self.metadata = metadata
        self.random_bytes = random_bytes
        self.alarms = Alarms(self._alarms_changed)
        self.now = 0
        self._authenticator = authenticator
        self._request_turn = request_turn
        self.replies = Replies(random_bytes)
        self._timers = Timers()
        self._kinds: dict[str, QueueType] = {}
        self._queues: dict[tuple[str, str], tuple[QueueType, Queue]] = {}
        self._connections: dict[str, Connection] = {}
        self._sessions: dict[str, list[Session]] = {}
        self._woken: dict[Queue, None] = {}
        self._confirming: dict[Session, None] = {}
        metadata.subscribe(self._applied)

    # what queues ask (QueueHost)

    def wake(self, queue: Queue) -> None:
        self._woken[queue] = None

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._timers.call_at(when, call)

    def dead_letter(
        self, queue: Queue, reason: DeathReason, messages: Sequence[tuple[str, str, bytes, bool]], now: int
    ) -> None:
        effective = self.catalog.effective(queue.record)
        exchange = effective.dead_letter_exchange
        if exchange is None or (exchange and self.catalog.exchange(queue.record.vhost, exchange) is None):
            return
        for message in messages:
            for run, target in dead_lettered(self.catalog, queue.record, effective, reason, message, now):
                found = self.find_queue(queue.record.vhost, target)
                if found is not None:
                    kind, destination = found
                    kind.publish((destination,), run, None, now)
                    self.wake(destination)

    def delete_queue(self, queue: Queue, reason: str) -> None:
        record = queue.record
        self.metadata.submit(commands.DeleteQueue(record.vhost, record.name, record.id)).then(ignore, ignore)

    # queues

    def add_kind(self, kind: QueueType) -> None:
        self._kinds[kind.name] = kind

    def recover(self, now: int) -> None:
        """Open every queue that is declared."""
        for vhost in self.catalog.vhosts:
            for record in self.catalog.queues(vhost):
                self._open(record, now)

    def _open(self, record: QueueRecord, now: int) -> None:
        kind = self._kinds[record.kind]
        self._queues[record.vhost, record.name] = kind, kind.open(record, self.catalog.effective(record), now)

    def find_queue(self, vhost: str, name: str) -> tuple[QueueType, Queue] | None:
        return self._queues.get((vhost, name))

    def queue(self, vhost: str, name: str) -> Queue:
        found = self._queues.get((vhost, name))
        if found is None:
            raise names.not_found("queue", name, vhost)
        return found[1]

    def queues(self) -> Iterable[Queue]:
        return (queue for _, queue in self._queues.values())

    def _applied(self, command: commands.Command, result: Any) -> None:
        match command:
            case commands.DeclareQueue():
                if (result.vhost, result.name) not in self._queues:
                    self._open(result, self.now)
            case commands.DeleteQueue():
                if result is not None:
                    self._deleted(result)
            case commands.DeleteVhost():
                for record in result:
                    self._deleted(record)
                self._close_connections(lambda one: one.vhost == command.name, f"vhost '{command.name}' is deleted")
            case commands.DeleteUser():
                self._close_connections(lambda one: one.user == command.name, f"user '{command.name}' is deleted")
            case commands.PutPolicy() | commands.DeletePolicy():
                for _, queue in list(self._queues.values()):
                    queue.policy_changed(self.catalog.effective(queue.record), self.now)

    def _deleted(self, record: QueueRecord) -> None:
        kind, queue = self._queues.pop((record.vhost, record.name))
        self._woken.pop(queue, None)
        for consumer in [one for one in self.consumers() if one.queue is queue]:
            consumer.sink.consumer_cancelled(consumer)
        kind.delete(queue, self.now)

    # clients

    def authenticate(self, user: str, password: bytes, peer_is_loopback: bool) -> Pending[UserRecord]:
        record = self.catalog.users.get(user)
        answer: Pending[UserRecord] = Pending()

        def verified(right: bool) -> None:
            if right and record is not None and (peer_is_loopback or user != "guest"):
                answer.resolve(record)
            else:
                answer.fail(AccessRefused(LOGIN_REFUSED))

        self._authenticator.verify(record, password).then(verified, answer.fail)
        return answer

    def authenticate_external(self, user: str, peer_is_loopback: bool) -> Pending[UserRecord]:
        record = self.catalog.users.get(user)
        if record is None or (user == "guest" and not peer_is_loopback):
            return Pending.failed(AccessRefused(LOGIN_REFUSED))
        return Pending.of(record)

    def open_connection(self, connection: Connection, now: int) -> None:
        if connection.vhost not in self.catalog.vhosts:
            raise NotAllowed(f"vhost {connection.vhost} not found")
        if not permissions.may_enter(self.catalog, connection.user, connection.vhost):
            raise NotAllowed(f"access to vhost '{connection.vhost}' refused for user '{connection.user}'")
        self._connections[connection.id] = connection
        self._sessions[connection.id] = []

    def connection_closed(self, connection: Connection, now: int) -> None:
        self.now = now
        self._connections.pop(connection.id, None)
        for session in list(self._sessions.pop(connection.id, ())):
            session.close(now)
        for record in [one for one in self.catalog.queues(connection.vhost) if one.owner == connection.id]:
            self.metadata.submit(commands.DeleteQueue(record.vhost, record.name, record.id)).then(ignore, ignore)

    def open_session(self, connection: Connection, sink: SessionSink, now: int) -> Session:
        sessions = self._sessions[connection.id]
        session = Session(self, connection, sink, len(sessions) + 1)
        sessions.append(session)
        return session

    def session_closed(self, session: Session) -> None:
        sessions = self._sessions.get(session.connection.id)
        if sessions is not None:
            sessions.remove(session)

    def _close_connections(self, concerned: Callable[[Connection], bool], why: str) -> None:
        for connection in [one for one in self._connections.values() if concerned(one)]:
            connection.close(ConnectionForced(why))

    def connections(self) -> Iterable[Connection]:
        return self._connections.values()

    def sessions(self) -> Iterable[Session]:
        return (session for sessions in self._sessions.values() for session in sessions)

    def consumers(self) -> Iterable[Consumer]:
        return (consumer for session in self.sessions() for consumer in session.consumers())

    def note_publishing(self, connection: Connection) -> None:
        if not connection.publishes:
            connection.publishes = True
            if self.alarms.blocked_reason is not None:
                connection.set_blocked(self.alarms.blocked_reason)

    def _alarms_changed(self, reason: str | None) -> None:
        for connection in list(self._connections.values()):
            if connection.publishes:
                connection.set_blocked(reason)

    # turns

    def confirms_ready(self, session: Session) -> None:
        self._confirming[session] = None
        self._request_turn()

    def turn_ended(self, now: int) -> None:
        self.now = now
        while self._woken:
            woken, self._woken = self._woken, {}
            for queue in woken:
                queue.pump(now)
        if self._confirming:
            confirming, self._confirming = self._confirming, {}
            for session in confirming:
                session.flush_confirms()

    def tick(self, now: int) -> None:
        self.now = now
        self._timers.tick(now)


def ignore(_: Any) -> None:
    """For requests of the broker's own: what failed is tried again by whoever needs it."""

"""One node's broker: who is connected and which queues are open.

Everything declared comes from the catalog: a queue is opened when a command has created it and deleted when one has removed
it, whoever submitted it. What clients have caused is passed on at the end of each turn (broker/turns.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from broker import names
from broker.alarms import Alarms
from broker.background_work import Steps, Work, begin
from broker.catalog import catalog_commands as commands
from broker.catalog import permissions
from broker.catalog.catalog import Catalog
from broker.catalog.metadata import Metadata
from broker.catalog.policy import EffectiveArguments
from broker.consumer import Consumer
from broker.counters import Counters
from broker.errors import (
    AccessRefused,
    BrokerError,
    ConnectionForced,
    InternalError,
    NotAllowed,
    PreconditionFailed,
    ResourceExhausted,
)
from broker.exchanges.recent_history import Histories, each_of
from broker.limits import Limits
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.message import Run
from broker.open_queue import OpenQueue
from broker.pending import Pending
from broker.queue_type import Arrival, DeathReason, Queue, QueueType
from broker.records import BindingRecord, QueueRecord, UserRecord
from broker.routing.asked import Asked
from broker.routing.burials import Burial, Burials
from broker.routing.dead_letter import REASON_WORDS, DeadMessage
from broker.routing.fan_out import QUEUES_PER_STEP
from broker.routing.reply_to import Replies
from broker.routing.route import route
from broker.session.session import Session, SessionSink
from broker.timers import Timers
from broker.turns import Turns

DELETE_AGAIN_MS = 1_000
DRAWN_BYTES = 6  # for a number by chance: far more than there are destinations, so each is as likely
LOGIN_REFUSED = "Login was refused"
# Everybody knows its password, so it opens from this machine only.
LOOPBACK_USER = "guest"
# Tags whose users are told that a vhost does not exist; others hear that they may not enter.
SEES_ALL_VHOSTS = frozenset({"administrator", "monitoring"})
SESSIONS_PER_STEP = 20


class Authenticator(Protocol):
    """Checks passwords, slowly and elsewhere."""

    def verify(self, user: UserRecord | None, password: bytes, name: str, source: str) -> Pending[bool]:
        """Takes as long for a user that does not exist, so that nobody learns which do. `name` is what was claimed, and
        `source` who asks, for fairness (broker/login/login_queue.py). Fails with ResourceExhausted when too much waits."""


@dataclass(slots=True)
class Connection:
    """A client's connection as the broker sees it, whatever protocol it speaks. Made by the front."""

    id: str  # unique in this process
    name: str
    user: str
    vhost: str
    protocol: str
    client_properties: dict[str, Any]
    connected_at: int
    close: Callable[[BrokerError], None]  # the broker ends it: its vhost or user went, an operator wants it
    set_blocked: Callable[[str | None], None]  # it published during an alarm: why, or None when that is over
    statistics: Callable[[], dict[str, Any]]
    login: UserRecord | None = None  # the user as it was when it was verified; None: verified just now
    publishes: bool = False  # ever
    blocked: bool = False


@dataclass(slots=True)
class Totals:
    """What came and went since the node was started."""

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0


class Broker:
    """Fulfils QueueHost."""

    def __init__(
        self,
        *,
        node: str,
        catalog: Catalog,
        metadata: Metadata,
        authenticator: Authenticator,
        turns: Turns,
        tick_at: Callable[[int], None],
        random_bytes: Callable[[int], bytes],
        limits: Limits | None = None,
        owner_prefix: str = "here.",
        audit: Audit | None = None,
        queues_per_step: int = QUEUES_PER_STEP,
    ) -> None:
        """`owner_prefix` makes a connection's id unique over the cluster, and over the processes of this node."""
        self.node = node
        self.catalog = catalog
        self.metadata = metadata
        self.random_bytes = random_bytes
        self.limits = limits or Limits()
        self.turns = turns
        self.work: Work = turns.work
        self.queues_per_step = queues_per_step
        self.alarms = Alarms(self._alarms_cleared)
        self.audit = audit or Audit(note=ignore, warn=ignore)
        self.replies = Replies(random_bytes)
        self.histories = Histories()
        self.totals = Totals()
        self.closed_because = ""  # why no client is let in now
        self._owner_prefix = owner_prefix
        self._authenticator = authenticator
        self._timers = Timers(tick_at)
        self._kinds: dict[str, QueueType] = {}
        self._queues: dict[tuple[str, str], OpenQueue] = {}
        self._exclusive: dict[str, dict[str, QueueRecord]] = {}  # of this process, by owner and name
        self._connections: dict[str, Connection] = {}
        self._sessions: dict[str, dict[Session, None]] = {}  # by connection
        self._counted: dict[str, Counters] = {}  # of sessions that have ended, by protocol
        self._burials = Burials(self)
        metadata.subscribe(self._applied)

    # ------------------------------------------------------------------------- what queues ask (QueueHost)

    def wake(self, queue: Queue) -> None:
        self.turns.wake(queue)

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._timers.call_at(when, call)

    def dead_letter(self, queue: Queue, reason: DeathReason, messages: Sequence[DeadMessage], now: int) -> None:
        self._burials.bury(Burial(queue, self._told(queue), reason, messages, now, None))

    def dead_letter_confirmed(
        self, queue: Queue, reason: DeathReason, message: DeadMessage, now: int, on_answer: Callable[[Arrival], None]
    ) -> None:
        self._burials.bury(Burial(queue, self._told(queue), reason, (message,), now, on_answer))

    def delete_queue(self, queue: Queue, reason: str) -> None:
        """What is refused now is tried again, as long as there is a reason to. A queue that expires is asked for anew by its
        kind, for it may have been used meanwhile."""
        self._delete(queue.record, lambda: queue.record.auto_delete and not queue.consumer_count)

    def _delete(self, record: QueueRecord, still: Callable[[], bool]) -> None:
        def refused(_: BrokerError) -> None:
            self._timers.call_at(self.turns.now + DELETE_AGAIN_MS, again)

        def again(now: int) -> None:
            found = self._queues.get((record.vhost, record.name))
            if found is not None and found.queue.record.id == record.id and still():
                self.turns.now = now
                self._delete(record, still)

        self.submit(commands.DeleteQueue(record.vhost, record.name, record.id), self.turns.now).then(ignore, refused)

    # ------------------------------------------------------------------------- queues

    def add_kind(self, kind: QueueType) -> None:
        self._kinds[kind.name] = kind

    def check_kind(self, record: QueueRecord) -> None:
        """Raises PreconditionFailed when this node cannot have such a queue."""
        kind = self._kinds.get(record.kind)
        if kind is None:
            raise PreconditionFailed(
                f"invalid arg 'x-queue-type' for {record.label}: \"unsupported queue type '{record.kind}'\""
            )
        kind.check(record)

    def recover(self, now: int) -> None:
        """Open every queue that is declared."""
        self.turns.now = now
        for vhost in self.catalog.vhosts:
            for record in self.catalog.queues(vhost):
                self._open(record)

    @property
    def open_queues(self) -> Mapping[tuple[str, str], OpenQueue]:
        """By vhost and name, as they are now and later."""
        return self._queues

    def find_queue(self, vhost: str, name: str) -> OpenQueue | None:
        return self._queues.get((vhost, name))

    def queue(self, vhost: str, name: str) -> Queue:
        found = self._queues.get((vhost, name))
        if found is None:
            raise names.not_found("queue", name, vhost)
        return found.queue

    def asks(self, vhost: str, props: bytes | None) -> Asked:
        """What exchanges may ask of a message with these properties that is routed on this node."""
        return Asked(props, self._draw, lambda queue: self._is_here(vhost, queue))

    def replay_history(self, binding: BindingRecord) -> None:
        """Give what was bound just now the messages that its exchange remembers on this node."""
        vhost = binding.vhost
        source = self.catalog.namespace(vhost).exchanges.get(binding.source)
        for run in self.histories.of(source.bindings) if source is not None else ():
            if binding.destination_kind == "queue":
                self._replay(vhost, [binding.destination], run)
                continue
            for message, props in each_of(run):
                asked = self.asks(vhost, props)
                self._replay(vhost, route(self.catalog, vhost, binding.destination, run.routing_key, asked), message)

    def _replay(self, vhost: str, queues: Iterable[str], run: Run) -> None:
        for name in queues:
            found = self._queues.get((vhost, name))
            if found is not None:
                with suppress(ResourceExhausted):  # the disk failed: nothing is promised of what is only remembered
                    found.kind.publish((found.queue,), run, None, self.turns.now)

    def _draw(self, count: int) -> int:
        return int.from_bytes(self.random_bytes(DRAWN_BYTES)) % count

    def _is_here(self, vhost: str, queue: str) -> bool:
        found = self._queues.get((vhost, queue))
        return found is not None and found.queue.record.home in ("", self.node)

    def queues(self) -> Iterable[Queue]:
        return (found.queue for found in self._queues.values())

    def consumer_added(self, consumer: Consumer) -> None:
        found = self._found(consumer.queue)
        if found is not None:
            found.consumers[consumer] = None

    def consumer_removed(self, consumer: Consumer) -> None:
        found = self._found(consumer.queue)
        if found is not None:
            found.consumers.pop(consumer, None)

    def is_open(self, queue: Queue) -> bool:
        return self._found(queue) is not None

    def _found(self, queue: Queue) -> OpenQueue | None:
        """None for the queue of a requester's replies, and for one that was deleted, even if its name is used again."""
        found = self._queues.get((queue.record.vhost, queue.record.name))
        return found if found is not None and found.queue is queue else None

    def _told(self, queue: Queue) -> EffectiveArguments:
        """What the queue goes by: a policy that changed reaches many queues one after the other, and until then a queue
        lets go of messages by the old one."""
        found = self._found(queue)
        return found.effective if found is not None else self.catalog.effective(queue.record)

    # ------------------------------------------------------------------------- what is declared

    def submit(self, command: commands.Command, now: int) -> Pending[Any]:
        """A change of what is declared, asked for at this time."""
        self.turns.now = now
        return self.metadata.submit(command)

    def _applied(self, command: commands.Command, result: Any) -> None:
        """Follow a command that was applied, whoever submitted it."""
        match command:
            case commands.DeclareQueue():
                self.totals.queues_declared += 1
                if (result.vhost, result.name) not in self._queues:
                    self.totals.queues_created += 1
                    self._open(result)
            case commands.DeleteQueue():
                if result is not None:
                    self._deleted([result])
            case commands.NodeStarted() | commands.NodeLost() | commands.RemoveNode():
                self._deleted(result)
            case commands.DeleteVhost():
                self._deleted(result)
                self._close_connections(lambda one: one.vhost == command.name, f"vhost '{command.name}' is deleted")
            case commands.DeleteUser():
                self._close_connections(lambda one: one.user == command.name, f"user '{command.name}' is deleted")
            case commands.PutUser():
                self._user_changed(result)
            case commands.PutPermission():
                self._permission_changed(command.record.user, command.record.vhost)
            case commands.DeletePermission():
                self._permission_changed(command.user, command.vhost)
            case commands.PutPolicy():
                self.work.do(self._policies_changed(command.record.vhost))
            case commands.DeletePolicy():
                self.work.do(self._policies_changed(command.vhost))

    def _open(self, record: QueueRecord) -> None:
        kind = self._kinds.get(record.kind)
        if kind is None:
            raise InternalError(
                f"{record.label} is declared as a {record.kind} queue, a kind that this node does not have"
            )
        effective = self.catalog.effective(record)
        self._queues[record.vhost, record.name] = OpenQueue(
            kind, kind.open(record, effective, self.turns.now), effective
        )
        self.catalog.version += 1  # routes that were found since the command was applied do not lead to the queue yet
        if record.owner is not None and self._is_ours(record.owner):
            self._exclusive.setdefault(record.owner, {})[record.name] = record
            if record.owner.removeprefix(self._owner_prefix) not in self._connections:  # it has gone meanwhile
                self.work.do(self._delete_exclusive(record.owner))

    def _deleted(self, records: Iterable[QueueRecord]) -> None:
        """None of them is found any more; their kinds forget one after the other."""
        self.work.do(self._forget([found for record in records if (found := self._taken_away(record)) is not None]))

    def _taken_away(self, record: QueueRecord) -> OpenQueue | None:
        """None: its kind could not open it, and whoever declared it was told."""
        found = self._queues.get((record.vhost, record.name))
        if found is None or found.queue.record.id != record.id:
            return None
        del self._queues[record.vhost, record.name]
        self.totals.queues_deleted += 1
        self.turns.forget_queue(found.queue)
        if record.owner in self._exclusive:
            self._exclusive[record.owner].pop(record.name, None)
        return found

    def _forget(self, deleted: Sequence[OpenQueue]) -> Iterator[None]:
        for found in deleted:
            for consumer in list(found.consumers):
                consumer.sink.consumer_cancelled(consumer)
            found.kind.delete(found.queue, self.turns.now)
            yield

    def _policies_changed(self, vhost: str) -> Iterator[None]:
        """Whatever changes meanwhile comes behind it, with a walk of its own."""
        for key, found in list(self._queues.items()):
            if key[0] != vhost or self._queues.get(key) is not found:
                continue
            effective = self.catalog.effective(found.queue.record)
            if effective != found.effective:
                found.effective = effective
                found.queue.policy_changed(effective, self.turns.now)
            yield

    # ------------------------------------------------------------------------- clients

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]:
        """Answers the user's record, or AccessRefused, which does not say what was wrong, or ResourceExhausted when the
        password could not be checked now."""
        record = self.catalog.users.get(user)
        answer: Pending[UserRecord] = Pending()

        def verified(right: bool) -> None:
            may = record is not None and self._still_valid(record)
            if right and may and record is not None and (client.loopback or user != LOOPBACK_USER):
                self.audit.logged_in(client)
                answer.resolve(record)
            else:
                why = f"{LOOPBACK_USER} is let in from this machine only" if right and may else "wrong user or password"
                self.audit.login_failed(user if record is not None else None, client, why)
                answer.fail(AccessRefused(LOGIN_REFUSED))

        self._authenticator.verify(record, password, user, client.source).then(verified, answer.fail)
        return answer

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[UserRecord]:
        """Somebody else vouches for the user: the certificate of a TLS connection."""
        record = self.catalog.users.get(user)
        if record is None or (user == LOOPBACK_USER and not client.loopback):
            self.audit.login_failed(
                user, client, "the certificate names a user that is unknown or not let in from there"
            )
            return Pending.failed(AccessRefused(LOGIN_REFUSED))
        self.audit.logged_in(client)
        return Pending.of(record)

    def send_clients_away(self, why: str) -> None:
        """Until `let_clients_in`: those that are there are told why, and no other is let in."""
        self.closed_because = why
        self._close_connections(lambda one: True, why)

    def let_clients_in(self) -> None:
        self.closed_because = ""

    def end_connections(self, now: int) -> None:
        """The node stops, and no front serves anybody any more: what clients still hold goes back to its queues."""
        for connection in list(self._connections.values()):
            self.connection_closed(connection, now)
        self.work.finish()

    def open_connection(self, connection: Connection, now: int) -> None:
        """Raises NotAllowed: no such vhost, no permission for it, or a limit; ConnectionForced while clients are sent away."""
        self.turns.now = now
        if self.closed_because:
            raise ConnectionForced(self.closed_because)
        vhost, user = connection.vhost, connection.user
        exists = vhost in self.catalog.vhosts
        if not exists and self._sees_all_vhosts(user):
            raise NotAllowed(f"vhost {vhost} not found")
        refused = f"access to vhost '{vhost}' refused for user '{user}'"
        if not exists or not permissions.may_enter(self.catalog, user, vhost):
            raise NotAllowed(refused)  # the same for both: strangers do not learn what exists
        connection.login = connection.login or self.catalog.users[user]
        if not self._still_valid(connection.login):
            raise NotAllowed(f"{refused}: its password was changed")
        if self.limits.connections and len(self._connections) >= self.limits.connections:
            raise NotAllowed(
                f"{refused}: connection limit ({self.limits.connections}) of node '{self.node}' is reached"
            )
        limit = self.catalog.vhosts[vhost].limits.get("max-connections")
        if limit is not None and self._count(lambda one: one.vhost == vhost) >= limit:
            raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
        limit = self.catalog.users[user].limits.get("max-connections")
        if limit is not None and self._count(lambda one: one.user == user) >= limit:
            raise NotAllowed(f"connection refused for user '{user}': user connection limit ({limit}) is reached")
        self.totals.connections_opened += 1
        self._connections[connection.id] = connection
        self._sessions[connection.id] = {}

    def connection_closed(self, connection: Connection, now: int) -> None:
        """Also for a connection that was refused, or is closed already."""
        self.turns.now = now
        if self._connections.pop(connection.id, None) is None:
            return
        self.totals.connections_closed += 1
        sessions = self._sessions[connection.id]
        if not sessions:
            del self._sessions[connection.id]
        closing = [session.close_in_steps() for session in sessions if not session.closed]
        begin(self.work, self._leave(closing, self.owner_of(connection)))

    def _leave(self, closing: list[Steps], owner: str) -> Steps:
        """Of a client that is gone: its sessions, then the exclusive queues, which have no consumers of its own any more."""
        for count, steps in enumerate(closing, 1):
            yield from steps
            if count % SESSIONS_PER_STEP == 0:
                yield
        yield from self._delete_exclusive(owner)

    def owner_of(self, connection: Connection) -> str:
        """As whom the connection has exclusive queues."""
        return self._owner_prefix + connection.id

    def _is_ours(self, owner: str) -> bool:
        return owner.startswith(self._owner_prefix)

    def _delete_exclusive(self, owner: str) -> Iterator[None]:
        for record in list(self._exclusive.pop(owner, {}).values()):
            self._delete(record, lambda: True)
            yield

    def open_session(self, connection: Connection, sink: SessionSink, now: int) -> Session:
        """Raises NotAllowed when a limit is reached."""
        self.turns.now = now
        sessions = self._sessions[connection.id]
        self._check_channels(connection)
        session = Session(self, connection, sink, len(sessions) + 1)
        sessions[session] = None
        self.totals.channels_opened += 1
        return session

    def _check_channels(self, connection: Connection) -> None:
        record = self.catalog.users.get(connection.user)
        limit = record.limits.get("max-channels") if record is not None else None
        if limit is not None:
            mine = [one for one in self._connections.values() if one.user == connection.user]
            if sum([len(self._sessions[one.id]) for one in mine]) >= limit:
                raise NotAllowed(
                    f"number of channels opened for user '{connection.user}' has reached the maximum allowed user "
                    f"limit of {limit}"
                )
        limit = self.limits.channels_per_node
        if limit and self.totals.channels_opened - self.totals.channels_closed >= limit:
            raise NotAllowed(
                f"number of channels opened on node '{self.node}' has reached the maximum allowed limit of {limit}"
            )

    def session_closed(self, session: Session) -> None:
        """Called by the session itself, at its end."""
        connection = session.connection.id
        sessions = self._sessions[connection]
        del sessions[session]
        if not sessions and connection not in self._connections:
            del self._sessions[connection]
        self.turns.forget_publisher(session.publisher)
        self.totals.channels_closed += 1
        self._counted.setdefault(session.connection.protocol, Counters()).add(session.counters)

    # ------------------------------------------------------------------------- rights that are taken away

    def _still_valid(self, login: UserRecord) -> bool:
        """Whether who logged in as this user could do so with the same password now."""
        record = self.catalog.users.get(login.name)
        return record is not None and record.password_hash == login.password_hash

    def _sees_all_vhosts(self, user: str) -> bool:
        record = self.catalog.users.get(user)
        return record is not None and not SEES_ALL_VHOSTS.isdisjoint(record.tags)

    def _user_changed(self, record: UserRecord) -> None:
        def has_old_password(one: Connection) -> bool:
            return one.user == record.name and one.login is not None and not self._still_valid(one.login)

        self._close_connections(has_old_password, f"the password of user '{record.name}' was changed")

    def _permission_changed(self, user: str, vhost: str) -> None:
        """Requests ask for their permission each time; what was once allowed and goes on by itself is stopped here."""
        concerned = [one for one in self._connections.values() if one.user == user and one.vhost == vhost]
        if not permissions.may_enter(self.catalog, user, vhost):
            for connection in concerned:
                connection.close(ConnectionForced(f"access to vhost '{vhost}' was taken from user '{user}'"))
            return
        for connection in concerned:
            for session in list(self._sessions[connection.id]):
                session.permissions_changed()

    def _count(self, concerned: Callable[[Connection], bool]) -> int:
        return sum(1 for one in self._connections.values() if concerned(one))

    def _close_connections(self, concerned: Callable[[Connection], bool], why: str) -> None:
        for connection in [one for one in self._connections.values() if concerned(one)]:
            connection.close(ConnectionForced(why))

    def connections(self) -> Iterable[Connection]:
        return self._connections.values()

    def sessions(self) -> Iterable[Session]:
        return (session for sessions in self._sessions.values() for session in sessions)

    def consumers(self) -> Iterable[Consumer]:
        return (consumer for session in self.sessions() for consumer in session.consumers())

    # ------------------------------------------------------------------------- alarms

    def note_publishing(self, connection: Connection) -> None:
        """Called when a connection publishes for the first time, and whenever it does so during an alarm."""
        connection.publishes = True
        reason = self.alarms.blocked_reason
        if reason is not None and not connection.blocked:
            connection.blocked = True
            connection.set_blocked(reason)

    def _alarms_cleared(self) -> None:
        for connection in [one for one in self._connections.values() if one.blocked]:
            connection.blocked = False
            connection.set_blocked(None)

    # ------------------------------------------------------------------------- turns

    def deliver_from(self, queue: Queue, now: int) -> None:
        """Before the turn ends: see `Turns.deliver_from`."""
        self.turns.deliver_from(queue, now)

    def end_turn(self) -> None:
        """Pass on what a client has caused: see `Turns.end`."""
        self.turns.end()

    def tick(self, now: int) -> None:
        """Whatever is due by now."""
        self.turns.now = now
        self._timers.tick(now)

    # ------------------------------------------------------------------------- figures

    def counters(self) -> dict[str, Counters]:
        """Messages since the start of the node, by protocol."""
        counted: dict[str, Counters] = {}
        for protocol, ended in self._counted.items():
            counted.setdefault(protocol, Counters()).add(ended)
        for session in self.sessions():
            counted.setdefault(session.connection.protocol, Counters()).add(session.counters)
        return counted

    def dead_lettered(self) -> dict[str, int]:
        """Messages that were given to a dead-letter exchange, by reason."""
        return {REASON_WORDS[reason]: count for reason, count in self._burials.counted.items()}


def ignore(_: Any) -> None:
    """For requests of the broker's own: what failed is tried again by whoever needs it."""

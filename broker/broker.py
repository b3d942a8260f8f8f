"""One node's broker: its queues (broker/node_queues.py), and the clients that use them.

Who may come in is decided here, and who has to go because a command of the catalog took a right away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from broker.activity.node_events import NodeEvents
from broker.actors import GoneReason
from broker.alarms import Alarms
from broker.background_work import Steps, begin
from broker.catalog import permissions
from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata import Metadata
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.counting.ended_traffic import EndedTraffic
from broker.errors import AccessRefused, BrokerError, ConnectionForced, NotAllowed
from broker.history_level import HistoryLevel
from broker.limits import Limits
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.login.login_endings import CREDENTIAL_EXPIRED, LoginEndings
from broker.node_queues import NodeQueues
from broker.pending import Pending, ignore
from broker.queues.consumer import Consumer
from broker.records import QueueRecord, UserRecord
from broker.routing.fan_out import QUEUES_PER_STEP
from broker.session.session import Session
from broker.session.session_sink import SessionSink
from broker.stream_clients.client_terms import StreamSink
from broker.stream_clients.stream_client import StreamClient
from broker.stream_clients.stream_clients import StreamClients
from broker.timers import Delays
from broker.turns import Turns
from broker.unlogged import UnloggedCounter
from broker.vouched.vouched_user import VouchedUser

LOGIN_REFUSED = "Login was refused"
# Everybody knows its password, so it opens from this machine only.
LOOPBACK_USER = "guest"
# Tags whose users are told that a vhost does not exist; others hear that they may not enter.
SEES_ALL_VHOSTS = frozenset({"administrator", "monitoring"})
SESSIONS_PER_STEP = 20
OF_SINGLE_REQUESTS = ("HTTP", "gRPC")  # protocols


class TokenLogins(Protocol):
    """Says who bears a token, and takes its time."""

    def is_token(self, secret: bytes) -> bool:
        """Whether this is one, whatever it is worth; known at once."""

    def log_in(self, token: bytes, source: str) -> Pending[VouchedUser]:
        """AccessRefused says what is wrong with it, for the log. ResourceExhausted: it could not be checked now."""


class Authenticator(Protocol):
    """Checks passwords, slowly and elsewhere."""

    def verify(self, user: UserRecord | None, password: bytes, name: str, source: str) -> Pending[bool]:
        """Takes as long for a user that does not exist, so that nobody learns which do. `name` is what was claimed, and
        `source` who asks, for fairness (broker/login/login_queue.py). Fails with ResourceExhausted when too much waits."""


class Broker(NodeQueues):
    """See the module."""

    def __init__(
        self,
        *,
        node: str,
        catalog: Catalog,
        metadata: Metadata,
        authenticator: Authenticator,
        turns: Turns,
        tick_at: Callable[[int], None],
        delays: Delays,
        random_bytes: Callable[[int], bytes],
        limits: Limits | None = None,
        owner_prefix: str = "here.",
        audit: Audit | None = None,
        history: HistoryLevel = HistoryLevel.BASIC,
        queues_per_step: int = QUEUES_PER_STEP,
        unlogged: UnloggedCounter | None = None,
        tokens: TokenLogins | None = None,
    ) -> None:
        """Without `tokens` passwords are all that lets in. `owner_prefix` makes a connection's id unique over the cluster, and
        over the processes of this node."""
        self.audit = audit or Audit(note=ignore, warn=ignore)
        self.history = history  # how much the log says of what clients do
        self.closed_because = ""  # why no client is let in now
        self._authenticator = authenticator
        self._tokens = tokens
        self.audit.wall_ms = turns.wall_ms
        self.events = NodeEvents(turns.wall_ms)
        self._connections: dict[str, Connection] = {}
        self._sessions: dict[str, dict[Session, None]] = {}  # by connection
        self.ended = EndedTraffic(catalog)
        # That a conversion's copies wait for a majority, by id of its queue: node/conversion/conversions.py.
        self.copies_wait_ms: Callable[[int], int] = lambda queue_id: 0
        self.stream_refusals: Counter[int] = Counter()  # of the stream protocol, by its code
        super().__init__(
            node=node,
            catalog=catalog,
            metadata=metadata,
            turns=turns,
            tick_at=tick_at,
            delays=delays,
            random_bytes=random_bytes,
            alarms=Alarms(self._alarms_cleared, self.events.alarm),
            limits=limits or Limits(),
            owners=self._connections,
            owner_prefix=owner_prefix,
            on_change=self.events.applied,
            queues_per_step=queues_per_step,
            unlogged=unlogged,
        )
        self.streams = StreamClients(self, self.ended)
        self._endings = LoginEndings(self.call_at)
        metadata.subscribe(self._clients_concerned)

    # ------------------------------------------------------------------------- clients

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]:
        """Answers the user's record, or AccessRefused, which does not say what was wrong, or ResourceExhausted when the
        password could not be checked now. A token in the place of the password says itself who it is."""
        if self._tokens is not None and self._tokens.is_token(password):
            return self.authenticate_token(password, client)
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

    def authenticate_token(self, token: bytes, client: ClientAddress) -> Pending[UserRecord]:
        """As `authenticate`."""
        answer: Pending[UserRecord] = Pending()

        def refused(error: BrokerError) -> None:
            if isinstance(error, AccessRefused):
                self.audit.login_failed(None, client, f"the token is refused: {error.text}")
                error = AccessRefused(LOGIN_REFUSED)
            answer.fail(error)

        def accepted(user: VouchedUser) -> None:
            if user.name == LOOPBACK_USER and not client.loopback:
                refused(AccessRefused(f"{LOOPBACK_USER} is let in from this machine only"))
                return
            self.audit.logged_in(client)
            answer.resolve(user)

        if self._tokens is None:
            refused(AccessRefused("this node takes no tokens, oauth2.resource_server_id is not set"))
        else:
            self._tokens.log_in(token, client.source).then(accepted, refused)
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
            connection.left = GoneReason.FORCED
            self.connection_closed(connection, now)
        self.work.finish()

    def open_connection(self, connection: Connection, now: int) -> None:
        """Raises NotAllowed: no such vhost, no permission for it, or a limit; ConnectionForced while clients are sent away."""
        self.turns.now = now
        if self.closed_because:
            raise ConnectionForced(self.closed_because)
        connection.login = self._login_for_vhost(connection, now)
        self._check_limits(connection)
        self.totals.connections_opened += 1
        self._connections[connection.id] = connection
        self._sessions[connection.id] = {}
        self._client_event(connection, "created")
        self._endings.watch(connection)

    def _login_for_vhost(self, connection: Connection, now: int) -> UserRecord:
        """Who it is, if they may use the virtual host."""
        vhost, user = connection.vhost, connection.user
        exists = vhost in self.catalog.vhosts
        if not exists and self._sees_all_vhosts(connection):
            raise NotAllowed(f"vhost {vhost} not found")
        refused = f"access to vhost '{vhost}' refused for user '{user}'"
        login = connection.login or self.catalog.users.get(user)
        if not exists or login is None or not permissions.may_enter(self.catalog, login, vhost):
            raise NotAllowed(refused)  # the same for both: strangers do not learn what exists
        if isinstance(login, VouchedUser) and login.has_ended(now):
            raise NotAllowed(f"{refused}: {CREDENTIAL_EXPIRED}")
        if not self._still_valid(login):
            raise NotAllowed(f"{refused}: its password was changed")
        return login

    def _check_limits(self, connection: Connection) -> None:
        vhost, user = connection.vhost, connection.user
        refused = f"access to vhost '{vhost}' refused for user '{user}'"
        if self.limits.connections and len(self._connections) >= self.limits.connections:
            raise NotAllowed(
                f"{refused}: connection limit ({self.limits.connections}) of node '{self.node}' is reached"
            )
        limit = self.catalog.vhosts[vhost].limits.get("max-connections")
        if limit is not None and self._count(lambda one: one.vhost == vhost) >= limit:
            raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
        record = self.catalog.users.get(user)
        limit = record.limits.get("max-connections") if record is not None else None
        if limit is not None and self._count(lambda one: one.user == user) >= limit:
            raise NotAllowed(f"connection refused for user '{user}': user connection limit ({limit}) is reached")

    def renew_login(self, connection: Connection, user: UserRecord, now: int) -> None:
        """Its client has proved anew who it is: what it may do, and until when, is what this says. Raises NotAllowed when it is
        somebody else, or may not use its virtual host any more."""
        self.turns.now = now
        if user.name != connection.user:
            raise NotAllowed(f"a connection of user '{connection.user}' cannot become one of another user")
        connection.login = user
        self._endings.watch(connection)
        if not permissions.may_enter(self.catalog, user, connection.vhost):
            raise NotAllowed(f"access to vhost '{connection.vhost}' refused for user '{user.name}'")
        for session in list(self._sessions[connection.id]):
            session.permissions_changed()
        self.streams.permissions_changed(connection, now)

    def _client_event(self, connection: Connection, kind: str) -> None:
        """Those of single requests would hide all others."""
        if connection.protocol not in OF_SINGLE_REQUESTS:
            self.events.connection(kind, connection.name, connection.vhost, connection.user, connection.protocol)

    def connection_closed(self, connection: Connection, now: int) -> None:
        """Also for a connection that was refused, or is closed already."""
        self.turns.now = now
        if self._connections.pop(connection.id, None) is None:
            return
        self.totals.connections_closed += 1
        self._endings.forget(connection)
        self._client_event(connection, "closed")
        self.ended.connection_ended(connection)
        self.streams.connection_closed(connection, now)
        sessions = self._sessions[connection.id]
        if not sessions:
            del self._sessions[connection.id]
        closing = [session.close_in_steps(connection.left) for session in sessions if not session.closed]
        begin(self.work, self._leave(connection, closing, self.owner_of(connection)))

    def _leave(self, connection: Connection, closing: list[Steps], owner: str) -> Steps:
        """Of a client that is gone: its sessions, then the exclusive queues, which have no consumers of its own any more."""
        for count, steps in enumerate(closing, 1):
            yield from steps
            if count % SESSIONS_PER_STEP == 0:
                yield
        connection.actor.gone(connection.left)
        yield from self.delete_exclusive(owner)

    def open_session(self, connection: Connection, sink: SessionSink, now: int) -> Session:
        """Raises NotAllowed when a limit is reached."""
        self.turns.now = now
        sessions = self._sessions[connection.id]
        self._check_channels(connection)
        session = Session(self, connection, sink, len(sessions) + 1, self._session_closed)
        sessions[session] = None
        self.totals.channels_opened += 1
        return session

    def tick(self, now: int) -> None:
        super().tick(now)
        self.streams.groups.tick(now)

    def open_streams(self, connection: Connection, sink: StreamSink, now: int) -> StreamClient:
        """For a connection that is open."""
        self.turns.now = now
        return self.streams.open(connection, sink)

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

    def _session_closed(self, session: Session) -> None:
        """Called by the session itself, at its end."""
        connection = session.connection.id
        sessions = self._sessions[connection]
        del sessions[session]
        if not sessions and connection not in self._connections:
            del self._sessions[connection]
        self.turns.forget_publisher(session.publisher)
        self.totals.channels_closed += 1
        self.ended.session_ended(session.connection, session.counters)
        self.ended.published(session.vhost, session.publisher.flows())

    # ------------------------------------------------------------------------- what commands mean for clients

    def _clients_concerned(self, command: commands.Command, result: Any) -> None:
        """By a command that was applied, whoever submitted it. Of queues it was said before."""
        match command:
            case commands.DeleteExchange():
                self.ended.exchange_deleted(command.vhost, command.name)
            case commands.DeleteVhost():
                self.ended.vhost_deleted(command.name)
                self._close_connections(lambda one: one.vhost == command.name, f"vhost '{command.name}' is deleted")
            case commands.DeleteUser():
                self._close_connections(lambda one: one.is_of(command.name), f"user '{command.name}' is deleted")
            case commands.PutUser():
                self._user_changed(result)
            case commands.PutPermission():
                self._permission_changed(command.record.user, command.record.vhost)
            case commands.DeletePermission():
                self._permission_changed(command.user, command.vhost)

    def _still_valid(self, login: UserRecord) -> bool:
        """Whether who logged in as this user could do so with the same password now. Of others it does not decide."""
        if login.vouched is not None:
            return True
        record = self.catalog.users.get(login.name)
        return record is not None and record.password_hash == login.password_hash

    def _sees_all_vhosts(self, connection: Connection) -> bool:
        login = connection.login
        record = login if login is not None and login.vouched is not None else self.catalog.users.get(connection.user)
        return record is not None and not SEES_ALL_VHOSTS.isdisjoint(record.tags)

    def _user_changed(self, record: UserRecord) -> None:
        def has_old_password(one: Connection) -> bool:
            return one.is_of(record.name) and not self._still_valid(one.who)

        self._close_connections(has_old_password, f"the password of user '{record.name}' was changed")

    def _permission_changed(self, user: str, vhost: str) -> None:
        """Requests ask for their permission each time; what was once allowed and goes on by itself is stopped here."""
        for connection in [one for one in self._connections.values() if one.is_of(user) and one.vhost == vhost]:
            if not permissions.may_enter(self.catalog, connection.who, vhost):
                connection.left = GoneReason.FORCED
                connection.close(ConnectionForced(f"access to vhost '{vhost}' was taken from user '{user}'"))
                continue
            for session in list(self._sessions[connection.id]):
                session.permissions_changed()
            self.streams.permissions_changed(connection, self.turns.now)

    def _count(self, concerned: Callable[[Connection], bool]) -> int:
        return sum(1 for one in self._connections.values() if concerned(one))

    def _close_connections(self, concerned: Callable[[Connection], bool], why: str) -> None:
        for connection in [one for one in self._connections.values() if concerned(one)]:
            connection.left = GoneReason.FORCED
            connection.close(ConnectionForced(why))

    def owner(self, record: QueueRecord) -> Connection | None:
        """The connection of this node that an exclusive queue belongs to."""
        id_ = self.owner_id(record)
        return None if id_ is None else self._connections.get(id_)

    def connections(self) -> Iterable[Connection]:
        return self._connections.values()

    def sessions(self) -> Iterable[Session]:
        return (session for sessions in self._sessions.values() for session in sessions)

    def consumers(self) -> Iterable[Consumer]:
        return (consumer for session in self.sessions() for consumer in session.consumers())

    # ------------------------------------------------------------------------- alarms

    def _alarms_cleared(self) -> None:
        for connection in [one for one in self._connections.values() if one.blocked and not self._is_held(one)]:
            connection.blocked = False
            connection.set_blocked(None)

    def _is_held(self, connection: Connection) -> bool:
        held = self.streams.is_held_by_alarms(connection)
        return self.alarms.blocked_reason is not None if held is None else held

    # ------------------------------------------------------------------------- figures

    def counters(self) -> dict[str, Counters]:
        """Messages since the start of the node, by protocol."""
        counted: dict[str, Counters] = {}
        for (protocol, _), ended in self.ended.counters.items():
            counted.setdefault(protocol, Counters()).add(ended)
        for session in self.sessions():
            counted.setdefault(session.connection.protocol, Counters()).add(session.counters)
        for client in self.streams:
            counted.setdefault(client.connection.protocol, Counters()).add(client.counters)
        return counted

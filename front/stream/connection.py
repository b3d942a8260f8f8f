"""One connection of the stream protocol without its socket: bytes in, bytes out, and what it asks of the broker in between.

    receive_data    what arrived (stream_intake.py); frames are handled in order, each when the one before is answered
    proceed         goes on with what back-pressure had stopped (stream_flow.py)
    data_to_send    what to write
    timer_elapsed   the time armed with `Outside` is over
    fail            ends the connection with Close

Which frame may come when is the table in phases.py; what is made of it is in opening.py, then in running.py and
stream_requests.py. Before a login, frames have `initial_frame_max` bytes at most, and no more input than one of them is kept
while a password is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from broker.client_connection import Connection as BrokerConnection
from broker.errors import BrokerError
from broker.messages.stored_bytes import Sendable
from broker.pending import Pending
from front.sockets.heartbeat import Heartbeat
from front.sockets.peer import Outside, Peer
from front.sockets.strangers import protocol_named
from front.stream import opening
from front.stream.deadlines import ConnectionDeadlines
from front.stream.phases import DROPS_INPUT, TRANSITIONS, ConnectionPhase
from front.stream.publishers import StreamPublishers
from front.stream.response_codes import code_of, refusal_of
from front.stream.running import RUNNING
from front.stream.session_port import StreamClientSession, StreamHost
from front.stream.stream_flow import StreamFlow
from front.stream.stream_intake import StreamIntake
from front.stream.stream_requests import REQUESTS
from front.stream.stream_terms import StreamIdentity, StreamLimits
from front.stream.subscriptions import StreamSubscriptions
from native.content import Buffer
from wire.stream.command_fields import BadStreamFrame
from wire.stream.command_frames import decode_frame, deliver_head, encode_frame, key_of
from wire.stream.command_keys import CommandKey, ResponseCode
from wire.stream.stream_commands import (
    CloseRequest,
    Command,
    HeartbeatCommand,
    MetadataUpdate,
    PublishFrame,
    StandardResponse,
)

if TYPE_CHECKING:
    from broker.records import UserRecord

T = TypeVar("T")

LOGIN_TIMEOUT_S = 60.0  # for this node to check a password, when hundreds log in at once
# How long the server waits for the socket to close when it cannot tell where the next frame begins.
FRAMING_LOST_TIMEOUT_S = 3.0
_HEARTBEAT = encode_frame(HeartbeatCommand())
_CLOSE_CORRELATION = 1


class Due(Enum):
    """What a deadline is for; that of a consumer update is its correlation id."""

    STEP = "step of the handshake"
    HEARTBEAT = "heartbeat"
    REFUSAL = "answer that is held back"
    CLOSE = "answer to Close"


class StreamConnection:
    """The server's side of one connection."""

    __slots__ = (
        "_held_back", "_intake", "_out",
        "bytes_in", "bytes_out", "client", "client_properties", "close_reason", "deadlines", "deliver_version", "frame_max",
        "heartbeat", "host", "identity", "limits", "login", "mechanism", "now", "outside", "peer", "pressure", "publishers",
        "reads", "session", "state", "subscriptions", "writes",
    )  # fmt: skip

    def __init__(
        self, host: StreamHost, outside: Outside, peer: Peer, limits: StreamLimits, identity: StreamIdentity, now: int
    ) -> None:
        self.host = host
        self.outside = outside
        self.peer = peer
        self.limits = limits
        self.identity = identity
        self.now = now  # of the input being worked on
        self.state = ConnectionPhase.GREETING
        self.close_reason: str | None = None  # why it ended, for the log; None after a clean end

        self.frame_max = limits.initial_frame_max
        self.heartbeat = Heartbeat()
        self.client_properties: dict[str, str] = {}
        self.login: UserRecord | None = None
        self.mechanism = ""  # of the login
        self.client: BrokerConnection | None = None  # set while the broker knows the connection
        self.session: StreamClientSession | None = None  # likewise, as are the next two
        self.publishers: StreamPublishers | None = None
        self.subscriptions: StreamSubscriptions | None = None

        self.pressure = StreamFlow(limits, outside.wake)
        self.deadlines = ConnectionDeadlines(outside)
        self.deliver_version = 1
        self._intake = StreamIntake()
        self._held_back: Command | None = None  # the answer to a login that was refused
        self._out: list[Sendable] = []
        self.bytes_in = self.reads = 0
        self.bytes_out = self.writes = 0
        self.deadlines.set(Due.STEP, limits.step_timeout_s)

    # ------------------------------------------------------------------------- input

    def receive_data(self, data: Buffer, now: int) -> None:
        """What arrived on the socket, in pieces of any size. `data` itself is not kept: it may be overwritten afterwards."""
        self.now = now
        if not self.bytes_in and len(data) and data[0]:
            self._end(f"not the stream protocol, but {protocol_named(bytes(data[:8]))}")
        self.bytes_in += len(data)
        self.reads += 1
        self._intake.receive(self, data)

    def proceed(self, now: int) -> bool:
        """Go on with what was stopped, input or deliveries, where the reason is gone. True if there was any."""
        self.now = now
        input_waited = self._intake.go_on(self)
        deliveries_wait = self.pressure.restart_deliveries()
        if deliveries_wait and self.session is not None:
            self.session.resume(now)
        return input_waited or deliveries_wait

    def take_frame(self, frame: bytes) -> None:
        try:
            command = decode_frame(frame)
        except BadStreamFrame as error:
            self.fail_frame(error)
            return
        if isinstance(command, PublishFrame) and self.publishers is not None:
            self._intake.work_off(self.publishers.publish(command, self.now), len(frame))
        elif isinstance(command, CloseRequest):
            self._closed_by_client(command)
        elif self.state is ConnectionPhase.CLOSING:
            if isinstance(command, StandardResponse) and command.key == CommandKey.CLOSE:
                self._end(self.close_reason)
        elif self.state is ConnectionPhase.RUNNING:
            self._take(command)
        elif not isinstance(command, HeartbeatCommand):
            self._take_before_running(command)

    def _take_before_running(self, command: Command) -> None:
        handler = opening.OPENING.get(type(command))
        after = TRANSITIONS.get((self.state, key_of(command)))
        if after is None or handler is None:
            self._unexpected(command)
            return
        self.state = after
        self.deadlines.set(Due.STEP, self.limits.step_timeout_s)
        handler(self, command)

    def _take(self, command: Command) -> None:
        """A frame of a client whose connection is open."""
        session = self.session
        assert session is not None, "a running connection without a session"
        try:
            if (request := REQUESTS.get(type(command))) is not None:
                self.answer_later(command, request(session, command, self.now))
            elif (handler := RUNNING.get(type(command))) is not None:
                handler(self, command)
            else:
                self._unexpected(command)
        except BrokerError as error:
            self.send(refusal_of(command, code_of(error)))

    def _unexpected(self, command: Command) -> None:
        what = f"{type(command).__name__} while {self.state.value}"
        self.fail(ResponseCode.UNKNOWN_FRAME, "unknown frame", what)

    # ------------------------------------------------------------------------- requests

    def await_answer(
        self, pending: Pending[T], answered: Callable[[T], None], refused: Callable[[BrokerError], None]
    ) -> None:
        """Input stops until one of the two was called. Neither is, when the connection ends before."""
        assert not self.pressure.answering, "two requests are being answered"
        self.pressure.answering = True
        if self.state is ConnectionPhase.AUTHENTICATING:
            self.deadlines.set(Due.STEP, LOGIN_TIMEOUT_S)

        def goes_on(then: Callable[[Any], None], value: Any) -> None:
            if not self.pressure.answering:
                return
            self.pressure.answering = False
            if self.state is ConnectionPhase.AUTHENTICATING:
                self.deadlines.set(Due.STEP, self.limits.step_timeout_s)
            then(value)
            if self.pressure.input_waits:
                self.outside.wake()

        pending.then(lambda value: goes_on(answered, value), lambda error: goes_on(refused, error))

    def answer_later(self, request: Command, pending: Pending[Any]) -> None:
        self.await_answer(pending, self.send, lambda error: self.send(refusal_of(request, code_of(error))))

    @property
    def open_publishers(self) -> StreamPublishers:
        assert self.publishers is not None, f"publishers of a connection that is {self.state.value}"
        return self.publishers

    @property
    def open_subscriptions(self) -> StreamSubscriptions:
        assert self.subscriptions is not None, f"subscriptions of a connection that is {self.state.value}"
        return self.subscriptions

    # ------------------------------------------------------------------------- what the session says

    @property
    def writable(self) -> bool:
        return self.pressure.writable

    def deliver(self, subscription: int, last_chunk: int, chunk: Sendable) -> None:
        assert subscription in self.open_subscriptions.by_number, (
            f"a chunk for subscription {subscription}, which is gone"
        )
        self.send_bytes(deliver_head(self.deliver_version, subscription, last_chunk, len(chunk)))
        self.send_bytes(chunk)

    def confirm(self, publisher: int, ids: bytes) -> None:
        if not self._out:
            self.outside.wake()
        self.pressure.unsent_bytes += len(ids)
        self.open_publishers.confirm(publisher, ids)

    def refuse_publish(self, publisher: int, ids: bytes, error: BrokerError) -> None:
        self.send_bytes(self.open_publishers.refuse(publisher, ids, error))

    def stream_unavailable(self, stream: str) -> None:
        self.send_confirms()
        published = self.open_publishers.stream_unavailable(stream)
        subscribed = self.open_subscriptions.stream_unavailable(stream)
        if published or subscribed:
            self.send(MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, stream))

    def activate(self, subscription: int, active: bool) -> None:
        correlation, data = self.open_subscriptions.activate(subscription, active)
        self.send_bytes(data)
        self.deadlines.set(correlation, self.limits.consumer_update_timeout_s)

    # ------------------------------------------------------------------------- output

    def send(self, command: Command) -> None:
        code = getattr(command, "code", ResponseCode.OK)
        if code != ResponseCode.OK:
            self.host.stream_refusals[code] += 1
        self.send_bytes(encode_frame(command))

    def send_bytes(self, data: Sendable) -> None:
        if not len(data):
            return
        if not self._out:
            self.outside.wake()
        self._out.append(data)
        self.pressure.unsent_bytes += len(data)

    def send_confirms(self) -> None:
        if self.publishers is not None:
            self._out += self.publishers.take_confirms()

    def data_to_send(self) -> list[Sendable]:
        """What to write now, in order; each part is returned once."""
        self.send_confirms()
        out, self._out = self._out, []
        self.pressure.sent()
        self.bytes_out += sum(map(len, out))
        self.writes += 1
        return out

    # ------------------------------------------------------------------------- the virtual host

    @property
    def user(self) -> str:
        """Empty until the login."""
        return "" if self.login is None else self.login.name

    @property
    def publishes(self) -> bool:
        """Whether it is to be held when publishers are."""
        return self.pressure.publishes

    @property
    def ended_because(self) -> str | None:
        return self.close_reason

    def enter_vhost(self, vhost: str) -> None:
        """Raises BrokerError."""
        client = BrokerConnection(
            id=self.peer.id,
            name=self.peer.name,
            user=self.user,
            login=self.login,
            vhost=vhost,
            protocol=self.peer.protocol,
            client_properties=dict(self.client_properties),
            connected_at=self.now,
            close=self.close_for_broker,
            set_blocked=self.set_blocked,
            statistics=self.statistics,
            tls=self.peer.tls,
        )
        self.host.open_connection(client, self.now)
        self.client = client
        self.session = self.host.open_streams(client, self, self.now)
        self.publishers = StreamPublishers(self.session, self.pressure, self.frame_max)
        self.subscriptions = StreamSubscriptions(self.session)
        self.deadlines.clear(Due.STEP)
        first_check_s = self.heartbeat.first_check_in_s(self.outside.monotonic())
        if first_check_s:
            self.deadlines.set(Due.HEARTBEAT, first_check_s)

    def renew_login(self, user: UserRecord) -> None:
        """Raises BrokerError."""
        assert self.client is not None, "a running connection that the broker does not know"
        self.login = user
        self.host.renew_login(self.client, user, self.now)

    def set_blocked(self, reason: str | None) -> None:
        """A publishing client is not read from while an alarm is raised; the protocol has no word for it."""
        if (reason is None) != (self.pressure.alarm is None):
            self.outside.wake()
        self.pressure.alarm = reason

    # ------------------------------------------------------------------------- deadlines

    def timer_elapsed(self, now: int) -> None:
        """The timeout that was armed last has passed."""
        self.now = now
        for what in self.deadlines.due():
            match what:
                case Due.STEP:
                    self._end(f"no handshake within {self.limits.step_timeout_s:g} s, while {self.state.value}")
                case Due.HEARTBEAT:
                    self._check_heartbeat()
                case Due.REFUSAL:
                    self._end_refused()
                case Due.CLOSE:
                    self._end(self.close_reason)
                case _ if self.subscriptions is not None and what in self.subscriptions.asked:
                    text = f"no answer to a consumer update within {self.limits.consumer_update_timeout_s:g} s"
                    self.fail(ResponseCode.INTERNAL_ERROR, text)
            if self.state is ConnectionPhase.CLOSED:
                return

    def _check_heartbeat(self) -> None:
        heartbeat = self.heartbeat
        self.send_bytes(_HEARTBEAT)
        if heartbeat.peer_is_silent(self.bytes_in, self.pressure.reads, self.outside.monotonic()):
            self._end(f"missed heartbeats from client, timeout: {heartbeat.interval_s}s")
        else:
            self.deadlines.set(Due.HEARTBEAT, heartbeat.check_every_s)

    # ------------------------------------------------------------------------- the end

    def refuse(self, answer: Command, why: str, *, delayed: bool) -> None:
        """End the connection with this answer to a login or to Open; delayed, so that guessing takes time."""
        self._leave_broker()
        self.close_reason = why
        self._held_back = answer
        self.state = ConnectionPhase.REFUSED
        self.deadlines.clear_all()
        if delayed:
            self.deadlines.set(Due.REFUSAL, self.limits.refusal_pause_s)
        else:
            self._end_refused()

    def _end_refused(self) -> None:
        answer, self._held_back = self._held_back, None
        assert answer is not None, "a refusal without an answer"
        self.send(answer)
        self._end(self.close_reason)

    def _closed_by_client(self, request: CloseRequest) -> None:
        self.send_confirms()
        self.send(StandardResponse(CommandKey.CLOSE, request.correlation, ResponseCode.OK))
        self._end(self.close_reason)

    def close_for_broker(self, error: BrokerError) -> None:
        """Without Close, as RabbitMQ does it: clients take that for the end, and only what looks like a broken connection for a
        reason to connect again."""
        if self.state is not ConnectionPhase.CLOSED:
            self.send_confirms()
            self._end(error.text)

    def fail(self, code: ResponseCode, reason: str, why: str = "") -> None:
        """End the connection: leave the broker and send Close with this reason; `why` is for the log."""
        if self.state is ConnectionPhase.CLOSING or self.state in DROPS_INPUT:
            return
        self.close_reason = f"{reason}: {why}" if why else reason
        self.send_confirms()
        self._leave_broker()
        self.state = ConnectionPhase.CLOSING
        self.send(CloseRequest(_CLOSE_CORRELATION, code, reason))
        self.deadlines.clear_all()
        self.deadlines.set(Due.CLOSE, self.limits.step_timeout_s)

    def fail_frame(self, error: BadStreamFrame) -> None:
        self.fail(error.code, "unknown frame", str(error))

    def fail_framing(self, error: BadStreamFrame) -> None:
        """Not even the answer to Close could be recognised."""
        reason = "frame too large" if error.code == ResponseCode.FRAME_TOO_LARGE else "unknown frame"
        self.fail(error.code, reason, str(error))
        self._intake.forget(self)
        self.deadlines.set(Due.CLOSE, FRAMING_LOST_TIMEOUT_S)

    def crashed(self) -> None:
        self.fail(ResponseCode.INTERNAL_ERROR, "internal error")

    def connection_lost(self, now: int) -> None:
        """The socket is gone."""
        self.now = now
        if self.state is ConnectionPhase.CLOSING:
            self._end(self.close_reason)
        elif self.state is not ConnectionPhase.CLOSED:
            self._end(self.close_reason or "client unexpectedly closed TCP connection")

    def _end(self, why: str | None) -> None:
        """What is to be sent is, and then the socket is closed."""
        self._leave_broker()
        self.close_reason = why
        self.state = ConnectionPhase.CLOSED
        self._intake.forget(self)
        self.deadlines.clear_all()
        self.outside.wake()

    def _leave_broker(self) -> None:
        self.pressure.answering = False
        self.pressure.alarm = None  # it publishes no more, and the answer to a Close is to be read
        self._intake.forget_publishing()
        session, self.session = self.session, None
        self.publishers = self.subscriptions = None
        if session is not None:
            session.close(self.now)
        client, self.client = self.client, None
        if client is not None:
            self.host.connection_closed(client, self.now)

    # ------------------------------------------------------------------------- figures

    def statistics(self) -> dict[str, Any]:
        flow = self.pressure
        return {
            "state": "blocked" if flow.alarm is not None and flow.publishes else self.state.value,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "reads": self.reads,
            "writes": self.writes,
            "mechanism": self.mechanism,
            "pending_out_bytes": flow.unsent_bytes,
            "held_bytes": flow.kept_bytes,
            "outstanding_messages": flow.outstanding_messages,
            "publishers": 0 if self.publishers is None else len(self.publishers.by_number),
            "subscriptions": 0 if self.subscriptions is None else len(self.subscriptions.by_number),
            "frame_max": self.frame_max,
            "heartbeat_s": self.heartbeat.interval_s,
            "peer_host": self.peer.host,
            "peer_port": self.peer.port,
            "tls": self.peer.tls,
            **self.peer.details,
        }

"""One AMQP connection without its socket: bytes in, bytes out, and what the broker is asked in between.

`receive_data` takes what arrived, `data_to_send` gives what is to be written, `timer_elapsed` stands for time passing, and
`Outside` is how the connection asks to be called again. The state machine is TRANSITIONS below; docs draw it from there.

Limits before a client has logged in: frames of `initial_frame_max` bytes, nothing put together from several frames, and at
most UNAUTHENTICATED_BYTES_MAX bytes kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from broker.broker import Connection as BrokerConnection

from broker.errors import AccessRefused, BrokerError
from front.amqp import frame, sasl, spec
from front.amqp.channel import Channel, held_size
from front.amqp.replies import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_ALLOWED,
    RESOURCE_ERROR,
    UNEXPECTED_FRAME,
    ProtocolError,
    Reply,
    reply_to,
)
from front.amqp.values import MalformedArguments
from native.frame_split import FRAME, PUBLISH, Item, split

if TYPE_CHECKING:
    from broker.broker import Broker

    from broker.records import UserRecord

FRAME_MAX_MIN = 8192  # what the smallest client must be able to receive
UNAUTHENTICATED_BYTES_MAX = 65_536
# A publish that arrives in pieces is waited for up to this size; bigger ones are put together frame by frame.
ASSEMBLE_BYTES_MAX = 65_536
# All contents that are arriving on one connection together, in messages of the greatest size.
ASSEMBLING_MESSAGES_MAX = 8
# Above this much input held back behind unanswered methods the connection is not read from.
HELD_BYTES_MAX = 1_048_576
# Answers that a client does not read. Deliveries stop at the write buffer's high mark, far below.
UNREAD_BYTES_MAX = 16_777_216
# How long a client that broke the framing may take to hang up: its close-ok could not be recognised.
DEAF_TIMEOUT_S = 3.0

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class State(Enum):
    EXPECTING_HEADER = "expecting header"
    STARTING = "starting"
    AUTHENTICATING = "authenticating"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"  # connection.close was sent; waiting for close-ok
    REFUSED = "refused"  # a login was refused; silence until the pause is over, to slow down guessing
    CLOSED = "closed"


# (state, what the client sends) -> the state it leads to when all is well. What is not here is an error.
TRANSITIONS: dict[tuple[State, str], State] = {
    (State.EXPECTING_HEADER, "protocol header"): State.STARTING,
    (State.STARTING, "connection.start-ok"): State.AUTHENTICATING,
    (State.AUTHENTICATING, "login accepted"): State.TUNING,
    (State.AUTHENTICATING, "login refused"): State.REFUSED,
    (State.TUNING, "connection.tune-ok"): State.OPENING,
    (State.OPENING, "connection.open"): State.RUNNING,
    (State.RUNNING, "connection.update-secret"): State.RUNNING,
    (State.STARTING, "connection.close"): State.CLOSED,
    (State.TUNING, "connection.close"): State.CLOSED,
    (State.OPENING, "connection.close"): State.CLOSED,
    (State.RUNNING, "connection.close"): State.CLOSED,
    (State.CLOSING, "connection.close"): State.CLOSED,
    (State.CLOSING, "connection.close-ok"): State.CLOSED,
}


@dataclass(slots=True, frozen=True)
class Limits:
    """What is proposed in connection.tune, and how long things may take."""

    channel_max: int = 2047
    frame_max: int = 131_072
    initial_frame_max: int = 8_192
    heartbeat_s: int = 60
    message_bytes_max: int = 16_777_216
    handshake_timeout_s: float = 10.0
    refusal_pause_s: float = 3.0
    close_timeout_s: float = 30.0
    write_buffer_high_bytes: int = 4_194_304


@dataclass(slots=True, frozen=True)
class Identity:
    """How the server presents itself in connection.start."""

    cluster_name: str
    version: str
    platform: str
    product: str = "Leveret"
    information: str = "Licensed under the Apache License 2.0"

    def properties(self) -> dict[str, Any]:
        return {
            "capabilities": CAPABILITIES,
            "cluster_name": self.cluster_name,
            "information": self.information,
            "platform": self.platform,
            "product": self.product,
            "version": self.version,
        }


@dataclass(slots=True, frozen=True)
class Peer:
    """Who is at the other end, as the socket knows it."""

    id: str  # of the connection, unique on this node
    name: str  # "ip:port -> ip:port"
    host: str
    port: int
    loopback: bool
    tls: bool = False
    tls_user: str | None = None  # the user a verified client certificate names
    details: dict[str, Any] = field(default_factory=dict)


class Outside(Protocol):
    """What a connection asks of whoever drives it."""

    def wake(self) -> None:
        """There is something to send or to go on with: call `proceed` and `data_to_send` soon."""

    def arm(self, seconds: float) -> None:
        """Call `timer_elapsed` after this long, once. Replaces what was armed before; 0 only disarms."""


class Connection:
    """The server's side of one AMQP connection."""

    __slots__ = (
        "_assembling_bytes", "_blocked", "_broker", "_carry", "_check_even", "_continuing", "_deaf", "_held",
        "_identity", "_out", "_outside", "_received_at_check", "_sent_at_check", "_silent_checks", "_starved",
        "bytes_in", "bytes_out", "channel_max", "channels", "client", "client_properties", "close_reason", "frame_max",
        "heartbeat_s", "held_bytes", "limits", "now", "out_bytes", "peer", "state", "transport_writable", "user",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, outside: Outside, peer: Peer, limits: Limits, identity: Identity, now: int
    ) -> None:
        self._broker = broker
        self._outside = outside
        self._identity = identity
        self.peer = peer
        self.limits = limits
        self.now = now  # of the batch being worked on
        self.state = State.EXPECTING_HEADER
        self.close_reason: Reply | str | None = (
            None  # why it ended, for the log; None while it lives or after a clean end
        )

        self.frame_max = limits.initial_frame_max
        self.channel_max = limits.channel_max
        self.heartbeat_s = 0
        self.user = ""
        self.client_properties: dict[str, Any] = {}
        self.client: BrokerConnection | None = None  # set while the broker knows the connection
        self.channels: dict[int, Channel] = {}

        self._carry: bytearray | None = None  # the beginning of a frame whose end has not arrived
        self._held: list[Item] | None = None  # input that waits for the login's answer
        self._continuing: list[Channel] = []  # channels whose answer came: they go on with what was held back
        self._deaf = False  # framing is lost: nothing that arrives can be understood any more
        self.held_bytes = 0
        self._assembling_bytes = 0

        self._out: list[bytes] = []
        self.out_bytes = 0
        self.transport_writable = True
        self._starved = False  # a queue was told that nothing can be written: it waits to be woken
        self._blocked: str | None = None

        self.bytes_in = 0
        self.bytes_out = 0
        self._check_even = False
        self._received_at_check = -1
        self._sent_at_check = 0
        self._silent_checks = 0
        outside.arm(limits.handshake_timeout_s)

    # ------------------------------------------------------------------------- input

    def receive_data(self, data: bytes, now: int) -> None:
        """What arrived on the socket, in pieces of any size."""
        self.now = now
        self.bytes_in += len(data)
        if self._deaf or self.state in (State.CLOSED, State.REFUSED):
            return  # nothing that is said now can change anything
        carry, self._carry = self._carry, None
        if carry is None:
            self._keep_rest(data, self._consume(data))
        else:
            carry += data
            self._keep_rest(carry, self._consume(carry))

    def proceed(self, now: int) -> bool:
        """Go on with what was held back, input or deliveries, where the reason is gone. True if there was any."""
        self.now = now
        moved = bool(self._continuing) or self.can_resume
        if self._held is not None and self.state is not State.AUTHENTICATING:
            moved = True
            held, self._held = self._held, None
            self._take_all(held)
            carry, self._carry = self._carry, None
            if carry is not None:
                self._keep_rest(carry, self._consume(carry))
        while self._continuing:
            channel = self._continuing.pop()
            if self.channels.get(channel.number) is channel:
                channel.take_held(now)
        if self.can_resume:
            self._starved = False
            for channel in list(self.channels.values()):
                channel.resume(now)
        return moved

    @property
    def reads(self) -> bool:
        """False while nothing more should be read from the socket."""
        return self._blocked is None and self.held_bytes <= HELD_BYTES_MAX and self.out_bytes <= UNREAD_BYTES_MAX

    def _keep_rest(self, data: bytes | bytearray, consumed: int) -> None:
        if consumed >= len(data):
            return
        if isinstance(data, bytearray):
            del data[:consumed]
            self._carry = data
        else:
            self._carry = bytearray(memoryview(data)[consumed:])
        if self._held is not None:
            self._limit_unauthenticated(len(self._carry))

    def _hold(self, items: list[Item]) -> None:
        """What a client sent without waiting for the answer to its login."""
        assert self._held is not None, "nothing is waited for"
        self._held.extend(items)
        self._limit_unauthenticated(sum(map(held_size, items)))

    def _limit_unauthenticated(self, kept_bytes: int) -> None:
        if kept_bytes > UNAUTHENTICATED_BYTES_MAX:
            self._lose_framing(
                ProtocolError(FRAME_ERROR, f"more than {UNAUTHENTICATED_BYTES_MAX} bytes before the login was answered")
            )

    def _consume(self, data: bytes | bytearray) -> int:
        """Work on all that is whole; returns the position of the first byte that is not."""
        position = 0
        if self.state is State.EXPECTING_HEADER:
            position = self._take_protocol_header(data)
        while self._held is None and not self._deaf and self.state not in _NOT_LISTENING:
            frame_max = self.frame_max
            assemble_max = ASSEMBLE_BYTES_MAX if self.state is State.RUNNING else 0
            items, position, error = split(data, position, frame_max, self.limits.message_bytes_max, assemble_max)
            self._take_all(items)
            if error is None:
                break
            if self._held is None and frame_max == self.frame_max:  # else: held back, or tuned since
                self._lose_framing(ProtocolError(*error))
        return len(data) if self._deaf or self.state in (State.CLOSED, State.REFUSED) else position

    def _take_protocol_header(self, data: bytes | bytearray) -> int:
        """The eight bytes in which a client says which protocol it speaks."""
        head = bytes(data[: len(frame.PROTOCOL_HEADER)])
        if head in _ACCEPTED_HEADERS:
            self._go("protocol header")
            self._send_method(
                "connection.start",
                version_major=0,
                version_minor=9,
                server_properties=self._identity.properties(),
                mechanisms=" ".join(sasl.mechanisms(self.peer.tls_user)).encode(),
                locales=b"en_US",
            )
            return len(head)
        if len(head) < len(frame.PROTOCOL_HEADER) and b"AMQP".startswith(head[:4]):
            return 0
        self.send(frame.PROTOCOL_HEADER)
        self._end(f"not AMQP 0-9-1, but {_protocol_named(head)}")
        return len(data)

    def _take_all(self, items: list[Item]) -> None:
        """The splitter's items in order; those behind an unanswered login are held back."""
        channels, now = self.channels, self.now
        for place, item in enumerate(items):
            if item[0] != FRAME and (channel := channels.get(item[1])) is not None:
                channel.take(item, now)
                continue
            self._take(item)
            if self._held is not None:
                self._hold(items[place + 1 :])
                return

    def _take(self, item: Item) -> None:
        """One item that is not a publish or an acknowledgement on an open channel."""
        try:
            if item[0] != FRAME:
                class_and_method = (60, 40) if item[0] == PUBLISH else (60, 80)
                self._take_for_channel(item, item[1], *class_and_method)
            elif item[1] == frame.HEARTBEAT:
                if item[2] != 0:
                    raise ProtocolError(UNEXPECTED_FRAME, f"heartbeat on channel {item[2]}")
            elif item[2] == 0:
                self._take_connection_frame(item[1], item[3])
            else:
                head = item[3][:4] if item[1] == frame.METHOD and len(item[3]) >= 4 else bytes(4)
                self._take_for_channel(item, item[2], int.from_bytes(head[:2], "big"), int.from_bytes(head[2:], "big"))
        except ProtocolError as error:
            self.fail(reply_to(error))

    def _take_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind != frame.METHOD:
            if self.state is not State.CLOSING:
                raise ProtocolError(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
            return
        try:
            method = spec.method_of(payload)
            step = _STEPS.get(method.name)
            if (self.state, method.name) not in TRANSITIONS or step is None:
                if self.state is not State.CLOSING:
                    self.fail(
                        reply_to(
                            ProtocolError(CHANNEL_ERROR, f"unexpected method in connection state {self.state.value}"),
                            method.class_id,
                            method.method_id,
                        )
                    )
                return
            arguments = spec.decode(method, payload)
        except spec.UnknownMethod as error:
            raise ProtocolError(COMMAND_INVALID, str(error)) from error
        except MalformedArguments as error:
            raise ProtocolError(FRAME_ERROR, f"cannot decode a connection method: {error}") from error
        try:
            step(self, arguments)
        except (BrokerError, ProtocolError) as error:
            self.fail(reply_to(error, method.class_id, method.method_id))

    # ------------------------------------------------------------------------- handshake

    def _start_ok(self, arguments: spec.Arguments) -> None:
        self.client_properties = arguments["client_properties"]
        mechanism = arguments["mechanism"]
        if mechanism not in sasl.mechanisms(self.peer.tls_user):
            raise ProtocolError(COMMAND_INVALID, f"unknown authentication mechanism '{mechanism[:64]}'")
        self._go("connection.start-ok")
        self._held = []
        if mechanism == "EXTERNAL":
            assert self.peer.tls_user is not None, "EXTERNAL was offered without a certificate"
            pending = self._broker.authenticate_external(self.peer.tls_user, self.peer.loopback)
        else:
            try:
                user, password = sasl.credentials(mechanism, arguments["response"])
            except sasl.MalformedResponse as error:
                self._refuse_login(mechanism, str(error))
                return
            pending = self._broker.authenticate(user, password, self.peer.loopback)
        pending.then(self._logged_in, lambda error: self._refuse_login(mechanism, error.text))

    def _logged_in(self, user: UserRecord) -> None:
        if self.state is not State.AUTHENTICATING:
            return
        self._go("login accepted")
        self.user = user.name
        self._send_method(
            "connection.tune",
            channel_max=self.limits.channel_max,
            frame_max=self.limits.frame_max,
            heartbeat=self.limits.heartbeat_s,
        )
        self._outside.wake()

    def _refuse_login(self, mechanism: str, why: str) -> None:
        """A client that understands it is told at once; for others only silence has no other meaning."""
        if self.state is not State.AUTHENTICATING:
            return
        self._held = None
        if self.client_can("authentication_failure_close"):
            text = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            self.fail(reply_to(AccessRefused(text))._replace(hard=True))
        else:
            self._go("login refused")
            self._carry = None
            self._outside.arm(self.limits.refusal_pause_s)
        self.close_reason = f"login refused: {why}"

    def _tune_ok(self, arguments: spec.Arguments) -> None:
        frame_max = arguments["frame_max"]
        if 0 < frame_max < FRAME_MAX_MIN:
            raise ProtocolError(
                NOT_ALLOWED,
                f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({FRAME_MAX_MIN})",
            )
        self.frame_max = _agreed("frame_max", frame_max, self.limits.frame_max)
        self.channel_max = _agreed("channel_max", arguments["channel_max"], self.limits.channel_max)
        self.heartbeat_s = arguments["heartbeat"]
        self._go("connection.tune-ok")

    def _open(self, arguments: spec.Arguments) -> None:
        client = BrokerConnection(
            id=self.peer.id,
            name=self.peer.name,
            user=self.user,
            vhost=arguments["virtual_host"],
            protocol="AMQP 0-9-1",
            client_properties=self.client_properties,
            connected_at=self.now,
            close=self._close_for_broker,
            set_blocked=self.set_blocked,
            statistics=self.statistics,
        )
        self._broker.open_connection(client, self.now)
        self.client = client
        self._go("connection.open")
        self._outside.arm(self.heartbeat_s / 2)
        self._send_method("connection.open-ok")

    def _update_secret(self, arguments: spec.Arguments) -> None:
        def accepted(_: UserRecord) -> None:
            if self.state is State.RUNNING:
                for channel in list(self.channels.values()):
                    channel.session.permissions_changed()
                self._send_method("connection.update-secret-ok")

        def refused(error: BrokerError) -> None:
            if self.state is State.RUNNING:
                self.fail(reply_to(ProtocolError(NOT_ALLOWED, f"new secret was refused: {error.text}"), 10, 70))

        self._broker.authenticate(self.user, arguments["new_secret"], self.peer.loopback).then(accepted, refused)

    def _go(self, event: str) -> None:
        self.state = TRANSITIONS[self.state, event]

    # ------------------------------------------------------------------------- channels

    def _take_for_channel(self, item: Item, number: int, class_id: int, method_id: int) -> None:
        channel = self.channels.get(number)
        if channel is not None:
            channel.take(item, self.now)
        elif self.state is State.CLOSING:
            return
        elif self.state is not State.RUNNING or number == 0:
            raise ProtocolError(CHANNEL_ERROR, f"unexpected method in connection state {self.state.value}")
        elif (class_id, method_id) != (20, 10):
            self.fail(reply_to(ProtocolError(CHANNEL_ERROR, "expected 'channel.open'"), class_id, method_id))
        else:
            self._open_channel(number)

    def _open_channel(self, number: int) -> None:
        if number > self.channel_max:
            raise ProtocolError(
                NOT_ALLOWED, f"channel {number} is above the negotiated channel_max ({self.channel_max})"
            )
        assert self.client is not None, "a channel before the connection is open"
        channel = Channel(self, number)
        try:
            channel.session = self._broker.open_session(self.client, channel, self.now)
        except BrokerError as error:
            self.fail(reply_to(error)._replace(hard=True))
            return
        self.channels[number] = channel
        channel.send(spec.encode("channel.open-ok"))

    def close_session(self, channel: Channel) -> None:
        channel.session.close(self.now)

    def channel_closed_by_client(self, channel: Channel) -> None:
        self.close_session(channel)
        channel.send(spec.encode("channel.close-ok"))
        self.channel_gone(channel)

    def channel_gone(self, channel: Channel) -> None:
        del self.channels[channel.number]

    def can_continue(self, channel: Channel) -> None:
        self._continuing.append(channel)
        self._outside.wake()

    def assembling(self, change: int) -> None:
        """Bytes of contents that are arriving on all channels: together they are limited."""
        self._assembling_bytes += change
        limit = ASSEMBLING_MESSAGES_MAX * self.limits.message_bytes_max
        if self._assembling_bytes > limit:
            raise ProtocolError(RESOURCE_ERROR, f"more than {limit} bytes of unfinished messages on one connection")

    # ------------------------------------------------------------------------- output

    def send(self, data: bytes) -> None:
        if not self._out:
            self._outside.wake()
        self._out.append(data)
        self.out_bytes += len(data)

    def _send_method(self, name: str, /, **arguments: Any) -> None:
        self.send(frame.method_frame(0, spec.encode(name, **arguments)))

    def data_to_send(self) -> list[bytes]:
        """What is to be written now, in order; it is not given again."""
        out, self._out = self._out, []
        self.bytes_out += self.out_bytes
        self.out_bytes = 0
        return out

    @property
    def writable(self) -> bool:
        """Whether deliveries may be added. Once this said False, sessions are resumed when it would say True again."""
        if self._roomy:
            return True
        self._starved = True
        return False

    @property
    def _roomy(self) -> bool:
        return self.transport_writable and self.out_bytes < self.limits.write_buffer_high_bytes

    @property
    def can_resume(self) -> bool:
        """Deliveries were held back and need not be any more: `proceed` goes on with them."""
        return self._starved and self._roomy

    def set_transport_writable(self, writable: bool) -> None:
        self.transport_writable = writable
        if writable and self._starved:
            self._outside.wake()

    # ------------------------------------------------------------------------- alarms, heartbeats, deadlines

    def set_blocked(self, reason: str | None) -> None:
        """A publishing connection is held while the node is short of something; it is told if it can be."""
        changed = (reason is None) != (self._blocked is None)
        self._blocked = reason
        if not changed or self.state is not State.RUNNING:
            return
        if self.client_can("connection.blocked"):
            if reason is None:
                self._send_method("connection.unblocked")
            else:
                self._send_method("connection.blocked", reason=reason)
        self._outside.wake()

    def client_can(self, capability: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def timer_elapsed(self, now: int) -> None:
        """The time that was armed last is over."""
        self.now = now
        if self.state is State.RUNNING:
            self._check_heartbeat()
        elif self.state in (State.CLOSING, State.REFUSED):
            self._end(self.close_reason)
        elif self.state is not State.CLOSED:
            self._end(f"no handshake within {self.limits.handshake_timeout_s:g} s, state {self.state.value}")

    def _check_heartbeat(self) -> None:
        """Twice in each interval: send if nothing was sent; each second time: was anything received?"""
        if self.bytes_out == self._sent_at_check and not self._out:
            self.send(frame.HEARTBEAT_FRAME)
        self._sent_at_check = self.bytes_out
        self._check_even = not self._check_even
        if not self._check_even:
            silent = self.bytes_in == self._received_at_check and self.reads
            self._silent_checks = self._silent_checks + 1 if silent else 0
            self._received_at_check = self.bytes_in
            if self._silent_checks == 2:
                self._end(f"missed heartbeats from client, timeout: {self.heartbeat_s}s")
                return
        self._outside.arm(self.heartbeat_s / 2)

    # ------------------------------------------------------------------------- the end

    def _close(self, arguments: spec.Arguments) -> None:
        self._leave_broker()
        self._send_method("connection.close-ok")
        self._go("connection.close")
        self._outside.arm(0)

    def _close_ok(self, arguments: spec.Arguments) -> None:
        self._end(self.close_reason)

    def _close_for_broker(self, error: BrokerError) -> None:
        self.fail(reply_to(error)._replace(hard=True))

    def fail(self, reply: Reply) -> None:
        """End the connection with this reason: everything on it is given up, and the client is told."""
        if self.state in (State.CLOSING, State.CLOSED, State.REFUSED):
            return
        self.close_reason = reply
        self._leave_broker()
        self._held = None
        self.state = State.CLOSING
        self._send_method(
            "connection.close",
            reply_code=reply.code,
            reply_text=reply.text,
            class_id=reply.class_id,
            method_id=reply.method_id,
        )
        self._outside.arm(self.limits.close_timeout_s)

    def _lose_framing(self, error: ProtocolError) -> None:
        """Where the next frame begins is unknown from here on, so not even close-ok can be recognised."""
        self.fail(reply_to(error))
        self._deaf = True
        self._carry = None
        self._outside.arm(DEAF_TIMEOUT_S)

    def connection_lost(self, now: int) -> None:
        """The socket is gone."""
        self.now = now
        if self.state is not State.CLOSED:
            self._end(self.close_reason or "client unexpectedly closed TCP connection")

    def _end(self, why: Reply | str | None) -> None:
        self._leave_broker()
        self.close_reason = why
        self.state = State.CLOSED
        self._carry = self._held = None
        self._outside.arm(0)
        self._outside.wake()

    def _leave_broker(self) -> None:
        """Sessions first, so that what they hold is requeued before exclusive queues go."""
        for channel in list(self.channels.values()):
            channel.drop_assembly()
            self.close_session(channel)
        self.channels.clear()
        client, self.client = self.client, None
        if client is not None:
            self._broker.connection_closed(client, self.now)

    # ------------------------------------------------------------------------- figures

    def statistics(self) -> dict[str, Any]:
        return {
            "state": "blocked" if self._blocked is not None else self.state.value,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "pending_out_bytes": self.out_bytes,
            "held_bytes": self.held_bytes,
            "channels": len(self.channels),
            "channel_max": self.channel_max,
            "frame_max": self.frame_max,
            "heartbeat_s": self.heartbeat_s,
            "peer_host": self.peer.host,
            "peer_port": self.peer.port,
            "tls": self.peer.tls,
            **self.peer.details,
        }


_NOT_LISTENING = (State.EXPECTING_HEADER, State.REFUSED, State.CLOSED)
_ACCEPTED_HEADERS = (frame.PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")

_STEPS: dict[str, Callable[[Connection, spec.Arguments], None]] = {
    "connection.start-ok": Connection._start_ok,
    "connection.tune-ok": Connection._tune_ok,
    "connection.open": Connection._open,
    "connection.update-secret": Connection._update_secret,
    "connection.close": Connection._close,
    "connection.close-ok": Connection._close_ok,
}


def _agreed(name: str, asked: int, limit: int) -> int:
    """What the client chose in tune-ok, if it may: 0 says no limit, and nobody may raise what was offered."""
    if limit == 0:
        return asked
    if asked == 0:
        raise ProtocolError(
            NOT_ALLOWED, f"negotiated {name} = 0 (no limit) is higher than the maximum allowed value ({limit})"
        )
    if asked > limit:
        raise ProtocolError(
            NOT_ALLOWED, f"negotiated {name} = {asked} is higher than the maximum allowed value ({limit})"
        )
    return asked


def _protocol_named(head: bytes) -> str:
    if head[:4] == b"AMQP":
        return f"AMQP {' '.join(str(number) for number in head[4:])}"
    if head[:3] == b"\x16\x03\x01" or head[:2] == b"\x16\x03":
        return "a TLS hello on a plain port"
    if head[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "HTTP"
    return repr(head)

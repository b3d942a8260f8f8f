"""One AMQP connection without its socket: bytes in, bytes out, and what the broker is asked in between.

`receive_data` takes what arrived, `data_to_send` gives what is to be written, `timer_elapsed` stands for time passing, and
`Outside` is how the connection asks to be called again. The state machine is TRANSITIONS below; docs draw it from there.

Limits before a client has logged in: frames of `initial_frame_max` bytes, nothing put together from several frames, and at
most UNAUTHENTICATED_BYTES_MAX bytes kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError
from front.amqp import handshake
from front.amqp.channel import Channel, held_size
from front.amqp.heartbeat import Heartbeat
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
from front.amqp.terms import Identity, Limits, Outside, Peer
from native.content import Buffer
from native.frame_split import FRAME, PUBLISH, Item, split
from wire.amqp import frame, spec
from wire.amqp.argument_types import MalformedArguments

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.broker import Connection as BrokerConnection
    from broker.records import UserRecord

UNAUTHENTICATED_BYTES_MAX = 65_536
# A publish that arrives in pieces is waited for up to this size; bigger ones are put together frame by frame, which costs
# twice as much for bodies of 64 KiB (a read of the socket brings up to 256 KiB).
ASSEMBLE_BYTES_MAX = 262_144
# A frame whose beginning is kept usually ends within this much more.
JOINED_BYTES_MAX = 65_536
# All contents that are arriving on one connection together, in messages of the greatest size.
ASSEMBLING_MESSAGES_MAX = 8
# Above this much input held back behind unanswered methods the connection is not read from.
HELD_BYTES_MAX = 1_048_576
# Answers that a client does not read. Deliveries stop at the write buffer's high mark, far below.
UNREAD_BYTES_MAX = 16_777_216
# How long a client that broke the framing may take to hang up: its close-ok could not be recognised.
DEAF_TIMEOUT_S = 3.0
# How long somebody who never logged in may keep a connection that was refused.
STRANGER_TIMEOUT_S = 3.0


class ConnectionState(Enum):
    EXPECTING_HEADER = "expecting header"
    STARTING = "starting"
    AUTHENTICATING = "authenticating"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"  # one side has sent connection.close; waiting for the client's close-ok, or for it to go
    REFUSED = "refused"  # a login was refused; silence until the pause is over, to slow down guessing
    CLOSED = "closed"


# (state, what the client sends) -> the state it leads to when all is well. What is not here is an error.
TRANSITIONS: dict[tuple[ConnectionState, str], ConnectionState] = {
    (ConnectionState.EXPECTING_HEADER, "protocol header"): ConnectionState.STARTING,
    (ConnectionState.STARTING, "connection.start-ok"): ConnectionState.AUTHENTICATING,
    (ConnectionState.AUTHENTICATING, "login accepted"): ConnectionState.TUNING,
    (ConnectionState.AUTHENTICATING, "login refused"): ConnectionState.REFUSED,
    (ConnectionState.TUNING, "connection.tune-ok"): ConnectionState.OPENING,
    (ConnectionState.OPENING, "connection.open"): ConnectionState.RUNNING,
    (ConnectionState.RUNNING, "connection.update-secret"): ConnectionState.RUNNING,
    (ConnectionState.STARTING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.TUNING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.OPENING, "connection.close"): ConnectionState.CLOSED,
    (ConnectionState.RUNNING, "connection.close"): ConnectionState.CLOSING,
    (ConnectionState.CLOSING, "connection.close"): ConnectionState.CLOSING,
    (ConnectionState.CLOSING, "connection.close-ok"): ConnectionState.CLOSED,
}


class Connection:
    """The server's side of one AMQP connection."""

    __slots__ = (
        "_assembling_bytes", "_blocked", "_carry", "_continuing", "_deaf", "_held", "_out", "_starved", "broker",
        "bytes_in", "bytes_out", "channel_max", "channels", "client", "client_properties", "close_reason", "frame_max",
        "heartbeat", "held_bytes", "identity", "limits", "login", "now", "out_bytes", "outside", "peer", "state",
        "transport_writable",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, outside: Outside, peer: Peer, limits: Limits, identity: Identity, now: int
    ) -> None:
        self.broker = broker
        self.outside = outside
        self.identity = identity
        self.peer = peer
        self.limits = limits
        self.now = now  # of the batch being worked on
        self.state = ConnectionState.EXPECTING_HEADER
        self.close_reason: Reply | str | None = None  # why it ended, for the log; None after a clean end

        self.frame_max = limits.initial_frame_max
        self.channel_max = limits.channel_max
        self.heartbeat = Heartbeat()
        self.login: UserRecord | None = None  # who it is, as it was when that was verified
        self.client_properties: dict[str, Any] = {}
        self.client: BrokerConnection | None = None  # set while the broker knows the connection
        self.channels: dict[int, Channel] = {}

        self._carry: bytearray | None = None  # the beginning of a frame whose end has not arrived
        self._held: list[Item] | None = None  # input that waits for the login's answer
        self._continuing: list[Channel] = []  # channels whose answer came: they go on with what was held back
        self._deaf = False  # framing is lost: nothing that arrives can be understood any more
        self.held_bytes = 0
        self._assembling_bytes = 0

        self._out: list[Buffer] = []
        self.out_bytes = 0
        self.transport_writable = True
        self._starved = False  # a queue was told that nothing can be written: it waits to be woken
        self._blocked: str | None = None

        self.bytes_in = 0
        self.bytes_out = 0
        outside.arm(limits.handshake_timeout_s)

    # ------------------------------------------------------------------------- input

    def receive_data(self, data: Buffer, now: int) -> None:
        """What arrived on the socket, in pieces of any size. Nothing keeps `data` itself: it may be overwritten afterwards."""
        self.now = now
        self.bytes_in += len(data)
        if self._deaf or self.state in (ConnectionState.CLOSED, ConnectionState.REFUSED):
            return  # nothing that is said now can change anything
        carry, self._carry = self._carry, None
        if carry is None:
            self._keep_rest(data, self._consume(data, 0))
        else:
            self._receive_behind(carry, data)

    def _receive_behind(self, carry: bytearray, data: Buffer) -> None:
        """Of a big read only as much is copied as completes what had begun; the rest is worked on where it lies."""
        kept = len(carry)
        carry += data[:JOINED_BYTES_MAX] if len(data) > JOINED_BYTES_MAX else data
        consumed = self._consume(carry, 0)
        if len(data) <= JOINED_BYTES_MAX:
            self._keep_rest(carry, consumed)
        elif consumed >= kept:
            self._keep_rest(data, self._consume(data, consumed - kept))
        else:
            carry += data[JOINED_BYTES_MAX:]
            self._keep_rest(carry, self._consume(carry, consumed))

    def proceed(self, now: int) -> bool:
        """Go on with what was held back, input or deliveries, where the reason is gone. True if there was any."""
        self.now = now
        moved = self.can_proceed
        if self._held is not None and not self.awaits_login and not self.congested:
            held, self._held = self._held, None
            self._take_all(held)
            carry, self._carry = self._carry, None
            if carry is not None:
                self._keep_rest(carry, self._consume(carry, 0))
        while self._continuing and not self.congested:
            self._continuing.pop().take_held(now)
        if self._starved and self._roomy:
            self._starved = False
            for channel in list(self.channels.values()):
                channel.resume(now)
        return moved

    @property
    def reads(self) -> bool:
        """False while nothing more should be read from the socket."""
        return self._blocked is None and self.held_bytes <= HELD_BYTES_MAX and not self.congested

    @property
    def kept_bytes(self) -> int:
        """Input that is kept because it is incomplete or cannot be worked on yet."""
        return (0 if self._carry is None else len(self._carry)) + self.held_bytes + self._assembling_bytes

    def _keep_rest(self, data: Buffer, consumed: int) -> None:
        if consumed >= len(data):
            return
        if isinstance(data, bytearray):
            del data[:consumed]
            self._carry = data
        else:
            self._carry = bytearray(memoryview(data)[consumed:])
        if self.awaits_login:
            self._limit_unauthenticated(len(self._carry))

    def _hold(self, items: list[Item]) -> None:
        """What a client sent behind its login, or behind methods whose answers it does not read."""
        self._held = items
        if self.awaits_login:
            self._limit_unauthenticated(sum(map(held_size, items)))

    def _limit_unauthenticated(self, kept_bytes: int) -> None:
        if kept_bytes > UNAUTHENTICATED_BYTES_MAX:
            self._lose_framing(
                ProtocolError(FRAME_ERROR, f"more than {UNAUTHENTICATED_BYTES_MAX} bytes before the login was answered")
            )

    def _consume(self, data: Buffer, position: int) -> int:
        """Work on all that is whole from `position` on; returns where the first byte is that is not."""
        if self.state is ConnectionState.EXPECTING_HEADER:
            position = self._take_protocol_header(data)
        while self._held is None and not self._deaf and self.state not in _NOT_LISTENING:
            frame_max = self.frame_max
            assemble_max = ASSEMBLE_BYTES_MAX if self.state is ConnectionState.RUNNING else 0
            items, position, error = split(data, position, frame_max, self.limits.message_bytes_max, assemble_max)
            self._take_all(items)
            if error is None:
                break
            if self._held is None and frame_max == self.frame_max:  # else: held back, or tuned since
                self._lose_framing(ProtocolError(*error))
        return len(data) if self._deaf or self.state in (ConnectionState.CLOSED, ConnectionState.REFUSED) else position

    def _take_protocol_header(self, data: Buffer) -> int:
        """The eight bytes in which a client says which protocol it speaks."""
        head = bytes(data[: len(frame.PROTOCOL_HEADER)])
        if head in handshake.ACCEPTED_HEADERS:
            self.go("protocol header")
            handshake.send_start(self)
            return len(head)
        if len(head) < len(frame.PROTOCOL_HEADER) and b"AMQP".startswith(head[:4]):
            return 0
        self.send(frame.PROTOCOL_HEADER)
        self._end(f"not AMQP 0-9-1, but {handshake.protocol_named(head)}")
        return len(data)

    def _take_all(self, items: list[Item]) -> None:
        """The splitter's items in order, until something makes the rest wait."""
        channels, now = self.channels, self.now
        for place, item in enumerate(items):
            if item[0] != FRAME and (channel := channels.get(item[1])) is not None:
                channel.take(item, now)
                continue
            self._take(item)
            if self._held is not None or self.congested:
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
            if self.state is not ConnectionState.CLOSING:
                raise ProtocolError(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
            return
        try:
            method = spec.method_of(payload)
            handler = _HANDLERS.get(method.name)
            if (self.state, method.name) not in TRANSITIONS or handler is None:
                if self.state is not ConnectionState.CLOSING:
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
            handler(self, arguments)
        except (BrokerError, ProtocolError) as error:
            self.fail(reply_to(error, method.class_id, method.method_id))

    # ------------------------------------------------------------------------- login

    def go(self, event: str) -> None:
        """The next state. Only what TRANSITIONS allows can happen."""
        self.state = TRANSITIONS[self.state, event]

    @property
    def user(self) -> str:
        """Empty until the login."""
        return "" if self.login is None else self.login.name

    @property
    def awaits_login(self) -> bool:
        return self.state is ConnectionState.AUTHENTICATING

    def hold_input(self) -> None:
        """Nothing more is looked at until the login was answered."""
        self._held = []

    def refuse_login(self, mechanism: str, why: str) -> None:
        """A client that understands it is told at once; for others only silence has no other meaning."""
        if not self.awaits_login:
            return
        self._held = None
        if self.client_can("authentication_failure_close"):
            self.fail(reply_to(handshake.refusal(mechanism))._replace(hard=True))
        else:
            self.go("login refused")
            self._carry = None
            self.outside.arm(self.limits.refusal_pause_s)
        self.close_reason = f"login refused: {why}"

    def login_not_checked(self, error: BrokerError) -> None:
        if self.awaits_login:
            self._held = None
            self.fail(reply_to(error))

    # ------------------------------------------------------------------------- channels

    def _take_for_channel(self, item: Item, number: int, class_id: int, method_id: int) -> None:
        channel = self.channels.get(number)
        if channel is not None:
            channel.take(item, self.now)
        elif self.state is ConnectionState.CLOSING:
            return
        elif self.state is not ConnectionState.RUNNING or number == 0:
            text = f"unexpected method in connection state {self.state.value}"
            self.fail(reply_to(ProtocolError(CHANNEL_ERROR, text), class_id, method_id))
        elif (class_id, method_id) != (_CHANNEL_OPEN.class_id, _CHANNEL_OPEN.method_id):
            self.fail(reply_to(ProtocolError(CHANNEL_ERROR, "expected 'channel.open'"), class_id, method_id))
        else:
            assert item[0] == FRAME, "only a frame can be channel.open"
            self._open_channel(number, item[3])

    def _open_channel(self, number: int, payload: bytes) -> None:
        try:
            spec.decode(_CHANNEL_OPEN, payload)
        except MalformedArguments as error:
            raise ProtocolError(FRAME_ERROR, f"cannot decode channel.open: {error}") from error
        if 0 < self.channel_max <= len(self.channels):  # how many, not which: clients choose their numbers freely
            raise ProtocolError(
                NOT_ALLOWED,
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({self.channel_max})",
            )
        assert self.client is not None, "a channel before the connection is open"
        channel = Channel(self, number)
        try:
            channel.session = self.broker.open_session(self.client, channel, self.now)
        except BrokerError as error:
            self.fail(reply_to(error)._replace(hard=True))
            return
        channel.session.number = number
        self.channels[number] = channel
        channel.send(spec.encode("channel.open-ok"))

    def channel_closed_by_client(self, channel: Channel) -> None:
        channel.leave()
        channel.send(spec.encode("channel.close-ok"))
        self.channel_gone(channel)

    def channel_gone(self, channel: Channel) -> None:
        del self.channels[channel.number]

    def take_behind_closed(self, number: int, held: deque[Item]) -> None:
        """What was held back behind the end of a channel: its number may be opened again, then the rest is for that one."""
        while held and self.state is ConnectionState.RUNNING:
            channel = self.channels.get(number)
            if channel is not None:
                channel.wait_behind(held)
                return
            item = held.popleft()
            self.held_bytes -= held_size(item)
            self._take(item)

    def can_continue(self, channel: Channel) -> None:
        self._continuing.append(channel)
        self.outside.wake()

    def assembling(self, change: int) -> None:
        """Bytes of contents that are arriving on all channels: together they are limited."""
        self._assembling_bytes += change
        limit = ASSEMBLING_MESSAGES_MAX * self.limits.message_bytes_max
        if self._assembling_bytes > limit:
            raise ProtocolError(RESOURCE_ERROR, f"more than {limit} bytes of unfinished messages on one connection")

    # ------------------------------------------------------------------------- output

    def send(self, data: Buffer) -> None:
        if not self._out:
            self.outside.wake()
        self._out.append(data)
        self.out_bytes += len(data)

    def send_method(self, name: str, /, **arguments: Any) -> None:
        self.send(frame.method_frame(0, spec.encode(name, **arguments)))

    def data_to_send(self) -> list[Buffer]:
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
    def congested(self) -> bool:
        """So many answers wait to be written that no further method is worked on."""
        return self.out_bytes > UNREAD_BYTES_MAX

    @property
    def can_proceed(self) -> bool:
        """There is work that was held back and need not be any more: `proceed` goes on with it."""
        if self._starved and self._roomy:
            return True
        input_waits = bool(self._continuing) or (self._held is not None and not self.awaits_login)
        return input_waits and not self.congested

    def set_transport_writable(self, writable: bool) -> None:
        self.transport_writable = writable
        if writable and (self._starved or self._out):
            self.outside.wake()

    # ------------------------------------------------------------------------- alarms, heartbeats, deadlines

    def set_blocked(self, reason: str | None) -> None:
        """A publishing connection is held while the node is short of something; it is told if it can be."""
        changed = (reason is None) != (self._blocked is None)
        self._blocked = reason
        if not changed or self.state is not ConnectionState.RUNNING:
            return
        if self.client_can("connection.blocked"):
            if reason is None:
                self.send_method("connection.unblocked")
            else:
                self.send_method("connection.blocked", reason=reason)
        self.outside.wake()

    def client_can(self, capability: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def timer_elapsed(self, now: int) -> None:
        """The time that was armed last is over."""
        self.now = now
        if self.state is ConnectionState.RUNNING:
            self._check_heartbeat()
        elif self.state in (ConnectionState.CLOSING, ConnectionState.REFUSED):
            self._end(self.close_reason)
        elif self.state is not ConnectionState.CLOSED:
            self._end(f"no handshake within {self.limits.handshake_timeout_s:g} s, state {self.state.value}")

    def _check_heartbeat(self) -> None:
        heartbeat = self.heartbeat
        self.send(frame.HEARTBEAT_FRAME)
        if heartbeat.peer_is_silent(self.bytes_in, self.reads, self.outside.monotonic()):
            self._end(f"missed heartbeats from client, timeout: {heartbeat.interval_s}s")
        else:
            self.outside.arm(heartbeat.check_every_s)

    # ------------------------------------------------------------------------- the end

    def _take_close(self, arguments: spec.Arguments) -> None:
        """Answer, and let the client close the socket.

        Threads of a client that close at once each send connection.close and wait for an answer; and a socket that is closed
        with bytes unread is reset, which can overtake the answer.
        """
        self._leave_broker()
        self.send_method("connection.close-ok")
        closing = self.state is ConnectionState.CLOSING
        self.go("connection.close")
        if self.state is ConnectionState.CLOSED:
            self.outside.arm(0)
        elif not closing:
            self._held = None
            self.outside.arm(self._patience())

    def _take_close_ok(self, arguments: spec.Arguments) -> None:
        self._end(self.close_reason)

    def close_for_broker(self, error: BrokerError) -> None:
        self.fail(reply_to(error)._replace(hard=True))

    def fail(self, reply: Reply) -> None:
        """End the connection with this reason: everything on it is given up, and the client is told."""
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED, ConnectionState.REFUSED):
            return
        self.close_reason = reply
        self._leave_broker()
        self._held = None
        self.state = ConnectionState.CLOSING
        self.send_method(
            "connection.close",
            reply_code=reply.code,
            reply_text=reply.text,
            class_id=reply.class_id,
            method_id=reply.method_id,
        )
        patience = self._patience()
        self.outside.arm(patience if self.login is not None else min(patience, STRANGER_TIMEOUT_S))

    def _patience(self) -> float:
        """How long the client may take to go: no longer than it may be silent."""
        patience = self.limits.close_timeout_s
        return min(patience, self.heartbeat.interval_s or patience)

    def _lose_framing(self, error: ProtocolError) -> None:
        """Where the next frame begins is unknown from here on, so not even close-ok can be recognised."""
        self.fail(reply_to(error))
        self._deaf = True
        self._carry = None
        self.outside.arm(DEAF_TIMEOUT_S)

    def connection_lost(self, now: int) -> None:
        """The socket is gone."""
        self.now = now
        if self.state is ConnectionState.CLOSING:
            self._end(self.close_reason)
        elif self.state is not ConnectionState.CLOSED:
            self._end(self.close_reason or "client unexpectedly closed TCP connection")

    def _end(self, why: Reply | str | None) -> None:
        self._leave_broker()
        self.close_reason = why
        self.state = ConnectionState.CLOSED
        self._carry = self._held = None
        self.outside.arm(0)
        self.outside.wake()

    def _leave_broker(self) -> None:
        for channel in self.channels.values():
            channel.stop()
        self.channels.clear()
        self._continuing.clear()
        self.held_bytes = 0  # what they held back is for nobody now, and must not keep close-ok from being read
        client, self.client = self.client, None
        if client is not None:
            self.broker.connection_closed(client, self.now)

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
            "heartbeat_s": self.heartbeat.interval_s,
            "peer_host": self.peer.host,
            "peer_port": self.peer.port,
            "tls": self.peer.tls,
            **self.peer.details,
        }


_CHANNEL_OPEN = spec.METHODS["channel.open"]
_NOT_LISTENING = (ConnectionState.EXPECTING_HEADER, ConnectionState.REFUSED, ConnectionState.CLOSED)

_HANDLERS: dict[str, Callable[[Connection, spec.Arguments], None]] = {
    **handshake.HANDLERS,
    "connection.close": Connection._take_close,
    "connection.close-ok": Connection._take_close_ok,
}

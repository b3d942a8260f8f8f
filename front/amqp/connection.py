"""One AMQP connection without its socket: bytes in, bytes out, and what it asks of the broker in between.

    receive_data    what arrived; intake.py splits it into items, which are handled here or by their channel
    proceed         goes on with what back-pressure had stopped (backpressure.py)
    data_to_send    what to write
    timer_elapsed   the time armed with `Outside` is over
    fail            ends the connection with connection.close

The state machine is the table in states.py. Before a login, frames are limited to `initial_frame_max` bytes, nothing is put
together from several frames, and at most UNAUTHENTICATED_BYTES_MAX bytes are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.actors import GoneReason
from broker.errors import BrokerError, InternalError
from broker.reply_codes import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_ALLOWED,
    RESOURCE_ERROR,
    UNEXPECTED_FRAME,
)
from front.amqp import handshake
from front.amqp.backpressure import Backpressure, item_bytes
from front.amqp.channel import Channel
from front.amqp.intake import Intake
from front.amqp.replies import ProtocolError, Reply, reply_to
from front.amqp.states import DROPS_INPUT, TRANSITIONS, ConnectionState
from front.amqp.terms import Identity, Limits
from front.sockets.heartbeat import Heartbeat
from front.sockets.peer import Outside, Peer
from front.sockets.strangers import protocol_named
from native.content import Buffer
from native.frame_split import FRAME, PUBLISH, Item
from wire.amqp import frame, spec
from wire.amqp.argument_types import MalformedArguments

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.client_connection import Connection as BrokerConnection
    from broker.records import UserRecord

# All contents that are arriving on one connection together, in messages of the greatest size.
ASSEMBLING_MESSAGES_MAX = 8
# How long the server waits for the socket to close when framing was lost: a close-ok could not be recognised.
FRAMING_LOST_TIMEOUT_S = 3.0
# How long a client that never logged in may keep a connection that failed.
STRANGER_TIMEOUT_S = 3.0


class Connection:
    """The server's side of one AMQP connection."""

    __slots__ = (
        "_assembling_bytes", "_intake", "_out", "broker", "bytes_in", "bytes_out", "channel_max", "channels", "client",
        "client_properties", "close_reason", "frame_max", "framing_lost", "heartbeat", "identity", "limits", "login",
        "mechanism", "now", "outside", "peer", "pressure", "reads", "state", "writes",
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
        self.login: UserRecord | None = None  # the user's record at the time of the login
        self.mechanism = ""  # of the login
        self.client_properties: dict[str, Any] = {}
        self.client: BrokerConnection | None = None  # set while the broker knows the connection
        self.channels: dict[int, Channel] = {}

        self.pressure = Backpressure(limits.write_buffer_high_bytes, outside.wake)
        self._intake = Intake()
        self.framing_lost = False  # where a frame begins is unknown: input is dropped
        self._assembling_bytes = 0
        self._out: list[Buffer] = []
        self.bytes_in = self.reads = 0
        self.bytes_out = self.writes = 0
        outside.arm(limits.handshake_timeout_s)

    # ------------------------------------------------------------------------- input

    def receive_data(self, data: Buffer, now: int) -> None:
        """What arrived on the socket, in pieces of any size. `data` itself is not kept: it may be overwritten afterwards."""
        self.now = now
        self.bytes_in += len(data)
        self.reads += 1
        if not self.framing_lost and self.state not in DROPS_INPUT:
            self._intake.receive(self, data)

    def proceed(self, now: int) -> bool:
        """Go on with what was stopped, input or deliveries, where the reason is gone. True if there was any."""
        self.now = now
        pressure = self.pressure
        if not pressure.can_proceed:
            return False
        postponed = pressure.take_postponed()
        if postponed is not None:
            self.take_items(postponed)
            self._intake.split_kept(self)
        while (channel := pressure.next_channel()) is not None:
            channel.take_waiting(now)
        if pressure.restart_deliveries():
            for channel in list(self.channels.values()):
                channel.resume(now)
        return True

    @property
    def kept_bytes(self) -> int:
        """Input that is kept because it is incomplete or must wait."""
        return self._intake.kept_bytes + self.pressure.waiting_bytes + self._assembling_bytes

    def take_protocol_header(self, data: Buffer) -> int:
        """The first eight bytes name the protocol. Returns how many were taken; 0: more must arrive first."""
        head = bytes(data[: len(frame.PROTOCOL_HEADER)])
        if head in handshake.ACCEPTED_HEADERS:
            self.go("protocol header")
            handshake.send_start(self)
            return len(head)
        if len(head) < len(frame.PROTOCOL_HEADER) and b"AMQP".startswith(head[:4]):
            return 0
        self.send(frame.PROTOCOL_HEADER)
        self._end(f"not AMQP 0-9-1, but {protocol_named(head)}")
        return len(data)

    def take_items(self, items: list[Item]) -> None:
        """Handle the items in order, and postpone the rest where the input of the connection stops."""
        channels, pressure, now = self.channels, self.pressure, self.now
        for place, item in enumerate(items):
            if item[0] != FRAME and (channel := channels.get(item[1])) is not None:
                channel.take(item, now)
                continue
            self._take(item)
            if pressure.postponed is not None or pressure.congested:
                self._postpone(items[place + 1 :])
                return

    def _postpone(self, items: list[Item]) -> None:
        self.pressure.postpone(items)
        if self.awaits_login:
            self._intake.limit_unauthenticated(self, sum(map(item_bytes, items)))

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
        """To the next state, as TRANSITIONS says."""
        self.state = TRANSITIONS[self.state, event]

    @property
    def user(self) -> str:
        """Empty until the login."""
        return "" if self.login is None else self.login.name

    @property
    def awaits_login(self) -> bool:
        return self.state is ConnectionState.AUTHENTICATING

    def refuse_login(self, mechanism: str, why: str) -> None:
        """A client with the capability gets connection.close at once; others know no reply that means a refusal."""
        if not self.awaits_login:
            return
        if self.client_can("authentication_failure_close"):
            self.fail(reply_to(handshake.refusal(mechanism))._replace(hard=True))
        else:
            self.go("login refused")
            self._intake.forget()
            self.pressure.forget_postponed()
            self.outside.arm(self.limits.refusal_pause_s)
        self.close_reason = f"login refused: {why}"

    def login_not_checked(self, error: BrokerError) -> None:
        if self.awaits_login:
            self.fail(reply_to(error))

    @property
    def publishes(self) -> bool:
        """Whether it is to be held when publishers are."""
        return self.client is not None and self.client.publishes

    def permissions_changed(self) -> None:
        for channel in list(self.channels.values()):
            channel.permissions_changed()

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

    def take_behind_closed(self, number: int, waiting: deque[Item]) -> None:
        """What waited in a channel that has closed: once its number is opened again, the rest is for the new channel."""
        while waiting and self.state is ConnectionState.RUNNING:
            channel = self.channels.get(number)
            if channel is not None:
                channel.take_over(waiting)
                return
            item = waiting.popleft()
            self.pressure.waiting_bytes -= item_bytes(item)
            self._take(item)

    def assembling(self, change: int) -> None:
        """Limit the bytes of unfinished contents on all channels together."""
        self._assembling_bytes += change
        limit = ASSEMBLING_MESSAGES_MAX * self.limits.message_bytes_max
        if self._assembling_bytes > limit:
            raise ProtocolError(RESOURCE_ERROR, f"more than {limit} bytes of unfinished messages on one connection")

    # ------------------------------------------------------------------------- output

    def send(self, data: Buffer) -> None:
        if not self._out:
            self.outside.wake()
        self._out.append(data)
        self.pressure.unsent_bytes += len(data)

    def send_pieces(self, pieces: list[Buffer], size: int) -> None:
        """`size`: of all of them together."""
        if not self._out:
            self.outside.wake()
        self._out += pieces
        self.pressure.unsent_bytes += size

    def send_method(self, name: str, /, **arguments: Any) -> None:
        self.send(frame.method_frame(0, spec.encode(name, **arguments)))

    def data_to_send(self) -> list[Buffer]:
        """What to write now, in order; each buffer is returned once."""
        out, self._out = self._out, []
        self.bytes_out += self.pressure.sent()
        self.writes += 1
        return out

    # ------------------------------------------------------------------------- alarms, heartbeats, deadlines

    def set_blocked(self, reason: str | None) -> None:
        """A publishing client is not read from while an alarm is raised; it is notified if it has the capability."""
        changed = (reason is None) != (self.pressure.alarm is None)
        self.pressure.alarm = reason
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
        """The timeout that was armed last has passed."""
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
        if heartbeat.peer_is_silent(self.bytes_in, self.pressure.reads, self.outside.monotonic()):
            self._end(f"missed heartbeats from client, timeout: {heartbeat.interval_s}s")
        else:
            self.outside.arm(heartbeat.check_every_s)

    # ------------------------------------------------------------------------- the end

    def _take_close(self, arguments: spec.Arguments) -> None:
        """Answer, and let the client close the socket.

        Threads of a client that close at once each send connection.close and wait for an answer; and a socket that is closed
        with bytes unread is reset, which can overtake the answer.
        """
        self._leave_broker(GoneReason.CLOSED)
        self.send_method("connection.close-ok")
        closing = self.state is ConnectionState.CLOSING
        self.go("connection.close")
        if self.state is ConnectionState.CLOSED:
            self.outside.arm(0)
        elif not closing:
            self.pressure.forget_postponed()
            self.outside.arm(self._close_timeout_s())

    def _take_close_ok(self, arguments: spec.Arguments) -> None:
        self._end(self.close_reason)

    def close_for_broker(self, error: BrokerError) -> None:
        self.fail(reply_to(error)._replace(hard=True))

    def crashed(self) -> None:
        self.fail(reply_to(InternalError("")))

    @property
    def ended_because(self) -> str | None:
        """As the log has it; None after a clean end."""
        reason = self.close_reason
        return f"{reason.code} {reason.text}" if isinstance(reason, Reply) else reason

    def fail(self, reply: Reply) -> None:
        """End the connection: leave the broker and send connection.close with this reason."""
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED, ConnectionState.REFUSED):
            return
        self.close_reason = reply
        self._leave_broker(GoneReason.FORCED)
        self.pressure.forget_postponed()
        self.state = ConnectionState.CLOSING
        self.send_method(
            "connection.close",
            reply_code=reply.code,
            reply_text=reply.text,
            class_id=reply.class_id,
            method_id=reply.method_id,
        )
        timeout_s = self._close_timeout_s()
        self.outside.arm(timeout_s if self.login is not None else min(timeout_s, STRANGER_TIMEOUT_S))

    def _close_timeout_s(self) -> float:
        """How long the client may take to close the socket: no longer than it may be silent."""
        timeout_s = self.limits.close_timeout_s
        return min(timeout_s, self.heartbeat.interval_s or timeout_s)

    def lose_framing(self, error: ProtocolError) -> None:
        """The position of the next frame is unknown, so not even close-ok can be recognised."""
        self.fail(reply_to(error))
        self.framing_lost = True
        self._intake.forget()
        self.outside.arm(FRAMING_LOST_TIMEOUT_S)

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
        self._intake.forget()
        self.pressure.forget_postponed()
        self.outside.arm(0)
        self.outside.wake()

    def _leave_broker(self, left: GoneReason = GoneReason.CONNECTION_LOST) -> None:
        for channel in self.channels.values():
            channel.stop()
        self.channels.clear()
        self.pressure.forget_channels()
        self.pressure.alarm = None  # it publishes no more, and its close-ok is to be read
        client, self.client = self.client, None
        if client is not None:
            client.left = left
            self.broker.connection_closed(client, self.now)

    # ------------------------------------------------------------------------- figures

    def statistics(self) -> dict[str, Any]:
        return {
            "state": "blocked" if self.pressure.alarm is not None else self.state.value,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "reads": self.reads,
            "writes": self.writes,
            "mechanism": self.mechanism,
            "pending_out_bytes": self.pressure.unsent_bytes,
            "held_bytes": self.pressure.waiting_bytes,
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

_HANDLERS: dict[str, Callable[[Connection, spec.Arguments], None]] = {
    **handshake.HANDLERS,
    "connection.close": Connection._take_close,
    "connection.close-ok": Connection._take_close_ok,
}

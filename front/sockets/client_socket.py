"""One accepted socket: moves bytes between its transport and a connection without I/O, whatever protocol that speaks.

The input of a socket is one *turn*; at its end the broker has each connection written to that has something to say
(broker/turns.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol, cast

from broker.errors import BrokerError
from broker.login.client_address import source_of
from broker.turns import Turns
from front.sockets.busy_poll import BusyPoll
from front.sockets.client_protocol import ClientConnection, ClientProtocol
from front.sockets.gate import Gate, Guest
from front.sockets.input_share import BUSY_S, InputShare
from front.sockets.socket_output import SocketOutput
from front.sockets.socket_peer import peer_of
from front.sockets.wheel import TimerWheel
from native.content import Buffer
from wire.proxy_protocol import HEADER_BYTES_MAX, MalformedProxyHeader, Proxied, read_proxy_header

# One read takes up to this much. Messages that arrive together become one run, so large ones want large reads: with bodies of
# 64 KiB, reads of 256 KB gave runs of three messages.
INPUT_BYTES = 1_048_576
STRANGERS_INPUT_BYTES = 65_536  # before the login
# Small messages that differ cost 25 us each: a full read of them blocked all other sockets for 140 ms. So the next read of a
# socket is as large as it can handle in its share of a turn (front/sockets/input_share.py), judged by its last read.
INPUT_BYTES_MIN = 2_048
INPUT_BYTES_FIRST = 32_768
# A client that sends a window of messages at once is read as far as the system has copied them, 64 KiB on loopback. After a
# read of this much that was not limited the rest is waited for, for one round of the loop: what one turn cuts in two is
# published, confirmed and sent again as two for ever, with a commit for each.
WINDOW_BYTES = 32_768


class SocketServer(Protocol):
    """The server whose socket it is."""

    protocol: ClientProtocol
    turns: Turns
    gate: Gate[ClientSocket]
    sockets: set[ClientSocket]
    opened_total: int
    publishers_held: bool
    input: memoryview
    input_share: InputShare
    busy_poll: BusyPoll | None
    wheel: TimerWheel[ClientSocket]
    monotonic: Callable[[], float]
    wall_ms: Callable[[], int]
    logger: logging.Logger
    tls_username_from: str
    write_buffer_low_bytes: int

    def next_id(self) -> str: ...

    def forget(self, one: ClientSocket) -> None: ...


class ClientSocket(asyncio.BufferedProtocol, Guest):
    """See the module. Fulfils ClientOutput, and Outside for its connection."""

    __slots__ = (
        "_core", "_deadline", "_input_bytes", "_logged_in", "_name", "_offered", "_output", "_pending_proxy", "_reading",
        "_rest_awaited", "_rests", "_server", "_transport",
        "source",
    )  # fmt: skip

    def __init__(self, server: SocketServer, proxy_protocol: bool, source: str) -> None:
        self.source = source  # as limits count it; empty while a PROXY header is awaited
        self._server = server
        self._core: ClientConnection | None = None
        self._transport: asyncio.Transport | None = None
        self._output: SocketOutput | None = None  # of a protocol that sends files
        self._pending_proxy: bytearray | None = bytearray() if proxy_protocol else None
        self._name = ""
        self._deadline = 0.0  # of the handshake, whatever it begins with; 0 is none
        self._input_bytes = self._offered = INPUT_BYTES_FIRST
        self._logged_in = False
        self._rest_awaited = False  # the last read has left its turn open
        self._reading = True
        self._rests = False  # not read from until the next round of the loop: other sockets come first

    # ------------------------------------------------------------------------- asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = self._server
        self._transport = cast(asyncio.Transport, transport)
        if not server.gate.is_stranger(self):  # it was evicted before its transport was there
            self._transport.abort()
            return
        server.opened_total += 1
        server.sockets.add(self)
        self._transport.set_write_buffer_limits(server.protocol.write_buffer_high_bytes, server.write_buffer_low_bytes)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.protocol.handshake_timeout_s:
            self._deadline = server.monotonic() + server.protocol.handshake_timeout_s
        if server.protocol.sends_files:
            self._output = SocketOutput(self._transport, self.resume_writing, self._broken)
        if self._pending_proxy is None:
            self._begin(None)
        else:
            self.arm(server.protocol.handshake_timeout_s)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: all sockets share one buffer, because each handles what it read at once."""
        server = self._server
        if not self._logged_in:
            return server.input[:STRANGERS_INPUT_BYTES]
        self._offered = INPUT_BYTES_MIN if server.input_share.is_used_up else self._input_bytes
        return server.input[: self._offered]

    def buffer_updated(self, nbytes: int) -> None:
        server = self._server
        began = server.monotonic()
        now = server.turns.begin()
        data: Buffer = server.input[:nbytes]
        if self._pending_proxy is not None:
            data = self._take_proxy_header(data)
        if self._core is not None and data:
            try:
                self._core.receive_data(data, now)
            except Exception:
                self._crashed()
        took_s = server.monotonic() - began
        reads_on = False  # in this round of the loop
        if took_s >= BUSY_S or nbytes >= self._offered:
            reads_on = self._adapt_input(nbytes, took_s)
            if nbytes >= self._offered and self._logged_in and not reads_on:
                self._rest()
        self._rest_awaited = reads_on or (WINDOW_BYTES <= nbytes < self._offered and not self._rest_awaited)
        if self._rest_awaited:
            server.turns.end_behind_input()
        else:
            server.turns.end(now)
        core = self._core
        if core is not None and (core.pressure.reads is not self._reading or self._rests or server.publishers_held):
            self.update_reading()
        if server.busy_poll is not None:
            server.busy_poll.input_came()

    def _rest(self) -> None:
        self._rests = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        self.update_reading()

    def _adapt_input(self, nbytes: int, took_s: float) -> bool:
        """Decide how much to read next, after what this took. Say whether the rest is to be read in this turn too.

        libuv would read up to 32 times in a turn. It may after a read that was limited too much (see WINDOW_BYTES). Each read
        is twice as large as the one before, so all of them take as long as one that used up its share.
        """
        share = self._server.input_share
        share.worked(took_s)
        # A full read tells the cost per byte, even a small one that was limited because the turn was used up.
        if took_s > share.seconds or (nbytes >= self._offered and took_s * self._input_bytes > share.seconds * nbytes):
            self._input_bytes = max(INPUT_BYTES_MIN, int(nbytes * share.seconds / took_s))
        elif nbytes >= self._input_bytes and took_s < share.seconds / 2 and self._input_bytes < INPUT_BYTES:
            self._input_bytes = min(INPUT_BYTES, 2 * self._input_bytes)
            return True
        return False

    def pause_writing(self) -> None:
        if self._core is not None:
            self._core.pressure.set_transport_writable(False)

    def resume_writing(self) -> None:
        if self._core is not None:
            self._core.pressure.set_transport_writable(True)

    def eof_received(self) -> bool:
        return False  # close our side too

    def connection_lost(self, exc: Exception | None) -> None:
        server = self._server
        if self not in server.sockets:
            return
        server.turns.begin()
        server.forget(self)
        server.gate.left(self)
        if self._core is not None:
            self._core.connection_lost(server.wall_ms())
            self._log_end()
            self._core = None  # it knows this socket
        server.wheel.disarm(self)
        if self._output is not None:
            self._output.close()
        self._transport = self._output = None
        server.turns.end()

    # ------------------------------------------------------------------------- what the connection asks (Outside)

    def wake(self) -> None:
        self._server.turns.write(self)

    def soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def arm(self, seconds: float) -> None:
        if seconds:
            self._server.wheel.arm(self, self._server.monotonic() + seconds)
        else:
            self._server.wheel.disarm(self)

    def monotonic(self) -> float:
        return self._server.monotonic()

    # ------------------------------------------------------------------------- what a turn asks (ClientOutput)

    def proceed(self, now: int) -> bool:
        core = self._core
        if core is None or not core.pressure.can_proceed:
            return False
        try:
            return core.proceed(now)
        except Exception:
            self._crashed()
            return False

    def flush(self) -> bool:
        """Write all output, unless the transport is paused: then it stays in the core, which stops reading at a limit.

        True if something that was stopped can go on (`ConnectionPressure.can_proceed`).
        """
        core, transport, protocol = self._core, self._transport, self._server.protocol
        if core is None or transport is None:
            return False
        pressure, ended = core.pressure, core.state is protocol.closed
        if pressure.unsent_bytes and (pressure.transport_writable or ended):
            if self._output is None:
                transport.writelines(core.data_to_send())  # type: ignore[arg-type]  # buffers only
            else:
                self._write_to(self._output, core, ended)
        if ended:
            if not transport.is_closing():
                transport.close()
                self.arm(protocol.close_timeout_s)
            return False
        if core.state is protocol.running and not self._logged_in:
            self._log_in(core)
        if pressure.reads is not self._reading:
            self.update_reading()
        return pressure.can_proceed

    def _write_to(self, output: SocketOutput, core: ClientConnection, ended: bool) -> None:
        try:
            if ended:
                output.hand_over(core.data_to_send())
            elif not output.write(core.data_to_send()):
                core.pressure.set_transport_writable(False)
        except OSError as error:
            self._broken(error)

    def _broken(self, error: OSError) -> None:
        if not isinstance(error, ConnectionError):
            self._server.logger.warning("connection %s cannot be written to: %s", self._name, error)
        self.abort()

    # ------------------------------------------------------------------------- what the server asks

    def update_reading(self) -> None:
        core, transport = self._core, self._transport
        if core is None or transport is None or transport.is_closing():
            return
        reads = core.pressure.reads and not self._rests and not (self._server.publishers_held and core.publishes)
        if reads != self._reading:
            self._reading = reads
            if reads:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def timer_elapsed(self) -> None:
        core = self._core
        if core is None or core.state is self._server.protocol.closed:
            self.abort()
        else:
            core.timer_elapsed(self._server.wall_ms())

    def end(self, error: BrokerError) -> None:
        if self._core is None:
            self.abort()
        else:
            self._core.close_for_broker(error)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------------- steps

    def _begin(self, proxied: Proxied | None) -> None:
        """The peer is known: start the protocol."""
        server = self._server
        assert self._transport is not None, "a connection without its transport"
        if self._transport.get_extra_info("peername") is None:  # it is gone already
            self.abort()
            return
        protocol = server.protocol
        peer = peer_of(self._transport, server.next_id(), protocol.peer_protocol, proxied, server.tls_username_from)
        self._name = peer.name
        self._core = protocol.open(self, peer, server.wall_ms())
        if self._deadline:
            server.wheel.arm(self, self._deadline)  # a PROXY header that came late has used up a part of it
        server.logger.debug("accepted %s connection %s", protocol.name, self._name)

    def _take_proxy_header(self, data: Buffer) -> bytes:
        """The header of a load balancer; returns what came after it."""
        pending = self._pending_proxy
        assert pending is not None, "the proxy header has been read"
        pending += data
        try:
            header = read_proxy_header(bytes(pending[:HEADER_BYTES_MAX]))
        except MalformedProxyHeader as error:
            self._server.logger.warning("connection refused: %s", error)
            self.abort()
            return b""
        if header is None:
            return b""
        self._pending_proxy = None
        if header.source is not None:
            self.source = source_of(header.source[0])
            if not self._server.gate.source_known(self):
                self.abort()
                return b""
        self._begin(header)
        return bytes(pending[header.size :])

    def _log_in(self, core: ClientConnection) -> None:
        self._logged_in = True
        self._server.gate.logged_in(self)
        assert core.client is not None, "running, but unknown to the broker"
        user, vhost = printable(core.user), printable(core.client.vhost)
        self._server.logger.info("connection %s: user '%s' logged in to vhost '%s'", self._name, user, vhost)

    def _log_end(self) -> None:
        assert self._core is not None, "a connection that never began"
        reason = self._core.ended_because
        if reason is None:
            self._server.logger.info("connection %s closed", self._name)
        else:
            self._server.logger.warning("connection %s ended: %s", self._name, printable(reason))

    def _crashed(self) -> None:
        """A bug of ours costs one connection, not the node. What the client sent stays out of the log."""
        self._server.logger.exception("internal error on connection %s", self._name)
        assert self._core is not None, "a connection that never began"
        self._core.crashed()


def printable(text: str) -> str:
    """Text of a client for the log: control characters could forge lines there."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)

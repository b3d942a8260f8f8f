"""The AMQP driver: listeners, sockets, TLS, the clock. What is said on a connection is decided in connection.py.

The input of a socket is one *turn*; at its end the broker has each connection written to that has something to say
(broker/turns.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from broker.errors import ConnectionForced
from broker.login.client_address import source_of
from front.amqp.connection import Connection
from front.amqp.input_share import InputShare
from front.amqp.replies import ProtocolError, Reply, reply_to
from front.amqp.states import ConnectionState
from front.amqp.terms import Identity, Limits
from front.gate import Gate, GateLimits, Guest
from front.listener import Address
from front.loopback import is_loopback
from front.peer import Peer
from front.wheel import SLOT_S, TimerWheel
from native.content import Buffer
from wire.proxy_protocol import HEADER_BYTES_MAX, MalformedProxyHeader, Proxied, read_proxy_header

if TYPE_CHECKING:
    from broker.broker import Broker

# How long clients may take to close their sockets when the node stops.
STOP_TIMEOUT_S = 3.0
# One read takes up to this much. Messages that arrive together become one run, so large ones want large reads: with bodies of
# 64 KiB, reads of 256 KB gave runs of three messages.
INPUT_BYTES = 1_048_576
STRANGERS_INPUT_BYTES = 65_536  # before the login
# Small messages that differ cost 25 us each: a full read of them blocked all other sockets for 140 ms. So the next read of a
# socket is as large as it can handle in its share of a turn (front/amqp/input_share.py), judged by its last read.
INPUT_BYTES_MIN = 2_048
INPUT_BYTES_FIRST = 32_768


@dataclass(slots=True, frozen=True)
class ServerLimits:
    """Ceilings for all listeners together; 0 is no limit."""

    connections: int = 16_000
    unauthenticated_connections: int = 1_000
    unauthenticated_per_source: int = 500
    tls_handshake_timeout_s: float = 5.0
    write_buffer_low_bytes: int = 1_048_576
    backlog: int = 1024


class AmqpServer:
    """All AMQP listeners of a node and their connections."""

    def __init__(
        self,
        broker: Broker,
        identity: Identity,
        *,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float],
        logger: logging.Logger,
        limits: Limits | None = None,
        server_limits: ServerLimits | None = None,
        tls_username_from: str = "common-name",
    ) -> None:
        self.broker = broker
        self.turns = broker.turns
        self.identity = identity
        self.limits = limits or Limits()
        self.server_limits = server_limits or ServerLimits()
        self.wall_ms = wall_ms
        self.logger = logger
        self.tls_username_from = tls_username_from
        self.sockets: set[AmqpSocket] = set()
        self.gate: Gate[AmqpSocket] = Gate(
            GateLimits(
                self.server_limits.unauthenticated_connections,
                self.server_limits.unauthenticated_per_source,
                self.server_limits.connections,
            ),
            monotonic=monotonic,
            logger=logger,
            describe=self._describe,
        )
        self.opened_total = 0
        self.publishers_held = False
        self.input = memoryview(bytearray(INPUT_BYTES))
        self.input_share = InputShare(lambda call: asyncio.get_running_loop().call_soon(call))
        self.wheel: TimerWheel[AmqpSocket] = TimerWheel(monotonic())
        self.monotonic = monotonic
        self._ids = itertools.count(1)
        self._listens: list[tuple[str, int, ssl.SSLContext | None, bool]] = []  # how they were begun
        self._sweep: asyncio.TimerHandle | None = None
        self._stopping = False
        self._all_gone = asyncio.Event()

    # ------------------------------------------------------------------------- life

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, proxy_protocol: bool = False
    ) -> int:
        """Start listening; returns the port, which the system chooses when 0 is asked for."""
        limits = self.server_limits
        address = self.gate.listen(
            host,
            port,
            backlog=limits.backlog,
            guest=partial(self._guest, proxy_protocol=proxy_protocol),
            tls=tls,
            handshake_timeout_s=limits.tls_handshake_timeout_s,
        )
        port = address[1]
        self._listens.append((host, port, tls, proxy_protocol))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SLOT_S, self._sweep_timers)
        self.logger.info("listening for AMQP on %s%s", _endpoint(address), " (TLS)" if tls else "")
        return port

    async def stop(self) -> None:
        """Refuse new connections, close the others with a reason, and wait up to STOP_TIMEOUT_S for them to end."""
        self._stopping = True
        self.gate.close()
        reason = ConnectionForced("broker forced connection closure with reason 'shutdown'")
        for one in list(self.sockets):
            one.fail(reply_to(reason))
        self.turns.end()
        if self.sockets:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), STOP_TIMEOUT_S)
        for one in list(self.sockets):
            one.abort()
        if self._sweep is not None:
            self._sweep.cancel()

    def suspend(self) -> None:
        """Listen no more, until `resume`. Connections stay."""
        self.gate.close()

    async def resume(self) -> None:
        """Listen again where it did. Raises OSError when an address was taken meanwhile."""
        listens, self._listens = self._listens, []
        for host, port, tls, proxy_protocol in listens:
            await self.listen(host, port, tls, proxy_protocol=proxy_protocol)

    def hold_publishers(self, held: bool) -> None:
        """Stop or resume reading from connections that publish: the log has too much waiting."""
        self.publishers_held = held
        for one in self.sockets:
            one.update_reading()

    def statistics(self) -> dict[str, int]:
        return {
            "connections": len(self.sockets),
            "unauthenticated": self.gate.strangers,
            "opened_total": self.opened_total,
            "closed_total": self.opened_total - len(self.sockets),
            "refused_total": self.gate.refused_total,
            "evicted_total": self.gate.evicted_total,
        }

    # ------------------------------------------------------------------------- sockets

    def next_id(self) -> str:
        return f"amqp-{next(self._ids)}"

    def _guest(self, address: Address, *, proxy_protocol: bool) -> AmqpSocket | None:
        """Of a connection that was accepted. Behind a load balancer its source is unknown yet."""
        if self._stopping:
            return None
        return AmqpSocket(self, proxy_protocol, "" if proxy_protocol else source_of(address[0]))

    def _describe(self, connections: int, strangers: int) -> str:
        limits = self.server_limits
        return (
            f"{connections} connections are open (limits.connections: {limits.connections}), {strangers} of them without a "
            f"login (limits.unauthenticated_connections: {limits.unauthenticated_connections}, per source: "
            f"{limits.unauthenticated_per_source})"
        )

    def forget(self, one: AmqpSocket) -> None:
        self.sockets.discard(one)
        if self._stopping and not self.sockets:
            self._all_gone.set()

    def _sweep_timers(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(SLOT_S, self._sweep_timers)
        due = self.wheel.due(self.monotonic())
        if due:
            for one in due:
                one.timer_elapsed()
            self.turns.request()


class AmqpSocket(asyncio.BufferedProtocol, Guest):
    """One accepted socket: moves bytes between its transport and its Connection. Fulfils ClientOutput."""

    __slots__ = (
        "_core", "_deadline", "_input_bytes", "_logged_in", "_name", "_offered", "_pending_proxy", "_reading", "_rests",
        "_server", "_transport",
        "source",
    )  # fmt: skip

    def __init__(self, server: AmqpServer, proxy_protocol: bool, source: str) -> None:
        self.source = source  # as limits count it; empty while a PROXY header is awaited
        self._server = server
        self._core: Connection | None = None
        self._transport: asyncio.Transport | None = None
        self._pending_proxy: bytearray | None = bytearray() if proxy_protocol else None
        self._name = ""
        self._deadline = 0.0  # of the handshake, whatever it begins with; 0 is none
        self._input_bytes = self._offered = INPUT_BYTES_FIRST
        self._logged_in = False
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
        self._transport.set_write_buffer_limits(
            server.limits.write_buffer_high_bytes, server.server_limits.write_buffer_low_bytes
        )
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.limits.handshake_timeout_s:
            self._deadline = server.monotonic() + server.limits.handshake_timeout_s
        if self._pending_proxy is None:
            self._begin(None)
        else:
            self.arm(server.limits.handshake_timeout_s)

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
        server.turns.begin()
        data: Buffer = server.input[:nbytes]
        if self._pending_proxy is not None:
            data = self._take_proxy_header(data)
        if self._core is not None and data:
            try:
                self._core.receive_data(data, server.wall_ms())
            except Exception:
                self._crashed()
        if nbytes >= self._offered and self._logged_in:
            self._rest()  # there is more: libuv would read up to 32 times in this turn
        self._adapt_input(nbytes, server.monotonic() - began)
        server.turns.end()
        self.update_reading()

    def _rest(self) -> None:
        self._rests = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        self.update_reading()

    def _adapt_input(self, nbytes: int, took_s: float) -> None:
        """How much to read next, after what this took."""
        share = self._server.input_share
        share.worked(took_s)
        # A full read tells the cost per byte, even a small one that was limited because the turn was used up.
        if took_s > share.seconds or (nbytes >= self._offered and took_s * self._input_bytes > share.seconds * nbytes):
            self._input_bytes = max(INPUT_BYTES_MIN, int(nbytes * share.seconds / took_s))
        elif nbytes >= self._input_bytes and took_s < share.seconds / 2:
            self._input_bytes = min(INPUT_BYTES, 2 * self._input_bytes)

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
        server.wheel.forget(self)
        self._transport = None
        server.turns.end()

    # ------------------------------------------------------------------------- what the connection asks (Outside)

    def wake(self) -> None:
        self._server.turns.write(self)

    def arm(self, seconds: float) -> None:
        if seconds:
            self._server.wheel.arm(self, self._server.monotonic() + seconds)
        else:
            self._server.wheel.disarm(self)

    def monotonic(self) -> float:
        return self._server.monotonic()

    # ------------------------------------------------------------------------- what a turn asks (ClientOutput)

    def proceed(self, now: int) -> bool:
        if self._core is None:
            return False
        try:
            return self._core.proceed(now)
        except Exception:
            self._crashed()
            return False

    def flush(self) -> bool:
        """Write all output, unless the transport is paused: then it stays in the core, which stops reading at a limit.

        True if something that was stopped can go on (`Backpressure.can_proceed`).
        """
        core, transport = self._core, self._transport
        if core is None or transport is None:
            return False
        if core.pressure.unsent_bytes and (core.pressure.transport_writable or core.state is ConnectionState.CLOSED):
            transport.writelines(core.data_to_send())
        if core.state is ConnectionState.RUNNING and not self._logged_in:
            self._log_in(core)
        if core.state is ConnectionState.CLOSED:
            if not transport.is_closing():
                transport.close()
                self.arm(self._server.limits.close_timeout_s)
            return False
        self.update_reading()
        return core.pressure.can_proceed

    # ------------------------------------------------------------------------- what the server asks

    def update_reading(self) -> None:
        core, transport = self._core, self._transport
        if core is None or transport is None or transport.is_closing():
            return
        publishes = core.client is not None and core.client.publishes
        reads = core.pressure.reads and not self._rests and not (self._server.publishers_held and publishes)
        if reads != self._reading:
            self._reading = reads
            if reads:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def timer_elapsed(self) -> None:
        core = self._core
        if core is None or core.state is ConnectionState.CLOSED:
            self.abort()
        else:
            core.timer_elapsed(self._server.wall_ms())

    def fail(self, reply: Reply) -> None:
        if self._core is None:
            self.abort()
        else:
            self._core.fail(reply)

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
        peer = _peer(self._transport, server.next_id(), proxied, server.tls_username_from)
        self._name = peer.name
        self._core = Connection(server.broker, self, peer, server.limits, server.identity, server.wall_ms())
        if self._deadline:
            server.wheel.arm(self, self._deadline)  # a PROXY header that came late has used up a part of it
        server.logger.debug("accepted AMQP connection %s", self._name)

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

    def _log_in(self, core: Connection) -> None:
        self._logged_in = True
        self._server.gate.logged_in(self)
        assert core.client is not None or core.state is not ConnectionState.RUNNING, (
            "running, but unknown to the broker"
        )
        vhost = core.client.vhost if core.client is not None else ""
        self._server.logger.info(
            "connection %s: user '%s' logged in to vhost '%s'", self._name, printable(core.user), printable(vhost)
        )

    def _log_end(self) -> None:
        assert self._core is not None, "a connection that never began"
        reason = self._core.close_reason
        if reason is None:
            self._server.logger.info("connection %s closed", self._name)
        else:
            text = f"{reason.code} {reason.text}" if isinstance(reason, Reply) else reason
            self._server.logger.warning("connection %s ended: %s", self._name, printable(text))

    def _crashed(self) -> None:
        """A bug of ours costs one connection, not the node. What the client sent stays out of the log."""
        self._server.logger.exception("internal error on connection %s", self._name)
        assert self._core is not None, "a connection that never began"
        self._core.fail(reply_to(ProtocolError(541, "")))


def printable(text: str) -> str:
    """Text of a client for the log: control characters could forge lines there."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def _peer(transport: asyncio.Transport, id_: str, proxied: Proxied | None, username_from: str) -> Peer:
    source, target = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    loopback = is_loopback(str(source[0]))
    if proxied is not None and proxied.source is not None and proxied.target is not None:
        source, target = proxied.source, proxied.target
        loopback = loopback and is_loopback(source[0])  # a header alone makes nobody local
    certificate = transport.get_extra_info("peercert")
    tls = transport.get_extra_info("ssl_object")
    details: dict[str, Any] = {"host": str(target[0]), "port": int(target[1])}
    if tls is not None:
        details |= {"tls_protocol": tls.version(), "tls_cipher": tls.cipher()[0]}
    return Peer(
        id=id_,
        name=f"{_endpoint(source)} -> {_endpoint(target)}",
        host=str(source[0]),
        port=int(source[1]),
        loopback=loopback,
        tls=tls is not None,
        tls_user=_certified_user(certificate, username_from) if certificate else None,
        details=details,
    )


def _endpoint(address: tuple[Any, ...]) -> str:
    host = str(address[0])
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def _certified_user(certificate: dict[str, Any], username_from: str) -> str | None:
    """The user that a verified client certificate stands for."""
    names = [pair for group in certificate.get("subject", ()) for pair in group]
    if username_from == "distinguished-name":
        short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
                 "localityName": "L", "stateOrProvinceName": "ST"}  # fmt: skip
        return ",".join(f"{short.get(name, name)}={value}" for name, value in reversed(names)) or None
    return next((str(value) for name, value in names if name == "commonName"), None)

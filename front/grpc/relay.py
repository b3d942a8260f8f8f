"""The sockets of gRPC's clients: admitted one by one, limited until they have logged in, and relayed to gRPC's own listener.

gRPC's library accepts whoever connects, shares nothing between sources, and takes 17 MiB for each of a thousand streams before
it asks anybody who is calling. So it listens on a Unix socket that only this process can reach, and this relay, on the
addresses of the configuration, passes bytes on:

    nothing yet        one descriptor; closed after `handshake_timeout_s`
    a stranger         STRANGER_BYTES, and STRANGER_BYTES_PER_S more; closed after `stranger_life_s`, whatever it does
    has logged in      no limit of the relay; gRPC's own hold

TLS passes through. gRPC names a connection by the address that the relay's end of it is bound to, by which `side_of` finds
whose it is.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import dataclass
from itertools import count
from logging import Logger
from typing import cast

from broker.login.client_address import source_of
from front.sockets.gate import Gate, GateLimits, Guest
from front.sockets.listener import Address
from front.sockets.private_directory import PrivateDirectory

# Enough for the preface, the settings and the first call's metadata (grpc.metadata_bytes_max is 16 KiB).
STRANGER_BYTES = 32_768
# A health check a second. What arrives of a message that never ends is kept: in `stranger_life_s` that is 75 KiB.
STRANGER_BYTES_PER_S = 256
INPUT_BYTES = 262_144  # of one read; all sockets read into the same memory
SWEEP_S = 0.5
BUFFER_HIGH_BYTES = 1_048_576  # waiting for a side that reads slowly
BACKLOG = 4_096  # connections the kernel keeps waiting: a flood must not fill it before it is accepted
UNIX_ABSTRACT = "unix-abstract:"  # how gRPC writes the address of the relay's end


@dataclass(slots=True, frozen=True)
class RelayLimits:
    connections: int = 2_000
    unauthenticated_connections: int = 1_000
    unauthenticated_per_source: int = 500
    handshake_timeout_s: float = 10.0
    stranger_life_s: float = 300.0


class Relay:
    """The listener of one address and its connections."""

    def __init__(self, limits: RelayLimits, logger: Logger) -> None:
        self.limits = limits
        self.logger = logger
        self.gate: Gate[ClientSide] = Gate(
            GateLimits(limits.unauthenticated_connections, limits.unauthenticated_per_source, limits.connections),
            monotonic=_now,
            logger=logger,
            describe=self._describe,
        )
        self._directory = PrivateDirectory()
        self.path = str(self._directory.path / "socket")
        self._prefix = f"leveret-{secrets.token_hex(16)}-"
        self._numbers = count(1)
        self._sides: dict[str, ClientSide] = {}  # that reach gRPC, by the name that it knows
        self._open: set[ClientSide] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self.input = memoryview(bytearray(INPUT_BYTES))

    def listen(self, host: str, port: int) -> int:
        """gRPC listens on `path` by now. Returns the port. Raises OSError."""
        address = self.gate.listen(host, port, backlog=BACKLOG, guest=self._guest)
        self._sweep()
        return address[1]

    def stop_listening(self) -> None:
        self.gate.close()

    def close(self) -> None:
        self.stop_listening()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for side in list(self._open):
            side.abort()
        self._directory.delete()

    # ------------------------------------------------------------------------- what gRPC's side asks

    def side_of(self, grpc_peer: str) -> ClientSide | None:
        """The connection that gRPC gives this name to."""
        return self._sides.get(grpc_peer.removeprefix(UNIX_ABSTRACT))

    def logged_in(self, side: ClientSide) -> None:
        if self.gate.is_stranger(side):
            self.gate.logged_in(side)
            side.allow(None)

    # ------------------------------------------------------------------------- connections

    def _guest(self, address: Address) -> ClientSide:
        return ClientSide(self, address, source_of(address[0]))

    def _describe(self, connections: int, strangers: int) -> str:
        limits = self.limits
        return (
            f"{connections} connections are open (limits.grpc_connections: {limits.connections}), {strangers} of them without "
            f"a login ({limits.unauthenticated_connections} may be, per source: {limits.unauthenticated_per_source})"
        )

    def opened(self, side: ClientSide) -> None:
        self._open.add(side)

    def connect(self, side: ClientSide) -> None:
        """The client has said something: have gRPC accept it."""
        name = f"{self._prefix}{next(self._numbers)}"
        near = socket.socket(socket.AF_UNIX)
        try:
            near.setblocking(False)
            near.bind(f"\0{name}")
            near.connect(self.path)
        except OSError as error:  # gRPC has stopped, or has more waiting than it may
            near.close()
            self.logger.debug("a connection could not be handed to gRPC: %s", error)
            side.abort()
            return
        side.name = name
        self._sides[name] = side
        side.connecting = asyncio.get_running_loop().create_task(self._connected(side, near))

    async def _connected(self, side: ClientSide, near: socket.socket) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: GrpcSide(side), sock=near)

    def ended(self, side: ClientSide) -> None:
        self._open.discard(side)
        self.gate.left(side)
        self._sides.pop(side.name, None)

    def _sweep(self) -> None:
        """Strangers may say a little more, or have been here for too long."""
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        now, limits = _now(), self.limits
        for side in list(self._open):
            if side.allowed is None:
                continue
            life_s = limits.stranger_life_s if side.name else limits.handshake_timeout_s
            if 0 < life_s <= now - side.since:
                side.abort()
            else:
                side.allow(min(STRANGER_BYTES, max(0, side.allowed) + int(STRANGER_BYTES_PER_S * SWEEP_S)))


class ClientSide(asyncio.BufferedProtocol, Guest):
    """A client's connection."""

    def __init__(self, relay: Relay, address: Address, source: str) -> None:
        self.address = address
        self.source = source
        self.name = ""  # as gRPC knows it; empty: gRPC does not know it yet
        self.since = 0.0
        self.allowed: int | None = STRANGER_BYTES  # bytes that may still be read; None: any number
        self.bytes_read = 0
        self.open_calls = 0  # without a login
        self.connecting: asyncio.Task[None] | None = None
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._far: asyncio.Transport | None = None  # to gRPC
        self._waiting: list[bytes] = []  # for the connection to gRPC
        self._far_is_slow = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._relay.gate.is_stranger(self):  # it gave way before its transport was there
            self._transport.abort()
            return
        self.since = _now()
        self._transport.set_write_buffer_limits(BUFFER_HIGH_BYTES)
        self._relay.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._relay.input if self.allowed is None else self._relay.input[: max(1, self.allowed)]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._relay.input[:nbytes])
        self.bytes_read += nbytes
        if self.allowed is not None:
            self.allowed -= nbytes
        if self._far is not None:
            self._far.write(data)
        else:
            self._waiting.append(data)
            if not self.name:
                self._relay.connect(self)
        self._update_reading()

    def eof_received(self) -> bool:
        if self._far is not None and self._far.can_write_eof():
            self._far.write_eof()
        return self._far is not None  # gRPC may have more to say

    def pause_writing(self) -> None:
        if self._far is not None:
            self._far.pause_reading()

    def resume_writing(self) -> None:
        if self._far is not None:
            self._far.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.ended(self)
        self._transport = None
        if self._far is not None:
            self._far.close()
        elif self.connecting is not None:
            self.connecting.cancel()

    # ------------------------------------------------------------------------- what others ask

    def allow(self, count: int | None) -> None:
        """So many bytes may be read from now on; None: any number."""
        self.allowed = count
        self._update_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def reached(self, far: asyncio.Transport) -> None:
        """gRPC's side is there."""
        if self._transport is None:
            far.abort()
            return
        self._far = far
        far.set_write_buffer_limits(BUFFER_HIGH_BYTES)
        waiting, self._waiting = self._waiting, []
        far.writelines(waiting)
        self._update_reading()

    def hear(self, data: bytes) -> None:
        """What gRPC says."""
        if self._transport is not None:
            self._transport.write(data)

    def far_is_slow(self, slow: bool) -> None:
        self._far_is_slow = slow
        self._update_reading()

    def far_ended(self) -> None:
        """As soon as what gRPC has said is written."""
        if self._transport is not None:
            self._transport.close()

    def _update_reading(self) -> None:
        paused = self._far_is_slow or (self._far is None and bool(self._waiting))
        paused = paused or (self.allowed is not None and self.allowed <= 0)
        if self._transport is None or self._transport.is_closing() or paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class GrpcSide(asyncio.Protocol):
    """The same connection's other end, at gRPC."""

    def __init__(self, side: ClientSide) -> None:
        self._side = side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._side.reached(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._side.hear(data)

    def pause_writing(self) -> None:
        self._side.far_is_slow(True)

    def resume_writing(self) -> None:
        self._side.far_is_slow(False)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._side.far_ended()


def _now() -> float:
    return asyncio.get_running_loop().time()

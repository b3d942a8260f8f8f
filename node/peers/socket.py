"""One TCP or TLS connection to another node, or to whoever called: moves frames between it and what is said there.

What `on_frame` raises ends the connection and is kept as `fault`; nothing that comes from the other side raises out of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from front.sockets.busy_poll import BusyPoll
from front.sockets.gate import Guest
from node.addresses import BadAddress, endpoint, host_and_port
from node.peers.frames import HELLO_BYTES_MAX, FrameReader, checked_frame, framed
from raft.transport import JOINED_BYTES_MAX, Letter
from storage.disk import Buffer

T = TypeVar("T")

TLS_WRITE_BYTES = 64 << 10
CLOSE_TIMEOUT_S = 1.0  # for what was said last to leave

# A machine that is gone is noticed within five seconds, whether or not something was sent to it.
UNACKNOWLEDGED_MS_MAX = 5_000
KEEPALIVE_IDLE_S = 2
KEEPALIVE_INTERVAL_S = 1
KEEPALIVE_PROBES = 3


class HungUp(Exception):
    """There is no connection, or it ended before what was asked for had come; the text says why."""


class PeerSocket(asyncio.BufferedProtocol, Guest):
    """Either side of a connection. Whoever it is handed to puts its own callbacks in place of those before."""

    def __init__(self, on_frame: Callable[[Buffer], None], on_made: Callable[[], None] | None = None) -> None:
        self.on_frame = on_frame
        self.on_writable: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.fault: Exception | None = None  # why it ended, unless one side just hung up
        self.writable = False
        self.reads = 0
        self.busy_poll: BusyPoll | None = None
        self.name = ""  # HOST:PORT of the other side
        self.source = ""  # its address, as the limits of a listener count it
        self._on_made = on_made
        self._checked = False
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.TimerHandle | None = None

    # what is done with it

    @property
    def ending(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def accept_frames(self, bytes_max: int) -> None:
        """From the next one on they may be as large."""
        self._reader.frame_bytes_max = bytes_max

    def check_frames(self) -> None:
        """From the next one on they have checksums, in both directions."""
        self._reader.checked = self._checked = True

    def send(self, payloads: Sequence[Letter]) -> None:
        """With one write. It is up to the caller to wait until `writable`: whatever is given is kept."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        pieces = framed(payloads, checked=self._checked)
        if sum(map(len, pieces)) <= JOINED_BYTES_MAX:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)

    def send_letter(self, letter: Letter) -> None:
        """As `send`, nothing else being said."""
        if type(letter) is not bytes or len(letter) > JOINED_BYTES_MAX or not self._checked:
            self.send((letter,))
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(checked_frame(letter))

    def close(self) -> None:
        """As soon as what was sent has left, or the other side does not take it."""
        if self._transport is not None and not self.ending:
            self._transport.close()
            self._closing = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def abort(self, fault: Exception | None = None) -> None:
        if self._transport is not None and not self.ended.done():
            self.fault = self.fault or fault
            self.writable = False
            self._transport.abort()

    def why(self) -> str:
        """It has ended."""
        if self.fault is None:
            return "it hung up"
        return str(self.fault) or type(self.fault).__name__

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.name = _name(transport.get_extra_info("peername"))
        over_tls = transport.get_extra_info("ssl_object") is not None
        # With 0 the system is given all at once, and the rest stays here, where it is bounded. Letters leave before the disk
        # is asked for anything in the same turn: uvloop would write them after that.
        self._transport.set_write_buffer_limits(TLS_WRITE_BYTES if over_tls else 0)
        _set_options(transport.get_extra_info("socket"))
        self.writable = True
        if self._on_made is not None:
            self._on_made()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        if self.busy_poll is not None:
            self.busy_poll.input_came()
        try:
            for payload in self._reader.payloads(nbytes):
                self.on_frame(payload)
                if self.ending:
                    return
        except Exception as error:  # whatever it is: what others send must not end this node
            self.abort(error)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = not self.ending
        if self.writable and self.on_writable is not None:
            self.on_writable()

    def eof_received(self) -> bool:
        return False  # close our side too

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable = False
        self.fault = self.fault or exc
        if self._closing is not None:
            self._closing.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        if self.on_end is not None:
            self.on_end()
        # Who refers to this object may refer to itself through it, and such cycles are collected rarely: the buffer goes now.
        self._reader = FrameReader(0)


async def connect(one: PeerSocket, address: str, tls: ssl.SSLContext | None) -> None:
    """Raises HungUp."""
    try:
        host, port = host_and_port(address)
        await asyncio.get_running_loop().create_connection(
            lambda: one, host, port, ssl=tls, server_hostname=host if tls is not None else None
        )
    except BadAddress as error:
        raise HungUp(f"the address is {error}") from error
    except OSError as error:
        raise HungUp(f"no connection: {error}") from error


async def outcome(one: PeerSocket, answer: asyncio.Future[T]) -> T:
    """What the conversation on this connection comes to. Raises HungUp when it ends before."""
    either: list[asyncio.Future[Any]] = [one.ended, answer]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if answer.done():
        return answer.result()
    raise HungUp(one.why())


def _name(address: object) -> str:
    match address:
        case (str() as host, int() as port, *_):
            return endpoint(host, port)
    return "somebody who is gone"


def _set_options(raw: sockets.socket | None) -> None:
    if raw is None or raw.family not in (sockets.AF_INET, sockets.AF_INET6):
        return
    options = [
        (sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1),
        (sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1),
        (sockets.IPPROTO_TCP, getattr(sockets, "TCP_KEEPIDLE", None), KEEPALIVE_IDLE_S),
        (sockets.IPPROTO_TCP, getattr(sockets, "TCP_KEEPINTVL", None), KEEPALIVE_INTERVAL_S),
        (sockets.IPPROTO_TCP, getattr(sockets, "TCP_KEEPCNT", None), KEEPALIVE_PROBES),
        (sockets.IPPROTO_TCP, getattr(sockets, "TCP_USER_TIMEOUT", None), UNACKNOWLEDGED_MS_MAX),
    ]
    for level, option, value in options:
        if option is not None:
            with contextlib.suppress(OSError):  # it is gone already
                raw.setsockopt(level, option, value)

"""Listening sockets whose connections are admitted one by one when they are accepted, before TLS and before any protocol.

asyncio's own listeners tell nobody of a TLS connection before its handshake is over, so a stranger who opens thousands and says
nothing would pass every limit. And what an accept does that fails for want of descriptors differs: asyncio logs a traceback
for each and pauses for a second, uvloop may close the listener for good. Here a descriptor is held in reserve: it is given up
to accept the connection and close it at once, so that its client learns of it and others are heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from front.sockets.backlogs import listening_sockets

# Accepted before other sockets have their turn of the loop. When so many were waiting, the socket then rests for several times
# as long as they took of the processor, and that times the sockets that rest: a flood of connections, of however many sources,
# takes a quarter of the loop's time at most.
ACCEPTS_PER_TURN = 16
REST_SHARE = 4
# After an accept that failed for want of descriptors or memory: others close theirs in the meantime.
EXHAUSTED_PAUSE_S = 0.05
EXHAUSTED_LOGGED_S = 10.0
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

P = TypeVar("P", bound=asyncio.BaseProtocol)
Address = tuple[str, int]


class Listener(Generic[P]):
    """Listens from `__init__` on, and accepts from `serve` on. Raises OSError when an address cannot be used."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        backlog: int,
        admit: Callable[[Address], P | None],
        logger: logging.Logger,
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float = 5.0,
        on_lost: Callable[[P], None] = lambda one: None,
        on_failed: Callable[[str, OSError], None] | None = None,
        on_exhausted: Callable[[], None] = lambda: None,
    ) -> None:
        """`admit` is asked for the protocol of each connection; None: it is closed. `on_lost` is told of a protocol that never
        had its transport, `on_failed` of each failed TLS handshake (None: it is logged for debugging), and `on_exhausted`
        when descriptors have run out."""
        self._sockets = listening_sockets(host, port, backlog)
        self.address: Address = self._sockets[0].getsockname()[:2]
        self._admit = admit
        self._logger = logger
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._on_lost = on_lost
        self._on_failed = on_failed or self._log_failed
        self._on_exhausted = on_exhausted
        self._beginning: dict[P, socket.socket] = {}  # without their transport yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._reserve = _reserved_descriptor()
        self._exhausted_logged_at: float | None = None

    def serve(self) -> None:
        for one in self._sockets:
            asyncio.get_running_loop().add_reader(one, self._accept_some, one)

    def close(self) -> None:
        """Accept nothing more, and end the handshakes that are under way."""
        loop = asyncio.get_running_loop()
        for pause in self._pauses.values():
            pause.cancel()
        for one in self._sockets:
            loop.remove_reader(one)
            one.close()
        self._sockets.clear()
        for task in list(self._tasks):
            task.cancel()
        self._give_up_reserve()

    def abandon(self, one: P) -> None:
        """End the connection of a protocol that has no transport yet. No harm if it has."""
        accepted = self._beginning.get(one)
        if accepted is not None:
            with contextlib.suppress(OSError):  # it is gone already
                accepted.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------------------- accepting

    def _accept_some(self, listening: socket.socket) -> None:
        began = time.thread_time()
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._exhausted(listening, error)
                    return
                continue  # the client is gone already, or its network is
            self._begin(accepted, address[:2])
        self._rest(listening, REST_SHARE * (1 + len(self._pauses)) * (time.thread_time() - began))

    def _rest(self, listening: socket.socket, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._pauses[listening] = loop.call_later(seconds, self._go_on, listening)

    def _begin(self, accepted: socket.socket, address: Address) -> None:
        one = self._admit(address)
        if one is None:
            accepted.close()
            return
        accepted.setblocking(False)
        self._beginning[one] = accepted
        task = asyncio.get_running_loop().create_task(self._connect(accepted, one, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, one: P, address: Address) -> None:
        timeout = self._handshake_timeout_s if self._tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: one, accepted, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:  # it hung up, was too slow, or does not speak TLS as we do
            accepted.close()
            self._on_lost(one)
            self._on_failed(f"{address[0]}:{address[1]}", error)
        except asyncio.CancelledError:
            self._on_lost(one)
            raise
        finally:
            self._beginning.pop(one, None)

    def _log_failed(self, address: str, error: OSError) -> None:
        self._logger.debug("a TLS handshake with %s failed: %s", address, error)

    # ------------------------------------------------------------------------- out of descriptors

    def _exhausted(self, listening: socket.socket, error: OSError) -> None:
        """Close what waits longest, have room made, and go on a little later."""
        loop = asyncio.get_running_loop()
        if self._exhausted_logged_at is None or loop.time() >= self._exhausted_logged_at + EXHAUSTED_LOGGED_S:
            self._exhausted_logged_at = loop.time()
            self._logger.error(
                "connections cannot be accepted on %s:%d: %s. Raise the limit of open files of this process",
                *self.address,
                error.strerror,
            )
        self._give_up_reserve()
        with contextlib.suppress(OSError):
            listening.accept()[0].close()
        self._reserve = _reserved_descriptor()
        self._on_exhausted()
        self._rest(listening, EXHAUSTED_PAUSE_S)

    def _go_on(self, listening: socket.socket) -> None:
        del self._pauses[listening]
        if self._reserve is None:
            self._reserve = _reserved_descriptor()
        asyncio.get_running_loop().add_reader(listening, self._accept_some, listening)

    def _give_up_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


def _reserved_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None

"""A listener whose sockets are counted from the moment they are accepted, not from the end of their TLS handshake.

asyncio's own TLS listeners tell nobody of a connection before that, so a stranger who opens thousands and says nothing would
pass every limit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

# After an accept that failed, for want of file descriptors in all likelihood: others close theirs in the meantime.
ACCEPT_PAUSE_S = 1.0

P = TypeVar("P", bound=asyncio.BaseProtocol)


class TlsListener(Generic[P]):
    """Listens from `__init__` on, and accepts from `serve` on. `protocol` makes what each accepted socket is given to."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext,
        handshake_timeout_s: float,
        backlog: int,
        refusal: Callable[[], str | None],
        protocol: Callable[[], P],
        shaking_hands: set[P],
        logger: logging.Logger,
        on_failed: Callable[[str, OSError], None] | None = None,
    ) -> None:
        """`on_failed` is told of who did not come through the handshake, and why; None: it is noted for who looks for it."""
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._listening = socket.create_server((host, port), family=family, backlog=backlog)
        self._listening.setblocking(False)
        self._context = context
        self._handshake_timeout_s = handshake_timeout_s
        self._refusal = refusal  # why no further connection can be accepted now
        self._protocol = protocol
        self._shaking_hands = shaking_hands  # protocols that wait for their transport, of all listeners
        self._logger = logger
        self._on_failed = on_failed or self._note
        self._tasks: set[asyncio.Task[None]] = set()
        self.address: tuple[str, int] = self._listening.getsockname()[:2]

    def serve(self) -> None:
        self._start(self._accept())

    def close(self) -> None:
        """Accept nothing more, and end the handshakes that are under way."""
        for task in list(self._tasks):
            task.cancel()
        self._listening.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError as error:
                self._logger.error("a connection could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if self._refusal() is None:
                one = self._protocol()
                self._shaking_hands.add(one)
                self._start(self._shake_hands(accepted, one, f"{address[0]}:{address[1]}"))
            else:
                accepted.close()

    async def _shake_hands(self, accepted: socket.socket, one: P, address: str) -> None:
        """As soon as keys are agreed on the protocol has its transport, and takes itself out of those that wait."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: one, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake_timeout_s
            )
        except OSError as error:  # it hung up, was too slow, or does not speak TLS as we do
            self._on_failed(address, error)
        finally:
            self._shaking_hands.discard(one)

    def _note(self, address: str, error: OSError) -> None:
        self._logger.debug("a TLS handshake with %s failed: %s", address, error)

"""Keeps a connection to one other node: calls it, proves who it is, hands the connection to the link, and calls again when it
has ended.

Of two nodes the one with the higher number calls, so there is one connection between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from logging import Logger

from node.peers.frames import ANSWER, EXCHANGE, encode_hello, expect_hello
from node.peers.frames import CHALLENGE as CHALLENGE_HELLO
from node.peers.handshake import CHALLENGE, NONCE_BYTES, Calling, PeerIdentity, Secret
from node.peers.link import PeerLink
from node.peers.socket import HungUp, PeerSocket, connect, outcome
from storage.disk import Buffer

PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 0.4  # a node that is back is needed soon, and a call that nobody answers costs a millisecond
ANSWER_TIMEOUT_S = 3.0
STEADY_S = 1.0  # a connection that lasted as long was no failed attempt


class Dialer:
    """Calls `link`'s node at `address` until it is cancelled."""

    def __init__(
        self,
        link: PeerLink,
        address: str,
        me: PeerIdentity,
        secret: Secret,
        *,
        random_bytes: Callable[[int], bytes],
        tls: ssl.SSLContext | None = None,
        logger: Logger,
    ) -> None:
        self._link = link
        self._address = address
        self._me = me
        self._secret = secret
        self._random_bytes = random_bytes
        self._tls = tls
        self._logger = logger
        self._moved = asyncio.Event()
        self._told = ""  # what is wrong, so that the log says it once

    @property
    def address(self) -> str:
        return self._address

    def redirect(self, address: str) -> None:
        """The node is reached elsewhere now: call it there, if there is no connection to it."""
        if address != self._address:
            self._address = address
            self._moved.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = PAUSE_S_MIN
        while True:
            began = loop.time()
            try:
                await self._call()
            except HungUp as error:
                self._tell(str(error))
            except TimeoutError:
                self._tell(f"no answer within {ANSWER_TIMEOUT_S} s")
            if loop.time() - began > STEADY_S:
                pause = PAUSE_S_MIN
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), pause * (0.5 + self._random_bytes(1)[0] / 255))
            self._moved.clear()
            pause = min(pause * 2, PAUSE_S_MAX)

    async def _call(self) -> None:
        """Until the connection ends. Raises HungUp and TimeoutError when it did not come so far that it was of use."""
        call = _Call(self._secret, self._me, self._link, self._random_bytes)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await connect(call.socket, self._address, self._tls)
                await outcome(call.socket, call.admitted)
            self._told = ""
            self._logger.info("connected to node %d at %s", self._link.node, self._address)
            await asyncio.wait([call.socket.ended])
            self._logger.info("the connection to node %d has ended: %s", self._link.node, call.socket.why())
        finally:
            call.socket.abort()

    def _tell(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self._logger.warning("node %d at %s: %s", self._link.node, self._address, what)


class _Call:
    """One connection until the other node has let us in. What is wrong with what it says ends the connection."""

    def __init__(self, secret: Secret, me: PeerIdentity, link: PeerLink, random_bytes: Callable[[int], bytes]) -> None:
        self.admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.socket = PeerSocket(self._hear_challenge)
        self._secret = secret
        self._me = me
        self._link = link
        self._random_bytes = random_bytes

    def _hear_challenge(self, payload: Buffer) -> None:
        challenge = expect_hello(payload, CHALLENGE_HELLO).get(CHALLENGE, "")
        calling = Calling(self._secret, self._me, self._link.node, challenge, self._random_bytes(NONCE_BYTES))
        self.socket.on_frame = lambda payload: self._hear_answer(calling, payload)
        self.socket.send([encode_hello(EXCHANGE, calling.metadata())])

    def _hear_answer(self, calling: Calling, payload: Buffer) -> None:
        incarnation = calling.check_answer(expect_hello(payload, ANSWER))
        self._link.carry(self.socket, incarnation)  # letters may follow in the same read
        if not self.admitted.done():  # by who has given up on it
            self.admitted.set_result(None)

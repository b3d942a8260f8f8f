"""Keeps a stream to one other node: calls it, proves who it is, carries the stream, and calls again when it has ended.

Of two nodes the one with the higher number calls, so there is one stream between them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from logging import Logger

import grpc
import grpc.aio

from leveret.v1 import peer_pb2_grpc
from node.peer_auth import CHALLENGE, NONCE_BYTES, PROOF, Calling, Identity, Metadata, NotProven, Secret
from node.peer_link import LinkLimits, Outdated, PeerLink

PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 0.4  # a node that is back is needed soon, and a call that nobody answers costs a millisecond
ANSWER_TIMEOUT_S = 3.0
STEADY_S = 1.0  # a stream that lasted as long was no failed attempt

KEEPALIVE_MS = 2_000
KEEPALIVE_TIMEOUT_MS = 3_000


class Dialer:
    """Calls `link`'s node at `address` until it is cancelled."""

    def __init__(
        self,
        link: PeerLink,
        address: str,
        me: Identity,
        secret: Secret,
        limits: LinkLimits,
        *,
        random_bytes: Callable[[int], bytes],
        credentials: grpc.ChannelCredentials | None = None,
        logger: Logger,
    ) -> None:
        self._link = link
        self._address = address
        self._me = me
        self._secret = secret
        self._options = channel_options(limits)
        self._random_bytes = random_bytes
        self._credentials = credentials
        self._logger = logger
        self._moved = asyncio.Event()
        self._told = ""  # what is wrong, so that the log says it once

    @property
    def address(self) -> str:
        return self._address

    def redirect(self, address: str) -> None:
        """The node is reached elsewhere now: call it there, if there is no stream to it."""
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
            except (NotProven, Outdated) as error:
                self._tell(str(error))
            except grpc.aio.AioRpcError as error:
                self._tell(f"{error.code().name.lower()}: {error.details()}")
            except TimeoutError:
                self._tell(f"no answer within {ANSWER_TIMEOUT_S} s")
            if loop.time() - began > STEADY_S:
                pause = PAUSE_S_MIN
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), pause * (0.5 + self._random_bytes(1)[0] / 255))
            self._moved.clear()
            pause = min(pause * 2, PAUSE_S_MAX)

    async def _call(self) -> None:
        async with channel_to(self._address, self._credentials, self._options) as channel:
            peer = peer_pb2_grpc.PeerStub(channel)  # type: ignore[no-untyped-call]
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                challenge = await challenge_of(peer)
                nonce = self._random_bytes(NONCE_BYTES)
                calling = Calling(self._secret, self._me, self._link.node, challenge, nonce)
                stream = peer.Exchange(metadata=calling.metadata())
                answer = text_of(await stream.initial_metadata())
                if PROOF not in answer:  # refused: say why the other side did so, not that it is a stranger
                    raise NotProven(f"{(await stream.code()).name.lower()}: {await stream.details()}")
                incarnation = calling.check_answer(answer)
            self._told = ""
            self._logger.info("connected to node %d at %s", self._link.node, self._address)
            try:
                await self._link.carry(stream, incarnation)
            finally:
                stream.cancel()
            self._logger.info("the stream to node %d has ended", self._link.node)

    def _tell(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self._logger.warning("node %d at %s: %s", self._link.node, self._address, what)


def channel_to(
    address: str, credentials: grpc.ChannelCredentials | None, options: list[tuple[str, int]]
) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)


async def challenge_of(peer: peer_pb2_grpc.PeerStub) -> str:
    """Call without a proof, to be given what is to be proven."""
    call = peer.Exchange()
    try:
        with contextlib.suppress(grpc.aio.AioRpcError):
            await call.read()
        if await call.code() is not grpc.StatusCode.UNAUTHENTICATED:
            raise NotProven(f"{(await call.code()).name.lower()} instead of a challenge: {await call.details()}")
        return text_of(await call.trailing_metadata()).get(CHALLENGE, "")
    finally:
        call.cancel()


def text_of(metadata: grpc.aio.Metadata) -> Metadata:
    return {key: value for key, value in metadata if isinstance(value, str)}


def channel_options(limits: LinkLimits) -> list[tuple[str, int]]:
    """Both sides notice within KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS that a stream is dead, and then open another."""
    return [
        ("grpc.max_receive_message_length", limits.message_bytes_max),
        ("grpc.max_send_message_length", limits.message_bytes_max),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
    ]

"""Where other nodes call: a gRPC listener of its own, apart from that of clients.

Nothing of a call is read, and no handler runs, before the caller has proven that it knows the secret of this cluster: see
node/peer_auth.py. Nodes that have numbers exchange letters; those that have none yet, or that are not known here under theirs,
are answered by the doorman.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from leveret.v1 import peer_pb2, peer_pb2_grpc
from node.peer_auth import CHALLENGE, Gatekeeper, Identity, Metadata, NotProven
from node.peer_dialer import channel_options
from node.peer_link import Outdated, PeerLinks

EXCHANGE = "/leveret.v1.Peer/Exchange"
GREET = "/leveret.v1.Peer/Greet"
JOIN = "/leveret.v1.Peer/Join"
STREAMS_MAX = 4  # of one connection: the one that counts, and those that follow it
METADATA_BYTES_MAX = 8_192
PING_INTERVAL_MS_MIN = 1_000

Context = grpc.aio.ServicerContext[Any, Any]


class Doorman(Protocol):
    """Answers nodes that have no number here: node/first_boot.py while this node is blank, then node/cluster.py."""

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted: ...

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse: ...


class CannotListen(Exception):
    """The address cannot be used; the text names it."""


class PeerServer:
    """Listens for other nodes and hands their streams to the links."""

    def __init__(
        self, links: PeerLinks, gatekeeper: Gatekeeper, logger: Logger, doorman: Doorman | None = None
    ) -> None:
        self.doorman = doorman  # None: strangers are not answered
        self._links = links
        self._logger = logger
        gate = _Gate(gatekeeper, self._admitted, self._answer_stranger, logger)
        self._server = grpc.aio.server(interceptors=[gate], options=_options(links), compression=None)
        peer_pb2_grpc.add_PeerServicer_to_server(_Unguarded(), self._server)  # type: ignore[no-untyped-call]

    async def listen(self, bind: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """The port. Raises CannotListen."""
        try:
            if credentials is None:
                port = self._server.add_insecure_port(bind)
            else:
                port = self._server.add_secure_port(bind, credentials)
        except RuntimeError as error:
            raise CannotListen(f"cannot listen for other nodes on {bind}: {error}") from error
        await self._server.start()
        return port

    async def stop(self) -> None:
        """End all streams. Links that other nodes hold to us break."""
        await self._server.stop(None)

    async def _admitted(self, peer: Identity, context: Context) -> None:
        link = self._links.link(peer.node)
        if link is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"node {peer.node} is no member of this cluster")
        self._logger.info("node %d is connected from %s", peer.node, context.peer())
        try:
            await link.carry(context, peer.incarnation)
        except Outdated as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        self._logger.info("the stream from node %d has ended", peer.node)

    async def _answer_stranger(self, method: str, request: bytes, context: Context) -> bytes:
        doorman = self.doorman
        if doorman is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this node does not answer strangers now")
            raise AssertionError("unreachable: abort raises")
        try:
            if method == GREET:
                greeted = await doorman.greet(peer_pb2.Greeting.FromString(request))
                return greeted.SerializeToString()
            joined = await doorman.join(peer_pb2.JoinRequest.FromString(request))
            return joined.SerializeToString()
        except DecodeError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request cannot be read: {error}")
            raise AssertionError("unreachable: abort raises") from error


class _Unguarded(peer_pb2_grpc.PeerServicer):
    """Names the method; the gate puts what is really done in its place."""


class _Gate(grpc.aio.ServerInterceptor):
    """Decides by the metadata alone, before the call has a handler."""

    def __init__(
        self,
        gatekeeper: Gatekeeper,
        admitted: Callable[[Identity, Context], Awaitable[None]],
        answer_stranger: Callable[[str, bytes, Context], Awaitable[bytes]],
        logger: Logger,
    ) -> None:
        self._gatekeeper = gatekeeper
        self._admitted = admitted
        self._answer_stranger = answer_stranger
        self._logger = logger

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(details)
        if handler is None:
            return None
        metadata = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        try:
            if details.method in (GREET, JOIN):
                self._gatekeeper.check_stranger(details.method, metadata)
                return grpc.unary_unary_rpc_method_handler(self._stranger(details.method, metadata))
            assert details.method == EXCHANGE, f"{details.method} is served, and nobody guards it"
            exchange = self._exchange(self._gatekeeper.check(metadata), metadata)
        except NotProven as error:
            if CHALLENGE in metadata:
                node = metadata.get("leveret-node", "without a number")[:20]
                self._logger.warning("a call of node %s was refused: %s", node, error)
            exchange = self._refusal(str(error))
        return grpc.stream_stream_rpc_method_handler(
            exchange, peer_pb2.Letters.FromString, peer_pb2.Letters.SerializeToString
        )

    def _stranger(self, method: str, metadata: Metadata) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def answer(request: bytes, context: Context) -> bytes:
            if not self._gatekeeper.is_request(metadata, request):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the request is not the one that was proven")
            answer = await self._answer_stranger(method, request, context)
            context.set_trailing_metadata(tuple(self._gatekeeper.reply(method, metadata, answer)))
            return answer

        return answer

    def _exchange(self, peer: Identity, metadata: Metadata) -> Callable[[Any, Context], Awaitable[None]]:
        async def exchange(_: Any, context: Context) -> None:
            await context.send_initial_metadata(self._gatekeeper.answer(metadata))
            await self._admitted(peer, context)

        return exchange

    def _refusal(self, why: str) -> Callable[[Any, Context], Awaitable[None]]:
        async def refuse(_: Any, context: Context) -> None:
            trailing = ((CHALLENGE, self._gatekeeper.challenge()),)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, why, trailing)

        return refuse


def _options(links: PeerLinks) -> list[tuple[str, int]]:
    return [
        *channel_options(links.limits),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.http2.min_ping_interval_without_data_ms", PING_INTERVAL_MS_MIN),
        ("grpc.so_reuseport", 0),
    ]

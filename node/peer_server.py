"""Where other nodes call: a gRPC listener of its own, apart from that of clients.

Nothing of a call is read, and no handler runs, before the caller has proven that it is a node of this cluster: see
node/peer_auth.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any

import grpc
import grpc.aio

from leveret.v1 import peer_pb2_grpc
from node.peer_auth import CHALLENGE, Gatekeeper, Identity, Metadata, NotProven
from node.peer_dialer import channel_options
from node.peer_link import Outdated, PeerLinks

METHOD = "/leveret.v1.Peer/Exchange"
STREAMS_MAX = 4  # of one connection: the one that counts, and those that follow it
METADATA_BYTES_MAX = 8_192
PING_INTERVAL_MS_MIN = 1_000

Context = grpc.aio.ServicerContext[Any, Any]


class CannotListen(Exception):
    """The address cannot be used; the text names it."""


class PeerServer:
    """Listens for other nodes and hands their streams to the links."""

    def __init__(self, links: PeerLinks, gatekeeper: Gatekeeper, logger: Logger) -> None:
        self._links = links
        self._logger = logger
        self._server = grpc.aio.server(
            interceptors=[_Gate(gatekeeper, self._admitted, logger)], options=_options(links), compression=None
        )
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


class _Unguarded(peer_pb2_grpc.PeerServicer):
    """Names the method; the gate puts what is really done in its place."""


class _Gate(grpc.aio.ServerInterceptor):
    """Decides by the metadata alone, before the call has a handler."""

    def __init__(
        self, gatekeeper: Gatekeeper, admitted: Callable[[Identity, Context], Awaitable[None]], logger: Logger
    ) -> None:
        self._gatekeeper = gatekeeper
        self._admitted = admitted
        self._logger = logger

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(details)
        if handler is None:
            return None
        assert details.method == METHOD, f"{details.method} is served, and nobody guards it"
        metadata = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        try:
            exchange = self._exchange(self._gatekeeper.check(metadata), metadata)
        except NotProven as error:
            if CHALLENGE in metadata:
                self._logger.warning(
                    "a call for node %s was refused: %s", metadata.get("leveret-node", "?")[:20], error
                )
            exchange = self._refusal(str(error))
        return grpc.stream_stream_rpc_method_handler(
            exchange, handler.request_deserializer, handler.response_serializer
        )

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

"""The gRPC server of a node: listeners, TLS, limits, and the services behind one check of who is calling.

It runs on the node's event loop. Health says SERVING for the server as a whole ("") and for each service as soon as it
listens, and NOT_SERVING as soon as it begins to stop, so that load balancers turn away before calls are cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from logging import Logger
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker.errors import ConnectionForced
from front.grpc.admin_service import AdminPorts, AdminService
from front.grpc.auth import Authenticate
from front.grpc.call import PROTOCOL, Front, WallClock
from front.grpc.consume_service import ConsumeService
from front.grpc.publish_service import PublishService
from front.grpc.relay import Relay, RelayLimits
from front.grpc.streams_service import StreamsService
from front.grpc.topology_service import TopologyService
from leveret.v1 import (
    admin_pb2_grpc,
    consume_pb2_grpc,
    publish_pb2_grpc,
    streams_pb2_grpc,
    topology_pb2_grpc,
)

if TYPE_CHECKING:
    from broker.broker import Broker

ADMIN = "leveret.v1.Admin"
SERVICES = ("leveret.v1.Publisher", "leveret.v1.Consumer", "leveret.v1.Topology", "leveret.v1.Streams", ADMIN)

# A batch may be a little larger than the largest message, whose properties and framing come on top.
MESSAGE_SLACK_BYTES = 1_048_576

# How long single calls may go on when the server stops; streams are ended at once, for they never end by themselves.
STOP_GRACE_S = 2.0


@dataclass(slots=True, frozen=True)
class GrpcLimits:
    """The section [grpc] of the configuration."""

    message_bytes_max: int = 16_777_216
    streams_max: int = 1_000
    metadata_bytes_max: int = 16_384
    keepalive_min_interval_ms: int = 10_000
    handshake_timeout_ms: int = 10_000
    connection_idle_max_ms: int = 300_000
    connections: int = 2_000
    unauthenticated_connections: int = 1_000
    unauthenticated_per_source: int = 500


@dataclass(slots=True, frozen=True)
class Tls:
    """A server's certificate, as PEM. With `ca`, clients may show a certificate, and must with `verify_peer`."""

    certificate: bytes
    key: bytes
    ca: bytes | None = None
    verify_peer: bool = False


class CannotListenToGrpc(Exception):
    """The address cannot be used; the text names it."""


class Server:
    """A listening gRPC server."""

    def __init__(
        self, server: grpc.aio.Server, relay: Relay, checks: health.aio.HealthServicer, front: Front, port: int
    ) -> None:
        self._server = server
        self._relay = relay
        self._checks = checks
        self._front = front
        self.port = port

    async def show_serving(self, serving: bool) -> None:
        """What health checks are told of the services for clients. Administration goes on."""
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *SERVICES):
            if service != ADMIN:
                await self._checks.set(service, state)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Take no new calls, end the streams with a reason, give single calls `grace_s`, then cut them off."""
        await self._checks.enter_graceful_shutdown()
        for connection in list(self._front.broker.connections()):
            if connection.protocol == PROTOCOL:
                connection.close(ConnectionForced(f"node {self._front.node} is stopping"))
        self._relay.stop_listening()
        await self._server.stop(grace_s)
        self._relay.close()
        self._front.logger.info("gRPC on port %d stopped", self.port)


async def serve(
    broker: Broker,
    admin: AdminPorts,
    bind: str,
    tls: Tls | None,
    logger: Logger,
    clock: WallClock,
    limits: GrpcLimits | None = None,
) -> Server:
    """Listen on `bind`, as host:port. Raises CannotListenToGrpc."""
    limits = limits or GrpcLimits()
    front = Front(broker, clock, logger, broker.node, bind, limits.message_bytes_max)
    relay = Relay(_relay_limits(limits), logger)
    authenticate = Authenticate(broker, relay)
    server = grpc.aio.server(interceptors=[authenticate], options=_options(limits), compression=None)
    publish_pb2_grpc.add_PublisherServicer_to_server(PublishService(front), server)  # type: ignore[no-untyped-call]
    consume_pb2_grpc.add_ConsumerServicer_to_server(ConsumeService(front), server)  # type: ignore[no-untyped-call]
    streams_pb2_grpc.add_StreamsServicer_to_server(StreamsService(front), server)  # type: ignore[no-untyped-call]
    topology_pb2_grpc.add_TopologyServicer_to_server(TopologyService(front, admin.operations.resources), server)  # type: ignore[no-untyped-call]
    admin_pb2_grpc.add_AdminServicer_to_server(AdminService(front, admin), server)  # type: ignore[no-untyped-call]
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection(
        (*SERVICES, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"), server
    )
    _listen(server, f"unix:{relay.path}", tls)
    await server.start()
    host, _, port_text = bind.rpartition(":")
    try:
        port = relay.listen(host.strip("[]"), int(port_text))
    except OSError as error:
        await server.stop(None)
        relay.close()
        raise CannotListenToGrpc(f"gRPC cannot listen on {bind}: {error.strerror}") from error
    front.address = f"{host}:{port}"
    for service in ("", *SERVICES):
        await checks.set(service, health_pb2.HealthCheckResponse.SERVING)
    logger.info("gRPC listens on %s%s", bind, " with TLS" if tls else "")
    return Server(server, relay, checks, front, port)


def _relay_limits(limits: GrpcLimits) -> RelayLimits:
    return RelayLimits(
        limits.connections,
        limits.unauthenticated_connections,
        limits.unauthenticated_per_source,
        limits.handshake_timeout_ms / 1000,
        limits.connection_idle_max_ms / 1000,
    )


def _listen(server: grpc.aio.Server, path: str, tls: Tls | None) -> None:
    try:
        listens = server.add_insecure_port(path) if tls is None else server.add_secure_port(path, _credentials(tls))
    except RuntimeError as error:
        raise CannotListenToGrpc(f"gRPC cannot listen on {path}: {error}") from error
    if not listens:
        raise CannotListenToGrpc(f"gRPC cannot listen on {path}: a directory for temporary files is needed")


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    if tls.verify_peer and tls.ca is None:
        raise CannotListenToGrpc("tls.verify_peer needs tls.ca: whose certificates are to be believed?")
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)], root_certificates=tls.ca, require_client_auth=tls.verify_peer
    )


def _options(limits: GrpcLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes_max + MESSAGE_SLACK_BYTES),
        ("grpc.max_send_message_length", limits.message_bytes_max + MESSAGE_SLACK_BYTES),
        ("grpc.max_concurrent_streams", limits.streams_max),
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes_max),
        # Two pings more than allowed, and the connection is closed: a client cannot keep us busy for nothing.
        ("grpc.http2.min_ping_interval_without_data_ms", limits.keepalive_min_interval_ms),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.keepalive_permit_without_calls", 1),
        # A peer that is gone without a word is noticed within a minute.
        ("grpc.keepalive_time_ms", 40_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        # No connection stays for nothing: neither one that does not speak HTTP/2, nor one without a call. Clients connect
        # again by themselves when they have one.
        ("grpc.server_handshake_timeout_ms", limits.handshake_timeout_ms),
        ("grpc.max_connection_idle_ms", limits.connection_idle_max_ms),
    ]

"""The servers of this node's protocols: made of the configuration, and listening where it says, in plain and within TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import socket
import ssl
from collections.abc import Callable

from broker.broker import Broker
from broker.operations.node_facts import ListenerFacts
from front.amqp.server import amqp_server
from front.amqp.terms import Identity
from front.grpc.admin_service import AdminPorts
from front.grpc.server import Server, serve
from front.sockets.client_server import ClientServer
from front.sockets.input_share import InputShare
from front.sockets.plain_login import Credentials
from front.stream.server import stream_server
from front.stream.stream_terms import StreamIdentity
from front.web.api import Api, WebPorts
from front.web.http.server import WebLimits, WebServer
from node.addresses import endpoint
from node.admin import VERSION
from node.clock import NodeTime
from node.config import AmqpSection, Config
from node.config_limits import amqp_limits, amqp_server_limits, grpc_limits, stream_limits, stream_server_limits
from node.doors.certificates import Certificates, grpc_certificate
from node.doors.listening import addresses, advertised
from node.watching.descriptors import Ceilings
from node.web_questions import WebQuestions

logger = logging.getLogger("leveret")


class ClientServers:
    """`listeners` grows with each that listens; `undo` ends them, the last one first."""

    def __init__(
        self,
        config: Config,
        ceilings: Ceilings,
        certificates: Certificates,
        clock: NodeTime,
        undo: contextlib.AsyncExitStack,
    ) -> None:
        self.listeners: list[ListenerFacts] = []
        self._config = config
        self._ceilings = ceilings
        self._certificates = certificates
        self._clock = clock
        self._undo = undo

    def amqp(self, broker: Broker, input_share: InputShare) -> ClientServer:
        section = self._config.amqp
        return amqp_server(
            broker,
            Identity(
                cluster_name=self._config.cluster_name,
                version=VERSION,
                announced_product="RabbitMQ" if section.announce_product else "",
                announced_version=section.announce_version if section.announce_product else "",
                platform=f"Python {platform.python_version()}",
                anonymous=anonymous_login(section),
            ),
            wall_ms=self._clock.wall_ms,
            monotonic=self._clock.monotonic,
            logger=logging.getLogger("leveret.amqp"),
            limits=amqp_limits(section),
            server_limits=amqp_server_limits(self._config, self._ceilings),
            tls_username_from=self._config.tls.username_from,
            input_share=input_share,
        )

    def stream(self, broker: Broker, input_share: InputShare) -> ClientServer:
        identity = StreamIdentity(
            self._config.cluster_name, VERSION, f"Python {platform.python_version()}", self.stream_address
        )
        return stream_server(
            broker,
            broker.turns,
            identity,
            wall_ms=self._clock.wall_ms,
            monotonic=self._clock.monotonic,
            logger=logging.getLogger("leveret.stream"),
            limits=stream_limits(self._config),
            server_limits=stream_server_limits(self._config, self._ceilings),
            tls_username_from=self._config.tls.username_from,
            input_share=input_share,
        )

    def stream_address(self, tls: bool) -> str:
        return advertised(self._config.stream, self.listeners, socket.gethostname(), tls=tls)

    async def listen_to_clients(self, protocol: str, server: ClientServer) -> None:
        """In plain, and within TLS: by the name with an s."""
        listen = self._config.listen
        for name, within_tls in ((protocol, False), (f"{protocol}s", True)):
            for host, port in addresses(name, getattr(listen, name), logger):
                context = self._certificates.context if within_tls else None
                port = await server.listen(host, port, context, proxy_protocol=listen.proxy_protocol)
                self.listeners.append(ListenerFacts(name, endpoint(host, port), tls=within_tls))
        self._undo.push_async_callback(server.stop)

    async def listen_grpc(self, broker: Broker, admin: AdminPorts) -> list[Server]:
        servers: list[Server] = []
        tls = self._config.tls
        certificate = grpc_certificate(tls) if tls.grpc else None
        limits = grpc_limits(self._config.grpc, self._ceilings)
        for host, port in addresses("grpc", self._config.listen.grpc, logger):
            bind = endpoint(host, port)
            server: Server = await serve(
                broker, admin, bind, certificate, logging.getLogger("leveret.grpc"), self._clock, limits
            )
            self._undo.push_async_callback(server.stop)
            self.listeners.append(ListenerFacts("grpc", endpoint(host, server.port), tls=certificate is not None))
            servers.append(server)
        return servers

    async def listen_http(
        self,
        broker: Broker,
        ports: WebPorts,
        questions: WebQuestions,
        sampling_ended: Callable[[asyncio.Task[None]], None],
    ) -> None:
        api = Api(broker, ports)
        questions.serve(api.everywhere.answer)
        sampling = asyncio.create_task(api.sampler.run())
        sampling.add_done_callback(sampling_ended)
        self._undo.callback(sampling.cancel)
        self._undo.callback(questions.stop)
        limits = WebLimits(self._ceilings.http, self._ceilings.http_per_source)
        server = WebServer(api.answer, api.body_bytes_max, self._clock.wall_ms, limits)
        self._undo.push_async_callback(server.stop)
        for name, within_tls in (("http", False), ("https", True)):
            for host, port in addresses(name, getattr(self._config.listen, name), logger):
                port = await server.listen(host, port, self._certificates.context if within_tls else None)
                self.listeners.append(ListenerFacts(name, endpoint(host, port), tls=within_tls))

    def versions(self) -> dict[str, str]:
        """Tools compare them with RabbitMQ's."""
        section = self._config.amqp
        announced = section.announce_version if section.announce_product else VERSION
        return {
            "management_version": announced,
            "rabbitmq_version": announced,
            "erlang_version": platform.python_version(),
            "erlang_full_version": f"Python {platform.python_version()}",
            "crypto_lib_version": ssl.OPENSSL_VERSION,
        }


def anonymous_login(section: AmqpSection) -> Credentials | None:
    if not section.anonymous_login_user:
        return None
    return Credentials(section.anonymous_login_user, section.anonymous_login_password.encode())

"""Builds a node bottom up: disk, log, catalog, queues, broker, fronts. Read `Node.start` from top to bottom.

Listeners come last: whoever can connect finds everything recovered. `Node.stop` goes the other way: clients are told, what they
left unsettled returns to its queues, queues write what a fast start needs, and the log is closed behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import ssl
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.catalog import Catalog, CatalogLimits, default_commands
from broker.limits import Limits as ClientLimits
from classic.driver import ClassicQueues
from classic.shelf import ClassicLimits
from front.amqp.server import AmqpServer, ServerLimits
from front.amqp.terms import Credentials, Identity, Limits
from front.answers import answered
from front.grpc.admin_service import ListenerFacts
from front.grpc.server import GrpcLimits, Server, Tls, serve
from front.web.api import Api
from front.web.server import WebServer
from node.admin import VERSION, NodeAdmin
from node.alarms import AlarmPorts, Watcher
from node.auth import Verifier
from node.background import Threads
from node.clock import Clock, Process, Random, SystemClock, SystemRandom
from node.config import AmqpSection, Config, ConfigError, TlsSection, host_and_port
from node.metadata import LocalMetadata
from node.metrics import Metrics
from storage import names
from storage.lmdb_store import LmdbStore
from storage.os_disk import OsDisk
from storage.wal import LOG_ID_BYTES, LogCore
from storage.wal_facts import load_or_create
from storage.wal_replay import Replay
from storage.wal_writer import LogWriter

PASSWORD_THREADS = 2
TICK_S = 0.1  # how often is looked after what has no timer of its own; also finds timers when the wall clock jumped

logger = logging.getLogger("leveret")


class Node:
    """One node. `start` it once, then `stop` it once."""

    def __init__(
        self, config: Config, process: Process, clock: Clock | None = None, random: Random | None = None
    ) -> None:
        self._config = config
        self._process = process
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._undo = contextlib.AsyncExitStack()  # what `stop` does, in the opposite order of `start`
        self.listeners: list[ListenerFacts] = []
        self._broker_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        config, loop = self._config, asyncio.get_running_loop()
        started_at = self._clock.wall_ms()

        disk = OsDisk(config.node.data_dir)
        disk.lock(names.LOCK)
        self._undo.callback(disk.unlock)

        metadata_thread = Threads(loop, 1, "leveret-metadata")
        password_threads = Threads(loop, PASSWORD_THREADS, "leveret-passwords")
        self._undo.callback(password_threads.close)
        catalog = Catalog(catalog_limits(config))
        metadata = LocalMetadata(catalog, LmdbStore(disk.path(names.CATALOG_DIRECTORY)), metadata_thread)
        self._undo.callback(metadata.close)
        self._undo.push_async_callback(lambda: answered(metadata.flushed()))

        facts = load_or_create(disk, self._random.random_bytes(LOG_ID_BYTES))
        replay = Replay(disk, facts, salvage=True)
        housekeeping_thread = Threads(loop, 1, "leveret-classic")
        classic = ClassicQueues(disk, classic_limits(config), housekeeping_thread)
        classic.recover(replay.chunks(), [record for name in catalog.vhosts for record in catalog.queues(name)])
        end = replay.finish()
        for damage in replay.damage:
            logger.error(
                "the log is damaged: file %d, %d bytes at %d: %s. What it held is lost on this node",
                damage.file_number, damage.length, damage.offset, damage.reason,
            )  # fmt: skip
        core = LogCore(facts.log_id, end, config.log.file_bytes_max)
        log = LogWriter(
            core,
            disk,
            loop,
            facts,
            on_failed=lambda reason: self._process.stop(f"the log failed and takes nothing more: {reason}"),
            commit_inline_bytes_max=config.log.commit_inline_bytes_max,
        )
        self._undo.callback(log.close)

        verifier = Verifier(password_threads, self._clock.monotonic)
        self.broker = broker = Broker(
            node=config.node_name,
            catalog=catalog,
            metadata=metadata,
            authenticator=verifier,
            request_turn=lambda: amqp.request_turn(),
            tick_at=lambda when: self._tick_broker_at(when, broker, amqp),
            random_bytes=self._random.random_bytes,
            limits=client_limits(config),
        )
        amqp = self._amqp_server(broker)
        classic.attach(broker, log)
        self._undo.callback(lambda: classic.stop(self._clock.wall_ms()))
        self._undo.callback(housekeeping_thread.close)  # before `stop`, which writes the same files
        broker.add_kind(classic)
        broker.recover(self._clock.wall_ms())
        classic.opened()
        classic.when_found(lambda finding: logger.error("%s", finding))
        if not catalog.vhosts:
            for command in default_commands(verifier.hash("guest")):
                await answered(metadata.submit(command))

        self.watcher = Watcher(config.memory, config.disk, self._alarm_ports(broker, classic, disk))
        admin = NodeAdmin(
            config,
            metadata=metadata,
            verifier=verifier,
            background=password_threads,
            alarms=broker.alarms,
            watcher=self.watcher,
            listeners=lambda: self.listeners,
            started_at_ms=started_at,
        )
        metrics = Metrics(broker, log, metadata, self.watcher, config)

        await self._listen_amqp(amqp)
        self._undo.push_async_callback(amqp.stop)
        await self._listen_grpc(broker, admin)
        await self._listen_http(broker, admin, metrics)
        ticking = asyncio.create_task(self._tick(broker, classic, log, amqp))
        ticking.add_done_callback(self._tick_ended)
        self._undo.callback(ticking.cancel)
        self._undo.callback(self._cancel_broker_timer)

    async def stop(self) -> None:
        """Also after a start that failed half-way."""
        await self._undo.aclose()

    # parts

    def _alarm_ports(self, broker: Broker, classic: ClassicQueues, disk: OsDisk) -> AlarmPorts:
        return AlarmPorts(
            raise_alarm=lambda kind, reason: broker.alarms.raise_alarm(kind, reason, self._clock.wall_ms()),
            clear_alarm=broker.alarms.clear_alarm,
            set_pressure=classic.set_pressure,
            free_bytes=disk.free_bytes,
        )

    def _amqp_server(self, broker: Broker) -> AmqpServer:
        section, limits = self._config.amqp, self._config.limits
        return AmqpServer(
            broker,
            Identity(
                cluster_name=self._config.cluster_name,
                version=VERSION,
                platform=f"Python {platform.python_version()}",
                anonymous=anonymous_login(section),
            ),
            wall_ms=self._clock.wall_ms,
            monotonic=self._clock.monotonic,
            logger=logging.getLogger("leveret.amqp"),
            limits=Limits(
                channel_max=section.channel_max,
                frame_max=section.frame_max,
                initial_frame_max=section.initial_frame_max,
                heartbeat_s=section.heartbeat_s,
                message_bytes_max=section.message_bytes_max,
                handshake_timeout_s=section.handshake_timeout_ms / 1000,
                refusal_pause_s=section.authentication_failure_delay_ms / 1000,
                close_timeout_s=section.close_timeout_ms / 1000,
                write_buffer_high_bytes=section.write_buffer_high_bytes,
            ),
            server_limits=ServerLimits(
                connections=limits.connections,
                unauthenticated_connections=limits.unauthenticated_connections,
                tls_handshake_timeout_s=section.tls_handshake_timeout_ms / 1000,
                write_buffer_low_bytes=section.write_buffer_low_bytes,
                backlog=self._config.listen.backlog,
            ),
            tls_username_from=self._config.tls.username_from,
        )

    async def _listen_amqp(self, server: AmqpServer) -> None:
        listen = self._config.listen
        for address in listen.amqp:
            host, port = host_and_port(address, "listen.amqp")
            port = await server.listen(host, port, proxy_protocol=listen.proxy_protocol)
            self.listeners.append(ListenerFacts("amqp", f"{host}:{port}"))
        for address in listen.amqps:
            host, port = host_and_port(address, "listen.amqps")
            port = await server.listen(host, port, self._tls_context(), proxy_protocol=listen.proxy_protocol)
            self.listeners.append(ListenerFacts("amqps", f"{host}:{port}", tls=True))

    async def _listen_grpc(self, broker: Broker, admin: NodeAdmin) -> None:
        section, tls = self._config.grpc, self._config.tls
        certificate = grpc_certificate(tls) if tls.grpc else None
        limits = GrpcLimits(
            section.message_bytes_max,
            section.streams_max,
            section.metadata_bytes_max,
            section.keepalive_min_interval_ms,
            section.handshake_timeout_ms,
            section.connection_idle_max_ms,
        )
        for address in self._config.listen.grpc:
            host, _ = host_and_port(address, "listen.grpc")
            server: Server = await serve(
                broker, admin, address, certificate, logging.getLogger("leveret.grpc"), self._clock, limits
            )
            self._undo.push_async_callback(server.stop)
            self.listeners.append(ListenerFacts("grpc", f"{host}:{server.port}", tls=certificate is not None))

    async def _listen_http(self, broker: Broker, admin: NodeAdmin, metrics: Metrics) -> None:
        api = Api(
            broker,
            hash_password=lambda password: answered(admin.hash_password(password.encode())),
            password_hashes=admin.password_hashes,
            metrics=metrics.text,
            health=lambda: broker.alarms.blocked_reason,
            identity=self._identity(),
        )
        server = WebServer(api.answer, api.body_bytes_max, self._clock.wall_ms)
        self._undo.push_async_callback(server.stop)
        for address in self._config.listen.http:
            host, port = host_and_port(address, "listen.http")
            port = await server.listen(host, port)
            self.listeners.append(ListenerFacts("http", f"{host}:{port}"))

    def _identity(self) -> dict[str, Any]:
        return {
            "product_name": "Leveret",
            "product_version": VERSION,
            "node": self._config.node_name,
            "cluster_name": self._config.cluster_name,
        }

    def _tls_context(self) -> ssl.SSLContext:
        """What AMQPS listeners offer. Raises ConfigError when the files cannot be used."""
        tls = self._config.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(tls.certificate, tls.key)
            if tls.ca:
                context.load_verify_locations(tls.ca)
                context.verify_mode = ssl.CERT_REQUIRED if tls.verify_peer else ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls: {tls.certificate}, {tls.key}, {tls.ca or 'no ca'}: {error}") from error
        return context

    # what happens by itself

    async def _tick(self, broker: Broker, classic: ClassicQueues, log: LogWriter, amqp: AmqpServer) -> None:
        held = False
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock.wall_ms()
            broker.tick(now)
            classic.tick(now)
            if log.failed is None:
                log.flush_lazy()
            amqp.request_turn()
            if held != (log.gathering_bytes > self._config.log.gathering_bytes_max):
                held = not held
                amqp.hold_publishers(held)

    def _tick_broker_at(self, when: int, broker: Broker, amqp: AmqpServer) -> None:
        """Have the broker's timers (TTL, expires) called in time."""

        def due() -> None:
            broker.tick(self._clock.wall_ms())
            amqp.request_turn()

        if self._broker_timer is not None:
            self._broker_timer.cancel()
        delay_s = max(0, when - self._clock.wall_ms()) / 1000
        self._broker_timer = asyncio.get_running_loop().call_later(delay_s, due)

    def _cancel_broker_timer(self) -> None:
        if self._broker_timer is not None:
            self._broker_timer.cancel()

    def _tick_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._process.stop(f"the node's timer ended: {task.exception()!r}")


def anonymous_login(section: AmqpSection) -> Credentials | None:
    if not section.anonymous_login_user:
        return None
    return Credentials(section.anonymous_login_user, section.anonymous_login_password.encode())


def client_limits(config: Config) -> ClientLimits:
    limits = config.limits
    return ClientLimits(
        connections=limits.connections,
        channels_per_node=limits.channels_per_node,
        consumers_per_channel=limits.consumers_per_channel,
    )


def classic_limits(config: Config) -> ClassicLimits:
    section = config.classic
    return ClassicLimits(
        embed_below=section.queue_index_embed_msgs_below,
        store_file_bytes_max=section.store_file_bytes_max,
        compaction_interval_ms=section.compaction_interval_ms,
    )


def catalog_limits(config: Config) -> CatalogLimits:
    limits = config.limits
    return CatalogLimits(
        vhosts=limits.vhosts,
        queues=limits.queues,
        exchanges=limits.exchanges,
        bindings=limits.bindings,
        topic_wildcards=limits.topic_wildcards,
        regex_length=limits.regex_length,
    )


def grpc_certificate(tls: TlsSection) -> Tls:
    """Raises ConfigError when a file cannot be read."""
    try:
        ca = Path(tls.ca).read_bytes() if tls.ca else None
        return Tls(Path(tls.certificate).read_bytes(), Path(tls.key).read_bytes(), ca, tls.verify_peer)
    except OSError as error:
        raise ConfigError(f"tls: {error.filename}: {error.strerror}") from error

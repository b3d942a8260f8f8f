"""Builds a node bottom up: disk, log, catalog, queues, broker, fronts. Read `Node.start` from top to bottom.

Listeners come last: whoever can connect finds everything recovered. `Node.stop` goes the other way: clients are told, links to
other nodes end, what clients of this node and of others left unsettled returns to its queues, queues write what a fast start
needs, and the log is closed behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import ssl
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from broker.background_work import BackgroundWork
from broker.broker import Broker
from broker.catalog import Catalog, default_commands
from broker.catalog_commands import AddNode, Command, JoinNode, NodeStarted, SetClusterId
from broker.errors import NotFound, PreconditionFailed, ResourceExhausted
from broker.records import NodeRecord, QueueRecord
from classic.driver import ClassicQueues
from front.amqp.server import AmqpServer
from front.amqp.terms import Credentials, Identity
from front.answers import answered
from front.grpc.admin_service import ListenerFacts
from front.grpc.server import Server, Tls, serve
from front.web.api import Api
from front.web.server import WebLimits, WebServer
from node.admin import VERSION, NodeAdmin
from node.alarms import AlarmPorts, Watcher, disk_limit_bytes
from node.auth import Verifier
from node.background import Inline, Threads
from node.catalog_fetch import fetch_catalog
from node.catalog_store import IN_MEMORY_KEY, NothingKept, replacement
from node.clock import Clock, Process, Random, SystemClock, SystemRandom
from node.cluster import Cluster
from node.cluster_metadata import ClusterMetadata
from node.config import AmqpSection, Config, ConfigError, TlsSection
from node.config_limits import (
    amqp_limits,
    amqp_server_limits,
    catalog_limits,
    classic_limits,
    client_limits,
    grpc_limits,
)
from node.descriptors import ceilings, descriptor_limit, log_ceilings
from node.first_boot import NoPlace, check_name, removed_text, take_place
from node.identity import DISK, RAM, NodeIdentity, Place, new_replica_or_stop
from node.listening import addresses, endpoint
from node.loop_watch import LoopWatch
from node.maintenance import ClientDoors
from node.metadata_group import METADATA_GROUP, MetadataGroup
from node.metadata_member import MetadataMember, keeps_catalog_alone
from node.metrics import Metrics
from node.node_names import name_of_node
from node.node_news import News, OthersNews, ToldAlarm, ToldListener
from node.notices import Notices, stopped_sentences
from node.peer_auth import Identity as PeerIdentity
from node.peer_calls import PeerCalls
from node.peer_side import PeerSide
from node.queue_members import QueueMembers
from node.queue_places import PlacingMetadata, QueuePlaces
from node.queue_records import QueueRecords
from node.queue_types import ClassicAnywhere, classic_anywhere
from node.quorum_reports import QuorumReports
from node.reconciliation import Reconciler
from node.recovery import recover
from node.remote_replies import RemoteReplies
from quorum.commands import SessionKey
from quorum.driver import QuorumQueues
from raft.driver import Driver
from raft.errors import CannotApply, Damaged
from raft.groups import Groups
from raft.messages import MemberId, NodeId, shown
from raft.node_log import RaftStore, StoreLimits
from storage import names
from storage.lmdb_store import LmdbStore
from storage.log_users import LogUsers
from storage.os_disk import OsDisk
from storage.wal import LOG_ID_BYTES, LogCore
from storage.wal_facts import load_or_create
from storage.wal_writer import LogWriter

ENTER_S = 5.0  # for the others to hear of this node, before it serves what it has without them
PASSWORD_THREADS = 2  # one checks logins, one hashes for administrators
PASSWORD_NICENESS = 19  # the event loop and the log come first
TICK_S = 0.1  # how often is looked after what has no timer of its own; also finds timers when the wall clock jumped

logger = logging.getLogger("leveret")


class Node:
    """One node. `start` it once, then `stop` it once."""

    def __init__(
        self,
        config: Config,
        process: Process,
        clock: Clock | None = None,
        random: Random | None = None,
        loop_watch: LoopWatch | None = None,
    ) -> None:
        self._loop_watch = loop_watch
        self._config = config
        self._process = process
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._undo = contextlib.AsyncExitStack()  # what `stop` does, in the opposite order of `start`
        self.listeners: list[ListenerFacts] = []
        descriptors = descriptor_limit()
        self._ceilings = ceilings(config.limits, descriptors)
        log_ceilings(config.limits, descriptors, self._ceilings, logger)
        self._notices = Notices()
        self._broker_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        config, loop = self._config, asyncio.get_running_loop()
        started_at = self._clock.wall_ms()

        disk = OsDisk(config.node.data_dir)
        disk.lock(names.LOCK)
        self._undo.callback(disk.unlock)
        identity, peers = await self._take_place(disk)
        self.identity = identity
        peers.enter(PeerIdentity(identity.number, identity.incarnation, identity.cluster_id))
        calls = PeerCalls(peers.links, loop, logger)
        metadata = await self._open_catalog(disk, loop, identity.place, peers, calls)
        check_name(identity.place, metadata.catalog, config.node.data_dir)  # before anything is taken for rubbish
        classic = self._open_log(disk, loop, metadata.catalog, identity)
        self.place = place = identity.place
        self.member = member = MetadataMember(place, self.raft, metadata.machine, self._new_replica)
        self.groups = groups = self._join_groups(place, peers, loop)
        group = MetadataGroup(groups, lambda: disk_nodes(metadata.catalog))
        metadata.attach(place.number, place.incarnation, group, calls, self._clock.monotonic)
        member.on_halted = metadata.stand_still
        member.begin()
        member.take_part(groups)

        password_threads = Threads(loop, PASSWORD_THREADS, "leveret-passwords", PASSWORD_NICENESS)
        self._undo.callback(password_threads.close)
        verifier = Verifier(password_threads, self._clock.monotonic, loop.call_later)
        places = QueuePlaces(place.number, metadata.catalog, metadata, groups.trusts)
        self.broker = broker = Broker(
            node=config.node_name,
            catalog=metadata.catalog,
            metadata=PlacingMetadata(metadata, places),
            authenticator=verifier,
            request_turn=lambda: amqp.request_turn(),
            tick_at=lambda when: self._tick_broker_at(when, broker, amqp),
            random_bytes=self._random.random_bytes,
            limits=client_limits(config),
            owner_prefix=f"{place.number}.{place.incarnation}.",
            work=BackgroundWork(loop.call_soon, self._clock.monotonic),
            audit=metadata.audit,
        )
        broker.replies.join(str(place.number), RemoteReplies(calls, broker.replies, self._clock.wall_ms))
        amqp = self._amqp_server(broker)
        classic.attach(broker, self.log, self._classic_share)
        self._undo.callback(lambda: classic.stop(self._clock.wall_ms()))
        anywhere = classic_anywhere(place.name, classic, broker, calls, loop, self._clock.wall_ms)
        self._undo.callback(lambda: anywhere.close(self._clock.wall_ms()))
        self._undo.callback(lambda: broker.end_connections(self._clock.wall_ms()))
        broker.add_kind(anywhere)
        self.quorum = quorum = self._quorum_queues(place, calls, loop)
        quorum.attach(broker)
        groups.behind_round = amqp.end_requested_turn  # what it has confirmed leaves at once
        broker.add_kind(quorum)
        broker.recover(self._clock.wall_ms())
        classic.opened(self._clock.wall_ms())
        classic.when_found(lambda finding: logger.error("%s", finding))

        reconciler = self._reconciler(places)
        ticking = asyncio.create_task(self._tick(broker, classic, anywhere, quorum, reconciler, amqp))
        ticking.add_done_callback(self._tick_ended)
        self._undo.callback(ticking.cancel)
        self._undo.callback(self._cancel_broker_timer)
        self._announced(peers)
        cluster = self._join_others(identity, peers, calls, started_at)
        members = self._queue_members(cluster, places)
        cluster.queue_members = members
        await self._enter_cluster(metadata, verifier, peers.address)
        identity.survive(False)  # if it was to begin anew, it has

        ports = self._alarm_ports(broker, classic, disk)
        self.watcher = Watcher(config.memory, config.disk, disk_limit_bytes(config), ports)
        self.watcher.check_disk(disk.free_bytes())  # before the first publisher can come
        admin = NodeAdmin(
            config,
            metadata=metadata,
            verifier=verifier,
            background=password_threads,
            alarms=broker.alarms,
            watcher=self.watcher,
            listeners=lambda: self.listeners,
            started_at_ms=started_at,
            cluster=cluster,
            members=members,
        )
        metrics = Metrics(
            broker, self.log, metadata, quorum, calls, peers.links, self.groups, self.watcher, config, self._loop_watch
        )

        await self._listen_amqp(amqp)
        self._undo.push_async_callback(amqp.stop)
        grpc = await self._listen_grpc(broker, admin)
        await self._listen_http(broker, admin, metrics)
        cluster.maintenance = ClientDoors(broker, amqp, grpc)
        # First of all when it stops: clients find the next leaders where they go to.
        self._undo.push_async_callback(cluster.hand_over)

    async def stop(self) -> None:
        """Also after a start that failed half-way."""
        await self._undo.aclose()

    # parts

    async def _take_place(self, disk: OsDisk) -> tuple[NodeIdentity, PeerSide]:
        """Who this node is, who the others are, and whether it founds a cluster: what comes after this relies on it."""
        config, random_bytes = self._config, self._random.random_bytes
        kind = RAM if config.cluster.ram else DISK
        identity = NodeIdentity.begin(disk, config.node_name, kind, self._clock.wall_ms(), random_bytes)
        peers = PeerSide(config, self._clock.monotonic, random_bytes, logger)
        self._undo.push_async_callback(peers.stop)
        await peers.listen()
        await take_place(config, identity, peers, random_bytes)
        identity.take_part()
        if identity.kind == RAM:
            identity.renew_disk()  # what its members promise is forgotten with each process
        return identity, peers

    async def _open_catalog(
        self, disk: OsDisk, loop: asyncio.AbstractEventLoop, place: Place, peers: PeerSide, calls: PeerCalls
    ) -> ClusterMetadata:
        """What this node knows of it without asking anybody; if that is nothing, what the others know."""
        store = LmdbStore(disk.path(names.CATALOG_DIRECTORY))
        if place.kind == RAM:
            store.commit(replacement(store, {IN_MEMORY_KEY: b""}))  # what it had as a disk node would only grow old
            store.close()
            self.metadata = ClusterMetadata(Catalog(), NothingKept(), Inline())
        else:
            self.metadata = ClusterMetadata(Catalog(), store, Threads(loop, 1, "leveret-metadata"))
        metadata = self.metadata
        metadata.on_failed = self._process.stop
        self._undo.callback(metadata.close)
        self._undo.push_async_callback(lambda: answered(metadata.flushed()))
        if place.others and not metadata.machine.position.applied:
            # Without it, what lives here would be taken for rubbish. One that never had it may have a vote that is waited for.
            may_have_queues = place.kind == RAM or store.get(IN_MEMORY_KEY) is not None
            await fetch_catalog(place, peers, calls, metadata.machine, None if may_have_queues else ENTER_S)
        return metadata

    def _open_log(
        self, disk: OsDisk, loop: asyncio.AbstractEventLoop, catalog: Catalog, identity: NodeIdentity
    ) -> ClassicQueues:
        """Read the node's log, for all who keep something in it, and go on in it. Returns the classic queues, unattached."""
        config = self._config
        self._new_replica = partial(new_replica_or_stop, identity, self._process.stop)
        facts = load_or_create(disk, self._random.random_bytes(LOG_ID_BYTES))
        raft_thread = Threads(loop, 1, "leveret-raft")
        self.raft = raft = RaftStore(disk, StoreLimits(), raft_thread, self._new_replica, found=logger.error)
        classic_thread = Threads(loop, 1, "leveret-classic")
        classic = ClassicQueues(disk, classic_limits(config), classic_thread)
        records = queues_of(catalog, config.node_name)
        recovered = recover(
            disk,
            facts,
            raft,
            classic,
            records,
            had_log=identity.belonged,
            next_queue_id=catalog.next_queue_id,
            older_catalog=config.node.older_catalog,
        )
        repaired_by_others = 0 if keeps_catalog_alone(identity.place, catalog) else recovered.groups
        self._notices = Notices(recovered.places, recovered.is_gone, repaired_by_others)
        if recovered.lost:
            identity.renew_disk()
        core = LogCore(facts.log_id, recovered.end, config.log.file_bytes_max)
        self.log = LogWriter(
            core,
            disk,
            loop,
            facts,
            on_failed=lambda reason: self._process.stop(f"the log failed and takes nothing more: {reason}"),
            commit_inline_bytes_max=config.log.commit_inline_bytes_max,
        )
        self._undo.callback(raft.close)
        self._undo.callback(self.log.close)
        self._undo.callback(raft_thread.close)
        self._undo.callback(classic_thread.close)  # before `classic.stop`, which writes the same files
        users = LogUsers(self.log)
        raft_share, self._classic_share = users.join("raft"), users.join("classic")
        raft.attach(self.log, raft_share)
        return classic

    def _join_groups(self, place: Place, peers: PeerSide, loop: asyncio.AbstractEventLoop) -> Groups:
        groups = Groups(
            place.number,
            place.incarnation,
            loop=loop,
            clock=self._clock,
            net=peers.links,
            log=self.log,
            random=self._fraction,
            on_failed=self._process.stop,
            on_leading=self._leading_changed,
            on_damaged=self._member_damaged,
            on_repaired=self._member_repaired,
            on_halted=self._member_halted,
        )
        self.raft.on_damaged = groups.damaged
        self._undo.callback(groups.close)
        return groups

    def _sentences(self) -> tuple[str, ...]:
        """What an operator should know of this node; each goes on behind its name."""
        return (*self._notices.sentences(), *stopped_sentences(self.metadata.halted, self.quorum.quarantined))

    def _announced(self, peers: PeerSide) -> None:
        if peers.listens:
            self.listeners.append(ListenerFacts("peer", peers.address))

    def _join_others(self, identity: NodeIdentity, peers: PeerSide, calls: PeerCalls, started_at: int) -> Cluster:
        """From here on this node has links to the others, and is asked by those that want to be."""
        catalog, broker, wall_ms = self.metadata.catalog, self.broker, self._clock.wall_ms

        def news(alarms: Sequence[ToldAlarm]) -> News:
            listeners = tuple(ToldListener(one.protocol, one.address, one.tls) for one in self.listeners)
            return News(VERSION, started_at, listeners, tuple(alarms), self._sentences())

        def name_of(number: NodeId) -> str:
            record = catalog.node_of_number(number)
            return record.name if record is not None else str(number)

        cluster = Cluster(
            identity,
            peers,
            self.groups,
            self.metadata,
            OthersNews(identity.number, calls, broker.alarms, name_of, wall_ms, news),
            self._process,
            self._clock,
            cluster_name=self._config.cluster_name,
            zone=self._config.zone,
            holds_anything=lambda: declared_in(catalog),
        )
        self._undo.push_async_callback(cluster.stop)
        cluster.start()
        return cluster

    async def _enter_cluster(self, metadata: ClusterMetadata, verifier: Verifier, address: str) -> None:
        """Say who this is, behind what makes a cluster where there is none. A node that knows the catalog does not wait for the
        others for long: what it has is served while they are away."""
        place, catalog = self.place, metadata.catalog
        entered: list[asyncio.Future[Any]] = []
        if self.member.alone and not catalog.cluster_id:
            commands = default_commands(verifier.hash("guest")) if not catalog.vhosts else []
            record = NodeRecord(place.name, 0, place.disk_id, address, place.kind, self._config.zone)
            # A founder that is killed in the midst of this has the same life again.
            commands += [JoinNode(record, place.cluster_id, place.incarnation), SetClusterId(place.cluster_id)]
            entered += [answered(metadata.insist(command)) for command in commands]
        limits = asdict(catalog_limits(self._config))
        started = NodeStarted(place.name, place.disk_id, place.incarnation, limits)
        entered.append(answered(metadata.insist(started)))
        waits_s = ENTER_S if catalog.vhosts and not self.member.alone else None
        for future in entered:
            future.add_done_callback(lambda one: one.cancelled() or one.exception())  # whether anybody waits or not
        done, _ = await asyncio.wait(entered, timeout=waits_s)
        try:
            for future in done:
                future.result()
        except (NotFound, PreconditionFailed) as error:
            raise NoPlace(removed_text(place.name, error.text)) from error
        except ResourceExhausted:
            if metadata.halted is None:
                raise
            logger.error("this node serves what it knows of, and learns of no change")

    def _quorum_queues(self, place: Place, calls: PeerCalls, loop: asyncio.AbstractEventLoop) -> QuorumQueues:
        records = QueueRecords(self.metadata)
        reports = QuorumReports(logger, self._clock.monotonic)
        quorum = QuorumQueues(
            SessionKey(place.number, place.incarnation),
            place.disk_id,
            groups=self.groups,
            store=self.raft,
            calls=calls,
            loop=loop,
            wall_ms=self._clock.wall_ms,
            monotonic=self._clock.monotonic,
            new_replica=self._new_replica,
            set_members=records.set_members,
            incarnation_of=records.incarnation_of,
            node_name=place.name,
            on_damaged=self._repair_member,
            alone=lambda: self.member.alone,
            catalog_is_behind=lambda: self.member.catalog_is_behind,
            on_lost=self._queue_cut,
            on_diverged=reports.diverged,
            on_quarantined=reports.quarantined,
            on_refused=reports.refused,
        )
        quorum.name_of = partial(name_of_node, self.metadata.catalog)
        records.tell(quorum)
        return quorum

    def _reconciler(self, places: QueuePlaces) -> Reconciler:
        section = self._config.quorum
        reconciler = Reconciler(
            self.metadata.catalog,
            self.quorum,
            places.candidates,
            self._fraction,
            grows=section.reconcile,
            interval_ms=1000 * section.reconcile_interval_s,
        )

        def applied(command: Command, result: Any) -> None:
            if isinstance(command, AddNode | JoinNode):
                reconciler.node_joined(self._clock.wall_ms())

        self.metadata.subscribe(applied)
        return reconciler

    def _queue_members(self, cluster: Cluster, places: QueuePlaces) -> QueueMembers:
        return QueueMembers(
            self.metadata.catalog,
            self.quorum,
            candidates=places.candidates,
            reaches=cluster.reaches,
            away_since_ms=cluster.since_ms,
            audit=self.metadata.audit,
        )

    def _leading_changed(self, driver: Driver) -> None:
        if driver.group == METADATA_GROUP:
            self.metadata.leading_changed()
        else:
            self.quorum.leading_changed(driver.group)

    def _member_damaged(self, driver: Driver, damage: Damaged) -> None:
        if driver.group == METADATA_GROUP:
            self.member.damaged(damage)
        else:
            self.quorum.damaged(driver.group)
            self._repair_member(driver.group, damage)

    def _member_halted(self, driver: Driver, error: CannotApply) -> None:
        if driver.group == METADATA_GROUP:
            self.member.halted(str(error))
        else:
            self.quorum.halted(driver.group, str(error))

    def _repair_member(self, group: int, damage: Damaged) -> None:
        """Of a quorum queue: it comes back as another one, which the others repair."""
        logger.error("group %d takes no part on this node for now: %s", group, damage)
        self._notices.members += not self.member.alone

        def repaired(_: MemberId) -> None:
            if not self.quorum.lives_again(group):
                self._process.restart(f"the only copy of group {group}, on this node, has lost a part")

        self.raft.repair(group, damage, repaired)

    def _queue_cut(self, record: QueueRecord, kept: int) -> None:
        if self.place.survives:  # as an operator has asked for; nobody knows whether something is missing
            text = "%s goes on with the member on this node alone, which has entries up to %d"
            logger.warning(text, record.label, kept)
        else:
            logger.error("%s", self._notices.queue_cut(record, kept))

    def _member_repaired(self, driver: Driver) -> None:
        if driver.group == METADATA_GROUP:
            self.member.repaired(driver)
        else:
            logger.info("group %d is repaired: its new member here, %s, votes", driver.group, shown(driver.me))

    def _fraction(self) -> float:
        """By chance, from 0 to 1."""
        return int.from_bytes(self._random.random_bytes(6)) / (1 << 48)

    def _alarm_ports(self, broker: Broker, classic: ClassicQueues, disk: OsDisk) -> AlarmPorts:
        return AlarmPorts(
            raise_alarm=lambda kind, reason: broker.alarms.raise_alarm(kind, reason, self._clock.wall_ms()),
            clear_alarm=broker.alarms.clear_alarm,
            set_pressure=classic.set_pressure,
            free_bytes=disk.free_bytes,
            short_of_room=lambda: self.log.short_of_room,
        )

    def _amqp_server(self, broker: Broker) -> AmqpServer:
        section = self._config.amqp
        return AmqpServer(
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
        )

    async def _listen_amqp(self, server: AmqpServer) -> None:
        listen = self._config.listen
        for host, port in addresses("amqp", listen.amqp, logger):
            port = await server.listen(host, port, proxy_protocol=listen.proxy_protocol)
            self.listeners.append(ListenerFacts("amqp", endpoint(host, port)))
        for host, port in addresses("amqps", listen.amqps, logger):
            port = await server.listen(host, port, self._tls_context(), proxy_protocol=listen.proxy_protocol)
            self.listeners.append(ListenerFacts("amqps", endpoint(host, port), tls=True))

    async def _listen_grpc(self, broker: Broker, admin: NodeAdmin) -> list[Server]:
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

    async def _listen_http(self, broker: Broker, admin: NodeAdmin, metrics: Metrics) -> None:
        amqp = self._config.amqp
        api = Api(
            broker,
            hash_password=lambda password: answered(admin.hash_password(password.encode())),
            password_hashes=admin.password_hashes,
            metrics=metrics.text,
            metrics_login=self._config.metrics.login,
            health=lambda: broker.alarms.blocked_reason,
            identity=self._identity(),
            announces={"rabbitmq_version": amqp.announce_version} if amqp.announce_product else {},
        )
        limits = WebLimits(self._ceilings.http, self._ceilings.http_per_source)
        server = WebServer(api.answer, api.body_bytes_max, self._clock.wall_ms, limits)
        self._undo.push_async_callback(server.stop)
        for host, port in addresses("http", self._config.listen.http, logger):
            port = await server.listen(host, port)
            self.listeners.append(ListenerFacts("http", endpoint(host, port)))

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

    async def _tick(
        self,
        broker: Broker,
        classic: ClassicQueues,
        anywhere: ClassicAnywhere,
        quorum: QuorumQueues,
        reconciler: Reconciler,
        amqp: AmqpServer,
    ) -> None:
        held, log = (False, False), self.log
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock.wall_ms()
            broker.tick(now)
            classic.tick(now)
            anywhere.tick(now)
            quorum.tick(now)
            reconciler.tick(now)
            self.raft.tick(now)
            self.metadata.tick()
            if log.failed is None:
                log.flush_lazy()
            amqp.request_turn()
            crowded = log.gathering_bytes > self._config.log.gathering_bytes_max or classic.congested
            congested = anywhere.congested or quorum.congested
            if held != (crowded, congested):
                held = crowded, congested
                anywhere.hold(crowded)
                amqp.hold_publishers(any(held))

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
            self._process.fail(f"the node's timer ended: {task.exception()!r}")


def anonymous_login(section: AmqpSection) -> Credentials | None:
    if not section.anonymous_login_user:
        return None
    return Credentials(section.anonymous_login_user, section.anonymous_login_password.encode())


def disk_nodes(catalog: Catalog) -> list[NodeId]:
    return [record.number for record in catalog.nodes.values() if record.kind == DISK]


def declared_in(catalog: Catalog) -> str:
    """What somebody has declared, in words; empty: nothing that a new catalog has not."""
    queues = sum(1 for vhost in catalog.vhosts for _ in catalog.queues(vhost))
    users, vhosts = sorted(catalog.users.keys() - {"guest"}), sorted(catalog.vhosts.keys() - {"/"})
    parts = [
        f"{queues} queues" if queues else "",
        *(f"user '{one}'" for one in users),
        *(f"vhost '{one}'" for one in vhosts),
    ]
    return ", ".join(filter(None, parts))


def queues_of(catalog: Catalog, node: str) -> list[QueueRecord]:
    """Those that live on this node. A record without a home was made before there were clusters."""
    return [
        record
        for vhost in catalog.vhosts
        for record in catalog.queues(vhost)
        if record.kind == "classic" and record.home in ("", node)
    ]


def grpc_certificate(tls: TlsSection) -> Tls:
    """Raises ConfigError when a file cannot be read."""
    try:
        ca = Path(tls.ca).read_bytes() if tls.ca else None
        return Tls(Path(tls.certificate).read_bytes(), Path(tls.key).read_bytes(), ca, tls.verify_peer)
    except OSError as error:
        raise ConfigError(f"tls: {error.filename}: {error.strerror}") from error

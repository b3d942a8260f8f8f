"""Builds a node bottom up: disk, log, catalog, queues, broker, fronts. Read `Node.start` from top to bottom.

Listeners come last: whoever can connect finds everything recovered. `Node.stop` goes the other way: clients are told, links to
other nodes end, what clients of this node and of others left unsettled returns to its queues, queues write what a fast start
needs, and the log is closed behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any

from broker.broker import TokenLogins
from broker.catalog.catalog import Catalog
from broker.errors import NotFound, PreconditionFailed, ResourceExhausted
from broker.operations.node_facts import ListenerFacts
from broker.operations.operations import Operations
from front.answers import answered
from front.cluster_federation import ClusterFederation
from front.cluster_shovels import ClusterShovels
from front.grpc.admin_service import AdminPorts
from front.grpc.log_service import LogSource
from front.member_moves import MemberMoves
from front.sockets.busy_poll import BusyPoll
from front.sockets.client_server import ClientServer
from front.sockets.input_share import InputShare
from front.web.api import WebPorts
from front.web.everywhere import Everywhere
from front.web.security.cross_origin import CrossOrigin
from node.admin import NodeAdmin
from node.background import Inline, Threads
from node.boot_definitions import BootDefinitions
from node.catalog.catalog_store import IN_MEMORY_KEY, NothingKept, replacement
from node.catalog.cluster_metadata import ClusterMetadata
from node.catalog.fetch import fetch_catalog
from node.clock import NodeTime, Process, Random, SystemClock, SystemRandom
from node.config import Config
from node.config_limits import kernel_settings
from node.config_peers import boot_settings, peer_settings
from node.doors.certificates import Certificates
from node.doors.client_doors import ClientDoors
from node.doors.client_servers import ClientServers
from node.exporting.log_export import LogExports
from node.foundation import Parts, Ports
from node.identity import DISK, RAM, NodeIdentity, Place
from node.kernel import ENTER_S, Kernel
from node.lives.node_lives import begin_lives, begin_replay_log
from node.logins.auth import Verifier
from node.logs import end_tail, tail
from node.membership.cluster import Cluster
from node.membership.decommissioning import queues_at_home
from node.membership.first_boot import NoPlace, check_name, configured_places, take_place
from node.membership.greetings import removed_text
from node.membership.news import ToldListener
from node.membership.node_names import name_of_node
from node.own_links import CHECKS, OwnLinks, own_links
from node.peers.calls import PeerCalls
from node.peers.handshake import PeerIdentity
from node.peers.side import PeerSide
from node.peers.ways import PeerWays
from node.replicas.far_queues import FarQueues
from node.replicas.members import QueueMembers
from node.watching.alarms import AlarmPorts, Watcher, disk_limit_bytes
from node.watching.descriptors import ceilings, descriptor_limit, log_ceilings
from node.watching.loop_watch import LoopWatch
from node.watching.metrics import Metrics
from node.web_questions import WebQuestions
from storage import names
from storage.lmdb_store import LmdbStore
from storage.os_disk import OsDisk

GUEST_PASSWORD = "guest"
PASSWORD_THREADS = 2  # one checks logins, one hashes for administrators
PASSWORD_NICENESS = 19  # the event loop and the log come first
EXPORT_NICENESS = 19
TICK_S = 0.1  # how often is looked after what has no timer of its own; also finds timers when the wall clock jumped

logger = logging.getLogger("leveret")


class Node:
    """One node. `start` it once, then `stop` it once."""

    def __init__(
        self,
        config: Config,
        process: Process,
        clock: NodeTime | None = None,
        random: Random | None = None,
        loop_watch: LoopWatch | None = None,
    ) -> None:
        self._loop_watch = loop_watch
        self._config = config
        self._process = process
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()
        self._undo = contextlib.AsyncExitStack()  # what `stop` does, in the opposite order of `start`
        self.certificates = Certificates(config.tls, logger)
        self.log_tail = tail()
        descriptors = descriptor_limit()
        admitted = ceilings(config.limits, descriptors)
        log_ceilings(config.limits, descriptors, admitted, logger)
        self._servers = ClientServers(config, admitted, self.certificates, self._clock, self._undo)
        self.listeners = self._servers.listeners

    async def start(self) -> None:
        config, loop = self._config, asyncio.get_running_loop()
        started_at = self._clock.wall_ms()

        self._undo.callback(end_tail, self.log_tail)
        disk = OsDisk(config.node.data_dir)
        disk.lock(names.LOCK)
        self._undo.callback(disk.unlock)
        identity, peers = await self._take_place(disk)
        peers.enter(PeerIdentity(identity.number, identity.incarnation, identity.cluster_id))
        calls = PeerCalls(peers.links, loop, logger)
        ports = Ports(loop, self._clock, self._random, disk, self._process, lambda name: Threads(loop, 1, name))
        self.kernel = kernel = Kernel(ports, kernel_settings(config), Parts(), identity, calls)
        metadata = await self._open_catalog(kernel, disk, identity.place, peers, calls)
        check_name(identity.place, metadata.catalog, config.node.data_dir)  # before anything is taken for rubbish
        self._undo.callback(kernel.close)
        kernel.open_log()
        busy_poll = self._busy_poll(loop, peers)
        kernel.join_groups(peers.links)

        password_threads = Threads(loop, PASSWORD_THREADS, "leveret-passwords", PASSWORD_NICENESS)
        self._undo.callback(password_threads.close)
        hashing = config.auth.password_hashing
        verifier = Verifier(password_threads, self._clock.monotonic, loop.call_later, hashing=hashing)
        kernel.begin(verifier, self._token_logins(loop))
        broker = kernel.broker
        input_share = InputShare(loop.call_soon)
        amqp, streams = self._servers.amqp(broker, input_share), self._servers.stream(broker, input_share)
        amqp.busy_poll = streams.busy_poll = busy_poll
        publishing: list[ClientServer | OwnLinks] = [amqp, streams]

        def hold_publishers(held: bool) -> None:
            for one in publishing:
                one.hold_publishers(held)

        kernel.hold_publishers = hold_publishers

        ticking = asyncio.create_task(self._tick(kernel))
        ticking.add_done_callback(self._tick_ended)
        self._undo.callback(ticking.cancel)
        self._announced(peers)
        cluster = self._join_others(kernel, identity, peers, started_at)
        members = self._queue_members(kernel, cluster)
        cluster.queue_members = members
        cluster.lost_queues = partial(queues_at_home, broker)
        kernel.sentences_beside = cluster.sentences
        await self._enter_cluster(kernel, verifier)
        identity.survive(False)  # if it was to begin anew, it has

        self.watcher = Watcher(config.memory, config.disk, disk_limit_bytes(config), self._alarm_ports(kernel, disk))
        await self.watcher.look_at_disk()  # before the first publisher can come
        operations = await self._administration(verifier, password_threads, started_at)
        links = own_links(config, broker, metadata, cluster, lambda: self.listeners, self._clock, self._random)
        publishing.append(links)
        operations.parameters.checks |= CHECKS
        name_of = partial(name_of_node, metadata.catalog)
        far = FarQueues(kernel.replicated, calls, cluster.reaches, name_of)
        far.serve()
        operations.resources.look_elsewhere = far.look
        exports = self._log_exports(kernel)
        metrics = self._metrics(identity, peers, calls, links, exports)

        await self._servers.listen_to_clients("amqp", amqp)
        await self._servers.listen_to_clients("stream", streams)
        questions = WebQuestions(config.node_name, metadata.catalog, calls, cluster.reaches)
        everywhere = Everywhere(questions)
        shovels = ClusterShovels(config.node_name, metadata.catalog, operations.parameters, everywhere, links.shovels)
        lives = begin_lives(
            config.node.data_dir, config.node_name, metadata.catalog, calls, cluster.reaches, self._undo
        )
        replay_log = begin_replay_log(config.node.data_dir, self._undo)
        federation = ClusterFederation(config.node_name, metadata.catalog, everywhere, links.federation)
        moves = MemberMoves(config.node_name, everywhere, self._clock.wall_ms)
        admin_ports = AdminPorts(operations, cluster, members, moves, exports, shovels, federation, lives, replay_log)
        grpc = await self._servers.listen_grpc(broker, admin_ports)
        self._undo.callback(exports.stop)
        web = WebPorts(
            operations,
            metrics,
            self._clock.wall_ms,
            config.metrics.login,
            self._servers.versions(),
            everywhere,
            shovels,
            federation,
            moves,
            cluster,
            members,
            cross_origin=CrossOrigin(config.management.cors_allow_origins, config.management.cors_max_age_s),
            login_session_minutes=config.management.login_session_minutes,
            log_tail=self.log_tail,
            lives=lives,
            replay_log=replay_log,
        )
        await self._servers.listen_http(broker, web, questions, self._tick_ended)
        watching = asyncio.create_task(self.certificates.watch())
        self._undo.callback(watching.cancel)
        self._undo.callback(links.stop)
        links.start()
        cluster.maintenance = ClientDoors(broker, (amqp, streams), grpc)
        cluster.go_on()
        # First of all when it stops: clients find the next leaders where they go to.
        self._undo.push_async_callback(cluster.hand_over)

    async def stop(self) -> None:
        """Also after a start that failed half-way."""
        await self._undo.aclose()

    def ended(self) -> int:
        """How many connections and queues, of those that there were since it has started."""
        totals = self.kernel.broker.totals
        return totals.connections_closed + totals.queues_deleted

    # parts

    async def _take_place(self, disk: OsDisk) -> tuple[NodeIdentity, PeerSide]:
        """Who this node is, who the others are, and whether it founds a cluster: what comes after this relies on it."""
        config, random_bytes = self._config, self._random.random_bytes
        kind = RAM if config.cluster.ram else DISK
        identity = NodeIdentity.begin(disk, config.node_name, kind, self._clock.wall_ms(), random_bytes)
        peers = PeerSide(peer_settings(config), self._clock.monotonic, random_bytes, logger)
        self._undo.push_async_callback(peers.stop)
        await peers.listen()
        await take_place(boot_settings(config), identity, peers, random_bytes)
        identity.take_part()
        if identity.kind == RAM:
            identity.renew_disk()  # what its members promise is forgotten with each process
        return identity, peers

    async def _open_catalog(
        self, kernel: Kernel, disk: OsDisk, place: Place, peers: PeerSide, calls: PeerCalls
    ) -> ClusterMetadata:
        """What this node knows of it without asking anybody; if that is nothing, what the others know."""
        store = LmdbStore(disk.path(names.CATALOG_DIRECTORY))
        if place.kind == RAM:
            store.commit(replacement(store, {IN_MEMORY_KEY: b""}))  # what it had as a disk node would only grow old
            store.close()
            metadata = kernel.open_catalog(NothingKept(), Inline())
        else:
            metadata = kernel.open_catalog(store, Threads(asyncio.get_running_loop(), 1, "leveret-metadata"))
        self._undo.callback(metadata.close)
        self._undo.push_async_callback(lambda: answered(metadata.flushed()))
        if place.others and not metadata.machine.position.applied:
            # Without it, what lives here would be taken for rubbish. One that never had it may have a vote that is waited for.
            may_have_queues = place.kind == RAM or store.get(IN_MEMORY_KEY) is not None
            await fetch_catalog(place, peers, calls, metadata.machine, None if may_have_queues else ENTER_S)
        return metadata

    def _token_logins(self, loop: asyncio.AbstractEventLoop) -> TokenLogins | None:
        """Raises ConfigError."""
        section = self._config.oauth2
        if not section.resource_server_id:
            return None
        # The libraries for it take time to start and memory, which nodes without it save.
        from node.config_tokens import token_settings
        from node.tokens.begin import begin_tokens

        return begin_tokens(token_settings(section), loop, self._clock, self._undo)

    def _busy_poll(self, loop: asyncio.AbstractEventLoop, peers: PeerSide) -> BusyPoll | None:
        microseconds = self._config.node.busy_poll_us
        if not microseconds:
            return None
        poll = BusyPoll(loop.call_soon, self._clock.monotonic, microseconds / 1e6)
        peers.links.poll_busily(poll)
        return poll

    def _announced(self, peers: PeerSide) -> None:
        if peers.listens:
            self.listeners.append(ListenerFacts("peer", peers.address))

    def _join_others(self, kernel: Kernel, identity: NodeIdentity, peers: PeerSide, started_at: int) -> Cluster:
        """From here on this node has links to the others, and is asked by those that want to be."""

        def listeners() -> list[ToldListener]:
            return [ToldListener(one.protocol, one.address, one.tls) for one in self.listeners]

        ways = PeerWays(
            peers,
            lambda error: self._process.fail(f"a task of the node ended: {error!r}"),
            partial(configured_places, boot_settings(self._config)),
        )
        self._undo.callback(ways.stop)
        kernel.meet(ways, started_at, listeners, self._servers.stream_address)
        cluster = Cluster(
            identity,
            peers,
            kernel.metadata,
            kernel.upkeep,
            kernel.joining,
            kernel.news,
            self._process,
            self._clock,
            cluster_name=self._config.cluster_name,
            holds_anything=lambda: declared_in(kernel.metadata.catalog),
        )
        self._undo.callback(cluster.stop)
        cluster.start()
        return cluster

    async def _enter_cluster(self, kernel: Kernel, verifier: Verifier) -> None:
        """A node that knows the catalog does not wait for the others for long: what it has is served while they are away."""
        has_definitions = bool(self._config.definitions.path)  # which say who the users are
        pending = kernel.enter(None if has_definitions else partial(verifier.hash, GUEST_PASSWORD))
        entered: list[asyncio.Future[Any]] = [answered(one) for one in pending]
        for future in entered:
            future.add_done_callback(lambda one: one.cancelled() or one.exception())  # whether anybody waits or not
        done, _ = await asyncio.wait(entered, timeout=ENTER_S if kernel.may_serve_alone else None)
        try:
            for future in done:
                future.result()
        except (NotFound, PreconditionFailed) as error:
            raise NoPlace(removed_text(kernel.place.name, error.text)) from error
        except ResourceExhausted:
            if kernel.metadata.halted is None:
                raise
            logger.error("this node serves what it knows of, and learns of no change")

    async def _administration(self, verifier: Verifier, background: Threads, started_at: int) -> Operations:
        """Also what is declared at each start."""
        broker, path = self.kernel.broker, self._config.definitions.path
        admin = NodeAdmin(
            self._config,
            verifier=verifier,
            background=background,
            alarms=broker.alarms,
            watcher=self.watcher,
            listeners=lambda: self.listeners,
            certificates=self.certificates,
            started_at_ms=started_at,
        )
        operations = Operations(broker, admin)
        if path:
            boot = BootDefinitions(path, len(self._config.cluster.peers), operations.documents, broker)
            await boot.bring_in(partial(verifier.hash, GUEST_PASSWORD))
        return operations

    def _metrics(
        self, identity: NodeIdentity, peers: PeerSide, calls: PeerCalls, links: OwnLinks, exports: LogExports
    ) -> Metrics:
        kernel = self.kernel
        return Metrics(
            kernel.broker,
            kernel.log,
            kernel.metadata,
            kernel.quorum,
            kernel.streams,
            calls,
            peers.links,
            kernel.groups,
            self.watcher,
            self._config,
            self._loop_watch,
            kernel.archive_figures,
            exports.figures,
            identity.cluster_id,
            self._clock.wall_ms,
            links.shovels.facts,
            links.federation.facts,
        )

    def _queue_members(self, kernel: Kernel, cluster: Cluster) -> QueueMembers:
        return QueueMembers(
            kernel.metadata.catalog,
            kernel.replicated,
            candidates=kernel.places.candidates,
            reaches=cluster.reaches,
            away_since_ms=cluster.since_ms,
            audit=kernel.metadata.audit,
        )

    def _alarm_ports(self, kernel: Kernel, disk: OsDisk) -> AlarmPorts:
        alarms, archive = kernel.broker.alarms, kernel.archive
        return AlarmPorts(
            raise_alarm=lambda kind, reason: alarms.raise_alarm(kind, reason, self._clock.wall_ms()),
            clear_alarm=alarms.clear_alarm,
            set_pressure=kernel.classic.set_pressure,
            free_bytes=disk.free_bytes,
            shortage=lambda: kernel.log.shortage,
            make_room=None if archive is None else lambda wanted: answered(archive.make_room(wanted)),
            free_dead_entries=kernel.groups.give_room,
        )

    def _log_exports(self, kernel: Kernel) -> LogExports:
        thread = Threads(asyncio.get_running_loop(), 1, "leveret-export", EXPORT_NICENESS)
        self._undo.callback(thread.close)
        return LogExports(
            OsDisk(self._config.node.data_dir, read_only=True),
            thread,
            LogSource(self._config.node_name, kernel.log.log_id),
            kernel.metadata.audit,
            durable_end=lambda: kernel.log.durable_end,
            bytes_per_s_max=self._config.history.export_bytes_per_s,
            monotonic=self._clock.monotonic,
        )

    # what happens by itself

    @staticmethod
    async def _tick(kernel: Kernel) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            kernel.tick()

    def _tick_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._process.fail(f"the node's timer ended: {task.exception()!r}")


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

"""One node without its doors: catalog, log, replicated groups, queues, broker, and what they do by themselves.

It knows the world by its ports alone (node/foundation.py). So what runs in production (node/assemble.py adds files, links and
fronts) runs in simulations too (tests/sim/brokers), wired the same way.

The stages, in this order, each once:

    open_catalog   what is declared, as this node knows it
    open_log       the log is read, for queues and groups
    join_groups    this node is heard by the others: it votes, and leads
    begin          the broker has its queues
    meet           this node has links to the others, and is asked by those that want to be
    enter          the others are told of this process

`tick` it from `begin` on; `close` it after any stage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from broker.actors import submitter
from broker.background_work import BackgroundWork
from broker.broker import Authenticator, Broker, TokenLogins
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import AddNode, Command, JoinNode, NodeStarted, SetClusterId
from broker.catalog.commands.metadata_entry import ENTRY_NEWEST, WhenAndWho
from broker.catalog.holding_queues import HoldingMetadata
from broker.catalog.known_by_all import KnownByAll
from broker.history_level import HistoryLevel
from broker.pending import Pending
from broker.records import NodeRecord, QueueRecord
from broker.timers import Delays
from broker.turns import Turns
from classic.driver import ClassicQueues
from node.anywhere.replies import RemoteReplies
from node.anywhere.stream_groups import RemoteGroups
from node.archiving import NodeArchive
from node.background import Background
from node.catalog.cluster_metadata import ClusterMetadata
from node.catalog.group import MetadataGroup
from node.catalog.metadata_member import MetadataMember, keeps_catalog_alone, settle_number
from node.clock import TickTimers
from node.conversion.conversions import Conversions
from node.foundation import Foundation, Parts, Ports, undo
from node.identity import DISK, NodeIdentity, new_replica_or_stop
from node.kernel_settings import KernelSettings
from node.membership.joining import Joining
from node.membership.news import News, OthersNews, ToldAlarm, ToldListener
from node.membership.node_names import name_of_node
from node.membership.upkeep import Upkeep, Ways
from node.peers.calls import PeerCalls
from node.queue_types import ClassicAnywhere, classic_anywhere
from node.replicas.places import PlacingMetadata, QueuePlaces
from node.replicas.queue_records import QueueRecords
from node.replicas.reconciliation import Reconciler
from node.replicas.reports import QuorumReports
from node.version import VERSION
from node.watching.disk_losses import DiskLosses
from node.watching.halted_groups import halted_sentences
from quorum.driver import QuorumQueues
from raft.core.errors import Damaged
from raft.core.messages import MemberId, NodeId, shown
from raft.group_owners import GroupOwners
from raft.groups import Groups
from raft.store.node_log import RaftStore
from raft.transport import Net
from replicated.kind_parts import HostingNode
from replicated.kinds import ReplicatedKinds
from replicated.ports import CatalogPorts, MemberDriver, nobody
from replicated.queue import QueueReports, ReplicatedQueue
from storage.archive.archive import ArchiveFigures
from storage.history.file_names import FileNames
from storage.history.reader_progress import ReaderProgressLog
from storage.history.unlogged_counts import UnloggedCounts
from storage.lmdb_store import Store
from storage.wal.writer import LogWriter
from stream.driver import StreamQueues

ENTER_S = 5.0  # for the others to hear of this node, before it serves what it has without them

logger = logging.getLogger("leveret")


class Kernel:
    """See the module."""

    metadata: ClusterMetadata
    broker: Broker
    classic: ClassicQueues
    anywhere: ClassicAnywhere
    quorum: QuorumQueues
    streams: StreamQueues
    replicated: ReplicatedKinds  # both of these
    turns: Turns
    places: QueuePlaces
    member: MetadataMember  # of the metadata group, on this node
    news: OthersNews
    upkeep: Upkeep
    joining: Joining

    def __init__(
        self, ports: Ports, settings: KernelSettings, parts: Parts, identity: NodeIdentity, calls: PeerCalls
    ) -> None:
        self.identity = identity
        self.place = identity.place
        self.disk_losses = DiskLosses()
        self.hold_publishers: Callable[[bool], None] = lambda held: None  # of this node, while too much waits
        self.sentences_beside: Callable[[], tuple[str, ...]] = tuple  # of what stands above the kernel
        self.archive: NodeArchive | None = None
        if settings.archive is not None:
            self.archive = NodeArchive(ports, settings.archive)
            ports = replace(ports, disk=self.archive.disk)
        self._ports = ports
        self._settings = settings
        self._parts = parts
        self._calls = calls
        calls.work = self._turns_of_work()
        self._wall_ms = ports.clock.wall_ms
        self._new_replica = partial(new_replica_or_stop, identity, ports.process.stop)
        self._foundation: Foundation | None = None
        self._owners = GroupOwners()
        self._close: list[Callable[[], None]] = []
        self._ticks = TickTimers(ports.loop, ports.clock, self._tick_broker)
        self._held = (False, False)
        self._unlogged: UnloggedCounts | None = None
        self._reader_progress: ReaderProgressLog | None = None

    def _turns_of_work(self) -> BackgroundWork:
        ports = self._ports
        return BackgroundWork(ports.loop.call_soon, ports.clock.monotonic, steps_max=self._settings.steps_per_turn)

    # ------------------------------------------------------------------------- the stages

    def open_catalog(self, store: Store, background: Background) -> ClusterMetadata:
        """Raises CatalogDamaged. It outlives `close`, for what others have yet to hear of it."""
        self.metadata = self._parts.metadata(self._parts.catalog(), store, background)
        self.metadata.on_failed = self._ports.process.stop
        return self.metadata

    def open_log(self) -> None:
        """Raises Corrupt, and what the disk raises."""
        ports, identity, catalog = self._ports, self.identity, self.metadata.catalog
        archive = self.archive.files if self.archive is not None else None
        self._foundation = foundation = Foundation(ports, self._settings.log, self._parts, self._new_replica, archive)
        self._close.append(foundation.close)
        if self.archive is not None:
            self._close.append(self.archive.close)
        thread = ports.jobs("leveret-classic")
        self._close.append(thread.close)
        self.classic = self._parts.classic(ports.disk, self._settings.classic, thread)
        recovered = foundation.open_log(
            self.classic,
            queues_of(catalog, identity.name),
            had_log=identity.belonged,
            next_queue_id=catalog.next_queue_id,
            older_catalog=self._settings.older_catalog,
        )
        is_alone = keeps_catalog_alone(identity.place, catalog)
        is_gone = settle_number(identity, foundation.store, lost=recovered.lost)
        repaired_by_others = 0 if is_alone else recovered.groups + is_gone
        self.disk_losses = DiskLosses(recovered.places, recovered.is_gone, repaired_by_others)
        self.place = identity.place
        self._classic_share = foundation.join("classic")
        foundation.use_log()
        self._names = FileNames(self.log, self.place.incarnation)
        says_who = self._settings.history >= HistoryLevel.BASIC
        self._actor_number = self._names.number_of if says_who else nobody
        if self._settings.history >= HistoryLevel.FULL:
            self._unlogged = UnloggedCounts(self.log, self._names, self._wall_ms)
            self._reader_progress = ReaderProgressLog(self.log, self._names)
        self.metadata.when_and_who = self._when_and_who
        foundation.store.names = self._names

    def _when_and_who(self) -> WhenAndWho:
        actor = submitter()
        return WhenAndWho(self._wall_ms(), 0 if actor is None else self._actor_number(actor))

    def join_groups(self, net: Net) -> None:
        foundation, metadata, place = self.foundation, self.metadata, self.place
        foundation.join_groups(
            place.number,
            place.incarnation,
            net,
            on_leading=self._owners.leading_changed,
            on_damaged=self._owners.damaged,
            on_repaired=self._owners.repaired,
            on_halted=self._owners.halted,
        )
        self.member = member = MetadataMember(place, foundation.store, metadata.machine, self._new_replica)
        group = MetadataGroup(foundation.groups, lambda: disk_nodes(metadata.catalog))
        metadata.attach(place.number, place.incarnation, group, self._calls, self._ports.clock.monotonic)
        member.on_halted = metadata.stand_still
        member.begin()
        member.on_leading = metadata.leading_changed
        member.take_part(foundation.groups, self._owners)

    def begin(self, authenticator: Authenticator, tokens: TokenLogins | None = None) -> None:
        ports, metadata, place, wall_ms = self._ports, self.metadata, self.place, self._wall_ms
        self.places = QueuePlaces(place.number, metadata.catalog, metadata, self.groups.trusts)
        work = metadata.work = self._turns_of_work()
        self.turns = turns = Turns(ports.loop.call_soon, wall_ms, work)
        self.broker = broker = self._parts.broker(
            node=place.name,
            catalog=metadata.catalog,
            metadata=KnownByAll(
                HoldingMetadata(PlacingMetadata(metadata, self.places), metadata.catalog, place.name),
                metadata.catalog,
                metadata.entry_versions.behind,
            ),
            authenticator=authenticator,
            turns=turns,
            tick_at=self._ticks.tick_at,
            delays=Delays(self._ticks.monotonic_ms, self._ticks.tick_in),
            random_bytes=ports.random.random_bytes,
            limits=self._settings.clients,
            owner_prefix=f"{place.number}.{place.incarnation}.",
            audit=metadata.audit,
            history=self._settings.history,
            queues_per_step=self._settings.queues_per_step,
            unlogged=self._unlogged,
            tokens=tokens,
        )
        broker.replies.join(str(place.number), RemoteReplies(self._calls, broker.replies, wall_ms))
        groups = broker.streams.groups
        groups.elsewhere = RemoteGroups(self._calls, groups, place.name, lambda: metadata.catalog.nodes)
        self._add_classic()
        self._add_replicated()
        parts = (
            self.anywhere.home,
            self.quorum,
            self._calls,
            ports.loop,
            wall_ms,
            self._ticks.monotonic_ms,
            metadata.insist,
        )
        self.conversions = Conversions(place.name, broker, self.classic, *parts)
        self.groups.around_round = turns.around  # what it has confirmed leaves at once
        self.log.around_lone_commit = turns.behind  # so do confirms of classic queues
        broker.recover(wall_ms())
        self.conversions.begin()
        self.classic.opened(wall_ms())
        self._reconciler = Reconciler(
            metadata.catalog,
            self.replicated,
            place.number,
            self.places.candidates,
            ports.random.fraction,
            grows=self._settings.grows,
            interval_ms=self._settings.reconcile_interval_ms,
        )
        metadata.subscribe(self._applied)
        self._close.append(self._ticks.cancel)

    def meet(
        self,
        ways: Ways,
        started_at_ms: int,
        listeners: Callable[[], Sequence[ToldListener]],
        stream_address: Callable[[bool], str] = lambda tls: "",
    ) -> None:
        """`stream_address`: where clients of the stream protocol, in plain or within TLS, reach this node, HOST:PORT; empty:
        nowhere."""
        ports, metadata, identity, groups = self._ports, self.metadata, self.identity, self.groups

        def news(alarms: Sequence[ToldAlarm]) -> News:
            plain, within_tls = stream_address(False), stream_address(True)
            return News(
                VERSION, started_at_ms, tuple(listeners()), tuple(alarms), self.sentences(), plain, within_tls,
                self.place.incarnation, ENTRY_NEWEST, reads_deaths=True,
            )  # fmt: skip

        def name_of(number: NodeId) -> str:
            record = metadata.catalog.node_of_number(number)
            return record.name if record is not None else str(number)

        self._ways = ways
        self.news = OthersNews(identity.number, self._calls, self.broker.alarms, name_of, self._wall_ms, news)
        self.broker.streams.address_of = self._stream_address
        metadata.entry_versions.told = self.news.catalog_entries
        self.anywhere.remote.reads_deaths = self.news.reads_deaths
        self.upkeep = Upkeep(
            identity,
            ways,
            groups,
            metadata,
            self.news,
            ports.process,
            ports.clock,
            ports.loop,
            self._settings.zone,
        )
        self.joining = Joining(identity, metadata, self.upkeep.neighbours)
        self._close.append(self.upkeep.stop)
        self.upkeep.start()

    def _stream_address(self, name: str, tls: bool) -> tuple[str, int] | None:
        record = self.metadata.catalog.nodes.get(name)
        return None if record is None else self.news.stream_address(record.number, tls=tls)

    def enter(self, guest_hash: Callable[[], str] | None) -> list[Pending[Any]]:
        """Say who this is, behind what makes a cluster where there is none, with the user guest if there is a hash for it."""
        place, metadata, limits = self.place, self.metadata, self._settings.catalog
        commands: list[Command] = []
        if self.member.alone and not metadata.catalog.cluster_id:
            if not metadata.catalog.vhosts:
                commands += default_commands(None if guest_hash is None else guest_hash())
            record = NodeRecord(place.name, 0, place.disk_id, self._ways.address, place.kind, self._settings.zone)
            # A founder that is killed in the midst of this has the same life again.
            commands += [JoinNode(record, place.cluster_id, place.incarnation), SetClusterId(place.cluster_id)]
        told = asdict(limits) if limits is not None else {}
        commands.append(NodeStarted(place.name, place.disk_id, place.incarnation, told))
        return [metadata.insist(command) for command in commands]

    @property
    def may_serve_alone(self) -> bool:
        """Whether this node serves clients though the others have not heard of it within ENTER_S."""
        return bool(self.metadata.catalog.vhosts) and not self.member.alone

    def close(self) -> None:
        """Clients have gone."""
        undo(self._close)

    # ------------------------------------------------------------------------- what is there

    @property
    def foundation(self) -> Foundation:
        assert self._foundation is not None, "the log is not open"
        return self._foundation

    @property
    def store(self) -> RaftStore:
        return self.foundation.store

    @property
    def log(self) -> LogWriter:
        return self.foundation.log

    @property
    def groups(self) -> Groups:
        return self.foundation.groups

    def archive_figures(self) -> ArchiveFigures:
        return self.archive.figures if self.archive is not None else ArchiveFigures()

    def sentences(self) -> tuple[str, ...]:
        """What an operator should know of this node; each goes on behind its name."""
        quarantined: list[ReplicatedQueue] = [*self.quorum.members.quarantined, *self.streams.members.quarantined]
        halted = halted_sentences(self.metadata.halted, quarantined)
        return (*self.disk_losses.sentences(), *halted, *self.sentences_beside())

    # ------------------------------------------------------------------------- queues

    def _add_classic(self) -> None:
        classic, broker, wall_ms = self.classic, self.broker, self._wall_ms
        classic.attach(
            broker, self.log, self._classic_share, self._names, self._settings.history, unlogged=self._unlogged
        )
        self._close.append(lambda: classic.stop(wall_ms()))
        if self._unlogged is not None:
            self._close.append(self._unlogged.tell)
        if self._reader_progress is not None:
            self._close.append(self._reader_progress.tell)
        classic.when_found(lambda finding: logger.error("%s", finding))
        anywhere = classic_anywhere(self.place.name, classic, broker, self._calls, self._ports.loop, wall_ms)
        self.anywhere = anywhere
        self._close += [lambda: anywhere.close(wall_ms()), lambda: broker.end_connections(wall_ms())]
        broker.add_kind(anywhere)

    def _add_replicated(self) -> None:
        """Quorum queues and streams: each a kind of its own, over the same groups and the same log."""
        ports, place, member = self._ports, self.place, self.member
        records = QueueRecords(self.metadata)
        told = QuorumReports(logger, ports.clock.monotonic)
        catalog = CatalogPorts(
            records.set_members,
            records.incarnation_of,
            partial(name_of_node, self.metadata.catalog),
            alone=lambda: member.alone,
            is_behind=lambda: member.catalog_is_behind,
            holding_needed=records.holding_needed,
        )
        reports = QueueReports(
            on_damaged=self._repair_member,
            on_repaired=log_repaired,
            on_lost=self._queue_cut,
            on_leads=self.broker.events.leader,
            on_quarantined=told.quarantined,
            on_diverged=told.diverged,
            on_refused=told.refused,
            on_not_delivered=told.not_delivered,
        )
        node = HostingNode(
            name=place.name,
            number=place.number,
            incarnation=place.incarnation,
            disk_id=place.disk_id,
            groups=self.groups,
            owners=self._owners,
            store=self.store,
            calls=self._calls,
            loop=ports.loop,
            wall_ms=self._wall_ms,
            monotonic=ports.clock.monotonic,
            new_replica=self._new_replica,
            catalog=catalog,
            actor_number=self._actor_number,
            reader_progress=self._reader_progress,
            reports=reports,
        )
        self.quorum = QuorumQueues(node, entry_bytes_kept_max=self._settings.entry_bytes_kept_max)
        self.streams = StreamQueues(node, chunk_bytes_kept_max=self._settings.entry_bytes_kept_max)
        self.replicated = ReplicatedKinds(self.quorum, self.streams)
        self._add_kind(records, self.quorum)
        self._add_kind(records, self.streams)

    def _add_kind(self, records: QueueRecords, kind: QuorumQueues | StreamQueues) -> None:
        records.tell(kind.members.changed)
        kind.attach(self.broker)
        self.broker.add_kind(kind)

    def _queue_cut(self, record: QueueRecord, kept: int) -> None:
        if self.place.survives:  # as an operator has asked for; nobody knows whether something is missing
            text = "%s goes on with the member on this node alone, which has entries up to %d"
            logger.warning(text, record.label, kept)
        else:
            logger.error("%s", self.disk_losses.queue_cut(record, kept))

    # ------------------------------------------------------------------------- members of groups

    def _repair_member(self, group: int, damage: Damaged, lives_again: Callable[[], bool]) -> None:
        """Of a queue: it comes back as another one, which the others repair."""
        self.disk_losses.member_begins_anew(group, damage, alone=self.member.alone)

        def repaired(_: MemberId) -> None:
            if not lives_again():
                self._ports.process.restart(f"the only copy of group {group}, on this node, has lost a part")

        self.foundation.stores.of(group).repair(group, damage, repaired)

    # ------------------------------------------------------------------------- what happens by itself

    def tick(self) -> None:
        """Now and then: for what has no timer of its own, and to find timers when the wall clock has jumped."""
        now = self._wall_ms()
        self.broker.tick(now)
        self.classic.tick(now)
        self.anywhere.tick(now)
        self.quorum.tick(now)
        self.streams.tick(now)
        self.conversions.tick()
        self._reconciler.tick(now)
        self.foundation.stores.tick(now)
        self.metadata.tick()
        if self.archive is not None:
            self.archive.tick(now)
        if self._unlogged is not None:
            self._unlogged.tick()
        if self.log.failed is None:
            self.log.flush_lazy()
        self.turns.request()
        self._hold()

    def _hold(self) -> None:
        """Publishers wait while too much waits for this node's disk, for other nodes, or for a conversion to catch up."""
        crowded = self.log.gathering_bytes > self._settings.gathering_bytes_max
        crowded |= self.classic.congested or self.conversions.congested
        congested = self.anywhere.congested or self.quorum.congested or self.streams.congested
        if self._held != (crowded, congested):
            self._held = crowded, congested
            self.anywhere.hold(crowded)
            self.hold_publishers(crowded or congested)

    def _tick_broker(self) -> None:
        self.broker.tick(self._wall_ms())
        self.turns.request()

    def _applied(self, command: Command, result: Any) -> None:
        if isinstance(command, AddNode | JoinNode):
            self._reconciler.node_joined(self._wall_ms())


def log_repaired(driver: MemberDriver) -> None:
    logger.info("group %d is repaired: its new member here, %s, votes", driver.group, shown(driver.me))


def disk_nodes(catalog: Catalog) -> Sequence[NodeId]:
    return [record.number for record in catalog.nodes.values() if record.kind == DISK]


def queues_of(catalog: Catalog, node: str) -> list[QueueRecord]:
    """Those that live on this node. A record without a home was made before there were clusters."""
    records = (record for vhost in catalog.vhosts for record in catalog.queues(vhost))
    return [record for record in records if record.kind == "classic" and record.home in ("", node)]

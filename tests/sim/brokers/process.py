"""One life of a whole broker: what node/assemble.py puts together, over simulated ports.

Left out is what needs sockets and asyncio: fronts, links, discovery, and node/cluster.py. What the last one does now and then
is done here in the same way: the metadata group's members follow the catalog, a drained node hands over what it leads, a node
that was removed ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.background_work import BackgroundWork
from broker.broker import Broker, ignore
from broker.catalog import Catalog, default_commands
from broker.catalog_commands import (
    AddNode,
    Command,
    JoinNode,
    NodeStarted,
    PutNode,
    PutUser,
    RemoveNode,
    SetClusterId,
)
from broker.dead_letter import DeadMessage
from broker.errors import BrokerError, PreconditionFailed
from broker.pending import Pending
from broker.queue_type import Arrival, DeathReason, Queue
from broker.records import NodeRecord, QueueRecord
from classic.shelf import ClassicLimits
from node.background import Inline
from node.catalog_state import decode_state
from node.catalog_store import CatalogDamaged, NothingKept
from node.cluster_metadata import ClusterMetadata
from node.identity import DISK, RAM, KnownNode, NodeIdentity
from node.metadata_group import METADATA_GROUP, MetadataGroup
from node.metadata_machine import Outcome
from node.metadata_member import MetadataMember
from node.metadata_members import wanted_change
from node.peer_calls import CallEars, PeerCalls
from node.queue_places import PlacingMetadata, QueuePlaces
from node.queue_records import QueueRecords
from node.queue_types import classic_anywhere
from node.reconciliation import Reconciler
from quorum.bodies import EntryCache
from quorum.commands import SessionKey
from quorum.driver import QuorumQueues
from raft.driver import Driver, GroupStore, SnapshotRules
from raft.errors import Damaged, RaftError, Superseded
from raft.group_records import Identity
from raft.machine import Machine
from raft.membership import members_of
from raft.memory_log_store import MemoryLogStore
from raft.messages import MemberId, node_of
from raft.node_log import RaftStore
from raft.settings import Settings
from raft.wal_log_store import WalLogStore
from storage import fact_file, names
from storage.errors import Corrupt
from storage.wal_file_reader import Chunk
from storage.wal_replay import Replay
from tests.sim.brokers.catalog_file import CatalogFile
from tests.sim.brokers.classics import WatchedClassicQueues
from tests.sim.brokers.machines import watched_machine
from tests.sim.clock import Timer
from tests.sim.disk import SimDisk
from tests.sim.process import NodeLoop, Process, Site, SlowWork, WatchedGroups, WatchedStore

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

LOGGER = logging.getLogger("sim.brokers")
CLUSTER_TICK_S = 0.25  # node/cluster.py, TICK_S
ENTER_S = 5.0  # node/assemble.py
RECONCILE_MS = 5_000  # an hour there
HAND_OVER_TICKS = 8  # of these until a drained node looks again what it leads: GO_AROUND_S


class BrokerLoop(NodeLoop):
    """What quorum queues need besides."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_at(self._site.clock.monotonic() + delay, callback, *args)


class BrokerGroups(WatchedGroups):
    """Watches what others add."""

    def add(
        self,
        group: int,
        me: MemberId,
        store: GroupStore,
        machine: Machine,
        settings: Settings,
        rules: SnapshotRules | None = None,
    ) -> Driver:
        process: Any = self.process
        shape = process.site.world.shape
        settings = replace(shape.settings(), eagerness=settings.eagerness, commit_news_s=settings.commit_news_s)
        watched = watched_machine(process, group, machine)
        if isinstance(store, MemoryLogStore):
            process.site.world.watch.began_in_memory(group, me)
            return super().add(group, me, store, watched, settings, rules)
        assert isinstance(store, WalLogStore), f"group {group} is stored in {store}"
        rules = SnapshotRules(shape.snapshot_entries_max, shape.snapshot_bytes_max)
        return super().add(group, me, WatchedStore(process, store), watched, settings, rules)


class BrokerStore(RaftStore):
    """Tells the watch which members come and go."""

    process: BrokerProcess

    def create_group(self, identity: Identity) -> int:
        ticket = super().create_group(identity)
        self.process.site.world.watch.created(self.process, identity.group, identity.member, identity.membership)
        return ticket

    def remove_group(self, group: int) -> int:
        ticket = super().remove_group(group)
        self.process.site.world.watch.removed(self.process, group, ticket)
        return ticket


class Wire:
    """The links of one process. Fulfils node.peer_calls.Wire."""

    ears: CallEars

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    def hear_calls(self, ears: CallEars) -> None:
        self.ears = ears

    def send_call(self, node: int, letter: bytes) -> None:
        site = self._process.site
        site.world.network.send_call(site.number, node, letter)

    def calls_waiting(self, node: int) -> int:
        site = self._process.site
        return site.world.network.calls_waiting(site.number, node)


class SimMetadata(ClusterMetadata):
    """Says which entry of the log the answer comes of that is told at the moment."""

    telling: tuple[int, int, int] | None = None  # node, incarnation, number

    def _answer(self, pending: Pending[Any], outcome: Outcome) -> None:
        origin = outcome.origin
        self.telling = (origin.node, origin.incarnation, origin.number)
        try:
            super()._answer(pending, outcome)
        finally:
            self.telling = None


class NoPasswords:
    """Nobody logs in by a password here. Fulfils broker.broker.Authenticator."""

    def verify(self, user: Any, password: bytes, name: str, source: str) -> Pending[bool]:
        return Pending.of(True)


class BuryingBroker(Broker):
    """Counts what becomes of dead letters that are to arrive at least once."""

    def __init__(self, count: Callable[[str], None], **others: Any) -> None:
        super().__init__(**others)
        self._count = count

    def dead_letter_confirmed(
        self, queue: Queue, reason: DeathReason, message: DeadMessage, now: int, on_answer: Callable[[Arrival], None]
    ) -> None:
        def answered(arrival: Arrival) -> None:
            self._count(f"dead letter {arrival.name.lower()}")
            on_answer(arrival)

        super().dead_letter_confirmed(queue, reason, message, now, answered)


class BrokerProcess(Process):
    """See the module."""

    site: BrokerSite
    groups_type = BrokerGroups

    # What is there before the log is read

    def prepare(self) -> None:
        site = self.site
        self.loop: BrokerLoop = BrokerLoop(site)
        self.identity = NodeIdentity.begin(
            site.disk, site.name, site.kind, site.rising_wall_ms(), site.random.randbytes
        )
        if self.identity.blank:
            raise Corrupt(names.NODE_FACTS, 0, 0, "this node has forgotten which cluster it belongs to")
        self.place = self.identity.place
        self.numbers = self.identity.new_replica
        if self.place.kind == RAM:
            self._begin_in_memory()
            return
        self._work = SlowWork(self.loop, site.job_delay_s)
        try:
            self.metadata = SimMetadata(Catalog(), CatalogFile(site.disk), self._work)  # type: ignore[arg-type]
        except CatalogDamaged as error:
            raise Corrupt(names.CATALOG_DIRECTORY, 0, 0, str(error)) from error
        self.metadata.on_failed = self._fail

    def _begin_in_memory(self) -> None:
        """As node/assemble.py does for a RAM node, which has asked for the catalog before."""
        site = self.site
        assert site.fetched is not None, f"node {site.number} is started without a catalog"
        self.identity.renew_disk()  # what its members promise is forgotten with each process
        self.place = self.identity.place
        self.metadata = SimMetadata(Catalog(), NothingKept(), Inline())
        self.metadata.on_failed = self._fail
        self.metadata.machine.stand_on(*decode_state(site.fetched))

    def new_store(self, work: SlowWork) -> RaftStore:
        site = self.site
        store = BrokerStore(site.disk, site.world.shape.store_limits(), work, self.new_replica, self.found.append)
        store.process = self
        return store

    def recover(self, chunks: Iterable[Chunk]) -> None:
        shape = self.site.world.shape
        limits = ClassicLimits(
            embed_below=shape.classic_embed_below,
            sequences_per_segment=shape.classic_sequences_per_segment,
            store_file_bytes_max=shape.classic_store_file_bytes,
            runs_max=shape.classic_runs_max,
            ram_count_max=shape.classic_ram_count_max,
            log_files_kept=shape.log_files_kept,
            loaded_runs_max=8,
            compaction_interval_ms=shape.compaction_interval_ms,
        )
        self.classic = WatchedClassicQueues(self, limits, SlowWork(self.loop, self.site.job_delay_s))
        mine = [record for record in self._records() if record.kind == "classic" and record.home == self.site.name]
        self.classic.recover(chunks, mine)

    def recovered(self, replay: Replay) -> None:
        if replay.damage or self.store.renumbered:
            self.identity.renew_disk()
        self.place = self.identity.place

    def join_log(self) -> None:
        raft_share, self._classic_share = self.users.join("raft"), self.users.join("classic")
        self.store.attach(self.log, raft_share)

    @property
    def number(self) -> int:
        return self.place.number

    @property
    def incarnation(self) -> int:
        return self.place.incarnation

    # What stands on the groups

    def begin(self) -> None:
        site, place = self.site, self.place
        now = self._wall_ms()
        self.wire = Wire(self)
        self.calls = PeerCalls(self.wire, self.loop, LOGGER)
        self.member = MetadataMember(place, self.store, self.metadata.machine, self.new_replica)
        group = MetadataGroup(self.groups, self._disk_nodes)
        self.metadata.attach(place.number, place.incarnation, group, self.calls, site.clock.monotonic)
        self.member.begin()
        self.member.take_part(self.groups)
        places = QueuePlaces(place.number, self.metadata.catalog, self.metadata, self.groups.trusts)
        self._turn_asked = False
        self._broker_timer: Timer | None = None
        self.broker = BuryingBroker(
            site.world.watch.count,
            node=place.name,
            catalog=self.metadata.catalog,
            metadata=PlacingMetadata(self.metadata, places),
            authenticator=NoPasswords(),
            request_turn=self.request_turn,
            tick_at=self._tick_broker_at,
            random_bytes=site.random.randbytes,
            owner_prefix=f"{place.number}.{place.incarnation}.",
            work=BackgroundWork(self.loop.call_soon, site.clock.monotonic, steps_max=site.world.shape.steps_max),
        )
        self.classic.attach(self.broker, self.log, self._classic_share)
        self.anywhere = classic_anywhere(place.name, self.classic, self.broker, self.calls, self.loop, self._wall_ms)
        self.broker.add_kind(self.anywhere)
        self.quorum = self._quorum_queues()
        self.quorum.attach(self.broker)
        self.broker.add_kind(self.quorum)
        self.broker.recover(now)
        self.classic.opened(now)
        self.reconciler = Reconciler(
            self.metadata.catalog,
            self.quorum,
            places.candidates,
            site.random.random,
            grows=bool(site.world.shape.reconcile),
            interval_ms=RECONCILE_MS,
        )
        self._drained = False
        self._changing = False
        self._has_entered = False
        self._began = site.clock.monotonic()
        self._cluster_ticks = 0
        self.metadata.subscribe(self._applied)
        self._enter_cluster()
        super().begin()
        self._cluster_tick()

    def _quorum_queues(self) -> QuorumQueues:
        records = QueueRecords(self.metadata)
        quorum = QuorumQueues(
            SessionKey(self.place.number, self.place.incarnation),
            self.place.disk_id,
            groups=self.groups,
            store=self.store,
            calls=self.calls,
            loop=self.loop,
            wall_ms=self._wall_ms,
            monotonic=self.site.clock.monotonic,
            new_replica=self.new_replica,
            set_members=records.set_members,
            incarnation_of=records.incarnation_of,
            node_name=self.place.name,
            on_damaged=self._repair_queue,
            alone=lambda: self.member.alone,
        )
        quorum._cache = EntryCache(
            self.site.world.shape.memory_bytes_max
        )  # so that bodies are read from files all the time
        records.tell(quorum)
        return quorum

    def _enter_cluster(self) -> None:
        metadata, place = self.metadata, self.place
        catalog = metadata.catalog
        if self.member.alone and not catalog.cluster_id:
            record = NodeRecord(place.name, 0, place.disk_id, self.site.address, DISK, place.name)
            for command in (
                *default_commands("hash"),
                JoinNode(record, place.cluster_id, place.incarnation),
                SetClusterId(place.cluster_id),
            ):
                metadata.insist(command).then(ignore, ignore)
        metadata.insist(NodeStarted(place.name, place.disk_id, place.incarnation, {})).then(
            self._entered, self._not_entered
        )

    def _entered(self, _: Any) -> None:
        self._has_entered = True

    def _not_entered(self, error: BrokerError) -> None:
        """A real node stops with the reason. One that stands on an old disk is given another one."""
        if isinstance(error, PreconditionFailed):
            assert self.site.damaged or self.site.was_rolled_back, f"its disk is no old one: {error}"
            self.site.rolled_back = True
            raise Corrupt(names.NODE_FACTS, 0, 0, error.text)

    @property
    def serves_clients(self) -> bool:
        waited = self.site.clock.monotonic() - self._began > ENTER_S
        return (self._has_entered or (waited and bool(self.metadata.catalog.vhosts))) and not self._drained

    def _records(self) -> list[QueueRecord]:
        catalog = self.metadata.catalog
        return [record for vhost in catalog.vhosts for record in catalog.queues(vhost)]

    def _disk_nodes(self) -> Sequence[int]:
        return [record.number for record in self.metadata.catalog.nodes.values() if record.kind == DISK]

    def _wall_ms(self) -> int:
        return self.site.clock.wall_ms()

    # Leaderships and damage

    def leading_changed(self, driver: Driver) -> None:
        if driver.group == METADATA_GROUP:
            self.metadata.leading_changed()
        else:
            self.quorum.leading_changed(driver.group)

    def member_damaged(self, driver: Driver, damage: Damaged) -> None:
        self.site.world.watch.found_damaged(driver.group, driver.me, damage)
        if driver.group == METADATA_GROUP:
            self.excuse(damage)
            self.member.damaged(damage)
        else:
            self.quorum.damaged(driver.group)
            self._repair_queue(driver.group, damage)

    def _repair_queue(self, group: int, damage: Damaged) -> None:
        if isinstance(damage, Superseded) and self._was_removed(group):
            self.site.world.watch.count("removed member is taken in again before it went")
        else:
            self.excuse(damage)

        def repaired(_: MemberId) -> None:
            lives = self.quorum.lives_again(group)
            assert lives, f"group {group} has lost its only copy, on a node alone, and these lose nothing"

        self.store.repair(group, damage, repaired)

    def _was_removed(self, group: int) -> bool:
        """Whether the group goes on without the member that is here."""
        return self.store.group(group).member not in members_of(self.site.world.watch.book(group).membership)

    # Turns and ticks

    def request_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_asked = False
        self.broker.turn_ended(self._wall_ms())

    def _tick_broker_at(self, when: int) -> None:
        if self._broker_timer is not None:
            self._broker_timer.cancel()
        delay_s = max(0, when - self._wall_ms()) / 1000
        self._broker_timer = self.loop.call_later(delay_s, self._tick_broker)

    def _tick_broker(self) -> None:
        self.broker.tick(self._wall_ms())
        self.request_turn()

    def tick(self, now: int) -> None:
        self.broker.tick(now)
        self.classic.tick(now)
        self.anywhere.tick(now)
        self.quorum.tick(now)
        self.reconciler.tick(now)
        super().tick(now)
        self.metadata.tick()
        self.request_turn()

    @property
    def has_stopped_its_jobs(self) -> bool:
        return super().has_stopped_its_jobs or self.classic.gave_up

    def close(self) -> None:
        now = self._wall_ms()
        self.broker.end_connections(now)
        self.anywhere.close(now)
        self.log.delay_s = lambda: 0.0
        self.classic.stop(now)
        self.groups.close()
        self.log.close()
        self.store.close()
        self.metadata.close()

    # The cluster

    def _applied(self, command: Command, result: Any) -> None:
        if isinstance(command, AddNode | JoinNode):
            self.reconciler.node_joined(self._wall_ms())
        if isinstance(command, AddNode | JoinNode | PutNode | RemoveNode | NodeStarted | PutUser):
            self._follow()

    def _follow(self) -> None:
        """The nodes are those of the catalog, once that knows this one."""
        catalog, me = self.metadata.catalog, self.place.number
        known = [KnownNode(one.number, one.name, one.address, one.kind) for one in catalog.nodes.values()]
        if any(one.number == me for one in known):
            self.identity.know(known)
        elif 0 < me < catalog.next_node_number and catalog.nodes:
            self.site.removed = True

    def _cluster_tick(self) -> None:
        self._change_members()
        self._cluster_ticks += 1
        if self._cluster_ticks % HAND_OVER_TICKS == 0:
            if self._drained:
                self.hand_over()
            self._announce()
        self.loop.call_after(CLUSTER_TICK_S, self._cluster_tick)

    def _change_members(self) -> None:
        driver = self.metadata_driver()
        if driver is None or not driver.leads or self._changing or not self.metadata.catalog.nodes:
            return
        status = driver.core.status()
        if status.change_pending:
            return
        change = wanted_change(status.membership, self.metadata.catalog.nodes.values(), self.place.number)
        if change is not None:
            self._changing = True
            self.groups.change(METADATA_GROUP, change, self._changed)

    def _changed(self, results: Any, error: RaftError | None) -> None:
        self._changing = False

    def metadata_driver(self) -> Driver | None:
        return next((one for one in self.groups.drivers() if one.group == METADATA_GROUP), None)

    def _announce(self) -> None:
        """A process that has just been started is drained no more."""
        record = self.metadata.catalog.nodes.get(self.place.name)
        if record is not None and record.number == self.place.number and record.draining != self._drained:
            self.metadata.submit(PutNode(replace(record, draining=self._drained))).then(ignore, ignore)

    def drain(self) -> None:
        """As an operator does before a maintenance: others lead, and clients go elsewhere."""
        self._drained = True
        self._announce()
        self.hand_over()
        self.broker.send_clients_away("this node is drained")

    def revive(self) -> None:
        self._drained = False
        self._announce()
        self.broker.let_clients_in()

    @property
    def is_drained(self) -> bool:
        return self._drained

    def hand_over(self) -> None:
        for driver in list(self.groups.drivers()):
            heir = self._heir(driver) if driver.leads else 0
            if heir:
                try:
                    driver.transfer(heir, self.site.clock.monotonic())
                except RaftError:
                    self.site.world.watch.count("transfer refused")

    def _heir(self, driver: Driver) -> MemberId:
        status = driver.core.status()
        draining = [record.number for record in self.metadata.catalog.nodes.values() if record.draining]
        fit = [
            one
            for one in status.followers
            if one.member in status.membership.voters and not one.suspected and node_of(one.member) not in draining
        ]
        return max(fit, key=lambda one: one.match).member if fit else 0


class BrokerSite(Site):
    """Where the processes of one broker run."""

    process: BrokerProcess | None
    world: BrokerWorld

    def __init__(self, world: BrokerWorld, number: int) -> None:
        super().__init__(world, number)
        self.name = f"n{number}"
        self.kind = RAM if world.shape.voters < number <= world.shape.voters + world.shape.ram else DISK
        self.fetched: bytes | None = None  # the catalog, for the next process of a RAM node
        self._wish: JoinNode | None = None
        self.address = f"n{number}:5681"
        self.removed = False  # the catalog does not know it any more
        self.is_joining = False
        self._risen_ms = 0

    def new_process(self) -> BrokerProcess:
        return BrokerProcess(self)

    def rising_wall_ms(self) -> int:
        """The wall clock at a start. Whoever starts a node on another disk sees to it that its clock is not set back."""
        self._risen_ms = max(self._risen_ms + 1000, self.clock.wall_ms(), self.world.loop.clock.wall_ms())
        return self._risen_ms

    def found_cluster(self, cluster_id: str) -> None:
        """It is a node alone from now on."""
        identity = self._blank_identity()
        identity.found(cluster_id)

    def wish(self) -> JoinNode:
        """What a blank node asks others for, when it wants to belong to them: one process, until it is taken in."""
        if self._wish is None:
            incarnation = self._blank_identity().incarnation
            record = NodeRecord(self.name, 0, 0, self.address, self.kind, self.name)
            self._wish = JoinNode(record, self.random.randbytes(8).hex(), incarnation)
        return self._wish

    def join_cluster(self, cluster_id: str, record: NodeRecord, nodes: Sequence[NodeRecord]) -> None:
        assert record.number == self.number, (
            f"{self.name} is node {record.number} in the catalog, and {self.number} here"
        )
        known = [KnownNode(one.number, one.name, one.address, one.kind) for one in nodes]
        self._blank_identity().join(cluster_id, record.number, record.disk_id, known)

    def _blank_identity(self) -> NodeIdentity:
        return NodeIdentity.begin(self.disk, self.name, self.kind, self.rising_wall_ms(), self.random.randbytes)

    @property
    def is_blank(self) -> bool:
        """Whether its disk is a new one."""
        facts = fact_file.load(self.disk, names.NODE_FACTS)
        return facts is None or not facts["cluster_id"]

    def replace_disk(self, disk: SimDisk) -> None:
        self.disk = disk
        self.equip()

    def equip(self) -> None:
        super().equip()
        self._wish = None

    @property
    def serves_clients(self) -> bool:
        """Once it has entered the cluster; or it knows the catalog, and has waited for the others long enough."""
        process = self.process
        return process is not None and not self.stopped and process.serves_clients

    # Its events

    def receive_call(self, sender: int, letter: bytes) -> None:
        self.run(self.life, self._receive_call, (sender, letter))

    def call_left(self, receiver: int) -> None:
        self.run(self.life, self._call_left, (receiver,))

    def _receive_call(self, sender: int, letter: bytes) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self.world.trace.letter(letter)
        if self.process.calls.connected(sender):
            self.process.wire.ears.receive(sender, letter)
            assert not self.process.calls.handler_failures, f"node {self.number} failed to handle a call of {sender}"

    def _call_left(self, receiver: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self.process.wire.ears.drained(receiver)

    def _connected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self._disconnected(node)  # a new connection takes the place of the one before
        super()._connected(node)
        self.process.wire.ears.link_came(node)

    def _disconnected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        if self.process.calls.connected(node):
            super()._disconnected(node)
            self.process.wire.ears.link_went(node)

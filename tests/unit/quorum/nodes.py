"""Nodes with quorum queues, or others with a group each, in one thread: real groups over simulated disks, in virtual time.

Each node has what a real one has below its broker: log, store, groups, calls, quorum queues. The broker above is whatever the
test hands in: a QueueHost whose turns end by `turn`. Letters take DELAY_S; a cut loses them and breaks the links of calls.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from broker.catalog.policy import effective_arguments
from broker.queues.queue_type import QueueHost
from broker.records import QueueRecord
from node.peers.calls import PeerCalls
from node.peers.link import CallEars
from quorum.driver import QuorumQueues
from quorum.queue import QuorumQueue
from raft.core.errors import Damaged
from raft.core.messages import MemberId, NodeId, member_id
from raft.core.settings import Settings
from raft.driver import SnapshotRules
from raft.group_owners import GroupOwners
from raft.groups import Groups
from raft.store.node_log import RaftStore
from raft.store.store_limits import StoreLimits
from raft.transport import Letter, joined
from replicated.kind_parts import HostingNode
from replicated.member import Odd
from replicated.ports import CatalogPorts, nobody
from replicated.queue import QueueReports
from storage.beside_loop import AtOnce
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.log_users import LogUsers
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk

DELAY_S = 0.001
LOG_ID = bytes(range(16))
LOGGER = logging.getLogger("test.quorum")
DISK_ID = 7
SILENCE_LOOK_S = 0.05


class Wire:
    """The links of one node's calls. Fulfils node.peers.calls.Wire."""

    def __init__(self, node: ReplicatedNode) -> None:
        self.node = node
        self.ears: CallEars
        self.ways: dict[NodeId, deque[bytes]] = {}

    def hear_calls(self, ears: CallEars) -> None:
        self.ears = ears

    def send_call(self, node: NodeId, letter: bytes) -> None:
        way = self.ways.get(node)
        if way is not None:
            way.append(letter)
            self.node.cluster.loop.call_later(DELAY_S, self._arrive, node, way)

    def calls_waiting(self, node: NodeId) -> int:
        return sum(map(len, self.ways.get(node, ())))

    def end_link(self, node: NodeId, fault: Exception) -> None:
        raise fault

    def _arrive(self, node: NodeId, way: deque[bytes]) -> None:
        cluster = self.node.cluster
        if self.ways.get(node) is not way or not way:
            return  # that link is gone, and what was on it
        if cluster.silent & {self.node.number, node}:
            cluster.loop.call_later(SILENCE_LOOK_S, self._arrive, node, way)
            return
        letter = way.popleft()
        self.node.cluster.nodes[node].wire.ears.receive(self.node.number, letter)
        self.ears.drained(node)


class ReplicatedNode:
    """One process, from start to kill. What kind of queue it has, a subclass says."""

    kind: Any

    def __init__(self, cluster: Cluster, number: NodeId, disk: SimDisk, incarnation: int, disk_id: int) -> None:
        self.cluster = cluster
        self.number = number
        self.disk = disk
        self.incarnation = incarnation
        self.alive = True
        self.failures: list[str] = []
        # What the catalog says and gives; a test may put something else here.
        self.new_replica = cluster.new_replica
        self.set_members = cluster.set_members
        self.incarnation_of = cluster.incarnation_of
        self.alone = lambda: list(cluster.nodes) == [number]
        self.catalog_is_behind = lambda: True
        self.actor_number = nobody
        facts = load_or_create(disk, LOG_ID)
        replay = Replay(disk, facts, salvage=True)
        self.store = RaftStore(disk, cluster.limits, AtOnce(), cluster.new_replica, cluster.findings.append)
        for _ in self.store.recover(replay, replay.chunks(), facts.first_file):
            pass
        end = replay.finish()
        self.store.finish(end)
        core = LogCore(facts.log_id, end, 1 << 20)
        self.log = LogWriter(core, disk, cluster.loop, facts, on_failed=self._stop, commit_inline_bytes_max=None)
        self.store.attach(self.log, LogUsers(self.log).join("raft"))
        owners = GroupOwners()
        self.groups = Groups(
            number,
            incarnation,
            loop=cluster.loop,
            clock=cluster.loop.clock,
            net=self,
            random=cluster.random.random,
            on_failed=self._stop,
            on_leading=owners.leading_changed,
            on_damaged=owners.damaged,
            on_halted=owners.halted,
        )
        self.store.on_damaged = self.groups.damaged
        self.wire = Wire(self)
        self.calls = PeerCalls(self.wire, cluster.loop, LOGGER)
        node = HostingNode(
            name=f"n{number}",
            number=number,
            incarnation=incarnation,
            disk_id=disk_id,
            groups=self.groups,
            owners=owners,
            store=self.store,
            calls=self.calls,
            loop=cluster.loop,
            wall_ms=cluster.wall_ms,
            monotonic=cluster.loop.clock.monotonic,
            new_replica=lambda above: self.new_replica(above),
            catalog=CatalogPorts(
                lambda record, members, formed, anew: self.set_members(record, members, formed, anew),
                lambda node: self.incarnation_of(node),
                alone=lambda: self.alone(),
                is_behind=lambda: self.catalog_is_behind(),
            ),
            actor_number=lambda actor: self.actor_number(actor),
            reports=QueueReports(
                on_damaged=lambda group, damage, lives_again: self._repair(group, damage, lives_again),
                on_lost=lambda record, kept: cluster.lost.append((record.name, kept)),
                on_diverged=lambda _, odd: cluster.diverged.append((number, odd)),
                on_quarantined=lambda queue, why: cluster.quarantined.append((number, queue.record.name, why)),
                on_refused=lambda queue, why: cluster.refused.append((number, why)),
                on_leads=lambda record: cluster.led.append((number, record.name)),
            ),
            settings=cluster.settings,
            snapshot_rules=cluster.rules,
        )
        self.kind = self._new_kind(node)

    def _new_kind(self, node: HostingNode) -> Any:
        raise NotImplementedError

    def queue(self, record: QueueRecord) -> Any:
        return self.kind.queues[(1 << 32) + record.id]

    def send(self, node: NodeId, letter: Letter) -> None:
        """Raft's letters: the port Net."""
        if self.alive:
            self.cluster.carry(self, node, joined(letter))

    def kill(self) -> None:
        """kill -9: connections break at once, the disk keeps what was written."""
        self.alive = False
        self.groups.close()
        self.log._files.broken = True
        self.disk.kill()
        self.cluster.cut_off(self.number)

    def _repair(self, group: int, damage: Damaged, lives_again: Callable[[], bool]) -> None:
        self.store.repair(group, damage, lambda member: lives_again())

    def _stop(self, reason: str) -> None:
        if self.alive:
            self.failures.append(reason)


class QuorumNode(ReplicatedNode):
    """With quorum queues."""

    kind: QuorumQueues

    def _new_kind(self, node: HostingNode) -> QuorumQueues:
        return QuorumQueues(node)

    def queue(self, record: QueueRecord) -> QuorumQueue:
        return self.kind.queues[(1 << 32) + record.id]


class Cluster:
    """The nodes 1 to `count`. `host_of` makes the host of a node's queues."""

    kind_name = "quorum"
    nodes: dict[NodeId, Any]

    def __init__(
        self,
        count: int,
        host_of: Callable[[NodeId], QueueHost],
        wall_ms: Callable[[], int] | None = None,
        **options: Any,
    ) -> None:
        self.random = Random(options.get("seed", 1))
        self.loop = SimLoop()
        self.limits: StoreLimits = options.get("limits", StoreLimits(log_files_kept=0, entries_kept=0))
        self.settings: Settings = options.get("settings", Settings())
        self.rules: SnapshotRules = options.get("rules", SnapshotRules())
        self.wall_ms = wall_ms or self.loop.clock.wall_ms
        self.host_of = host_of
        self.findings: list[str] = []
        self.lost: list[tuple[str, int]] = []  # queues of which only a part is left, and its last entry
        self.diverged: list[tuple[NodeId, Odd]] = []  # what leaders' nodes have said
        self.quarantined: list[tuple[NodeId, str, str]] = []  # node, queue, and why
        self.expects_quarantine = False  # else nobody's machine may fail
        self.led: list[tuple[NodeId, str]] = []  # queues, by nodes that have come to lead them
        self.refused: list[tuple[NodeId, str]] = []  # what nodes did not propose or have proposed, and why
        self.records: dict[int, QueueRecord] = {}
        self.cuts: set[frozenset[NodeId]] = set()
        self.silent: set[NodeId] = set()  # stand still: their links live, and nothing that is on them arrives
        self._replicas = 1000
        self.nodes = {}
        for number in range(1, count + 1):
            self.start(number, SimDisk())
        self.join_all()

    # what the cluster's metadata would do

    def declare(self, name: str, members: Sequence[NodeId], home: NodeId = 1, **arguments: Any) -> QueueRecord:
        """Open the queue on every node."""
        number = len(self.records) + 1
        founders = tuple(member_id(node, DISK_ID) for node in members)
        record = QueueRecord(
            "/", name, self.kind_name, True, False, False, arguments, number, f"n{home}", members=founders
        )
        self.records[number] = record
        for node in self.alive():
            self.open(node, record)
        return record

    def open(self, node: Any, record: QueueRecord) -> Any:
        node.kind.check(record)
        node.kind.open(record, effective_arguments(record, None, None), self.wall_ms())
        return node.queue(record)

    def set_members(self, record: QueueRecord, members: tuple[MemberId, ...], formed: int, anew: bool = False) -> None:
        """As broker/catalog/catalog.py does it."""
        current = self.records[record.id]
        if formed < current.formed and not anew:
            return
        changed = self.records[record.id] = replace(current, members=members, formed=max(1, formed))
        for node in self.alive():
            self.loop.call_soon(node.kind.members.changed, changed)

    def incarnation_of(self, node: NodeId) -> int | None:
        return self.nodes[node].incarnation if node in self.nodes else None

    def new_replica(self, above: int) -> int:
        self._replicas = max(self._replicas, above) + 1
        return self._replicas

    # nodes and what joins them

    def start(self, number: NodeId, disk: SimDisk, disk_id: int = DISK_ID) -> Any:
        before = self.nodes.get(number)
        node = self._new_node(number, disk, before.incarnation + 1 if before else 1, disk_id)
        self.nodes[number] = node
        node.kind.attach(self.host_of(number))
        for record in self.records.values():
            self.open(node, record)
        return node

    def _new_node(self, number: NodeId, disk: SimDisk, incarnation: int, disk_id: int) -> Any:
        return QuorumNode(self, number, disk, incarnation, disk_id)

    def restart(self, number: NodeId, disk: SimDisk | None = None) -> Any:
        """A new process of a killed node, on its disk or on a new one."""
        assert not self.nodes[number].alive
        node = self.start(number, disk or self.nodes[number].disk, DISK_ID if disk is None else DISK_ID + 1)
        self.join_all()
        return node

    def alive(self) -> list[Any]:
        return [node for node in self.nodes.values() if node.alive]

    def join_all(self) -> None:
        for node in self.alive():
            for other in self.alive():
                if node.number < other.number and frozenset((node.number, other.number)) not in self.cuts:
                    self._join(node, other)

    def _join(self, one: ReplicatedNode, other: ReplicatedNode) -> None:
        if other.number in one.wire.ways:
            return
        for node, peer in ((one, other), (other, one)):
            node.wire.ways[peer.number] = deque()
            node.groups.add_node(peer.number)
            node.groups.connected(peer.number)
        for node, peer in ((one, other), (other, one)):
            node.wire.ears.link_came(peer.number)

    def cut(self, one: NodeId, other: NodeId) -> None:
        """Nothing passes between the two any more."""
        self.cuts.add(frozenset((one, other)))
        for node, peer in ((one, other), (other, one)):
            if self.nodes[node].wire.ways.pop(peer, None) is not None and self.nodes[node].alive:
                self.nodes[node].groups.disconnected(peer)
                self.nodes[node].wire.ears.link_went(peer)

    def cut_off(self, number: NodeId) -> None:
        for other in self.nodes:
            if other != number:
                self.cut(number, other)
                self.cuts.discard(frozenset((number, other)))

    def heal(self) -> None:
        self.cuts.clear()
        self.join_all()

    def carry(self, sender: ReplicatedNode, to: NodeId, letter: bytes) -> None:
        self.loop.call_later(DELAY_S, self._arrive, sender, to, letter)

    def _arrive(self, sender: ReplicatedNode, to: NodeId, letter: bytes) -> None:
        receiver = self.nodes.get(to)
        cut = frozenset((sender.number, to)) in self.cuts or bool(self.silent & {sender.number, to})
        if receiver is not None and receiver.alive and sender.alive and not cut:
            receiver.groups.receive(sender.number, letter)

    # time

    def run(self, seconds: float) -> None:
        """A tick of each node every tenth of a second."""
        until = self.loop.time() + seconds
        while self.loop.time() < until - 1e-9:
            self.loop.run_for(min(0.1, until - self.loop.time()))
            for node in self.alive():
                node.kind.tick(self.wall_ms())
        for node in self.nodes.values():
            assert node.failures == [], f"node {node.number} failed: {node.failures}"
            assert self.expects_quarantine or not self.quarantined, f"quarantined: {self.quarantined}"
            assert node.calls.handler_failures == 0, f"node {node.number} failed to handle a call: see its log"

    def leader(self, record: QueueRecord, within_s: float = 5.0) -> Any:
        """The node that leads the queue's group, waited for."""
        until = self.loop.time() + within_s
        while True:
            leaders = [node for node in self.alive() if node.queue(record).route.leads]
            if leaders:
                return max(leaders, key=lambda node: node.queue(record).route.driver.standing.term)
            assert self.loop.time() < until, f"no leader of {record.name} within {within_s} s"
            self.loop.run_for(0.01)

    def close(self) -> None:
        for node in self.alive():
            node.groups.close()
            node.log.close()

"""Nodes with real cores, stores and drivers in one thread: virtual time, a disk that forgets, letters that take a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_from
from random import Random
from typing import Any

from raft.core.errors import CannotApply, Damaged, RaftError
from raft.core.messages import MemberId, Membership, NodeId, member_id
from raft.core.settings import Settings
from raft.driver import Driver, SnapshotRules
from raft.groups import Groups
from raft.store.group_records import GroupIdentity
from raft.store.group_stores import GroupStores, NodeStores
from raft.store.node_log import RaftStore
from raft.store.store_limits import StoreLimits
from raft.transport import Letter, joined
from storage.beside_loop import AtOnce
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.log_users import LogUsers
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.raft_node.register import Register
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk
from tests.unit.raft.own_files import OwnFiles, Platter

DELAY_S = 0.001
LOG_ID = bytes(range(16))


class Answers:
    """Remembers what a proposal was told, once."""

    def __init__(self) -> None:
        self.results: list[Sequence[Any]] = []
        self.errors: list[RaftError] = []

    def __call__(self, results: Sequence[Any] | None, error: RaftError | None) -> None:
        assert not self.told, f"told twice: {self.results} {self.errors}, then {results} {error}"
        if error is not None:
            self.errors.append(error)
        else:
            assert results is not None
            self.results.append(results)

    @property
    def told(self) -> bool:
        return bool(self.results or self.errors)


class Node:
    """One process, from start to kill."""

    def __init__(self, world: World, number: NodeId, disk: SimDisk, incarnation: int) -> None:
        self.world = world
        self.number = number
        self.disk = disk
        self.incarnation = incarnation
        self.alive = True
        self.failures: list[str] = []
        facts = load_or_create(disk, LOG_ID)
        replay = Replay(disk, facts, salvage=True)
        self.store = RaftStore(disk, world.limits, AtOnce(), world.new_replica, world.findings.append)
        self.own_files = OwnFiles(world.loop, world.platters.setdefault(number, Platter()), world.new_replica)
        self.stores = NodeStores([self.store, self.own_files])
        for _ in self.stores.recover(replay, facts.first_file):
            pass
        end = replay.finish()
        self.stores.finish(end)
        core = LogCore(facts.log_id, end, world.file_bytes_max)
        self.log = LogWriter(core, disk, world.loop, facts, on_failed=self._stop, commit_inline_bytes_max=None)
        self.stores.attach(self.log, LogUsers(self.log).join)
        self.groups = Groups(
            number,
            incarnation,
            loop=world.loop,
            clock=world.loop.clock,
            net=self,
            random=world.random.random,
            on_failed=self._stop,
            on_damaged=lambda driver, error: self._repair(driver.group, error),
            on_repaired=lambda driver: world.repaired.append((number, driver.me)),
            on_halted=self.on_halted,
            snapshot_bytes_per_s=world.snapshot_bytes_per_s,
        )
        self.stores.tell_damage(self.groups.damaged)
        for group in sorted((*self.store.stores, *self.own_files.stores)):
            self._take_part(group)

    on_halted: Callable[[Driver, CannotApply], None] | None = None  # a machine that fails ends its node

    def create(self, group: int, replica: int, membership: Membership, store: GroupStores | None = None) -> None:
        """Begin a group here: with its first membership, or with none to be taken in by the others."""
        me = member_id(self.number, replica)
        (store or self.store).create_group(GroupIdentity(group, me, f"g{group}", "register", membership))
        self._take_part(group)

    def driver(self, group: int = 1) -> Driver:
        return self.groups.driver(group)

    def machine(self, group: int = 1) -> Register:
        machine = self.groups.driver(group).machine
        assert isinstance(machine, Register)
        return machine

    def propose(self, *commands: bytes, group: int = 1) -> Answers:
        answers = Answers()
        self.groups.propose(group, commands, answers)
        return answers

    def read(self, group: int = 1) -> list[RaftError | None]:
        told: list[RaftError | None] = []
        self.groups.read(group, told.append)
        return told

    def send(self, node: NodeId, letter: Letter) -> None:
        if self.alive:
            self.world.carry(self, node, joined(letter))

    def kill(self) -> None:
        """kill -9: connections break at once, the disk keeps what was written."""
        self.alive = False
        self.groups.close()
        self.log._files.broken = True
        self.own_files.close()
        self.disk.kill()
        for other in self.world.others(self.number):
            other.groups.disconnected(self.number)

    def _take_part(self, group: int) -> None:
        store = self.stores.of(group).group(group)
        machine = Register(store.read_entry)
        try:
            self.groups.add(group, store.member, store, machine, self.world.settings, self.world.rules)
        except Damaged as error:
            self._repair(group, error)

    def _repair(self, group: int, error: Damaged) -> None:
        self.world.damaged.append(error)
        self.stores.of(group).repair(group, error, lambda member: self._take_part(group))

    def _stop(self, reason: str) -> None:
        self.failures.append(reason)


class World:
    """The nodes 1 to `count`, and the network between them."""

    def __init__(self, count: int = 3, seed: int = 1, groups: int = 1, **options: Any) -> None:
        self.random = Random(seed)
        self.loop = SimLoop()
        self.limits: StoreLimits = options.get("limits", StoreLimits(log_files_kept=0, entries_kept=0))
        self.settings: Settings = options.get("settings", Settings())
        self.rules: SnapshotRules = options.get("rules", SnapshotRules())
        self.file_bytes_max: int = options.get("file_bytes_max", 1 << 20)
        self.snapshot_bytes_per_s: int = options.get("snapshot_bytes_per_s", 0)
        self.cut: Callable[[NodeId, NodeId], bool] = lambda sender, receiver: False
        self.letters = 0
        self.findings: list[str] = []
        self.damaged: list[Damaged] = []
        self.repaired: list[tuple[NodeId, MemberId]] = []
        self.replicas: Iterator[int] = count_from(1000)  # what the nodes' clocks say
        self.nodes: dict[NodeId, Node] = {}
        self.platters: dict[NodeId, Platter] = {}
        first = Membership(tuple(member_id(number, 0) for number in range(1, count + 1)))
        for number in range(1, count + 1):
            node = self.start(number, SimDisk())
            for group in range(1, groups + 1):
                node.create(group, 0, first)
        self.connect_all()

    def new_replica(self, above: int) -> int:
        return max(next(self.replicas), above + 1)

    def start(self, number: NodeId, disk: SimDisk) -> Node:
        before = self.nodes.get(number)
        node = self.nodes[number] = Node(self, number, disk, before.incarnation + 1 if before else 1)
        return node

    def restart(self, number: NodeId, disk: SimDisk | None = None) -> Node:
        """A new process of a killed node, on its disk or on another one."""
        assert not self.nodes[number].alive
        node = self.start(number, disk or self.nodes[number].disk)
        self.connect_all()
        return node

    def connect_all(self) -> None:
        for node in self.nodes.values():
            for other in self.nodes:
                if node.alive and other != node.number:
                    node.groups.add_node(other)
                    node.groups.connected(other)

    def others(self, number: NodeId) -> list[Node]:
        return [node for node in self.nodes.values() if node.alive and node.number != number]

    def carry(self, sender: Node, to: NodeId, letter: bytes) -> None:
        self.letters += 1
        self.loop.call_later(DELAY_S, self._arrive, sender, to, letter)

    def _arrive(self, sender: Node, to: NodeId, letter: bytes) -> None:
        receiver = self.nodes.get(to)
        if receiver is not None and receiver.alive and sender.alive and not self.cut(sender.number, to):
            receiver.groups.receive(sender.number, letter)

    def run(self, seconds: float) -> None:
        self.loop.run_for(seconds)
        for node in self.nodes.values():
            assert node.failures == [], f"node {node.number} failed"

    def leader(self, group: int = 1, within_s: float = 5.0) -> Node:
        """The node that leads the group in the highest term, waited for."""
        until = self.loop.time() + within_s
        while True:
            leaders = [node for node in self.nodes.values() if node.alive and node.driver(group).leads]
            if leaders and all(node.driver(group).leader for node in self.nodes.values() if node.alive):
                return max(leaders, key=lambda node: node.driver(group).standing.term)
            assert self.loop.time() < until, f"no leader of group {group} within {within_s} s"
            self.run(0.01)

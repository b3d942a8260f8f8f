"""Members of the metadata group with real cores, logs and couriers in one thread; the store is in memory and survives a kill.

What is handed to a store is there a while later, or not at all when the process ends before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import AddNode, Command, NodeStarted
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.errors import BrokerError
from broker.pending import Pending
from broker.records import NodeRecord
from node.catalog.catalog_store import load
from node.catalog.cluster_metadata import ClusterMetadata
from node.catalog.group import MetadataGroup
from node.peers.calls import Answer, Handler, OnAnswer, Payload
from raft.core.errors import CannotApply
from raft.core.messages import NodeId
from raft.driver import Driver
from storage.errors import DiskFull
from storage.lmdb_store import Change, MemoryStore
from tests.sim.disk import SimDisk
from tests.unit.raft import groups_world

T = TypeVar("T")

STORE_S = 0.002
CALL_S = 0.001
TICK_S = 0.1


class Told:
    """What a submission was answered."""

    def __init__(self, pending: Pending[Any]) -> None:
        self.value: Any = None
        self.error: BrokerError | None = None
        self.answered = False
        pending.then(self._resolved, self._failed)

    def _resolved(self, value: Any) -> None:
        self.value, self.answered = value, True

    def _failed(self, error: BrokerError) -> None:
        self.error, self.answered = error, True


class FillableStore(MemoryStore):
    """Refuses what it is given as long as it is `full`."""

    full: DiskFull | None = None

    def commit(self, changes: Sequence[Change]) -> None:
        if self.full is not None:
            raise self.full
        super().commit(changes)


class Later:
    """Fulfils Background: done after a while, if the process still runs."""

    def __init__(self, node: MetadataNode) -> None:
        self._node = node

    def run(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        def due() -> None:
            if not self._node.alive:
                return
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)

        self._node.world.loop.call_later(STORE_S, due)

    def close(self) -> None:
        pass


class MemoryCalls:
    """Fulfils what is needed of node/peers/calls.py."""

    def __init__(self, node: MetadataNode) -> None:
        self._node = node
        self.handlers: dict[int, Handler] = {}
        self.listeners: list[Callable[[NodeId, bool], None]] = []

    def serve(self, topic: int, handler: Handler) -> None:
        self.handlers[topic] = handler

    def on_link(self, listener: Callable[[NodeId, bool], None]) -> None:
        self.listeners.append(listener)

    def connected(self, node: NodeId) -> bool:
        other = self._node.metadata_world.nodes[node]
        return other.alive and not self._node.world.cut(self._node.number, node)

    def tell(self, node: NodeId, topic: int, payload: Payload) -> bool:
        assert isinstance(payload, bytes)
        other = self._node.metadata_world.node(node)

        def arrive() -> None:
            if self.connected(node):
                other.calls.handlers[topic](self._node.number, payload, None)

        self._node.world.loop.call_later(CALL_S, arrive)
        return self.connected(node)

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None:
        other = self._node.metadata_world.nodes[node]
        assert isinstance(other, MetadataNode)
        data = bytes(payload) if isinstance(payload, (bytes, bytearray, memoryview)) else b"".join(payload)
        later = self._node.world.loop.call_later

        def answered(answer: Payload) -> None:
            said = answer if isinstance(answer, bytes) else b"".join(answer)
            later(CALL_S, lambda: self._node.alive and on_answer(said if other.alive else None))

        def arrive() -> None:
            if not other.alive or self._node.world.cut(self._node.number, node):
                later(CALL_S, lambda: self._node.alive and on_answer(None))
            else:
                answer: Answer = answered
                other.calls.handlers[topic](self._node.number, data, answer)

        later(CALL_S, arrive)


class MetadataNode(groups_world.Node):
    """One process of one node."""

    def __init__(self, world: MetadataWorld, number: NodeId, disk: SimDisk, incarnation: int) -> None:
        self.alive = True
        self.world = self.metadata_world = world
        self.number = number
        self.metadata = ClusterMetadata(Catalog(), world.stores[number], Later(self))
        self.heard: list[tuple[Command, Any]] = []
        self.metadata.subscribe(lambda command, result: self.heard.append((command, result)))
        super().__init__(world, number, disk, incarnation)
        self.calls = MemoryCalls(self)
        group = MetadataGroup(self.groups, lambda: sorted(world.nodes))
        self.metadata.attach(number, incarnation, group, self.calls, world.loop.time)

    def on_halted(self, driver: Driver, error: CannotApply) -> None:
        self.metadata.stand_still(str(error))

    def submit(self, command: Command) -> Told:
        return Told(self.metadata.submit(command))

    def _take_part(self, group: int) -> None:
        store = self.store.group(group)
        self.groups.add(group, store.member, store, self.metadata.machine, self.world.settings, self.world.rules)


class MetadataWorld(groups_world.World):
    """Nodes `n1` to `n<count>`, a founded cluster."""

    def __init__(self, size: int = 3, seed: int = 1, **options: Any) -> None:
        self.stores = {number: FillableStore() for number in range(1, size + 1)}
        self._numbers = count()
        super().__init__(size, seed, **options)
        first = self.leader_node()
        for command in default_commands("hash"):
            first.submit(command)
        for number in self.nodes:
            first.submit(AddNode(NodeRecord(f"n{number}", 0, 1, f"n{number}:1")))
        first.submit(NodeStarted(f"n{first.number}", 1, first.incarnation))
        self.run(1.0)
        assert len(first.metadata.catalog.nodes) == size

    def start(self, number: NodeId, disk: SimDisk) -> MetadataNode:
        before = self.nodes.get(number)
        node = MetadataNode(self, number, disk, before.incarnation + 1 if before else 1)
        self.nodes[number] = node
        return node

    def node(self, number: NodeId) -> MetadataNode:
        node = self.nodes[number]
        assert isinstance(node, MetadataNode)
        return node

    def alive(self) -> list[MetadataNode]:
        return [self.node(number) for number in self.nodes if self.nodes[number].alive]

    def leader_node(self) -> MetadataNode:
        return self.node(self.leader(METADATA_GROUP).number)

    def follower(self) -> MetadataNode:
        leader = self.leader_node()
        return next(node for node in self.alive() if node is not leader)

    def link_came(self, one: NodeId, other: NodeId) -> None:
        for here, there in ((one, other), (other, one)):
            for listener in self.node(here).calls.listeners:
                listener(there, True)

    def new_name(self) -> str:
        return f"q{next(self._numbers)}"

    def run_between_ticks(self, seconds: float) -> None:
        super().run(seconds)

    def run(self, seconds: float) -> None:
        until = self.loop.time() + seconds
        while self.loop.time() < until:
            super().run(min(TICK_S, until - self.loop.time()))
            for node in self.alive():
                if hasattr(node, "calls"):
                    node.metadata.tick()

    def stored(self, number: NodeId) -> Catalog:
        """What a start of this node would find in its store."""
        catalog = Catalog()
        load(self.stores[number], catalog)
        return catalog


def described(catalog: Catalog) -> dict[str, Any]:
    """All that a catalog holds, without order."""
    return {"head": catalog.head, "records": sorted(map(repr, catalog.records()))}

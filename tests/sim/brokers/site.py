"""Where the processes of one broker run: the disk and name of a node, what its machine hears, and how it comes to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.catalog_commands import JoinNode
from broker.records import NodeRecord
from node.identity import DISK, RAM, KnownNode, NodeIdentity
from storage import fact_file, names
from tests.sim.brokers.process import BrokerProcess
from tests.sim.disk import SimDisk
from tests.sim.process import Site

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld


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
        self._newborn: NodeIdentity | None = None  # of the process that has just been taken in

    def new_process(self) -> BrokerProcess:
        return BrokerProcess(self)

    def rising_wall_ms(self) -> int:
        """The wall clock at a start. Whoever starts a node on another disk sees to it that its clock is not set back."""
        self._risen_ms = max(self._risen_ms + 1000, self.clock.wall_ms(), self.world.loop.clock.wall_ms())
        return self._risen_ms

    def found_cluster(self, cluster_id: str) -> None:
        """It is a node alone from now on."""
        self._newborn = self._begin_identity()
        self._newborn.found(cluster_id)

    def wish(self) -> JoinNode:
        """What a blank node asks others for, when it wants to belong to them: one process, until it is taken in."""
        if self._wish is None:
            incarnation = self._begin_identity().incarnation
            record = NodeRecord(self.name, 0, 0, self.address, self.kind, self.name)
            self._wish = JoinNode(record, self.random.randbytes(8).hex(), incarnation)
        return self._wish

    def join_cluster(self, cluster_id: str, record: NodeRecord, nodes: Sequence[NodeRecord]) -> None:
        assert record.number == self.number, (
            f"{self.name} is node {record.number} in the catalog, and {self.number} here"
        )
        known = [KnownNode(one.number, one.name, one.address, one.kind) for one in nodes]
        self._newborn = self._begin_identity()
        self._newborn.join(cluster_id, record.number, record.disk_id, known)

    def begin_identity(self) -> NodeIdentity:
        """Of a process. The first of a blank node has been given its place already."""
        identity, self._newborn = self._newborn or self._begin_identity(), None
        return identity

    def _begin_identity(self) -> NodeIdentity:
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
        self._wish = self._newborn = None

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

"""Where the processes of one broker run: the disk and name of a node, what its machine hears, and how it comes to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from node.identity import DISK, RAM, NodeIdentity
from node.membership.greetings import join_request, take_up
from node.peers import peer_pb2
from raft.core.messages import Message
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
        self._wish: peer_pb2.JoinRequest | None = None
        self.address = f"n{number}:5681"
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

    def wish(self, cluster_id: str) -> peer_pb2.JoinRequest:
        """What a blank node asks others for, when it wants to belong to them: one process, until it is taken in."""
        if self._wish is None:
            joiner = self.random.randbytes(8).hex()
            self._wish = join_request(self._begin_identity(), cluster_id, joiner, self.address, self.name)
        return self._wish

    def join_cluster(self, response: peer_pb2.JoinResponse) -> None:
        assert response.number == self.number, (
            f"{self.name} is node {response.number} in the catalog, and {self.number} here"
        )
        self._newborn = self._begin_identity()
        take_up(self._newborn, response)

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

    def is_linked_to(self, node: int) -> bool:
        return self.process is not None and self.process.ways.calls(node, self.world.sites[node].address)

    def _receive(self, sender: int, letter: bytes, messages: Sequence[tuple[int, Message]]) -> None:
        assert self.process is not None, f"node {self.number} is down"
        if self.process.ways.has_link(sender):
            super()._receive(sender, letter, messages)

    def _connected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        self._disconnected(node)  # a new connection takes the place of the one before
        if self.process.ways.has_link(node):
            self.process.groups.connected(node)
            self.process.wire.ears.link_came(node)

    def _disconnected(self, node: int) -> None:
        assert self.process is not None, f"node {self.number} is down"
        if self.process.calls.connected(node):
            super()._disconnected(node)
            self.process.wire.ears.link_went(node)

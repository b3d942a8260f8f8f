"""Nodes joined in memory: real PeerCalls over links that the test makes and breaks, in one order that never varies.

Nothing moves but in `run`: first what was asked of the loop, then one letter of each way in turn, until nobody says anything.
A link that breaks loses what is under way on it, in both directions, as a stream does.
"""

from __future__ import annotations

import logging
from collections import deque

from node.peers.calls import PeerCalls
from node.peers.link import CallEars
from raft.core.messages import NodeId
from tests.sim.clock import SimLoop

LOGGER = logging.getLogger("test.calls")
ROUNDS_MAX = 100_000  # more than any test needs: two nodes answer each other for ever


class MemoryWire:
    """The links of one node. Fulfils node.peer_calls.Wire."""

    def __init__(self, node: NodeId, network: MemoryNetwork) -> None:
        self.node = node
        self._network = network
        self.ears: CallEars
        self.ways: dict[NodeId, deque[bytes]] = {}  # to whom there is a link, and what waits for them
        self.letters_sent = 0
        self.bytes_sent = 0

    def hear_calls(self, ears: CallEars) -> None:
        self.ears = ears

    def send_call(self, node: NodeId, letter: bytes) -> None:
        if node in self.ways:
            self.ways[node].append(letter)
            self.letters_sent += 1
            self.bytes_sent += len(letter)

    def calls_waiting(self, node: NodeId) -> int:
        return sum(map(len, self.ways.get(node, ())))

    def end_link(self, node: NodeId, fault: Exception) -> None:
        self._network.bad.append(str(fault))
        self._network.disconnect(node, self.node)


class MemoryNetwork:
    """All nodes of a test. `stop_way` keeps what one node says to another from arriving, as a slow network would."""

    def __init__(self, loop: SimLoop | None = None) -> None:
        self.loop = loop or SimLoop()
        self.wires: dict[NodeId, MemoryWire] = {}
        self.bad: list[str] = []  # why links were ended for what was said on them
        self._stopped: set[tuple[NodeId, NodeId]] = set()

    def join(self, node: NodeId) -> PeerCalls:
        """A node without links."""
        wire = self.wires[node] = MemoryWire(node, self)
        return PeerCalls(wire, self.loop, LOGGER)

    def connect(self, one: NodeId, other: NodeId) -> None:
        """A new link, which takes the place of the one before."""
        self.disconnect(one, other)
        for node, peer in ((one, other), (other, one)):
            self.wires[node].ways[peer] = deque()
        for node, peer in ((one, other), (other, one)):
            self.wires[node].ears.link_came(peer)

    def connect_all(self) -> None:
        nodes = sorted(self.wires)
        for one in nodes:
            for other in nodes:
                if one < other:
                    self.connect(one, other)

    def disconnect(self, one: NodeId, other: NodeId) -> None:
        if other not in self.wires[one].ways:
            return
        for node, peer in ((one, other), (other, one)):
            del self.wires[node].ways[peer]
        for node, peer in ((one, other), (other, one)):
            self.wires[node].ears.link_went(peer)

    def stop_way(self, sender: NodeId, receiver: NodeId) -> None:
        self._stopped.add((sender, receiver))

    def open_way(self, sender: NodeId, receiver: NodeId) -> None:
        self._stopped.discard((sender, receiver))

    def run(self) -> None:
        """Until nothing moves any more."""
        for _ in range(ROUNDS_MAX):
            self.loop.run_soon()
            if not self.step():
                return
        raise AssertionError(f"nodes still talk after {ROUNDS_MAX} rounds")

    def step(self) -> bool:
        """One letter of each way arrives. False: there was none."""
        moved = False
        for node in sorted(self.wires):
            for peer in sorted(self.wires[node].ways):
                moved |= self._pass_on(node, peer)
        return moved

    def _pass_on(self, sender: NodeId, receiver: NodeId) -> bool:
        way = self.wires[sender].ways.get(receiver)
        if not way or (sender, receiver) in self._stopped:
            return False
        letter = way.popleft()
        self.wires[receiver].ears.receive(sender, letter)
        self.wires[sender].ears.drained(receiver)
        return True

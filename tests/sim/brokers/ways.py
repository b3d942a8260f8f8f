"""How one process reaches the others: what its links and its greetings are here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from node.peers import peer_pb2
from node.peers.link import CallEars
from raft.transport import Ears
from tests.sim.brokers.client_connection import WAY_S

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite

OnGreeted = Callable[[peer_pb2.Greeted | None], None]


class Wire:
    """Fulfils node.peers.calls.Wire."""

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

    def end_link(self, node: int, fault: Exception) -> None:
        raise fault


class SimDialer:
    """The network connects what is called where it is (tests/sim/brokers/network.py)."""

    def __init__(self, address: str) -> None:
        self.address = address

    def redirect(self, address: str) -> None:
        self.address = address

    def stop(self) -> None:
        self.address = ""


class SimWays:
    """Fulfils node.membership.upkeep.Ways."""

    listens = True

    def __init__(self, process: BrokerProcess) -> None:
        self.address = process.site.address
        self._process = process
        self._links: dict[int, SimDialer | None] = {}

    def add(self, node: int, ears: Ears) -> None:
        assert node not in self._links, f"node {node} is added twice"
        self._links[node] = None

    def remove(self, node: int) -> None:
        del self._links[node]
        site = self._process.site
        site.world.end_connection(site, node)

    def dial(self, node: int, address: str) -> SimDialer:
        dialer = self._links[node] = SimDialer(address)
        return dialer

    def has_link(self, node: int) -> bool:
        return node in self._links

    def calls(self, node: int, address: str) -> bool:
        """Whether a connection to this node is wanted: it calls there, or waits for a call."""
        dialer = self._links.get(node)
        return node in self._links and (dialer is None or dialer.address == address)

    def greet(self, address: str, greeting: peer_pb2.Greeting, timeout_s: float, on_answer: OnGreeted) -> None:
        site, loop = self._process.site, self._process.site.world.loop
        waits = [on_answer]

        def answer(greeted: peer_pb2.Greeted | None) -> None:
            if waits:
                waits.pop()(greeted)

        self._process.loop.call_later(timeout_s, answer, None)
        carry_back = partial(loop.call_later, WAY_S, site.run, site.life, answer)
        loop.call_later(WAY_S, self._arrive, address, greeting.SerializeToString(), carry_back)

    def look_up(self, on_places: Callable[[Collection[str]], None]) -> None:
        """Simulated nodes stay where they are."""
        on_places(())

    def _arrive(self, address: str, greeting: bytes, carry_back: Callable[..., object]) -> None:
        here = self._process.site
        for there in here.world.sites.values():
            if there.address == address and not here.world.network.is_cut(here.number, there.number):
                there.run(there.life, self._greeted, (there, greeting, carry_back))

    def _greeted(self, there: BrokerSite, greeting: bytes, carry_back: Callable[..., object]) -> None:
        assert there.process is not None, f"node {there.number} is down"
        greeted = there.process.kernel.joining.greet(peer_pb2.Greeting.FromString(greeting))
        there.world.watch.count("greeting answered")
        if not there.world.network.is_cut(there.number, self._process.site.number):
            carry_back((peer_pb2.Greeted.FromString(greeted.SerializeToString()),))

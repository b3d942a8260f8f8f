"""Keeps a link to every other node that belongs to the cluster, and to no other. A core: sockets are behind the port `Links`.

Which nodes those are is said by the catalog; before a node has one, by what it remembers. A node that is removed keeps its link
until it has no member of the metadata group any more: those that are left may need its voice to agree that they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import Logger
from typing import Protocol

from node.identity import KnownNode
from raft.core.messages import NodeId
from raft.transport import Ears


class Dialing(Protocol):
    """Connects one link again and again, until `stop`."""

    @property
    def address(self) -> str: ...

    def redirect(self, address: str) -> None:
        """The node is reached elsewhere now."""

    def stop(self) -> None: ...


class Links(Protocol):
    """The port to other nodes: node/peers/ways.py."""

    @property
    def listens(self) -> bool:
        """False: this node stays alone."""

    def add(self, node: NodeId, ears: Ears) -> None:
        """A link to this node; without a connection, until one of the two dials."""

    def remove(self, node: NodeId) -> None:
        """It is no peer of ours any more: its connection ends, and it is not let in again."""

    def dial(self, node: NodeId, address: str) -> Dialing:
        """Begin to connect the link that was added."""


class LinkedGroups(Ears, Protocol):
    """What is needed of raft/groups.py."""

    def add_node(self, node: NodeId) -> None: ...

    def remove_node(self, node: NodeId) -> None: ...

    def trusts(self, node: NodeId) -> bool: ...


@dataclass(slots=True)
class _Neighbour:
    node: KnownNode
    since: float  # since when it is reached, or not, by the monotonic clock
    up: bool = False
    dialer: Dialing | None = None


class Neighbours:
    """`follow` whenever the nodes may be others; `look` now and then; `stop` at the end."""

    def __init__(
        self, number: NodeId, links: Links, groups: LinkedGroups, monotonic: Callable[[], float], logger: Logger
    ) -> None:
        self._number = number
        self._links = links
        self._groups = groups
        self._monotonic = monotonic
        self._logger = logger
        self._neighbours: dict[NodeId, _Neighbour] = {}

    def follow(self, nodes: Iterable[KnownNode], still_needed: Iterable[NodeId] = ()) -> None:
        """The nodes of the cluster are these; some that were removed are still needed for a while."""
        if not self._links.listens:
            return
        wanted = {node.number: node for node in nodes if node.number != self._number}
        for number in self._neighbours.keys() - wanted.keys() - set(still_needed):
            self._remove(number)
        for number, node in wanted.items():
            known = self._neighbours.get(number)
            if known is None:
                self._add(node)
            elif known.node != node:
                known.node = node
                if known.dialer is not None:
                    known.dialer.redirect(node.address)

    def moved(self, number: NodeId, address: str) -> None:
        """A node says itself where it is reached, whatever the catalog says."""
        known = self._neighbours.get(number)
        if known is not None and known.dialer is not None and known.dialer.address != address:
            self._logger.info("node %d '%s' is reached at %s now", number, known.node.name, address)
            known.dialer.redirect(address)

    def said_to_be(self, number: NodeId, address: str) -> None:
        """Another node says so. What it repeats of an old catalog, which is known here too, is no news."""
        known = self._neighbours.get(number)
        if known is not None and known.node.address != address:
            self.moved(number, address)

    def look(self) -> None:
        """See who is reached, and since when."""
        for number, known in self._neighbours.items():
            up = self.reached(number)
            if up != known.up:
                known.up, known.since = up, self._monotonic()

    def reached(self, number: NodeId) -> bool:
        """Whether a node answers, as far as this one knows; it reaches itself."""
        return number == self._number or self._groups.trusts(number)

    def since(self, number: NodeId) -> float | None:
        """When it was last found to be reached, or not to be; None for this node and strangers."""
        known = self._neighbours.get(number)
        return known.since if known is not None else None

    def nodes(self) -> list[KnownNode]:
        return [known.node for known in self._neighbours.values()]

    def lost(self, for_s: float) -> list[KnownNode]:
        """Those that have not been reached for as long."""
        earliest = self._monotonic() - for_s
        return [known.node for known in self._neighbours.values() if not known.up and known.since <= earliest]

    def stop(self) -> None:
        for number in list(self._neighbours):
            self._remove(number)

    def _add(self, node: KnownNode) -> None:
        self._links.add(node.number, self._groups)
        self._groups.add_node(node.number)
        known = self._neighbours[node.number] = _Neighbour(node, self._monotonic())
        if node.number < self._number:  # of two nodes the one with the higher number calls
            known.dialer = self._links.dial(node.number, node.address)

    def _remove(self, number: NodeId) -> None:
        known = self._neighbours.pop(number)
        if known.dialer is not None:
            known.dialer.stop()
        self._links.remove(number)
        self._groups.remove_node(number)

"""Keeps a link to every other node that belongs to the cluster, and to no other.

Which nodes those are is said by the catalog; before a node has one, by what it remembers. A node that is removed keeps its link
until it has no member of the metadata group any more: those that are left may need its voice to agree that they do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import Logger
from typing import Protocol

from node.identity import KnownNode
from node.peers.dialer import Dialer
from node.peers.link import Ears
from node.peers.side import PeerSide
from raft.messages import NodeId


class Groups(Ears, Protocol):
    """What is needed of raft/groups.py."""

    def add_node(self, node: NodeId) -> None: ...

    def remove_node(self, node: NodeId) -> None: ...

    def trusts(self, node: NodeId) -> bool: ...


@dataclass(slots=True)
class _Neighbour:
    node: KnownNode
    since: float  # since when it is reached, or not, by the monotonic clock
    up: bool = False
    dialer: Dialer | None = None
    task: asyncio.Task[None] | None = None


class Neighbours:
    """`follow` whenever the nodes may be others; `look` now and then."""

    def __init__(
        self,
        number: NodeId,
        peers: PeerSide,
        groups: Groups,
        monotonic: Callable[[], float],
        on_fault: Callable[[asyncio.Task[None]], None],
        logger: Logger,
    ) -> None:
        self._number = number
        self._peers = peers
        self._groups = groups
        self._monotonic = monotonic
        self._on_fault = on_fault
        self._logger = logger
        self._neighbours: dict[NodeId, _Neighbour] = {}

    def follow(self, nodes: Iterable[KnownNode], still_needed: Iterable[NodeId] = ()) -> None:
        """The nodes of the cluster are these; some that were removed are still needed for a while."""
        if not self._peers.listens:
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
        """A node says that it is reached elsewhere than the catalog says."""
        known = self._neighbours.get(number)
        if known is not None and known.dialer is not None and known.dialer.address != address:
            self._logger.info("node %d '%s' is reached at %s now", number, known.node.name, address)
            known.dialer.redirect(address)

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

    def lost(self, for_s: float) -> list[KnownNode]:
        """Those that have not been reached for as long."""
        earliest = self._monotonic() - for_s
        return [known.node for known in self._neighbours.values() if not known.up and known.since <= earliest]

    async def stop(self) -> None:
        for number in list(self._neighbours):
            self._remove(number)

    def _add(self, node: KnownNode) -> None:
        link = self._peers.links.add(node.number, self._groups)
        self._groups.add_node(node.number)
        known = self._neighbours[node.number] = _Neighbour(node, self._monotonic())
        if node.number < self._number:  # of two nodes the one with the higher number calls
            known.dialer = self._peers.dialer(link, node.address)
            known.task = asyncio.create_task(known.dialer.run())
            known.task.add_done_callback(self._on_fault)

    def _remove(self, number: NodeId) -> None:
        known = self._neighbours.pop(number)
        if known.task is not None:
            known.task.cancel()
        self._peers.links.remove(number)
        self._groups.remove_node(number)

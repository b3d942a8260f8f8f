"""Asks the cluster for its catalog, for a node that has none: it must know which queues it has before it reads its log.

Only the node that leads the metadata group answers, behind a round of questions to the others: so what is answered contains
every queue that this node was ever told of, and nothing that its log still holds is taken for rubbish. All others are asked:
one that was a RAM node when this node heard of it last may be a disk node again, and lead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from broker.catalog.catalog_state import decode_state
from node.catalog.courier import TAKEN
from node.catalog.metadata_machine import CatalogMachine
from node.catalog.pieces import IncomingCopy
from node.identity import DISK, KnownNode, Place
from node.peers.calls import METADATA, PeerCalls
from node.peers.neighbours import Neighbours
from node.peers.side import PeerSide
from node.peers.ways import PeerWays
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from storage.disk import Buffer

AGAIN_S = 0.1
ANSWER_S = 30.0  # for a large catalog over a slow network
REMIND_S = 10.0

logger = logging.getLogger("leveret")


class NoGroups:
    """In place of raft/groups.py while there are none: letters are dropped, and nobody is watched."""

    def receive(self, node: NodeId, letter: Buffer) -> None:
        pass

    def connected(self, node: NodeId) -> None:
        pass

    def disconnected(self, node: NodeId) -> None:
        pass

    def add_node(self, node: NodeId) -> None:
        pass

    def remove_node(self, node: NodeId) -> None:
        pass

    def trusts(self, node: NodeId) -> bool:
        return False


async def fetch_catalog(
    place: Place, peers: PeerSide, calls: PeerCalls, machine: CatalogMachine, within_s: float | None
) -> None:
    """Returns when the machine stands on it, however long the others are away; or after a time, if one is given, without it."""
    loop = asyncio.get_running_loop()
    ways = PeerWays(peers, lambda error: logger.error("a call to another node ended: %r", error))
    neighbours = Neighbours(place.number, ways, NoGroups(), loop.time, logger)
    neighbours.follow(place.others)
    changed = asyncio.Event()
    calls.on_link(lambda node, came: changed.set())
    others = whom_to_ask(place)
    remind_at = loop.time() + AGAIN_S * 10
    until = None if within_s is None else loop.time() + within_s
    try:
        while (state := await _ask_all(others, calls)) is None:
            if loop.time() >= remind_at:
                remind_at = loop.time() + REMIND_S
                names = ", ".join(f"'{node.name}' at {node.address}" for node in others)
                logger.info("node %s waits for the catalog: none of %s leads the metadata group", place.name, names)
            if until is not None and loop.time() > until:
                return
            await asyncio.sleep(AGAIN_S)
    finally:
        neighbours.stop()
        while any(calls.connected(node.number) for node in place.others):
            changed.clear()
            await changed.wait()  # or their ends would be taken for those of the links that come next
    machine.stand_on(*decode_state(state))
    logger.info("node %s has the catalog as of entry %d", place.name, machine.position.applied)


def whom_to_ask(place: Place) -> list[KnownNode]:
    """All others, those first that kept the catalog when this node heard of them last."""
    return sorted(place.others, key=lambda node: node.kind != DISK)


async def _ask_all(nodes: Iterable[KnownNode], calls: PeerCalls) -> bytes | None:
    for node in nodes:
        if calls.connected(node.number):
            state = await fetch_from(node.number, calls)
            if state is not None:
                return state
    return None


async def fetch_from(node: NodeId, calls: PeerCalls) -> bytes | None:
    """None: the node does not lead, or did not give all of it."""
    incoming = IncomingCopy()
    while (answer := await _ask(node, incoming.request(), calls)) is not None and answer[:1] == TAKEN:
        try:
            state = incoming.take(answer)
        except BadBytes as error:
            logger.error("node %d gives the catalog in pieces that do not fit: %s", node, error)
            return None
        if state is not None:
            return state
    return None


async def _ask(node: NodeId, request: bytes, calls: PeerCalls) -> bytes | None:
    future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def answered(answer: bytes | None) -> None:
        if not future.done():
            future.set_result(answer)

    calls.ask(node, METADATA, request, answered)
    try:
        async with asyncio.timeout(ANSWER_S):
            return await future
    except TimeoutError:
        return None

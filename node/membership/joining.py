"""Who is taken into this node's cluster, and who is told that it does not belong to it any more. A core, over ports."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Protocol

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata_entry import ENTRY_NEWEST
from broker.catalog.parts.catalog_nodes import last_incarnation
from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from broker.records import NodeRecord
from node.identity import KINDS, NodeIdentity
from node.membership.greetings import told_node
from node.peers import peer_pb2
from node.peers.neighbours import Neighbours
from node.version import OLDEST_PEER, VERSION, too_old

logger = logging.getLogger("leveret")

OLDER_BUILD = "it is of an earlier build, which does not read all that this cluster may declare: update it"


class JoiningMetadata(Protocol):
    """What is needed of node/catalog/cluster_metadata.py."""

    @property
    def catalog(self) -> Catalog: ...

    def submit(self, command: commands.Command) -> Pending[Any]: ...


class Joining:
    """Answers nodes that are not linked to this one."""

    def __init__(self, identity: NodeIdentity, metadata: JoiningMetadata, neighbours: Neighbours) -> None:
        self._identity = identity
        self._metadata = metadata
        self._catalog = metadata.catalog
        self._neighbours = neighbours

    def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        identity = self._identity
        greeted = peer_pb2.Greeted(
            instance=identity.instance, name=identity.name, version=VERSION, cluster_id=identity.cluster_id
        )
        if greeting.cluster_id == identity.cluster_id:
            greeted.removed = self._why_removed(greeting)
            greeted.nodes.extend(map(told_node, self._catalog.nodes.values()))
            if not greeted.removed:
                self._neighbours.moved(greeting.number, greeting.address)
        return greeted

    def _why_removed(self, greeting: peer_pb2.Greeting) -> str:
        record = self._catalog.node_of_number(greeting.number)
        if record is None:
            known = 0 < greeting.number < self._catalog.next_node_number
            return f"node {greeting.number} was removed from cluster {self._identity.cluster_id}" if known else ""
        if record.disk_id > greeting.disk_id:
            return "its data directory is an old one: since then the node was started with another"
        last_known_life = greeting.earlier_incarnation if record.incarnation != greeting.incarnation else 0
        if record.disk_id == greeting.disk_id and 0 < last_known_life < record.incarnation:
            # A process that lived in between has promised others what this directory does not know of.
            return "its data directory is an old copy: since it was made, the node was started with another"
        return ""

    def join(self, request: peer_pb2.JoinRequest) -> Pending[peer_pb2.JoinResponse]:
        """Never fails: a refusal is an answer."""
        refusal = self._objection(request)
        known = self._catalog.nodes.get(request.name)
        if refusal:
            logger.warning("node '%s' at %s is not taken in: %s", request.name, request.address, refusal)
            return Pending.of(peer_pb2.JoinResponse(refusal=refusal))
        if known is not None and known.joiner != request.joiner and request.incarnation <= last_incarnation(known):
            earlier = last_incarnation(known)
            return Pending.of(peer_pb2.JoinResponse(refusal="its clock is behind", later=True, incarnation=earlier))
        wish = NodeRecord(request.name, 0, 0, request.address, request.kind, request.zone or request.name)
        answer: Pending[peer_pb2.JoinResponse] = Pending()

        def refused(error: BrokerError) -> None:
            later = isinstance(error, ResourceExhausted)
            answer.resolve(peer_pb2.JoinResponse(refusal=str(error), later=later))

        joined = self._metadata.submit(commands.JoinNode(wish, request.joiner, request.incarnation))
        joined.then_ask(partial(self._as_it_is_now, wish)).then(
            lambda record: answer.resolve(self._welcome(record, known)), refused
        )
        return answer

    def _objection(self, request: peer_pb2.JoinRequest) -> str:
        if request.cluster_id != self._identity.cluster_id:
            return f"this is cluster {self._identity.cluster_id}, and it wants to join {request.cluster_id}"
        if request.kind not in KINDS:
            return f"its kind is '{request.kind}': there are {' and '.join(KINDS)}"
        if not request.joiner or too_old(request.version):
            return f"it runs version {request.version}, and this cluster needs {OLDEST_PEER} or later: update it"
        current = self._catalog.nodes.get(request.name)
        if current is None:
            return "" if request.catalog_entries >= ENTRY_NEWEST else OLDER_BUILD
        if current.joiner != request.joiner and self._neighbours.reached(current.number):
            return (
                f"the name '{request.name}' is in use by a node that is up, at {current.address}: stop that one, or give "
                f"this one another name"
            )
        return ""

    def _as_it_is_now(self, wish: NodeRecord, record: NodeRecord) -> Pending[NodeRecord]:
        """It may have asked before, from elsewhere."""
        if (record.address, record.kind, record.zone) == (wish.address, wish.kind, wish.zone):
            return Pending.of(record)
        return self._metadata.submit(commands.PutNode(wish))

    def _welcome(self, record: NodeRecord, known: NodeRecord | None) -> peer_pb2.JoinResponse:
        logger.info("node '%s' at %s is node %d of this cluster", record.name, record.address, record.number)
        if known is not None and known.disk_id != record.disk_id:
            logger.warning(
                "node '%s' has come back without what it had on its disk: replicated data it is given by the others, classic "
                "queues that lived there are empty",
                record.name,
            )
        return peer_pb2.JoinResponse(
            number=record.number,
            cluster_id=self._identity.cluster_id,
            nodes=map(told_node, self._catalog.nodes.values()),
            disk_id=record.disk_id,
        )

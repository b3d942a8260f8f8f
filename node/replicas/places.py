"""Where the members of new quorum queues and streams go: what node/replicas/placement.py asks, kept at hand.

How many members and leaders each node has is counted along with the commands that are applied, so that a declaration costs as
much with 100,000 queues as with none. Leaders are counted where their queues were declared; elections may have moved them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import Command, DeclareQueue, DeleteQueue, DeleteVhost, SetQueueMembers
from broker.catalog.commands.metadata import Metadata, OnApplied
from broker.catalog.mirrored_queues import HA_NODES
from broker.catalog.policy import applying, effective_arguments
from broker.catalog.proposed_queue import proposed_queue
from broker.errors import BrokerError
from broker.names import is_becoming
from broker.pending import Pending
from broker.records import NodeRecord, QueueRecord
from node.replicas.placement import CLIENT_LOCAL, Candidate, place
from raft.core.messages import MemberId, NodeId, member_id, node_of

GROUP_SIZE = "x-quorum-initial-group-size"


class QueuePlaces:
    """`trusts` says which other nodes can be reached now."""

    def __init__(self, here: NodeId, catalog: Catalog, metadata: Metadata, trusts: Callable[[NodeId], bool]) -> None:
        self._here = here
        self._catalog = catalog
        self._trusts = trusts
        self._counted: dict[
            int, tuple[MemberId, ...]
        ] = {}  # members of queues, the first is to lead, by the queue's id
        self._members: Counter[NodeId] = Counter()
        self._leaders: Counter[NodeId] = Counter()
        for vhost in catalog.vhosts:
            for record in catalog.queues(vhost):
                self._count(record)
        metadata.subscribe(self._applied)

    def members_of(self, wish: DeclareQueue) -> tuple[MemberId, ...]:
        """The founders of the queue's group, the first of them on the node that is to lead; none for a queue that has no
        members. Raises ResourceExhausted when no node can take it now.

        A queue that is there gets founders too: it may be deleted before this declaration is carried out. When it is there
        still, the catalog ignores them. Where no node can take it now, they are on the nodes that it has."""
        if wish.vhost not in self._catalog.vhosts:
            return ()  # the catalog says what is to be said
        try:
            return self._founders(wish)
        except BrokerError:
            founders = self._founders_as_before(wish)
            if not founders:
                raise
            return founders

    def _founders_as_before(self, wish: DeclareQueue) -> tuple[MemberId, ...]:
        """On the nodes of the queue that is there, as far as they are known."""
        former = self._catalog.queue(wish.vhost, wish.name)
        numbers = [node_of(member) for member in former.members] if former is not None else []
        nodes = {node.number: node for node in self._catalog.nodes.values()}
        return tuple(member_id(number, nodes[number].disk_id) for number in numbers if number in nodes)

    def _founders(self, wish: DeclareQueue) -> tuple[MemberId, ...]:
        record = proposed_queue(wish, self._catalog.vhosts)
        if record.kind == "classic":
            return ()
        policies = self._catalog.policies(wish.vhost), self._catalog.policies(wish.vhost, operator=True)
        user, operator = (applying(some, record.kind, wish.name) for some in policies)
        effective = effective_arguments(record, user, operator)
        nodes = {node.number: node for node in self._catalog.nodes.values()}
        if record.kind == "stream":
            wanted = effective.initial_cluster_size or sum(node.kind == "disk" for node in nodes.values())
        else:
            wanted = wish.arguments.get(GROUP_SIZE, 0)
        here, locator = self._here, effective.queue_leader_locator
        if is_becoming(wish.name):  # who copies needs a member beside it
            here, locator = self._catalog.nodes[wish.home].number, CLIENT_LOCAL
        places = place(self._candidates_for(wish), here, wanted, locator)
        return tuple(member_id(number, nodes[number].disk_id) for number in places.members)

    def _candidates_for(self, wish: DeclareQueue) -> list[Candidate]:
        """Those that its argument names, if it does and there are such nodes."""
        named = wish.arguments.get(HA_NODES, ())
        some = [node for node in self._catalog.nodes.values() if isinstance(named, list) and node.name in named]
        return [self._candidate(node) for node in some] or self.candidates()

    def candidates(self) -> list[Candidate]:
        """All nodes of the cluster."""
        return [self._candidate(node) for node in self._catalog.nodes.values()]

    def _candidate(self, node: NodeRecord) -> Candidate:
        return Candidate(
            node.number,
            node.zone,
            self._members[node.number],
            self._leaders[node.number],
            up=node.number == self._here or self._trusts(node.number),
            draining=node.draining,
            disk=node.kind == "disk",
        )

    def _applied(self, command: Command, result: Any) -> None:
        match command:
            case DeclareQueue() | SetQueueMembers() if result is not None:
                self._forget((result,))
                self._count(result)
            case DeleteQueue() if result is not None:
                self._forget((result,))
            case DeleteVhost():
                self._forget(result)

    def _count(self, record: QueueRecord) -> None:
        if record.members:
            self._counted[record.id] = record.members
            self._members.update(map(node_of, record.members))
            self._leaders[node_of(record.members[0])] += 1

    def _forget(self, records: Iterable[QueueRecord]) -> None:
        for record in records:
            members = self._counted.pop(record.id, None)
            if members is not None:
                self._members.subtract(map(node_of, members))
                self._leaders[node_of(members[0])] -= 1


class PlacingMetadata:
    """The broker's way to the metadata: a declaration goes on with the members that were chosen for it. Fulfils
    broker.catalog.commands.metadata.Metadata."""

    def __init__(self, metadata: Metadata, places: QueuePlaces) -> None:
        self._metadata = metadata
        self._places = places

    def submit(self, command: Command) -> Pending[Any]:
        if isinstance(command, DeclareQueue):
            try:
                command = replace(command, members=self._places.members_of(command))
            except BrokerError as error:
                return Pending.failed(error)
        return self._metadata.submit(command)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._metadata.subscribe(on_applied)

"""What replicated queues have to do with the catalog: they keep their members in it, and hear of those put there by others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.catalog.commands.catalog_commands import Command, SetQueueMembers
from broker.pending import ignore
from broker.records import QueueRecord
from node.catalog.cluster_metadata import ClusterMetadata
from raft.core.messages import MemberId, NodeId


class QueueRecords:
    """The records of queues, as the replicated queues of a node see them."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def set_members(self, record: QueueRecord, members: tuple[MemberId, ...], formed: int, anew: bool) -> None:
        """In the catalog. Nobody waits for this: who leads the queue asks again as long as the record is wrong."""
        command = SetQueueMembers(record.vhost, record.name, record.id, members, formed, anew)
        self._metadata.submit(command).then(ignore, ignore)

    def incarnation_of(self, number: NodeId) -> int | None:
        """Of the newest process of a node. None: the catalog does not know the node."""
        record = self._metadata.catalog.node_of_number(number)
        return record.incarnation if record is not None else None

    def holding_needed(self, vhost: str, queue: str) -> bool:
        """Whether an exchange or queue has its delayed messages wait in this queue, as far as this node knows."""
        catalog = self._metadata.catalog
        return vhost in catalog.vhosts and catalog.namespace(vhost).needs(queue)

    def tell(self, changed: Callable[[QueueRecord], None]) -> None:
        """Of every record whose members change, from now on."""

        def applied(command: Command, result: Any) -> None:
            if isinstance(command, SetQueueMembers) and result is not None:
                changed(result)

        self._metadata.subscribe(applied)

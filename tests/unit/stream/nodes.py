"""Nodes with streams in one thread, as tests/unit/quorum/nodes.py has them with quorum queues."""

from __future__ import annotations

from dataclasses import replace

from broker.records import QueueRecord
from raft.core.messages import NodeId
from replicated.kind_parts import HostingNode
from storage.history.file_names import FileNames
from storage.history.reader_progress import ReaderProgressLog
from stream.driver import StreamQueues
from stream.queue import StreamQueue
from tests.sim.disk import SimDisk
from tests.unit.quorum.nodes import Cluster, ReplicatedNode


class StreamNode(ReplicatedNode):
    """With streams."""

    kind: StreamQueues

    def _new_kind(self, node: HostingNode) -> StreamQueues:
        names = FileNames(self.log, self.number)
        return StreamQueues(replace(node, reader_progress=ReaderProgressLog(self.log, names)))

    def queue(self, record: QueueRecord) -> StreamQueue:
        return self.kind.queues[(1 << 32) + record.id]


class StreamCluster(Cluster):
    """The nodes 1 to `count`."""

    kind_name = "stream"

    def _new_node(self, number: NodeId, disk: SimDisk, incarnation: int, disk_id: int) -> StreamNode:
        return StreamNode(self, number, disk, incarnation, disk_id)

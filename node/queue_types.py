"""The kinds of queues as the broker of one node of a cluster sees them: the only file that knows where each is served.

A classic queue lives on its home node. Here the broker has one kind `classic`, which gives each call to this node's
classic queues or to those of other nodes, by the record's home.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.catalog.catalog import Catalog
from broker.catalog.policy import EffectiveArguments
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Queue, QueueType
from broker.queues.shared_limit import WakingHost
from broker.records import QueueRecord
from node.anywhere.home_queues import HomeQueues
from node.anywhere.remote_queues import RemoteQueue, RemoteQueues
from node.anywhere.wire import FROM_HOME
from node.peers.calls import CLASSIC, Answer, CallsLoop, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId


class DeliveringHost(WakingHost, Protocol):
    """What the broker does for these."""

    catalog: Catalog

    def deliver_from(self, queue: Queue, now: int) -> None: ...


class ClassicAnywhere:
    """Classic queues of all nodes. Fulfils broker.queues.queue_type.QueueType. `node` is this one's name, `local` are its
    queues, which `home` serves to others; `remote` are those of others."""

    name = "classic"

    def __init__(self, node: str, local: QueueType, home: HomeQueues, remote: RemoteQueues, calls: PeerCalls) -> None:
        self.home = home
        self.remote = remote
        self._node = node
        self._local = local
        calls.serve(CLASSIC, self._hear)

    @property
    def congested(self) -> bool:
        """Whether publishers of this node should pause for queues of others."""
        return self.remote.congested

    def hold(self, held: bool) -> None:
        """Publishers of other nodes, too: too much waits for this node's disk."""
        self.home.hold(held)

    def tick(self, now: int) -> None:
        self.home.tick(now)

    def close(self, now: int) -> None:
        """The node stops: other nodes are served no more. Before the classic queues stop."""
        self.home.close(now)

    def _hear(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        if not payload:
            raise BadBytes(f"node {node} says nothing about a classic queue")
        if payload[0] < FROM_HOME:
            self.home.hear(node, payload, answer)
        else:
            self.remote.hear(node, payload)

    # what the broker asks of a kind

    def check(self, record: QueueRecord) -> None:
        self._local.check(record)

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        if record.home not in ("", self._node):
            return self.remote.open(record)
        queue = self._local.open(record, effective, now)
        self.home.opened(queue)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        if isinstance(queue, RemoteQueue):
            return self.remote.delete(queue)
        self.home.deleted(queue)
        return self._local.delete(queue, now)

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        for queue in queues:
            if isinstance(queue, RemoteQueue):
                self._publish_anywhere(queues, run, receipt, now)
                return
        self._local.publish(queues, run, receipt, now)

    def _publish_anywhere(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        remote = [queue for queue in queues if isinstance(queue, RemoteQueue)]
        if len(remote) < len(queues):
            self._local.publish([queue for queue in queues if not isinstance(queue, RemoteQueue)], run, receipt, now)
        self.remote.publish(remote, run, receipt)


def classic_anywhere(
    node: str, local: QueueType, host: DeliveringHost, calls: PeerCalls, loop: CallsLoop, wall_ms: Callable[[], int]
) -> ClassicAnywhere:
    """As a node has it: `host` is its broker, before any queue is opened and any link is there."""
    catalog = host.catalog

    def number_of(name: str) -> NodeId | None:
        record = catalog.nodes.get(name)
        return record.number if record is not None else None

    def may_come(queue_id: int) -> bool:
        record = catalog.queue_of_id(queue_id)
        return queue_id >= catalog.next_queue_id or (record is not None and record.home == node)

    home = HomeQueues(local, host, calls, loop, wall_ms, may_come)
    return ClassicAnywhere(node, local, home, RemoteQueues(host, calls, number_of), calls)

"""Replicated queues under the contract suite: one node alone, and three nodes with the client on any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.catalog.policy import EffectiveArguments
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import DeadMessage, DeathReason, Queue, QueueHost, QueueType
from broker.records import QueueRecord
from raft.core.messages import NodeId, member_id
from tests.unit.quorum.nodes import DISK_ID, Cluster

SETTLED_WITHIN_S = 5.0


class OtherHost:
    """The broker of a node that the test's client is not connected to. What concerns all of them is the suite's to note."""

    def __init__(self, kind: ClusteredKind, host: QueueHost) -> None:
        self._kind = kind
        self._host = host
        self._woken: dict[Queue, None] = {}
        self.work = host.work

    def wake(self, queue: Queue) -> None:
        if not self._woken:
            self._kind.cluster.loop.call_soon(self._turn)
        self._woken[queue] = None

    def _turn(self) -> None:
        woken, self._woken = self._woken, {}
        for queue in woken:
            queue.pump(self._kind.now())

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._host.call_at(when, call)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._host.call_after(delay_ms, call)

    def dead_letter(self, queue: Queue, reason: DeathReason, messages: Sequence[DeadMessage], now: int) -> None:
        self._host.dead_letter(self._kind.seen_by_client(queue), reason, messages, now)

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        self._host.delete_queue(self._kind.seen_by_client(queue), reason, unused)


class ClusteredKind:
    """The kind on all nodes of a cluster, used through the node of the client. Fulfils QueueType."""

    def __init__(
        self, host: Any, cluster: type[Cluster], nodes: int, members: Sequence[NodeId], client: NodeId, home: NodeId
    ) -> None:
        self.name = cluster.kind_name
        self._host = host
        self._members = members
        self._client = client
        self._home = home
        self.cluster = cluster(nodes, self._host_of, self.now)

    def now(self) -> int:
        now: int = self._host.now
        return now

    def _host_of(self, node: NodeId) -> QueueHost:
        host: QueueHost = self._host
        return host if node == self._client else OtherHost(self, host)

    @property
    def _kind(self) -> QueueType:
        kind: QueueType = self.cluster.nodes[self._client].kind
        return kind

    def seen_by_client(self, queue: Queue) -> Queue:
        found: Queue = self.cluster.nodes[self._client].queue(queue.record)
        return found

    # QueueType

    def check(self, record: QueueRecord) -> None:
        self._kind.check(record)

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        founders = tuple(member_id(node, DISK_ID) for node in self._members)
        fields = {name: getattr(record, name) for name in record.__slots__}
        record = QueueRecord(**{**fields, "home": f"n{self._home}", "members": founders})
        for node in self.cluster.alive():
            node.kind.open(record, effective, now)
        self.cluster.leader(record)
        self.settle()
        queue: Queue = self.cluster.nodes[self._client].queue(record)
        others = [node.queue(record) for node in self.cluster.alive() if node.number != self._client]
        mine = queue.policy_changed

        def policy_changed(effective: EffectiveArguments, now: int) -> None:
            """The catalog tells all nodes."""
            mine(effective, now)
            for other in others:
                other.policy_changed(effective, now)

        queue.policy_changed = policy_changed  # type: ignore[method-assign]
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        ready = self._kind.delete(queue, now)
        for node in self.cluster.alive():
            if node.number != self._client:
                node.kind.delete(node.queue(queue.record), now)
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        self._kind.publish(queues, run, receipt, now)

    # Opened

    def settle(self) -> None:
        """Until everybody has heard of everything."""
        loop = self.cluster.loop
        until = loop.time() + SETTLED_WITHIN_S
        loop.run_soon()
        for node in self.cluster.alive():
            node.kind.tick(self.now())
        while not self._is_settled():
            assert loop.time() < until, "the nodes do not come to an end"
            loop.run_for(0.005)
            for node in self.cluster.alive():
                node.kind.tick(self.now())
        for node in self.cluster.nodes.values():
            assert not node.failures, f"node {node.number} failed: {node.failures[0]}"

    def _is_settled(self) -> bool:
        cluster = self.cluster
        if any(any(node.wire.ways.values()) for node in cluster.nodes.values()):
            return False
        queues = [queue for node in cluster.nodes.values() for queue in node.kind.queues.values()]
        if any(queue.session.portions for queue in queues):
            return False
        drivers = [queue.route.driver for queue in queues if queue.route.driver is not None]
        if any(driver._readers for driver in drivers):
            return False
        stands = [queue.route.driver.core.status() for queue in queues if queue.route.driver is not None]
        last: dict[int, int] = {}
        for queue in queues:
            if queue.route.driver is not None:
                last[queue.group] = max(last.get(queue.group, 0), queue.route.driver.core.status().last)
        here = [queue.group for queue in queues if queue.route.driver is not None]
        return all(status.applied == last[group] for status, group in zip(stands, here, strict=True))

    def close(self) -> None:
        self.cluster.close()

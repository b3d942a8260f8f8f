"""Looks at queues that take nothing: messages where they stand, and how many there are."""

from __future__ import annotations

from typing import cast

from broker.errors import PreconditionFailed
from broker.messages import browsed
from broker.messages.browsed import Browsed
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.queues.queue_deletion import counted
from broker.queues.queue_type import Queue
from broker.queues.stream_contract import StreamContract
from broker.session.topology import Topology


class QueueLooks:
    """At those that a session's user may read: each look needs the permission that a get needs."""

    def __init__(self, broker: NodeQueues, topology: Topology) -> None:
        self._broker = broker
        self._topology = topology

    def browse(self, queue: str, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        """See Queue.browse."""
        found = self._browsable(queue, limit)
        if skip > browsed.SKIP_MAX:
            raise PreconditionFailed(f"at most {browsed.SKIP_MAX} messages can be skipped, not {skip}")
        self._broker.deliver_from(found, now)
        return found.browse(skip, limit, now)

    def browse_from(self, queue: str, offset: object, limit: int, now: int) -> Pending[list[Browsed]]:
        """See StreamContract.browse_from. `offset`: as x-stream-offset, not None."""
        found = self._browsable(queue, limit)
        if found.record.kind != "stream":
            raise PreconditionFailed(f"{found.record.label} has no offsets to begin at: it is no stream")
        return cast(StreamContract, found).browse_from(offset, limit, now)

    def count_ready(self, queue: str, now: int) -> Pending[int]:
        """How many messages its home or leader has ready."""
        found = self._topology.readable(queue).queue
        return counted(self._broker, found, now).map(lambda _: found.ready_count)

    def _browsable(self, queue: str, limit: int) -> Queue:
        found = self._topology.readable(queue).queue
        if not 0 < limit <= browsed.COUNT_MAX:
            raise PreconditionFailed(f"1 to {browsed.COUNT_MAX} messages can be looked at in one go, not {limit}")
        return found

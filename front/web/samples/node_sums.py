"""What the queues, channels and connections of this node come to, by vhost: one walk over all of them.

A queue's messages are added by one node of the cluster only (`Queue.accounted_here`), so sums of nodes can be added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.counting.counters import Counters
from broker.queues.queue_type import QueueStatistics
from front.web.samples.shapes import DATA, MESSAGES, SESSION, VHOST

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.client_connection import Connection
    from broker.queues.queue_type import Queue
    from broker.session.session import Session

# The counts of a session in the order of SESSION.
session_row = attrgetter(
    "published",
    "confirmed",
    "returned",
    "dropped",
    "delivered",
    "delivered_no_ack",
    "got",
    "got_no_ack",
    "got_empty",
    "redelivered",
    "acknowledged",
)
SESSION_AT = len(MESSAGES)
DATA_AT = SESSION_AT + len(SESSION)
assert VHOST.names == (*MESSAGES, *SESSION, *DATA), "the sums of a vhost are kept in the order of its shape"


class NodeSums:
    """In the order of the shape VHOST."""

    def __init__(self) -> None:
        self.vhosts: dict[str, list[int]] = {}
        self.exchanges: dict[tuple[str, str], list[int]] = {}  # by vhost and name: into it, and out of it to queues
        self.disk_reads = 0
        self.disk_writes = 0

    def of(self, vhost: str) -> list[int]:
        found = self.vhosts.get(vhost)
        if found is None:
            found = self.vhosts[vhost] = [0] * len(VHOST.names)
        return found

    def all(self) -> list[int]:
        """Also what was counted in vhosts that have been deleted."""
        return [sum(column) for column in zip([0] * len(VHOST.names), *self.vhosts.values(), strict=True)]

    def add_queue(self, vhost: str, counts: QueueStatistics) -> None:
        sums = self.of(vhost)
        sums[0] += counts.ready
        sums[1] += counts.unacknowledged
        self.disk_reads += counts.disk_reads
        self.disk_writes += counts.disk_writes

    def add_session(self, vhost: str, counters: Counters) -> None:
        sums = self.of(vhost)
        for place, count in enumerate(session_row(counters), SESSION_AT):
            sums[place] += count

    def add_exchange(self, vhost: str, name: str, into: int, out: int) -> None:
        found = self.exchanges.setdefault((vhost, name), [0, 0])
        found[0] += into
        found[1] += out

    def add_bytes(self, vhost: str, received: int, sent: int) -> None:
        sums = self.of(vhost)
        sums[DATA_AT] += received
        sums[DATA_AT + 1] += sent


def walked(broker: Broker, sums: NodeSums) -> Iterator[Queue | Session | Connection | None]:
    """Adds each queue, session and connection of the node, and answers it when it has been added; None: of what has no samples
    of its own."""
    for queue in broker.queues():
        if queue.accounted_here:
            sums.add_queue(queue.record.vhost, queue.counts())
        yield queue
    for session in tuple(broker.sessions()):
        sums.add_session(session.vhost, session.counters)
        flows = session.publisher.flows()
        for exchange, count in flows.published.items():
            sums.add_exchange(session.vhost, exchange, count, flows.routed[exchange])
        yield session
    for connection in tuple(broker.connections()):
        figures = connection.statistics()
        sums.add_bytes(connection.vhost, figures.get("bytes_in", 0), figures.get("bytes_out", 0))
        yield connection
    for client in broker.streams:
        sums.add_session(client.connection.vhost, client.counters)
        yield None
    for (_, vhost), counters in tuple(broker.ended.counters.items()):
        sums.add_session(vhost, counters)
        yield None
    for vhost, (received, sent) in tuple(broker.ended.bytes.items()):
        sums.add_bytes(vhost, received, sent)
    for vhost, of in tuple(broker.ended.exchanges.items()):
        for exchange, (into, out) in of.items():
            sums.add_exchange(vhost, exchange, into, out)
        yield None

"""What is sampled on this node, and what it shows of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.client_connection import Connection
from broker.node_queues import Totals
from broker.operations.node_facts import NodeFacts
from broker.queue_type import QueueStatistics
from broker.session.session import Session
from front.web.samples.books import BASIC, DETAILED, GLOBAL, SampleBook
from front.web.samples.node_sums import DATA_AT, NodeSums, session_row, walked
from front.web.samples.shapes import CHANNEL, CONNECTION, NODE, OVERVIEW, QUEUE, VHOST, Row

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.queue_type import Queue

THE_NODE = "node"  # the key of what there is once


class NodeSamples:
    """The books of one node."""

    def __init__(self, broker: Broker, wall_ms: Callable[[], int], facts: Callable[[], NodeFacts]) -> None:
        self.queues = SampleBook(QUEUE, DETAILED)  # by the id of their record
        self.channels = SampleBook(CHANNEL, DETAILED)  # by id of the connection, and number
        self.connections = SampleBook(CONNECTION, DETAILED)  # by id
        self.vhosts = SampleBook(VHOST, BASIC, always=True)  # by name
        self.overview = SampleBook(OVERVIEW, GLOBAL, always=True)
        self.node = SampleBook(NODE, BASIC, always=True)
        self._broker = broker
        self._wall_ms = wall_ms
        self._facts = facts

    @property
    def books(self) -> tuple[SampleBook, ...]:
        return self.queues, self.channels, self.connections, self.vhosts, self.overview, self.node

    def steps(self) -> Iterator[None]:
        """A round: one sample of each object, a few microseconds for each step."""
        sums = NodeSums()
        for one in walked(self._broker, sums):
            if one is not None:
                self._add(one)
            yield
        now = self._wall_ms()
        for vhost, row in sums.vhosts.items():
            if vhost in self._broker.catalog.vhosts:
                self.vhosts.add(vhost, now, tuple(row))
            yield
        self.overview.add(THE_NODE, now, overview_row(sums, self._broker.totals))
        self.node.add(THE_NODE, now, node_row(self._facts(), sum(1 for _ in self._broker.connections())))
        for book in self.books:
            yield from book.forget_gone(now)

    def _add(self, one: Queue | Session | Connection) -> None:
        now = self._wall_ms()
        if isinstance(one, Session):
            self.channels.add((one.connection.id, one.number), now, session_row(one.counters))
        elif isinstance(one, Connection):
            figures = one.statistics()
            self.connections.add(one.id, now, (figures.get("bytes_in", 0), figures.get("bytes_out", 0)))
        elif one.record.kind != "classic" or one.accounted_here:  # its traffic is counted here
            self.queues.add(one.record.id, now, counts_row(one.counts()))


def counts_row(counts: QueueStatistics) -> Row:
    return (
        counts.ready,
        counts.unacknowledged,
        counts.published,
        counts.delivered,
        counts.delivered_no_ack,
        counts.got,
        counts.redelivered,
        counts.acknowledged,
    )


def overview_row(sums: NodeSums, churn: Totals) -> Row:
    return (*sums.all()[:DATA_AT], sums.disk_reads, sums.disk_writes, *churn_row(churn))


def churn_row(churn: Totals) -> Row:
    return (
        churn.connections_opened,
        churn.connections_closed,
        churn.channels_opened,
        churn.channels_closed,
        churn.queues_declared,
        churn.queues_created,
        churn.queues_deleted,
    )


def node_row(facts: NodeFacts, sockets: int) -> Row:
    return facts.memory_bytes, facts.files_open, sockets, 0, facts.disk_free_bytes

"""What is sampled on this node, and what it shows of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.client_connection import Connection
from broker.node_queues import Totals
from broker.operations.node_facts import NodeFacts
from broker.queues.consumer import Consumer
from broker.queues.queue_type import QueueStatistics
from broker.session.session import Session
from front.web.samples.books import BASIC, DETAILED, GLOBAL, SampleBook
from front.web.samples.node_sums import DATA_AT, SESSION_AT, NodeSums, session_row, walked
from front.web.samples.shapes import CHANNEL, CONNECTION, DELIVERIES, EXCHANGE, NODE, OVERVIEW, QUEUE, ROUTE, VHOST, Row

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.queues.queue_type import Queue

THE_NODE = "node"  # the key of what there is once
# What is counted of a queue, in the order of the shape QUEUE.
COUNTS = (
    "ready",
    "unacknowledged",
    "published",
    "delivered",
    "delivered_no_ack",
    "got",
    "redelivered",
    "acknowledged",
)
counts_row: Callable[[QueueStatistics], Row] = attrgetter(*COUNTS)
ROUTES_MAX = 10_000  # and consumers: what clients of one node do with how many exchanges and queues is sampled


class NodeSamples:
    """The books of one node."""

    def __init__(self, broker: Broker, wall_ms: Callable[[], int], facts: Callable[[], NodeFacts]) -> None:
        self.queues = SampleBook(QUEUE, DETAILED)  # by the id of their record
        self.channels = SampleBook(CHANNEL, DETAILED)  # by id of the connection, and number
        self.exchanges = SampleBook(EXCHANGE, DETAILED)  # by vhost and name
        self.routes = SampleBook(
            ROUTE, DETAILED
        )  # by channel, exchange and queue; queue "": what was published to the exchange
        self.consumers = SampleBook(DELIVERIES, DETAILED)  # by channel and consumer tag
        self.connections = SampleBook(CONNECTION, DETAILED)  # by id
        self.vhosts = SampleBook(VHOST, BASIC, always=True)  # by name
        self.overview = SampleBook(OVERVIEW, GLOBAL, always=True)
        self.node = SampleBook(NODE, BASIC, always=True)
        self._broker = broker
        self._wall_ms = wall_ms
        self._facts = facts
        self._routes_left = ROUTES_MAX  # in this round

    @property
    def books(self) -> tuple[SampleBook, ...]:
        return (
            self.queues,
            self.channels,
            self.exchanges,
            self.routes,
            self.consumers,
            self.connections,
            self.vhosts,
            self.overview,
            self.node,
        )

    def steps(self) -> Iterator[None]:
        """A round: one sample of each object, a few microseconds for each step."""
        sums = NodeSums()
        self._routes_left = ROUTES_MAX
        for one in walked(self._broker, sums):
            if one is not None:
                self._add(one)
            if isinstance(one, Session):
                yield from self._add_routes(one)
            yield
        now = self._wall_ms()
        for key, row in sums.exchanges.items():
            self.exchanges.add(key, now, tuple(row))
            yield
        for vhost, row in sums.vhosts.items():
            if vhost in self._broker.catalog.vhosts:
                self.vhosts.add(vhost, now, tuple(row))
            yield
        self.overview.add(THE_NODE, now, overview_row(sums, self._broker.totals))
        connections = sum(1 for _ in self._broker.connections())
        self.node.add(THE_NODE, now, node_row(self._facts(), connections, self._broker.totals))
        for book in self.books:
            yield from book.forget_gone(now)

    def _add_routes(self, session: Session) -> Iterator[None]:
        """Where its messages go and come from, as far as there is room."""
        now = self._wall_ms()
        for key, count in islice(routes_of(session), self._routes_left):
            self._routes_left -= 1
            self.routes.add(key, now, (count,))
            yield
        for consumer in tuple(islice(session.consumers(), self._routes_left)):
            self._routes_left -= 1
            self.consumers.add((*channel_key(session), consumer.tag), now, deliveries_row(consumer))
            yield

    def _add(self, one: Queue | Session | Connection) -> None:
        now = self._wall_ms()
        if isinstance(one, Session):
            self.channels.add(channel_key(one), now, session_row(one.counters))
        elif isinstance(one, Connection):
            figures = one.statistics()
            self.connections.add(one.id, now, (figures.get("bytes_in", 0), figures.get("bytes_out", 0)))
        elif one.record.kind != "classic" or one.accounted_here:  # its traffic is counted here
            self.queues.add(one.record.id, now, counts_row(one.counts()))


def channel_key(session: Session) -> tuple[str, int]:
    return session.connection.id, session.number


def routes_of(session: Session) -> Iterator[tuple[tuple[str, int, str, str], int]]:
    """By channel, exchange and queue; without a queue: all that was published to the exchange."""
    flows, channel = session.publisher.flows(), channel_key(session)
    for exchange, count in tuple(flows.published.items()):
        yield (*channel, exchange, ""), count
    for (exchange, queue), count in tuple(flows.into.items()):
        yield (*channel, exchange, queue), count


def deliveries_row(consumer: Consumer) -> Row:
    return (0, consumer.delivered) if consumer.no_ack else (consumer.delivered, 0)


def overview_row(sums: NodeSums, churn: Totals) -> Row:
    counts = sums.all()
    return (*counts[:SESSION_AT], *churn_row(churn), *counts[SESSION_AT:DATA_AT], sums.disk_reads, sums.disk_writes)


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


def node_row(facts: NodeFacts, sockets: int, churn: Totals) -> Row:
    of_process = facts.read_bytes, facts.written_bytes, facts.collections, facts.context_switches
    return (
        facts.memory_bytes, facts.files_open, sockets, 0, facts.disk_free_bytes, *of_process, *churn_row(churn)
    )  # fmt: skip

"""Metrics of single objects: queues, channels, connections, exchanges, vhosts and members of Raft groups on this node.

The names of families, series and labels are those of RabbitMQ, so that what was built for it reads them. A queue is told of by
the node that is its home or leads it, a member by its own node, so a sum over nodes counts nothing twice. What RabbitMQ counts
and this broker does not is left out: reductions of processes, and what channels confirmed or dropped by exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from broker.broker import Broker
from broker.catalog.catalog import Catalog
from broker.client_connection import Connection
from broker.queues.queue_type import Queue
from broker.session.session import Session
from node.watching.exposition import COUNTER, GAUGE, MetricSeries, ObjectRow, labelled
from quorum.driver import QuorumQueues
from raft.groups import Groups
from replicated.queue import ReplicatedQueue
from stream.driver import StreamQueues

Matches = Callable[[str], bool]
PREFIX, DETAILED_PREFIX, CLUSTER_PREFIX = "rabbitmq_", "rabbitmq_detailed_", "rabbitmq_cluster_"
KIND_LABELS = {"classic": "rabbit_classic_queue", "quorum": "rabbit_quorum_queue", "stream": "rabbit_stream_queue"}


@dataclass(slots=True, frozen=True)
class MetricScope:
    """Which objects are asked for."""

    has_vhost: Matches
    has_queue: Matches


EVERYTHING = MetricScope(lambda vhost: True, lambda queue: True)


@dataclass(slots=True, frozen=True)
class MetricFamily:
    """MetricSeries that are asked for together. `rows` make no series twice."""

    series: tuple[MetricSeries, ...]
    rows: Callable[[MetricScope], Iterator[ObjectRow | None]]  # None: an object without, for the loop to have its turn
    of_cluster: bool = False  # every node says the same
    per_object: bool = True  # it is part of /metrics/per-object


class ObjectMetrics:
    """Of one node."""

    def __init__(self, broker: Broker, quorum: QuorumQueues, streams: StreamQueues, groups: Groups) -> None:
        self._broker = broker
        self._catalog: Catalog = broker.catalog
        self._quorum = quorum
        self._streams = streams
        self._groups = groups
        self.families: dict[str, MetricFamily] = {
            "queue_coarse_metrics": MetricFamily(COARSE, self._coarse),
            "queue_consumer_count": MetricFamily(CONSUMER_COUNT, self._consumer_count, per_object=False),
            "queue_metrics": MetricFamily(QUEUE_SERIES, self._queue_rows),
            "queue_delivery_metrics": MetricFamily(DELIVERY, self._deliveries),
            "queue_exchange_metrics": MetricFamily(QUEUE_EXCHANGE, self._queue_exchanges),
            "queue_info": MetricFamily(QUEUE_INFO, self._queue_info),
            "exchange_metrics": MetricFamily(EXCHANGE_SERIES, self._exchanges),
            "channel_metrics": MetricFamily(CHANNEL_SERIES, self._channels),
            "channel_exchange_metrics": MetricFamily(CHANNEL_EXCHANGE, self._channel_exchanges),
            "channel_queue_metrics": MetricFamily(CHANNEL_QUEUE, self._channel_queues),
            "channel_queue_exchange_metrics": MetricFamily(CHANNEL_QUEUE_EXCHANGE, self._channel_queue_exchanges),
            "connection_coarse_metrics": MetricFamily(CONNECTION_COARSE, self._connection_bytes),
            "connection_metrics": MetricFamily(CONNECTION_SERIES, self._connections),
            "stream_consumer_metrics": MetricFamily(STREAM_CONSUMERS, self._stream_consumers),
            "ra_metrics": MetricFamily(RAFT, self._members),
            "vhost_status": MetricFamily(VHOST_STATUS, self._vhosts, of_cluster=True, per_object=False),
            "exchange_names": MetricFamily(EXCHANGE_NAMES, self._exchange_names, of_cluster=True, per_object=False),
            "exchange_bindings": MetricFamily(EXCHANGE_BINDINGS, self._bindings, of_cluster=True, per_object=False),
        }

    # queues

    def _accounted(self, scope: MetricScope, row: Callable[[str, Queue], ObjectRow]) -> Iterator[ObjectRow | None]:
        for queue in self._broker.queues():
            record = queue.record
            if queue.accounted_here and scope.has_vhost(record.vhost) and scope.has_queue(record.name):
                yield row(labelled(vhost=record.vhost, queue=record.name), queue)
            else:
                yield None

    def _coarse(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        def row(labels: str, queue: Queue) -> ObjectRow:
            counts = queue.counts()
            return ObjectRow(labels, (counts.ready, counts.unacknowledged, counts.ready + counts.unacknowledged))

        return self._accounted(scope, row)

    def _consumer_count(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        return self._accounted(scope, lambda labels, queue: ObjectRow(labels, (queue.consumer_count,)))

    def _queue_rows(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        def row(labels: str, queue: Queue) -> ObjectRow:
            found, stream = queue.sizes(), self._streams.queues.get(queue.record.id)
            return ObjectRow(
                labels,
                (
                    found.consumers,
                    found.consumer_capacity,
                    found.consumer_capacity,
                    found.memory_bytes,
                    found.ram,
                    found.persistent,
                    found.ready_bytes + found.unacknowledged_bytes,
                    found.ready_bytes,
                    found.unacknowledged_bytes,
                    found.disk_reads,
                    found.disk_writes,
                    0 if stream is None else stream.reading_figures().segments,
                ),
            )

        return self._accounted(scope, row)

    def _deliveries(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        """Also of replicated queues that are led elsewhere: each node counts what its clients are given."""
        for queue in self._broker.queues():
            record, counts = queue.record, queue.counts()
            is_here = queue.accounted_here or record.kind != "classic"
            if is_here and scope.has_vhost(record.vhost) and scope.has_queue(record.name):
                yield ObjectRow(
                    labelled(vhost=record.vhost, queue=record.name),
                    (counts.got, counts.delivered, counts.delivered_no_ack, counts.redelivered, counts.acknowledged),
                )
            else:
                yield None

    def _queue_info(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        for queue in self._broker.queues():
            record = queue.record
            is_member = queue.accounted_here or self._has_member(queue)
            if is_member and scope.has_vhost(record.vhost) and scope.has_queue(record.name):
                labels = labelled(
                    vhost=record.vhost,
                    queue=record.name,
                    queue_type=KIND_LABELS.get(record.kind, record.kind),
                    membership="leader" if queue.accounted_here else "follower",
                )
                yield ObjectRow(labels, (1,))
            else:
                yield None

    def _has_member(self, queue: Queue) -> bool:
        return getattr(queue, "member", None) is not None

    def _queue_exchanges(self, scope: MetricScope) -> Iterator[ObjectRow]:
        """By what the channels that there are now have published."""
        found: dict[tuple[str, str, str], int] = {}
        for session in self._sessions(scope):
            for (exchange, queue), count in session.publisher.flows().into.items():
                if scope.has_queue(queue):
                    key = session.vhost, exchange, queue
                    found[key] = found.get(key, 0) + count
        for (vhost, exchange, queue), count in found.items():
            yield ObjectRow(labelled(vhost=vhost, exchange=exchange, queue=queue), (count,))

    # exchanges and vhosts

    def _exchanges(self, scope: MetricScope) -> Iterator[ObjectRow]:
        found: dict[tuple[str, str], int] = {}
        for vhost, of in self._broker.ended.exchanges.items():
            if scope.has_vhost(vhost):
                found |= {(vhost, exchange): into for exchange, (into, _) in of.items()}
        for session in self._sessions(scope):
            for exchange, count in session.publisher.flows().published.items():
                key = session.vhost, exchange
                found[key] = found.get(key, 0) + count
        for (vhost, exchange), count in found.items():
            yield ObjectRow(labelled(vhost=vhost, exchange=exchange), (count,))

    def _exchange_names(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for vhost in filter(scope.has_vhost, tuple(self._catalog.vhosts)):
            for record in tuple(self._catalog.exchanges(vhost)):
                yield ObjectRow(labelled(vhost=vhost, exchange=record.name, type=record.kind), (1,))

    def _bindings(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for vhost in filter(scope.has_vhost, tuple(self._catalog.vhosts)):
            for record in tuple(self._catalog.exchanges(vhost)):
                labels = labelled(vhost=vhost, exchange=record.name, type=record.kind)
                yield ObjectRow(labels, (sum(1 for _ in self._catalog.bindings_of_source(vhost, record.name)),))

    def _vhosts(self, scope: MetricScope) -> Iterator[ObjectRow]:
        return (
            ObjectRow(labelled(vhost=vhost), (1,)) for vhost in filter(scope.has_vhost, tuple(self._catalog.vhosts))
        )

    # channels and connections

    def _sessions(self, scope: MetricScope) -> Iterator[Session]:
        return (one for one in tuple(self._broker.sessions()) if scope.has_vhost(one.vhost))

    def _channels(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for session in self._sessions(scope):
            found = session.statistics()
            values = (
                found["consumers"],
                found["unacknowledged"],
                found["unconfirmed"],
                found["uncommitted"],
                0,
                found["prefetch"],
                found["global_prefetch"],
            )
            yield ObjectRow(labelled(channel=channel_of(session)), values)

    def _channel_exchanges(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for session in self._sessions(scope):
            for exchange, count in tuple(session.publisher.flows().published.items()):
                yield ObjectRow(labelled(channel=channel_of(session), vhost=session.vhost, exchange=exchange), (count,))

    def _channel_queues(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for session in self._sessions(scope):
            found: dict[str, list[int]] = {}
            for consumer in tuple(session.consumers()):
                counts = found.setdefault(consumer.queue.record.name, [0, 0])
                counts[consumer.no_ack] += consumer.delivered
            for queue, counts in found.items():
                yield ObjectRow(labelled(channel=channel_of(session), vhost=session.vhost, queue=queue), counts)

    def _channel_queue_exchanges(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for session in self._sessions(scope):
            for (exchange, queue), count in tuple(session.publisher.flows().into.items()):
                labels = labelled(
                    channel=channel_of(session),
                    queue_vhost=session.vhost,
                    queue=queue,
                    exchange_vhost=session.vhost,
                    exchange=exchange,
                )
                yield ObjectRow(labels, (count,))

    def _open(self, scope: MetricScope) -> Iterator[Connection]:
        return (one for one in tuple(self._broker.connections()) if scope.has_vhost(one.vhost))

    def _connection_bytes(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for connection in self._open(scope):
            found = connection.statistics()
            values = (found.get("bytes_in", 0), found.get("bytes_out", 0))
            yield ObjectRow(labelled(connection=connection.name), values)

    def _connections(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for connection in self._open(scope):
            found = connection.statistics()
            values = (found.get("pending_out_bytes", 0), found.get("channels", 0))
            yield ObjectRow(labelled(connection=connection.name), values)

    # replicated queues

    def _stream_consumers(self, scope: MetricScope) -> Iterator[ObjectRow]:
        for queue in tuple(self._streams.queues.values()):
            figures = queue.reading_figures()
            record = queue.record
            if figures.readers and scope.has_vhost(record.vhost) and scope.has_queue(record.name):
                yield ObjectRow(labelled(vhost=record.vhost, queue=record.name), (figures.lag,))

    def _members(self, scope: MetricScope) -> Iterator[ObjectRow | None]:
        kinds: tuple[Mapping[int, ReplicatedQueue], ...] = (self._quorum.queues, self._streams.queues)
        for queues in kinds:
            for queue in tuple(queues.values()):
                record = queue.record
                if queue.member is None or not (scope.has_vhost(record.vhost) and scope.has_queue(record.name)):
                    yield None
                    continue
                driver = self._groups.driver(queue.group)
                status = driver.core.status()
                yield ObjectRow(
                    labelled(vhost=record.vhost, queue=record.name),
                    (
                        status.term,
                        status.commit,
                        status.durable,
                        status.applied,
                        status.snapshot,
                        driver.commit_latency_s,
                    ),
                )


def channel_of(session: Session) -> str:
    return f"{session.connection.name} ({session.number})"


COARSE = (
    MetricSeries("queue_messages_ready", GAUGE, "Messages ready to be delivered"),
    MetricSeries("queue_messages_unacked", GAUGE, "Messages delivered and not acknowledged yet"),
    MetricSeries("queue_messages", GAUGE, "Messages, ready or not"),
)
CONSUMER_COUNT = (MetricSeries("queue_consumers", GAUGE, "Consumers of a queue"),)
QUEUE_SERIES = (
    *CONSUMER_COUNT,
    MetricSeries("queue_consumer_capacity", GAUGE, "Share of time in which consumers could take messages"),
    MetricSeries("queue_consumer_utilisation", GAUGE, "The same as the capacity"),
    MetricSeries("queue_process_memory_bytes", GAUGE, "Memory that the queue takes"),
    MetricSeries("queue_messages_ram", GAUGE, "Messages whose content is in memory"),
    MetricSeries("queue_messages_persistent", GAUGE, "Persistent messages"),
    MetricSeries("queue_messages_bytes", GAUGE, "Bytes of messages, ready or not"),
    MetricSeries("queue_messages_ready_bytes", GAUGE, "Bytes of ready messages"),
    MetricSeries("queue_messages_unacked_bytes", GAUGE, "Bytes of unacknowledged messages"),
    MetricSeries("queue_disk_reads_total", COUNTER, "Reads of messages from disk"),
    MetricSeries("queue_disk_writes_total", COUNTER, "Writes of messages to disk"),
    MetricSeries("stream_segments", GAUGE, "Segments of a stream"),
)
DELIVERY = (
    MetricSeries("queue_get_ack_total", COUNTER, "Messages taken with basic.get"),
    MetricSeries("queue_messages_delivered_ack_total", COUNTER, "Messages delivered, to be acknowledged by hand"),
    MetricSeries("queue_messages_delivered_total", COUNTER, "Messages delivered, acknowledged by that"),
    MetricSeries("queue_messages_redelivered_total", COUNTER, "Messages delivered again"),
    MetricSeries("queue_messages_acked_total", COUNTER, "Messages acknowledged"),
)
QUEUE_EXCHANGE = (
    MetricSeries(
        "queue_exchange_messages_published_total", COUNTER, "Messages that came into a queue through an exchange"
    ),
)
QUEUE_INFO = (MetricSeries("queue_info", GAUGE, "1, and what a queue is"),)
EXCHANGE_SERIES = (MetricSeries("exchange_messages_published_total", COUNTER, "Messages published to an exchange"),)
CHANNEL_SERIES = (
    MetricSeries("channel_consumers", GAUGE, "Consumers of a channel"),
    MetricSeries("channel_messages_unacked", GAUGE, "Messages delivered and not acknowledged yet"),
    MetricSeries("channel_messages_unconfirmed", GAUGE, "Messages published and not confirmed yet"),
    MetricSeries("channel_messages_uncommitted", GAUGE, "Messages published in a transaction and not committed yet"),
    MetricSeries("channel_acks_uncommitted", GAUGE, "Acknowledgements in a transaction, not counted here"),
    MetricSeries("consumer_prefetch", GAUGE, "Limit of unacknowledged messages of each consumer"),
    MetricSeries("channel_prefetch", GAUGE, "Limit of unacknowledged messages of all consumers together"),
)
CHANNEL_EXCHANGE = (
    MetricSeries("channel_messages_published_total", COUNTER, "Messages that a channel published to an exchange"),
)
CHANNEL_QUEUE = (
    MetricSeries(
        "channel_messages_delivered_ack_total", COUNTER, "Messages delivered to a channel, to be acknowledged by hand"
    ),
    MetricSeries("channel_messages_delivered_total", COUNTER, "Messages delivered to a channel, acknowledged by that"),
)
CHANNEL_QUEUE_EXCHANGE = (
    MetricSeries(
        "queue_messages_published_total", COUNTER, "Messages of a channel that came into a queue through an exchange"
    ),
)
CONNECTION_COARSE = (
    MetricSeries("connection_incoming_bytes_total", COUNTER, "Bytes received on a connection"),
    MetricSeries("connection_outgoing_bytes_total", COUNTER, "Bytes sent on a connection"),
)
CONNECTION_SERIES = (
    MetricSeries("connection_pending_bytes", GAUGE, "Bytes that wait to be sent on a connection"),
    MetricSeries("connection_channels", GAUGE, "Channels of a connection"),
)
STREAM_CONSUMERS = (
    MetricSeries("stream_consumer_max_offset_lag", GAUGE, "Messages by which the last reader is behind"),
)
RAFT = (
    MetricSeries("raft_term", GAUGE, "Term of the member"),
    MetricSeries("raft_commit_index", GAUGE, "Highest index that is durable on a majority"),
    MetricSeries("raft_last_written_index", GAUGE, "Highest index that is durable on this node"),
    MetricSeries("raft_last_applied", GAUGE, "Highest index that the machine of the member has seen"),
    MetricSeries("raft_snapshot_index", GAUGE, "Index of the member's snapshot"),
    MetricSeries(
        "raft_commit_latency_seconds", GAUGE, "How long an entry took until it was committed and applied, on the leader"
    ),
)
VHOST_STATUS = (MetricSeries("vhost_status", GAUGE, "1 while the vhost is there"),)
EXCHANGE_NAMES = (MetricSeries("exchange_name", GAUGE, "1 for each exchange"),)
EXCHANGE_BINDINGS = (MetricSeries("exchange_bindings", GAUGE, "Bindings from an exchange"),)

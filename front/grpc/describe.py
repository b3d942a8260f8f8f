"""What is declared and what is running, as stubs: one function for each kind of thing that a listing shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.errors import NotFound
from broker.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from front.grpc import convert
from front.grpc.call import Front
from leveret.v1 import admin_pb2, topology_pb2

if TYPE_CHECKING:
    from broker.broker import Connection


def exchange(record: ExchangeRecord) -> topology_pb2.Exchange:
    return topology_pb2.Exchange(
        vhost=convert.text(record.vhost),
        name=convert.text(record.name),
        kind=record.kind,
        durable=record.durable,
        auto_delete=record.auto_delete,
        internal=record.internal,
        arguments=convert.table(record.arguments),
    )


def binding(record: BindingRecord) -> topology_pb2.Binding:
    is_queue = record.destination_kind == "queue"
    return topology_pb2.Binding(
        vhost=convert.text(record.vhost),
        source=convert.text(record.source),
        destination=convert.text(record.destination),
        destination_kind=topology_pb2.DESTINATION_KIND_QUEUE if is_queue else topology_pb2.DESTINATION_KIND_EXCHANGE,
        routing_key=convert.text(record.routing_key),
        arguments=convert.table(record.arguments),
    )


def queue(front: Front, record: QueueRecord, statistics: QueueStatistics | None = None) -> topology_pb2.Queue:
    """A queue as it is declared and how it is; `statistics` spares asking the queue."""
    effective = front.broker.catalog.effective(record)
    figures = statistics or _statistics(front, record)
    counted: dict[str, Any] = {}
    if figures is not None:
        counted = {
            "state": figures.state,
            "ready": figures.ready,
            "unacknowledged": figures.unacknowledged,
            "ready_bytes": figures.ready_bytes,
            "unacknowledged_bytes": figures.unacknowledged_bytes,
            "consumers": figures.consumers,
            "memory_bytes": figures.memory_bytes,
        }
    return topology_pb2.Queue(
        vhost=convert.text(record.vhost),
        name=convert.text(record.name),
        kind=record.kind,
        durable=record.durable,
        exclusive=record.exclusive,
        auto_delete=record.auto_delete,
        arguments=convert.table(record.arguments),
        home=record.home,
        policy=effective.policy or "",
        operator_policy=effective.operator_policy or "",
        **counted,
    )


def _statistics(front: Front, record: QueueRecord) -> QueueStatistics | None:
    """None while the queue is being opened or deleted."""
    try:
        queue = front.broker.queue(record.vhost, record.name)
    except NotFound:
        return None
    figures: QueueStatistics = queue.statistics()
    return figures


def connection(item: Connection) -> admin_pb2.Connection:
    return admin_pb2.Connection(
        id=item.id,
        name=convert.text(item.name),
        user=convert.text(item.user),
        vhost=convert.text(item.vhost),
        protocol=item.protocol,
        connected_at_ms=item.connected_at,
        client_properties=convert.table(item.client_properties),
        statistics=convert.table(item.statistics()),
    )


def consumer(item: Any) -> admin_pb2.ConsumerInfo:
    connection = getattr(item.sink, "connection", None)
    return admin_pb2.ConsumerInfo(
        vhost=convert.text(item.queue.record.vhost),
        queue=convert.text(item.queue.record.name),
        consumer_tag=convert.text(item.tag),
        connection=convert.text(connection.name) if connection else "",
        channel=getattr(item.sink, "number", 0),
        no_ack=item.no_ack,
        exclusive=item.exclusive,
        prefetch=item.prefetch,
        outstanding=item.outstanding,
        priority=item.priority,
        active=item.active,
        arguments=convert.table(item.arguments),
    )


def vhost(record: VhostRecord) -> admin_pb2.Vhost:
    return admin_pb2.Vhost(
        name=convert.text(record.name),
        description=convert.text(record.description),
        tags=record.tags,
        default_queue_type=record.default_queue_type,
        protected_from_deletion=record.protected_from_deletion,
        limits=record.limits,
    )


def user(record: UserRecord) -> admin_pb2.User:
    """Never the hash."""
    has_password = record.password_hash is not None
    return admin_pb2.User(
        name=convert.text(record.name), tags=record.tags, has_password=has_password, limits=record.limits
    )


def permissions(record: PermissionRecord) -> admin_pb2.Permissions:
    return admin_pb2.Permissions(
        user=convert.text(record.user),
        vhost=convert.text(record.vhost),
        configure=record.configure,
        write=record.write,
        read=record.read,
    )


def topic_permissions(record: TopicPermissionRecord) -> admin_pb2.TopicPermissions:
    return admin_pb2.TopicPermissions(
        user=convert.text(record.user),
        vhost=convert.text(record.vhost),
        exchange=convert.text(record.exchange),
        write=record.write,
        read=record.read,
    )


def policy(record: PolicyRecord) -> admin_pb2.Policy:
    return admin_pb2.Policy(
        vhost=convert.text(record.vhost),
        name=convert.text(record.name),
        pattern=record.pattern,
        apply_to=record.apply_to,
        priority=record.priority,
        definition=convert.table(record.definition),
        operator=record.operator,
    )

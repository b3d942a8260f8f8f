"""What is declared and what is running, as stubs: one function for each kind of thing that a listing shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.operations.clients import ConsumerView
from broker.operations.node_facts import AlarmFacts, ListenerFacts
from broker.operations.resources import QueueView
from broker.operations.users import UserView
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from front.grpc import convert
from leveret.v1 import admin_pb2, topology_pb2

if TYPE_CHECKING:
    from broker.broker import Connection
    from broker.session import Session


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


def queue(view: QueueView) -> topology_pb2.Queue:
    record, figures = view.record, view.figures
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
        policy=view.policy or "",
        operator_policy=view.operator_policy or "",
        **counted,
    )


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


def channel(session: Session) -> admin_pb2.Channel:
    return admin_pb2.Channel(
        connection=convert.text(session.connection.name),
        number=session.number,
        user=convert.text(session.user),
        vhost=convert.text(session.vhost),
        statistics=convert.table(session.statistics()),
    )


def consumer(view: ConsumerView) -> admin_pb2.ConsumerInfo:
    return admin_pb2.ConsumerInfo(
        vhost=convert.text(view.vhost),
        queue=convert.text(view.queue),
        consumer_tag=convert.text(view.consumer_tag),
        connection=convert.text(view.connection),
        channel=view.channel,
        no_ack=view.no_ack,
        exclusive=view.exclusive,
        prefetch=view.prefetch,
        outstanding=view.outstanding,
        priority=view.priority,
        active=view.active,
        arguments=convert.table(view.arguments),
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


def user(view: UserView) -> admin_pb2.User:
    return admin_pb2.User(
        name=convert.text(view.name), tags=view.tags, has_password=view.has_password, limits=view.limits
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


def alarm(facts: AlarmFacts) -> admin_pb2.Alarm:
    return admin_pb2.Alarm(kind=facts.kind, reason=facts.reason, since_ms=facts.since_ms)


def listener(facts: ListenerFacts) -> admin_pb2.Listener:
    return admin_pb2.Listener(protocol=facts.protocol, address=facts.address, tls=facts.tls)

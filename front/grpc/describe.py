"""What is declared and what is running, as stubs: one function for each kind of thing that a listing shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.operations.clients import ConsumerView
from broker.operations.node_facts import AlarmFacts, ListenerFacts
from broker.operations.resources import QueueView
from broker.operations.stream_users import PublisherView, SubscriptionView
from broker.operations.users import UserView
from broker.queues.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from broker.session.delayed_messages import DelayedMessage
from front.grpc import convert
from front.grpc.stubs import stub_of
from leveret.v1 import admin_pb2, topology_pb2

if TYPE_CHECKING:
    from broker.client_connection import Connection
    from broker.session.session import Session

NO_FIGURES = QueueStatistics(state="")  # of a queue that is being opened


def exchange(record: ExchangeRecord) -> topology_pb2.Exchange:
    return stub_of(topology_pb2.Exchange, record)


def delayed(one: DelayedMessage) -> topology_pb2.DelayedMessage:
    (message,) = convert.messages(one.message.content, 0, 1)
    return topology_pb2.DelayedMessage(
        id=one.id,
        due_ms=one.due_ms,
        message=message,
        exchange=convert.text(one.message.exchange),
        routing_key=convert.text(one.message.routing_key),
    )


def binding(record: BindingRecord) -> topology_pb2.Binding:
    is_queue = record.destination_kind == "queue"
    kind = topology_pb2.DESTINATION_KIND_QUEUE if is_queue else topology_pb2.DESTINATION_KIND_EXCHANGE
    return stub_of(topology_pb2.Binding, record, destination_kind=kind)


def queue(view: QueueView) -> topology_pb2.Queue:
    notice = "" if view.mirroring is None else convert.text(view.mirroring.notice)
    return stub_of(topology_pb2.Queue, view.record, view, view.figures or NO_FIGURES, mirroring_notice=notice)


def connection(item: Connection) -> admin_pb2.Connection:
    statistics = convert.table(item.statistics())
    return stub_of(admin_pb2.Connection, item, connected_at_ms=item.connected_at, statistics=statistics)


def channel(session: Session) -> admin_pb2.Channel:
    connection, statistics = convert.text(session.connection.name), convert.table(session.statistics())
    return stub_of(admin_pb2.Channel, session, connection=connection, statistics=statistics)


def consumer(view: ConsumerView) -> admin_pb2.ConsumerInfo:
    return stub_of(admin_pb2.ConsumerInfo, view)


def stream_publisher(view: PublisherView) -> admin_pb2.StreamPublisher:
    return stub_of(admin_pb2.StreamPublisher, view, view.connection, connection=convert.text(view.connection.name))


def stream_consumer(view: SubscriptionView) -> admin_pb2.StreamConsumer:
    return stub_of(admin_pb2.StreamConsumer, view, view.connection, connection=convert.text(view.connection.name))


def vhost(record: VhostRecord) -> admin_pb2.Vhost:
    return stub_of(admin_pb2.Vhost, record)


def user(view: UserView) -> admin_pb2.User:
    return stub_of(admin_pb2.User, view)


def permissions(record: PermissionRecord) -> admin_pb2.Permissions:
    return stub_of(admin_pb2.Permissions, record)


def topic_permissions(record: TopicPermissionRecord) -> admin_pb2.TopicPermissions:
    return stub_of(admin_pb2.TopicPermissions, record)


def policy(record: PolicyRecord) -> admin_pb2.Policy:
    return stub_of(admin_pb2.Policy, record)


def alarm(facts: AlarmFacts) -> admin_pb2.Alarm:
    return stub_of(admin_pb2.Alarm, facts)


def listener(facts: ListenerFacts) -> admin_pb2.Listener:
    return stub_of(admin_pb2.Listener, facts)

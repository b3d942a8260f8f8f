"""How what is declared looks as JSON: the management API's field names, which tools know from RabbitMQ."""

from __future__ import annotations

from typing import Any

from broker.json_values import to_json
from broker.operations.resources import QueueView
from broker.operations.users import UserView
from broker.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    TopicPermissionRecord,
    VhostRecord,
)

Json = dict[str, Any]


def vhost_view(record: VhostRecord) -> Json:
    return {
        "name": record.name,
        "description": record.description,
        "tags": list(record.tags),
        "default_queue_type": record.default_queue_type,
        "metadata": {
            "description": record.description,
            "tags": list(record.tags),
            "default_queue_type": record.default_queue_type,
        },
        "tracing": False,
        "protected_from_deletion": record.protected_from_deletion,
    }


def user_view(user: UserView) -> Json:
    return {"name": user.name, "tags": list(user.tags), "limits": dict(user.limits)}


def permission_view(record: PermissionRecord) -> Json:
    return {
        "user": record.user,
        "vhost": record.vhost,
        "configure": record.configure,
        "write": record.write,
        "read": record.read,
    }


def topic_permission_view(record: TopicPermissionRecord) -> Json:
    return {
        "user": record.user,
        "vhost": record.vhost,
        "exchange": record.exchange,
        "write": record.write,
        "read": record.read,
    }


def exchange_view(record: ExchangeRecord) -> Json:
    return {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "internal": record.internal,
        "arguments": to_json(record.arguments),
    }


def binding_view(record: BindingRecord) -> Json:
    return {
        "source": record.source,
        "vhost": record.vhost,
        "destination": record.destination,
        "destination_type": record.destination_kind,
        "routing_key": record.routing_key,
        "arguments": to_json(record.arguments),
        "properties_key": record.routing_key or "~",
    }


def queue_view(view: QueueView) -> Json:
    """Without figures while it is being opened."""
    record = view.record
    return {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "exclusive": record.exclusive,
        "arguments": to_json(record.arguments),
        "node": record.home,
        "policy": view.policy,
        "operator_policy": view.operator_policy,
        **({} if view.figures is None else _figures(view.figures) | _details(record.kind, view.figures)),
    }


def _figures(statistics: QueueStatistics) -> Json:
    return {
        "state": statistics.state,
        "messages": statistics.ready + statistics.unacknowledged,
        "messages_ready": statistics.ready,
        "messages_unacknowledged": statistics.unacknowledged,
        "message_bytes": statistics.ready_bytes + statistics.unacknowledged_bytes,
        "message_bytes_ready": statistics.ready_bytes,
        "message_bytes_unacknowledged": statistics.unacknowledged_bytes,
        "messages_persistent": statistics.persistent,
        "messages_ram": statistics.ram,
        "consumers": statistics.consumers,
        "consumer_capacity": statistics.consumer_capacity,
        "memory": statistics.memory_bytes,
        "disk_reads": statistics.disk_reads,
        "disk_writes": statistics.disk_writes,
        "single_active_consumer_tag": statistics.single_active_consumer_tag,
    }


def _details(kind: str, statistics: QueueStatistics) -> Json:
    """What it is made of. Tools look for offsets, segments and readers of a stream beside its other figures."""
    found: Json = to_json(statistics.details)
    return found if kind == "stream" else {"backing_queue_status": found}

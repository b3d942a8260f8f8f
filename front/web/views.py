"""How what is declared looks as JSON: the management API's field names, which tools know from RabbitMQ."""

from __future__ import annotations

from typing import Any

from broker.json_values import to_json
from broker.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
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


def user_view(record: UserRecord) -> Json:
    """Never the password's hash: who may read users need not be able to attack their passwords."""
    return {"name": record.name, "tags": list(record.tags), "limits": dict(record.limits)}


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


def queue_view(record: QueueRecord, statistics: QueueStatistics) -> Json:
    return {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "exclusive": record.exclusive,
        "arguments": to_json(record.arguments),
        "node": record.home,
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
        "backing_queue_status": to_json(statistics.details),
    }

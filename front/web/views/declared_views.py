"""How what is declared looks as JSON: the management API's field names, which tools know from RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.json_values import to_json
from broker.operations.resources import QueueView
from broker.operations.users import UserView
from broker.queues.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from front.web.samples.figures import SampledFigures
from front.web.samples.shapes import DATA, HANDED_OUT, MESSAGE_RATES, MESSAGES, OF_MESSAGES, QUEUE, SESSION
from front.web.views.binding_keys import properties_key
from front.web.views.client_views import peer_view

Json = dict[str, Any]
# Of a quorum queue, by our own names.
REPLICATED = {
    "delayed": "messages_delayed",
    "next_delayed_at": "next_delayed_at",
    "dead": "messages_dlx",
    "dead_bytes": "message_bytes_dlx",
    "delivery_limit": "delivery_limit",
}
# A queue counts what was got together, and no get of nothing.
TRAFFIC = (*QUEUE.parts[MESSAGE_RATES], "get_no_ack", "get_empty", *HANDED_OUT)


def vhost_view(record: VhostRecord, figures: SampledFigures, nodes: Iterable[str]) -> Json:
    """`nodes`: those that have said what they have of it."""
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
        "tracing": record.tracing,
        "protected_from_deletion": record.protected_from_deletion,
        "cluster_state": dict.fromkeys(nodes, "running"),
        **figures.shown((*OF_MESSAGES, *MESSAGES, *DATA)),
        **_traffic(figures, (*SESSION, *HANDED_OUT)),
    }


def _traffic(figures: SampledFigures, names: tuple[str, ...]) -> Json:
    """Nothing where there never was any."""
    return {"message_stats": figures.shown(names)} if any(figures.counts.get(name, 0) for name in names) else {}


def user_view(user: UserView) -> Json:
    """Whoever puts back what was shown changes nothing."""
    return {
        "name": user.name,
        "tags": list(user.tags),
        "limits": dict(user.limits),
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
    }


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
        "properties_key": properties_key(record),
    }


def queue_view(view: QueueView, sampled: SampledFigures) -> Json:
    """Counts of one that is being opened are 0."""
    record = view.record
    figures = view.figures or QueueStatistics(state="starting")
    return {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "exclusive": record.exclusive,
        "arguments": {"x-queue-type": record.kind, **to_json(record.arguments)},
        "node": record.home,
        "policy": view.policy,
        "operator_policy": view.operator_policy,
        "effective_policy_definition": to_json(view.effective.definition),
        "internal": False,
        "internal_owner": False,
        **sampled.shown((*OF_MESSAGES, *MESSAGES)),
        **_sizes(figures),
        **_state(figures),
        **_traffic(sampled, TRAFFIC),
        **_details(record.kind, figures),
        **_mirroring(view),
        **({} if view.owner is None else {"owner_pid_details": peer_view(view.owner)}),
    }


def _mirroring(view: QueueView) -> Json:
    """As tools for RabbitMQ 3.x read it, where somebody wants the queue mirrored. Members that are behind never lead, so all
    of them count as synchronised."""
    told = view.mirroring
    if told is None:
        return {}
    others = list(view.others)
    shown = {"slave_nodes": others, "synchronised_slave_nodes": others, "recoverable_slaves": others}
    return {**shown, "mirroring": {"mode": told.mode, "active": told.active, "notice": told.notice}}


def _sizes(figures: QueueStatistics) -> Json:
    return {
        "message_bytes": figures.ready_bytes + figures.unacknowledged_bytes,
        "message_bytes_ready": figures.ready_bytes,
        "message_bytes_unacknowledged": figures.unacknowledged_bytes,
        "message_bytes_persistent": figures.persistent_bytes,
        "message_bytes_ram": figures.ram_bytes,
        "messages_persistent": figures.persistent,
        "messages_ram": figures.ram,
    }


def _state(figures: QueueStatistics) -> Json:
    return {
        "state": figures.state,
        "consumers": figures.consumers,
        "consumer_capacity": figures.consumer_capacity,
        "consumer_utilisation": figures.consumer_capacity,
        "memory": figures.memory_bytes,
        "disk_reads": figures.disk_reads,
        "disk_writes": figures.disk_writes,
        "exclusive_consumer_tag": figures.exclusive_consumer_tag,
        "single_active_consumer_tag": figures.single_active_consumer_tag,
        "head_message_timestamp": figures.head_timestamp,
    }


def _details(kind: str, figures: QueueStatistics) -> Json:
    """What it is made of. Tools look for offsets, segments and readers of a stream beside its other figures."""
    found: Json = to_json(figures.details)
    if kind == "classic":
        return {"backing_queue_status": found, "storage_version": 2}
    if kind == "stream":
        return {"reader_details" if name == "readers" else name: value for name, value in found.items()}
    return {"backing_queue_status": found, **_replicated(found)}


def _replicated(details: Json) -> Json:
    return {name: details[ours] for ours, name in REPLICATED.items() if ours in details}

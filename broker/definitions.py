"""Definitions: everything declared as one document in RabbitMQ's form. definitions_reader.py makes commands of one.

    whole node   users, vhosts, permissions, topic_permissions, global_parameters, and the next line with the vhost in each item
    one vhost    parameters, policies, exchanges, queues, bindings

Exclusive queues belong to their connections and are left out, and so is what every vhost has by itself. There are no messages
in it, and the hashes of passwords only when they are asked for: without them users keep the password that they have where the
document is imported, and new ones have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from broker.catalog import Catalog
from broker.names import RESERVED_PREFIX
from broker.records import PolicyRecord, UserRecord, VhostRecord

Json = dict[str, Any]

# Parameters in which RabbitMQ keeps what are things of their own here.
OPERATOR_POLICIES = "operator_policy"
VHOST_LIMITS = "vhost-limits"
RIGHTS = ("configure", "write", "read")


class PasswordHashes(Protocol):
    """How kept passwords are written down for another node."""

    def exported(self, kept: str) -> tuple[str, str]:
        """The algorithm's name and the hash."""

    def imported(self, algorithm: str, password_hash: str) -> str:
        """What to keep. Raises PreconditionFailed."""


def exported(catalog: Catalog, hashes: PasswordHashes | None) -> Json:
    """The whole node; without `hashes` nothing of passwords."""
    vhosts = list(catalog.vhosts)
    return {
        "users": [_user(record, hashes) for record in catalog.users.values()],
        "vhosts": [_vhost(record) for record in catalog.vhosts.values()],
        "permissions": [_fields(record, "user", "vhost", *RIGHTS) for record in catalog.all_permissions()],
        "topic_permissions": [
            _fields(record, "user", "vhost", "exchange", "write", "read") for record in catalog.all_topic_permissions()
        ],
        "global_parameters": [
            {"name": record.name, "value": record.value} for record in catalog.parameters() if not record.vhost
        ],
        **{
            part: [{"vhost": vhost, **item} for vhost in vhosts for item in items(catalog, vhost)]
            for part, items in PARTS_OF_VHOST.items()
        },
    }


def exported_vhost(catalog: Catalog, vhost: str) -> Json:
    """One vhost. Raises NotFound."""
    catalog.namespace(vhost)
    return {part: list(items(catalog, vhost)) for part, items in PARTS_OF_VHOST.items()}


def _fields(record: object, *names: str) -> Json:
    return {name: getattr(record, name) for name in names}


def _user(record: UserRecord, hashes: PasswordHashes | None) -> Json:
    fields = {"name": record.name, "tags": list(record.tags), "limits": dict(record.limits)}
    if hashes is None:
        return fields
    if record.password_hash is None:
        return {**fields, "password_hash": ""}
    algorithm, password_hash = hashes.exported(record.password_hash)
    return {**fields, "password_hash": password_hash, "hashing_algorithm": algorithm}


def _vhost(record: VhostRecord) -> Json:
    return {
        "name": record.name,
        "metadata": {
            "description": record.description,
            "tags": list(record.tags),
            "default_queue_type": record.default_queue_type,
            "protected_from_deletion": record.protected_from_deletion,
        },
        "limits": dict(record.limits),
    }


def _parameters(catalog: Catalog, vhost: str) -> Iterator[Json]:
    for policy in catalog.policies(vhost, operator=True):
        yield {"component": OPERATOR_POLICIES, "name": policy.name, "value": _policy_value(policy)}
    limits = catalog.vhosts[vhost].limits
    if limits:
        yield {"component": VHOST_LIMITS, "name": "limits", "value": dict(limits)}
    for record in catalog.parameters():
        if record.vhost == vhost:
            yield _fields(record, "component", "name", "value")


def _policies(catalog: Catalog, vhost: str) -> Iterator[Json]:
    return ({"name": policy.name, **_policy_value(policy)} for policy in catalog.policies(vhost))


def _policy_value(policy: PolicyRecord) -> Json:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": dict(policy.definition),
    }


def _exchanges(catalog: Catalog, vhost: str) -> Iterator[Json]:
    for record in catalog.exchanges(vhost):
        if not record.name.startswith(RESERVED_PREFIX):
            fields = _fields(record, "name", "durable", "auto_delete", "internal", "arguments")
            yield {**fields, "type": record.kind}


def _queues(catalog: Catalog, vhost: str) -> Iterator[Json]:
    for record in catalog.queues(vhost):
        if not record.exclusive:
            yield {**_fields(record, "name", "durable", "auto_delete", "arguments"), "type": record.kind}


def _bindings(catalog: Catalog, vhost: str) -> Iterator[Json]:
    for record in catalog.bindings(vhost):
        queue = catalog.queue(vhost, record.destination) if record.destination_kind == "queue" else None
        if queue is None or not queue.exclusive:
            fields = _fields(record, "source", "destination", "routing_key", "arguments")
            yield {**fields, "destination_type": record.destination_kind}


PARTS_OF_VHOST: dict[str, Callable[[Catalog, str], Iterable[Json]]] = {
    "parameters": _parameters,
    "policies": _policies,
    "exchanges": _exchanges,
    "queues": _queues,
    "bindings": _bindings,
}

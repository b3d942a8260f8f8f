"""Definitions: everything declared as one document in RabbitMQ's form. definitions_reader.py makes commands of one.

    whole node   users, vhosts, permissions, topic_permissions, global_parameters, and the next line with the vhost in each item
    one vhost    parameters, policies, exchanges, queues, bindings

Exclusive queues belong to their connections and are left out, and so is what every vhost has by itself. There are no messages
in it, and no hashes of passwords unless they are asked for: without them users keep the password that they have where the
document is imported, and new ones have none. A hash that RabbitMQ does not know stands under keys that it passes over: its
users have no password there, until they are given one.

What is declared is looked at in one go, so that a document holds together; its items are made as they are asked for, which with
thousands of queues is to be done over several turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

from broker.catalog.catalog import Catalog
from broker.names import RESERVED_PREFIX, is_of_the_broker
from broker.records import ExchangeRecord, PolicyRecord, UserRecord, VhostRecord

Json = dict[str, Any]
Parts = dict[str, Iterator[Json]]

CLUSTER, ONE_VHOST = "cluster", "single_virtual_host"  # forms of documents
DEFAULT_HASHING = "rabbit_password_hashing_sha256"  # where a user does not say how the password was hashed
RABBITMQ_HASHINGS = "rabbit_"  # how their names begin
LEVERET_HASHING, LEVERET_HASH = "leveret_hashing_algorithm", "leveret_password_hash"

# Parameters in which RabbitMQ keeps what are things of their own here.
OPERATOR_POLICIES = "operator_policy"
VHOST_LIMITS = "vhost-limits"
RIGHTS = ("configure", "write", "read")


class PasswordHashes(Protocol):
    """How kept passwords are written down for another node."""

    def exported(self, kept: str) -> tuple[str, str]:
        """The algorithm's name and the hash."""

    def imported(self, algorithm: str, password_hash: str) -> str:
        """What to keep; an empty name means the algorithm that fits. Raises PreconditionFailed."""


def exported(catalog: Catalog, hashes: PasswordHashes | None) -> Parts:
    """The whole node; without `hashes` nothing of passwords."""
    global_parameters = [record for record in catalog.parameters() if not record.vhost]
    return {
        "users": (_user(record, hashes) for record in list(catalog.users.values())),
        "vhosts": (_vhost(record) for record in list(catalog.vhosts.values())),
        "permissions": (_fields(record, "user", "vhost", *RIGHTS) for record in list(catalog.all_permissions())),
        "topic_permissions": (
            _fields(record, "user", "vhost", "exchange", "write", "read")
            for record in list(catalog.all_topic_permissions())
        ),
        "global_parameters": ({"name": record.name, "value": record.value} for record in global_parameters),
        **{
            part: chain.from_iterable([_in_vhost(vhost, items(catalog, vhost)) for vhost in catalog.vhosts])
            for part, items in PARTS_OF_VHOST.items()
        },
    }


def exported_vhost(catalog: Catalog, vhost: str) -> Parts:
    """One vhost. Raises NotFound."""
    catalog.namespace(vhost)
    return {part: items(catalog, vhost) for part, items in PARTS_OF_VHOST.items()}


def _in_vhost(vhost: str, items: Iterator[Json]) -> Iterator[Json]:
    return ({"vhost": vhost, **item} for item in items)


def _fields(record: object, *names: str) -> Json:
    return {name: getattr(record, name) for name in names}


def _user(record: UserRecord, hashes: PasswordHashes | None) -> Json:
    fields = {"name": record.name, "tags": list(record.tags), "limits": dict(record.limits)}
    if hashes is None:
        return fields
    if record.password_hash is None:
        return {**fields, "password_hash": "", "hashing_algorithm": DEFAULT_HASHING}
    algorithm, password_hash = hashes.exported(record.password_hash)
    if algorithm.startswith(RABBITMQ_HASHINGS):
        return {**fields, "password_hash": password_hash, "hashing_algorithm": algorithm}
    own = {LEVERET_HASH: password_hash, LEVERET_HASHING: algorithm}
    return {**fields, "password_hash": "", "hashing_algorithm": DEFAULT_HASHING, **own}


def _vhost(record: VhostRecord) -> Json:
    return {"name": record.name, "metadata": _metadata(record), "limits": dict(record.limits)}


def one_vhost_head(record: VhostRecord) -> Json:
    """What a document of one vhost says of itself."""
    return {
        "original_vhost_name": record.name,
        "explanation": f"Definitions of virtual host '{record.name}'",
        "description": record.description,
        "metadata": _metadata(record),
        "limits": dict(record.limits),
    }


def _metadata(record: VhostRecord) -> Json:
    """As RabbitMQ has it: that a vhost is protected is said only where it is."""
    words = {
        "description": record.description,
        "tags": list(record.tags),
        "default_queue_type": record.default_queue_type,
    }
    return {**words, "protected_from_deletion": True} if record.protected_from_deletion else words


def parameters_of(catalog: Catalog, vhost: str) -> Iterator[Json]:
    """Also what RabbitMQ keeps as parameters."""
    policies = list(catalog.policies(vhost, operator=True))
    limits = catalog.vhosts[vhost].limits
    records = [record for record in catalog.parameters() if record.vhost == vhost]
    return chain(
        ({"component": OPERATOR_POLICIES, "name": policy.name, "value": _policy_value(policy)} for policy in policies),
        [{"component": VHOST_LIMITS, "name": "limits", "value": dict(limits)}] if limits else [],
        (_fields(record, "component", "name", "value") for record in records),
    )


def _policies(catalog: Catalog, vhost: str) -> Iterator[Json]:
    return ({"name": policy.name, **_policy_value(policy)} for policy in list(catalog.policies(vhost)))


def _policy_value(policy: PolicyRecord) -> Json:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": dict(policy.definition),
    }


def _exchanges(catalog: Catalog, vhost: str) -> Iterator[Json]:
    records = [record for record in catalog.exchanges(vhost) if not record.name.startswith(RESERVED_PREFIX)]
    names = ("name", "durable", "auto_delete", "arguments")
    return ({**_fields(record, *names), "type": record.kind, **_internal(record)} for record in records)


def _internal(record: ExchangeRecord) -> Json:
    """RabbitMQ exports no such exchanges, so it is said where it is so."""
    return {"internal": True} if record.internal else {}


def _queues(catalog: Catalog, vhost: str) -> Iterator[Json]:
    records = [record for record in catalog.queues(vhost) if not record.exclusive and not is_of_the_broker(record.name)]
    return (
        {**_fields(record, "name", "durable", "auto_delete", "arguments"), "type": record.kind} for record in records
    )


def _bindings(catalog: Catalog, vhost: str) -> Iterator[Json]:
    exclusive = {record.name for record in catalog.queues(vhost) if record.exclusive}
    records = [
        record
        for record in catalog.bindings(vhost)
        if record.destination_kind != "queue" or record.destination not in exclusive
    ]
    names = ("source", "destination", "routing_key", "arguments")
    return ({**_fields(record, *names), "destination_type": record.destination_kind} for record in records)


PARTS_OF_VHOST: dict[str, Callable[[Catalog, str], Iterator[Json]]] = {
    "parameters": parameters_of,
    "policies": _policies,
    "exchanges": _exchanges,
    "queues": _queues,
    "bindings": _bindings,
}

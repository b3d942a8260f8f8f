"""What a command of a document would change in a catalog, for people: made, overwritten or kept, and what becomes of a field.

Exchanges, queues and bindings that are there are kept as they are. Nothing here says a password or its hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command
from broker.catalog.proposed_queue import proposed_queue
from broker.limits import given_limits
from broker.names import labelled
from broker.records import PermissionRecord, PolicyRecord, QueueRecord, TopicPermissionRecord

MADE, OVERWRITTEN, KEPT, SKIPPED = "made", "overwritten", "kept", "skipped"
DECLARED = (commands.DeclareExchange, commands.DeclareQueue, commands.Bind)
SECRET = "password_hash"
OF_QUEUE = ("kind", "durable", "auto_delete")
KIND_ARGUMENT = "x-queue-type"  # which a queue that is declared has in any case


@dataclass(slots=True, frozen=True)
class DefinitionEffect:
    """What became of an entry, or would."""

    where: str
    what: str  # a thing, by its name
    effect: str
    text: str = ""  # how it differs from what is there, or why it was skipped


def effect_of(catalog: Catalog, where: str, command: Command) -> DefinitionEffect:
    """Before the command is applied."""
    name, find = _FIND[type(command)]
    current, wanted = find(catalog, command)
    what = name(command)
    if current is None:
        return DefinitionEffect(where, what, MADE)
    text = _difference(current, wanted)
    if isinstance(command, DECLARED):
        return DefinitionEffect(where, what, KEPT, f"it stays as it is: {text}" if text else "")
    return DefinitionEffect(where, what, OVERWRITTEN if text else KEPT, text)


def _difference(current: dict[str, Any], wanted: dict[str, Any]) -> str:
    return ", ".join([_field(name, value, wanted[name]) for name, value in current.items() if wanted[name] != value])


def _field(name: str, value: Any, wanted: Any) -> str:
    return "password" if name == SECRET else f"{name} {value!r}, in the document {wanted!r}"


Compared = tuple[dict[str, Any] | None, dict[str, Any]]  # what is there, and what is wanted


def _values(record: Any) -> dict[str, Any] | None:
    return None if record is None else {field.name: getattr(record, field.name) for field in fields(record)}


def _records(current: Any, wanted: Any) -> Compared:
    return _values(current), _values(wanted) or {}


def _limits(current: dict[str, int] | None, wanted: dict[str, int]) -> Compared:
    return ({"limits": dict(current)} if current else None), {"limits": given_limits(wanted)}


def _user(catalog: Catalog, command: commands.PutUser) -> Compared:
    current = catalog.users.get(command.record.name)
    return _records(current, command.record if current is None else replace(command.record, limits=current.limits))


def _vhost(catalog: Catalog, command: commands.PutVhost) -> Compared:
    current = catalog.vhosts.get(command.record.name)
    return _records(current, command.record if current is None else replace(command.record, limits=current.limits))


def _topic_permission(catalog: Catalog, command: commands.PutTopicPermission) -> Compared:
    one = command.record
    return _records(catalog.topic_permissions(one.user, one.vhost).get(one.exchange), one)


def _parameter(catalog: Catalog, command: commands.SetParameter) -> Compared:
    one = command.record
    return _records(catalog.parameter(one.vhost, one.component, one.name), one)


def _policy(catalog: Catalog, command: commands.PutPolicy) -> Compared:
    one = command.record
    return _records(catalog.policy(one.vhost, one.name, one.operator), one)


def _queue(catalog: Catalog, command: commands.DeclareQueue) -> Compared:
    current, wanted = catalog.queue(command.vhost, command.name), proposed_queue(command, catalog.vhosts)
    return (None if current is None else _queue_values(current)), _queue_values(wanted)


def _queue_values(record: QueueRecord) -> dict[str, Any]:
    arguments = {name: value for name, value in record.arguments.items() if name != KIND_ARGUMENT}
    return {**{name: getattr(record, name) for name in OF_QUEUE}, "arguments": arguments}


def _binding(catalog: Catalog, command: commands.Bind) -> Compared:
    return ({} if catalog.has_binding(command.record) else None), {}


def _named_policy(one: PolicyRecord) -> str:
    return labelled("operator policy" if one.operator else "policy", one.name, one.vhost)


def _permitted(one: PermissionRecord | TopicPermissionRecord) -> str:
    of_exchange = f", exchange '{one.exchange}'" if isinstance(one, TopicPermissionRecord) else ""
    return f"permission of user '{one.user}' in vhost '{one.vhost}'{of_exchange}"


def _named_parameter(command: commands.SetParameter) -> str:
    one = command.record
    name = f"{one.component} '{one.name}'" if one.component else f"global parameter '{one.name}'"
    return f"{name} in vhost '{one.vhost}'" if one.vhost else name


def _named_binding(command: commands.Bind) -> str:
    one = command.record
    return (
        f"binding of {one.destination_kind} '{one.destination}' to exchange '{one.source}' in vhost '{one.vhost}' with key "
        f"'{one.routing_key}'"
    )


# How a thing is named, and how it is compared.
_FIND: dict[type[Any], tuple[Callable[[Any], str], Callable[[Catalog, Any], Compared]]] = {
    commands.PutVhost: (lambda one: f"vhost '{one.record.name}'", _vhost),
    commands.PutUser: (lambda one: f"user '{one.record.name}'", _user),
    commands.SetVhostLimits: (
        lambda one: f"limits of vhost '{one.vhost}'",
        lambda catalog, one: _limits(
            catalog.vhosts[one.vhost].limits if one.vhost in catalog.vhosts else {}, one.limits
        ),
    ),
    commands.SetUserLimits: (
        lambda one: f"limits of user '{one.user}'",
        lambda catalog, one: _limits(catalog.users[one.user].limits if one.user in catalog.users else {}, one.limits),
    ),
    commands.PutPermission: (
        lambda one: _permitted(one.record),
        lambda catalog, one: _records(catalog.permissions(one.record.user, one.record.vhost), one.record),
    ),
    commands.PutTopicPermission: (lambda one: _permitted(one.record), _topic_permission),
    commands.SetParameter: (_named_parameter, _parameter),
    commands.PutPolicy: (lambda one: _named_policy(one.record), _policy),
    commands.DeclareExchange: (
        lambda one: labelled("exchange", one.record.name, one.record.vhost),
        lambda catalog, one: _records(catalog.exchange(one.record.vhost, one.record.name), one.record),
    ),
    commands.DeclareQueue: (lambda one: labelled("queue", one.name, one.vhost), _queue),
    commands.Bind: (_named_binding, _binding),
}

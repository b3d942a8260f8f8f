"""What lies between two catalogs, said in commands: for those who follow what is declared, when a snapshot skips the entries
that changed it. In an order in which nothing is there before what it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, Record
from broker.records import (
    BindingRecord,
    ClaimBeatRecord,
    ClaimRecord,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from node.catalog.catalog_store import key_of

Told = tuple[Command, Any]  # a command, and what it would have answered


def difference(before: Iterable[Record], after: Iterable[Record]) -> Iterator[Told]:
    """Both in the order of `Catalog.records`."""
    old = {key_of(record): record for record in before}
    new = {key_of(record): record for record in after}
    for key, record in reversed(old.items()):
        if key not in new or is_another(record, new[key]):
            yield _GONE[type(record)](record)
    for key, record in new.items():
        if key not in old or is_another(record, old[key]):
            yield _HERE[type(record)](record)
        elif record != old[key]:
            yield _CHANGED[type(record)](record)


def is_another(record: Record, other: Record) -> bool:
    """Whether one had to go before the other could come, although they have the same name."""
    if isinstance(record, QueueRecord) and isinstance(other, QueueRecord):
        return record.id != other.id
    return isinstance(record, ExchangeRecord) and record != other


def _declared(record: QueueRecord) -> Told:
    command = commands.DeclareQueue(
        record.vhost, record.name, record.kind, record.durable, record.exclusive, record.auto_delete, record.arguments,
        record.home, record.owner, record.members,
    )  # fmt: skip
    return command, record


_GONE: dict[type[Any], Callable[[Any], Told]] = {
    NodeRecord: lambda one: (commands.RemoveNode(one.name), []),
    VhostRecord: lambda one: (commands.DeleteVhost(one.name), []),
    UserRecord: lambda one: (commands.DeleteUser(one.name), one),
    PermissionRecord: lambda one: (commands.DeletePermission(one.user, one.vhost), one),
    TopicPermissionRecord: lambda one: (commands.DeleteTopicPermission(one.user, one.vhost, one.exchange), [one]),
    ExchangeRecord: lambda one: (commands.DeleteExchange(one.vhost, one.name), one),
    QueueRecord: lambda one: (commands.DeleteQueue(one.vhost, one.name, one.id), one),
    BindingRecord: lambda one: (commands.Unbind(one), True),
    PolicyRecord: lambda one: (commands.DeletePolicy(one.vhost, one.name, one.operator), one),
    ParameterRecord: lambda one: (commands.ClearParameter(one.vhost, one.component, one.name), one),
    ClaimBeatRecord: lambda one: (commands.RenewClaims(one.node), 0),
    ClaimRecord: lambda one: (commands.ReleaseClaim(one), True),
}
_HERE: dict[type[Any], Callable[[Any], Told]] = {
    NodeRecord: lambda one: (commands.AddNode(one), one),
    VhostRecord: lambda one: (commands.PutVhost(one), one),
    UserRecord: lambda one: (commands.PutUser(one), one),
    PermissionRecord: lambda one: (commands.PutPermission(one), one),
    TopicPermissionRecord: lambda one: (commands.PutTopicPermission(one), one),
    ExchangeRecord: lambda one: (commands.DeclareExchange(one), one),
    QueueRecord: _declared,
    BindingRecord: lambda one: (commands.Bind(one), one),
    PolicyRecord: lambda one: (commands.PutPolicy(one), one),
    ParameterRecord: lambda one: (commands.SetParameter(one), one),
    ClaimBeatRecord: lambda one: (commands.RenewClaims(one.node), one.beat),
    ClaimRecord: lambda one: (commands.TakeClaim(one), one),
}
_CHANGED: dict[type[Any], Callable[[Any], Told]] = {
    **_HERE,
    NodeRecord: lambda one: (commands.PutNode(one), one),
    QueueRecord: lambda one: (
        commands.SetQueueMembers(one.vhost, one.name, one.id, one.members, one.formed, True),
        one,
    ),
}

"""What lies between two catalogs, said in commands: for those who follow what is declared, when a snapshot skips the entries
that changed it. In an order in which nothing is there before what it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from broker import records
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, Record
from broker.catalog.parts.catalog_conversions import Converted
from broker.names import becoming_queue, is_becoming
from node.catalog.catalog_store import key_of

Told = tuple[Command, Any]  # a command, and what it would have answered


def difference(before: Iterable[Record], after: Iterable[Record]) -> Iterator[Told]:
    """Both in the order of `Catalog.records`."""
    old = {key_of(record): record for record in before}
    new = {key_of(record): record for record in after}
    converted = {one.now.id: one for one in _conversions(old, new)}
    known = {_queue_id(record) for record in old.values()}
    passed = {one.before.id for one in converted.values()} | converted.keys()
    for key, record in reversed(old.items()):
        if (key not in new or is_another(record, new[key])) and _queue_id(record) not in passed:
            yield _GONE[type(record)](record)
    for key, record in new.items():
        if (one := converted.get(_queue_id(record) or 0)) is not None:
            if one.now.id not in known:  # it was declared beside the other one meanwhile
                yield _declared(replace(one.now, name=becoming_queue(one.now.name), was=0))
            yield _converted(one)
            yield _CHANGED[records.QueueRecord](record)  # its members may be others, too
        elif key not in old or is_another(record, old[key]):
            yield _HERE[type(record)](record)
        elif record != old[key]:
            yield _CHANGED[type(record)](record)


def is_another(record: Record, other: Record) -> bool:
    """Whether one had to go before the other could come, although they have the same name."""
    if isinstance(record, records.QueueRecord) and isinstance(other, records.QueueRecord):
        return record.id != other.id
    return isinstance(record, records.ExchangeRecord) and record != other


def _conversions(old: dict[bytes, Record], new: dict[bytes, Record]) -> Iterator[Converted]:
    """Queues that have taken the places of others. An earlier version does not say in their records of which."""
    beside = {
        record.id for record in old.values() if isinstance(record, records.QueueRecord) and is_becoming(record.name)
    }
    for key, record in new.items():
        former = old.get(key)
        if not isinstance(record, records.QueueRecord) or not isinstance(former, records.QueueRecord):
            continue
        if former.id != record.id and (record.was == former.id or (not record.was and record.id in beside)):
            yield Converted(former, record)


def _queue_id(record: Record) -> int | None:
    return record.id if isinstance(record, records.QueueRecord) else None


def _converted(one: Converted) -> Told:
    return commands.ConvertQueue(one.now.vhost, one.now.name, one.before.id, one.now.id), one


def _declared(record: records.QueueRecord) -> Told:
    command = commands.DeclareQueue(
        record.vhost, record.name, record.kind, record.durable, record.exclusive, record.auto_delete, record.arguments,
        record.home, record.owner, record.members,
    )  # fmt: skip
    return command, record


_GONE: dict[type[Any], Callable[[Any], Told]] = {
    records.NodeRecord: lambda one: (commands.RemoveNode(one.name), []),
    records.VhostRecord: lambda one: (commands.DeleteVhost(one.name), []),
    records.UserRecord: lambda one: (commands.DeleteUser(one.name), one),
    records.PermissionRecord: lambda one: (commands.DeletePermission(one.user, one.vhost), one),
    records.TopicPermissionRecord: lambda one: (
        commands.DeleteTopicPermission(one.user, one.vhost, one.exchange),
        [one],
    ),
    records.ExchangeRecord: lambda one: (commands.DeleteExchange(one.vhost, one.name), one),
    records.QueueRecord: lambda one: (commands.DeleteQueue(one.vhost, one.name, one.id), one),
    records.BindingRecord: lambda one: (commands.Unbind(one), True),
    records.PolicyRecord: lambda one: (commands.DeletePolicy(one.vhost, one.name, one.operator), one),
    records.ParameterRecord: lambda one: (commands.ClearParameter(one.vhost, one.component, one.name), one),
    records.ClaimBeatRecord: lambda one: (commands.RenewClaims(one.node), 0),
    records.ClaimRecord: lambda one: (commands.ReleaseClaim(one), True),
}
_HERE: dict[type[Any], Callable[[Any], Told]] = {
    records.NodeRecord: lambda one: (commands.AddNode(one), one),
    records.VhostRecord: lambda one: (commands.PutVhost(one), one),
    records.UserRecord: lambda one: (commands.PutUser(one), one),
    records.PermissionRecord: lambda one: (commands.PutPermission(one), one),
    records.TopicPermissionRecord: lambda one: (commands.PutTopicPermission(one), one),
    records.ExchangeRecord: lambda one: (commands.DeclareExchange(one), one),
    records.QueueRecord: _declared,
    records.BindingRecord: lambda one: (commands.Bind(one), one),
    records.PolicyRecord: lambda one: (commands.PutPolicy(one), one),
    records.ParameterRecord: lambda one: (commands.SetParameter(one), one),
    records.ClaimBeatRecord: lambda one: (commands.RenewClaims(one.node), one.beat),
    records.ClaimRecord: lambda one: (commands.TakeClaim(one), one),
}
_CHANGED: dict[type[Any], Callable[[Any], Told]] = {
    **_HERE,
    records.NodeRecord: lambda one: (commands.PutNode(one), one),
    records.QueueRecord: lambda one: (
        commands.SetQueueMembers(one.vhost, one.name, one.id, one.members, one.formed, True),
        one,
    ),
}

"""What an entry of the metadata log says, for people: which command, when it was given, and by whom. Never a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, UnknownVersion
from broker.catalog.commands.metadata_entry import Origin, WhenAndWho, decode_whole, head_bytes
from broker.errors import bounded
from broker.login.audit import description

WITHHELD = "withheld: it holds a secret, and this is from an export without contents"
NAMED_BY = ("vhost", "source", "destination", "name")  # fields of commands and their records


class EntryWords(NamedTuple):
    """One entry."""

    what: str  # the command, or why it is not known
    command: Command | None = None
    origin: Origin | None = None
    said: WhenAndWho | None = None


def words_of(data: bytes) -> EntryWords:
    try:
        origin, said, command = decode_whole(data)
    except UnknownVersion as error:
        rest = data[head_bytes(data) :]
        return EntryWords(WITHHELD if rest and not any(rest) else str(error))  # node/exporting/withheld_contents.py
    return EntryWords(_what(command), command, origin, said)


def _what(command: Command) -> str:
    described = description(command)
    if described is not None:
        return described
    describe = _DESCRIBE.get(type(command))
    return type(command).__name__ + " " + object_of(command) if describe is None else describe(command)


def object_of(command: Any) -> str:
    """What it is about."""
    record = getattr(command, "record", command)
    return " ".join([f"{field} '{getattr(record, field)}'" for field in NAMED_BY if hasattr(record, field)])


def _declare_queue(one: commands.DeclareQueue) -> str:
    kind = one.kind or one.arguments.get("x-queue-type")
    what = "queue" if kind is None else f"{kind} queue"  # None: of the vhost's default kind
    return f"declare {what} '{one.name}' in vhost '{one.vhost}'{_flags(one)}"


def _declare_exchange(one: commands.DeclareExchange) -> str:
    record = one.record
    return f"declare {record.kind} exchange '{record.name}' in vhost '{record.vhost}'{_flags(record)}"


def _flags(one: Any) -> str:
    names = [name for name in ("durable", "exclusive", "auto_delete", "internal") if getattr(one, name, False)]
    return "".join(f", {name}" for name in names) + _arguments(one)


def _arguments(one: Any) -> str:
    return f", arguments {bounded(str(one.arguments))}" if one.arguments else ""


def _bind(one: commands.Bind | commands.Unbind) -> str:
    record = one.record
    verb, where = ("bind", "to") if isinstance(one, commands.Bind) else ("unbind", "from")
    return (
        f"{verb} {record.destination_kind} '{record.destination}' {where} exchange '{record.source}' in vhost "
        f"'{record.vhost}' with key '{record.routing_key}'{_arguments(record)}"
    )


def _claimed(one: commands.TakeClaim | commands.ReleaseClaim) -> str:
    where = f" in vhost '{one.record.vhost}'" if one.record.vhost else ""
    return f"{one.record.kind} '{one.record.name}'{where}"


# What clients declare, and what nodes say of themselves: nothing of it is secret.
_DESCRIBE: dict[type[Any], Callable[[Any], str]] = {
    commands.DeclareQueue: _declare_queue,
    commands.DeleteQueue: lambda one: f"delete queue '{one.name}' in vhost '{one.vhost}'",
    commands.UseQueue: lambda one: (
        f"queue '{one.name}' in vhost '{one.vhost}' is about to be deleted, if it is still unused"
    ),
    commands.DeclareExchange: _declare_exchange,
    commands.DeleteExchange: lambda one: f"delete exchange '{one.name}' in vhost '{one.vhost}'",
    commands.Bind: _bind,
    commands.Unbind: _bind,
    commands.ConvertQueue: lambda one: (
        f"queue '{one.name}' in vhost '{one.vhost}' is a quorum queue, number {one.becomes}"
    ),
    commands.SetQueueMembers: lambda one: (
        f"queue '{one.name}' in vhost '{one.vhost}' has {len(one.members)} members, as of entry {one.formed} of its log"
    ),
    commands.SetClusterId: lambda one: f"the cluster has the id {one.id}",
    commands.NodeStarted: lambda one: f"node '{one.name}' has started",
    commands.TakeClaim: lambda one: f"{_claimed(one)} runs on node '{one.record.node}'",
    commands.RenewClaims: lambda one: f"node '{one.node}' holds its claims",
    commands.ReleaseClaim: lambda one: f"{_claimed(one)} runs on node '{one.record.node}' no more",
    commands.NodeLost: lambda one: f"node '{one.name}' was away too long: its exclusive and transient queues go",
}

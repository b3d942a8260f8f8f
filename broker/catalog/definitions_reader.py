"""What a document of definitions asks for, as commands in the order in which they can be applied.

Strict about what it understands: a wrong type is refused with its place, before anything is applied. Silent about keys that it
does not know, for RabbitMQ's plugins add theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from broker.catalog import catalog_commands as commands
from broker.catalog.arguments import encoded_arguments
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_commands import Command
from broker.catalog.command_types import NUMBER_MAX, NUMBER_MIN
from broker.catalog.definitions import (
    OPERATOR_POLICIES,
    PARTS_OF_VHOST,
    RIGHTS,
    VHOST_LIMITS,
    Json,
    PasswordHashes,
)
from broker.errors import PreconditionFailed
from broker.json_values import table_from_json
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from wire.amqp.tables import NESTING_MAX

T = TypeVar("T")

# Of an entry of a document: a table of AMQP, in the definition of an operator policy. What is deeper than Python's stack could
# be kept, and never be told again.
ENTRY_NESTING_MAX = NESTING_MAX + 2

DEFAULT_HASHING = "rabbit_password_hashing_sha256"  # where a user does not say how the password was hashed


class DefinitionsReader:
    """Reads for one node: `home` is where its classic queues will live."""

    def __init__(self, catalog: Catalog, hashes: PasswordHashes, home: str) -> None:
        self._catalog = catalog
        self._hashes = hashes
        self._home = home

    def read(self, document: Mapping[str, Any], vhost: str | None = None) -> Iterator[tuple[str, Command]]:
        """Each command with words for its place. With `vhost` only what lies in a vhost is read, and it goes to that one.

        Raises PreconditionFailed naming the place.
        """
        for part, reader in _READERS.items():
            if vhost is not None and part not in PARTS_OF_VHOST:
                continue
            items = document.get(part, [])
            if not isinstance(items, list):
                raise PreconditionFailed(f"'{part}' is a JSON {type(items).__name__}, a list is needed")
            for place, value in enumerate(items):
                if not _nested_at_most(value, ENTRY_NESTING_MAX):
                    raise PreconditionFailed(
                        f"{part}[{place}] has more than {ENTRY_NESTING_MAX} lists or objects within each other"
                    )
                item = _Item(f"{part}[{place}]", value, vhost)
                for command in reader(self, item):
                    yield item.where, command

    def _read_user(self, item: _Item) -> Iterator[Command]:
        name = item.text("name")
        if "password" in item:
            raise PreconditionFailed(f"{item.where}: a password is imported as 'password_hash', not in clear")
        encoded = item.text("password_hash", "")
        algorithm = item.text("hashing_algorithm", DEFAULT_HASHING)
        current = self._catalog.users.get(name)
        if "password_hash" not in item and current is not None:
            kept = current.password_hash
        else:
            kept = self._hashes.imported(algorithm, encoded) if encoded else None
        yield commands.PutUser(UserRecord(name, kept, item.tags()))
        if item.table("limits"):
            yield commands.SetUserLimits(name, item.limits())

    def _read_vhost(self, item: _Item) -> Iterator[Command]:
        name, metadata = item.text("name"), item.part("metadata")
        record = VhostRecord(
            name,
            description=metadata.text("description", item.text("description", "")),
            tags=metadata.tags() or item.tags(),
            default_queue_type=metadata.text("default_queue_type", item.text("default_queue_type", "classic")),
            protected_from_deletion=metadata.flag("protected_from_deletion"),
        )
        yield commands.PutVhost(record)
        if item.table("limits"):
            yield commands.SetVhostLimits(name, item.limits())

    def _read_permission(self, item: _Item) -> Iterator[Command]:
        yield commands.PutPermission(PermissionRecord(item.text("user"), item.vhost, *map(item.text, RIGHTS)))

    def _read_topic_permission(self, item: _Item) -> Iterator[Command]:
        rights = map(item.text, ("exchange", "write", "read"))
        yield commands.PutTopicPermission(TopicPermissionRecord(item.text("user"), item.vhost, *rights))

    def _read_global_parameter(self, item: _Item) -> Iterator[Command]:
        yield commands.SetParameter(ParameterRecord("", "", item.text("name"), item.anything("value")))

    def _read_parameter(self, item: _Item) -> Iterator[Command]:
        component, name = item.text("component"), item.text("name")
        if component == OPERATOR_POLICIES:
            yield _policy_command(item.part("value"), item.vhost, name, operator=True)
        elif component == VHOST_LIMITS:
            limits = item.part("value")
            yield commands.SetVhostLimits(item.vhost, {limit: limits.number(limit) for limit in item.table("value")})
        else:
            yield commands.SetParameter(ParameterRecord(item.vhost, component, name, item.anything("value")))

    def _read_policy(self, item: _Item) -> Iterator[Command]:
        yield _policy_command(item, item.vhost, item.text("name"), operator=False)

    def _read_exchange(self, item: _Item) -> Iterator[Command]:
        yield commands.DeclareExchange(
            ExchangeRecord(
                item.vhost,
                item.text("name"),
                item.text("type"),
                durable=item.flag("durable"),
                auto_delete=item.flag("auto_delete"),
                internal=item.flag("internal"),
                arguments=item.amqp_table("arguments"),
            )
        )

    def _read_queue(self, item: _Item) -> Iterator[Command]:
        yield commands.DeclareQueue(
            item.vhost,
            item.text("name"),
            kind=item.text("type", ""),
            durable=item.flag("durable"),
            auto_delete=item.flag("auto_delete"),
            arguments=item.amqp_table("arguments"),
            home=self._home,
        )

    def _read_binding(self, item: _Item) -> Iterator[Command]:
        source, kind = item.text("source"), item.text("destination_type")
        if kind not in ("queue", "exchange"):
            raise PreconditionFailed(f"{item.where}: 'destination_type' is {kind!r}, queue or exchange is needed")
        if source:  # the default exchange binds every queue by itself
            yield commands.Bind(
                BindingRecord(
                    item.vhost,
                    source,
                    item.text("destination"),
                    kind,
                    item.text("routing_key"),
                    item.amqp_table("arguments"),
                )
            )


def _policy_command(item: _Item, vhost: str, name: str, *, operator: bool) -> Command:
    return commands.PutPolicy(
        PolicyRecord(
            vhost=vhost,
            name=name,
            pattern=item.text("pattern"),
            apply_to=item.text("apply-to", "all"),
            priority=item.number("priority"),
            definition=item.amqp_table("definition"),
            operator=operator,
        )
    )


def is_declared(catalog: Catalog, command: Command) -> bool:
    """Whether there is an exchange or queue of that name already: it stays as it is, as with RabbitMQ."""
    match command:
        case commands.DeclareExchange():
            return catalog.exchange(command.record.vhost, command.record.name) is not None
        case commands.DeclareQueue():
            return catalog.queue(command.vhost, command.name) is not None
    return False


class _Item:
    """One entry of a document, and where it stands in it."""

    def __init__(self, where: str, value: Any, vhost: str | None = None) -> None:
        if not isinstance(value, dict):
            raise PreconditionFailed(f"{where} is a JSON {type(value).__name__}, an object is needed")
        self.where = where
        self._values = value
        self._vhost = vhost

    @property
    def vhost(self) -> str:
        return self.text("vhost") if self._vhost is None else self._vhost

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        return self._typed(name, str, "a text", default)

    def flag(self, name: str, default: bool = False) -> bool:
        return self._typed(name, bool, "true or false", default)

    def number(self, name: str, default: int = 0) -> int:
        value = self._typed(name, int, "a number", default)
        if isinstance(value, bool):
            raise PreconditionFailed(f"{self.where}: '{name}' is {value!r}, a number is needed")
        if not NUMBER_MIN <= value <= NUMBER_MAX:
            raise PreconditionFailed(f"{self.where}: '{name}' is {value}, a number from -2^63 to 2^63 - 1 is needed")
        return value

    def table(self, name: str) -> Json:
        value = self._values.get(name, {})
        if value == []:  # how an empty object looks where RabbitMQ has lost its type
            return {}
        return self._typed(name, dict, "an object", {})

    def amqp_table(self, name: str) -> Json:
        """Raises PreconditionFailed for what AMQP cannot carry, before anything is applied."""
        table = table_from_json(self.table(name))
        try:
            encoded_arguments(table)
        except PreconditionFailed as error:
            raise PreconditionFailed(f"{self.where}: '{name}': {error.text}") from error
        return table

    def part(self, name: str) -> _Item:
        """A nested object."""
        return _Item(f"{self.where}.{name}", self.table(name), self._vhost)

    def limits(self) -> dict[str, int]:
        limits = self.part("limits")
        return {name: limits.number(name) for name in self.table("limits")}

    def tags(self) -> tuple[str, ...]:
        value = self._values.get("tags", [])
        if isinstance(value, str):
            value = [tag.strip() for tag in value.split(",") if tag.strip()]
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            raise PreconditionFailed(f"{self.where}: 'tags' is {value!r}: give a list of texts or one text with commas")
        return tuple(value)

    def anything(self, name: str) -> Any:
        if name not in self._values:
            raise PreconditionFailed(f"{self.where}: '{name}' is missing")
        return self._values[name]

    def _typed(self, name: str, kind: type[T], needed: str, default: T | None) -> T:
        value = self._values.get(name, default)
        if value is None:
            raise PreconditionFailed(f"{self.where}: '{name}' is missing")
        if not isinstance(value, kind):
            shown = f"a JSON {type(value).__name__}" if name.startswith("password") else repr(value)
            raise PreconditionFailed(f"{self.where}: '{name}' is {shown}, {needed} is needed")
        return value


def _nested_at_most(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_nested_at_most(part, levels - 1) for part in parts)


_READERS: dict[str, Callable[[DefinitionsReader, _Item], Iterator[Command]]] = {
    "vhosts": DefinitionsReader._read_vhost,
    "users": DefinitionsReader._read_user,
    "permissions": DefinitionsReader._read_permission,
    "topic_permissions": DefinitionsReader._read_topic_permission,
    "global_parameters": DefinitionsReader._read_global_parameter,
    "parameters": DefinitionsReader._read_parameter,
    "policies": DefinitionsReader._read_policy,
    "exchanges": DefinitionsReader._read_exchange,
    "queues": DefinitionsReader._read_queue,
    "bindings": DefinitionsReader._read_binding,
}

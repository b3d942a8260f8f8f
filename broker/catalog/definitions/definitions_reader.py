"""What a document of definitions asks for, as commands in the order in which they can be applied.

RabbitMQ's own exports are understood, of 3.x and 4.x, with its defaults for what is not said. Strict about what it understands:
a wrong type is a fault with its place, and all faults are told. What RabbitMQ knows and Leveret does not is passed over with a
remark; silently passed over are keys that neither knows, for plugins add theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command
from broker.catalog.definitions.definition_item import DefinitionItem
from broker.catalog.definitions.definitions_writer import (
    DEFAULT_HASHING,
    LEVERET_HASH,
    LEVERET_HASHING,
    ONE_VHOST,
    OPERATOR_POLICIES,
    PARTS_OF_VHOST,
    RIGHTS,
    VHOST_LIMITS,
    PasswordHashes,
)
from broker.catalog.mirroring import HA_MODE, HA_PARAMS, MIRRORING_KEYS, WITHOUT_EFFECT, mirroring_faults
from broker.errors import PreconditionFailed
from broker.names import DEFAULT_EXCHANGE, is_reserved
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

PASSWORD_BYTES_MAX = 1024
WEAK_HASHING = "rabbit_password_hashing_md5"
BEFORE_SHA256 = re.compile(r"3\.[0-5]\.")  # versions of RabbitMQ, whose hashes were MD5 and did not say so
# Names of the kinds of queue in definitions of vhosts; RabbitMQ wrote those of its modules, too, or that there is none.
DEFAULT_KINDS = {
    "rabbit_classic_queue": "classic", "rabbit_quorum_queue": "quorum", "rabbit_stream_queue": "stream",
    "undefined": "classic",
}  # fmt: skip
# Keys of policies that RabbitMQ 3.x has, and that mean nothing to Leveret, nor to RabbitMQ 4.
OLD_POLICY_KEYS = {"queue-mode": "all classic queues are lazy"}


@dataclass(slots=True, frozen=True)
class DefinitionWish:
    """What an entry asks for, and where it stands."""

    where: str
    command: Command
    password: str | None = field(default=None, repr=False)  # of a user: in clear, to be hashed before this is applied


@dataclass(slots=True, frozen=True)
class Remark:
    """What somebody has to know of an entry."""

    where: str
    text: str
    is_fault: bool = False  # nothing of the document can be applied


Read = Iterator[DefinitionWish | Remark]


class DefinitionsReader:
    """Reads for one node: `home` is where its classic queues will live."""

    def __init__(self, catalog: Catalog, hashes: PasswordHashes, home: str) -> None:
        self._catalog = catalog
        self._hashes = hashes
        self._home = home
        self._default_hashing = DEFAULT_HASHING

    def read(self, document: Mapping[str, Any], vhost: str | None = None) -> Read:
        """With `vhost` only what lies in a vhost is read, and it goes to that one. Raises PreconditionFailed for a document
        that is none of this form."""
        check_form(document, vhost)
        version = document.get("rabbit_version")
        if isinstance(version, str) and BEFORE_SHA256.match(version):
            self._default_hashing = WEAK_HASHING
        for part, reader in _READERS.items():
            if vhost is None or part in PARTS_OF_VHOST:
                for place, value in enumerate(document.get(part) or ()):
                    yield from self._read_entry(reader, f"{part}[{place}]", value, vhost)

    def _read_entry(self, reader: Reader, where: str, value: Any, vhost: str | None) -> Read:
        try:
            yield from reader(self, DefinitionItem(where, value, vhost))
        except PreconditionFailed as error:
            said = error.text if error.text.startswith(where) else f"{where}: {error.text}"
            yield Remark(where, said, is_fault=True)

    # users and vhosts

    def _read_user(self, item: DefinitionItem) -> Read:
        name, password = item.text("name"), item.text("password", "") or None
        if password is not None and len(password.encode()) > PASSWORD_BYTES_MAX:
            raise PreconditionFailed(f"{item.where}: 'password' has more than {PASSWORD_BYTES_MAX} bytes")
        current = self._catalog.users.get(name)
        known = current.password_hash if current is not None else None
        kept = known if password is not None else self._password_hash(item, known)
        tags = item.tags() if current is None or "tags" in item else current.tags
        yield DefinitionWish(item.where, commands.PutUser(UserRecord(name, kept, tags)), password)
        is_weak = item.text("hashing_algorithm", self._default_hashing) == WEAK_HASHING
        if is_weak and item.text("password_hash", ""):
            yield Remark(item.where, f"the password of user '{name}' is hashed with MD5, which is weak: set a new one")
        if item.table("limits"):
            yield DefinitionWish(item.where, commands.SetUserLimits(name, item.limits()))

    def _password_hash(self, item: DefinitionItem, known: str | None) -> str | None:
        """As it is kept. Who is known keeps the password of before where the document says nothing of one."""
        if LEVERET_HASH in item:
            return self._hashes.imported(item.text(LEVERET_HASHING), item.text(LEVERET_HASH))
        if "password_hash" not in item:
            return known
        encoded = item.text("password_hash", "")
        return (
            self._hashes.imported(item.text("hashing_algorithm", self._default_hashing), encoded) if encoded else None
        )

    def _read_vhost(self, item: DefinitionItem) -> Read:
        """What is not said of one that is known stays as it is."""
        name, metadata = item.text("name"), item.part("metadata")
        current = self._catalog.vhosts.get(name) or VhostRecord(name)
        default = metadata.text("default_queue_type", item.text("default_queue_type", current.default_queue_type))
        record = VhostRecord(
            name,
            description=metadata.text("description", item.text("description", current.description)),
            tags=metadata.tags() if "tags" in metadata else item.tags() if "tags" in item else current.tags,
            default_queue_type=DEFAULT_KINDS.get(default, default),
            protected_from_deletion=metadata.flag("protected_from_deletion", current.protected_from_deletion),
            tracing=item.flag("tracing", metadata.flag("tracing", current.tracing)),
        )
        yield DefinitionWish(item.where, commands.PutVhost(record))
        if item.table("limits"):
            yield DefinitionWish(item.where, commands.SetVhostLimits(name, item.limits()))

    def _read_permission(self, item: DefinitionItem) -> Read:
        rights = map(item.text, RIGHTS)
        yield DefinitionWish(
            item.where, commands.PutPermission(PermissionRecord(item.text("user"), item.vhost, *rights))
        )

    def _read_topic_permission(self, item: DefinitionItem) -> Read:
        rights = map(item.text, ("exchange", "write", "read"))
        record = TopicPermissionRecord(item.text("user"), item.vhost, *rights)
        yield DefinitionWish(item.where, commands.PutTopicPermission(record))

    # parameters and policies

    def _read_global_parameter(self, item: DefinitionItem) -> Read:
        record = ParameterRecord("", "", item.text("name"), item.anything("value"))
        yield DefinitionWish(item.where, commands.SetParameter(record))

    def _read_parameter(self, item: DefinitionItem) -> Read:
        component, name = item.text("component"), item.text("name")
        if not (item.vhost and component):  # so are global parameters kept, and it would be told as one of them
            raise PreconditionFailed(f"{item.where}: a parameter needs a vhost and a component")
        if component == OPERATOR_POLICIES:
            yield from _policy(item, item.part("value"), name, operator=True)
        elif component == VHOST_LIMITS:
            yield DefinitionWish(item.where, commands.SetVhostLimits(item.vhost, item.numbers("value")))
        else:
            record = ParameterRecord(item.vhost, component, name, item.anything("value"))
            yield DefinitionWish(item.where, commands.SetParameter(record))

    def _read_policy(self, item: DefinitionItem) -> Read:
        yield from _policy(item, item, item.text("name"), operator=False)

    # exchanges, queues, bindings

    def _read_exchange(self, item: DefinitionItem) -> Read:
        name = item.text("name")
        if name == DEFAULT_EXCHANGE or is_reserved(name):
            yield Remark(item.where, f"exchange '{name}' is the broker's own to declare")
            return
        record = ExchangeRecord(
            item.vhost,
            name,
            item.text("type", "direct"),
            durable=item.flag("durable", True),
            auto_delete=item.flag("auto_delete"),
            internal=item.flag("internal"),
            arguments=item.amqp_table("arguments"),
        )
        yield DefinitionWish(item.where, commands.DeclareExchange(record))

    def _read_queue(self, item: DefinitionItem) -> Read:
        name = item.text("name")
        if is_reserved(name):
            yield Remark(item.where, f"queue '{name}' is the broker's own to declare")
            return
        kind = item.text("type", "")
        command = commands.DeclareQueue(
            item.vhost,
            name,
            kind=DEFAULT_KINDS.get(kind, kind),
            durable=item.flag("durable", True),
            auto_delete=item.flag("auto_delete"),
            arguments=item.amqp_table("arguments"),
            home=self._home,
        )
        yield DefinitionWish(item.where, command)

    def _read_binding(self, item: DefinitionItem) -> Read:
        source, kind = item.text("source"), item.text("destination_type", "queue")
        if kind not in ("queue", "exchange"):
            raise PreconditionFailed(f"{item.where}: 'destination_type' is {kind!r}, queue or exchange is needed")
        destination, key = item.text("destination"), item.text("routing_key", "")
        record = BindingRecord(item.vhost, source, destination, kind, key, item.amqp_table("arguments"))
        if source != DEFAULT_EXCHANGE:  # that one binds every queue by itself
            yield DefinitionWish(item.where, commands.Bind(record))


def check_form(document: Mapping[str, Any], vhost: str | None) -> None:
    """Raises PreconditionFailed."""
    for part in _READERS:
        items = document.get(part)
        if items is not None and not isinstance(items, list):
            raise PreconditionFailed(f"'{part}' is a JSON {type(items).__name__}, a list is needed")
    if vhost is None and document.get("rabbitmq_definition_format") == ONE_VHOST:
        raise PreconditionFailed("these are definitions of one virtual host: say into which they are to be imported")


def _not_kept_of_mirroring(given: Mapping[str, Any], operator: bool) -> dict[str, str]:
    """What old clusters say of mirrored queues never makes an import fail."""
    if operator:
        return dict.fromkeys(MIRRORING_KEYS, "operator policies do not say it")
    found = dict(mirroring_faults(given))
    return {**dict.fromkeys((HA_PARAMS, HA_MODE), found[HA_MODE]), **found} if HA_MODE in found else found


def _policy(item: DefinitionItem, policy: DefinitionItem, name: str, *, operator: bool) -> Read:
    given = policy.amqp_table("definition")
    left_out = OLD_POLICY_KEYS | _not_kept_of_mirroring(given, operator)
    definition = {key: value for key, value in given.items() if key not in left_out}
    for key in sorted(given.keys() - definition.keys()):
        yield Remark(item.where, f"policy '{name}': '{key}' is left out: {left_out[key]}")
    for key in sorted(WITHOUT_EFFECT.keys() & definition.keys()):
        yield Remark(item.where, f"policy '{name}': '{key}' is kept without effect: {WITHOUT_EFFECT[key]}")
    if given and not definition:
        yield Remark(item.where, f"policy '{name}' is left out: there is nothing else in it")
        return
    record = PolicyRecord(
        vhost=item.vhost,
        name=name,
        pattern=policy.text("pattern"),
        apply_to=policy.text("apply-to", "all"),
        priority=policy.number("priority"),
        definition=definition,
        operator=operator,
    )
    yield DefinitionWish(item.where, commands.PutPolicy(record))


Reader = Callable[[DefinitionsReader, DefinitionItem], Read]
_READERS: dict[str, Reader] = {
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

"""Definitions as JSON documents: written for an operator, and applied command by command.

What is declared already stays as it is. Nothing of a document is applied where an entry has a fault (import_plan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definition_effects import KEPT, effect_of
from broker.catalog.definitions.definitions_reader import DefinitionsReader, DefinitionWish
from broker.catalog.definitions.definitions_writer import CLUSTER, ONE_VHOST, exported, exported_vhost, one_vhost_head
from broker.catalog.proposed_queue import proposed_queue
from broker.json_values import to_json
from broker.operations.import_plan import ImportChecks, ImportPlan
from broker.operations.node_facts import NodePort
from broker.operations.operator import ADMINISTRATOR, Operator, check_administrator_remains, has_administrator
from broker.pending import Pending
from broker.records import ParameterRecord, UserRecord

if TYPE_CHECKING:
    from broker.broker import Broker


class Documents:
    def __init__(
        self, broker: Broker, node: NodePort, fault_of_parameter: Callable[[ParameterRecord], str | None]
    ) -> None:
        self._broker = broker
        self._fault_of_parameter = fault_of_parameter
        self._catalog = broker.catalog
        self._node = node

    def exported(self, who: Operator, vhost: str | None, *, password_hashes: bool) -> Iterator[bytes]:
        """The whole node or one vhost, in pieces; without `password_hashes` nothing of passwords. Raises NotFound when there
        is no such vhost."""
        who.require_tag(ADMINISTRATOR)
        if vhost is None:
            hashes = self._node.password_hashes if password_hashes else None
            head, parts = self._head(CLUSTER), exported(self._catalog, hashes)
        else:
            parts = exported_vhost(self._catalog, vhost)
            head = self._head(ONE_VHOST) | one_vhost_head(self._catalog.vhosts[vhost])
        return _pieces(head, parts)

    def _head(self, form: str) -> dict[str, Any]:
        identity = self._node.identity
        cluster = identity.get("cluster_name", "")
        words = {"rabbitmq_definition_format": form, "original_cluster_name": cluster}
        return {**words, "explanation": f"Definitions of cluster '{cluster}'", **identity}

    def plan(self, who: Operator, raw: bytes, vhost: str | None) -> ImportPlan:
        """What an import would do, all in one vhost if one is given. Raises NotFound when there is no such vhost."""
        who.require_tag(ADMINISTRATOR)
        if vhost is not None:
            self._catalog.namespace(vhost)
        reader = DefinitionsReader(self._catalog, self._node.password_hashes, self._broker.node)
        checks = ImportChecks(self._broker.check_kind, self._fault_of_parameter, partial(self._check_users, who))
        return ImportPlan(self._catalog, reader, checks, raw, vhost)

    def _check_users(self, who: Operator, users: Iterable[UserRecord]) -> None:
        """Who is no user, as at the start of the node, shuts nobody out: the next start may have another document."""
        if who.name in self._catalog.users and has_administrator(self._catalog.users.values()):
            check_administrator_remains(who, users)

    def needs_what_was_applied(self, command: commands.Command) -> bool:
        """Wait for what was applied before: its vhost may be among that. It says what its queues are by default, and what
        delays messages is checked before it is submitted, with the queue that it needs (holding_queues.py)."""
        match command:
            case commands.DeclareExchange(record):
                return record.vhost not in self._catalog.vhosts
            case commands.DeclareQueue(vhost):
                return vhost not in self._catalog.vhosts
        return False

    def hashed(self, wanted: DefinitionWish) -> Pending[commands.Command]:
        """What is to be applied, once its password is hashed."""
        command = wanted.command
        if wanted.password is None:
            return Pending.of(command)
        assert isinstance(command, commands.PutUser), f"{wanted.where}: only users have passwords"
        record = command.record
        hashed = self._node.hash_password(wanted.password.encode(), record.password_hash)
        return hashed.map(lambda kept: commands.PutUser(replace(record, password_hash=kept)))

    def apply(self, command: commands.Command) -> Pending[Any] | None:
        """None: it is there already."""
        if isinstance(command, commands.DeclareQueue):
            self._catalog.namespace(command.vhost)
        if effect_of(self._catalog, "", command).effect == KEPT:
            return None
        if isinstance(command, commands.DeclareQueue):
            self._broker.check_kind(proposed_queue(command, self._catalog.vhosts))
        return self._broker.metadata.submit(command)


def _pieces(head: dict[str, Any], parts: dict[str, Iterator[dict[str, Any]]]) -> Iterator[bytes]:
    yield msgspec.json.encode(to_json(head)).removesuffix(b"}")
    for part, items in parts.items():
        yield b',"%b":[' % part.encode()
        separator = b""
        for item in items:
            yield separator + msgspec.json.encode(to_json(item))
            separator = b","
        yield b"]"
    yield b"}"

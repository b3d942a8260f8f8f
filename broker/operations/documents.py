"""Definitions as JSON documents: written for an operator, and applied command by command.

What is declared already stays as it is. Nothing of a document is applied when it cannot be read (definitions_reader.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from broker.catalog import catalog_commands as commands
from broker.catalog.definitions import exported, exported_vhost
from broker.catalog.definitions_reader import DefinitionsReader, is_declared
from broker.catalog.proposed_queue import proposed_queue
from broker.errors import PreconditionFailed
from broker.json_values import to_json
from broker.operations.node_facts import NodePort
from broker.operations.operator import ADMINISTRATOR, Operator
from broker.pending import Pending

if TYPE_CHECKING:
    from broker.broker import Broker

# An entry of a document, by its part and position, and what it asks for.
Entry = tuple[str, commands.Command]


class Documents:
    def __init__(self, broker: Broker, node: NodePort) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._node = node

    def exported(self, who: Operator, vhost: str | None, *, password_hashes: bool) -> Iterator[bytes]:
        """The whole node or one vhost, in pieces; without `password_hashes` nothing of passwords. Raises NotFound when there
        is no such vhost."""
        who.require_tag(ADMINISTRATOR)
        if vhost is None:
            hashes = self._node.password_hashes if password_hashes else None
            head, parts = {"rabbitmq_definition_format": "cluster"}, exported(self._catalog, hashes)
        else:
            head = {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost}
            parts = exported_vhost(self._catalog, vhost)
        return _pieces({**head, **self._node.identity}, parts)

    def read(self, who: Operator, raw: bytes, vhost: str | None) -> Iterator[Entry]:
        """What the document asks for, all in one vhost if one is given; for `apply`. Raises PreconditionFailed, also on the
        way, and NotFound when there is no such vhost."""
        who.require_tag(ADMINISTRATOR)
        document = parsed(raw)
        if vhost is not None:
            self._catalog.namespace(vhost)
        reader = DefinitionsReader(self._catalog, self._node.password_hashes, self._broker.node)
        return reader.read(document, vhost)

    def needs_what_was_applied(self, command: commands.Command) -> bool:
        """Wait for what was applied before: its vhost may be among that, and says what its queues are by default."""
        return isinstance(command, commands.DeclareQueue) and command.vhost not in self._catalog.vhosts

    def apply(self, command: commands.Command) -> Pending[Any] | None:
        """None: it is there already."""
        if is_declared(self._catalog, command):
            return None
        if isinstance(command, commands.DeclareQueue):
            self._catalog.namespace(command.vhost)
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


def parsed(raw: bytes) -> dict[str, Any]:
    """Raises PreconditionFailed."""
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PreconditionFailed(f"definitions are JSON, and these are not: {error}") from error
    except RecursionError:
        raise PreconditionFailed("the definitions are JSON nested too deeply") from None
    if not isinstance(document, dict):
        raise PreconditionFailed(f"definitions are a JSON object, not a JSON {type(document).__name__}")
    return document

"""Definitions that a node imports at each start, before it lets clients in: a file, or the *.json files of a folder, in the
order of their names.

What is as they say already is not touched. A cluster that is founded with its nodes' names known waits for these first, so that
queues get their members. Where nobody has made a user by then, guest is made, as on a node without definitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from broker.broker import Broker
from broker.catalog.catalog import guest_commands
from broker.errors import BrokerError, ResourceExhausted
from broker.operations.documents import Documents
from broker.operations.operator import ADMINISTRATOR, Operator
from front.answers import answered
from front.definitions import import_definitions
from node.config import ConfigError

OPERATOR = Operator("definitions.path", (ADMINISTRATOR,))
BYTES_MAX = 10_485_760  # of a file
NODES_LOOKS, NODES_LOOK_S = 600, 0.1  # a minute

logger = logging.getLogger("leveret.definitions")


class BootDefinitions:
    """`path`: what is imported. `nodes_expected`: of a cluster that is being founded."""

    def __init__(self, path: str, nodes_expected: int, documents: Documents, broker: Broker) -> None:
        self._path = path
        self._nodes_expected = nodes_expected
        self._documents = documents
        self._broker = broker

    async def bring_in(self, guest_hash: Callable[[], str]) -> None:
        """Raises ConfigError naming the file."""
        await self._nodes_are_there()
        for file in definition_files(Path(self._path)):
            await self._import(file)
        if not self._broker.catalog.users:
            logger.warning("definitions.path: there is no user, so guest is made")
            pending = [self._broker.metadata.submit(command) for command in guest_commands(guest_hash())]
            self._broker.end_turn()
            await asyncio.gather(*map(answered, pending))

    async def _import(self, file: Path) -> None:
        try:
            report = await import_definitions(self._documents, OPERATOR, _content(file), None, self._broker.end_turn)
        except ResourceExhausted as error:  # this node serves what it knows: others are away, for it is not alone
            logger.error("definitions of %s are not imported at this start: %s", file, error.text)
        except BrokerError as error:
            raise ConfigError(f"definitions.path: {file}: {error.text}") from error
        else:
            logger.info("definitions of %s: %d changes", file, report.changes)

    async def _nodes_are_there(self) -> None:
        """Nodes that have been in the cluster once are known, whether they are up or not."""
        nodes = self._broker.catalog.nodes
        for _ in range(NODES_LOOKS):
            if len(nodes) >= self._nodes_expected:
                return
            await asyncio.sleep(NODES_LOOK_S)
        logger.warning("definitions.path: %d of %d nodes have joined", len(nodes), self._nodes_expected)


def definition_files(path: Path) -> list[Path]:
    """Raises ConfigError."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.json"))
    if not found:
        raise ConfigError(f"definitions.path: the folder {path} has no file *.json")
    return found


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            raw = source.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"definitions.path: {file} cannot be read: {error.strerror}") from error
    if len(raw) > BYTES_MAX:
        raise ConfigError(f"definitions.path: {file} has more than {BYTES_MAX} bytes: divide it, and give the folder")
    return raw

"""Definitions as fronts give and take them: JSON out, and JSON in, applied command by command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from broker import catalog_commands as commands
from broker.catalog import Catalog
from broker.definitions import PasswordHashes, exported, exported_vhost
from broker.definitions_reader import DefinitionsReader, is_declared
from broker.errors import BrokerError, PreconditionFailed
from broker.json_values import to_json
from broker.pending import Pending
from broker.proposed_queue import proposed_queue
from broker.records import QueueRecord
from front.answers import answered
from front.slices import in_slices, made_in_slices

if TYPE_CHECKING:
    from asyncio import Future

# So many changes wait for the disk together: one at a time would cost one fsync each.
TOGETHER = 256


class DefinitionsBroker(Protocol):
    node: str
    catalog: Catalog

    def check_kind(self, record: QueueRecord) -> None:
        """Raises PreconditionFailed when this node cannot have such a queue."""

    def end_turn(self) -> None: ...


async def export_definitions(
    catalog: Catalog, hashes: PasswordHashes | None, identity: dict[str, Any], vhost: str | None = None
) -> bytes:
    """Without `hashes` nothing of passwords. Raises NotFound when there is no such vhost."""
    if vhost is None:
        head, parts = {"rabbitmq_definition_format": "cluster", **identity}, exported(catalog, hashes)
    else:
        what = {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost}
        head, parts = {**what, **identity}, exported_vhost(catalog, vhost)
    pieces = [msgspec.json.encode(to_json(head)).removesuffix(b"}")]
    for part, items in parts.items():
        encoded = [msgspec.json.encode(to_json(item)) async for item in made_in_slices(items)]
        pieces.append(b'"%b":[%b]' % (part.encode(), b",".join(encoded)))
    return b",".join(pieces) + b"}"


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


async def import_definitions(
    broker: DefinitionsBroker,
    submit: Callable[[commands.Command], Pending[Any]],
    hashes: PasswordHashes,
    document: dict[str, Any],
    vhost: str | None = None,
) -> int:
    """Add what the document has; what is declared already stays as it is. Answers how many commands were applied.

    Nothing is applied when the document cannot be read. Raises PreconditionFailed naming the entry that was refused: what
    stands before it has been imported, and some of what stands behind it may have been: the same document can be imported again
    once it is mended.
    """
    if vhost is not None:
        broker.catalog.namespace(vhost)
    reader = DefinitionsReader(broker.catalog, hashes, broker.node)
    wanted = [command async for command in made_in_slices(reader.read(document, vhost))]
    waiting: list[tuple[str, Future[Any]]] = []
    applied = 0
    async for where, command in in_slices(wanted):
        if is_declared(broker.catalog, command):
            continue
        if isinstance(command, commands.DeclareQueue) and command.vhost not in broker.catalog.vhosts:
            await _all_answered(broker, waiting)  # the vhost may be among them, and says what its queues are by default
        try:
            _check(broker, command)
            answer = answered(submit(command))
            if answer.done():
                answer.result()
        except BrokerError as error:
            await _all_answered(broker, waiting)
            raise _refused(where, error) from error
        waiting.append((where, answer))
        applied += 1
        if len(waiting) >= TOGETHER:
            await _all_answered(broker, waiting)
    await _all_answered(broker, waiting)
    return applied


def _check(broker: DefinitionsBroker, command: commands.Command) -> None:
    if isinstance(command, commands.DeclareQueue):
        broker.catalog.namespace(command.vhost)
        broker.check_kind(proposed_queue(command, broker.catalog.vhosts))


async def _all_answered(broker: DefinitionsBroker, waiting: list[tuple[str, Future[Any]]]) -> None:
    broker.end_turn()
    try:
        for where, future in waiting:
            try:
                await future
            except BrokerError as error:
                raise _refused(where, error) from error
    finally:
        for _, future in waiting:
            future.cancel()  # nobody asks for these any more: the first refusal is what is told
        waiting.clear()


def _refused(where: str, error: BrokerError) -> PreconditionFailed:
    return PreconditionFailed(f"{where}: {error.text}")

"""Definitions as fronts give and take them: written, checked and applied in slices, many changes for one wait."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.catalog.definitions.definitions_reader import DefinitionWish
from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted
from broker.operations.documents import Documents
from broker.operations.import_plan import ImportPlan, ImportReport
from broker.operations.operator import Operator
from front.answers import answered
from front.slices import in_slices, made_in_slices

if TYPE_CHECKING:
    from asyncio import Future

# So many changes wait for the disk together: one at a time would cost one fsync each.
TOGETHER = 256
REMARKS_LOGGED = 20
ENTRIES_IN_A_PIECE = 500

logger = logging.getLogger("leveret.definitions")


async def export_definitions(documents: Documents, who: Operator, vhost: str | None, *, password_hashes: bool) -> bytes:
    return b"".join(await exported_pieces(documents, who, vhost, password_hashes=password_hashes))


async def exported_pieces(
    documents: Documents, who: Operator, vhost: str | None, *, password_hashes: bool
) -> list[bytes]:
    """The same, not joined: with 100,000 queues it has fourteen megabytes."""
    pieces: list[bytes] = []
    some: list[bytes] = []
    async for entry in made_in_slices(documents.exported(who, vhost, password_hashes=password_hashes)):
        some.append(entry)
        if len(some) == ENTRIES_IN_A_PIECE:
            pieces.append(b"".join(some))
            some.clear()
    return [*pieces, b"".join(some)]


async def check_definitions(documents: Documents, who: Operator, raw: bytes, vhost: str | None) -> ImportReport:
    """What an import would do. Raises PreconditionFailed with all that is wrong, or NotFound."""
    return (await _planned(documents, who, raw, vhost)).report


async def import_definitions(
    documents: Documents, who: Operator, raw: bytes, vhost: str | None, end_turn: Callable[[], None]
) -> ImportReport:
    """Add what the document has; exchanges and queues that are declared already stay as they are.

    Nothing is applied where an entry has a fault. Raises PreconditionFailed with all that is wrong, or NotFound. What is
    refused all the same, for something else has changed meanwhile, is named, and what stands before it has been imported: the
    same document can be imported again.
    """
    plan = await _planned(documents, who, raw, vhost)
    await _Import(documents, end_turn).apply(plan.wanted)
    for one in plan.report.remarks[:REMARKS_LOGGED]:
        logger.warning("definitions: %s: %s", one.where, one.text)
    return plan.report


async def _planned(documents: Documents, who: Operator, raw: bytes, vhost: str | None) -> ImportPlan:
    plan = documents.plan(who, raw, vhost)
    async for _ in made_in_slices(plan.steps()):
        pass
    return plan


class _Import:
    """Changes that wait for the disk."""

    def __init__(self, documents: Documents, end_turn: Callable[[], None]) -> None:
        self._documents = documents
        self._end_turn = end_turn
        self._waiting: list[tuple[str, Future[Any]]] = []

    async def apply(self, wanted: list[DefinitionWish]) -> None:
        """Raises PreconditionFailed or ResourceExhausted naming the entry."""
        async for one in in_slices(wanted):
            if len(self._waiting) >= TOGETHER or self._documents.needs_what_was_applied(one.command):
                await self._all_answered()
            try:
                command = await answered(self._documents.hashed(one))
                pending = self._documents.apply(command)
                if pending is None:
                    continue
                answer = answered(pending)
                if answer.done():
                    answer.result()
            except BrokerError as error:
                await self._all_answered()
                raise _refused(one.where, error) from error
            self._waiting.append((one.where, answer))
        await self._all_answered()

    async def _all_answered(self) -> None:
        self._end_turn()
        try:
            for where, future in self._waiting:
                try:
                    await future
                except BrokerError as error:
                    raise _refused(where, error) from error
        finally:
            for _, future in self._waiting:
                future.cancel()  # nobody asks for these any more: the first refusal is what is told
            self._waiting.clear()


def _refused(where: str, error: BrokerError) -> BrokerError:
    """What may be tried again later stays what it is."""
    kind = ResourceExhausted if isinstance(error, ResourceExhausted) else PreconditionFailed
    return kind(f"{where}: {error.text}")

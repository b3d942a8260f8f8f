"""Definitions as fronts give and take them: written and applied in slices, many changes for one wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError, PreconditionFailed
from broker.operations.documents import Documents
from broker.operations.operator import Operator
from front.answers import answered
from front.slices import in_slices, made_in_slices

if TYPE_CHECKING:
    from asyncio import Future

# So many changes wait for the disk together: one at a time would cost one fsync each.
TOGETHER = 256


async def export_definitions(documents: Documents, who: Operator, vhost: str | None, *, password_hashes: bool) -> bytes:
    pieces = documents.exported(who, vhost, password_hashes=password_hashes)
    return b"".join([piece async for piece in made_in_slices(pieces)])


async def import_definitions(
    documents: Documents, who: Operator, raw: bytes, vhost: str | None, end_turn: Callable[[], None]
) -> int:
    """Add what the document has; what is declared already stays as it is. Answers how many commands were applied.

    Nothing is applied when the document cannot be read. Raises PreconditionFailed naming the entry that was refused: what
    stands before it has been imported, and some of what stands behind it may have been: the same document can be imported again
    once it is mended.
    """
    wanted = [entry async for entry in made_in_slices(documents.read(who, raw, vhost))]
    waiting: list[tuple[str, Future[Any]]] = []
    applied = 0
    async for where, command in in_slices(wanted):
        if documents.needs_what_was_applied(command):
            await _all_answered(waiting, end_turn)
        try:
            pending = documents.apply(command)
            if pending is None:
                continue
            answer = answered(pending)
            if answer.done():
                answer.result()
        except BrokerError as error:
            await _all_answered(waiting, end_turn)
            raise _refused(where, error) from error
        waiting.append((where, answer))
        applied += 1
        if len(waiting) >= TOGETHER:
            await _all_answered(waiting, end_turn)
    await _all_answered(waiting, end_turn)
    return applied


async def _all_answered(waiting: list[tuple[str, Future[Any]]], end_turn: Callable[[], None]) -> None:
    end_turn()
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

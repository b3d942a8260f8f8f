"""The part of the catalog where queues are deleted, and where those that go when nobody uses them are kept from going too late.

The node of a queue decides that it is unused: `x-expires` has passed, or its last consumer has left. The command that deletes
it may come here much later than that, for it is sent again until a leader takes it; and meanwhile the queue may be declared
again by another node and be given messages. So the record of such a queue counts the uses that pass through here, and the
command says how many the node knew of: with one more since, it deletes nothing. Who gets or consumes without declaring is known
to the queue's node only, so a queue that expires is counted a use by its own node first (UseQueue): once that is answered, the
catalog can be reached, what former leaders of the queue have asked for is void, and the node looks once more whether the queue
is unused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Record
from broker.catalog.parts.catalog_part import CatalogPart
from broker.catalog.policy import EffectiveArguments
from broker.errors import PreconditionFailed
from broker.names import held_for, is_holding
from broker.records import QueueRecord


class QueueUses(CatalogPart):
    """See the module."""

    _effective: dict[int, EffectiveArguments]

    @abstractmethod
    def _observed(self, record: Record, present: bool) -> None: ...

    @abstractmethod
    def effective(self, record: QueueRecord) -> EffectiveArguments: ...

    def count_use(self, record: QueueRecord) -> QueueRecord:
        """Of a queue that stays whether it is used or not, nothing is counted: its record need not be written."""
        if not record.auto_delete and self.effective(record).expires_ms is None:
            return record
        used = replace(record, uses=record.uses + 1)
        self.namespace(record.vhost).queues[record.name] = used
        self._observed(used, True)  # and the catalog has no new version: what was routed by it leads where it did
        return used

    def use_queue(self, command: commands.UseQueue) -> QueueRecord | None:
        record = self.namespace(command.vhost).queues.get(command.name)
        return self.count_use(record) if record is not None and record.id == command.id else None

    def delete_queue(self, command: commands.DeleteQueue) -> QueueRecord | None:
        namespace = self.namespace(command.vhost)
        record = namespace.queues.get(command.name)
        if record is None or (command.id is not None and record.id != command.id):
            return None
        if command.uses is not None and record.uses != command.uses:
            return None
        self._check_holds_nothing(record)
        self._effective.pop(record.id, None)
        return namespace.remove_queue(command.name)

    def _check_holds_nothing(self, record: QueueRecord) -> None:
        """Who decided that a holding queue is to go may not have known yet what it is for."""
        if is_holding(record.name) and self.namespace(record.vhost).needs(record.name):
            raise PreconditionFailed(f"{record.label} keeps the delayed messages of {held_for(record.name)}")


USE_COMMANDS: dict[type[Any], Callable[[Any, Any], Any]] = {
    commands.DeleteQueue: QueueUses.delete_queue,
    commands.UseQueue: QueueUses.use_queue,
}

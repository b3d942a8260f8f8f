"""The part of the catalog where a classic queue becomes a quorum queue.

The quorum queue is declared beside it, under a name that is the broker's (broker/names.py, BECOMING_PREFIX), and gets copies of
its messages (node/conversion/). Then one command has it take the classic queue's place: its name, and with that all
bindings. It keeps its id, so its group and its log are what they were, and its record says which queue it was: nodes that are
behind may speak of that for long. Before that command nothing has changed for anybody; behind it the classic queue is no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_part import CatalogPart
from broker.catalog.policy import EffectiveArguments
from broker.names import becoming_queue
from broker.records import QueueRecord


class Converted(NamedTuple):
    """A queue as it was, and as it is."""

    before: QueueRecord
    now: QueueRecord


class CatalogConversions(CatalogPart):
    """See the module."""

    _effective: dict[int, EffectiveArguments]

    def convert_queue(self, command: commands.ConvertQueue) -> Converted | None:
        namespace = self.namespace(command.vhost)
        before = namespace.queues.get(command.name)
        becoming = namespace.queues.get(becoming_queue(command.name))
        if before is None or becoming is None or (before.id, becoming.id) != (command.id, command.becomes):
            return None
        now = replace(becoming, name=command.name, was=before.id)
        for record in (before, becoming):
            self._effective.pop(record.id, None)
        namespace.remove_queue(becoming.name)
        namespace.replace_queue(now)
        return Converted(before, now)


CONVERSION_COMMANDS: dict[type[Any], Callable[[Any, Any], Any]] = {
    commands.ConvertQueue: CatalogConversions.convert_queue
}

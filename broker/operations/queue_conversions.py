"""Classic queues that operators have become quorum queues: what would come of it, how far it is, and to end it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker import names
from broker.catalog import permissions
from broker.catalog.commands.catalog_commands import DeleteQueue
from broker.catalog.mirrored_queues import as_converted
from broker.errors import NotFound, PreconditionFailed
from broker.operations.operator import MANAGEMENT, Operator
from broker.pending import Pending
from broker.records import QueueRecord

if TYPE_CHECKING:
    from broker.broker import Broker

WAITS_MS = 2_000  # without a copy that comes to a majority


@dataclass(slots=True, frozen=True)
class ConversionView:
    """A queue that may be on its way. `arguments`: those of the quorum queue."""

    vhost: str
    queue: str
    state: str  # classic, converting or quorum
    messages: int  # ready and unacknowledged, as this node knows it
    copied: int  # of them; 0 where nothing is converted
    arguments: dict[str, Any] = field(default_factory=dict)
    waits_for: str = ""  # what keeps it from going on, as this node knows it; empty: nothing


class QueueConversions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._catalog = broker.catalog

    def plan(self, who: Operator, vhost: str, queue: str) -> ConversionView:
        """What would come of it. Changes nothing. Raises PreconditionFailed where the queue cannot be converted."""
        record = self._record(who, vhost, queue)
        return self._view(record, as_converted(self._catalog, record).arguments)

    def begin(self, who: Operator, vhost: str, queue: str) -> Pending[ConversionView]:
        """Answers when it has begun; it goes on by itself. One that is on its way is fine."""
        record = self._record(who, vhost, queue)
        wish = as_converted(self._catalog, record)
        if self._becoming(record) is not None:
            return Pending.of(self._view(record, wish.arguments))
        return self._broker.metadata.submit(wish).map(lambda now: self._view(record, now.arguments))

    def progress(self, who: Operator, vhost: str, queue: str) -> ConversionView:
        record = self._record(who, vhost, queue)
        becoming = self._becoming(record)
        return self._view(record, becoming.arguments if becoming is not None else {})

    def under_way(self, record: QueueRecord) -> ConversionView | None:
        """For whoever may see the queue. None: it is not being converted."""
        becoming = self._becoming(record)
        return self._view(record, becoming.arguments) if becoming is not None and record.kind == "classic" else None

    def cancel(self, who: Operator, vhost: str, queue: str) -> Pending[Any]:
        """The queue stays a classic one with all it has. Raises PreconditionFailed when it is not being converted."""
        record = self._record(who, vhost, queue)
        becoming = self._becoming(record)
        if becoming is None:
            raise PreconditionFailed(f"{record.label} is not being converted")
        return self._broker.metadata.submit(DeleteQueue(vhost, becoming.name, becoming.id))

    def _record(self, who: Operator, vhost: str, queue: str) -> QueueRecord:
        who.require_tag(MANAGEMENT)
        who.vhosts(self._catalog, vhost)
        permissions.check(self._catalog, who, vhost, "configure", "queue", queue)
        record = self._catalog.queue(vhost, queue)
        if record is None:
            raise names.not_found("queue", queue, vhost)
        return record

    def _becoming(self, record: QueueRecord) -> QueueRecord | None:
        return self._catalog.queue(record.vhost, names.becoming_queue(record.name))

    def _view(self, record: QueueRecord, arguments: dict[str, Any]) -> ConversionView:
        becoming = self._becoming(record)
        state = "converting" if becoming is not None and record.kind == "classic" else record.kind
        copied = self._count(becoming) if becoming is not None else 0
        waits_for = self._waits_for(record, becoming) if becoming is not None and state == "converting" else ""
        return ConversionView(record.vhost, record.name, state, self._count(record), copied, arguments, waits_for)

    def _waits_for(self, record: QueueRecord, becoming: QueueRecord) -> str:
        """For how long, the home of the queue knows; who leads, every node."""
        found = self._broker.find_queue(becoming.vhost, becoming.name)
        if found is None:  # it is being opened or deleted
            return ""
        details = found.queue.statistics().details
        waited_ms = self._broker.copies_wait_ms(record.id)
        if waited_ms < WAITS_MS and details.get("leader"):
            return ""
        for_long = f", for {waited_ms // 1000} s" if waited_ms >= WAITS_MS else ""
        nodes = ", ".join(map(self._node_name, details.get("members", ())))
        return f"a majority of its group on {nodes}{for_long}: start these nodes, or cancel it and lose nothing"

    def _node_name(self, number: int) -> str:
        node = self._catalog.node_of_number(number)
        return node.name if node is not None else f"node {number}"

    def _count(self, record: QueueRecord) -> int:
        try:
            figures = self._broker.queue(record.vhost, record.name).statistics()
        except NotFound:  # it is being opened or deleted
            return 0
        return figures.ready + figures.unacknowledged

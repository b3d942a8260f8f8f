"""Deleting a queue for a client, perhaps only if it is empty or unused: whichever front asks, the same counts decide.

The counts that a node has at hand are those of the queue's own node or leader some time ago. So the queue is asked first, and
judged by what it answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker import names
from broker.actors import LogActor
from broker.catalog.commands import catalog_commands as commands
from broker.errors import NotFound, PreconditionFailed
from broker.pending import Pending
from broker.queues.queue_type import Queue

if TYPE_CHECKING:
    from broker.catalog.catalog import Catalog


class Deliverer(Protocol):
    def deliver_from(self, queue: Queue, now: int) -> None: ...


class DeletingBroker(Deliverer, Protocol):
    catalog: Catalog

    def submit(self, command: commands.Command, now: int, by: LogActor | None = None) -> Pending[Any]: ...


def counted(broker: Deliverer, queue: Queue, now: int) -> Pending[None]:
    """Answered when the queue's counts are right, behind what its consumers can take."""
    asked = queue.used(now)
    broker.deliver_from(queue, now)
    return Pending.of(None) if asked is None else asked


def delete_queue(
    broker: DeletingBroker, queue: Queue, *, if_unused: bool, if_empty: bool, now: int, by: LogActor | None = None
) -> Pending[int]:
    """Answers how many messages were ready. Whether `by` may do it has been checked."""
    record = queue.record
    labelled = names.labelled("queue", record.name, record.vhost)
    becoming = broker.catalog.queue(record.vhost, names.becoming_queue(record.name))

    def delete(_: None) -> Pending[int]:
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{labelled} in use")
        ready = queue.ready_count
        if if_empty and ready:
            raise PreconditionFailed(f"{labelled} not empty")
        deleted = broker.submit(commands.DeleteQueue(record.vhost, record.name, record.id), now, by)
        return deleted.then_ask(also_what_it_became).map(lambda _: ready)

    def also_what_it_became(deleted: Any) -> Pending[Any]:
        """The queue has its name now, if the one was converted before the other command came."""
        if deleted is not None or becoming is None:
            return Pending.of(None)
        return broker.submit(commands.DeleteQueue(record.vhost, record.name, becoming.id), now, by)

    try:
        asked = counted(broker, queue, now)
    except NotFound:  # its node is down: it deletes the queue when it is back
        if if_unused or if_empty:
            raise
        asked = Pending.of(None)
    return asked.then_ask(delete)

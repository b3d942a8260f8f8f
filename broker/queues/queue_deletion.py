"""Deleting a queue for a client, perhaps only if it is empty or unused: whichever front asks, the same counts decide.

The counts that a node has at hand are those of the queue's own node or leader some time ago. So the queue is asked first, and
judged by what it answers; and before that the catalog is (UseQueue), for a command that cannot be brought there now may come
there when the queue is neither empty nor unused any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker import names
from broker.actors import LogActor
from broker.catalog.commands import catalog_commands as commands
from broker.errors import NotFound, PreconditionFailed
from broker.pending import Pending
from broker.queues.queue_type import Queue
from broker.records import QueueRecord

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
    conditional = if_unused or if_empty

    def count(reached: QueueRecord | None) -> Pending[int]:
        uses = reached.uses if reached is not None and conditional else None
        try:
            asked = counted(broker, queue, now)
        except NotFound:  # its node is down: it deletes the queue when it is back
            if conditional:
                raise
            asked = Pending.of(None)
        return asked.then_ask(lambda _: delete(uses))

    def delete(uses: int | None) -> Pending[int]:
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{labelled} in use")
        ready = queue.ready_count
        if if_empty and ready:
            raise PreconditionFailed(f"{labelled} not empty")
        deleted = broker.submit(commands.DeleteQueue(record.vhost, record.name, record.id, uses), now, by)
        return deleted.then_ask(also_what_it_became).map(lambda _: ready)

    def also_what_it_became(deleted: Any) -> Pending[Any]:
        """The queue has its name now, if the one was converted before the other command came."""
        if deleted is None and conditional and broker.catalog.queue_of_id(record.id) is not None:
            raise PreconditionFailed(f"{labelled} in use: it was declared again")
        if deleted is not None or becoming is None:
            return Pending.of(None)
        return broker.submit(commands.DeleteQueue(record.vhost, record.name, becoming.id), now, by)

    if not conditional:
        return count(None)
    return broker.submit(commands.UseQueue(record.vhost, record.name, record.id), now, by).then_ask(count)

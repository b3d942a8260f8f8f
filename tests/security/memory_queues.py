"""A kind of queue that keeps messages in a list: what the matrix needs of one, and nothing that could fail on its own."""

from __future__ import annotations

from collections.abc import Sequence

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import (
    DeadMessage,
    DeathReason,
    Got,
    HeldSlice,
    Outcome,
    Queue,
    QueueHost,
    QueueStatistics,
    Slice,
)
from broker.records import QueueRecord


class MemoryQueue:
    """Hands out whole runs of one message; what is settled is forgotten, dead-lettered, or put back in front."""

    def __init__(self, record: QueueRecord, host: QueueHost) -> None:
        self.record = record
        self.host = host
        self.ready: list[tuple[Run, int]] = []
        self.consumers: list[Consumer] = []
        self.out: dict[int, Run] = {}
        self._next = 1

    @property
    def ready_count(self) -> int:
        return len(self.ready)

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    def take(self, run: Run) -> None:
        self.ready.append((run, self._next))
        self._next += 1

    def consume(self, consumer: Consumer, now: int) -> None:
        self.consumers.append(consumer)

    def cancel(self, consumer: Consumer, now: int) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    def _pop(self, no_ack: bool) -> tuple[Slice, bytes]:
        run, sequence = self.ready.pop(0)
        if not no_ack:
            self.out[sequence] = run
        return Slice(self, sequence, sequence, 1, 0, run.exchange, run.routing_key), run.content

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        if not self.ready:
            return Pending.of(None)
        piece, content = self._pop(no_ack)
        return Pending.of(Got(piece, content, len(self.ready)))

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        run = self.out.pop(piece.sequence)
        if outcome in (Outcome.REQUEUED, Outcome.RETURNED):
            self.ready.insert(0, (run, piece.sequence))
        elif outcome is Outcome.REJECTED:
            dead = [DeadMessage(run.exchange, run.routing_key, run.content, run.persistent)]
            self.host.dead_letter(self, DeathReason.REJECTED, dead, now)

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        for one in held:
            self.settle(one.slice(), outcome, now)

    def pump(self, now: int) -> None:
        for consumer in self.consumers:
            while self.ready and consumer.room():
                consumer.deliver(*self._pop(consumer.no_ack))

    def used(self, now: int) -> None:
        pass

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        count, self.ready = len(self.ready), []
        return Pending.of(count)

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        pass

    def counts(self) -> QueueStatistics:
        return self.statistics()

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(ready=len(self.ready), consumers=len(self.consumers))


class MemoryQueues:
    """Fulfils broker.queue_type.QueueType under the name of the everyday kind."""

    name = "classic"

    def __init__(self, host: QueueHost) -> None:
        self.host = host

    def check(self, record: QueueRecord) -> None:
        pass

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> MemoryQueue:
        return MemoryQueue(record, self.host)

    def delete(self, queue: Queue, now: int) -> int:
        return queue.ready_count

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        for queue in queues:
            assert isinstance(queue, MemoryQueue), f"{queue!r} is of another kind"
            queue.take(run)
            self.host.wake(queue)
            if receipt is not None:
                receipt.accepted()

"""The plainest queue that keeps the contract: one list of single messages, nothing durable, nothing fast.

It defines what tests/contract asks of the real kinds, and is the queue behind the tests of the broker. Its name is that of
the kind it stands in for.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.errors import AccessRefused
from broker.messages.browsed import Browsed, bounded
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one
from broker.names import labelled
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import (
    UNUSED,
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
from native.content import body_bytes, singles

DROP_HEAD = "drop-head"


@dataclass
class Message:
    sequence: int
    level: int  # of priority
    exchange: str
    routing_key: str
    content: bytes
    persistent: bool
    expires_at: int | None
    redelivered: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Smaller is served first."""
        return -self.level, self.sequence

    @property
    def body_bytes(self) -> int:
        return body_bytes(self.content, 0, 1)


class MemoryQueue:
    """Fulfils broker.queues.queue_type.Queue."""

    def __init__(self, record: QueueRecord, effective: EffectiveArguments, host: QueueHost, now: int) -> None:
        self.record = record
        self.deleted = False
        self._effective = effective
        self._host = host
        self._ready: list[Message] = []
        self._out: dict[int, Message] = {}
        self._consumers: list[Consumer] = []  # the one whose turn it is comes first
        self._active: Consumer | None = None
        self._next_sequence = 0
        self._used_at = now
        self._figures = QueueStatistics()
        self._cancel_expiry: Callable[[], None] | None = None
        self._watch_use()

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    @property
    def consumer_count(self) -> int:
        return len(self._consumers)

    # who consumes

    def consume(self, consumer: Consumer, now: int) -> None:
        single = self._effective.single_active_consumer
        alone = consumer.exclusive and (self._consumers or single)
        if alone or any(other.exclusive for other in self._consumers):
            raise AccessRefused(f"{labelled('queue', self.record.name, self.record.vhost)} in exclusive use")
        self._consumers.append(consumer)
        consumer.active = not single
        self._elect()
        self.used(now)
        self._host.wake(self)

    def cancel(self, consumer: Consumer, now: int) -> None:
        if consumer not in self._consumers:
            return
        self._consumers.remove(consumer)
        if self._active is consumer:
            self._active = None
        self._elect()
        self.used(now)
        if self.record.auto_delete and not self._consumers:
            self._host.delete_queue(self, "its last consumer left")
        self._host.wake(self)

    def _elect(self) -> None:
        if self._effective.single_active_consumer and self._active is None and self._consumers:
            self._active = max(self._consumers, key=lambda consumer: consumer.priority)  # the first of equals
            self._active.active = True

    def _next_consumer(self) -> Consumer | None:
        free = [consumer for consumer in self._consumers if consumer.room()]
        if not free:
            return None
        chosen = max(free, key=lambda consumer: consumer.priority)
        self._consumers.remove(chosen)
        self._consumers.append(chosen)
        return chosen

    # what comes and goes

    @property
    def one_by_one(self) -> bool:
        return self._effective.one_by_one

    def takes(self, run: Run, now: int) -> bool:
        """False when a length limit keeps the run out."""
        if self._effective.overflow == DROP_HEAD:
            return True
        self.pump(now)  # what consumers take now needs no room
        size = self.ready_bytes + run.body_bytes
        return not self._exceeds(len(self._ready) + run.count, size)

    def add(self, run: Run, now: int) -> None:
        lives = [ttl for ttl in (run.expiration_ms, self._effective.message_ttl_ms) if ttl is not None]
        expires_at = now + min(lives) if lives else None
        level = min(run.priority, self._effective.max_priority or 0)
        for content in singles(run.content, 0, run.count):
            message = Message(
                self._next_sequence,
                level,
                run.exchange,
                run.routing_key,
                content,
                run.persistent,
                expires_at,
                run.redelivered,
            )
            insort(self._ready, message, key=lambda waiting: waiting.place)
            self._next_sequence += 1
        self._figures.published += run.count
        if expires_at is not None:
            self._host.call_at(expires_at, lambda _: self._host.wake(self))
        if expires_at == now or self._too_long():
            self._deliver(now - 1)  # a moment ago it was alive
            self._drop_expired(now)
            self._drop_excess(now)
        self._host.wake(self)

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        self.used(now)
        self._drop_expired(now)
        if not self._ready:
            return Pending.of(None)
        piece, content = self._take(1, no_ack)
        self._figures.got += 1
        return Pending.of(Got(piece, content, len(self._ready)))

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        for one in held:
            self.settle(one.slice(), outcome, now)

    def pump(self, now: int) -> None:
        if not self.deleted:
            self._deliver(now)

    def _deliver(self, now: int) -> None:
        while True:
            self._drop_expired(now)
            consumer = self._next_consumer() if self._ready else None
            if consumer is None:
                return
            piece, content = self._take(consumer.room(), consumer.no_ack)
            if consumer.no_ack:
                self._figures.delivered_no_ack += piece.count
            else:
                self._figures.delivered += piece.count
            if piece.redelivered:
                self._figures.redelivered += piece.count
            consumer.deliver(piece, content)

    def _take(self, count_max: int, no_ack: bool) -> tuple[Slice, bytes]:
        """The first message, and those behind it that can travel with it."""
        first = self._ready[0]
        taken: list[Message] = []
        while self._ready and len(taken) < count_max and travels_with(first, self._ready[0], len(taken)):
            taken.append(self._ready.pop(0))
        if not no_ack:
            self._out |= {message.sequence: message for message in taken}
        content = b"".join(message.content for message in taken)
        piece = Slice(self, None, first.sequence, len(taken), 0, first.exchange, first.routing_key, first.redelivered)
        return piece, content

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        if self.deleted:
            return
        for sequence in range(piece.sequence, piece.sequence + piece.count):
            message = self._out.pop(sequence)
            if outcome is Outcome.ACKNOWLEDGED:
                self._figures.acknowledged += 1
            elif outcome is Outcome.REJECTED:
                self._die([message], DeathReason.REJECTED, now)
            else:
                message.redelivered |= outcome is not Outcome.RETURNED
                insort(self._ready, message, key=lambda waiting: waiting.place)
        self._drop_excess(now)
        self._host.wake(self)

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        self._drop_expired(now)
        found = [
            Browsed(one.exchange, one.routing_key, one.content, one.persistent, one.redelivered)
            for one in self._ready[skip : skip + limit]
        ]
        return Pending.of(bounded(found, limit))

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        purged = len(self._ready)
        self._ready = []
        return Pending.of(purged)

    # rules

    @property
    def ready_bytes(self) -> int:
        return sum(message.body_bytes for message in self._ready)

    def _exceeds(self, count: int, size: int) -> bool:
        count_max, bytes_max = self._effective.max_length, self._effective.max_length_bytes
        return (count_max is not None and count > count_max) or (bytes_max is not None and size > bytes_max)

    def _too_long(self) -> bool:
        return bool(self._ready) and self._exceeds(len(self._ready), self.ready_bytes)

    def _drop_excess(self, now: int) -> None:
        """The oldest of the lowest priority goes first."""
        while self._effective.overflow == DROP_HEAD and self._too_long():
            lowest = self._ready[-1].level
            victim = next(message for message in self._ready if message.level == lowest)
            self._ready.remove(victim)  # first, for dead letters may come back here, and make another excess, at once
            self._die([victim], DeathReason.MAXLEN, now)

    def _drop_expired(self, now: int) -> None:
        """Only what stands at the head of its priority."""
        for level in {message.level for message in self._ready}:
            while (head := next((one for one in self._ready if one.level == level), None)) is not None:
                if head.expires_at is None or head.expires_at > now:
                    break
                self._ready.remove(head)
                self._die([head], DeathReason.EXPIRED, now)

    def _die(self, messages: Sequence[Message], reason: DeathReason, now: int) -> None:
        if self._effective.dead_letter_exchange is not None:
            dead = [DeadMessage(one.exchange, one.routing_key, one.content, one.persistent) for one in messages]
            self._host.dead_letter(self, reason, dead, now)

    def refused(self, run: Run, now: int) -> None:
        """The run was not taken; with reject-publish-dlx it is a dead letter all the same."""
        if self._effective.overflow == "reject-publish-dlx" and self._effective.dead_letter_exchange is not None:
            contents = list(singles(run.content, 0, run.count))
            dead = [DeadMessage(run.exchange, run.routing_key, content, run.persistent) for content in contents]
            self._host.dead_letter(self, DeathReason.MAXLEN, dead, now)

    def used(self, now: int) -> None:
        self._used_at = now

    def _watch_use(self) -> None:
        if self._cancel_expiry is not None:
            self._cancel_expiry()
            self._cancel_expiry = None
        if self._effective.expires_ms is not None:
            self._cancel_expiry = self._host.call_at(self._used_at + self._effective.expires_ms, self._expire_if_unused)

    def _expire_if_unused(self, now: int) -> None:
        if self._consumers:
            self.used(now)
        if now - self._used_at >= (self._effective.expires_ms or 0):
            used_at = self._used_at
            self._host.delete_queue(self, UNUSED, lambda: not self._consumers and self._used_at == used_at)
        else:
            self._watch_use()

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self._effective = effective
        self._watch_use()
        self._drop_excess(now)
        self._host.wake(self)

    def close(self) -> None:
        self.deleted = True
        if self._cancel_expiry is not None:
            self._cancel_expiry()

    @property
    def accounted_here(self) -> bool:
        return True

    @property
    def is_starving(self) -> bool:
        return not self._ready and any(one.room() and one.priority >= 0 for one in self._consumers)

    def counts(self) -> QueueStatistics:
        return self.statistics()

    def sizes(self) -> QueueStatistics:
        return self.statistics()

    def statistics(self) -> QueueStatistics:
        figures = self._figures
        figures.ready, figures.ready_bytes = len(self._ready), self.ready_bytes
        figures.unacknowledged = len(self._out)
        figures.unacknowledged_bytes = sum(message.body_bytes for message in self._out.values())
        figures.consumers = len(self._consumers)
        figures.single_active_consumer_tag = self._active.tag if self._active is not None else None
        return figures


class MemoryQueues:
    """The kind. Fulfils broker.queues.queue_type.QueueType."""

    name = "classic"  # it stands in for that one

    def __init__(self, host: QueueHost) -> None:
        self._host = host

    def check(self, record: QueueRecord) -> None:
        """Every queue can be had."""

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        return MemoryQueue(record, effective, self._host, now)

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, MemoryQueue), f"{queue!r} is not a memory queue"
        queue.close()
        return queue.ready_count

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        for queue in queues:
            assert isinstance(queue, MemoryQueue), f"{queue!r} is not a memory queue"
            if queue.one_by_one:
                for one, owed in one_by_one(run, receipt, 1):
                    self._publish(queue, one, owed, now)
            else:
                self._publish(queue, run, receipt, now)

    def _publish(self, queue: MemoryQueue, run: Run, receipt: Receipt | None, now: int) -> None:
        taken = queue.takes(run, now)
        if taken:
            queue.add(run, now)
        else:
            queue.refused(run, now)
        if receipt is not None:
            if taken:
                receipt.accepted()
            else:
                receipt.refused()


def travels_with(first: Message, other: Message, offset: int) -> bool:
    """Whether the other one follows the first at this distance and agrees with it on what a slice says."""
    agreed = first.level, first.exchange, first.routing_key, first.redelivered, first.expires_at
    return other.sequence == first.sequence + offset and agreed == (
        other.level, other.exchange, other.routing_key, other.redelivered, other.expires_at,
    )  # fmt: skip

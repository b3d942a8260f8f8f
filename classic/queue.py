"""One classic queue: what waits, what is out, who takes it. Fulfils broker.queue_type.Queue.

Everything moves in parts of runs. What a queue must have on disk it asks of its `Store` (the driver): to note that messages are
done with, and to read contents that are not in memory.

    ready       one list for each priority, each in order of sequences; the highest priority is served first
    out         messages that consumers hold: a count, for the sessions hold the messages themselves
    ram_count   messages whose content is in memory; beyond RAM_COUNT_MAX a content is left to the log
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.consumer import Consumer
from broker.pending import Pending
from broker.policy import EffectiveArguments
from broker.queue_type import DeathReason, Got, Outcome, QueueHost, QueueStatistics, Slice
from broker.records import QueueRecord
from classic.consumers import Consumers
from classic.ready_list import ReadyList
from classic.stored_run import Part, StoredRun
from native.content import take

PORTION_BYTES_MAX = 1 << 20
RAM_COUNT_MAX = 2_048
DROP_HEAD = "drop-head"


class Store(Protocol):
    """What a queue asks of the disk."""

    def read(self, run: StoredRun) -> bytes:
        """The content of a run that is not in memory."""

    def forget(self, queue: ClassicQueue, run: StoredRun, sequence: int, count: int) -> None:
        """These messages are done with: acknowledged, dropped or handed out for good."""


class ClassicQueue:
    """See the module."""

    def __init__(
        self, record: QueueRecord, effective: EffectiveArguments, host: QueueHost, store: Store, now: int
    ) -> None:
        self.record = record
        self.next_sequence = 0
        self.deleted = False
        self._effective = effective
        self._host = host
        self._store = store
        self._ready = [ReadyList() for _ in range((effective.max_priority or 0) + 1)]
        self._consumers = Consumers(record, effective.single_active_consumer)
        self._had_consumers = False
        self._figures = QueueStatistics()
        self._out_count = 0
        self._out_bytes = 0
        self._ram_count = 0
        self._used_at = now
        self._cancel_expiry: Callable[[], None] | None = None
        self._cancel_ttl: Callable[[], None] | None = None
        self._watch_use()

    # what the contract asks

    @property
    def ready_count(self) -> int:
        return sum(ready.count for ready in self._ready)

    @property
    def ready_bytes(self) -> int:
        return sum(ready.body_bytes for ready in self._ready)

    @property
    def consumer_count(self) -> int:
        return len(self._consumers)

    def consume(self, consumer: Consumer, now: int) -> None:
        self._consumers.add(consumer)
        self._had_consumers = True
        self._used_at = now
        self._host.wake(self)

    def cancel(self, consumer: Consumer, now: int) -> None:
        if not self._consumers.remove(consumer):
            return
        self._used_at = now
        if self.record.auto_delete and self._had_consumers and not len(self._consumers):
            self._host.delete_queue(self, "its last consumer left")
        else:
            self._host.wake(self)

    def get(self, no_ack: bool, now: int) -> Pending[Got | None]:
        self._used_at = now
        self._drop_expired(now)
        ready = self._next_ready()
        if ready is None:
            return Pending.of(None)
        piece, content = self._take(ready, 1)
        self._figures.got += 1
        self._handed_out(piece, content, no_ack)
        return Pending.of(Got(piece, content, self.ready_count))

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        run: StoredRun = piece.handle
        size = self._bytes_of(run, piece.sequence, piece.count)
        self._out_count -= piece.count
        self._out_bytes -= size
        assert self._out_count >= 0, f"{self.record.name}: {-self._out_count} messages more came back than were out"
        if self.deleted:
            return
        if outcome is Outcome.ACKNOWLEDGED:
            self._figures.acknowledged += piece.count
            self._store.forget(self, run, piece.sequence, piece.count)
        elif outcome is Outcome.REJECTED:
            self._die(Part(run, piece.sequence, piece.count, None, size, False), DeathReason.REJECTED, now)
        else:
            redelivered = piece.redelivered or outcome is Outcome.REQUEUED
            part = Part(run, piece.sequence, piece.count, None, size, redelivered)
            self._ready[self._level(run)].put_back(part)
            self._watch_head(now)

    def pump(self, now: int) -> None:
        if self.deleted:
            return
        self._drop_expired(now)
        while (ready := self._next_ready()) is not None:
            consumer = self._consumers.next()
            if consumer is None:
                break
            piece, content = self._take(ready, consumer.room())
            self._handed_out(piece, content, consumer.no_ack)
            if consumer.no_ack:
                self._figures.delivered_no_ack += piece.count
            else:
                self._figures.delivered += piece.count
            if piece.redelivered:
                self._figures.redelivered += piece.count
            consumer.deliver(piece, content)
        self._watch_head(now)

    def purge(self, now: int) -> Pending[int]:
        purged = 0
        for ready in self._ready:
            for part in ready.clear():
                purged += part.count
                self._store.forget(self, part.run, part.sequence, part.count)
        self._ram_count = 0
        return Pending.of(purged)

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self._effective = effective
        self._watch_use()
        self._keep_length(now)
        self._host.wake(self)

    def statistics(self) -> QueueStatistics:
        figures = self._figures
        figures.ready = self.ready_count
        figures.ready_bytes = self.ready_bytes
        figures.unacknowledged = self._out_count
        figures.unacknowledged_bytes = self._out_bytes
        figures.consumers = len(self._consumers)
        figures.ram = self._ram_count
        active = self._consumers.active
        figures.single_active_consumer_tag = active.tag if active is not None else None
        return figures

    # publishing, as the driver does it

    def refuses(self, run_count: int, run_bytes: int) -> bool:
        """Whether a length limit keeps this run out (overflow reject-publish)."""
        effective = self._effective
        if effective.overflow == DROP_HEAD:
            return False
        over_count = effective.max_length is not None and self.ready_count + run_count > effective.max_length
        limit = effective.max_length_bytes
        return over_count or (limit is not None and self.ready_bytes + run_bytes > limit)

    @property
    def dead_letters_refused(self) -> bool:
        return self._effective.overflow == "reject-publish-dlx" and self._effective.dead_letter_exchange is not None

    def expiry_of(self, expiration_ms: int | None, now: int) -> int | None:
        """When a message published now dies of old age."""
        lives = [ttl for ttl in (expiration_ms, self._effective.message_ttl_ms) if ttl is not None]
        return now + min(lives) if lives else None

    def publish(self, run: StoredRun, now: int) -> None:
        """The run is the queue's; deliver what can be delivered."""
        self._figures.published += run.count
        self._ready[self._level(run)].append(Part(run, run.first, run.count, 0, run.body_bytes, False))
        self._ram_count += run.count
        if len(self._consumers):
            self._host.wake(self)
        self._keep_length(now)
        if run.expires_at is not None:
            self._watch_head(now)
        if self._ram_count > RAM_COUNT_MAX and run.location is not None:
            run.content = None
            self._ram_count -= run.count

    def recovered(self, parts: list[Part], next_sequence: int, now: int) -> None:
        """What the log still held for this queue, in order."""
        self.next_sequence = next_sequence
        for part in parts:
            self._ready[self._level(part.run)].append(part)
        self._keep_length(now)
        self._watch_head(now)

    # steps

    def _level(self, run: StoredRun) -> int:
        return min(run.priority, len(self._ready) - 1)

    def _next_ready(self) -> ReadyList | None:
        for ready in reversed(self._ready):
            if ready:
                return ready
        return None

    def _content(self, run: StoredRun) -> bytes:
        if run.content is None:
            run.content = self._store.read(run)
            self._figures.disk_reads += 1
        return run.content

    def _take(self, ready: ReadyList, count_max: int) -> tuple[Slice, bytes]:
        """Up to this many messages from the head of a list, all of one run."""
        part = ready.head
        run = part.run
        content = self._content(run)
        position = part.find_position(content)
        count, end, size = take(content, position, min(count_max, part.count), PORTION_BYTES_MAX)
        piece = Slice(self, run, part.sequence, count, position, run.exchange, run.routing_key, part.redelivered)
        if count == part.count:
            ready.drop_head()
            if run.location is not None:
                run.content = None  # the session may hold it for long; it can be read again
        else:
            ready.shorten_head(count, end, size)
        self._ram_count = max(0, self._ram_count - count)
        return piece, content

    def _handed_out(self, piece: Slice, content: bytes, no_ack: bool) -> None:
        if no_ack:
            self._store.forget(self, piece.handle, piece.sequence, piece.count)
        else:
            self._out_count += piece.count
            self._out_bytes += self._bytes_of(piece.handle, piece.sequence, piece.count, piece.position, content)

    def _bytes_of(
        self, run: StoredRun, sequence: int, count: int, position: int | None = None, content: bytes | None = None
    ) -> int:
        """Body bytes of some messages of a run; of a whole run it is known, of a part the average is taken."""
        if count == run.count:
            return run.body_bytes
        return run.body_bytes * count // run.count

    # leaving by age, length or rejection

    def _drop_expired(self, now: int) -> None:
        for ready in self._ready:
            while ready and ready.head.run.expires_at is not None and ready.head.run.expires_at <= now:
                self._die(ready.drop_head(), DeathReason.EXPIRED, now)

    def _keep_length(self, now: int) -> None:
        effective = self._effective
        if effective.max_length is None and effective.max_length_bytes is None:
            return
        while self._too_long():
            ready = next(ready for ready in self._ready if ready)
            self._die(self._split_head(ready), DeathReason.MAXLEN, now)

    def _too_long(self) -> bool:
        effective = self._effective
        count = self.ready_count
        if effective.max_length is not None and count > effective.max_length:
            return True
        return effective.max_length_bytes is not None and count > 0 and self.ready_bytes > effective.max_length_bytes

    def _split_head(self, ready: ReadyList) -> Part:
        """The messages at the head that are too many, as a part of their own."""
        part, effective = ready.head, self._effective
        excess = 1
        if effective.max_length is not None:
            excess = max(1, self.ready_count - effective.max_length)
        if excess >= part.count:
            return ready.drop_head()
        content = self._content(part.run)
        position = part.find_position(content)
        count, end, size = take(content, position, excess, 1 << 62)
        gone = Part(part.run, part.sequence, count, position, size, part.redelivered)
        ready.shorten_head(count, end, size)
        return gone

    def _die(self, part: Part, reason: DeathReason, now: int) -> None:
        """To the dead-letter exchange, if there is one, before the queue forgets them."""
        run = part.run
        if self._effective.dead_letter_exchange is not None:
            content = self._content(run)
            single = messages_as_contents(content, part.find_position(content), part.count)
            dead = [(run.exchange, run.routing_key, one, run.persistent) for one in single]
            self._host.dead_letter(self, reason, dead, now)
        self._store.forget(self, run, part.sequence, part.count)

    # timers

    def _watch_head(self, now: int) -> None:
        """Have the oldest message's end of life noticed."""
        ends = [ready.head.run.expires_at for ready in self._ready if ready and ready.head.run.expires_at is not None]
        if self._cancel_ttl is not None:
            self._cancel_ttl()
            self._cancel_ttl = None
        if ends:
            self._cancel_ttl = self._host.call_at(min(ends), lambda _: self._host.wake(self))

    def _watch_use(self) -> None:
        if self._cancel_expiry is not None:
            self._cancel_expiry()
            self._cancel_expiry = None
        expires = self._effective.expires_ms
        if expires is not None:
            self._cancel_expiry = self._host.call_at(self._used_at + expires, self._expire_if_unused)

    def _expire_if_unused(self, now: int) -> None:
        expires = self._effective.expires_ms
        if self.deleted or expires is None:
            return
        if len(self._consumers):
            self._used_at = now
        if now >= self._used_at + expires:
            self._host.delete_queue(self, "it was not used for as long as x-expires says")
        else:
            self._watch_use()

    def used(self, now: int) -> None:
        """Declared again: the queue is in use."""
        self._used_at = now

    def close(self) -> list[StoredRun]:
        """The queue is deleted; returns what still waited, to be forgotten."""
        self.deleted = True
        for cancel in (self._cancel_expiry, self._cancel_ttl):
            if cancel is not None:
                cancel()
        return [part.run for ready in self._ready for part in ready.clear()]


def messages_as_contents(content: bytes, position: int, count: int) -> list[bytes]:
    """Each of these messages as a content of its own."""
    singles = []
    for _ in range(count):
        _, end, _ = take(content, position, 1, 1 << 62)
        singles.append(content[position:end])
        position = end
    return singles


def details(queue: ClassicQueue) -> dict[str, Any]:
    return {"next_seq_id": queue.next_sequence}

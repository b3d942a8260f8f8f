"""One classic queue: what waits, what is out, who takes it. Fulfils broker.queues.queue_type.Queue.

    levels       one variable queue for each priority, the highest is served first; nearly always there is one
    out          sequences of messages that consumers hold; a session holds the messages themselves
    redelivered  sequences of messages that were out before and came back: the next delivery is marked so
    transient    sequences of non-persistent messages, in a durable queue: they do not outlive the node

A message lives while it is ready or out. Sequences of priority p begin at p << LEVEL_SHIFT, so one number says all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from broker.actors import LogActor
from broker.background_work import Steps
from broker.catalog.policy import EffectiveArguments
from broker.messages.browsed import Browsed, bounded
from broker.messages.message import Run
from broker.names import not_found
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, HeldSlice, Outcome, QueueHost, QueueStatistics, Slice
from broker.queues.waiting_publishes import OnPublish
from broker.records import QueueRecord
from broker.turns import DELIVERIES_MIN
from classic.browsing import browse
from classic.consumers import Consumers
from classic.deferred_work import DeferredWork
from classic.expiry import Alarm, Disuse, expiry_of
from classic.fence import Fence
from classic.leaving import PIECE_MAX, Leaving, parted
from classic.limits import DROP_HEAD, dead_letters_refused, excess, over, refuses
from classic.queue_figures import details, fill_in_ready, has_nothing, head_timestamp, persistent_bytes
from classic.run_backing import ContentLost, ContentOutOfReach
from classic.store.backing import QueueBacking
from classic.store.log_records import DoneReason
from classic.stored_run import LEVEL_SHIFT, StoredRun, is_too_old
from classic.variable_queue import VariableQueue, in_one_step
from native.sequence_set import Range, SequenceSet

T = TypeVar("T")

PORTION_BYTES_MAX = 1 << 20
ALL_BYTES = ALL_COUNT = 1 << 62
DELIVERIES_AT_ONCE_MAX = 256  # that a publish may bring about to make room, in a turn that is full already


class ClassicQueue:
    """See the module."""

    def __init__(
        self, record: QueueRecord, effective: EffectiveArguments, host: QueueHost, backing: QueueBacking, now: int
    ) -> None:
        self.record = record
        self.deleted = False
        self.fence: Fence | None = None  # it is about to become another queue
        self.named_in = 0
        self.backing = backing
        self.out = SequenceSet()
        self.redelivered = SequenceSet()
        self.transient = SequenceSet()
        self._set_levels((effective.max_priority or 0) + 1, now)
        self._host = host
        self._deferred = DeferredWork(host)
        self._leaving = Leaving(host)
        self._keep_to(effective)
        self._consumers = Consumers(record, effective.single_active_consumer)
        self._had_consumers = False
        self._figures = QueueStatistics()
        self._out_bytes = 0
        self._reduces_later = False  # positions wait until a turn has room for writing them
        self._ttl = Alarm(host)
        self._disuse = Disuse(host, now)
        self._disuse.watch(self, effective.expires_ms)

    # what the contract asks

    @property
    def ready_count(self) -> int:
        level = self._only_level
        return level.ready.count if level is not None else sum(level.ready.count for level in self.levels)

    @property
    def ready_bytes(self) -> int:
        return sum(level.ready_bytes for level in self.levels)

    @property
    def consumer_count(self) -> int:
        return len(self._consumers.in_turn)

    def consume(self, consumer: Consumer, now: int) -> None:
        self._consumers.add(consumer)
        self._had_consumers = True
        self._disuse.used_at = now
        self._host.wake(self)

    def cancel(self, consumer: Consumer, now: int) -> None:
        if not self._consumers.remove(consumer):
            return
        self._disuse.used_at = now
        self._disuse.watch(self, self._effective.expires_ms)
        if self.record.auto_delete and self._had_consumers and not self._consumers.in_turn:
            self._host.delete_queue(self, "its last consumer left")
        else:
            self._host.wake(self)

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        self._disuse.used_at = now
        if self.fence is not None:
            return self.fence.later(lambda queue: queue.get(no_ack, now, by))
        if self._deferred.is_under_way(self) or self._deferred.waits_for_reach(self):
            return self._later(lambda now: self.get(no_ack, now, by))
        try:
            got = self._get(no_ack, now, by)
        except ContentOutOfReach:
            return self._later_in_reach(lambda now: self.get(no_ack, now, by))
        if got is None and self._deferred.is_under_way(self):
            return self._later(lambda now: self.get(no_ack, now, by))
        return Pending.of(got)

    def _get(self, no_ack: bool, now: int, by: LogActor | None) -> Got | None:
        while (level := self._next_deliverable(now)) is not None:
            taken = self._take(level, 1)
            if taken is not None:
                self._figures.got += 1
                taken[0].taker = by
                self._handed_out(taken[0], DoneReason.GOT if no_ack else None)
                self._drop_expired(now)  # the client is told what it can still get
                self._watch_head()
                return Got(*taken, self.ready_count)
        return None

    def _later(self, ask: Callable[[int], Pending[T]]) -> Pending[T]:
        """Its answer when no work is deferred any more."""
        answer: Pending[T] = Pending()
        self._deferred.wait(lambda now: ask(now).then(answer.resolve, answer.fail))
        return answer

    def _later_in_reach(self, ask: Callable[[int], Pending[T]]) -> Pending[T]:
        self._deferred.wait_for_reach(self)
        return self._later(ask)

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        if self._deferred.settlements or not self._host.work.in_turn():
            if not self.deleted:
                self._deferred.settle(self, piece, outcome, now)
        else:
            self.settle_now(piece, outcome, now)

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        if len(held) == 1 and outcome is Outcome.ACKNOWLEDGED and not self._deferred.settlements:
            self.settle_now(held[0].slice(), outcome, now)  # one delivery of each of very many queues
        elif not self.deleted:
            self._deferred.settle_all(self, held, outcome, now)

    def settle_now(self, piece: Slice, outcome: Outcome, now: int) -> None:
        """The same, in this step."""
        if self.deleted:
            return
        if self.fence is not None and self.fence.sealed:
            self.fence.settlements.append((piece, outcome))
            return
        rest: Slice | None = None
        if outcome is Outcome.REJECTED and self.dead_letters:
            piece, rest = parted(piece, PIECE_MAX)
        run: StoredRun = piece.handle
        first, end = piece.sequence, piece.sequence + piece.count
        size, buried = run.bytes_of(first, end), None
        try:
            if outcome is Outcome.REJECTED:
                buried = self._leaving.content_of(self, piece, self._effective)
            elif outcome is not Outcome.ACKNOWLEDGED:
                self.level_at(run.first).requeue(run, first, piece.count)
        except ContentOutOfReach:
            self._deferred.wait_for_reach(self)
            if rest is not None:
                self._deferred.settle_first(self, rest, outcome, now)
            self._deferred.settle_first(self, piece, outcome, now)
            return
        gone = self.out.remove(first, end)
        assert gone == piece.count, f"{self.record.name}: of {first} to {end - 1} only {gone} messages were out"
        self._out_bytes = self._out_bytes - size if self.out else 0
        if outcome is Outcome.ACKNOWLEDGED:
            self._figures.acknowledged += piece.count
            self.level_at(run.first).rates.ack_egress.count += piece.count
            self.forget(run, first, piece.count, DoneReason.ACKNOWLEDGED, piece.taker)
        elif outcome is Outcome.REJECTED:
            if buried is not None:
                self._leaving.bury(self, piece, buried, now)
            self.forget(run, first, piece.count, DoneReason.REJECTED, piece.taker)
            if rest is not None:
                self._deferred.settle_first(self, rest, outcome, now)
        else:
            self.backing.came_back(self, run, first, piece.count, piece.back, piece.taker)
            if outcome is not Outcome.RETURNED:
                self.redelivered.add(first, end)
            self._keep_length(now)
            self._watch_head()
            self._host.wake(self)

    def pump(self, now: int, at_once: int = 0) -> None:
        """As much as this turn has room for, but `at_once` times at least."""
        if self.deleted or self.fence is not None:
            return
        in_turn = self._consumers.in_turn
        while in_turn and (level := self._next_deliverable(now)) is not None:
            if not self._host.work.in_turn(at_least=DELIVERIES_MIN) and not at_once:
                self._deferred.pump(self)
                break
            at_once -= at_once > 0
            turn = self._consumers.next(level.ready.count)
            if turn is None:
                break
            consumer, room = turn
            try:
                taken = self._take(level, room)
            except ContentOutOfReach:
                self._deferred.wait_for_reach(self)
                break
            if taken is None:
                continue
            piece, content = taken
            piece.taker = consumer.actor
            self._handed_out(piece, DoneReason.SENT if consumer.no_ack else None)
            if consumer.no_ack:
                self._figures.delivered_no_ack += piece.count
            else:
                self._figures.delivered += piece.count
            consumer.deliver(piece, content)
            if self.deleted:
                return
            if 0 < consumer.prefetch <= consumer.outstanding and len(in_turn) == 1:
                break  # nobody has room: there is no need to look for what is next
        first_end = self._first_end()
        if first_end is not None and first_end <= now:
            self._deferred.trim(self, now + 1)
            first_end = self._first_end()
        for level in self.levels:
            if level.ready:
                self._reduce(level)
        if first_end != self._ttl.when or self._deferred.out_of_reach:
            self._watch(first_end)

    def used(self, now: int) -> Pending[None] | None:
        self._disuse.used_at = now
        return self._later(lambda now: Pending.of(None)) if self._deferred.is_under_way(self) else None

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        if self.deleted:
            return Pending.of([])
        if self._deferred.is_under_way(self) or self._deferred.waits_for_reach(self):
            return self._later(lambda now: self.browse(skip, limit, now))
        try:
            return Pending.of(bounded(islice(browse(self, skip, now), limit), limit))
        except ContentOutOfReach:
            return self._later_in_reach(lambda now: self.browse(skip, limit, now))

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        if self.fence is not None:
            return self.fence.later(lambda queue: queue.purge(now, by))
        if self._deferred.is_under_way(self) or self._deferred.waits_for_reach(self):
            return self._later(lambda now: self.purge(now, by))
        if self.deleted:
            return Pending.of(0)
        purged = self.ready_count
        try:
            self.backing.release_ready(self)
        except ContentOutOfReach:
            return self._later_in_reach(lambda now: self.purge(now, by))
        gone = [pair for level in self.levels for pair in level.purge()]
        for first, end in gone:
            self.redelivered.remove(first, end)
        kept = self._persistent_ranges(gone)
        for first, end in gone:
            self.transient.remove(first, end)
        self._watch_head()
        return self.backing.purged(self, kept, purged, by)

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self._keep_to(effective)
        self._disuse.watch(self, effective.expires_ms)
        self._keep_length(now)
        self._watch_head()
        self._host.wake(self)

    @property
    def accounted_here(self) -> bool:
        return True

    @property
    def is_starving(self) -> bool:
        waiting = self._consumers.waiting() if not self.ready_count else None
        return waiting is not None and waiting[0].priority >= 0

    def counts(self) -> QueueStatistics:
        figures = self._figures
        levels, backing = self.levels, self.backing
        figures.ready = levels[0].ready.count if len(levels) == 1 else self.ready_count
        figures.unacknowledged = self.out.count
        figures.disk_reads, figures.disk_writes = backing.reads, backing.writes
        return figures

    def statistics(self) -> QueueStatistics:
        figures = self.sizes()
        figures.exclusive_consumer_tag = self._consumers.exclusive_tag
        figures.head_timestamp = head_timestamp(self.levels) if figures.ready else None
        return figures.with_details(details(self.levels))

    def sizes(self) -> QueueStatistics:
        figures, active = self.counts(), self._consumers.active
        figures.consumers = self.consumer_count
        figures.single_active_consumer_tag = active.tag if active is not None else None
        if not figures.ready and not figures.unacknowledged:
            has_nothing(figures)
            return figures
        fill_in_ready(figures, self.levels)
        figures.unacknowledged_bytes = self._out_bytes
        figures.persistent = figures.ready + figures.unacknowledged - self.transient.count if self.record.durable else 0
        figures.persistent_bytes = persistent_bytes(figures)
        return figures

    # publishing, as the driver does it

    def refuses(self, run: Run, now: int) -> bool:
        """Whether a length limit keeps this run out. What consumers can take at once does not count."""
        if not refuses(self._effective, self.ready_count + run.count, self.ready_bytes + run.body_bytes):
            return False
        if self._consumers.in_turn:
            self.pump(now, DELIVERIES_AT_ONCE_MAX)
        return refuses(self._effective, self.ready_count + run.count, self.ready_bytes + run.body_bytes)

    def refused(self, run: Run, now: int) -> None:
        """The run was kept out; it may have to be dead-lettered."""
        if dead_letters_refused(self._effective):
            self._leaving.bury_run(self, run, now)

    def deliver_at_once(self, run: Run, now: int) -> bool:
        """Hand out a run that needs no disk, if nothing waits before it and a consumer that does not acknowledge has room
        for it. It never was in the queue then."""
        if not self._consumers.in_turn or self.ready_count or self._deferred.is_under_way(self):
            return False
        waiting = self._consumers.waiting()
        if waiting is None or not waiting[0].no_ack or waiting[1] < run.count or run.body_bytes > PORTION_BYTES_MAX:
            return False
        level = self.level_of(run.priority)
        stored = self.stored(run, level, now)
        level.next_sequence += run.count
        level.rates.ingress.count += run.count
        level.rates.egress.count += run.count
        self._figures.published += run.count
        self._figures.delivered_no_ack += run.count
        consumer = waiting[0]
        self._consumers.served(consumer)
        piece = Slice(self, stored, stored.first, run.count, 0, run.exchange, run.routing_key, run.redelivered)
        consumer.deliver(piece, run.content)
        return True

    def level_of(self, priority: int) -> VariableQueue:
        level = self._only_level
        return level if level is not None else self.levels[min(priority, len(self.levels) - 1)]

    def stored(self, run: Run, level: VariableQueue, now: int) -> StoredRun:
        """The run as it will stand behind all others of its level."""
        return StoredRun(
            level.next_sequence,
            run.count,
            run.exchange,
            run.routing_key,
            run.content,
            run.body_bytes,
            run.persistent,
            run.priority,
            expiry_of(run.expiration_ms, self._effective, now),
        )

    def published(self, run: StoredRun, level: VariableQueue, now: int) -> None:
        """The run is in its level; what consumers have room for is delivered at the end of the turn."""
        self._figures.published += run.count
        if run.expires_at is not None:
            if run.expires_at <= now:
                self.pump(now, DELIVERIES_AT_ONCE_MAX)  # now or never
            else:
                self._watch_head()
        if self._effective.max_length is not None or self._effective.max_length_bytes is not None:
            self._limit_length(now)
        if self._deferred.trimming and self._deferred.is_outrun(self):
            self.backing.outrun[self] = None
        if self._consumers.in_turn:
            self._host.wake(self)
        else:
            self._reduce(level)

    def _reduce(self, level: VariableQueue) -> None:
        """Hundreds of queues may have to in one turn: behind a fan-out."""
        if level.reduce(self._host.work.in_turn) and not self._reduces_later:
            self._reduces_later = True
            self._host.work.do(self._reduced_later())

    def _reduced_later(self) -> Steps:
        yield
        for level in self.levels:
            while not (self.deleted or self._deferred.has_finished) and level.reduce(in_one_step()):
                yield
        self._reduces_later = False

    @property
    def dead_letters(self) -> bool:
        """Whether it has a dead-letter exchange."""
        return self._effective.dead_letter_exchange is not None

    @property
    def is_outrun(self) -> bool:
        return not self.deleted and self._deferred.is_outrun(self)

    # for who looks after files

    def level_at(self, sequence: int) -> VariableQueue:
        level = self._only_level
        return level if level is not None else self.levels[sequence >> LEVEL_SHIFT]

    def alive_in(self, first: int, end: int) -> list[Range]:
        """Which messages from `first` on and before `end` live, as ranges in order."""
        ready = self.level_at(first).ready.intersect(first, end)
        out = self.out.intersect(first, end) if self.out else []
        return sorted(ready + out) if ready and out else ready or out

    @property
    def next_sequences(self) -> list[int]:
        return [level.next_sequence for level in self.levels]

    def recovered(self, now: int) -> None:
        """Its levels were filled by recovery, and all queues are open: what leaves may be dead-lettered to any of them."""
        self._drop_expired(now)
        self._keep_length(now)
        self._watch_head()

    def look_again(self, now: int) -> None:
        """What could not be read may be in reach."""
        try:
            for level in self.levels:
                level.reach()
        except ContentOutOfReach:
            self._deferred.wait_for_reach(self)
        else:
            self.recovered(now)

    def tick(self, now: int, pressure: float) -> bool:
        """Measure rates, and let go of what may not stay in memory. False when nothing goes on here any more."""
        self._leaving.tick()
        self._deferred.retry(self, now)
        busy = self._deferred.waits_for_reach(self)
        for level in self.levels:
            level.tick(now, pressure)
            self._reduce(level)
            rates = level.rates
            busy = busy or any(
                rate.per_second > 0.01 or rate.count for rate in (rates.ingress, rates.egress, rates.ack_egress)
            )
        return busy

    def finish(self) -> None:
        """The node stops."""
        self._deferred.finish(self)

    @property
    def is_settling(self) -> bool:
        """Whether messages that sessions have given back are still counted as out."""
        return bool(self._deferred.settlements)

    def unfence(self, publish: OnPublish, now: int) -> None:
        """The queue stays what it was."""
        fence, self.fence = self.fence, None
        if fence is None or self.deleted:
            return
        for piece, outcome in fence.settlements:
            self.settle(piece, outcome, now)
        fence.open(self, publish)
        self._drop_expired(now)
        self._host.wake(self)

    def deleted_behind_fence(self) -> None:
        """Nobody waits any longer for what it was to become."""
        fence, self.fence = self.fence, None
        if fence is not None:
            fence.gone(not_found("queue", self.record.name, self.record.vhost))

    def close(self, now: int) -> None:
        """The queue is deleted."""
        self.deleted = True
        self._deferred.resume(self, now)
        self._ttl.cancel()
        self._disuse.cancel()

    def drop_contents(self, now: int) -> None:
        """The queue is closed, and what it had is deleted. Whoever still knows the queue keeps nothing of it in memory, nor its
        consumers, whose sessions know it as a target."""
        self._set_levels(len(self.levels), now)
        self._consumers = Consumers(self.record, single_active=False)

    # steps

    def _set_levels(self, count: int, now: int) -> None:
        """Empty ones."""
        backing = self.backing
        limits = backing.runs_max, backing.ram_count_max, backing.ram_bytes_kept
        self.levels = [VariableQueue(backing, level << LEVEL_SHIFT, now, *limits) for level in range(count)]
        self._only_level = self.levels[0] if count == 1 else None  # as in nearly every queue

    def _keep_to(self, effective: EffectiveArguments) -> None:
        self._effective = effective
        self.one_by_one = effective.one_by_one  # each message that comes is to be a run of its own
        self.may_refuse = effective.overflow != DROP_HEAD

    def _next_deliverable(self, now: int) -> VariableQueue | None:
        """The highest level with a message that may still be delivered; what is too old at a head goes. None also where that
        cannot be said before later turns."""
        if self._deferred.returning or self._deferred.out_of_reach or self.deleted:
            return None
        for level in reversed(self.levels):
            if level.ready and is_too_old(level.head(), now):
                self._deferred.trim(self, now)
                if is_too_old(level.head(), now):
                    return None
            if level.ready:
                return level
        return None

    def _take(self, level: VariableQueue, count_max: int) -> tuple[Slice, bytes] | None:
        """Up to this many messages from the head of a level, all alike. None if their content was lost. Raises
        ContentOutOfReach."""
        redelivered = False
        if self.redelivered:
            level.reach()
            first = level.ready.first()
            redelivered = first in self.redelivered
            count_max = min(count_max, self._count_alike(level, first, redelivered))
        try:
            run, first, count, content, position = level.take(count_max, PORTION_BYTES_MAX)
        except ContentLost:
            return None
        return Slice(self, run, first, count, position, run.exchange, run.routing_key, redelivered), content

    def _count_alike(self, level: VariableQueue, first: int, redelivered: bool) -> int:
        """How many messages from the first on are marked, or are not marked, as it is."""
        run = level.head()
        assert run is not None, f"message {first} is ready and has no run"
        marked = self.redelivered.first_range(first, run.end)
        if marked is None:
            return run.end - first
        return marked[1] - first if redelivered else marked[0] - first

    def _handed_out(self, piece: Slice, done: DoneReason | None) -> None:
        """`done`: nobody will acknowledge it."""
        run, first, end = piece.handle, piece.sequence, piece.sequence + piece.count
        self.backing.active[self] = None
        if piece.redelivered:
            self._figures.redelivered += piece.count
        if done is not None:
            self.forget(run, first, piece.count, done, piece.taker)
            return
        self.out.add(first, end)
        if self.backing.tells_out:
            self.backing.handed_out(self, run, first, piece.count, piece.taker, again=piece.redelivered)
        self._out_bytes += run.bytes_of(first, end)
        self.level_at(first).rates.ack_ingress.count += piece.count

    def forget(self, run: StoredRun, first: int, count: int, reason: DoneReason, by: LogActor | None = None) -> None:
        """Messages that are neither ready nor out any more."""
        if self.redelivered:
            self.redelivered.remove(first, first + count)
        if self.transient:
            self.transient.remove(first, first + count)
        if run.where is not None:
            self.backing.forget(self, run, first, count, reason, by)

    def _persistent_ranges(self, ranges: list[Range]) -> list[Range]:
        if not self.transient:
            return ranges
        kept = SequenceSet()
        for first, end in ranges:
            kept.add(first, end)
            for start, stop in self.transient.intersect(first, end):
                kept.remove(start, stop)
        return kept.ranges()

    # leaving by age, length or rejection

    def _drop_expired(self, now: int) -> None:
        """What had to be delivered before now."""
        first_end = self._first_end()
        if first_end is not None and first_end < now:
            self._deferred.trim(self, now)

    def trim_some(self, now: int) -> bool:
        """One step of letting go at the head; False when nothing is left to go. Raises ContentOutOfReach."""
        return self.fence is None and self._leaving.trim_some(self, self._effective, now)

    def _limit_length(self, now: int) -> None:
        """The same as `_keep_length`, but consumers may take what is too much."""
        if self._consumers.in_turn and over(self._effective, self.ready_count, self.ready_bytes):
            self.pump(now, DELIVERIES_AT_ONCE_MAX)
        self._keep_length(now)

    def _keep_length(self, now: int) -> None:
        if excess(self._effective, self.ready_count, self.ready_bytes) > 0:
            self._deferred.trim(self, now)
            self._watch_head()  # which may be due before the one that made room

    # timers

    def _watch_head(self) -> None:
        """Have the end of life of the first message noticed."""
        self._watch(self._first_end())

    def _first_end(self) -> int | None:
        """When the life of a message at a head ends; the earliest one's."""
        when: int | None = None
        for level in self.levels:
            if not level.ready:
                continue
            run = level.head()
            if run is None:
                self._deferred.wait_for_reach(self)
            elif run.expires_at is not None and (when is None or run.expires_at < when):
                when = run.expires_at
        return when

    def _watch(self, when: int | None) -> None:
        if self._deferred.waits_for_reach(self):
            when = None  # the next tick looks again: until then a message whose time is over would ring without end
        self._ttl.set(when, self._head_is_too_old)

    def _head_is_too_old(self, now: int) -> None:
        self._host.wake(self)

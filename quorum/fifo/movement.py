"""Where messages go within a quorum queue, a bounded number of rows with each entry: what the machine is built on.

    handed out      to consumers whose turn it is
    coming back     from those who are done with them: ready again, later, or dead
    dying           expired, beyond the limits, rejected or failed too often

One entry is applied in one turn of the event loop, on every member. What it may not move any more waits: ready, or in
quorum/fifo/returning.py, and the deadline has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.queues.queue_type import DeathReason
from quorum.fifo import inspection, versions
from quorum.fifo.consumers import MachineConsumer
from quorum.fifo.effects import DeadHeld, DeadLetter, Deliver, Effect
from quorum.fifo.queue_state import QueueState
from quorum.fifo.returning import Fate, is_for_dead_letters
from quorum.fifo.rules import DeadLetters, Retry
from quorum.fifo.stored import StoredMessages

EXPIRED_MAX = 20_000  # rows that expire in one entry, before version 7
ROWS_MAX = 2_000  # that one entry moves, some 20 ms: an entry is applied in one turn of the event loop
UNBOUNDED = 1 << 62


class Unfinished(Exception):
    """The entry may move no more, and what is asked for may be among what it has left."""


class Movement:
    """See the module."""

    __slots__ = ("_dead_told", "_effects", "_expiring", "_rows", "_trail", "counters", "state")

    def __init__(self) -> None:
        self.state = QueueState()
        self.counters = inspection.MemberCounters()
        self._effects: list[Effect] = []
        self._dead_told = False  # DeadHeld is among the effects
        self._trail = 0  # of the entry being applied, for the digest
        self._expiring = EXPIRED_MAX  # rows that may still expire in it
        self._rows = UNBOUNDED  # rows that it may still move

    def _bound(self) -> None:
        """The next entry begins."""
        self._trail = 0
        self._expiring = EXPIRED_MAX
        self._rows = ROWS_MAX if self.state.version >= versions.BOUNDED else UNBOUNDED

    def _hand_out(self) -> None:
        """To those whose turn it is; then see to it that what is left may stay. What ROWS_MAX leaves, the next entry does."""
        s = self.state
        ready, consumers = s.ready, s.consumers
        assert not s.returning.count or self._rows <= 0, f"{s.returning.count} messages would be overtaken"
        while ready.count and self._rows > 0 and (turn := consumers.next(ready.count)) is not None:
            consumer, share = turn
            while share and ready.count and self._rows > 0:
                stored = ready.take(share)
                self._rows -= 1
                if stored.expires_at < s.now:
                    self._die(DeathReason.EXPIRED, [stored])  # more had expired than one entry may bury
                    continue
                share -= stored.length
                self._deliver(consumer, stored)
            consumers.served(consumer)
        if ready.count:
            if ready.soonest <= s.now:
                self._expire_ready()
            rules = s.rules
            is_limited = rules.max_length is not None or rules.max_length_bytes is not None
            if is_limited and not rules.reject_publish:
                self._drop_head()
            if self._rows <= 0:
                self._due(s.now)

    def _deliver(self, consumer: MachineConsumer, stored: StoredMessages) -> None:
        first_id = consumer.next_id
        self._hold(consumer, stored)
        self._effects.append(
            Deliver(consumer.key, first_id, stored.piece, stored.delivery_count, stored.acquired_count)
        )
        self._trail += stored.entry * first_id + stored.first
        self.counters.delivered += stored.length
        if stored.acquired_count:
            self.counters.redelivered += stored.length

    def _hold(self, consumer: MachineConsumer, stored: StoredMessages) -> None:
        s = self.state
        consumer.checked_out.add(consumer.next_id, stored, s.now)
        consumer.next_id += stored.length
        timeout = self._timeout_of(consumer)
        if timeout and s.now + timeout < s.deadline:
            s.deadline = s.now + timeout

    def _take_ready(self) -> StoredMessages | None:
        """The first message that has not expired; None: there is none. Raises Unfinished."""
        s = self.state
        bounded = s.version >= versions.GETS_BOUNDED
        while s.returning.count and not s.ready.returned:
            if bounded and self._rows <= 0:
                raise Unfinished
            self._deal_with_next()
        while s.ready.count:
            stored = s.ready.take(1)
            if stored.expires_at >= s.now:
                return stored
            self._die(DeathReason.EXPIRED, [stored])
            if not bounded:
                continue
            self._rows -= 1
            if self._rows <= 0 and s.ready.count:
                self._due(s.now)
                raise Unfinished
        return None

    def _drop_head(self) -> None:
        ready, rules = self.state.ready, self.state.rules
        length_max, size_max = rules.max_length, rules.max_length_bytes
        while length_max is not None and ready.count > length_max and self._rows > 0:
            self._rows -= 1
            self._die(DeathReason.MAXLEN, [ready.take(ready.count - length_max)])
        while size_max is not None and ready.size > size_max and self._rows > 0:
            self._rows -= 1
            self._die(DeathReason.MAXLEN, [ready.take(1)])

    def _deal_with(self, fate: Fate, messages: Sequence[StoredMessages]) -> None:
        """A client is done with them."""
        if len(messages) <= self._rows:  # then nothing waits from before
            self._rows -= len(messages)
            for stored in messages:
                self._come_back(fate, stored)
        else:
            self.state.returning.add(fate, messages)
            self._deal_with_more()

    def _deal_with_more(self) -> None:
        """Of what was settled before."""
        returning = self.state.returning
        while returning.count and self._rows > 0:
            self._deal_with_next()
        if returning.count:
            self._due(self.state.now)

    def _deal_with_next(self) -> None:
        self._rows -= 1
        self._come_back(*self.state.returning.take())

    def _come_back(self, fate: Fate, stored: StoredMessages) -> None:
        s, dies = self.state, is_for_dead_letters(fate, stored, self.state.rules.delivery_limit)
        if fate is not Fate.UNSEEN and (fate is not Fate.REJECTED or s.version >= versions.OUTCOMES_COUNTED):
            stored = stored.after_delivery(failed=fate is not Fate.RETURNED)
        if dies:
            self._die(DeathReason.REJECTED if fate is Fate.REJECTED else DeathReason.DELIVERY_LIMIT, [stored])
        elif stored.expires_at <= s.now:
            self._die(DeathReason.EXPIRED, [stored])
        elif delay := self._retry_delay(stored, fate is Fate.FAILED):
            s.delayed.add(s.now + delay, stored)
            self._due(s.delayed.due)
        else:
            s.ready.put_back(stored, fate is Fate.UNSEEN and s.version >= versions.UNSEEN_IN_PLACE)
            self._due(stored.expires_at)

    def _retry_delay(self, stored: StoredMessages, failed: bool) -> int:
        rules = self.state.rules
        if rules.retry is Retry.DISABLED or rules.retry is (Retry.RETURNED if failed else Retry.FAILED):
            return 0
        delay = rules.retry_min_ms * max(1, stored.delivery_count)
        return delay if rules.retry_max_ms is None else min(delay, rules.retry_max_ms)

    def _die(self, reason: DeathReason, messages: Iterable[StoredMessages]) -> None:
        s = self.state
        strategy = s.rules.dead_letters
        for stored in messages:
            self.counters.dead += stored.length
            self._trail += stored.entry * (reason + 2) + stored.first
            if strategy is DeadLetters.AT_MOST_ONCE:
                self._effects.append(
                    DeadLetter(reason, stored.piece, stored.delivery_count, stored.acquired_count),
                )
            elif strategy is DeadLetters.AT_LEAST_ONCE:
                s.dead.add(reason, stored, s.now)
                if not self._dead_told:
                    self._dead_told = True
                    self._effects.append(DeadHeld())

    def _expire_ready(self) -> None:
        s = self.state
        rows_max = min(self._expiring, self._rows)
        if s.ready.soonest <= s.now and rows_max > 0:
            expired = s.ready.expire(s.now, rows_max)
            self._expiring -= len(expired)
            self._rows -= len(expired)
            self._die(DeathReason.EXPIRED, expired)

    def _due(self, at: int) -> None:
        if at < self.state.deadline:
            self.state.deadline = at

    def _timeout_of(self, consumer: MachineConsumer) -> int | None:
        return self.state.rules.consumer_timeout_ms if consumer.timeout_ms is None else consumer.timeout_ms

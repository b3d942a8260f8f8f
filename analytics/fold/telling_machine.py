"""The machine of a quorum queue, which tells the lives of its messages what it does with them.

Nothing is decided here: what moves messages is overridden, done by the machine, and noted, with the time of the entry.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from analytics.fold.lives import LifeState, Lives, PublishedRun
from broker.queues.queue_type import DeathReason, Outcome
from quorum.fifo.commands import (
    ENQUEUE_HEAD,
    NO_EXPIRATION,
    OP_HEAD,
    PERSISTENT,
    SETTLE_HEAD,
    ConsumerKey,
    SessionKey,
    UponCancel,
    Withdraw,
)
from quorum.fifo.consumers import MachineConsumer
from quorum.fifo.machine import QueueMachine
from quorum.fifo.origins import OriginPart, read_parts
from quorum.fifo.results import Result, ResultCode, TakenMessage
from quorum.fifo.returning import Fate, is_for_dead_letters
from quorum.fifo.stored import StoredMessages

DEATHS = {
    DeathReason.REJECTED: LifeState.REJECTED,
    DeathReason.EXPIRED: LifeState.EXPIRED,
    DeathReason.MAXLEN: LifeState.MAXLEN,
    DeathReason.DELIVERY_LIMIT: LifeState.DELIVERY_LIMIT,
}
SETTLED = {
    Outcome.REQUEUED: "failed",
    Outcome.RETURNED: "never seen",
    Outcome.RELEASED: "released",
}
# Where it is not known who brought them back, because more came back at once than one entry deals with.
FATES = {
    Fate.RETURNED: "returned",
    Fate.FAILED: "failed",
    Fate.UNSEEN: "never seen",
    Fate.REJECTED: "rejected",
}
UPON_CANCEL = {
    UponCancel.REQUEUED: "consumer left",
    UponCancel.RETURNED: "never seen",
    UponCancel.STAYS: "consumer left",
}
_ACKED, _NO_ACK = LifeState.ACKED, LifeState.NO_ACK  # as globals, for what is done with each message
NODE_GONE = "node gone"
TIMED_OUT = "consumer timeout"
NODE_UNREACHABLE = "node unreachable"


NAMES_KEPT = 1_024  # of 255 bytes at most


class Refusal(NamedTuple):
    """A publish that the queue did not take, and why."""

    entry: int
    offset: int
    messages: int
    at: int
    result: ResultCode


class TellingMachine(QueueMachine):
    """See the module."""

    __slots__ = ("_first_time", "_origins", "_publishing", "_purger", "_why", "actors", "lives", "refusals")

    def __init__(self, lives: Lives) -> None:
        super().__init__()
        self.lives = lives
        self.refusals: list[Refusal] = []
        self.actors: dict[ConsumerKey, int] = {}  # who consumers are, those of whom the log says it
        self._publishing: tuple[int, int, list[PublishedRun]] | None = None  # that is being taken and was not told yet
        self._origins: deque[OriginPart] = deque()  # of what is published further on in the entry
        self._why: str | None = None  # messages come back that come back now
        self._first_time = True  # a get is answered
        self._purger: ConsumerKey | None = None  # of whom the log says who it is

    # publishing

    def take(self, index: int, data: bytes) -> None:
        """One entry. What it says of who published holds for it alone, and nobody carries its effects out."""
        self._origins.clear()
        self._apply(index, data)
        self._effects.clear()
        self._dead_told = False

    def _tell_origins(self, data: bytes, at: int, end: int) -> None:
        try:
            self._origins.extend(read_parts(data, at + OP_HEAD.size, end))
        except (ValueError, struct.error):
            self._origins.clear()

    def _enqueue(self, index: int, data: bytes, at: int, end: int) -> Result:
        if end - at >= ENQUEUE_HEAD.size:
            self._publishing = (index, at, self._publish_of(data, at))
        result = super()._enqueue(index, data, at, end)
        if result is ResultCode.ACCEPTED:
            self._tell_published()
        elif isinstance(result, ResultCode) and self._publishing is not None:
            self.refusals.append(Refusal(index, at, _messages(self._publishing[2]), self.state.now, result))
        self._publishing = None
        return result

    def _publish_of(self, data: bytes, at: int) -> list[PublishedRun]:
        """Part by part."""
        _, _, node, incarnation, _, _, length, size, expiration, flags, priority, exchange_length, key_length = (
            ENQUEUE_HEAD.unpack_from(data, at)
        )
        names = at + ENQUEUE_HEAD.size
        key_at = names + exchange_length
        exchange = run_name(data[names:key_at])
        key = run_name(data[key_at : key_at + key_length])
        now, ttl = self.state.now, self.state.rules.message_ttl_ms
        own = ttl if expiration == NO_EXPIRATION else expiration
        shortest = own if ttl is None or own is None else min(own, ttl)
        expires_at = None if shortest is None else now + shortest
        run = PublishedRun(now, length, size, exchange, key, bool(flags & PERSISTENT), priority, expires_at)
        return self._parts_of(run, SessionKey(node, incarnation))

    def _parts_of(self, run: PublishedRun, session: SessionKey) -> list[PublishedRun]:
        """One for each origin; one without if the entry does not say it."""
        parts: list[PublishedRun] = []
        left = run.messages
        while left and self._origins and 0 < self._origins[0].messages <= left:
            part = self._origins.popleft()
            left -= part.messages
            parts.append(_of_origin(run, part, session))
        return [run] if left else parts

    def _tell_published(self) -> None:
        if self._publishing is not None:
            entry, offset, parts = self._publishing
            self.lives.published(entry, offset, *parts)
            self._publishing = None

    # handing out

    def _tell_who(self, key: ConsumerKey, actor: int) -> None:
        self.actors[key] = actor

    def _hold(self, consumer: MachineConsumer, stored: StoredMessages) -> None:
        self._tell_published()  # a consumer may be given it while it is being taken
        super()._hold(consumer, stored)
        self.lives.handed_out(stored.entry, stored.offset, stored.first, stored.length, self.state.now, consumer.key)

    def _get(self, key: ConsumerKey, no_ack: bool) -> Result:
        self._first_time = True
        result = super()._get(key, no_ack)
        if no_ack and self._first_time and isinstance(result, TakenMessage):
            piece, now = result.piece, self.state.now
            self.lives.handed_out(*piece, now, key)
            self.lives.ended(*piece, LifeState.GOT, now)
        return result

    def _got_before(self, key: ConsumerKey) -> Result:
        self._first_time = False
        return super()._got_before(key)

    # coming back

    def acknowledge(self, consumer: MachineConsumer, first: int, length: int, *, rows_moved: int = 0) -> int:
        """An entry whose last op acknowledges this range, of a consumer that is up; those before it have moved so many rows.
        What the digest is to have of it."""
        s = self.state
        self._acknowledge(consumer, consumer.checked_out.take(first, length))
        if not consumer.in_line:
            s.consumers.update(consumer)
        if not s.ready.count:
            return first + length
        self._bound()
        self._rows -= rows_moved
        self._trail = first + length
        self._hand_out()
        self._effects.clear()
        self._dead_told = False
        return self._trail

    def _settle(self, data: bytes, at: int, end: int) -> Result:
        self._why = SETTLED.get(SETTLE_HEAD.unpack_from(data, at)[5]) if end - at >= SETTLE_HEAD.size else None
        result = super()._settle(data, at, end)
        self._why = None
        return result

    def _acknowledge(self, consumer: MachineConsumer, taken: Sequence[StoredMessages]) -> None:
        super()._acknowledge(consumer, taken)
        state, now, ended = _NO_ACK if consumer.no_ack else _ACKED, self.state.now, self.lives.ended
        for stored in taken:
            ended(*stored[:4], state, now)  # entry, offset, first, length: one look instead of four

    def _cancel(self, key: ConsumerKey, held: UponCancel) -> Result:
        self._why = UPON_CANCEL[held]
        result = super()._cancel(key, held)
        self._why = None
        return result

    def _end_session(self, session: SessionKey) -> Result:
        self._why = NODE_GONE
        result = super()._end_session(session)
        self._why = None
        return result

    def _time_out(self, consumer: MachineConsumer) -> None:
        self._why = TIMED_OUT
        super()._time_out(consumer)
        self._why = None

    def _disconnect(self, consumer: MachineConsumer) -> None:
        self._why = NODE_UNREACHABLE
        super()._disconnect(consumer)
        self._why = None

    def _deal_with_more(self) -> None:
        why, self._why = self._why, None  # they may have been settled by an earlier entry
        super()._deal_with_more()
        self._why = why

    def _come_back(self, fate: Fate, stored: StoredMessages) -> None:
        dead = self.counters.dead
        super()._come_back(fate, stored)
        if self.counters.dead == dead:
            reason = self._why or FATES[fate]
            self.lives.came_back(stored.entry, stored.offset, stored.first, stored.length, reason, self.state.now)

    # the end

    def _die(self, reason: DeathReason, messages: Iterable[StoredMessages]) -> None:
        dead = list(messages)
        super()._die(reason, dead)
        state, now = DEATHS[reason], self.state.now
        for stored in dead:
            self.lives.ended(stored.entry, stored.offset, stored.first, stored.length, state, now)

    def _purge_once(self, asker: ConsumerKey, answered: int) -> Result:
        self._purger = asker if asker in self.actors else None
        result = super()._purge_once(asker, answered)
        self._purger = None
        return result

    def _take_out(self, op: Withdraw) -> int:
        taken = super()._take_out(op)
        if taken:
            by = op.asker if op.asker in self.actors else None
            self.lives.ended(op.entry, op.offset, op.message, 1, LifeState.PURGED, self.state.now, by)
        return taken

    def _purge(self) -> int:
        limit, now = self.rules.delivery_limit, self.state.now
        coming_back = [stored for fate, stored in self.state.returning if not is_for_dead_letters(fate, stored, limit)]
        purged = super()._purge()
        for stored in coming_back:
            self.lives.ended(
                stored.entry, stored.offset, stored.first, stored.length, LifeState.PURGED, now, self._purger
            )
        self.lives.all_ready_ended(LifeState.PURGED, now, self._purger)
        return purged

    # a snapshot to begin with

    def restore(self, state: bytes, version: int) -> None:
        super().restore(state, version)
        s, lives = self.state, self.lives
        waiting = [*s.ready, *(stored for _, stored in s.delayed)]
        for stored in waiting:
            lives.found(stored.entry, stored.offset, stored.first, stored.length)
        for _, stored in s.returning:
            lives.found(stored.entry, stored.offset, stored.first, stored.length, out=True)
        for consumer in s.consumers.all.values():
            for held in consumer.checked_out:
                stored = held.stored
                lives.found(stored.entry, stored.offset, stored.first, stored.length, out=True)


@lru_cache(maxsize=NAMES_KEPT)
def run_name(name: bytes) -> str:
    """A queue has few exchanges and keys, each of them many times."""
    return name.decode("utf-8", "surrogateescape")


def _of_origin(run: PublishedRun, part: OriginPart, session: SessionKey) -> PublishedRun:
    died_in = part.died_in
    return run._replace(
        messages=part.messages,
        body_bytes=round(run.body_bytes * part.messages / run.messages),
        confirm=part.waited_for if part.actor else None,
        actor=part.actor or None,
        publish_no=part.number or None,
        died_in=None
        if died_in is None
        else (died_in.queue_id, (died_in.pos, died_in.off, died_in.nth), died_in.reason),
        process=session if part.actor else None,
    )


def _messages(parts: Iterable[PublishedRun]) -> int:
    return sum(part.messages for part in parts)

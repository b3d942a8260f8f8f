"""The core of a quorum queue: commands in, results and effects out; the same on every member.

It fulfils raft/machine.py, on three layers: where messages go (movement.py), what is done because it is time (deadlines.py),
who consumes (machine_clients.py). It knows neither bodies nor clocks: a message is a place in the log, and time comes with each
entry. Between two ops this holds:

- no message is ready while a consumer has room, and none is ready or delayed that has expired by the time of the entry;
- the ready messages are within the limits, if the queue drops its head;
- unless that means to move very many messages: then each entry moves so many rows (quorum/fifo/movement.py), and the
  deadline has come. No consumer is given what has expired, and nothing overtakes what is coming back;
- `deadline` is when an entry has to come at the latest, if only with a TICK, so that this stays true.

The effects are to be taken after each `apply`. `digest` follows from the bytes of every entry and from everything that was
handed out, settled and counted so far: members that differ in it at the same index have come to different states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from broker.queues.queue_type import Outcome
from native.crc32c import crc32c
from quorum.fifo import inspection, versions
from quorum.fifo.commands import (
    ENQUEUE_HEAD,
    ENTRY_HEAD,
    ENTRY_VERSION,
    FIRST_ID,
    ID_END,
    NO_EXPIRATION,
    NUMBERED,
    OP_HEAD,
    PRIORITY_MAX,
    RANGE,
    SETTLE_HEAD,
    Cancel,
    CommandKind,
    Consume,
    ConsumerKey,
    DeadSettled,
    Enqueue,
    Get,
    NodeDown,
    NodeUp,
    Policy,
    Producer,
    Purge,
    PurgeOnce,
    SessionGone,
    SessionKey,
    Upgrade,
    Who,
    Window,
    Withdraw,
    decode,
)
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.effects import Dead, Deliver, Effect
from quorum.fifo.machine_clients import MachineClients
from quorum.fifo.results import Purged, Result, ResultCode
from quorum.fifo.returning import Fate
from quorum.fifo.rules import Rules
from quorum.fifo.snapshot import decode_snapshot, encode_snapshot
from quorum.fifo.stored import NEVER, StoredMessages
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from storage.disk import Buffer

TIME_MS_MAX = 1 << 62  # no clock and no time to live says more

DIGEST_MASK = (1 << 64) - 1
DIGEST_FACTOR = 6364136223846793005

_ENQUEUE, _SETTLE, _ORIGINS = int(CommandKind.ENQUEUE), int(CommandKind.SETTLE), int(CommandKind.ORIGINS)
_FIRST_OP = ENTRY_HEAD.size


class QueueMachine(MachineClients):
    """One member's. It begins with the default rules; the first POLICY brings those of its queue."""

    __slots__ = ()

    # raft/machine.py

    @property
    def version(self) -> int:
        return self.state.version

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Result]]:
        return [self._apply(entry.index, entry.data) for entry in entries]

    def snapshot(self) -> Sequence[Buffer]:
        return encode_snapshot(self.state)

    def restore(self, state: bytes, version: int) -> None:
        versions.must_know(version)
        restored = decode_snapshot(state)
        if restored.version != version:
            raise ValueError(f"the snapshot is of version {restored.version}, and it was announced as {version}")
        self.state = restored
        self.counters = inspection.MemberCounters()
        self._effects = []
        self._active_told = restored.consumers.active
        self._dead_told = False
        self._set_deadline()

    @property
    def held_bytes(self) -> int:
        return inspection.held_bytes(self.state)

    def live_entries(self) -> LiveEntries:
        return inspection.live_entries(self.state)

    # What the member that runs it asks.

    @property
    def rules(self) -> Rules:
        return self.state.rules

    @property
    def applied(self) -> int:
        return self.state.applied

    @property
    def digest(self) -> int:
        return self.state.digest

    @property
    def deadline(self) -> int | None:
        """When (ms) an entry is to be proposed, a TICK if there is nothing else. It may be too early, never too late."""
        return None if self.state.deadline == NEVER else self.state.deadline

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        self._dead_told = False
        return effects

    def dead_letters(self, from_id: int = FIRST_ID, limit: int = 32) -> list[Dead]:
        """Dead messages that are held, of this id and above, `limit` of them at most."""
        return self.state.dead.after(from_id, limit)

    def browse(self, skip: int = 0, limit: int = 1) -> list[Deliver]:
        """Ready messages behind the first `skip`, in their order, without taking them. They have no consumer."""
        return inspection.browse(self.state, skip, limit)

    def sessions(self) -> list[SessionKey]:
        """Those that the queue has dealt with and that are not gone."""
        return list(self.state.sessions.all)

    def suspected(self) -> set[SessionKey]:
        """Those of them whose node is taken for down."""
        return {key for key, session in self.state.sessions.all.items() if session.suspected}

    def figures(self) -> inspection.Figures:
        return inspection.figures(self.state, self.counters)

    def consumer_figures(self) -> list[inspection.ConsumerFigures]:
        return inspection.consumer_figures(self.state.consumers)

    def state_digest(self) -> str:
        """Of the whole state, for comparing members where they take snapshots."""
        return hashlib.blake2b(b"".join(encode_snapshot(self.state)), digest_size=16).hexdigest()

    # Applying.

    def _apply(self, index: int, data: bytes) -> list[Result]:
        s = self.state
        s.applied = index
        if len(data) < _FIRST_OP or data[0] != ENTRY_VERSION:
            return [ResultCode.UNKNOWN]
        self._bound()
        self._advance(ENTRY_HEAD.unpack_from(data)[1])
        results: list[Result] = []
        at, end = _FIRST_OP, len(data)
        while at < end:
            if end - at < OP_HEAD.size:
                results.append(ResultCode.UNKNOWN)
                break
            kind, size = OP_HEAD.unpack_from(data, at)
            op_end = at + OP_HEAD.size + size
            if op_end > end:
                results.append(ResultCode.UNKNOWN)
                break
            if kind == _ENQUEUE:
                results.append(self._enqueue(index, data, at, op_end))
            elif kind == _SETTLE:
                results.append(self._settle(data, at, op_end))
            elif kind == _ORIGINS:  # what is due is handed out behind it, as by members that do not know the kind
                self._tell_origins(data, at, op_end)
                results.append(None)
            else:
                results.append(self._apply_rare(data, at))
            if s.consumers.active is not self._active_told:
                self._tell_active()
            if s.ready.count:
                self._hand_out()
            at = op_end
        # One multiplication and a few additions, as this is done for every entry of every queue.
        outcome = self._trail + s.ready.count + (s.ready.size << 8) + (s.delayed.count << 16) + (index << 24)
        if s.version >= versions.BODIES_COMPARED:
            outcome += crc32c(data)
        s.digest = (s.digest * DIGEST_FACTOR + outcome) & DIGEST_MASK
        return results

    def _advance(self, time_ms: int) -> None:
        """It is that late now. Do what is due."""
        s = self.state
        if time_ms > s.now:
            if not s.now:
                s.used_at = min(time_ms, TIME_MS_MAX)
            s.now = min(time_ms, TIME_MS_MAX)
        if s.deadline <= s.now:
            self._meet_deadline()

    def _enqueue(self, index: int, data: bytes, at: int, end: int) -> Result:
        if end - at < ENQUEUE_HEAD.size:
            return ResultCode.UNKNOWN
        (
            _, _, node, incarnation, sequence, answered, length, size, expiration, flags, priority, _, _
        ) = ENQUEUE_HEAD.unpack_from(data, at)  # fmt: skip
        s = self.state
        session = s.sessions.of(node, incarnation)
        if session is None:
            return ResultCode.GONE
        if not length or sequence + length > ID_END:
            return ResultCode.UNKNOWN
        producer = None
        if flags & NUMBERED and (producer := _producer_at(data, at, length)) is None:
            return ResultCode.UNKNOWN
        heard = session.hear(sequence, length, answered)
        if heard is not None:
            return heard
        if producer is not None and s.producers.has_said(*producer):
            session.enqueued(length, True)
            return ResultCode.DUPLICATE
        rules = s.rules
        if rules.reject_publish and self._is_full_for(length, size):
            session.enqueued(length, False)
            self.counters.rejected += length
            return ResultCode.REJECTED
        session.enqueued(length, True)
        expires_at = NEVER
        if expiration != NO_EXPIRATION or rules.message_ttl_ms is not None:
            ttl = expiration if rules.message_ttl_ms is None else min(expiration, rules.message_ttl_ms)
            expires_at = min(s.now + ttl, TIME_MS_MAX)
            if expires_at < s.deadline:
                s.deadline = expires_at
        if producer is not None:
            s.producers.say(*producer)
        self.counters.published += length
        priority = min(priority, PRIORITY_MAX)
        if not s.ready.count and self._rows > 0:
            turn = s.consumers.next(length)
            if turn is not None and turn[1] >= length:  # it need not wait: a third less work than by way of `ready`
                self._rows -= 1
                self._deliver(turn[0], StoredMessages(index, at, 0, length, length, size, expires_at, priority, 0, 0))
                s.consumers.served(turn[0])
                return ResultCode.ACCEPTED
        s.ready.add(index, at, length, size, expires_at, priority)
        return ResultCode.ACCEPTED

    def _is_full_for(self, length: int, size: int) -> bool:
        """What consumers have room for leaves at once, so it does not count."""
        s = self.state
        left = length
        if not s.ready.count:
            left -= s.consumers.room(length)
        rules = s.rules
        count, waiting = s.ready.count + s.returning.count + s.dead.count, s.ready.size + s.returning.size + s.dead.size
        if rules.max_length is not None and count + left > rules.max_length:
            return left > 0
        if rules.max_length_bytes is None:
            return False
        return left > 0 and waiting + size * left // length > rules.max_length_bytes

    def _settle(self, data: bytes, at: int, end: int) -> Result:
        start = at + SETTLE_HEAD.size
        if end < start or (end - start) % RANGE.size:
            return ResultCode.UNKNOWN
        _, _, node, incarnation, number, outcome = SETTLE_HEAD.unpack_from(data, at)
        consumers = self.state.consumers
        consumer = consumers.all.get((node, incarnation, number))  # type: ignore[call-overload]  # equal to the key
        if consumer is None:
            return None
        taken: list[StoredMessages] = []
        for first, length in RANGE.iter_unpack(data[start:end]):
            if first + length > ID_END:
                return ResultCode.UNKNOWN
            taken += consumer.checked_out.take(first, length)
            if consumer.overdue:
                consumer.overdue.remove(first, first + length)
            self._trail += first + length
        if outcome == Outcome.ACKNOWLEDGED:
            self._acknowledge(consumer, taken)
        elif outcome == Outcome.REQUEUED:
            self._deal_with(Fate.FAILED, taken)
        elif outcome == Outcome.REJECTED:
            self._deal_with(Fate.REJECTED, taken)
        elif outcome == Outcome.RELEASED:
            self._deal_with(Fate.RETURNED if self.state.version >= versions.OUTCOMES_COUNTED else Fate.FAILED, taken)
        else:
            self._deal_with(Fate.UNSEEN, taken)
        if consumer.state is ConsumerState.TIMED_OUT and not consumer.overdue:
            consumer.state = ConsumerState.UP
        consumers.update(consumer)
        return None

    def _acknowledge(self, consumer: MachineConsumer, taken: Sequence[StoredMessages]) -> None:
        """The end of these messages; whoever replays a log wants to know of it."""
        self.counters.acknowledged += taken[0].length if len(taken) == 1 else sum([stored.length for stored in taken])

    def _apply_rare(self, data: bytes, at: int) -> Result:
        try:
            op = decode(data, at)
        except ValueError:
            return ResultCode.UNKNOWN
        match op:
            case Consume():
                return self._consume(op)
            case Cancel(key, held):
                return self._cancel(key, held)
            case Get(key, no_ack):
                return self._get(key, no_ack)
            case Purge():
                return Purged(self._purge())
            case PurgeOnce(asker, answered):
                return self._purge_once(asker, answered)
            case Withdraw():
                return self._withdraw(op)
            case Policy(rules):
                return self._change_rules(rules)
            case NodeDown(session):
                return self._suspect(session, True)
            case NodeUp(session):
                return self._suspect(session, False)
            case SessionGone(session):
                return self._end_session(session)
            case DeadSettled(ranges):
                for first, length in ranges:
                    self.state.dead.take(first, length)
            case Upgrade(version):
                return self._upgrade(version)
            case Window(key, messages):
                return self._change_window(key, messages)
            case Who(key, actor):
                self._tell_who(key, actor)
        return None

    def _tell_origins(self, data: bytes, at: int, end: int) -> None:
        """Who published what follows in the entry; whoever replays a log wants to know of it."""

    def _tell_who(self, key: ConsumerKey, actor: int) -> None:
        """Nothing: only whoever replays a log wants to know it."""

    def _purge(self) -> int:
        return (
            self.state.ready.clear()
            + self.state.returning.purge(self.rules.delivery_limit)
            + self.state.delayed.clear()
        )

    def _purge_once(self, asker: ConsumerKey, answered: int) -> Result:
        if self.state.version < versions.PURGED_ONCE:
            return ResultCode.UNKNOWN
        return self._once(asker, answered, self._purge)

    def _withdraw(self, op: Withdraw) -> Result:
        if self.state.version < versions.WITHDRAWS:
            return ResultCode.UNKNOWN
        return self._once(op.asker, op.answered, lambda: self._take_out(op))

    def _take_out(self, op: Withdraw) -> int:
        return int(self.state.ready.withdraw(op.entry, op.offset, op.message) is not None)

    def _once(self, asker: ConsumerKey, answered: int, purge: Callable[[], int]) -> Result:
        """What it takes is told again to who asks again."""
        session = self.state.sessions.of(asker.node, asker.incarnation)
        if session is None:
            return ResultCode.GONE
        session.forget_purges(answered)
        if session.begin(asker.number):
            session.purged[asker.number] = purge()
        taken = session.purged.get(asker.number)
        return Purged(taken) if taken is not None else None  # its session has the answer

    def _change_rules(self, rules: Rules) -> Result:
        s = self.state
        s.rules = rules
        s.ready.returned.order(rules.requeue_in_place, at_once=s.version < versions.ORDER_KEPT)
        if rules.single_active != s.consumers.single_active:
            s.consumers.elect_only_one(rules.single_active)
        self._set_deadline()
        if s.deadline <= s.now:
            self._meet_deadline()
        return None

    def _upgrade(self, version: int) -> Result:
        """Fails on a node that does not know the version: it cannot go on as the others do."""
        versions.must_know(version)
        self.state.version = max(self.state.version, version)
        return None


def _producer_at(data: bytes, at: int, length: int) -> Producer | None:
    """Of the one message of an ENQUEUE that says it has one."""
    try:
        op = decode(data, at)
    except ValueError:
        return None
    return op.producer if isinstance(op, Enqueue) and length == 1 else None

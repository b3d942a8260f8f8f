"""Entries of the kinds that are most of a quorum queue's log, each in one go: a run is published, a range acknowledged, or the
one and then the other.

The machine takes an entry op by op, in a dozen calls. For these, while nothing else goes on (no limit or time to live in
force, nothing due, every number the expected one), the same comes of it here in a few: the same state, digest included, and
the same lives (tests/unit/analytics/test_lone_entries.py compares them behind each entry). Any other entry is left to the
machine as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any

from analytics.fold.lives import Lives, PublishedRun
from analytics.fold.telling_machine import TellingMachine, run_name
from broker.queues.queue_type import Outcome
from native.crc32c import crc32c
from quorum.fifo.commands import (
    ENQUEUE_HEAD,
    ENTRY_HEAD,
    ENTRY_VERSION,
    ID_END,
    NO_EXPIRATION,
    NUMBERED,
    OP_HEAD,
    PERSISTENT,
    PRIORITY_MAX,
    CommandKind,
    SessionKey,
)
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.machine import DIGEST_FACTOR, DIGEST_MASK, TIME_MS_MAX
from quorum.fifo.origins import ORIGIN
from quorum.fifo.stored import NEVER, StoredMessages
from quorum.fifo.versions import BODIES_COMPARED

_ENQUEUE, _SETTLE, _ORIGINS = int(CommandKind.ENQUEUE), int(CommandKind.SETTLE), int(CommandKind.ORIGINS)
_WAITED_FOR = 1  # the one flag of an origin with which it keeps its size
_ACKNOWLEDGEMENT = Struct("<BIIQQBQI")  # head of the op, and one range
# Sizes, and what reads: to look either up in its struct takes as long as a call, and an entry needs several.
_OP_BYTES, _ORIGIN_BYTES, _ENQUEUE_BYTES, _ACKNOWLEDGEMENT_BYTES = (
    one.size for one in (OP_HEAD, ORIGIN, ENQUEUE_HEAD, _ACKNOWLEDGEMENT)
)
_read_op, _read_origin, _read_enqueue, _read_acknowledgement = (
    one.unpack_from for one in (OP_HEAD, ORIGIN, ENQUEUE_HEAD, _ACKNOWLEDGEMENT)
)
_FIRST_OP = ENTRY_HEAD.size
_ORIGIN_AT = _FIRST_OP + _OP_BYTES
_BEHIND_ORIGIN = _ORIGIN_AT + _ORIGIN_BYTES
_ALONE = _FIRST_OP + _ACKNOWLEDGEMENT_BYTES
_ACKNOWLEDGED = int(Outcome.ACKNOWLEDGED)
_UP = ConsumerState.UP
_EXACT_MAX = 1 << 53  # bytes of a run that floats tell apart: the machine's fold divides them among publishers

_Origin = tuple[
    int | None, int | None, bool | None
]  # actor, number of the first message, whether a confirm was waited for
_NO_ORIGIN: _Origin = (None, None, None)
# From a tuple of all fields: without the call in Python that a NamedTuple makes itself.
_run: Callable[[tuple[Any, ...]], PublishedRun] = partial(tuple.__new__, PublishedRun)
_stored: Callable[[tuple[Any, ...]], StoredMessages] = partial(tuple.__new__, StoredMessages)


class LoneEntries:
    """See the module."""

    __slots__ = ("_exchange_len", "_lives", "_machine", "_named", "_names", "_sessions")

    def __init__(self, machine: TellingMachine, lives: Lives) -> None:
        self._machine = machine
        self._lives = lives
        self._sessions: dict[tuple[int, int], SessionKey] = {}  # the same one for all runs of a session
        self._names, self._exchange_len = b"", 0  # of the last publish: most are as the one before
        self._named = ("", "")

    def take(self, index: int, data: bytes, size: int, time_ms: int) -> bool:
        """An entry, or its skeleton and the `size` that it had (native/log_columns.py), and its time. False: it is of another
        kind, and was left alone."""
        held = len(data)
        if held <= _FIRST_OP or data[0] != ENTRY_VERSION:
            return False
        s = self._machine.state
        now = time_ms if time_ms > s.now else s.now
        if not s.now or not now < s.deadline or now > TIME_MS_MAX or s.consumers.single_active:
            return False
        kind = data[_FIRST_OP]
        if kind == _SETTLE:
            return held == _ALONE and not size and self._settle(index, data, now)
        if kind == _ENQUEUE:
            return self._enqueue(index, data, size, now, _FIRST_OP, _NO_ORIGIN)
        return kind == _ORIGINS and held > _BEHIND_ORIGIN and self._enqueue_of(index, data, size, now)

    def _enqueue_of(self, index: int, data: bytes, size: int, now: int) -> bool:
        """Behind the origin of all its messages."""
        origin_size = _read_op(data, _FIRST_OP)[1]
        actor, number, messages, flags = _read_origin(data, _ORIGIN_AT)
        if origin_size != _ORIGIN_BYTES or flags > _WAITED_FOR:
            return False
        origin = (actor or None, number or None, bool(flags) if actor else None)
        return self._enqueue(index, data, size, now, _BEHIND_ORIGIN, origin, messages)

    def _enqueue(
        self, index: int, data: bytes, size: int, now: int, at: int, origin: _Origin, messages: int | None = None
    ) -> bool:
        """`messages`: so many the origin is of."""
        held = len(data)
        if held < at + _ENQUEUE_BYTES:
            return False
        (
            kind, op_size, node, incarnation, sequence, _, length, body_bytes, expiration, flags, priority, exchange_len,
            key_len,
        ) = _read_enqueue(data, at)  # fmt: skip
        s, key = self._machine.state, (node, incarnation)
        whole = size or held
        behind = whole - (at + _OP_BYTES + op_size)
        session = s.sessions.all.get(key)  # type: ignore[call-overload]  # equal to the key
        if (
            kind != _ENQUEUE
            or (behind and behind != _ACKNOWLEDGEMENT_BYTES)
            or held > whole
            or session is None
            or session.rejected
            or session.next_sequence != sequence
            or length != (length if messages is None else messages)
            or not length
            or sequence + length > ID_END
            or expiration != NO_EXPIRATION
            or flags & NUMBERED
            or body_bytes > _EXACT_MAX
        ):
            return False
        turn = s.consumers.next(length)
        settled = self._acknowledged(data, held - behind) if behind else None
        if not self._goes_as_a_whole(length, turn) or (behind and settled is None):
            return False
        names_at = at + _ENQUEUE_BYTES
        names = data[names_at : names_at + exchange_len + key_len]
        if names != self._names or exchange_len != self._exchange_len:
            self._name(names, exchange_len)
        exchange, routing_key = self._named
        actor, number, confirm = origin
        run = _run((
            now, length, body_bytes, exchange, routing_key, bool(flags & PERSISTENT), priority, None, confirm, actor, number,
            None, (self._sessions.get(key) or self._session(key)) if actor else None,
        ))  # fmt: skip
        s.now = now
        session.next_sequence = sequence + length
        self._machine.counters.published += length
        own = priority if priority < PRIORITY_MAX else PRIORITY_MAX
        stored = _stored((index, at, 0, length, length, body_bytes, NEVER, own, 0, 0))
        trail = self._keep(stored, run) if turn is None else self._hand_out(stored, run, turn[0])
        if settled is not None:
            trail += self._machine.acknowledge(*settled, rows_moved=turn is not None)
        self._end(index, data, size, trail, behind)
        return True

    def _name(self, names: bytes, exchange_len: int) -> None:
        self._names, self._exchange_len = names, exchange_len
        self._named = (run_name(names[:exchange_len]), run_name(names[exchange_len:]))

    def _session(self, key: tuple[int, int]) -> SessionKey:
        return self._sessions.setdefault(key, SessionKey(*key))

    def _goes_as_a_whole(self, length: int, turn: tuple[MachineConsumer, int] | None) -> bool:
        """To the consumer whose turn it is, or to the messages that wait while none has room."""
        s = self._machine.state
        rules, ready = s.rules, s.ready
        if rules.message_ttl_ms is not None or rules.reject_publish:
            return False
        if turn is not None:
            return not ready.count and turn[1] >= length
        return rules.max_length is None and rules.max_length_bytes is None and ready.soonest == NEVER

    def _keep(self, stored: StoredMessages, run: PublishedRun) -> int:
        """What the digest is to have of it."""
        self._lives.published(stored.entry, stored.offset, run)
        ready = self._machine.state.ready
        ready.add(stored.entry, stored.offset, stored.length, stored.run_bytes, NEVER, stored.priority)
        return 0

    def _hand_out(self, stored: StoredMessages, run: PublishedRun, consumer: MachineConsumer) -> int:
        """The same."""
        s, first_id = self._machine.state, consumer.next_id
        consumer.checked_out.add(first_id, stored, s.now)
        consumer.next_id = first_id + stored.length
        timeout = s.rules.consumer_timeout_ms if consumer.timeout_ms is None else consumer.timeout_ms
        if timeout and s.now + timeout < s.deadline:
            s.deadline = s.now + timeout
        self._machine.counters.delivered += stored.length
        self._lives.published_to(stored.entry, stored.offset, run, consumer.key)
        s.consumers.served(consumer)
        return stored.entry * first_id

    def _settle(self, index: int, data: bytes, now: int) -> bool:
        settled = self._acknowledged(data, _FIRST_OP)
        if settled is None:
            return False
        self._machine.state.now = now
        self._end(index, data, 0, self._machine.acknowledge(*settled))
        return True

    def _acknowledged(self, data: bytes, at: int) -> tuple[MachineConsumer, int, int] | None:
        """By whom, and which range; None: what stands there does something else."""
        kind, op_size, node, incarnation, number, outcome, first, length = _read_acknowledgement(data, at)
        consumer = self._machine.state.consumers.all.get((node, incarnation, number))  # type: ignore[call-overload]  # equal to the key
        if (
            kind != _SETTLE
            or op_size != _ACKNOWLEDGEMENT_BYTES - _OP_BYTES
            or outcome != _ACKNOWLEDGED
            or consumer is None
            or consumer.state is not _UP
            or consumer.overdue
            or first + length > ID_END
        ):
            return None
        return consumer, first, length

    def _end(self, index: int, data: bytes, size: int, trail: int, behind: int = 0) -> None:
        """The entry is applied, and the digest has it. `behind`: so much stands behind contents that were cut out."""
        s = self._machine.state
        s.applied = index
        outcome = trail + s.ready.count + (s.ready.size << 8) + (s.delayed.count << 16) + (index << 24)
        if s.version >= BODIES_COMPARED:
            if size:
                held = len(data)
                zeros = bytes(size - held)
                data = b"".join((data[: held - behind], zeros, data[held - behind :])) if behind else data + zeros
            outcome += crc32c(data)
        s.digest = (s.digest * DIGEST_FACTOR + outcome) & DIGEST_MASK

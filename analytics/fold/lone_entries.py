"""Entries of the kinds that are most of a quorum queue's log, each in one go: a run is published, a range acknowledged, or the
one and then the other.

The machine takes an entry op by op, in a dozen calls. Of these, which native/entry_scan.py reads, the same comes here in a
few, while nothing else goes on (no limit or time to live in force, nothing due, every number the expected one): the same state,
digest included, and the same lives (tests/unit/analytics/test_lone_entries.py compares them behind each entry). Any other entry
is left to the machine as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from analytics.fold.lives import Lives, PublishedRun
from analytics.fold.telling_machine import TellingMachine, run_name
from native.entry_scan import LoneEntry, LonePublish
from quorum.fifo.commands import PRIORITY_MAX, SessionKey
from quorum.fifo.consumers import ConsumerState, MachineConsumer
from quorum.fifo.machine import DIGEST_FACTOR, DIGEST_MASK, TIME_MS_MAX
from quorum.fifo.stored import NEVER, StoredMessages
from quorum.fifo.versions import BODIES_COMPARED

_UP = ConsumerState.UP  # as a global: to look a member up takes as long as a call
_Settled = tuple[MachineConsumer, int, int]

# From a tuple of all fields: without the call in Python that a NamedTuple makes itself.
_run: Callable[[tuple[Any, ...]], PublishedRun] = partial(tuple.__new__, PublishedRun)
_stored: Callable[[tuple[Any, ...]], StoredMessages] = partial(tuple.__new__, StoredMessages)


class LonePublishes:
    """What lone entries publish, as lives and as the machine have it."""

    __slots__ = ("_exchange_len", "_named", "_names", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, int], SessionKey] = {}  # the same one for all runs of a session
        self._names, self._exchange_len = b"", 0  # of the last publish: most are as the one before
        self._named = ("", "")

    def run_of(self, publish: LonePublish, now: int) -> PublishedRun:
        (_, key, _, length, body_bytes, persistent, priority, names, exchange_len, actor, number, confirm) = publish
        if names is not self._names or exchange_len != self._exchange_len:
            self._names, self._exchange_len = names, exchange_len
            self._named = (run_name(names[:exchange_len]), run_name(names[exchange_len:]))
        exchange, routing_key = self._named
        return _run((
            now, length, body_bytes, exchange, routing_key, persistent, priority, None, confirm, actor, number, None,
            (self._sessions.get(key) or self._session(key)) if actor else None,
        ))  # fmt: skip

    def stored_of(self, publish: LonePublish, index: int) -> StoredMessages:
        at, _, _, length, body_bytes, _, priority, *_ = publish
        own = priority if priority < PRIORITY_MAX else PRIORITY_MAX
        return _stored((index, at, 0, length, length, body_bytes, NEVER, own, 0, 0))

    def _session(self, key: tuple[int, int]) -> SessionKey:
        return self._sessions.setdefault(key, SessionKey(*key))


class LoneEntries:
    """See the module."""

    __slots__ = ("_lives", "_machine", "_runs")

    def __init__(self, machine: TellingMachine, lives: Lives, runs: LonePublishes) -> None:
        self._machine = machine
        self._lives = lives
        self._runs = runs

    def take(self, index: int, entry: LoneEntry) -> bool:
        """False: something else goes on, and it was left alone."""
        time_ms, checksum, publish, acknowledgement = entry
        s = self._machine.state
        now = time_ms if time_ms > s.now else s.now
        if not s.now or not now < s.deadline or now > TIME_MS_MAX or s.consumers.single_active:
            return False
        settled = None
        if acknowledgement is not None and (settled := self._settled(*acknowledgement)) is None:
            return False
        trail: int | None = 0
        if publish is not None:
            trail = self._publish(index, publish, now, settled)
        elif settled is not None:
            s.now = now
            trail = self._machine.acknowledge(*settled)
        if trail is None:
            return False
        outcome = trail + s.ready.count + (s.ready.size << 8) + (s.delayed.count << 16) + (index << 24)
        if s.version >= BODIES_COMPARED:
            outcome += checksum
        s.applied, s.digest = index, (s.digest * DIGEST_FACTOR + outcome) & DIGEST_MASK
        return True

    def _settled(self, key: tuple[int, int, int], first: int, length: int) -> _Settled | None:
        """By whom, and which range; None: it does something else, too."""
        consumer = self._machine.state.consumers.all.get(key)  # type: ignore[call-overload]  # equal to the key
        if consumer is None or consumer.state is not _UP or consumer.overdue:
            return None
        return consumer, first, length

    def _publish(self, index: int, publish: LonePublish, now: int, settled: _Settled | None) -> int | None:
        """What the digest is to have of it, and of what is settled behind it; None: it was left alone."""
        _, key, sequence, length, *_ = publish
        s = self._machine.state
        session, turn = s.sessions.all.get(key), s.consumers.next(length)  # type: ignore[call-overload]  # equal to the key
        if (
            session is None
            or session.rejected
            or session.next_sequence != sequence
            or not self._goes_as_a_whole(length, turn)
        ):
            return None
        s.now = now
        session.next_sequence = sequence + length
        self._machine.counters.published += length
        run, stored = self._runs.run_of(publish, now), self._runs.stored_of(publish, index)
        trail = self._keep(stored, run) if turn is None else self._hand_out(stored, run, turn[0])
        if settled is not None:
            trail += self._machine.acknowledge(*settled, rows_moved=turn is not None)
        return trail

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

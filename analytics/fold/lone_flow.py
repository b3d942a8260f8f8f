"""Lone entries (native/entry_scan.py) of a quorum queue through which messages flow: nothing waits, and there is one consumer
with room for all that comes.

What is published then is handed out at once, and most of it is acknowledged a few entries on. So what is out is noted here, a
row each, and has mostly ended before machine and lives would have to be told that it began. They are told of the rest, in
the end or when a range is acknowledged that is not at the front, and know then what they would know entry by entry, the digest
included (tests/unit/analytics/test_lone_entries.py compares them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from analytics.fold.lives import LifeState, Lives
from analytics.fold.lone_entries import LonePublishes
from analytics.fold.telling_machine import TellingMachine
from native.entry_scan import LoneEntry, LonePublish
from quorum.fifo.consumers import MachineConsumer
from quorum.fifo.machine import DIGEST_FACTOR, DIGEST_MASK, TIME_MS_MAX
from quorum.fifo.sessions import SessionProgress
from quorum.fifo.versions import BODIES_COMPARED

_ACKED, _NO_ACK = LifeState.ACKED, LifeState.NO_ACK  # as globals: to look a member up takes as long as a call
_Out = tuple[int, int, int, LonePublish]  # first id, index of the entry, ms, and what it published


class LoneFlow:
    """See the module."""

    __slots__ = (
        "_acknowledged", "_consumer", "_handed_out", "_lives", "_machine", "_out", "_room", "_runs", "_session",
    )  # fmt: skip

    _consumer: MachineConsumer  # to whom all goes

    def __init__(self, machine: TellingMachine, lives: Lives, runs: LonePublishes) -> None:
        self._machine = machine
        self._lives = lives
        self._runs = runs
        # Of these machine and lives do not know yet.
        self._out: deque[_Out] = deque()
        self._handed_out = self._acknowledged = 0  # messages
        self._room = 0  # messages that the consumer may still be given

    def take(self, place: int, entries: Sequence[LoneEntry | None], start: int, before_ms: int) -> int:
        """From the `start`th of them on; the first has the index `place`. Which one is the first that was not taken: it is of
        another kind, not of before that time, or something else goes on."""
        if not self._begin():
            return start
        s, lives, key = self._machine.state, self._lives, self._consumer.key
        digest, sums = s.digest, s.version >= BODIES_COMPARED
        waiting = s.ready.count + (s.ready.size << 8) + (s.delayed.count << 16)  # the same all the while
        at, end, before_ms = start, len(entries), min(before_ms, TIME_MS_MAX + 1)
        while at < end and (entry := entries[at]) is not None:
            time_ms, checksum, publish, acknowledgement = entry
            now = time_ms if time_ms > s.now else s.now
            if (
                now >= s.deadline
                or time_ms >= before_ms
                or (acknowledgement is not None and acknowledgement[0] != key)
                or (publish is not None and not self._is_next(publish))
            ):
                break
            index = place + at
            s.now, s.applied, lives.place = now, index, index
            outcome = waiting + (index << 24)
            if publish is not None:
                outcome += self._hand_out(index, now, publish)
            if acknowledgement is not None:
                outcome += self._acknowledge(*acknowledgement)
            if sums:
                outcome += checksum
            digest = (digest * DIGEST_FACTOR + outcome) & DIGEST_MASK
            at += 1
        s.digest = digest
        self._end()
        return at

    def _begin(self) -> bool:
        """Whether messages flow."""
        s = self._machine.state
        consumers, rules = s.consumers, s.rules
        if s.ready.count or not s.now or consumers.single_active or self._lives.notes_steps:
            return False
        in_turn = consumers.in_turn()
        consumer = next(in_turn, None)
        if consumer is None or consumer.overdue or next(in_turn, None) is not None:
            return False
        self._consumer, self._room = consumer, consumer.window - consumer.checked_out.count
        return rules.message_ttl_ms is None and not rules.reject_publish

    def _is_next(self, publish: LonePublish) -> bool:
        """There is room for it, and it is what its session is to say next."""
        session = self._machine.state.sessions.all.get(publish[1])  # type: ignore[call-overload]  # equal to the key
        if session is None or session.next_sequence != publish[2] or session.rejected or publish[3] > self._room:
            return False
        self._session: SessionProgress = session
        return True

    def _hand_out(self, index: int, now: int, publish: LonePublish) -> int:
        """What the digest is to have of it."""
        s, consumer, length = self._machine.state, self._consumer, publish[3]
        self._session.next_sequence += length
        self._handed_out += length
        self._room -= length
        first_id = consumer.next_id
        consumer.next_id = first_id + length
        self._out.append((first_id, index, now, publish))
        timeout_ms = s.rules.consumer_timeout_ms if consumer.timeout_ms is None else consumer.timeout_ms
        if timeout_ms and now + timeout_ms < s.deadline:
            s.deadline = now + timeout_ms
        return index * first_id

    def _acknowledge(self, _: tuple[int, int, int], first: int, length: int) -> int:
        """The same."""
        out, at, end = self._out, first, first + length
        while out and out[0][0] == at and at + out[0][3][3] <= end:
            at += self._ended(*out.popleft())
        if at < end:
            self._acknowledge_told(at, end)
        return first + length

    def _ended(self, _: int, index: int, at: int, publish: LonePublish) -> int:
        """How many messages."""
        consumer, length = self._consumer, publish[3]
        self._acknowledged += length
        self._room += length
        state = _NO_ACK if consumer.no_ack else _ACKED
        run = self._runs.run_of(publish, at)
        self._lives.came_and_went(index, publish[0], run, consumer.key, state, self._machine.state.now)
        return length

    def _acknowledge_told(self, first: int, end: int) -> None:
        """Of what the machine knows, or may know."""
        consumer = self._consumer
        if self._out and end > self._out[0][0]:
            self._tell_out()
        held = consumer.checked_out.count
        self._machine.acknowledge(consumer, first, end - first)
        self._room += held - consumer.checked_out.count

    def _tell_out(self) -> None:
        lives, consumer = self._lives, self._consumer
        place = lives.place
        for first_id, index, at, publish in self._out:
            lives.place = index
            consumer.checked_out.add(first_id, self._runs.stored_of(publish, index), at)
            lives.published_to(index, publish[0], self._runs.run_of(publish, at), consumer.key)
        lives.place = place
        self._out.clear()

    def _end(self) -> None:
        self._tell_out()
        counters = self._machine.counters
        counters.published += self._handed_out
        counters.delivered += self._handed_out
        counters.acknowledged += self._acknowledged
        self._handed_out = self._acknowledged = 0
        self._machine.state.consumers.served(self._consumer)  # it may have no room left

"""A machine, and the entries to say things to it."""

from __future__ import annotations

from collections.abc import Sequence

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    PRIORITY_DEFAULT,
    Cancel,
    Consume,
    ConsumerKey,
    Get,
    Op,
    Policy,
    SessionKey,
    Settle,
    Tick,
    UponCancel,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.effects import DeadLetter, Deliver, Effect
from quorum.fifo.machine import QueueMachine
from quorum.fifo.results import Result
from quorum.fifo.rules import Rules
from raft.core.messages import Entry, EntryKind

SESSION = SessionKey(1, 1)
START = 1_000_000  # ms; when a world begins


def consumer(number: int = 1, session: SessionKey = SESSION) -> ConsumerKey:
    return ConsumerKey(*session, number)


class QueueWorld:
    """Every call is one entry. Messages are named by the number in which they were published, from 0."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.machine = QueueMachine()
        self.now = START
        self.index = 0
        self.effects: list[Effect] = []
        self.names: dict[tuple[int, int], int] = {}  # entry and offset -> name of the first message
        self._next_name = 0
        self._sequences: dict[SessionKey, int] = {}
        if rules is not None:
            self.say(Policy(rules))

    # What is said.

    def say(self, *ops: Op | tuple[bytes, bytes]) -> list[Result]:
        parts = [entry_head(self.now)]
        for op in ops:
            parts += [encode(op)] if isinstance(op, tuple) and hasattr(op, "_fields") else op  # type: ignore[arg-type]
        self.index += 1
        results = self.apply(b"".join(parts))
        self.effects += self.machine.take_effects()
        return results

    def apply(self, data: bytes) -> list[Result]:
        (results,) = self.machine.apply([Entry(self.index, 1, EntryKind.COMMAND, data)])
        return results

    def publish(
        self,
        count: int = 1,
        *,
        size: int = 10,
        priority: int = PRIORITY_DEFAULT,
        expiration_ms: int | None = None,
        session: SessionKey = SESSION,
        sequence: int | None = None,
        answered: int = 0,
    ) -> Result:
        if sequence is None:
            sequence = self._sequences.get(session, 1)
            self._sequences[session] = sequence + count
        run = encode_enqueue(
            session, sequence, count, size * count, "", "q", b"", answered=answered, expiration_ms=expiration_ms,
            priority=priority,
        )  # fmt: skip
        (result,) = self.say(run)
        self.names[self.index, len(entry_head(0))] = self._next_name
        self._next_name += count
        return result

    def consume(self, number: int = 1, prefetch: int = 0, *, session: SessionKey = SESSION, **more: object) -> Result:
        return self.say(Consume(consumer(number, session), f"c{number}", prefetch, **more))[0]  # type: ignore[arg-type]

    def cancel(self, number: int = 1, held: UponCancel = UponCancel.STAYS) -> Result:
        return self.say(Cancel(consumer(number), held))[0]

    def get(self, number: int, no_ack: bool = False) -> Result:
        return self.say(Get(consumer(number), no_ack))[0]

    def settle(
        self, first: int, length: int = 1, outcome: Outcome = Outcome.ACKNOWLEDGED, *, by: int = 1,
        session: SessionKey = SESSION,
    ) -> None:  # fmt: skip
        assert self.say(Settle(consumer(by, session), outcome, [(first, length)])) == [None]

    def wait(self, ms: int) -> None:
        """Let time pass; ticks come when they are due and not before."""
        end = self.now + ms
        while (deadline := self.machine.deadline) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.say(Tick())
            assert self.machine.deadline is None or self.machine.deadline > self.now, "a tick that changes nothing"
        self.now = end

    # What came of it.

    def take(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def name(self, entry: int, offset: int, first: int) -> int:
        return self.names.get((entry, offset), self._next_name) + first

    def messages(self, effect: Deliver | DeadLetter) -> list[int]:
        first = self.name(effect.piece.entry, effect.piece.offset, effect.piece.first)
        return list(range(first, first + effect.piece.length))

    def delivered(self, number: int | None = None) -> list[int]:
        """Messages delivered since the last time, to this consumer or to all; other effects are dropped."""
        return [
            name
            for effect in self.take()
            if isinstance(effect, Deliver) and number in (None, effect.consumer.number)
            for name in self.messages(effect)
        ]

    def dead(self) -> list[tuple[str, int]]:
        """Reason and message of the dead letters since the last time; other effects are dropped."""
        return [
            (effect.reason.name.lower(), name)
            for effect in self.take()
            if isinstance(effect, DeadLetter)
            for name in self.messages(effect)
        ]

    def ready(self) -> list[int]:
        """What is ready, in its order."""
        return [name for piece in self.machine.browse(0, 1 << 30) for name in self.messages(piece)]

    def held(self, number: int = 1, session: SessionKey = SESSION) -> dict[int, int]:
        """Message ids that a consumer holds, and which messages they are."""
        return {
            effect.first_id + at: name
            for effect in self.machine.checked_out(consumer(number, session))
            for at, name in enumerate(self.messages(effect))
        }

    def restored(self) -> QueueMachine:
        """Another machine, which begins with a snapshot of this one."""
        return restored(self.machine)


def restored(machine: QueueMachine) -> QueueMachine:
    again = QueueMachine()
    again.restore(b"".join(machine.snapshot()), machine.version)
    return again


def kinds(effects: Sequence[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]

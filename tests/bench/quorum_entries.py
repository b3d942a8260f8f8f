"""How long a quorum queue's machine needs for one entry that moves many messages: `python -m tests.bench.quorum_entries`.

An entry is applied in one go, on every member, so the longest one is a turn of the event loop that nobody else gets. Each row
builds its queue anew: 40,000 messages that were published one by one, each a row of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from broker.queue_type import Outcome
from quorum.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    Held,
    Op,
    Policy,
    Purge,
    SessionGone,
    Tick,
    encode,
    encode_settle,
    entry_head,
)
from quorum.machine import QueueMachine
from quorum.rules import DeadLetters, Rules
from raft.messages import Entry, EntryKind
from tests.bench.quorum_machine import CONSUMER, SESSION, START, enqueue, packed

MESSAGES = 40_000
CONSUMERS = 2_000
PREFETCH = 65_535
IN_ENTRY = 50
AFTER_TTL = START * 10
WITH_DEAD_LETTERS = Rules(dead_letters=DeadLetters.AT_MOST_ONCE)


class Bench:
    """One queue with its backlog."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._machine = QueueMachine()
        ops = [encode(Policy(rules or Rules())), *(enqueue(1 + at, 1) for at in range(MESSAGES))]
        entries = list(packed(ops, IN_ENTRY))
        self._last = len(entries)
        self._machine.apply(entries)
        self._machine.take_effects()

    def milliseconds(self, ops: Sequence[bytes], time_ms: int = START) -> float:
        """For one entry with these."""
        self._last += 1
        data = entry_head(time_ms + self._last) + b"".join(ops)
        began = time.perf_counter()
        self._machine.apply((Entry(self._last, 1, EntryKind.COMMAND, data),))
        took = time.perf_counter() - began
        self._machine.take_effects()
        return took * 1e3

    def one(self, op: Op, time_ms: int = START) -> float:
        return self.milliseconds([encode(op)], time_ms)

    def given_out(self) -> float:
        return self.one(Consume(CONSUMER, "tag", PREFETCH))


def main() -> None:
    print(f"{'one entry, 40,000 single messages':<50} {'ms':>8}")
    bench = Bench()
    show("one consumer with prefetch 65,535 comes", bench.given_out())
    show("... requeues all of them", bench.milliseconds([encode_settle(CONSUMER, Outcome.REQUEUED, [(1, MESSAGES)])]))
    again = [(MESSAGES + 1, MESSAGES)]
    show("... acknowledges all of them", bench.milliseconds([encode_settle(CONSUMER, Outcome.ACKNOWLEDGED, again)]))
    bench = Bench()
    bench.given_out()
    show("it is cancelled, and all come back", bench.one(Cancel(CONSUMER, Held.REQUEUED)))
    bench = Bench()
    bench.given_out()
    show("its node is gone, and all come back", bench.one(SessionGone(SESSION)))
    show("purge", Bench().one(Purge()))
    bench = Bench(WITH_DEAD_LETTERS)
    limit = Rules(max_length=1, dead_letters=DeadLetters.AT_MOST_ONCE)
    show("a policy with a length limit, dead letters", bench.one(Policy(limit)))
    bench = Bench(Rules(message_ttl_ms=1_000, dead_letters=DeadLetters.AT_MOST_ONCE))
    show("all have expired, dead letters (the first of several)", bench.one(Tick(), AFTER_TTL))
    everybody = [encode(Consume(ConsumerKey(1, 1, 10 + at), "tag", 1)) for at in range(CONSUMERS)]
    bench = Bench()
    show(f"{CONSUMERS:,} consumers with prefetch 1 come", bench.milliseconds(everybody))
    show("... their node is gone", bench.one(SessionGone(SESSION)))


def show(what: str, milliseconds: float) -> None:
    print(f"{what:<50} {milliseconds:>8.1f}")


if __name__ == "__main__":
    main()

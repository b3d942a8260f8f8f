"""How long a quorum queue's machine needs for one entry that moves many messages: `python -m tests.bench.quorum_entries`.

Processor time. An entry is applied in one go, on every member, so the longest one is a turn of the event loop that nobody else
gets. What one entry may not finish is left to the ticks behind it; the longest of all these counts. Each queue holds 40,000
messages that were published one by one, each a row of its own; the last ones hold 200,000. A snapshot is taken in one turn,
too. `--version 6`: before entries were bounded.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    Cancel,
    Consume,
    ConsumerKey,
    Get,
    Op,
    Policy,
    Purge,
    SessionGone,
    Tick,
    Upgrade,
    UponCancel,
    encode,
    encode_settle,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.rules import DeadLetters, Rules
from quorum.fifo.versions import VERSION_NEWEST
from raft.core.messages import Entry, EntryKind
from tests.bench.quorum_machine import CONSUMER, SESSION, START, enqueue, packed

MESSAGES = 40_000
MANY = 200_000
CONSUMERS = 2_000
PREFETCH = 65_535
IN_ENTRY = 50
AFTER_TTL = START * 10
WITH_DEAD_LETTERS = Rules(dead_letters=DeadLetters.AT_MOST_ONCE)


class Bench:
    """One queue with its backlog."""

    def __init__(self, rules: Rules | None = None, messages: int = MESSAGES) -> None:
        self._machine = QueueMachine()
        ops = [
            encode(Upgrade(version())),
            encode(Policy(rules or Rules())),
            *(enqueue(1 + at, 1) for at in range(messages)),
        ]
        entries = list(packed(ops, IN_ENTRY))
        self._last = len(entries)
        self._machine.apply(entries)
        self._machine.take_effects()

    def longest(self, ops: Sequence[bytes], time_ms: int = START) -> tuple[float, int]:
        """Milliseconds of the longest entry, and how many it took: one with these, and ticks until nothing is due."""
        took = [self._milliseconds(ops, time_ms)]
        while self._machine.deadline is not None and self._machine.deadline <= time_ms + self._last:
            took.append(self._milliseconds([encode(Tick())], time_ms))
        return max(took), len(took)

    def _milliseconds(self, ops: Sequence[bytes], time_ms: int) -> float:
        self._last += 1
        data = entry_head(time_ms + self._last) + b"".join(ops)
        began = time.process_time()
        self._machine.apply((Entry(self._last, 1, EntryKind.COMMAND, data),))
        took = time.process_time() - began
        self._machine.take_effects()
        return took * 1e3

    def one(self, op: Op, time_ms: int = START) -> tuple[float, int]:
        return self.longest([encode(op)], time_ms)

    def given_out(self) -> tuple[float, int]:
        return self.one(Consume(CONSUMER, "tag", PREFETCH))

    def given_back(self, messages: int) -> Bench:
        """All of them came back from consumers that are gone."""
        for at in range(0, messages, PREFETCH):
            self.one(Consume(ConsumerKey(1, 1, 10 + at), "tag", PREFETCH))
        for at in range(0, messages, PREFETCH):
            self.one(Cancel(ConsumerKey(1, 1, 10 + at), UponCancel.REQUEUED))
        return self

    def snapshot(self) -> tuple[float, int]:
        began = time.process_time()
        self._machine.snapshot()
        self._machine.live_entries()
        return (time.process_time() - began) * 1e3, 1


def main() -> None:
    gc.disable()  # it would count against whatever comes next
    print(f"{'40,000 single messages':<50} {'longest, ms':>12} {'entries':>8}")
    bench = Bench()
    show("one consumer with prefetch 65,535 comes", bench.given_out())
    show("... requeues all of them", bench.longest([encode_settle(CONSUMER, Outcome.REQUEUED, [(1, MESSAGES)])]))
    again = [(MESSAGES + 1, MESSAGES)]
    show("... acknowledges all of them", bench.longest([encode_settle(CONSUMER, Outcome.ACKNOWLEDGED, again)]))
    bench = Bench()
    bench.given_out()
    show("it is cancelled, and all come back", bench.one(Cancel(CONSUMER, UponCancel.REQUEUED)))
    bench = Bench()
    bench.given_out()
    show("its node is gone, and all come back", bench.one(SessionGone(SESSION)))
    show("purge", Bench().one(Purge()))
    bench = Bench(WITH_DEAD_LETTERS)
    limit = Rules(max_length=1, dead_letters=DeadLetters.AT_MOST_ONCE)
    show("a policy with a length limit, dead letters", bench.one(Policy(limit)))
    bench = Bench(Rules(message_ttl_ms=1_000, dead_letters=DeadLetters.AT_MOST_ONCE))
    show("all have expired, dead letters", bench.one(Tick(), AFTER_TTL))
    everybody = [encode(Consume(ConsumerKey(1, 1, 10 + at), "tag", 1)) for at in range(CONSUMERS)]
    bench = Bench()
    show(f"{CONSUMERS:,} consumers with prefetch 1 come", bench.longest(everybody))
    show("... their node is gone", bench.one(SessionGone(SESSION)))
    print(f"{'200,000 single messages':<50}")
    short = Rules(message_ttl_ms=1_000_000, dead_letters=DeadLetters.AT_MOST_ONCE)
    show("they came back: a snapshot", Bench(messages=MANY).given_back(MANY).snapshot())
    show("... x-requeue-order changes", Bench(messages=MANY).given_back(MANY).one(Policy(Rules(requeue_in_place=True))))
    show("... and expire", Bench(short, MANY).given_back(MANY).one(Tick(), AFTER_TTL))
    bench = Bench(messages=MANY)
    for at in range(0, MANY, PREFETCH):
        bench.one(Consume(ConsumerKey(1, 1, 10 + at), "tag", PREFETCH))
    show("they are held: a snapshot", bench.snapshot())
    show("all have expired: a get", Bench(short, MANY).one(Get(ConsumerKey(1, 1, 10)), AFTER_TTL))


def show(what: str, longest: tuple[float, int]) -> None:
    print(f"{what:<50} {longest[0]:>12.1f} {longest[1]:>8}")


def version() -> int:
    return int(sys.argv[sys.argv.index("--version") + 1]) if "--version" in sys.argv else VERSION_NEWEST


if __name__ == "__main__":
    main()

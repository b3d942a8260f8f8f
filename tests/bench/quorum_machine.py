"""What a quorum queue's machine costs, without Raft and disks: `python -m tests.bench.quorum_machine [--profile]`.

Each row is one shape of load, as entries that hold what one session says in a turn. Every member of a group does this work, so
its figures bound what one core can carry: see docs/measurements/quorum-queues.md.
"""

from __future__ import annotations

import cProfile
import gc
import sys
import time
from collections.abc import Iterator

from broker.queues.queue_type import Outcome
from quorum.fifo.commands import (
    Consume,
    ConsumerKey,
    Policy,
    SessionKey,
    encode,
    encode_enqueue,
    encode_settle,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.rules import Rules
from raft.core.messages import Entry, EntryKind

SESSION = SessionKey(1, 1)
CONSUMER = ConsumerKey(1, 1, 1)
BODY_BYTES = 100
START = 1_000_000
ROUNDS = 3


def main() -> None:
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    print(f"{'load':<64} {'us per op':>10} {'ops/s':>12} {'messages/s':>12}")
    for name, ops, messages, entries in (
        ("enqueue runs of 1, one in an entry, nobody consumes", *backlog(20_000, 1, 1)),
        ("enqueue runs of 1, 100 in an entry, nobody consumes", *backlog(40_000, 1, 100)),
        ("enqueue runs of 100, one in an entry, nobody consumes", *backlog(20_000, 100, 1)),
        ("enqueue runs of 1 and settle each by itself, 50 in an entry", *through(20_000, 1, 50, False)),
        ("enqueue runs of 1 and settle 50 at once, 50 in an entry", *through(20_000, 1, 50, True)),
        ("enqueue runs of 100 and settle each run", *through(10_000, 100, 1, True)),
        ("the same with a time to live", *through(10_000, 100, 1, True, Rules(message_ttl_ms=60_000))),
    ):
        seconds = min(measure(entries, profile) for _ in range(ROUNDS))
        print(f"{name:<64} {seconds / ops * 1e6:>10.2f} {ops / seconds:>12,.0f} {messages / seconds:>12,.0f}")
    snapshots(1_000_000)
    if profile is not None:
        profile.print_stats("tottime")


def backlog(runs: int, length: int, in_entry: int) -> tuple[int, int, list[Entry]]:
    ops = [enqueue(1 + at * length, length) for at in range(runs)]
    return runs, runs * length, list(packed(ops, in_entry))


def through(
    runs: int, length: int, in_entry: int, at_once: bool, rules: Rules | None = None
) -> tuple[int, int, list[Entry]]:
    """Publishes and settles in turn; what is settled was delivered by the entry before."""
    ops = [encode(Policy(rules or Rules())), encode(Consume(CONSUMER, "tag", in_entry * length * 2))]
    count = 0
    for first in range(0, runs, in_entry):
        ops += [enqueue(1 + at * length, length) for at in range(first, first + in_entry)]
        count += in_entry
        settled = [(1 + at * length, length) for at in range(first, first + in_entry)]
        if at_once:
            settled = [(1 + first * length, in_entry * length)]
        ops += [encode_settle(CONSUMER, Outcome.ACKNOWLEDGED, [one]) for one in settled]
        count += len(settled)
    head, rest = ops[:2], ops[2:]
    per_entry = in_entry + (1 if at_once else in_entry)
    return count, runs * length, [*packed(head, 2), *packed(rest, per_entry, 2)]


def packed(ops: list[bytes], in_entry: int, start: int = 1) -> Iterator[Entry]:
    for index, at in enumerate(range(0, len(ops), in_entry), start):
        data = entry_head(START + index) + b"".join(ops[at : at + in_entry])
        yield Entry(index, 1, EntryKind.COMMAND, data)


def enqueue(sequence: int, length: int) -> bytes:
    content = bytes((8 + BODY_BYTES) * length)
    return b"".join(encode_enqueue(SESSION, sequence, length, length * BODY_BYTES, "exchange", "routing.key", content))


def measure(entries: list[Entry], profile: cProfile.Profile | None) -> float:
    machine = QueueMachine()
    gc.collect()
    if profile is not None:
        profile.enable()
    began = time.process_time()
    for entry in entries:
        machine.apply((entry,))
        machine.take_effects()
    seconds = time.process_time() - began
    if profile is not None:
        profile.disable()
    return seconds


def snapshots(backlog_length: int) -> None:
    machine = QueueMachine()
    for index in range(1, backlog_length + 1):
        machine.state.ready.add(index, 9, 1, BODY_BYTES, 1 << 60, 4)
    began = time.process_time()
    state = machine.snapshot()
    taken = time.process_time()
    live = machine.live_entries()
    listed = time.process_time()
    data = b"".join(state)
    joined = time.process_time()
    QueueMachine().restore(data, machine.version)
    restored = time.process_time()
    print(
        f"{live.count:,} single messages: snapshot of {len(data) / 1e6:.0f} MB in {(taken - began) * 1e3:.0f} ms, "
        f"live entries in {(listed - taken) * 1e3:.0f} ms, restored in {(restored - joined) * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main()

"""What a level of the history adds to the work of a queue, in one process: `python -m tests.bench.level_work`.

Levels take turns, step by step, and of each the fastest step counts: so it can be told to some tenths of a microsecond beside
other work, where rates of nodes differ by tenths from one second to the next (tests/bench/history_price.py). A step publishes a
run of messages, makes it durable, hands it out and acknowledges it; a classic queue's share of a tick, one behind 100 steps, is
added. Without sockets and with files in memory: a node does much more for the same (docs/history.md).

    classic   the node's queues and its log. `archive`: what is written is counted, beside `basic`
    quorum    what the client's node says, and what each of three members does with it
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from broker.actors import ActorKind, LogActor
from broker.history_level import HistoryLevel
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, Slice
from classic.store.node_storage import ClassicLimits
from native.content import encode
from quorum.fifo.commands import Consume, ConsumerKey, SessionKey, entry_head
from quorum.fifo.commands import encode as encode_op
from quorum.fifo.machine import QueueMachine
from quorum.session import QueueSession
from raft.core.messages import Entry, EntryKind
from replicated.portions import Owner, Portion
from storage.archive.archive import Archive
from storage.archive.archive_window import ArchiveLimits
from storage.os_disk import OsDisk
from tests.unit.classic.classic_world import World, record_of

STEPS = 100  # between two ticks
ROUNDS = 40
MEMBERS = 3
START_MS = 1_000_000
BESIDE = {"basic": "off", "full": "off", "archive": "basic"}
CONNECTION = LogActor(ActorKind.CONNECTION, user="guest", vhost="/", address="127.0.0.1:40000")
CHANNEL = LogActor(ActorKind.CHANNEL, CONNECTION)
SHAPES = {
    "1 message": (1, 100),
    "100 messages": (100, 100),
    "1,000 messages": (1_000, 100),
    "100 of 4 KiB": (100, 4_096),
}


class Steps(Protocol):
    def step(self) -> None: ...

    def tick(self) -> None: ...


class Shape:
    """The run that each step publishes."""

    def __init__(self, messages: int, size: int) -> None:
        self._messages, self._body_bytes = messages, messages * size
        self._content = encode(b"\x10\0\2", bytes(size)) * messages
        self._next = 1

    def run(self) -> Run:
        number, self._next = self._next, self._next + self._messages
        return Run(
            "",
            "orders",
            self._content,
            self._messages,
            self._body_bytes,
            persistent=True,
            publisher=CHANNEL,
            number=number,
        )


class Client:
    """Whose receipts are answered, and who is given messages."""

    writable = True

    def __init__(self) -> None:
        self.pieces: list[Slice] = []

    def answered(self, receipt: Receipt) -> None: ...

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError("nobody gives up")

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        self.pieces.append(piece)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("nobody deletes the queue")

    def receipt(self, run: Run) -> Receipt:
        return Receipt(self, run.number, run.number + run.count - 1, 1)


class ClassicSteps:
    """A durable classic queue, and its consumer."""

    def __init__(self, directory: Path, shape: Shape, level: HistoryLevel, *, counted: bool = False) -> None:
        self._shape, self._client = shape, Client()
        disk: Any = OsDisk(str(directory))
        self._world = World([record_of("q", 9)], disk, ClassicLimits(), 64 << 20, history=level)
        self._queue = self._world.queues["q"]
        if counted:
            self._world.log._files._keeper = Archive(self._world.disk, ArchiveLimits(1, 0, 0), lambda: 0)
        actor = LogActor(ActorKind.CONSUMER, CHANNEL, tag="c", queue="q")
        self._queue.consume(Consumer("c", self._queue, self._client, actor=actor), 0)

    def step(self) -> None:
        world, run = self._world, self._shape.run()
        world.kind.publish([self._queue], run, self._client.receipt(run), world.now)
        world.loop.run_soon()
        world.turn()
        pieces, self._client.pieces = self._client.pieces, []
        for piece in pieces:
            self._queue.settle(piece, Outcome.ACKNOWLEDGED, world.now)

    def tick(self) -> None:
        self._world.tick()


class QuorumSteps(Owner):
    """What the client's node says, and one machine for each member."""

    def __init__(self, shape: Shape, level: HistoryLevel) -> None:
        key = SessionKey(1, 1)
        self._shape, self._client, self._index, self._next_id = shape, Client(), 0, 1
        self._session = QueueSession(key, self, (lambda actor: 7) if level >= HistoryLevel.BASIC else None)
        self._machines = [QueueMachine() for _ in range(MEMBERS)]
        self._consumer = self._session.new_number()
        self._apply([encode_op(Consume(ConsumerKey(*key, self._consumer), "c", 65_535))])

    def step(self) -> None:
        run = self._shape.run()
        self._session.enqueue(run, self._client.receipt(run), joined=True)
        self._session.flush()
        self._session.settle(self._consumer, self._next_id, run.count, Outcome.ACKNOWLEDGED)
        self._next_id += run.count
        self._session.flush()

    def tick(self) -> None: ...

    def send(self, portion: Portion, attempt: int) -> None:
        self._session.answered(portion, attempt, self._apply(portion.ops))

    def enqueued(self, receipts: list[Receipt], result: Any) -> None: ...

    def lost_touch(self) -> None:
        raise AssertionError("the leader is here")

    def _apply(self, ops: list[bytes]) -> Any:
        self._index += 1
        data = entry_head(START_MS + self._index) + b"".join(ops)
        entry = Entry(self._index, 1, EntryKind.COMMAND, data)
        (results,) = [machine.apply((entry,)) for machine in self._machines][:1]
        for machine in self._machines:
            machine.take_effects()
        return results[0]


def fastest_us(sides: dict[str, Steps]) -> dict[str, float]:
    """A step of each, and its share of a tick: the least of many."""
    steps, ticks = ({side: float("inf") for side in sides} for _ in range(2))
    for nth in range(ROUNDS * STEPS):
        for side, one in sides.items():
            steps[side] = min(steps[side], seconds_of(one.step))
        if nth % STEPS == 0:
            for side, one in sides.items():
                ticks[side] = min(ticks[side], seconds_of(one.tick))
    return {side: (steps[side] + ticks[side] / STEPS) * 1e6 for side in sides}


def seconds_of(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rows(scratch: Path) -> Iterator[tuple[str, dict[str, Steps]]]:
    for name, shape in SHAPES.items():
        at = scratch / name
        yield (
            f"classic, {name}",
            {
                "off": ClassicSteps(at / "off", Shape(*shape), HistoryLevel.OFF),
                "basic": ClassicSteps(at / "basic", Shape(*shape), HistoryLevel.BASIC),
                "full": ClassicSteps(at / "full", Shape(*shape), HistoryLevel.FULL),
                "archive": ClassicSteps(at / "archive", Shape(*shape), HistoryLevel.BASIC, counted=True),
            },
        )
    for name, shape in SHAPES.items():
        yield (
            f"quorum, {name}",
            {
                "off": QuorumSteps(Shape(*shape), HistoryLevel.OFF),
                "basic": QuorumSteps(Shape(*shape), HistoryLevel.BASIC),
            },
        )


def main() -> None:
    gc.disable()  # it would count against whoever comes next
    print(f"{'a step, in us':<28} {'off':>8} " + " ".join(f"{level + ' adds':>13}" for level in BESIDE))
    with tempfile.TemporaryDirectory(prefix="leveret-", dir="/dev/shm") as scratch:
        for name, sides in rows(Path(scratch)):
            took = fastest_us(sides)
            added = [took[level] - took[beside] for level, beside in BESIDE.items() if level in took]
            print(f"{name:<28} {took['off']:>8.2f} " + " ".join(f"{us:>13.2f}" for us in added))


if __name__ == "__main__":
    main()

"""A node's classic queues on a simulated disk, with limits so small that everything pages, rolls and is collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.background_work import Unsliced, Work
from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.history_level import HistoryLevel
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeadMessage, DeathReason, Got, Outcome, Queue, Slice
from broker.records import QueueRecord
from classic.driver import ClassicQueues
from classic.queue import ClassicQueue
from classic.store.node_storage import ClassicLimits
from native.content import encode, messages
from storage.beside_loop import AtOnce, Background
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk

LOG_ID = bytes(range(16))
TINY = ClassicLimits(
    embed_below=64,
    sequences_per_segment=8,
    store_file_bytes_max=400,
    runs_max=3,
    ram_count_max=3,
    ram_bytes_kept=0,
    log_files_kept=1,
    compaction_interval_ms=100,
)


@dataclass
class Host:
    """Fulfils QueueHost, without a broker."""

    woken: dict[Queue, None] = field(default_factory=dict)
    dead: list[tuple[str, DeathReason, bytes]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    still_unused: list[Callable[[], bool]] = field(default_factory=list)  # as those that expired would be judged now
    calls: list[tuple[int, Callable[[int], None]]] = field(default_factory=list)
    work: Work = field(default_factory=Unsliced)

    def wake(self, queue: Queue) -> None:
        self.woken[queue] = None

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        entry = (when, call)
        self.calls.append(entry)
        return lambda: self.calls.remove(entry) if entry in self.calls else None

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        raise AssertionError("classic queues of this node wait for nothing")

    def make_calls(self, now: int) -> None:
        """Those that are due, each once."""
        for entry in [entry for entry in self.calls if entry[0] <= now]:
            if entry in self.calls:  # an earlier one may have cancelled it
                self.calls.remove(entry)
                entry[1](now)

    def dead_letter(self, queue: Queue, reason: DeathReason, dead: Sequence[DeadMessage], now: int) -> None:
        for _, _, content, *_ in dead:
            self.dead.append((queue.record.name, reason, messages(content, 0, 1)[0][1]))

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        self.deleted.append(queue.record.name)
        if unused is not None:
            self.still_unused.append(unused)


class Confirmed:
    """Whose receipts are answered. Fulfils AnswersTo."""

    def __init__(self) -> None:
        self.accepted: set[int] = set()
        self.refused: set[int] = set()

    def answered(self, receipt: Receipt) -> None:
        for first, last, accepted in receipt.answers():
            (self.accepted if accepted else self.refused).update(range(first, last + 1))

    def given_up(self, receipt: Receipt) -> None:
        self.refused.update(range(receipt.first, receipt.last + 1))


@dataclass
class Sink:
    """A client that remembers what it got."""

    got: list[tuple[bytes, bool]] = field(default_factory=list)
    pieces: list[Slice] = field(default_factory=list)
    writable: bool = True

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        self.pieces.append(piece)
        for _, body in messages(content[piece.position :], 0, piece.count):
            self.got.append((body, piece.redelivered))

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("nobody deletes the queue here")


def record_of(name: str, number: int, durable: bool = True, **arguments: Any) -> QueueRecord:
    return QueueRecord("/", name, "classic", durable, False, False, arguments, number)


class World:
    """One life of the node after another, on one disk."""

    def __init__(
        self,
        records: Sequence[QueueRecord],
        disk: SimDisk | None = None,
        limits: ClassicLimits = TINY,
        log_file_bytes_max: int = 2_000,
        effective: EffectiveArguments | None = None,
        background: Callable[[], Background] = AtOnce,
        work: Callable[[], Work] = Unsliced,
        history: HistoryLevel = HistoryLevel.BASIC,
    ) -> None:
        self.work = work
        self.history = history
        self.background = background
        self.disk = disk or SimDisk()
        self.records = list(records)
        self.limits = limits
        self.log_file_bytes_max = log_file_bytes_max
        self.effective = effective or EffectiveArguments()
        self.confirmed = Confirmed()
        self.now = 1_000_000
        self.start()

    def start(self) -> None:
        self.host, self.loop = self.new_host(), SimLoop()
        facts = load_or_create(self.disk, LOG_ID)
        replay = Replay(self.disk, facts, salvage=True)
        self.kind = ClassicQueues(self.disk, self.limits, self.background())
        self.kind.recover(replay.chunks(), self.records)
        self.core = LogCore(facts.log_id, replay.finish(), self.log_file_bytes_max)
        self.damage = replay.damage
        self.failures: list[str] = []
        self.log = LogWriter(
            self.core, self.disk, self.loop, facts, on_failed=self.failures.append, commit_inline_bytes_max=None
        )
        self.kind.attach(self.host, self.log, history=self.history)
        self.queues: dict[str, ClassicQueue] = {}
        for record in self.records:
            queue = self.kind.open(record, self.effective_of(record), self.now)
            assert isinstance(queue, ClassicQueue)
            self.queues[record.name] = queue
        self.kind.opened(self.now)

    def new_host(self) -> Host:
        return Host(work=self.work())

    def effective_of(self, record: QueueRecord) -> EffectiveArguments:
        return self.effective

    def stop(self) -> None:
        self.kind.stop(self.now)
        self.log.close()
        self.disk.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 100
            self.host.make_calls(self.now)
            self.kind.tick(self.now)
            self.log.flush_lazy()
            self.loop.run_soon()
            self.turn()

    def turn(self) -> None:
        while self.host.woken:
            woken, self.host.woken = self.host.woken, {}
            for queue in woken:
                queue.pump(self.now)

    def publish(
        self,
        names: Sequence[str],
        bodies: Sequence[bytes],
        persistent: bool = True,
        confirm: int | None = None,
        **fields: Any,
    ) -> None:
        """`confirm` is the first of the tags that are answered in `confirmed`; a run that cannot be taken is given up."""
        content = b"".join(encode(b"", body) for body in bodies)
        run = Run("x", "key", content, len(bodies), sum(map(len, bodies)), persistent=persistent, **fields)
        receipt = None
        if confirm is not None:
            receipt = Receipt(self.confirmed, confirm, confirm + len(bodies) - 1, len(names))
        try:
            self.kind.publish([self.queues[name] for name in names], run, receipt, self.now)
        except ResourceExhausted:
            if receipt is None:
                raise
            receipt.give_up()

    def get(self, name: str, no_ack: bool = False) -> Got | None:
        """None also when it is not answered at once; what it brings later goes back."""
        found: list[Got | None] = []
        in_time = True
        queue = self.queues[name]

        def answered(got: Got | None) -> None:
            if in_time:
                found.append(got)
            elif got is not None and not no_ack:
                queue.settle(got.piece, Outcome.RETURNED, self.now)

        queue.get(no_ack, self.now).then(answered, lambda error: answered(None))
        in_time = False
        return found[0] if found else None

    def waiting(self, name: str) -> list[tuple[bytes, bool]]:
        """Bodies and marks of all ready messages, which stay where they are."""
        seen, taken = [], []
        while (got := self.get(name)) is not None:
            body = messages(got.content[got.piece.position :], 0, 1)[0][1]
            seen.append((body, got.piece.redelivered))
            taken.append(got.piece)
        for piece in taken:
            self.queues[name].settle(piece, Outcome.RETURNED, self.now)
        return seen

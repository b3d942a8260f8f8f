"""The kind `classic` on this node: all its queues over the one log. Fulfils broker.queue_type.QueueType.

A run goes to the log once, with the sequences it takes in each of its queues. Receipts wait for the ticket of their commit,
and all that share it are answered together. What is done with is gathered as ranges and written behind, one record for a
queue at a time. A log file is released when nothing in it, or before it, still lives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence, Set

from broker.confirms import Receipt
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.message import Run
from broker.policy import EffectiveArguments
from broker.queue_type import DeathReason, Queue, QueueHost
from broker.records import QueueRecord
from classic.log_records import encode_deleted, encode_published, encode_settled
from classic.queue import ClassicQueue, messages_as_contents
from classic.recover import Recovery
from classic.stored_run import StoredRun
from native.sequence_set import SequenceSet
from storage.errors import DiskFailed
from storage.record import Kind
from storage.wal import Location
from storage.wal_file_reader import Chunk
from storage.wal_writer import LogWriter

WRITER = 1  # of the log's records: the classic queues of this node
ROUTING_KEY_BYTES_MAX = 255


class ClassicQueues:
    """See the module. `recover`, then `attach`, before anything else."""

    name = "classic"

    def __init__(self) -> None:
        self._recovery: Recovery | None = None
        self._waiting: deque[tuple[int, list[Receipt]]] = deque()  # receipts by the ticket that answers them
        self._settled: dict[ClassicQueue, SequenceSet] = {}
        self._live: dict[int, int] = {}  # messages that still live, by log file
        self._next_index = 1
        self._pressure = 0.0

    # start and stop

    def recover(self, chunks: Iterable[Chunk], known: Set[int]) -> None:
        """Read what the log holds for the queues with these ids."""
        self._recovery = Recovery(known)
        self._recovery.read(chunks)
        self._next_index = self._recovery.next_index

    def attach(self, host: QueueHost, log: LogWriter) -> None:
        self._host = host
        self._log = log
        log.when_durable(self._durable)
        log.when_rolled(lambda _: self._release())

    def stop(self, now: int) -> None:
        """Everything acknowledged is on its way to the log, whose close makes it durable."""
        self._write_settled()

    def tick(self, now: int) -> None:
        if self._log.failed is None:
            self._write_settled()
            self._release()

    def set_pressure(self, pressure: float) -> None:
        self._pressure = pressure

    # the contract

    def check(self, record: QueueRecord) -> None:
        if record.kind != self.name:
            raise PreconditionFailed(f"queue '{record.name}' is {record.kind}, not {self.name}")

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        queue = ClassicQueue(record, effective, self._host, self, now)
        recovered = self._recovery.queues.pop(record.id, None) if self._recovery is not None else None
        if recovered is not None:
            parts = recovered.parts()
            for part in parts:
                location = part.run.location
                assert location is not None, f"the run at {part.run.first} was recovered from nowhere"
                self._live[location.file_number] = self._live.get(location.file_number, 0) + part.count
            queue.recovered(parts, recovered.next_sequence, now)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, ClassicQueue), f"{queue!r} is not a classic queue"
        ready = queue.ready_count
        queue.close()
        self._settled.pop(queue, None)
        if queue.record.durable and self._log.failed is None:
            self._append_lazy(Kind.CLASSIC_QUEUE_DELETED, [encode_deleted(queue.record.id)])
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        taken: list[tuple[ClassicQueue, StoredRun]] = []
        durable: list[tuple[ClassicQueue, StoredRun]] = []
        for queue in queues:
            assert isinstance(queue, ClassicQueue), f"{queue!r} is not a classic queue"
            if queue.refuses(run.count, run.body_bytes):
                self._refuse(queue, run, receipt, now)
                continue
            stored = StoredRun(
                queue.next_sequence,
                run.count,
                run.exchange,
                run.routing_key,
                run.content,
                run.body_bytes,
                run.persistent,
                run.priority,
                queue.expiry_of(run.expiration_ms, now),
            )
            queue.next_sequence += run.count
            taken.append((queue, stored))
            if run.persistent and queue.record.durable:
                durable.append((queue, stored))
        if durable:
            self._log_run(run, durable, receipt is not None)
        for queue, stored in taken:
            queue.publish(stored, now)
        if receipt is not None:
            for _ in range(len(taken) - len(durable)):
                receipt.accepted()
            if durable:
                self._answer_when_durable(receipt, len(durable))

    # steps

    def _log_run(self, run: Run, durable: list[tuple[ClassicQueue, StoredRun]], promised: bool) -> None:
        """One record for each time of expiry; nearly always one for all queues."""
        by_expiry: dict[int | None, list[tuple[ClassicQueue, StoredRun]]] = {}
        for pair in durable:
            by_expiry.setdefault(pair[1].expires_at, []).append(pair)
        append = self._append if promised else self._append_lazy
        for expires_at, pairs in by_expiry.items():
            ids = [(queue.record.id, stored.first) for queue, stored in pairs]
            head = encode_published(
                ids, run.priority, run.count, run.body_bytes, expires_at, run.exchange, run.routing_key
            )
            location = append(Kind.CLASSIC_PUBLISH, [head, run.content])
            for _, stored in pairs:
                stored.location = location
                stored.content_at = len(head)
            self._live[location.file_number] = self._live.get(location.file_number, 0) + run.count * len(pairs)

    def _append(self, kind: Kind, parts: list[bytes]) -> Location:
        try:
            location = self._log.append(kind, WRITER, self._next_index, parts)
        except DiskFailed as error:
            raise ResourceExhausted(f"this node's disk failed, it takes no messages: {error}") from error
        self._next_index += 1
        return location

    def _append_lazy(self, kind: Kind, parts: list[bytes]) -> Location:
        try:
            location = self._log.append_lazy(kind, WRITER, self._next_index, parts)
        except DiskFailed as error:
            raise ResourceExhausted(f"this node's disk failed, it takes no messages: {error}") from error
        self._next_index += 1
        return location

    def _refuse(self, queue: ClassicQueue, run: Run, receipt: Receipt | None, now: int) -> None:
        if queue.dead_letters_refused:
            single = messages_as_contents(run.content, 0, run.count)
            dead = [(run.exchange, run.routing_key, one, run.persistent) for one in single]
            self._host.dead_letter(queue, DeathReason.MAXLEN, dead, now)
        if receipt is not None:
            receipt.refused()

    def _answer_when_durable(self, receipt: Receipt, times: int) -> None:
        ticket = self._log.gathering
        if not self._waiting or self._waiting[-1][0] != ticket:
            self._waiting.append((ticket, []))
        self._waiting[-1][1].extend([receipt] * times)

    def _durable(self, ticket: int) -> None:
        while self._waiting and self._waiting[0][0] <= ticket:
            for receipt in self._waiting.popleft()[1]:
                receipt.accepted()

    def read(self, run: StoredRun) -> bytes:
        assert run.location is not None, f"the run at {run.first} is neither in memory nor in the log"
        return self._log.read(run.location)[run.content_at :]

    def forget(self, queue: ClassicQueue, run: StoredRun, sequence: int, count: int) -> None:
        if run.location is None:
            return
        self._live[run.location.file_number] -= count
        settled = self._settled.get(queue)
        if settled is None:
            settled = self._settled[queue] = SequenceSet()
        settled.add(sequence, sequence + count)

    def _write_settled(self) -> None:
        gathered, self._settled = self._settled, {}
        for queue, settled in gathered.items():
            self._append_lazy(Kind.CLASSIC_SETTLE, [encode_settled(queue.record.id, settled)])

    def _release(self) -> None:
        """Let the log delete its oldest files as far as nothing lives in them."""
        files = self._log.files()
        first = next((number for number in files if self._live.get(number)), files.stop - 1)
        if first > files.start:
            for number in range(files.start, first):
                self._live.pop(number, None)
            self._log.release(first)

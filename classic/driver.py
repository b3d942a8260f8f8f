"""The kind `classic` on this node: all its queues over the one log. Fulfils broker.queues.queue_type.QueueType.

A run is written to the log once, with the sequences it takes in each of its queues. Receipts wait for the ticket of their
commit, and all that share it are answered together. Settled messages are gathered as ranges and written behind, one record for
a queue at a time. Work that takes longer than a turn belongs to housekeeping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from broker.background_work import Steps, begin
from broker.catalog.policy import EffectiveArguments
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.history_level import HistoryLevel
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one
from broker.queues.queue_type import Queue, QueueHost
from broker.records import QueueRecord
from broker.unlogged import Unlogged, UnloggedCounter
from classic.queue import ClassicQueue
from classic.recovery import clean_stop
from classic.recovery.queue_summary import summary_of
from classic.recovery.recover import Recovery
from classic.round_robin import next_in_turn
from classic.store.backing import QueueBacking
from classic.store.housekeeping import Housekeeping
from classic.store.log_records import (
    BY_ACTORS,
    DEATHS_PER_RECORD_MAX,
    DIED_BEFORE,
    DIED_EACH,
    QUEUES_PER_RECORD_MAX,
    WAITED_FOR,
    encode_death,
    encode_deleted,
    encode_part,
    encode_published,
)
from classic.store.manifest import Manifest
from classic.store.node_storage import ClassicLimits, NodeStorage
from classic.store.stored_queue import StoredQueue
from classic.stored_run import StoredRun
from classic.variable_queue import VariableQueue
from storage.beside_loop import AtOnce, Background
from storage.disk import Disk
from storage.errors import DiskFailed, Exhausted
from storage.history.file_names import FileNames
from storage.record import Kind
from storage.wal.file_reader import Chunk
from storage.wal.log_users import LogShare, LogUsers
from storage.wal.writer import LogWriter

Taken = tuple[ClassicQueue, VariableQueue, StoredRun]


class ClassicQueues:
    """See the module. `recover`, then `attach`, before anything else."""

    name = "classic"

    def __init__(self, disk: Disk, limits: ClassicLimits | None = None, background: Background | None = None) -> None:
        self._storage = NodeStorage(disk, limits or ClassicLimits())
        self._background = background or AtOnce()
        self._queues: dict[int, ClassicQueue] = {}
        self._recovery: Recovery | None = None
        self._waiting: deque[tuple[int, list[Receipt]]] = deque()  # receipts by the ticket that answers them
        self._pressure = 0.0
        self._is_telling = False  # the log, in slices
        self._unlogged: UnloggedCounter | None = None
        self._stopped = False

    # start and stop

    def recover(self, chunks: Iterable[Chunk], records: Iterable[QueueRecord]) -> int:
        """Read what the disk holds for these queues: all that are declared. Returns the highest number of a queue that has
        messages there and is not among them, or 0. Raises Corrupt."""
        declared = {record.id: record for record in records if record.kind == self.name and record.durable}
        self._recovery = Recovery(self._storage, declared)
        self._recovery.read(chunks)
        return self._recovery.newest_undeclared

    def attach(
        self,
        host: QueueHost,
        log: LogWriter,
        log_files: LogShare | None = None,
        names: FileNames | None = None,
        history: HistoryLevel = HistoryLevel.BASIC,
        unlogged: UnloggedCounter | None = None,
    ) -> None:
        """`log_files` is the share in a log that others use, too, and `names` its names. `unlogged` is told of
        messages that do not go there."""
        self._host = host
        self._unlogged = unlogged
        self._storage.log = log
        self._storage.names = names or FileNames(log, 0)
        self._storage.says_who = history >= HistoryLevel.BASIC
        self._storage.says_where = history >= HistoryLevel.FULL
        self._storage.log_files = log_files or LogUsers(log).join(self.name)
        manifest = self._recovery.manifest if self._recovery is not None else Manifest()
        self._housekeeping = Housekeeping(self._storage, self._queues, manifest, self._background, lambda: host.work)
        log.when_durable(self._durable)

    def opened(self, now: int) -> None:
        """Every declared queue was opened, of other kinds too: what is left of the recovery belongs to no queue, and messages
        that expired while the node was down may be dropped."""
        if self._recovery is not None:
            self._recovery.finish()
            self._recovery = None
        for queue in list(self._queues.values()):
            queue.recovered(now)

    def stop(self, now: int) -> None:
        """Everything is made durable, and what a fast start needs is written down. Nothing may be published after it."""
        storage, self._stopped = self._storage, True
        self._background.close()
        if storage.log.failed is not None or self._recovery is not None:
            return  # a start that failed half-way: what it has not filled yet would be missing in the summary
        for queue in self._queues.values():
            queue.finish()
        self._delete_again()
        try:
            storage.write_settled()
            storage.log.commit_now()
            storage.release_durable()
            if self._housekeeping.failed:
                return
            for queue in self._queues.values():
                if not queue.record.durable:
                    queue.backing.index.delete_all()
            manifest = self._housekeeping.stop()
            durable = {queue_id: queue for queue_id, queue in self._queues.items() if queue.record.durable}
            incomplete = self._not_at_rest(durable.values())
            if incomplete:
                storage.found(f"the next start will have to read everything: {incomplete}")
                storage.files.close()
                return
            contents = storage.store.contents.items()
            summary = clean_stop.CleanStop(
                clean_stop.VERSION,
                storage.next_index,
                {queue_id: summary_of(queue) for queue_id, queue in durable.items()},
                storage.live,
                [(*one, stored.file, stored.offset, stored.size, stored.references) for one, stored in contents],
            )
            assert set(manifest.store) >= {stored.file for _, stored in contents}, "the manifest misses a store file"
            clean_stop.save(storage.disk, summary)
        except (Exhausted, DiskFailed) as error:
            storage.found(f"the next start will have to read everything: {error}")
        storage.files.close()

    def _not_at_rest(self, queues: Iterable[ClassicQueue]) -> str:
        """Why a summary would not be true, in words: it knows what is ready, and only the files know what lives."""
        with_consumers = [queue.record.label for queue in queues if queue.out]
        if with_consumers:
            return f"messages of {with_consumers[0]} were not given back"
        undeleted = [queue.record.label for queue in self._storage.undeleted]
        return f"the files of {undeleted[0]}, which is deleted, could not be deleted yet" if undeleted else ""

    def tick(self, now: int) -> None:
        storage = self._storage
        for queue in next_in_turn(self._storage.active):
            if queue.deleted or not queue.tick(now, self._pressure):
                del self._storage.active[queue]
        self._delete_again()
        if storage.log.failed is None and not (self._stopped or self._is_telling):
            self._is_telling = True
            begin(self._host.work, self._tell_log(now))

    def _tell_log(self, now: int) -> Steps:
        """What happened, in slices; then what that allows to be released."""
        storage = self._storage
        while storage.tell_some():
            yield
            if storage.log.failed is not None or self._stopped:
                return
        self._is_telling = False
        self._housekeeping.tick(now, storage.told())

    def _delete_again(self) -> None:
        for queue in list(self._storage.undeleted):
            queue.backing.delete(queue)

    @property
    def congested(self) -> bool:
        """Whether publishers should pause: a queue grows although messages leave it as fast as they can."""
        outrun = self._storage.outrun
        for queue in [queue for queue in outrun if not queue.is_outrun]:
            del outrun[queue]
        return bool(outrun)

    def set_pressure(self, pressure: float) -> None:
        """How near the node's memory is to its limit: 0.0 below the point where paging begins, 1.0 at the watermark."""
        if pressure > 0 and pressure != self._pressure:
            for queue in self._queues.values():
                if queue.ready_count:
                    self._storage.active[queue] = None
        self._pressure = pressure

    @property
    def findings(self) -> list[str]:
        """What was found wrong with files, since the node was started."""
        return self._storage.findings

    def when_found(self, call: Callable[[str], None]) -> None:
        """Tell of each finding, also of those there are already."""
        for finding in self._storage.findings:
            call(finding)
        self._storage.on_finding = call

    # the contract

    def check(self, record: QueueRecord) -> None:
        if record.kind != self.name:
            raise PreconditionFailed(f"queue '{record.name}' is {record.kind}, not {self.name}")

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        queue = ClassicQueue(record, effective, self._host, QueueBacking(record, self._storage), now)
        self._queues[record.id] = queue
        if self._recovery is not None:
            self._recovery.fill(queue)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, ClassicQueue), f"{queue!r} is not a classic queue"
        ready = queue.ready_count
        queue.close(now)
        queue.backing.delete(queue)
        self._answer_purges(queue, 1 << 62)
        self._storage.forget_queue(queue)
        del self._queues[queue.record.id]
        self._housekeeping.forget_queue(queue.record.id)
        if queue.record.durable and self._storage.log.failed is None:
            self._storage.introduce(queue)
            self._storage.append(Kind.CLASSIC_QUEUE_DELETED, [encode_deleted(queue.record.id)], promised=False)
        if queue not in self._storage.undeleted:  # whose contents are still to be given up
            queue.drop_contents(now)
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        mine: Sequence[ClassicQueue] = queues  # type: ignore[assignment]  # they are of this kind
        if run.count > 1 and any(queue.one_by_one for queue in mine):
            for one, owed in one_by_one(run, receipt, len(mine)):
                self._publish(mine, one, owed, now)
        else:
            self._publish(mine, run, receipt, now)

    # steps

    def _publish(self, queues: Sequence[ClassicQueue], run: Run, receipt: Receipt | None, now: int) -> None:
        takers: list[ClassicQueue] = []
        for queue in queues:
            if queue.fence is not None:
                queue.fence.publishes.hold(run, receipt)
            elif queue.may_refuse and queue.refuses(run, now):
                self._refuse(queue, run, receipt, now)
            else:
                takers.append(queue)
        taken: list[Taken] = []
        durable: list[Taken] = []
        answered_now = 0
        for queue in takers:
            stays = run.persistent and queue.record.durable
            if (receipt is None or not stays) and queue.deliver_at_once(run, now):
                self._count_unlogged(Unlogged.HANDED_AT_ONCE, run)
                if receipt is not None:
                    receipt.accepted()
                continue
            level = queue.level_of(run.priority)
            one = (queue, level, queue.stored(run, level, now))
            taken.append(one)
            if stays:
                durable.append(one)
            else:
                answered_now += 1
                self._count_unlogged(Unlogged.TRANSIENT, run)
        logged = len(durable)
        if logged == 1:
            self._write_run(run, durable, receipt)
        elif logged:
            self._log_run(run, durable, receipt)
        for queue, level, stored in taken:
            level.publish(stored)
            if not run.persistent and queue.record.durable:
                queue.transient.add(stored.first, stored.end)
            if run.redelivered:
                queue.redelivered.add(stored.first, stored.end)
        for queue, level, stored in taken:  # only now: what follows from it may publish to any of them
            queue.published(stored, level, now)
            self._storage.active[queue] = None
        if receipt is not None:
            for _ in range(answered_now):
                receipt.accepted()

    def _refuse(self, queue: ClassicQueue, run: Run, receipt: Receipt | None, now: int) -> None:
        queue.refused(run, now)
        self._count_unlogged(Unlogged.REFUSED, run)
        if receipt is not None:
            receipt.refused()

    def _count_unlogged(self, what: Unlogged, run: Run) -> None:
        if self._unlogged is not None:
            self._unlogged.count(what, run.publisher, run.exchange, run.routing_key, run.count, run.body_bytes)

    def _log_run(self, run: Run, durable: list[Taken], receipt: Receipt | None) -> None:
        """To several queues: one record for each time of expiry, nearly always one for all of them."""
        by_expiry: dict[int | None, list[Taken]] = {}
        for one in durable:
            by_expiry.setdefault(one[2].expires_at, []).append(one)
        for group in by_expiry.values():
            for at in range(0, len(group), QUEUES_PER_RECORD_MAX):
                self._write_run(run, group[at : at + QUEUES_PER_RECORD_MAX], receipt)

    def _write_run(self, run: Run, group: list[Taken], receipt: Receipt | None) -> None:
        if self._stopped:
            raise ResourceExhausted("this node is stopping, it takes no messages")
        storage = self._storage
        file = storage.log.gathering_file  # asked for once: it stays until the next commit
        for queue, _, _ in group:
            if queue.named_in != file:
                storage.introduce(queue)
        flags, origin = self._origin_of(run, receipt, file) if storage.says_who else (0, b"")
        head = encode_published(
            [(queue.record.id, stored.first) for queue, _, stored in group],
            run.priority,
            run.count,
            run.body_bytes,
            group[0][2].expires_at,
            run.exchange,
            run.routing_key,
            flags,
            origin,
        )
        location = storage.append(Kind.CLASSIC_PUBLISH, [head, run.content], receipt is not None)
        for _, _, stored in group:
            stored.where = location
            stored.content_at = len(head)
        live = storage.live
        queues = len(group)
        live[location.file_number] = live.get(location.file_number, 0) + run.count * queues
        if receipt is not None:
            self._answer_when_durable(receipt, queues)

    def _origin_of(self, run: Run, receipt: Receipt | None, file: int) -> tuple[int, bytes]:
        """What the record, which goes to this file, says of where the run comes from: flags and bytes."""
        flags, origin = (0 if receipt is None else WAITED_FOR), b""
        publisher = run.publisher
        if publisher is not None:
            flags |= BY_ACTORS
            number = publisher.number if publisher.named_in == file else self._storage.names.number_of(publisher)
            origin = encode_part(number, run.number, run.count)
        died_in = run.died_in
        if died_in is not None:
            flags |= DIED_EACH if died_in.further else DIED_BEFORE
            assert len(died_in.further) < DEATHS_PER_RECORD_MAX, f"{run.count} messages died in places of their own"
            deaths = [encode_death(died_in.queue_id, position, died_in.reason) for position in died_in.positions]
            origin = b"".join(deaths) + origin
        return flags, origin

    def _answer_when_durable(self, receipt: Receipt, times: int) -> None:
        ticket = self._storage.log.gathering
        if not self._waiting or self._waiting[-1][0] != ticket:
            self._waiting.append((ticket, []))
        if times == 1:
            self._waiting[-1][1].append(receipt)
        else:
            self._waiting[-1][1].extend([receipt] * times)

    def _durable(self, ticket: int) -> None:
        while self._waiting and self._waiting[0][0] <= ticket:
            for receipt in self._waiting.popleft()[1]:
                receipt.accepted()
        for queue in list(self._storage.purging):
            self._answer_purges(queue, ticket)

    def _answer_purges(self, queue: StoredQueue, ticket: int) -> None:
        promised = queue.backing.promised
        while promised and promised[0][0] <= ticket:
            _, answer, count = promised.pop(0)
            answer.resolve(count)
        if not promised:
            self._storage.purging.pop(queue, None)

"""What all classic queues of a node share on disk: the log they write to, the two message stores, open files.

live      logged messages that live, by log file. Never too low: a file with 0 holds nothing that is needed
failed    why the files beside the log are not written any more. What a failed write or fsync left in them is unknown, so none
          is vouched for or deleted from then on. The log works on and keeps everything; what only memory held stays there
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.actors import LogActor
from broker.errors import ResourceExhausted
from broker.queues.queue_type import BackReason
from classic.store.checkpoint import checkpoint_of
from classic.store.happened import Happened, gather
from classic.store.log_records import OUT_BEFORE, DoneReason, encode_checkpoint, encode_reasoned, encode_settled
from classic.store.open_files import OpenFiles
from classic.store.queue_index import LOADED_RUNS_MAX, SEQUENCES_PER_SEGMENT, LoadedSegments
from classic.store.salvage import Damage
from classic.store.store import FILE_BYTES_MAX, MessageStore
from classic.store.stored_queue import StoredQueue
from classic.stored_run import InStore, StoredRun
from classic.variable_queue import RAM_BYTES_KEPT, RAM_COUNT_MAX, RUNS_MAX
from native.sequence_set import SequenceSet
from storage import names
from storage.disk import Buffer, Disk
from storage.errors import Corrupt, DiskFailed, Exhausted, NoDescriptors
from storage.history.file_names import NO_WRITER, FileNames
from storage.quarantine import quarantine
from storage.record import Kind
from storage.wal.log_core import Location
from storage.wal.log_users import LogShare
from storage.wal.writer import LogWriter

WRITER = 1  # of the log's records: the classic queues of this node
FINDINGS_MAX = 1_000  # beyond that many they are only counted
QUEUES_PER_STEP = 64  # of which the log is told what happened; 6 us each
NOT_SAID = (None, int(DoneReason.NOT_SAID))


@dataclass(slots=True, frozen=True)
class ClassicLimits:
    """Sizes, as the configuration has them. Tests use tiny ones."""

    embed_below: int = 4_096  # contents of messages smaller than that, on average, lie beside the index
    sequences_per_segment: int = SEQUENCES_PER_SEGMENT
    store_file_bytes_max: int = FILE_BYTES_MAX
    runs_max: int = RUNS_MAX
    ram_count_max: int = RAM_COUNT_MAX
    ram_bytes_kept: int = RAM_BYTES_KEPT
    log_files_kept: int = 2  # full log files that wait for their messages to be consumed before these are moved out
    loaded_runs_max: int = LOADED_RUNS_MAX
    compaction_interval_ms: int = 15_000


class NodeStorage:
    """See the module."""

    log: LogWriter  # these three: from `attach` on
    log_files: LogShare  # those that classic queues have not let go
    names: FileNames

    def __init__(self, disk: Disk, limits: ClassicLimits) -> None:
        self.disk = disk
        self.limits = limits
        self.says_who = False  # the log says who and why, as the history's level wants it
        self.says_where = (
            False  # it says what queues have when a file begins to tell of them, and what is out at each tick
        )
        self.files = OpenFiles(disk)
        self.loaded = LoadedSegments(limits.loaded_runs_max)
        self.store = MessageStore(self.files, names.STORE_PERSISTENT, limits.store_file_bytes_max)
        self.spilled = MessageStore(self.files, names.STORE_TRANSIENT, limits.store_file_bytes_max)
        self.indexed: dict[int, None] = {}  # ids of queues that have index segments
        # Runs whose queue is counted as one that needs the content, before its index says so; by queue and content.
        self.unindexed: dict[int, dict[InStore, StoredRun]] = {}
        self.touched: dict[int, None] = {}  # of those whose segments differ from what the manifest notes
        self.live: dict[int, int] = {}
        self._happened = Happened()
        self.active: dict[StoredQueue, None] = {}  # queues in use, whose rates are to be measured
        self.outrun: dict[StoredQueue, None] = {}  # queues that somebody published to faster than they can be trimmed
        self.purging: dict[StoredQueue, None] = {}  # queues that owe an answer to a purge
        self.undeleted: dict[StoredQueue, None] = {}  # queues that are gone, and whose files are to be deleted later
        self._releases: deque[tuple[int, list[InStore]]] = (
            deque()
        )  # contents without a reference, by the ticket that makes it durable
        self.next_index = 1  # of the log's records
        self.findings: list[str] = []
        self.finding_count = 0
        self._quarantined: set[str] = set()
        self.on_finding: Callable[[str], None] | None = None
        self.failed: str | None = None

    def fail(self, error: Exception) -> None:
        """The disk failed at a file beside the log."""
        if self.failed is None:
            self.failed = str(error)
            self.found(f"queues' files are not written any more, the log keeps everything from now on: {error}")

    def changed_since_stop(self, name: str) -> None:
        """An index that was taken as the last clean stop left it is damaged. The log may still have messages that the index
        does not know any more: so no log file is released, and the next start reads everything."""
        self.fail(Corrupt(name, 0, 0, "it is not as the last stop left it; the next start takes what the log has too"))

    def found(self, what: str) -> None:
        """Something is wrong with a file. The node logs it."""
        self.finding_count += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(what)
        if self.on_finding is not None:
            self.on_finding(what)

    def damaged(self, name: str, damages: Sequence[Damage]) -> bool:
        """These bytes of a file cannot be read. False when there is no room for a copy of it."""
        parts = ", ".join(f"at {one.offset} ({one.length} bytes): {one.reason}" for one in damages)
        return self.keep_copy(name, f"{name} is damaged {parts}; what lay there is lost")

    def keep_copy(self, name: str, what: str) -> bool:
        """Report what is wrong, and put a copy of the file into quarantine, unless this process has. False when there is no
        room."""
        if name in self._quarantined:
            self.found(what)
            return True
        try:
            self.found(f"{what}. A copy is kept as {quarantine(self.disk, name)}")
        except FileNotFoundError:
            self.found(f"{what}. There is no such file")
        except Exhausted:
            self.found(f"{what}. There is no room for a copy of it")
            return False
        except DiskFailed as error:
            self.found(f"{what}. It cannot be copied: {error}")
            return False
        self._quarantined.add(name)
        return True

    # the log

    def append(self, kind: Kind, parts: Sequence[Buffer], promised: bool) -> Location:
        """Write to the log; `promised` says that somebody waits for it. Raises ResourceExhausted once the log failed."""
        try:
            write = self.log.append if promised else self.log.append_lazy
            location = write(kind, WRITER, self.next_index, parts)
        except DiskFailed as error:
            raise ResourceExhausted(f"this node's disk failed, it takes no messages: {error}") from error
        self.next_index += 1
        return location

    def introduce(self, queue: StoredQueue, purged: SequenceSet | None = None) -> None:
        """The next record names it. `purged`: messages that the next record says have gone."""
        file = self.log.gathering_file
        if queue.named_in != file:
            queue.named_in = file
            self.names.queue(queue.record)
            if self.says_where:
                self._append_checkpoint(queue, purged)

    def _append_checkpoint(self, queue: StoredQueue, purged: SequenceSet | None) -> None:
        if self.log.failed is not None:
            return  # whoever writes the next record is told
        untold = self._happened.left(queue)
        if purged is not None:
            untold.append((DoneReason.PURGED, purged))
        made = encode_checkpoint(checkpoint_of(queue, untold, self._happened.returned(queue)))
        self.log.append_lazy(Kind.CLASSIC_CHECKPOINT, NO_WRITER, queue.record.id, [made])

    def settle(
        self,
        queue: StoredQueue,
        first: int,
        end: int,
        reason: DoneReason = DoneReason.NOT_SAID,
        by: LogActor | None = None,
    ) -> None:
        """These messages are done with."""
        gather(self._happened.settled, queue, (by, reason) if self.says_who else NOT_SAID, first, end)

    def came_back(self, queue: StoredQueue, first: int, end: int, reason: BackReason, by: LogActor | None) -> None:
        """These messages, which the log knows, are ready again."""
        if not self.says_who:
            return
        if self.log.failed is None and self._happened.has_come_back(queue, (by, reason), first, end):
            self._tell_of(queue)  # a range that is there twice would be told once
        self._happened.not_out(queue, first, end)
        gather(self._happened.back, queue, (by, reason), first, end)

    def handed_out(self, queue: StoredQueue, first: int, end: int, by: LogActor | None, *, again: bool) -> None:
        """These messages, which the log knows, went out. To be told where `says_where`."""
        gather(self._happened.out, queue, (by, OUT_BEFORE if again else 0), first, end)

    def forget_queue(self, queue: StoredQueue) -> None:
        """It is deleted. That says what became of the messages it still had; the history wants those of before, too."""
        self.active.pop(queue, None)
        if self.says_who and queue.record.durable and self.log.failed is None:
            self._tell_of(queue)
        else:
            self._happened.forget_queue(queue)

    def write_settled(self) -> int:
        """Tell the log all that happened, at once; the ticket with which that is durable."""
        while self.tell_some():
            pass
        return self.told()

    def tell_some(self) -> bool:
        """Tell the log what happened in a few queues; False when it knows all. A client may have settled at once what it held
        of ten thousand."""
        for _ in range(QUEUES_PER_STEP):
            if self._happened.is_told:
                return False
            self._tell_of(self._happened.next_queue())
        return not self._happened.is_told

    def _tell_of(self, queue: StoredQueue) -> None:
        self.introduce(queue)
        back, settled, out = self._happened.take(queue)
        for (by, reason), ranges in back.items():
            self._append_reasoned(Kind.CLASSIC_BACK, queue, by, reason, ranges)
        for (by, reason), ranges in settled.items():  # perhaps what came back before
            self._append_done(queue, by, reason, ranges)
        for (by, flags), ranges in out.items():
            self._append_out(queue, by, flags, ranges)

    def told(self) -> int:
        """The log knows all that happened: the ticket with which that is durable."""
        ticket, unreferenced = self.log.gathering, self._happened.unreferenced
        if unreferenced:
            if self._releases and self._releases[-1][0] == ticket:
                self._releases[-1][1].extend(unreferenced)
            else:
                self._releases.append((ticket, unreferenced))
            self._happened.unreferenced = []
        return ticket

    def _append_done(self, queue: StoredQueue, by: LogActor | None, reason: int, ranges: SequenceSet) -> None:
        if reason == DoneReason.NOT_SAID:
            self.introduce(queue)
            self.append(Kind.CLASSIC_SETTLE, [encode_settled(queue.record.id, ranges)], promised=False)
        else:
            self._append_reasoned(Kind.CLASSIC_DONE, queue, by, reason, ranges)

    def _append_reasoned(
        self,
        kind: Kind,
        queue: StoredQueue,
        by: LogActor | None,
        reason: int,
        ranges: SequenceSet,
        promised: bool = False,
    ) -> None:
        self.introduce(queue)
        actor = 0 if by is None else self.names.number_of(by)
        self.append(kind, [encode_reasoned(queue.record.id, actor, reason, ranges)], promised)

    def _append_out(self, queue: StoredQueue, by: LogActor | None, flags: int, ranges: SequenceSet) -> None:
        still = SequenceSet()
        for one in ranges.ranges():
            for first, end in queue.out.intersect(*one):
                still.add(first, end)
        if still and self.log.failed is None:
            actor = 0 if by is None else self.names.number_of(by)
            said = encode_reasoned(queue.record.id, actor, flags, still)
            self.log.append_lazy(Kind.CLASSIC_OUT, NO_WRITER, queue.record.id, [said])

    def append_purged(self, queue: StoredQueue, ranges: SequenceSet, by: LogActor | None) -> None:
        """All that was ready was dropped, and somebody waits for that to be durable."""
        self.introduce(queue, ranges)
        if self.says_who:
            self._tell_of(queue)  # what came back before is purged now
            self._append_reasoned(Kind.CLASSIC_DONE, queue, by, DoneReason.PURGED, ranges, promised=True)
        else:
            self.append(Kind.CLASSIC_PURGE, [encode_settled(queue.record.id, ranges)], promised=True)

    def release_later(self, content_id: InStore) -> None:
        """One run fewer refers to a content. It stays until that is durable: after a crash the run may be back."""
        self._happened.unreferenced.append(content_id)

    def release_durable(self) -> None:
        """Let go of what is durably not referred to."""
        while self._releases and self._releases[0][0] <= self.log.durable:
            for content_id in self._releases.popleft()[1]:
                self.store.release(content_id)

    def read_log(self, location: Location) -> bytes:
        """A record's payload. Raises Corrupt, and FileNotFoundError when its file was released."""
        files = self.log_files.files()
        if location.file_number < files.start:
            raise FileNotFoundError(names.log_file(location.file_number))
        pending = self.log.pending(location)
        if pending is not None:
            return pending
        try:
            return self.files.payload(names.log_file(location.file_number), location.offset, location.size)
        except (Corrupt, FileNotFoundError, NoDescriptors):
            # What was read along may be from before the record was written. And the log keeps open what it has written.
            return self.log.read(location)

    def released(self, first_file: int) -> None:
        """Log files below this one are going."""
        for number in [number for number in self.live if number < first_file]:
            del self.live[number]
            self.files.forget(names.log_file(number))

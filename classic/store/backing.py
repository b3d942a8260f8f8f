"""One queue's side of the disk: where its contents are, and its index. Fulfils variable_queue.Backing."""

from __future__ import annotations

from collections.abc import Sequence

from broker.actors import LogActor
from broker.pending import Pending
from broker.queues.queue_type import BackReason
from broker.records import QueueRecord
from classic.run_backing import ContentLost, ContentOutOfReach
from classic.store.log_records import DoneReason
from classic.store.node_storage import NodeStorage
from classic.store.queue_index import QueueIndex
from classic.store.stored_queue import StoredQueue
from classic.stored_run import InBody, InStore, StoredRun, Where
from native.sequence_set import Range, SequenceSet
from storage import names
from storage.errors import Corrupt, DiskFailed, Exhausted, NoDescriptors
from storage.wal.log_core import Location


class QueueBacking:
    """See the module."""

    def __init__(self, record: QueueRecord, storage: NodeStorage) -> None:
        directory = names.queue_directory(record.vhost, record.name, record.id)
        limits = storage.limits
        self.index = QueueIndex(
            storage.files,
            storage.loaded,
            directory,
            record.id,
            limits.sequences_per_segment,
            storage.indexed,
            storage.touched,
            storage.damaged,
            storage.changed_since_stop,
        )
        self.runs_max = limits.runs_max
        self.ram_count_max = limits.ram_count_max
        self.ram_bytes_kept = limits.ram_bytes_kept
        self.reads = 0
        self.writes = 0
        self.promised: list[tuple[int, Pending[int], int]] = []  # purges: ticket, answer, how many messages
        self.tells_out = storage.says_where
        self.active = storage.active
        self.outrun = storage.outrun
        self._storage = storage
        self._name = record.label

    # reading

    def load(self, run: StoredRun) -> None:
        run.loaded(*self.read(run))

    def read(self, run: StoredRun) -> tuple[bytes, int]:
        """The content of a run, and the message it begins with. Raises ContentLost and ContentOutOfReach."""
        self.reads += 1
        try:
            return self._read(run)
        except NoDescriptors as error:
            raise ContentOutOfReach(str(error)) from error
        except (Corrupt, DiskFailed, FileNotFoundError, KeyError) as error:
            what = (
                f"{self._name}: messages {run.first} to {run.end - 1} are lost, their content cannot be read: {error!r}"
            )
            if isinstance(error, Corrupt):
                self._storage.keep_copy(error.name, what)  # the file is deleted when nothing in it lives any more
            else:
                if isinstance(error, DiskFailed):
                    self._cannot_read(error)
                self._storage.found(what)
            raise ContentLost(str(error)) from error

    def _read(self, run: StoredRun) -> tuple[bytes, int]:
        where = run.where
        if isinstance(where, Location):
            if where.file_number >= self._storage.log_files.files().start:
                return self._storage.read_log(where)[run.content_at :], run.first
            known = self.index.find(run.first)  # its log file went, and it was moved out before
            if known is None or isinstance(known.where, Location):
                raise FileNotFoundError(f"the index has nothing of the run {run.first}")
            assert known.where is not None, f"the index has the run {run.first} nowhere"
            run.moved(known.where, known.content_first)
            where = known.where
        if isinstance(where, InBody):
            return self.index.body(run), run.content_first
        assert isinstance(where, InStore), f"the run {run.first} is neither in memory nor on disk"
        store = self._storage.spilled if where.transient else self._storage.store
        return store.read(where), run.content_first

    def _cannot_read(self, error: DiskFailed) -> None:
        """The next start may be able to read what is there: so its file must not go."""
        self._storage.fail(error)

    def tell_out_of_reach(self) -> None:
        self._storage.found(
            f"{self._name}: no file descriptor is left to read what it has on disk. It stays, and is asked for again"
        )

    def page_in(self, start: int, end: int, count_max: int) -> tuple[list[StoredRun], int]:
        self.reads += 1
        try:
            return self.index.page_in(start, end, count_max)
        except NoDescriptors as error:
            raise ContentOutOfReach(str(error)) from error
        except DiskFailed as error:
            self._cannot_read(error)
            return [], self.index.end_of_segment(start)

    # writing

    def spill(self, run: StoredRun) -> bool:
        assert run.content is not None, f"the run {run.first} has no content to spill"
        storage = self._storage
        if storage.failed is not None:
            return False
        try:
            run.where = storage.spilled.spill(run.content)
        except Exhausted:
            return False
        except DiskFailed as error:
            storage.fail(error)
            return False
        run.content_first = run.first
        self.writes += 1
        return True

    def page_out(self, runs: Sequence[StoredRun]) -> bool:
        if self._storage.failed is not None:
            return False
        oldest = self._storage.log_files.files().start
        new = [run for run in runs if not run.indexed and not _moved_out(run.where, oldest)]
        for run in new:
            if run.where is None and not self.spill(run):
                return False
        try:
            if new:
                self.index.write_runs(new)
        except Exhausted:
            return False
        except DiskFailed as error:
            self._storage.fail(error)
            return False
        self.writes += len(new)
        return True

    def lost(self, ranges: Sequence[Range]) -> None:
        for first, end in ranges:
            self._storage.found(f"{self._name}: messages {first} to {end - 1} are lost, the index does not have them")

    # out, back, done with

    def handed_out(
        self, queue: StoredQueue, run: StoredRun, first: int, count: int, by: LogActor | None, *, again: bool
    ) -> None:
        """Messages are out; `again`: as they have been before. To be told where `tells_out`."""
        if run.persistent and queue.record.durable:
            self._storage.handed_out(queue, first, first + count, by, again=again)

    def came_back(
        self, queue: StoredQueue, run: StoredRun, first: int, count: int, reason: BackReason, by: LogActor | None
    ) -> None:
        """Messages that were out are ready again."""
        if run.persistent and queue.record.durable:
            self._storage.came_back(queue, first, first + count, reason, by)

    def forget(
        self, queue: StoredQueue, run: StoredRun, first: int, count: int, reason: DoneReason, by: LogActor | None
    ) -> None:
        """Messages with a place on disk do not live any more."""
        where, storage = run.where, self._storage
        if isinstance(where, InStore) and where.transient:
            if not queue.alive_in(run.first, run.end):
                storage.spilled.release(where)
            return
        storage.settle(queue, first, first + count, reason, by)
        if self.index.segments:
            self.index.touch(self.index.number_of(run.first))
        if isinstance(where, Location):
            live = storage.live.get(where.file_number)
            if live is not None:
                storage.live[where.file_number] = live - count
        if storage.store.contents and not isinstance(where, InBody):
            content_id = store_id(where)
            if content_id in storage.store.contents and not queue.alive_in(run.first, run.end):
                storage.release_later(content_id)

    def release_ready(self, queue: StoredQueue) -> None:
        """All ready messages are about to be dropped: let go of contents that only they need. Raises ContentOutOfReach, and
        has let go of none."""
        self._release(queue, only_ready=True)

    def delete(self, queue: StoredQueue) -> None:
        """The queue is deleted, and its files with it; later, when it cannot be read now which contents it needed."""
        try:
            self._release(queue, only_ready=False)
        except ContentOutOfReach:
            self._storage.undeleted[queue] = None
            return
        self._storage.undeleted.pop(queue, None)
        if self._storage.failed is None:
            try:
                self.index.delete_all()
            except DiskFailed as error:
                self._storage.fail(error)
            except NoDescriptors:
                pass  # the files are deleted; a start after a crash removes the empty directory

    def _release(self, queue: StoredQueue, only_ready: bool) -> None:
        storage = self._storage
        try:
            dropped = [one for run, one in self.index.store_ids() if _is_dropped(queue, run, only_ready)]
        except NoDescriptors as error:
            raise ContentOutOfReach(str(error)) from error
        except DiskFailed as error:
            self._cannot_read(error)
            dropped = []
        unindexed = storage.unindexed.get(queue.record.id, {})
        dropped += [content_id for content_id, run in unindexed.items() if _is_dropped(queue, run, only_ready)]
        for content_id in dropped:
            (storage.spilled.release if content_id.transient else storage.release_later)(content_id)
        for level in queue.levels:
            for run in level.runs():
                if isinstance(run.where, InStore) and not run.indexed and _is_dropped(queue, run, only_ready):
                    storage.spilled.release(run.where)

    def purged(self, queue: StoredQueue, ranges: Sequence[Range], count: int, by: LogActor | None) -> Pending[int]:
        """These messages were dropped; answers with `count` once that is durable."""
        storage = self._storage
        if not ranges or not queue.record.durable:
            return Pending.of(count)
        gone = SequenceSet()
        for first, end in ranges:
            gone.add(first, end)
        storage.append_purged(queue, gone, by)
        self.index.touch_all()
        answer: Pending[int] = Pending()
        storage.purging[queue] = None
        self.promised.append((storage.log.gathering, answer, count))
        return answer


def store_id(where: Location | InStore | None) -> InStore:
    """Under which id the content of a run is in the shared store, if it is."""
    assert where is not None, "what is nowhere on disk has no id"
    return where if isinstance(where, InStore) else InStore(where.file_number, where.offset)


def _moved_out(where: Where | None, oldest_file: int) -> bool:
    """Whether its log file is gone, so that the index knows better where it is."""
    return isinstance(where, Location) and where.file_number < oldest_file


def _is_dropped(queue: StoredQueue, run: StoredRun, only_ready: bool) -> bool:
    if not queue.alive_in(run.first, run.end):
        return False
    return not (only_ready and queue.out.intersect(run.first, run.end))

"""Background work of the classic queues: releasing log files, deleting dead files, compacting sparse ones.

Every step keeps the same order, so that a crash after any of them leaves nothing that cannot be read and nothing that is
wanted missing:

    to release a log file    move out what lives, note what was settled, sync it all, save the manifest, release
    to delete a file         have the settling durable in the log, save a manifest without the file, delete it
    to compact files         copy what lives, sync, save the manifest with the copy and without the files, delete them

`manifest` is what the disk has. Each step begins with a copy of it (classic/store/noting.py) and replaces it only after its
save has succeeded; so one step that touches the disk is on its way at a time. While a log file is being moved out no segment is
deleted, and no manifest notes the half that is written: it may lack what was settled since.

Files are read, copied and synced in the background. What is done on the loop is done in slices: a log file is walked in pieces,
as broker/background_work.py has turns for them, and queues are noted a few segments at a time; nothing else is begun meanwhile.
When the disk is full the step is tried again later. When it fails nothing is released or deleted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.background_work import Steps, Work, begin
from classic.round_robin import next_in_turn
from classic.store.compaction import Compaction, plan
from classic.store.manifest import Manifest
from classic.store.move_out import MoveOut
from classic.store.node_storage import NodeStorage
from classic.store.noting import Noting
from classic.store.salvage import Damage
from classic.store.store import MessageStore
from storage.beside_loop import Background
from storage.errors import DiskFailed, Exhausted
from storage.interval import Interval

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

TICK_BYTES_MIN = 1 << 19  # of a log file that is moved out on each tick
BEGUN_PER_TICK = 100  # queues that get the first files of their own; each costs 0.2 ms
SEGMENTS_PER_STEP = 25  # noted for a release; each costs 20 us, and 120 on a busy machine
RETRY_MS = 5_000  # after the disk was full


class Housekeeping:
    """See the module. `queues` are all that are open, by id; `work` does on the loop what is done in slices."""

    def __init__(
        self,
        storage: NodeStorage,
        queues: Mapping[int, ClassicQueue],
        manifest: Manifest,
        background: Background,
        work: Callable[[], Work],
    ) -> None:
        self.manifest = manifest  # what the disk has, without the queues that were deleted since
        self._storage = storage
        self._queues = queues
        self._background = background
        self._work = work
        self._in_slices = False  # a log file is walked or queues are noted, since the last tick or the ones before
        self._moving: MoveOut | None = None  # until its file is released
        self._noting: Noting | None = None  # what is to be saved next, or is being saved
        self._first_file = 0  # of the log, once that is saved
        self._compaction: Compaction | None = None
        self._compacted = False  # the last thing that was done; the log is next
        self._compaction_pause = Interval(storage.limits.compaction_interval_ms)
        self._stuck = False  # a log file cannot be walked to its end, and has to stay
        self._stopped = False
        self._busy = False  # something is done in the background
        self._failed_beside: DiskFailed | None = None  # in the background; the loop may not have been told yet
        self._unsure = False  # a save has failed: the disk may have what it was about all the same
        self._gone: set[int] = set()  # queues that were deleted while something was being saved
        self._dead: list[tuple[int, ClassicQueue, int]] = []  # ticket, queue, segment
        self._dead_files: list[tuple[int, int]] = []  # ticket, store file
        self._full = False  # a step found no room; what it was about is tried again later
        self._retry_pause = Interval(RETRY_MS)

    @property
    def failed(self) -> bool:
        """Whether nothing is released or deleted any more: the log keeps what could not be made durable elsewhere."""
        return self._stuck or self._storage.failed is not None

    def tick(self, now: int, settled_ticket: int) -> None:
        """`settled_ticket` makes durable what was settled until now."""
        self._storage.release_durable()
        if self._full:
            self._full = False
            self._retry_pause.begin(now)
        if self.failed or self._in_slices or self._retry_pause.lasts(now):
            return
        try:
            self._look_for_dead(settled_ticket)
            if self._free:
                self._delete_dead()
            if self._free and not self._compacted:
                self._compact(now)
            if not (self._busy or self.failed):
                self._compacted = False
                self._shorten_log()
        except Exhausted:
            self._retry_pause.begin(now)
        except DiskFailed as error:
            self._storage.fail(error)

    @property
    def _free(self) -> bool:
        """Whether another manifest may be begun."""
        return not (self._busy or self.failed) and self._noting is None

    def forget_queue(self, queue_id: int) -> None:
        """It was deleted, and its files are gone."""
        self.manifest.forget_queue(queue_id)
        if self._noting is not None:
            self._gone.add(queue_id)

    # the log

    def _shorten_log(self) -> None:
        files = self._storage.log_files.files()
        first, live = files.start, self._storage.live
        if self._moving is None and live.get(first):
            if files.stop - 1 - first <= self._storage.limits.log_files_kept or first >= self._storage.log.writing_file:
                return  # the commit that fills it may not be in it yet
            self._moving = MoveOut(self._storage, self._queues, first)
        if self._moving is not None:
            self._do_in_slices(self._walk(self._moving))
            return
        while first < files.stop - 1 and not live.get(first):
            first += 1
        if first > files.start:
            self._do_in_slices(self._release(first))

    def _do_in_slices(self, steps: Steps) -> None:
        self._in_slices = True
        begin(self._work(), self._to_its_end(steps))

    def _to_its_end(self, steps: Steps) -> Steps:
        try:
            yield from steps
        except Exhausted:
            self._full = True
        except DiskFailed as error:
            self._storage.fail(error)
        finally:
            self._in_slices = False

    def _walk(self, moving: MoveOut) -> Steps:
        """What is moved out between two ticks, and the release when that was all."""
        yield from self._move(moving)
        if moving.damaged:
            self._stuck = True
        elif moving.done and not (self._stopped or self.failed):
            yield from self._release(moving.file_number + 1)

    def _move(self, moving: MoveOut) -> Steps:
        walked = begun = 0
        behind = len(self._storage.log_files.files()) - self._storage.limits.log_files_kept
        while walked < TICK_BYTES_MIN * max(1, behind) and begun < BEGUN_PER_TICK:
            if moving.done or self._stopped or self.failed:
                return
            walked += moving.step()
            begun += moving.begun
            yield

    def _release(self, first_file: int) -> Steps:
        """Note what has to be noted before log files go, and save that."""
        self._noting = noting = Noting(self._storage, self._queues, self.manifest)
        self._first_file = first_file
        noting.all_queues()
        try:
            while not noting.note_queues(SEGMENTS_PER_STEP):
                yield
                if self._stopped or self.failed:
                    return
        except Exhausted:
            self._give_up(noting)
            raise
        noting.note_store()
        self._save(noting, lambda: noting.make_durable(self._storage.disk), self._let_log_go)

    def _let_log_go(self) -> None:
        self._moving = None
        self._storage.released(self._first_file)
        self._storage.log_files.release(self._first_file)

    # files without a living message

    def _look_for_dead(self, ticket: int) -> None:
        waiting = {(queue, number) for _, queue, number in self._dead}
        for queue_id in next_in_turn(self._storage.indexed):
            queue = self._queues.get(queue_id)
            numbers = queue.backing.index.dead_segments(queue.alive_in) if queue is not None else []
            self._dead += [(ticket, queue, number) for number in numbers if queue and (queue, number) not in waiting]
        known = {number for _, number in self._dead_files}
        self._dead_files += [(ticket, number) for number in self._storage.store.dead_files() if number not in known]
        for number in self._storage.spilled.dead_files():
            self._storage.spilled.delete(number)

    def _delete_dead(self) -> None:
        durable, moving = self._storage.log.durable, self._moving is not None
        dead = [] if moving else [one for one in self._dead if one[0] <= durable]
        dead_files = [number for ticket, number in self._dead_files if ticket <= durable]
        self._dead = [one for one in self._dead if one not in dead]
        self._dead_files = [one for one in self._dead_files if one[1] not in dead_files]
        dead = [one for one in dead if self._still_dead(one[1], one[2])]
        if not dead and not dead_files:
            return
        noting = Noting(self._storage, self._queues, self.manifest)
        noted = noting.manifest
        changed = [noted.forget_segment(queue.record.id, number) for _, queue, number in dead]
        changed += [noted.store.pop(number, None) is not None for number in dead_files]

        def delete() -> None:
            for _, queue, number in dead:
                if self._still_dead(queue, number):
                    queue.backing.index.delete(number)
            for number in dead_files:
                if number in self._storage.store.files:
                    self._storage.store.delete(number)

        if any(changed) or self._unsure:
            self._save(noting, lambda: noted.save(self._storage.disk), delete)
        else:
            delete()

    def _still_dead(self, queue: ClassicQueue, number: int) -> bool:
        """A segment may have got new messages since."""
        return not queue.deleted and queue.backing.index.is_dead(number, queue.alive_in)

    # sparse files

    def _compact(self, now: int) -> None:
        """At once where a whole file is to be won, else once in a while. The copy of an attempt whose manifest could not be
        saved waits for the next: the disk may have that manifest."""
        if self._compaction is not None:
            self._save_compaction(self._compaction)
            return
        due = self._compaction_pause.due(now)
        for store in (self._storage.spilled, self._storage.store):
            compaction = plan(store, 1 if due else store.file_bytes_max)
            if compaction is not None:
                self._compacted = True
                self._copy(compaction, store)
                return

    def _copy(self, compaction: Compaction, store: MessageStore) -> None:
        durable = store is self._storage.store
        self._busy = True

        def done(_: None, error: Exception | None) -> None:
            self._busy = False
            if error is not None or self._stopped:
                compaction.give_up()
                self._failed(error)
            elif durable:
                self._compaction = compaction
                self._save_compaction(compaction)
            else:
                compaction.switch(durable=False)
                self._report(compaction)

        self._do(lambda: compaction.copy(self._storage.disk, durable), done)

    def _save_compaction(self, compaction: Compaction) -> None:
        noting = Noting(self._storage, self._queues, self.manifest)
        noted = noting.manifest
        for number in compaction.emptied:
            noted.store.pop(number, None)
        if compaction.size:
            noted.store[compaction.target] = compaction.size

        def switch() -> None:
            self._compaction = None
            compaction.switch(durable=True)
            self._report(compaction)
            for number in compaction.emptied:
                self._storage.store.delete(number)

        self._save(noting, lambda: noted.save(self._storage.disk), switch)

    def _report(self, compaction: Compaction) -> None:
        for error in compaction.damages:
            self._storage.damaged(error.name, [Damage(error.offset, error.length, error.reason)])

    # durability

    def _save(self, noting: Noting, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do what makes a manifest true and durable in the background, then go on."""
        self._busy, self._noting = True, noting

        def done(_: None, error: Exception | None) -> None:
            self._busy = False
            if self._stopped:
                return
            if error is not None:
                self._give_up(noting)
                self._unsure = True
                self._failed(error)
                return
            noting.done()
            self._noting = None
            self._unsure = False
            self.manifest = self._without_gone(noting.manifest)
            try:
                then()
            except DiskFailed as failure:
                self._storage.fail(failure)

        self._do(work, done)

    def _do(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        """In the background. That the disk failed is known to a stop too, which does not hear of the end of what it waited for:
        the next fsync of the same files would say that all is well."""

        def noticed() -> None:
            try:
                work()
            except DiskFailed as error:
                self._failed_beside = error
                raise

        self._background.run(noticed, done)

    def _give_up(self, noting: Noting) -> None:
        noting.give_up()
        self._noting = None
        self._gone.clear()

    def _failed(self, error: Exception | None) -> None:
        if isinstance(error, Exhausted):
            self._full = True
        elif error is not None:
            self._storage.fail(error)

    def _without_gone(self, noted: Manifest) -> Manifest:
        for queue_id in self._gone:
            noted.forget_queue(queue_id)
        self._gone.clear()
        return noted

    def stop(self) -> Manifest:
        """Make everything durable, and the manifest with it. Blocks. What was done in the background has ended, and if that was
        not told yet it is not heard any more. Raises DiskFull, DiskFailed, also if that is how it ended."""
        self._stopped = True
        if self._failed_beside is not None:
            raise self._failed_beside
        if self._noting is not None:
            self._give_up(self._noting)
        if self._moving is not None:
            self._moving.finish_run()
        noting = Noting(self._storage, self._queues, self.manifest)
        noting.all_queues()
        while not noting.note_queues(SEGMENTS_PER_STEP):
            pass
        noting.note_store()
        noting.make_durable(self._storage.disk)
        self.manifest = noting.manifest
        return noting.manifest

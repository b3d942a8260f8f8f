"""What happens behind the queues' backs: log files are let go, dead files deleted, sparse ones compacted.

Every step keeps the same order, so that a crash after any of them leaves nothing that cannot be read and nothing that is
wanted missing:

    to release a log file    move out what lives, note what was settled, sync it all, save the manifest, release
    to delete a file         have the settling durable in the log, save a manifest without the file, delete it
    to compact a file        copy what lives, sync, save the manifest with the copy and without the file, delete it

While a log file is being moved out no manifest notes the half that is written: it may lack what was settled since.

Syncs are done beside the event loop; one such chain is on its way at a time. Copying is done on the loop: of a log file in
pieces, of a store file (`_compact`) at once. When the disk fails at any of it, nothing is released or deleted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from classic.manifest import Manifest
from classic.move_out import MoveOut
from classic.shelf import Shelf
from classic.turns import next_in_turn
from storage.beside_loop import Background
from storage.errors import Corrupt, DiskFailed, DiskFull

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

STEP_BYTES_MIN = 1 << 19  # of a log file that is moved out on each tick
RETRY_MS = 5_000  # after the disk was full


class Housekeeping:
    """See the module. `queues` are all that are open, by id."""

    def __init__(
        self, shelf: Shelf, queues: Mapping[int, ClassicQueue], manifest: Manifest, background: Background
    ) -> None:
        self.manifest = manifest  # what the disk has, without the queues that were deleted since
        self._shelf = shelf
        self._queues = queues
        self._background = background
        self._moving: MoveOut | None = None  # until its file is released
        self._stuck = False  # a log file cannot be walked to its end, and has to stay
        self._stopped = False
        self._busy = False  # a chain of sync, save, release or delete is on its way
        self._dead: list[tuple[int, ClassicQueue, int]] = []  # ticket, queue, segment
        self._dead_files: list[tuple[int, int]] = []  # ticket, store file
        self._full = False  # a chain found no room; what it was about is tried again later
        self._retry_at = 0
        self._compact_at = 0

    @property
    def failed(self) -> bool:
        """Whether nothing is released or deleted any more: the log keeps what could not be made durable elsewhere."""
        return self._stuck or self._shelf.failed is not None

    def tick(self, now: int, settled_ticket: int) -> None:
        """`settled_ticket` makes durable what was settled until now."""
        if self._full:
            self._full, self._retry_at = False, now + RETRY_MS
        if self.failed or now < self._retry_at:
            return
        try:
            self._shelf.release_durable()
            self._look_for_dead(settled_ticket)
            if not self._busy:
                self._delete_dead()
            if not self._busy and self._moving is None and now >= self._compact_at:
                self._compact_at = now + self._shelf.limits.compaction_interval_ms
                self._compact()
            if not self._busy:
                self._shorten_log()
        except DiskFull:
            self._retry_at = now + RETRY_MS
        except DiskFailed as error:
            self._shelf.fail(error)

    # the log

    def _shorten_log(self) -> None:
        files = self._shelf.log_files.files()
        first, live = files.start, self._shelf.live
        if self._moving is None and live.get(first):
            if files.stop - 1 - first <= self._shelf.limits.log_files_kept:
                return
            self._moving = MoveOut(self._shelf, self._queues, first)
        if self._moving is not None:
            self._move()
            return
        while first < files.stop - 1 and not live.get(first):
            first += 1
        if first > files.start:
            self._release(first)

    def _move(self) -> None:
        moving, walked = self._moving, 0
        assert moving is not None, "nothing is being moved out"
        behind = len(self._shelf.log_files.files()) - self._shelf.limits.log_files_kept
        while not moving.done and walked < STEP_BYTES_MIN * max(1, behind):
            walked += moving.step()
        if moving.damaged:
            self._stuck = True
        elif moving.done:
            self._release(moving.file_number + 1)

    def _release(self, first_file: int) -> None:
        for queue in self._with_files():
            queue.backing.index.write_settled(queue.alive_in)
        noted = self._noted_now()

        def done() -> None:
            self._moving = None
            self._shelf.released(first_file)
            self._shelf.log_files.release(first_file)

        self._sync_and_save(noted, done)

    def _noted_now(self) -> Manifest:
        """All that is there now, to be saved once it is synced. What is dead already stays out."""
        noted = Manifest()
        for queue_id, (directory, segments) in self.manifest.queues.items():
            if queue_id not in self._queues:
                noted.queues[queue_id] = (directory, segments)  # of no declared queue: kept for a human
        for queue in self._with_files():
            queue.backing.index.flush_bodies()
            noted.note_queue(queue.record.id, queue.backing.index)
        noted.note_store(self._shelf.store)
        return noted

    def _with_files(self) -> list[ClassicQueue]:
        """The queues that have an index whose files are to outlive the node."""
        found = [self._queues[queue_id] for queue_id in self._shelf.indexed if queue_id in self._queues]
        return [queue for queue in found if queue.record.durable]

    # files without a living message

    def _look_for_dead(self, ticket: int) -> None:
        waiting = {(queue, number) for _, queue, number in self._dead}
        for queue_id in next_in_turn(self._shelf.indexed):
            queue = self._queues.get(queue_id)
            numbers = queue.backing.index.dead_segments(queue.alive_in) if queue is not None else []
            self._dead += [(ticket, queue, number) for number in numbers if queue and (queue, number) not in waiting]
        known = {number for _, number in self._dead_files}
        self._dead_files += [(ticket, number) for number in self._shelf.store.dead_files() if number not in known]
        for number in self._shelf.spilled.dead_files():
            self._shelf.spilled.delete(number)

    def _delete_dead(self) -> None:
        durable, moving = self._shelf.log.durable, self._moving is not None
        dead = [] if moving else [one for one in self._dead if one[0] <= durable]
        dead_files = [number for ticket, number in self._dead_files if ticket <= durable]
        self._dead = [one for one in self._dead if one not in dead]
        self._dead_files = [one for one in self._dead_files if one[1] not in dead_files]
        dead = [one for one in dead if self._still_dead(one[1], one[2])]
        if not dead and not dead_files:
            return
        noted = self.manifest.copy()
        changed = [noted.forget_segment(queue.record.id, number) for _, queue, number in dead]
        changed += [noted.store.pop(number, None) is not None for number in dead_files]

        def delete() -> None:
            for _, queue, number in dead:
                if self._still_dead(queue, number):
                    queue.backing.index.delete(number)
            for number in dead_files:
                if number in self._shelf.store.files:
                    self._shelf.store.delete(number)

        if any(changed):
            self._sync_and_save(noted, delete, sync=False)
        else:
            delete()

    def _still_dead(self, queue: ClassicQueue, number: int) -> bool:
        """A segment may have got new messages since."""
        return not queue.deleted and queue.backing.index.is_dead(number, queue.alive_in)

    def _compact(self) -> None:
        number = self._shelf.store.sparse_file()
        if number is None:
            return
        try:
            self._shelf.store.compact(number)
        except Corrupt as error:
            self._shelf.found(f"a store file is damaged and stays as it is: {error}")
            return
        noted = self._noted_now()
        noted.store.pop(number, None)
        self._sync_and_save(noted, lambda: self._shelf.store.delete(number))

    # durability

    def _sync_and_save(self, noted: Manifest, then: Callable[[], None], sync: bool = True) -> None:
        """Make files and manifest durable beside the loop, then go on. `noted` is nobody else's meanwhile."""
        dirty = self._dirty_files() if sync else []
        disk = self._shelf.disk
        self._busy = True

        def work() -> None:
            sync_files(self._shelf, dirty)
            noted.save(disk)

        def done(_: None, error: Exception | None) -> None:
            self._busy = False
            if isinstance(error, DiskFull):
                self._full = True
            elif error is not None:
                self._shelf.fail(error)
            elif not self._stopped:
                self._saved(noted)
                try:
                    then()
                except DiskFailed as failure:
                    self._shelf.fail(failure)

        self._background.run(work, done)

    def _saved(self, noted: Manifest) -> None:
        """It is what the disk has now, but for queues that were deleted meanwhile."""
        for queue_id in [one for one in noted.queues if one not in self._queues and one not in self.manifest.queues]:
            del noted.queues[queue_id]
        self.manifest = noted

    def _dirty_files(self) -> list[str]:
        dirty = [name for queue in self._with_files() for name in queue.backing.index.dirty_files()]
        return dirty + self._shelf.store.dirty_files()

    def stop(self) -> Manifest:
        """Make everything durable, and the manifest with it. Blocks. What was done beside the loop has ended, and if that was
        not told yet it is not heard any more."""
        self._stopped = True
        for queue in self._with_files():
            queue.backing.index.write_settled(queue.alive_in)
        noted = self._noted_now()
        sync_files(self._shelf, self._dirty_files())
        noted.save(self._shelf.disk)
        self.manifest = noted
        return noted


def sync_files(shelf: Shelf, dirty: Sequence[str]) -> None:
    """Make these files durable, with their names. Opens its own handles: it may run in another thread."""
    for name in dirty:
        try:
            file = shelf.disk.open(name)
        except FileNotFoundError:
            continue  # its queue was deleted meanwhile
        try:
            file.sync()
        finally:
            file.close()
    for directory in sorted({name.rpartition("/")[0] for name in dirty}):
        if shelf.disk.exists(directory):
            shelf.disk.sync_dir(directory)

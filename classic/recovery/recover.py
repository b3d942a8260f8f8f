"""Recovers the queues at a start: from the summary of a clean stop, or, after a crash, from the index files and the log.

    step                      after a clean stop                       after a crash
    1 files on disk           the summary is read and removed; sizes   files are cut to what the manifest vouches for, others
      recovered_files.py      are compared, contents are not read      deleted; the shared store is scanned
    2 log, to its end         must not go on behind the summary        what was published and settled, and deleted queues
      logged_queues.py
    3 each queue, as opened
        what lives            is in the summary                        published + indexed - settled, after reading the index
          survivors.py                                                 segments; damaged ones are repaired (segment_repair.py)
        its runs              are in the summary                       a short queue: to q3; a long one: its index entries to
          queue_summary.py,                                            the index, and all of it is delta
          refill.py
    4 finish                  files of queues that were deleted go     the same; contents that no queue refers to are forgotten

What each step relies on:

    2 on 1    without a usable summary `clean` is None, and every classic record of the log counts
    3 on 1    no file is longer than what was durable, so an index entry never names bytes that were not; with a summary the
              files are at least as long as at the stop, but they are read, and found damaged, only when they are needed
    3 on 2    the log was read to its end: what it does not say is settled lives
    4 on 3    every declared queue was filled: a content of the store without a reference is garbage

After a crash a message lives if it was published, as the log or an index segment says, and not settled, as either of them
says. The order of records does not matter for that, since a sequence is never given to two messages. Which messages were
out is unknown, so all that live are marked as redelivered. Non-persistent ones are dropped.

A start reads much and makes few objects: runs are kept as the bytes of their index entries until it is known which of them
live, and those of a long queue go to its index as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.records import QueueRecord
from classic.recovery.logged_queues import LoggedQueue, LoggedQueues, must_end_before
from classic.recovery.queue_summary import restore
from classic.recovery.recovered_files import RecoveredFiles
from classic.recovery.refill import Refill
from classic.recovery.segment_repair import repair
from classic.recovery.survivors import DamagedSegment, Survivors
from classic.store.node_storage import NodeStorage
from storage.errors import DiskFull
from storage.wal.file_reader import Chunk

if TYPE_CHECKING:
    from classic.queue import ClassicQueue


class Recovery:
    """One start: `read` the log, then `fill` each queue, then `finish`."""

    def __init__(self, storage: NodeStorage, records: Mapping[int, QueueRecord]) -> None:
        self._storage = storage
        self._records = records  # of all declared queues; what belongs to others is over
        self._files = RecoveredFiles(storage, records)
        self._logged = LoggedQueues(records)
        self._repaired = False  # an index segment is shorter now than the saved manifest says
        self.manifest = self._files.manifest

    @property
    def newest_undeclared(self) -> int:
        """The highest number of a queue that has messages here and is not declared; 0: there is none."""
        clean = self._files.clean
        noted = {*self.manifest.queues, *(clean.queues if clean is not None else ())}
        return max({self._logged.newest_undeclared} | (noted - self._records.keys()))

    def read(self, chunks: Iterable[Chunk]) -> None:
        """Raises Corrupt when the clean stop is older than the log: without it, as at the next start, all is well."""
        clean = self._files.clean
        if clean is not None:
            must_end_before(clean.next_index, chunks)
            self._storage.next_index = clean.next_index
        else:
            self._logged.read(chunks)
            self._storage.next_index = self._logged.next_index

    def fill(self, queue: ClassicQueue) -> None:
        """Give a queue that was just opened what it had before."""
        queue_id, clean = queue.record.id, self._files.clean
        noted = self.manifest.queues.get(queue_id)
        if noted is not None:
            segments = {number: replace(segment) for number, segment in noted[1].items()}
            queue.backing.index.restore(segments, unread=clean is not None)
        if clean is not None:
            summary = clean.queues.get(queue_id)
            if summary is not None:
                restore(queue, summary)
            return
        logged = self._logged.take(queue_id)
        if logged is not None or noted is not None:
            self._fill_from_files(queue, logged or LoggedQueue())

    def _fill_from_files(self, queue: ClassicQueue, logged: LoggedQueue) -> None:
        survivors = Survivors(self._storage, queue, logged)
        for segment in queue.backing.index.segments.values():
            damaged = survivors.read_segment(segment)
            if damaged is not None:
                self._repair(queue.record.id, damaged)
        survivors.mark_ready()
        Refill(self._storage, queue, survivors).fill(logged.blocks)
        queue.backing.index.touch_all()  # to note what only the log knows, before its files are released

    def _repair(self, queue_id: int, damaged: DamagedSegment) -> None:
        size = repair(self._storage, queue_id, damaged)
        if size is not None:
            damaged.segment.index_size = size
            self.manifest.note_index_size(queue_id, damaged.segment.number, size)
            self._repaired = True

    def finish(self) -> None:
        """After all queues were filled."""
        if self._files.clean is None:
            self._storage.store.forget_unreferenced()
        if self._repaired:
            with suppress(DiskFull):  # the next start finds the file shorter than noted, and says so
                self.manifest.save(self._storage.disk)
        self._files.delete_undeclared(self._logged.deleted)

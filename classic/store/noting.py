"""One save of the manifest: the segments and store files that it is to vouch for, and what has to be synced before.

What the disk has is said in one place, `Housekeeping.manifest`. A save begins with a copy of it, changes what the save is
about, makes the files durable, and writes it; only when all that has succeeded does the copy take its place, and only then are
the sizes that were synced noted as such. An attempt that fails leaves everything as it was, so the next one begins with the
same truth and finds the same files not synced.

A save costs what has changed: of a queue nothing is looked at but the segments that were written to, or of which messages were
settled, since they were noted last (`QueueIndex.touched`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from classic.store.manifest import Manifest
from classic.store.node_storage import NodeStorage
from classic.store.queue_index import QueueIndex, Segment
from classic.store.store import StoreFile
from storage.disk import Disk

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

BYTES_LIKE_A_SEGMENT = 32_768  # of bodies; writing them takes as long as noting a segment


class Noting:
    """One attempt: `note_queues` until it is true, `note_store`, `make_durable` in the background, then `done` or `give_up`."""

    def __init__(self, storage: NodeStorage, queues: Mapping[int, ClassicQueue], manifest: Manifest) -> None:
        self.manifest = manifest.copy()
        self._storage = storage
        self._queues = queues
        self._waiting: deque[int] = deque()
        self._numbers: deque[int] = deque()  # of segments of the first that waits, still to be noted
        self._noted: list[tuple[QueueIndex, list[int]]] = []  # what was noted, to be noted again if this fails
        self._segments: list[tuple[Segment, int, int]] = []  # with the sizes of index and body that are synced here
        self._store_files: list[tuple[StoreFile, int]] = []
        self._names: list[str] = []  # of files to be synced

    def all_queues(self) -> None:
        """It is about every queue that has changed."""
        self._waiting = deque(self._storage.touched)

    def note_queues(self, segments_max: int) -> bool:
        """Write down what was settled in some of the queues, and note them; true when there are no more. Raises DiskFull."""
        room = segments_max
        while self._waiting and room > 0:
            queue = self._queues.get(self._waiting[0])
            if queue is not None and queue.record.durable:
                room -= self._note_queue(queue, room)
            else:
                self._storage.touched.pop(self._waiting[0], None)
                self._numbers.clear()
            if not self._numbers:
                self._waiting.popleft()
        return not self._waiting

    def _note_queue(self, queue: ClassicQueue, segments_max: int) -> int:
        """Some of its segments; returns how many they were, or would have been by the time it took."""
        index = queue.backing.index
        if not self._numbers:
            self._numbers.extend(sorted(index.touched))  # what is touched from now on is for another time
        numbers = list(islice(self._numbers, segments_max))
        index.write_settled(queue.alive_in, numbers)
        written = index.flush_bodies()
        index.noted(numbers)
        self._noted.append((index, numbers))
        self.manifest.note_segments(queue.record.id, index, numbers)
        for number in numbers:
            self._numbers.popleft()
            segment = index.segments.get(number)
            if segment is not None:
                self._segments.append((segment, segment.index_size, segment.body_size))
                self._names += index.unsynced(segment)
        return max(1, len(numbers)) + written // BYTES_LIKE_A_SEGMENT

    def note_store(self) -> None:
        store = self._storage.store
        for name, file in store.unsynced():
            self._store_files.append((file, file.size))
            self._names.append(name)
        self.manifest.note_store(store)

    def make_durable(self, disk: Disk) -> None:
        """For the background. Raises DiskFull, DiskFailed."""
        sync_files(disk, self._names)
        self.manifest.save(disk)

    def done(self) -> None:
        for segment, index_size, body_size in self._segments:
            segment.index_synced, segment.body_synced = index_size, body_size
        for file, size in self._store_files:
            file.synced = size

    def give_up(self) -> None:
        for index, numbers in self._noted:
            index.touch_again(numbers)


def sync_files(disk: Disk, names: Sequence[str]) -> None:
    """Make these files durable, with their names. Opens its own handles: it may run in another thread."""
    for name in names:
        try:
            file = disk.open(name)
        except FileNotFoundError:
            continue  # its queue was deleted meanwhile
        try:
            file.sync()
        finally:
            file.close()
    directories = {name.rpartition("/")[0] for name in names}
    # Those above, too: a queue's directory was only begun (`QueueIndex._begin`).
    for directory in sorted(directories | {name.rpartition("/")[0] for name in directories}):
        with suppress(FileNotFoundError):  # the same
            disk.sync_dir(directory)

"""Moves what still lives in the oldest log file to the queues' own files, so that the log can let it go.

The file is walked from its begin, in steps between other work: a step is so many runs in so many queues, for one run may be in
a thousand. Of each run that has a living message, the content from the first such message to the last is written beside the
index of its queue, or once for all queues to the shared store. No list of what lives is needed: the queues know it. At the end
`done` is true; what was written is to be synced then, together with what was settled, before the file is released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from classic.store.log_records import Published, decode_published
from classic.store.node_storage import NodeStorage
from classic.stored_run import InStore, StoredRun
from native.content import skip
from native.sequence_set import Range
from storage.names import log_file
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, TORN, Kind, payload_length, scan

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

PIECE_BYTES = 65_536  # that are read at once
PLACES_PER_STEP = 200  # each is one run in one queue; 10 us where it lives, for its queue's file is written to
BEGUN_PER_STEP = 10  # queues; each makes a directory and two files, which takes 0.2 ms


class MovingRun:
    """One run that is being moved out of the log, queue by queue: it may be in a thousand of them."""

    def __init__(self, published: Published, content: memoryview, content_id: InStore, large: bool) -> None:
        self.published = published
        self.content = content
        self.content_id = content_id
        self.large = large  # its content goes to the shared store, once for all queues
        self.places = deque(published.queues)  # still to be looked at: queue, and the run's first message there
        self.referred = False  # the store knows how many of the queues refer to it


class MoveOut:
    """One log file's way out."""

    def __init__(self, storage: NodeStorage, queues: Mapping[int, ClassicQueue], file_number: int) -> None:
        self.file_number = file_number
        self.done = False
        self.damaged = False  # the walk ended at bytes that are no record: the file has to stay
        self._storage = storage
        self._queues = queues  # by id
        self._position = 0  # of the next piece
        self._wanted = PIECE_BYTES
        self._piece: deque[MovingRun] = deque()  # what was read, and is to be moved
        self._runs: dict[ClassicQueue, list[StoredRun]] = {}  # their content is moved, and their index has to say so
        self.begun = 0  # queues that got the first files of their own in the step before

    def step(self) -> int:
        """Move a little; returns the bytes that were read for it. Raises DiskFull: then it goes on later where it ended."""
        self.begun = 0
        self._write_runs()  # what there was no room for
        read = 0 if self._piece else self._read_piece()
        places = PLACES_PER_STEP
        while self._piece and places > 0 and self.begun < BEGUN_PER_STEP:
            places -= self._move(self._piece[0], places)
            if not self._piece[0].places:
                self._piece.popleft()
        self._write_runs()
        return read

    def finish_run(self) -> None:
        """The node stops: the run that is in the store is written to the index of each queue that the store counts."""
        self._write_runs()
        while self._piece and self._piece[0].referred and self._piece[0].places:
            self.begun = 0
            self._move(self._piece[0], PLACES_PER_STEP)
            self._write_runs()

    def _read_piece(self) -> int:
        file = self._storage.files.get(log_file(self.file_number))
        data = file.read_at(self._position, self._wanted)
        records, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        view = memoryview(data)
        for kind, _, _, _, _, start, end in records:
            if kind == Kind.CLASSIC_PUBLISH:
                self._piece.append(self._moving_run(view[start:end], start + self._position))
        self._position += stop
        self._wanted = PIECE_BYTES
        if not stop:
            self._look_beyond(data, reason, file.size())
        return stop

    def _look_beyond(self, data: bytes, reason: int, size: int) -> None:
        """No whole record begins here: it is larger than a piece, or the file ends."""
        if reason == TORN and len(data) >= HEADER_BYTES:
            needed = HEADER_BYTES + payload_length(data)
            if len(data) < needed <= size - self._position:
                self._wanted = needed
                return
        self.done = True
        self.damaged = bool(data.strip(b"\0"))
        if self.damaged:
            self._storage.found(
                f"{log_file(self.file_number)} cannot be read from {self._position} on: it is kept, with all that follow"
            )

    def _moving_run(self, payload: memoryview, offset: int) -> MovingRun:
        published = decode_published(payload)
        content = payload[published.head_len :]
        large = len(content) >= self._storage.limits.embed_below * published.message_count
        return MovingRun(published, content, InStore(self.file_number, offset), large)

    def _move(self, moving: MovingRun, places_max: int) -> int:
        """To as many of its queues as may be, and yet have messages of it; returns how many were looked at."""
        if moving.large and not moving.referred:
            self._keep_in_store(moving)
        looked_at = 0
        while moving.places and looked_at < places_max and self.begun < BEGUN_PER_STEP:
            queue_id, first = moving.places[0]
            queue, alive = self._alive(queue_id, first, moving.published.message_count)
            if queue is not None and alive:
                self._move_to(queue, moving, first, alive)
            else:
                self._indexed(queue_id, moving.content_id)
            moving.places.popleft()
            looked_at += 1
        return looked_at

    def _alive(self, queue_id: int, first: int, count: int) -> tuple[ClassicQueue | None, list[Range]]:
        queue = self._queues.get(queue_id)
        return queue, queue.alive_in(first, first + count) if queue is not None else []

    def _keep_in_store(self, moving: MovingRun) -> None:
        """Once, with a reference for each queue that needs it by now. Where the store has it already, from before a crash,
        queues whose index says so are counted. One where it was settled then is not, and the crash may have undone that."""
        published, content_id = moving.published, moving.content_id
        stored = content_id in self._storage.store.contents
        alive = [
            (queue_id, first)
            for queue_id, first in moving.places
            if self._alive(queue_id, first, published.message_count)[1]
            and not (stored and self._has_moved(queue_id, first, content_id))
        ]
        if alive:
            self._storage.store.put(content_id, moving.content, len(alive))
        for queue_id, first in alive:
            self._storage.unindexed.setdefault(queue_id, {})[content_id] = _run(published, first)
        moving.referred = True

    def _has_moved(self, queue_id: int, first: int, content_id: InStore) -> bool:
        run = self._queues[queue_id].backing.index.find(first)
        return run is not None and run.where == content_id

    def _move_to(self, queue: ClassicQueue, moving: MovingRun, first: int, alive: list[Range]) -> None:
        published = moving.published
        run = _run(published, first)
        begins = queue.record.id not in self._storage.indexed and queue not in self._runs
        if moving.large:
            run.where = moving.content_id
        else:
            start, stop = alive[0][0], alive[-1][1]
            run.content_first = start
            cut = _cut(moving.content, published, start - first, stop - first)
            run.where = queue.backing.index.keep_body(first, cut)
        self.begun += begins
        self._runs.setdefault(queue, []).append(run)

    def _write_runs(self) -> None:
        while self._runs:
            queue, runs = next(iter(self._runs.items()))
            if not queue.deleted:  # since there was no room for them before
                queue.backing.index.write_runs(runs)
            for run in runs:
                if isinstance(run.where, InStore):
                    self._indexed(queue.record.id, run.where)
            del self._runs[queue]

    def _indexed(self, queue_id: int, content_id: InStore) -> None:
        """The queue's index has this run, or needs it no more."""
        unindexed = self._storage.unindexed
        unindexed.get(queue_id, {}).pop(content_id, None)
        if not unindexed.get(queue_id, True):
            del unindexed[queue_id]


def _run(published: Published, first: int) -> StoredRun:
    return StoredRun(
        first,
        published.message_count,
        published.exchange,
        published.routing_key,
        None,
        published.body_bytes,
        True,
        published.priority,
        published.expires_at,
    )


def _cut(content: memoryview, published: Published, start: int, stop: int) -> bytes:
    """The messages of a content from the one numbered `start` on and before `stop`."""
    if start == 0 and stop == published.message_count:
        return bytes(content)
    begin = skip(content, 0, start)
    return bytes(content[begin : skip(content, begin, stop - start)])

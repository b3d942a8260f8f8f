"""Moves what still lives in the oldest log file to the queues' own files, so that the log can let it go.

The file is walked from its begin, a piece at a time between other work. Of each run that has a living message, the content from
the first such message to the last is written beside the index of its queue, or once for all queues to the shared store. No
list of what lives is needed: the queues know it. When the end is reached `done` is true; what was written is to be synced then,
together with what was settled, before the file is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from classic.log_records import Published, decode_published
from classic.node_storage import NodeStorage
from classic.stored_run import InStore, StoredRun
from native.content import skip
from storage.names import log_file
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, TORN, Kind, payload_length, scan

if TYPE_CHECKING:
    from classic.queue import ClassicQueue

PIECE_BYTES = 65_536  # up to 350 runs, which takes 2 ms
BEGUN_PER_PIECE = 10  # queues; each makes a directory and two files, which takes 0.2 ms


class MoveOut:
    """One log file's way out."""

    def __init__(self, storage: NodeStorage, queues: Mapping[int, ClassicQueue], file_number: int) -> None:
        self.file_number = file_number
        self.done = False
        self.damaged = False  # the walk ended at bytes that are no record: the file has to stay
        self._storage = storage
        self._queues = queues  # by id
        self._position = 0
        self._wanted = PIECE_BYTES
        self._runs: dict[ClassicQueue, list[StoredRun]] = {}
        self.begun = 0  # queues that got the first files of their own in the piece before

    def step(self) -> int:
        """Walk over one piece; returns its bytes. Raises DiskFull: then the same piece is to be walked again later."""
        self.begun = 0
        file = self._storage.files.get(log_file(self.file_number))
        data = file.read_at(self._position, self._wanted)
        records, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        view = memoryview(data)
        for kind, _, _, _, _, start, end in records:
            if kind == Kind.CLASSIC_PUBLISH:
                self._move(decode_published(view[start:end]), start + self._position, view[start:end])
            if self.begun >= BEGUN_PER_PIECE:
                stop = end
                break
        self._write_runs()
        self._position += stop
        self._wanted = PIECE_BYTES
        if not stop:
            self._look_beyond(data, reason, file.size())
        return max(stop, 1)

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

    def _move(self, published: Published, offset: int, payload: memoryview) -> None:
        living = []
        for queue_id, first in published.queues:
            queue = self._queues.get(queue_id)
            if queue is not None:
                alive = queue.alive_in(first, first + published.message_count)
                if alive:
                    living.append((queue, first, alive))
        if not living:
            return
        content_id = InStore(self.file_number, offset)
        content = payload[published.head_len :]
        large = len(content) >= self._storage.limits.embed_below * published.message_count
        if large:
            fresh = content_id not in self._storage.store.contents
            self._storage.store.put(content_id, content, len(living) if fresh else 0)
        for queue, first, alive in living:
            run = _run(published, first)
            self.begun += queue.record.id not in self._storage.indexed and queue not in self._runs
            if large:
                run.where = content_id
            else:
                start, stop = alive[0][0], alive[-1][1]
                run.content_first = start
                run.where = queue.backing.index.keep_body(first, _cut(content, published, start - first, stop - first))
            self._runs.setdefault(queue, []).append(run)

    def _write_runs(self) -> None:
        for queue, runs in self._runs.items():
            if not queue.deleted:  # since there was no room for them before
                queue.backing.index.write_runs(runs)
        self._runs.clear()


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

"""Rebuilds queues from the log: what was published and is not done with, in the order it was published."""

from __future__ import annotations

from collections.abc import Iterable, Set

from classic.log_records import decode_deleted, decode_published, decode_settled
from classic.stored_run import Part, StoredRun
from native.sequence_set import SequenceSet
from storage.record import Kind
from storage.wal_file_reader import Chunk


class RecoveredQueue:
    """What the log says of one queue."""

    __slots__ = ("next_sequence", "runs", "settled")

    def __init__(self) -> None:
        self.runs: list[StoredRun] = []
        self.settled = SequenceSet()
        self.next_sequence = 0

    def parts(self) -> list[Part]:
        """What is left, every message marked as redelivered: it may have been handed out before the end."""
        parts: list[Part] = []
        for run in self.runs:
            at = run.first
            for start, end in [*self.settled.intersect(run.first, run.end), (run.end, run.end)]:
                if at < start:
                    size = run.body_bytes if start - at == run.count else run.body_bytes * (start - at) // run.count
                    parts.append(Part(run, at, start - at, None, size, True))
                at = end
        return parts


class Recovery:
    """One pass over the log."""

    def __init__(self, known: Set[int]) -> None:
        self._known = known  # ids of queues that are declared; what belongs to others is over
        self.queues: dict[int, RecoveredQueue] = {}
        self.next_index = 1

    def read(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            view = memoryview(chunk.buffer)
            for record in chunk.records:
                kind, _, _, _, index, start, end = record
                payload = view[start:end]
                if kind == Kind.CLASSIC_PUBLISH:
                    self._published(chunk, record, payload)
                elif kind == Kind.CLASSIC_SETTLE:
                    queue_id, ranges = decode_settled(payload)
                    if queue_id in self._known:
                        settled = self._queue(queue_id).settled
                        for first, after in ranges:
                            settled.add(first, after)
                elif kind == Kind.CLASSIC_QUEUE_DELETED:
                    self.queues.pop(decode_deleted(payload), None)
                else:
                    continue
                self.next_index = max(self.next_index, index + 1)

    def _published(self, chunk: Chunk, record: tuple[int, ...], payload: memoryview) -> None:
        published = decode_published(payload)
        for queue_id, first in published.queues:
            if queue_id not in self._known:
                continue
            queue = self._queue(queue_id)
            run = StoredRun(
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
            run.location = chunk.location(record)  # type: ignore[arg-type]
            run.content_at = published.head_len
            queue.runs.append(run)
            queue.next_sequence = max(queue.next_sequence, run.end)

    def _queue(self, queue_id: int) -> RecoveredQueue:
        return self.queues.setdefault(queue_id, RecoveredQueue())

"""What the log says of each declared queue, as a start after a crash reads it: what was published, and what was settled.

A published run is kept as the bytes of the index entry it would have, with its content in the log (`Block`): there may be many
millions of them, most of them settled.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from classic.store.index_entries import IN_LOG, PERSISTENT, Block
from classic.store.log_records import decode_deleted, decode_reasoned, decode_settled, read_published
from native.sequence_set import SequenceSet
from storage import names
from storage.errors import Corrupt
from storage.record import Kind
from storage.wal.file_reader import Chunk

CLASSIC_KINDS = frozenset(
    (
        Kind.CLASSIC_PUBLISH,
        Kind.CLASSIC_SETTLE,
        Kind.CLASSIC_PURGE,
        Kind.CLASSIC_QUEUE_DELETED,
        Kind.CLASSIC_DONE,
        Kind.CLASSIC_BACK,
    )
)


class LoggedQueue:
    """What the log says of one queue."""

    __slots__ = ("blocks", "published", "settled")

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block()]
        self.published = SequenceSet()
        self.settled = SequenceSet()


class LoggedQueues:
    """`read` the log, then `take` what it says of each queue."""

    def __init__(self, declared: Container[int]) -> None:
        self._declared = declared
        self._queues: dict[int, LoggedQueue] = {}
        self.deleted: set[int] = set()  # queues whose deletion the log has
        self.newest_undeclared = 0  # the highest number of a queue that was published to and is not declared
        self.next_index = 1  # of the next classic record

    def read(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            view = memoryview(chunk.buffer)
            for kind, _, _, _, index, start, end in chunk.records:
                if kind in CLASSIC_KINDS:
                    self.next_index = max(self.next_index, index + 1)
                    self._read_record(kind, view[start:end], chunk.file_number, chunk.base + start)

    def take(self, queue_id: int) -> LoggedQueue | None:
        return self._queues.pop(queue_id, None)

    def _read_record(self, kind: int, payload: memoryview, file_number: int, offset: int) -> None:
        if kind == Kind.CLASSIC_PUBLISH:
            self._read_published(payload, file_number, offset)
        elif kind == Kind.CLASSIC_QUEUE_DELETED:
            queue_id = decode_deleted(payload)
            self.deleted.add(queue_id)
            self._queues.pop(queue_id, None)
        elif kind == Kind.CLASSIC_DONE:
            queue_id, _, _, ranges = decode_reasoned(payload)
            self._settled(queue_id, ranges)
        elif kind != Kind.CLASSIC_BACK:  # which says nothing of who lives
            self._settled(*decode_settled(payload))

    def _read_published(self, payload: memoryview, file_number: int, offset: int) -> None:
        """The run's index entry, for each of its queues."""
        head_len, priority, message_count, body_bytes, expires_at, queues, raw_name = read_published(payload)
        for queue_id, first in queues:
            logged = self._queues.get(queue_id)
            if logged is None:
                if queue_id not in self._declared:
                    if queue_id > self.newest_undeclared:
                        self.newest_undeclared = queue_id
                    continue
                logged = self._of(queue_id)
            block = logged.blocks[-1]
            if block.full:
                block = Block()
                logged.blocks.append(block)
            block.add(
                first, message_count, 0, block.raw_name(raw_name), IN_LOG, PERSISTENT, priority,
                head_len, len(payload), file_number, offset, body_bytes, expires_at,
            )  # fmt: skip
            logged.published.add(first, first + message_count)

    def _settled(self, queue_id: int, ranges: list[tuple[int, int]]) -> None:
        if queue_id in self._declared:
            settled = self._of(queue_id).settled
            for first, end in ranges:
                settled.add(first, end)

    def _of(self, queue_id: int) -> LoggedQueue:
        return self._queues.setdefault(queue_id, LoggedQueue())


def must_end_before(next_index: int, chunks: Iterable[Chunk]) -> None:
    """Raises Corrupt when the log holds a classic record that is newer than the clean stop."""
    for chunk in chunks:
        for record in chunk.records:
            kind, index = record[0], record[4]
            if kind in CLASSIC_KINDS and index >= next_index:
                what = "the log goes on behind it. It is removed: start again"
                raise Corrupt(names.CLASSIC_CLEAN_STOP, 0, 0, what)

"""What happened to queues, of one piece of a log after another, gathered in buckets of queues until somebody takes it all.

Who writes rows of each bucket to a file of its own would sort those of each piece, and put parts of many pieces together:
three copies, which take as long as it takes to compress them. Here each row is put where it belongs as it is read.

Rows are those of `events` (native/log_columns.py), and beside them one for each RAFT_COMMIT, in the order of the records, as
columns of GATHERED (native/log_tables.py). Commits are tables of their own, for numbers that rise from row to row are a third
of their size in a file while no others come in between. A queue is in the bucket of its number modulo how many there are, a
power of two.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from native import columns, compiled_twin
from native.entry_rows import Row
from native.log_columns import payloads, rows_of_event
from native.log_tables import FILE_BITS, GATHERED

RAFT_COMMIT: Final = 42
ROW_SIZE: Final = 72  # without its data

BucketTable: TypeAlias = tuple[int, tuple[tuple[bytes | memoryview | None, ...], ...]]


class EventBucketsPlain:
    """See the module."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self.clear()

    def take(self, buffer: bytes, base: int, found: columns.Table, file: int, other_groups: bytes) -> None:
        """The arguments are those of `events`."""
        others = set(struct.unpack(f"<{len(other_groups) // 8}Q", other_groups))
        with memoryview(buffer) as view:
            for record, payload in payloads(view, base, found):
                if record["kind"] == RAFT_COMMIT:
                    told = (record["writer"], 0, record["term"], RAFT_COMMIT, record["time"], record["index"], b"", 0)
                    self._add(self._commits, (*told, 0, file))
                for *event, offset in rows_of_event(record, payload, file, others):
                    self._add(self._events, (*event, (file << FILE_BITS) + offset, file))

    def _add(self, buckets: list[list[Row]], row: Row) -> None:
        buckets[row[0] % self._buckets].append(row)

    @property
    def size(self) -> int:
        """Bytes of all that waits."""
        return sum(ROW_SIZE + len(row[6]) for rows in (*self._events, *self._commits) for row in rows)

    def tables(self, number: int) -> list[BucketTable]:
        """What waits in a bucket, if anything does: its events, its commits. They may be looked at until others are asked for,
        or any are gathered: their memory is used again."""
        return [columns.table(GATHERED, rows) for rows in (self._events[number], self._commits[number]) if rows]

    def clear(self) -> None:
        """What waited was taken."""
        self._events: list[list[Row]] = [[] for _ in range(self._buckets)]
        self._commits: list[list[Row]] = [[] for _ in range(self._buckets)]


EventBuckets: type[EventBucketsPlain] = EventBucketsPlain

if (_twin := compiled_twin("log_columns")) is not None:
    EventBuckets = _twin.EventBuckets

"""Counts what a file of the log holds, for its summary in an archive: storage/archive/summary.py says what for.

The records are given as they are written, or as they were read: buffers that hold whole records one behind the other, cut
anywhere. Their checksums are not looked at.

Counted for the writer in its head is each record from FIRST_KIND_OF_WRITERS on. Of which queues records tell is in them: those
of classic queues name theirs, an entry of a replicated log is of its writer, and a name is told of whoever it is of.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from native import compiled_twin
from native.entry_rows import RAFT_ENTRIES
from native.log_columns import CLASSIC_PUBLISH, CLASSIC_SIZES, FIRST_KIND_OF_WRITERS, MARK
from native.record_scan import HEADER_SIZE

Buffer: TypeAlias = bytes | bytearray | memoryview

NAME: Final = 50

_HEADER = struct.Struct("<IIBBHIQQ")
_FIRST_OF_AND_TIME = struct.Struct("<QQ")
_FIRST_OF_AT = 56  # in the payload of a mark
_QUEUES = struct.Struct("<2xH22x")  # how many, in the fixed head of a publish
_PAIR = struct.Struct("<QQ")
_ID = struct.Struct("<Q")

WriterRow: TypeAlias = tuple[int, int, int, int, int]  # writer, records, bytes with headers, lowest and highest index


class LogTallyPlain:
    """See the module. Times are those of marks, in microseconds; 0: none has told any."""

    def __init__(self) -> None:
        self.first_us = 0
        self.last_us = 0
        self.commits = 0  # that begin in the file
        self.queues: set[int] = set()
        self.names: set[tuple[int, bytes]] = set()  # of whom, and the payload of its NAME
        self._writers: dict[int, list[int]] = {}

    @property
    def rows(self) -> int:
        """How much memory it takes."""
        return len(self.queues) + len(self.names) + len(self._writers)

    def writers(self) -> list[WriterRow]:
        """Ascending."""
        return [(writer, *row) for writer, row in sorted(self._writers.items())]  # type: ignore[misc]  # four numbers each

    def take(self, buffers: Sequence[Buffer]) -> None:
        """Raises ValueError where they end within a record: what was counted is of no use then."""
        data = memoryview(b"".join(buffers))
        at = 0
        while at < len(data):
            end = at + HEADER_SIZE
            if end <= len(data):
                _, size, kind, _, _, _, writer, index = _HEADER.unpack_from(data, at)
                end += size
            if end > len(data):
                raise ValueError(f"the {len(data)} bytes end within a record")
            self._count(kind, writer, index, data[at + HEADER_SIZE : end])
            at = end

    def _count(self, kind: int, writer: int, index: int, payload: memoryview) -> None:
        if kind == MARK:
            self._count_mark(payload)
        if kind < FIRST_KIND_OF_WRITERS:
            return
        row = self._writers.setdefault(writer, [0, 0, index, index])
        row[:] = row[0] + 1, row[1] + HEADER_SIZE + len(payload), min(row[2], index), max(row[3], index)
        if kind == RAFT_ENTRIES:
            self.queues.add(writer)
        elif kind == NAME:
            self.names.add((index, bytes(payload)))
        elif kind == CLASSIC_PUBLISH:
            self._count_queues(payload)
        elif kind in CLASSIC_SIZES and len(payload) >= _ID.size:
            self.queues.update(_ID.unpack_from(payload))

    def _count_queues(self, payload: memoryview) -> None:
        if len(payload) >= _QUEUES.size:
            end = _QUEUES.size + _PAIR.size * _QUEUES.unpack_from(payload)[0]
            if end <= len(payload):
                self.queues.update(queue for queue, _ in _PAIR.iter_unpack(payload[_QUEUES.size : end]))

    def _count_mark(self, payload: memoryview) -> None:
        """Those of earlier builds tell no time."""
        if len(payload) != _FIRST_OF_AT + _FIRST_OF_AND_TIME.size:
            self.commits += len(payload) == _FIRST_OF_AT + _ID.size and _ID.unpack_from(payload, _FIRST_OF_AT)[0] == 1
            return
        first_of, time_us = _FIRST_OF_AND_TIME.unpack_from(payload, _FIRST_OF_AT)
        self.commits += first_of == 1
        self.last_us = time_us or self.last_us
        self.first_us = self.first_us or time_us


LogTally = LogTallyPlain

# For mypy the plain class is the type; the twin's has the same methods.
if not TYPE_CHECKING and (_twin := compiled_twin("log_tally")) is not None:
    LogTally = _twin.LogTally

"""What an archived file holds, in a file beside it, so that readers need not open those that they have no use for.

The payload of a file as in storage/snapshot_file.py, little endian:

    offset  size  field
         0     4  version     1
         4     4  whole       1: read to its end; 0: it is damaged from `end` on, and holds more than is told here
         8     8  first_us    the first and the last time in it (marks of the log, storage/record.py); of a snapshot when it
        16     8  last_us     was archived. 0: it tells of none
        24     8  end         where its last record ends
        32     8  commits     how many begin in it
        40     4  writers     then so many rows, ascending:
                              writer u64 | records u64 | bytes u64, with headers | lowest index u64 | highest index u64

A record is counted for the writer in its head. Those of classic queues have none: they count their records together.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from storage.disk import Buffer, File
from storage.errors import Corrupt
from storage.record import (
    FIRST_KIND_OF_WRITERS,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    TORN,
    Kind,
    Record,
    decode_mark,
    payload_length,
    scan,
)

VERSION = 1
PIECE_BYTES = 65_536  # read and counted at a time: 0.2 ms, behind which the event loop may have the interpreter

_HEAD = Struct("<IIQQQQI")
_ROW = Struct("<QQQQQ")


class WriterSummary(NamedTuple):
    """What one writer has in the file."""

    writer: int
    records: int
    size: int
    first_index: int
    last_index: int


@dataclass(slots=True, frozen=True)
class Summary:
    """See the module."""

    whole: bool
    first_us: int
    last_us: int
    end: int
    commits: int
    writers: tuple[WriterSummary, ...] = ()

    def encode(self) -> bytes:
        head = _HEAD.pack(
            VERSION, self.whole, self.first_us, self.last_us, self.end, self.commits, len(self.writers)
        )  # fmt: skip
        return b"".join((head, *(_ROW.pack(*row) for row in self.writers)))

    @classmethod
    def decode(cls, name: str, data: bytes) -> Summary:
        """`name` is for the error. Raises Corrupt."""
        try:
            version, whole, first_us, last_us, end, commits, count = _HEAD.unpack_from(data)
        except struct.error as error:
            raise Corrupt(name, 0, len(data), "it is too short for a summary") from error
        if version != VERSION or len(data) != _HEAD.size + count * _ROW.size:
            raise Corrupt(name, 0, len(data), f"a summary of version {version} with {count} writers is none")
        rows = tuple(WriterSummary(*row) for row in _ROW.iter_unpack(data[_HEAD.size :]))
        return cls(whole == 1, first_us, last_us, end, commits, rows)


@dataclass(slots=True)
class Tally:
    """Of the records of one file, as they are read."""

    first_us: int = 0
    last_us: int = 0
    commits: int = 0
    writers: dict[int, list[int]] = field(default_factory=dict)

    def take(self, records: Sequence[Record], data: Buffer) -> None:
        for kind, _, _, writer, index, start, end in records:
            if kind >= FIRST_KIND_OF_WRITERS:
                self._count(writer, index, HEADER_BYTES + end - start)
            elif kind == Kind.MARK:
                self._take_mark(data[start:end])

    def _count(self, writer: int, index: int, size: int) -> None:
        row = self.writers.get(writer)
        if row is None:
            self.writers[writer] = [1, size, index, index]
            return
        row[0] += 1
        row[1] += size
        row[2] = min(row[2], index)
        row[3] = max(row[3], index)

    def _take_mark(self, payload: Buffer) -> None:
        mark = decode_mark(payload)
        if mark is not None:
            self.commits += mark.begins_commit
            self.last_us = mark.time_us or self.last_us
            self.first_us = self.first_us or mark.time_us

    def summary(self, end: int, whole: bool) -> Summary:
        rows = tuple(WriterSummary(writer, *row) for writer, row in sorted(self.writers.items()))
        return Summary(whole, self.first_us, self.last_us, end, self.commits, rows)


def summarise(file: File) -> Summary:
    """What this file of the log holds, up to its end or to the first that is no record. Raises what reading raises."""
    tally, at, size, wanted = Tally(), 0, file.size(), PIECE_BYTES
    while at < size:
        data = file.read_at(at, wanted)
        records, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        tally.take(records, data)
        at += stop
        if stop:
            wanted = PIECE_BYTES
            continue
        needed = HEADER_BYTES + (payload_length(data) if len(data) >= HEADER_BYTES else 0)
        if reason != TORN or needed <= len(data) or at + needed > size:
            break
        wanted = needed
    return tally.summary(at, whole=_is_zero(file, at, size))


def _is_zero(file: File, at: int, size: int) -> bool:
    """Whether nothing was ever written from there on."""
    return all(not file.read_at(start, PIECE_BYTES).strip(b"\0") for start in range(at, size, PIECE_BYTES))

"""What an archived file holds, in a file beside it, so that readers need not open those that they have no use for.

The payload of a file as in storage/snapshot_file.py, little endian:

    offset  size  field
         0     4  version     2; 1 ends behind the writers
         4     4  whole       1: read to its end; 0: it is damaged from `end` on, and holds more than is told here
         8     8  first_us    the first and the last time in it (marks of the log, storage/record.py); of a snapshot when it
        16     8  last_us     was archived. 0: it tells of none
        24     8  end         where its last record ends
        32     8  commits     how many begin in it
        40     4  writers     then so many rows, ascending:
                              writer u64 | records u64 | bytes u64, with headers | lowest index u64 | highest index u64
                  queues u32  then so many rows, ascending: all queues, and other replicated logs, that its records tell of
                              queue u64 | length u16 | its bytes, as in a NAME record; none: not named in the file
                              Two rows where a classic queue and one of the cluster's own logs have the same number

A record is counted for the writer in its head. Those of classic queues have none: they count their records together, and
only the rows of queues say which queues they are of.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from native.log_tally import LogTally
from storage.disk import File
from storage.errors import Corrupt
from storage.history.name_records import NameRow, decode_name, encode_name
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, TORN, payload_length, scan

VERSION, WITHOUT_QUEUES = 2, 1
PIECE_BYTES = 65_536  # read and counted at a time: 0.2 ms, behind which the event loop may have the interpreter

_HEAD = Struct("<IIQQQQI")
_ROW = Struct("<QQQQQ")
_COUNT = Struct("<I")
_QUEUE = Struct("<QH")


class WriterSummary(NamedTuple):
    """What one writer has in the file."""

    writer: int
    records: int
    size: int
    first_index: int
    last_index: int


class SummedQueue(NamedTuple):
    """A queue, or another replicated log, that the file tells of."""

    queue: int
    name: NameRow | None  # None: the file has none for it


@dataclass(slots=True, frozen=True)
class Summary:
    """See the module."""

    whole: bool
    first_us: int
    last_us: int
    end: int
    commits: int
    writers: tuple[WriterSummary, ...] = ()
    queues: tuple[SummedQueue, ...] | None = None  # None: an earlier build did not say

    def encode(self) -> bytes:
        version = WITHOUT_QUEUES if self.queues is None else VERSION
        head = _HEAD.pack(
            version, self.whole, self.first_us, self.last_us, self.end, self.commits, len(self.writers)
        )  # fmt: skip
        queues = [] if self.queues is None else _encoded_queues(self.queues)
        return b"".join((head, *(_ROW.pack(*row) for row in self.writers), *queues))

    @classmethod
    def decode(cls, name: str, data: bytes) -> Summary:
        """`name` is for the error. Raises Corrupt."""
        try:
            version, whole, first_us, last_us, end, commits, count = _HEAD.unpack_from(data)
            if version not in (VERSION, WITHOUT_QUEUES):
                raise ValueError(f"version {version} is not known")
            behind = _HEAD.size + count * _ROW.size
            rows = tuple(WriterSummary(*_ROW.unpack_from(data, at)) for at in range(_HEAD.size, behind, _ROW.size))
            queues, at = (None, behind) if version == WITHOUT_QUEUES else _decoded_queues(data, behind)
            if at != len(data):
                raise ValueError(f"its rows end at byte {at}")
        except (struct.error, ValueError) as error:
            raise Corrupt(name, 0, len(data), f"that is no summary: {error}") from error
        return cls(whole == 1, first_us, last_us, end, commits, rows, queues)


def _encoded_queues(queues: Sequence[SummedQueue]) -> list[bytes]:
    parts = [_COUNT.pack(len(queues))]
    for queue, name in queues:
        text = b"" if name is None else encode_name(name)
        parts += [_QUEUE.pack(queue, len(text)), text]
    return parts


def _decoded_queues(data: bytes, at: int) -> tuple[tuple[SummedQueue, ...], int]:
    """And where they end. Raises struct.error and ValueError."""
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    queues = []
    for _ in range(count):
        queue, length = _QUEUE.unpack_from(data, at)
        start, at = at + _QUEUE.size, at + _QUEUE.size + length
        queues.append(SummedQueue(queue, decode_name(data[start:at]) if length else None))
    return tuple(queues), at


def summary_of(tally: LogTally, end: int, whole: bool) -> Summary:
    """What was counted of a file. A name that is none names nobody: readers of the file think so too."""
    names: dict[int, set[NameRow]] = {}
    for queue, text in tally.names:
        named = names.setdefault(queue, set())
        with suppress(ValueError):
            named.add(decode_name(text))
    return Summary(
        whole, tally.first_us, tally.last_us, end, tally.commits,
        tuple(WriterSummary(*row) for row in tally.writers()),
        tuple(
            SummedQueue(queue, name)
            for queue in sorted(tally.queues | names.keys())
            for name in sorted(names.get(queue, ())) or (None,)
        ),
    )  # fmt: skip


def summarise(file: File) -> Summary:
    """What this file of the log holds, up to its end or to the first that is no record. Raises what reading raises."""
    tally, at, size, wanted = LogTally(), 0, file.size(), PIECE_BYTES
    while at < size:
        data = file.read_at(at, wanted)
        _, stop, reason = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        tally.take([memoryview(data)[:stop]])
        at += stop
        if stop:
            wanted = PIECE_BYTES
            continue
        needed = HEADER_BYTES + (payload_length(data) if len(data) >= HEADER_BYTES else 0)
        if reason != TORN or needed <= len(data) or at + needed > size:
            break
        wanted = needed
    return summary_of(tally, at, whole=_is_zero(file, at, size))


def _is_zero(file: File, at: int, size: int) -> bool:
    """Whether nothing was ever written from there on."""
    return all(not file.read_at(start, PIECE_BYTES).strip(b"\0") for start in range(at, size, PIECE_BYTES))

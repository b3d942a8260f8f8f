"""Reading one file of records as columns: its whole records piece by piece, and what lies between them.

Any of our files of records may be read, while a node writes to it, too: nothing is locked, mapped or changed. In a file of
the log the marks say what bytes mean that are no record, as they do when a node starts (storage/wal/replay.py): a mark further
on that says that they had been fsynced makes them *damage*, and reading goes on there, so a damaged byte costs at most 64 KiB
and a record; without one they are a *torn* end, or what a running node is about to write. In other files nothing says where
the next record begins, and bytes that are no record end the reading.

Memory is bounded by one piece, which is PIECE_BYTES, or one record that is longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from native.columns import Table, row_of
from native.log_columns import MISPLACED, UNKNOWN, FilePlace, Found, records
from native.log_tables import RECORDS
from storage.disk import Disk, File
from storage.names import KEPT_SUFFIX, LOG_SUFFIX
from storage.record import (
    CLEAN_END,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    ROLL_BYTES,
    TORN,
    Kind,
    Mark,
    Roll,
    decode_mark,
    decode_roll,
    payload_length,
    scan,
)
from storage.wal.file_reader import LogFileReader

PIECE_BYTES = 4 * 1024 * 1024
_ZEROS = bytes(256 * 1024)
NO_LOG = FilePlace(0)
_KIND = next(number for number, field in enumerate(RECORDS) if field.name == "kind")
REASONS = {
    TORN: "a record begins that is longer than what is left of the file",
    MISPLACED: "a mark or head of another place or another log",
    CLEAN_END: "there are zeros where a record should be",
}


class ColumnPiece(NamedTuple):
    """Consecutive whole records of a file."""

    base: int  # of the buffer, in the file
    buffer: bytes
    records: Table  # native/log_columns.py, RECORDS

    def kinds(self) -> bytes:
        """Of the records, a byte for each."""
        column = self.records[1][_KIND][1]
        assert column is not None, "records without a column of kinds"
        return column[::4]


@dataclass(slots=True, frozen=True)
class DamagedRange:
    """Bytes of a file that are no records. `torn`: nothing shows that they had ever been durable."""

    offset: int
    length: int
    torn: bool
    reason: str


class ColumnReader:
    """One file, from a place on to its end. The end of a log file that is written to may be read again later, from `place`."""

    place: FilePlace  # behind the last whole record, with commit and time there
    damage: list[DamagedRange]

    def __init__(
        self,
        disk: Disk,
        name: str,
        start: FilePlace | None = None,
        *,
        is_followed: bool = False,
        end: int | None = None,
        until_durable: bool = False,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`is_followed` says that the log went on in another file, so all of this one had been fsynced. `end`: what lies
        behind it is not read, and not judged; `until_durable`: nor is what lies behind `durable_end`, which need not be asked.
        Smaller pieces are for who shares the interpreter with an event loop."""
        self.damage = []
        self.place = log_of(disk, name) if start is None else start
        self._disk = disk
        self._name = name
        self._is_followed = is_followed
        self._end = end
        self._until_durable = until_durable
        self._piece_bytes = piece_bytes

    def pieces(self) -> Iterator[ColumnPiece]:
        """Raises OSError and StorageError where the file cannot be read, never for what is in it."""
        return self._durable_pieces() if self._until_durable else self._pieces()

    def _durable_pieces(self) -> Iterator[ColumnPiece]:
        """Each as soon as a mark vouches for all of it, which is the next piece's at the latest. What waits at the end, or was
        passed over there, is read again as far as it is durable. Where the head of the file is damaged no mark vouches for any
        of it, and it is no end that a crash has cut off."""
        given, damage, end = self.place, 0, 0
        waiting: deque[tuple[ColumnPiece, FilePlace, int]] = deque()
        for piece in self._pieces():
            waiting.append((piece, self.place, len(self.damage)))
            mark = last_mark(piece)
            if mark is not None and mark.durable_file == self.place.file:
                end = mark.durable_offset
            while waiting and waiting[0][1].base <= end:
                whole, given, damage = waiting.popleft()
                yield whole
        waiting.clear()
        without_head = [] if self.place.log_id else [one for one in self.damage[damage:] if not one.torn]
        self.place, self._end = given, end
        del self.damage[damage:]
        yield from self._pieces()
        self.damage += without_head

    def _pieces(self) -> Iterator[ColumnPiece]:
        file = self._disk.open(self._name)
        try:
            size = file.size() if self._end is None else min(file.size(), self._end)
            while self.place.base < size:
                base = self.place.base
                buffer, (rows, columns, stop, reason, commit, time) = self._read(file, size)
                if rows:
                    self.place = self.place._replace(base=base + stop, commit=commit, time=time)
                    yield ColumnPiece(base, buffer, (rows, columns))
                elif not self._pass_over(file, size, reason):
                    return
        finally:
            file.close()

    def _read(self, file: File, size: int) -> tuple[bytes, Found]:
        """What lies at the place: a piece, or all of a record that is longer than one."""
        wanted = self._piece_bytes
        while True:
            buffer = file.read_at(self.place.base, min(wanted, size - self.place.base))
            found = records(buffer, 0, len(buffer), PAYLOAD_BYTES_MAX, self.place)
            wanted = HEADER_BYTES + (payload_length(buffer) if len(buffer) >= HEADER_BYTES else 0)
            if found[0] or found[3] != TORN or not len(buffer) < wanted <= size - self.place.base:
                return buffer, found

    def _pass_over(self, file: File, size: int, reason: int) -> bool:
        """Note what stands at the place and is no record. Whether there is something behind it to go on from."""
        start = self.place.base
        used = _used_end(file, start, size)
        mark = self._next_mark(used) if self.place.log_id and used > start else None
        if mark is not None and self._read(file, size)[1][0]:
            return True  # it was written between the two looks
        end = used if mark is None else mark
        if end > start:
            torn = mark is None and not self._is_followed and (reason == TORN or bool(self.place.log_id))
            why = REASONS.get(reason, "the checksum of a record differs")
            self.damage.append(DamagedRange(start, end - start, torn, why))
        if mark is None:
            return False
        self.place = self.place._replace(base=mark, commit=UNKNOWN, time=UNKNOWN)
        return True

    def _next_mark(self, size: int) -> int | None:
        log = LogFileReader(self._disk, self._name, self.place.file, self.place.log_id)
        try:
            log.position = self.place.base
            mark = log.next_mark(size, self._is_followed)
            return None if mark is None else mark.offset
        finally:
            log.close()


def durable_end(disk: Disk, name: str) -> int:
    """Up to where the marks of a log file say that it had been fsynced. 0: none of them says it of any of this file."""
    reader = ColumnReader(disk, name)
    end = 0
    for piece in reader.pieces():
        mark = last_mark(piece)
        if mark is not None and mark.durable_file == reader.place.file:
            end = mark.durable_offset
    return end


def last_mark(piece: ColumnPiece) -> Mark | None:
    row = piece.kinds().rfind(bytes([Kind.MARK]))
    if row < 0:
        return None
    record = row_of(RECORDS, piece.records, row)
    start = record["offset"] - piece.base + HEADER_BYTES
    return decode_mark(piece.buffer[start : start + record["size"]])


def log_of(disk: Disk, name: str) -> FilePlace:
    """The begin of a file: of which log it is, and which one of it, as its head says. Of a file whose head cannot be read, or
    that has none, nothing is known."""
    if not name.endswith((LOG_SUFFIX, KEPT_SUFFIX)):
        return NO_LOG
    roll = head_of(disk, name)
    return NO_LOG if roll is None else FilePlace(0, roll.log_id, roll.file)


def head_of(disk: Disk, name: str) -> Roll | None:
    """Of a file of the log. None: it cannot be read."""
    file = disk.open(name)
    try:
        head = file.read_at(0, ROLL_BYTES)
    finally:
        file.close()
    found, _, _ = scan(head, 0, len(head), PAYLOAD_BYTES_MAX)
    return decode_roll(head[HEADER_BYTES:]) if found and found[0][0] == Kind.ROLL else None


def _used_end(file: File, start: int, size: int) -> int:
    """Behind the last byte from `start` on that is not zero; `start` if there is none."""
    end = start
    for at in range(start, size, len(_ZEROS)):
        piece = file.read_at(at, len(_ZEROS))
        if not _ZEROS.startswith(piece):  # rstrip of zeros alone takes 30 times as long
            end = at + len(piece.rstrip(b"\0"))
    return end

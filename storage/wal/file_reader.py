"""Reading one file of the log: its whole records, the place where they stop, and the marks beyond.

This file looks, and wal/replay.py judges. A record counts when its checksum is right and the marks before it stand where
they say they stand, in the log they belong to, in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from storage.disk import Disk
from storage.record import (
    CLEAN_END,
    FIRST_KIND_OF_WRITERS,
    HEADER_BYTES,
    MARK_BYTES,
    MARK_BYTES_MIN,
    PAYLOAD_BYTES_MAX,
    ROLL_BYTES,
    TORN,
    Kind,
    Mark,
    Record,
    Roll,
    decode_mark,
    decode_roll,
    payload_length,
    scan,
)
from storage.wal.log_core import Location

CHUNK_BYTES = 8 * 1024 * 1024


class Chunk(NamedTuple):
    """Consecutive records of one file. Their payload positions are those in `buffer`, which lies at `base` of the file."""

    file_number: int
    base: int
    records: list[Record]
    buffer: bytes

    def location(self, record: Record) -> Location:
        """Where the payload of this record lies in the log."""
        return Location(self.file_number, self.base + record[5], record[6] - record[5])


class LogFileReader:
    """One log file, read from its begin to the first bytes that are not a record, and on from any mark behind them."""

    position: int  # everything before it was given, or was passed over
    commit: int | None  # the last one whose mark was read; None: any may come next
    why: str  # why reading stopped at `position`
    unmarked: bool  # records were given that no mark read so far vouches for
    started: bool  # whether anything in it shows that a commit was written here
    previous_end: int | None  # where the log ended in the file before, as this one knows

    def __init__(self, disk: Disk, name: str, number: int, log_id: bytes, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.number = number
        self.position = 0
        self.commit = None
        self.why = ""
        self.unmarked = False
        self._log_id = log_id
        self._chunk_bytes = max(chunk_bytes, MARK_BYTES)
        self._file = disk.open(name)
        self._size = self._file.size()
        self.started, self.previous_end = self._read_head()

    def close(self) -> None:
        self._file.close()

    def records(self, end: int | None) -> Iterator[Chunk]:
        """The whole records from `position` on, up to `end` at most. Afterwards `position` is where they stopped."""
        limit = self._size if end is None else min(end, self._size)
        wanted = self._chunk_bytes
        self.why = "the file ends too early"
        while self.position < limit:
            base = self.position
            buffer = self._file.read_at(base, min(wanted, limit - base))
            records, stop, reason = scan(buffer, 0, len(buffer), PAYLOAD_BYTES_MAX)
            good, problem = self._check_own(records, base, buffer)
            if problem:
                records = records[:good]
                stop = records[-1][6] if records else 0
            self.position += stop
            theirs = [record for record in records if record[0] >= FIRST_KIND_OF_WRITERS]
            if theirs:
                self.unmarked |= records[-1][0] >= FIRST_KIND_OF_WRITERS
                yield Chunk(self.number, base, theirs, buffer)
            if problem:
                self.why = problem
                return
            wanted = self._chunk_bytes
            if stop == 0 and (wanted := self._wanted_for_one(buffer, reason, limit - base)) == 0:
                return

    def resume_at(self, mark: Mark) -> None:
        """Go on reading at a mark behind something that could not be read."""
        assert mark.offset > self.position, f"cannot go back to {mark.offset} from {self.position}"
        self.position = mark.offset
        self.commit = None

    def next_mark(self, end: int | None, durable: bool) -> Mark | None:
        """The first mark behind `position` and before `end`, if what stands at `position` had been fsynced: because
        `durable` says so, or this mark or a later one in this file does."""
        first: Mark | None = None
        for mark in self._marks_behind(self.position, self._size if end is None else min(end, self._size)):
            if first is None:
                first = mark
            if durable or (mark.durable_file == self.number and mark.durable_offset > self.position):
                return first
        return None

    def used_bytes(self) -> int:
        """Bytes from `position` to the last one that is not zero."""
        used = 0
        for at in range(self.position, self._size, CHUNK_BYTES):
            piece = self._file.read_at(at, CHUNK_BYTES).rstrip(b"\0")
            if piece:
                used = at + len(piece) - self.position
        return used

    def _wanted_for_one(self, buffer: bytes, reason: int, left: int) -> int:
        """How much to read when no whole record begins the buffer: as much as that one needs; 0 if it is none."""
        if reason == TORN:
            needed = HEADER_BYTES + (payload_length(buffer) if len(buffer) >= HEADER_BYTES else 0)
            if len(buffer) < needed <= left:
                return needed
            self.why = f"a record of {needed} bytes begins where only {left} are left"
        elif reason == CLEAN_END:
            self.why = "there are zeros where a record should be"
        else:
            self.why = "the checksum of a record differs"
        return 0

    def _check_own(self, records: list[Record], base: int, buffer: bytes) -> tuple[int, str]:
        """How many records stand where the log's own ones among them allow it, and what is wrong with the next one."""
        if base == 0 and records and records[0][0] != Kind.ROLL:
            return 0, "the file does not begin with a head"
        for at, record in enumerate(records):
            if record[0] < FIRST_KIND_OF_WRITERS:
                place = base + record[5] - HEADER_BYTES
                problem = self._problem(record[0], buffer[record[5] : record[6]], place)
                if problem:
                    return at, problem
        return len(records), ""

    def _problem(self, kind: int, payload: bytes, place: int) -> str:
        """What is wrong with one of the log's own records at this place; empty if nothing is."""
        if kind == Kind.MARK:
            mark = decode_mark(payload)
            if mark is None or not self._is_ours(mark, place):
                return "a mark of another place or another log"
            follows = mark.commit - 1 if mark.begins_commit else mark.commit
            if self.commit is not None and self.commit != follows:
                return f"a mark of commit {mark.commit} follows commit {self.commit}"
            self.commit = mark.commit
            self.unmarked = not mark.begins_commit
            return ""
        roll = decode_roll(payload) if kind == Kind.ROLL else None
        if roll is None or place != 0 or not self._is_head(roll):
            return "the head of another file or another log"
        return ""

    def _is_ours(self, mark: Mark, place: int) -> bool:
        return mark.log_id == self._log_id and mark.file == self.number and mark.offset == place

    def _is_head(self, roll: Roll) -> bool:
        return roll.log_id == self._log_id and roll.file == self.number

    def _read_head(self) -> tuple[bool, int | None]:
        """Whether a commit was ever written here, and where the log ended in the file before."""
        head = self._file.read_at(0, ROLL_BYTES)
        records, _, _ = scan(head, 0, len(head), PAYLOAD_BYTES_MAX)
        roll = decode_roll(head[records[0][5] : records[0][6]]) if records and records[0][0] == Kind.ROLL else None
        if roll is not None and self._is_head(roll):
            return True, roll.previous_end
        mark = next(self._marks_behind(-1, self._size), None)  # the head is damaged: the first mark knows the same
        if mark is None:
            return False, None
        return True, mark.durable_offset if mark.durable_file == self.number - 1 else None

    def _marks_behind(self, position: int, limit: int) -> Iterator[Mark]:
        """The valid marks that begin behind a position, found by the log's id and not by the records before them."""
        for at in range(position + 1, limit - MARK_BYTES_MIN + 1, CHUNK_BYTES):
            piece = self._file.read_at(at, min(CHUNK_BYTES + MARK_BYTES - 1, limit - at))
            found = piece.find(self._log_id, HEADER_BYTES)
            while found >= 0:
                start = found - HEADER_BYTES
                mark = _mark_at(piece, start)
                if mark is not None and self._is_ours(mark, at + start):
                    yield mark
                found = piece.find(self._log_id, found + 1)


def _mark_at(piece: bytes, start: int) -> Mark | None:
    size = HEADER_BYTES + payload_length(piece[start : start + HEADER_BYTES])
    if not MARK_BYTES_MIN <= size <= MARK_BYTES:
        return None
    data = piece[start : start + size]
    records, stop, _ = scan(data, 0, len(data), MARK_BYTES - HEADER_BYTES)
    if stop != size or len(records) != 1 or records[0][0] != Kind.MARK:
        return None
    return decode_mark(data[HEADER_BYTES:])

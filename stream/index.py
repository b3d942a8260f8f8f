"""The index of a segment: where each of its entries lies, by its place in the log, its offset and its time.

    row 0, then for each entry a row of 48 bytes, little endian

    row 0                                           row of an entry
    offset  size  field                             offset  size  field
         0     8  magic    b"LVROFFS\\x01",              0     8  offset      of the chunk's first message; of other entries,
                           the last is the version                           that of the message that comes next
         8     8  segment  its number in its frames      8     8  time        ms since 1970, the highest up to here
        16     8  first    index of the first entry     16     8  index       1 more in each row
        24    20  zeros                                 24     8  position    of its frame in the segment
        44     4  crc32c   of the 44 bytes before       32     4  term
                                                        36     4  chunk_len   as it is sent; ends with the frame
                                                        40     4  messages    0: no chunk, as chunk_len
                                                        44     4  crc32c      of the segment's number and the 44 bytes before

Offsets, times and indexes ascend, so one file serves all who look for a place. It is derived from the segment and not fsynced
while that grows: one that is missing, too short, of another segment or damaged is made anew, and so is one that names a place
where something else is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from native.crc32c import crc32c
from storage.disk import Disk, File

MAGIC = b"LVROFFS\x01"
ROW_BYTES = 48
UNWRITTEN_BYTES_MAX = 4096  # rows that gather in memory, so that an idle stream has no index file

_HEAD = Struct("<8sQQ20x")
_ROW = Struct("<QqQQIII")
_CHECKSUM = Struct("<I")
_SEGMENT_NUMBER = Struct("<Q")


class IndexRow(NamedTuple):
    """One entry of the log."""

    offset: int
    time_ms: int
    entry_index: int
    position: int
    term: int
    chunk_bytes: int
    message_count: int

    @property
    def next_offset(self) -> int:
        return self.offset + self.message_count


class BadIndex(Exception):
    """Returned when the file is not the index of its segment. It is to be made anew."""


class OffsetIndex:
    """The rows of one segment, of which the last may not be in the file yet."""

    def __init__(self, disk: Disk, name: str, segment: int, first_index: int) -> None:
        """Without rows; whatever the file holds is overwritten when the first rows are written."""
        self.name = name
        self.count = 0
        self._disk = disk
        self._seed = crc32c(_SEGMENT_NUMBER.pack(segment))
        self._first_index = first_index
        head = _HEAD.pack(MAGIC, segment, first_index)
        self._head = head + _CHECKSUM.pack(crc32c(head))
        self._unwritten = bytearray(self._head)
        self._written = 0  # bytes in the file
        self._file: File | None = None

    def load(self, count: int) -> None:
        """Take the rows that the file has, which must be so many. Raises BadIndex."""
        try:
            file = self._disk.open(self.name)
        except FileNotFoundError as error:
            raise BadIndex(f"{self.name} is missing") from error
        size = file.size()
        if size != (count + 1) * ROW_BYTES or file.read_at(0, ROW_BYTES) != self._head:
            raise BadIndex(f"{self.name} has {size} bytes, and is not the index of {count} entries")
        self._file, self._written, self.count = file, size, count
        self._unwritten.clear()

    def add(self, row: IndexRow) -> None:
        assert row.entry_index == self._first_index + self.count, (
            f"entry {row.entry_index} in row {self.count} of {self.name}"
        )
        packed = _ROW.pack(*row)
        self._unwritten += packed
        self._unwritten += _CHECKSUM.pack(crc32c(packed, self._seed))
        self.count += 1

    def write_if_many(self) -> None:
        if len(self._unwritten) >= UNWRITTEN_BYTES_MAX:
            self.write()

    def write(self) -> None:
        """Give the file what gathers in memory. Raises DiskFull, DiskFailed; then it still does."""
        if not self._unwritten:
            return
        file = self._opened()
        file.write_at(self._written, [self._unwritten])
        self._written += len(self._unwritten)
        self._unwritten = bytearray()

    def sync(self) -> None:
        self.write()
        self._opened().sync()

    def row(self, number: int) -> IndexRow:
        """Counted from 0. Raises BadIndex."""
        return self.rows(number, 1)[0]

    def rows(self, number: int, count: int) -> list[IndexRow]:
        """Rows from this one on, as many as there are up to `count`. Raises BadIndex."""
        count = min(count, self.count - number)
        return list(self._decoded(number, self._read(number, count), count))

    def count_while(self, holds: Callable[[IndexRow], bool]) -> int:
        """How many rows this holds for, which must be the first ones. Raises BadIndex."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self.row(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def truncate(self, count: int) -> None:
        """Keep only the first rows, durably as far as they are in the file."""
        size = (count + 1) * ROW_BYTES
        if size < self._written:
            file = self._opened()
            file.truncate(size)
            file.sync()
            self._written = size
            self._unwritten.clear()
        else:
            del self._unwritten[size - self._written :]
        self.count = count

    def _decoded(self, number: int, data: bytes, count: int) -> Iterator[IndexRow]:
        if len(data) != count * ROW_BYTES:
            raise BadIndex(f"{self.name} ends before row {number + count}")
        for at in range(0, len(data), ROW_BYTES):
            row = IndexRow(*_ROW.unpack_from(data, at))
            (checksum,) = _CHECKSUM.unpack_from(data, at + _ROW.size)
            expected = self._first_index + number + at // ROW_BYTES
            if row.entry_index != expected or checksum != crc32c(data[at : at + _ROW.size], self._seed):
                raise BadIndex(f"the row of entry {expected} in {self.name} is damaged")
            yield row

    def _read(self, number: int, count: int) -> bytes:
        start, end = (number + 1) * ROW_BYTES, (number + 1 + count) * ROW_BYTES
        if start >= self._written:
            return bytes(self._unwritten[start - self._written : end - self._written])
        assert self._file is not None, f"{self._written} bytes of {self.name} are in no file"
        data = self._file.read_at(start, min(end, self._written) - start)
        return data + self._unwritten[: end - self._written] if end > self._written else data

    def _opened(self) -> File:
        if self._file is None:
            try:
                self._file = self._disk.create(self.name)
            except FileExistsError:
                self._file = self._disk.open(self.name)
                self._file.truncate(0)
        return self._file

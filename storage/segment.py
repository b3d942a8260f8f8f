"""A file of records that is appended to, then sealed, and then never changed.

    records of writers (storage/record.py), their indexes ascending
    INDEX record    payload: a SegmentIndex, index -> position of the record
    FOOTER record   payload, 24 bytes: position of the INDEX record u64 | records u64 | last index u64

A segment is sealed when its last bytes are a valid footer. One that is not may end in an unfinished write: opening it finds
the whole records, and says where they end. What stands behind records of a sealed segment is damage, never a tail. Where the
end of one is damaged that had been sealed, its records can still be read from the first on: each has a checksum of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from storage.disk import Buffer, Disk, File
from storage.errors import Corrupt, TornTail
from storage.record import (
    FIRST_KIND_OF_WRITERS,
    HEADER_BYTES,
    VERSION,
    Kind,
    Record,
    payload_length,
    scan,
    seal,
)
from storage.record_reader import record_at
from storage.segment_index import SegmentIndex

_FOOTER = Struct("<QQQ")
FOOTER_BYTES = HEADER_BYTES + _FOOTER.size


class SegmentWriter:
    """Appends to a new segment. Buffers until `write`; nothing is durable before `sync` or `seal`, and the segment's name
    not before the caller has synced its directory."""

    def __init__(self, disk: Disk, name: str, *, read_soon: bool = True) -> None:
        """Of what is not read soon nothing stays in the system's memory once it is synced."""
        self.name = name
        self._read_soon = read_soon
        self.index = SegmentIndex()
        self.size = 0  # with what is still buffered
        self._file = disk.create(name)
        self._written = 0
        self._buffers: list[Buffer] = []

    def append(self, kind: int, writer: int, index: int, parts: Sequence[Buffer], flags: int = 0, term: int = 0) -> int:
        """Add a record; its index must be above the last one. Returns its position."""
        assert kind >= FIRST_KIND_OF_WRITERS, f"kind {kind} belongs to the file itself"
        self.index.add(index, self.size)
        return self._add(seal(parts, kind, flags, term, writer, index, VERSION), parts)

    def write(self) -> None:
        """Give what is buffered to the file."""
        self._file.write_at(self._written, self._buffers)
        self._written = self.size
        self._buffers = []

    def sync(self) -> None:
        """Make everything that was appended durable."""
        self.write()
        self._file.sync()
        if not self._read_soon:
            self._file.uncache(0, self._written)

    def seal(self) -> None:
        """Add index and footer, make the segment durable and close it. It takes no more records."""
        at = self.size
        encoded = [self.index.encode()]
        self._add(seal(encoded, Kind.INDEX, 0, 0, 0, 0, VERSION), encoded)
        footer = [_FOOTER.pack(at, len(self.index), self.index.last if len(self.index) else 0)]
        self._add(seal(footer, Kind.FOOTER, 0, 0, 0, 0, VERSION), footer)
        self.sync()
        self.close()

    def close(self) -> None:
        """Forget the file. What was not synced may be lost."""
        self._file.close()

    def _add(self, header: bytes, parts: Sequence[Buffer]) -> int:
        position = self.size
        self._buffers.append(header)
        self._buffers.extend(parts)
        self.size += HEADER_BYTES + sum(map(len, parts))
        return position


class Segment:
    """Reads a segment, sealed or not."""

    def __init__(self, disk: Disk, name: str, *, as_far_as_whole: bool = False) -> None:
        """Raises TornTail when an unsealed segment does not end behind a record, Corrupt when a sealed one is damaged in
        its index. `SegmentWriter` files that lost power mid-way are opened after cutting them at `TornTail.whole`.

        `as_far_as_whole`: its end is known to be damaged. Nothing there is believed: the records from the first on count, up to
        one that cannot be read, and nothing is raised."""
        self.name = name
        self._file: File = disk.open(name)
        self.size = self.whole = self._file.size()  # whole: up to where it can be read
        index = None if as_far_as_whole else self._sealed_index()
        self.sealed = index is not None
        if index is None:
            index, self.whole = self._scanned_index()
            if self.whole < self.size and not as_far_as_whole:
                raise TornTail(name, self.whole, self.size)
        self.index = index

    def read(self, number: int) -> tuple[Record, bytes] | None:
        """The record of this index and the bytes its positions refer to; None if it is not here. Raises Corrupt."""
        position = self.index.find(number)
        if position is None:
            return None
        record, data = self._record_at(position)
        if record[4] != number:
            raise Corrupt(self.name, position, len(data), f"record {record[4]} lies where {number} should")
        return record, data

    def place_from(self, number: int) -> tuple[int, int] | None:
        """The highest index that is not above this one, and where its record lies: for records that hold several."""
        return self.index.at_or_before(number)

    @property
    def file(self) -> File:
        """Its records do not change where they lie."""
        return self._file

    def length_at(self, position: int) -> int:
        """Of the record that begins there, as its header says. Raises Corrupt."""
        header = self._file.read_at(position, HEADER_BYTES)
        length = HEADER_BYTES + (payload_length(header) if len(header) == HEADER_BYTES else 0)
        if position + length > self.size:
            raise Corrupt(self.name, position, self.size - position, f"a record of {length} bytes does not fit here")
        return length

    def read_at(self, position: int) -> tuple[Record, bytes]:
        """The record that lies there. Raises Corrupt."""
        return self._record_at(position)

    def records(self) -> Iterator[tuple[Record, bytes]]:
        """All records in order. Raises Corrupt."""
        position = 0
        for _ in range(len(self.index)):
            record, data = self._record_at(position)
            yield record, data
            position += len(data)

    def close(self) -> None:
        self._file.close()

    def _record_at(self, position: int) -> tuple[Record, bytes]:
        return record_at(self._file, self.name, position, self.size)

    def _sealed_index(self) -> SegmentIndex | None:
        """The index of a sealed segment, None if there is no footer."""
        end = _sealed_end(self._file, self.name, self.size)
        if end is None:
            return None
        position, count, last, record, data = end
        try:
            index = SegmentIndex.decode(data[record[5] :])
        except ValueError as error:
            raise Corrupt(self.name, position, len(data), str(error)) from error
        if len(index) != count or (count and index.last != last):
            raise Corrupt(self.name, position, len(data), "index and footer do not agree")
        return index

    def _scanned_index(self) -> tuple[SegmentIndex, int]:
        """The index of the whole records from the first on, and where they end."""
        index = SegmentIndex()
        position = 0
        while position < self.size:
            try:
                record, data = self._record_at(position)
            except Corrupt:
                break
            if record[0] < FIRST_KIND_OF_WRITERS:  # sealing was not finished
                break
            if len(index) and record[4] <= index.last:  # a block that was written to another place
                break
            index.add(record[4], position)
            position += len(data)
        return index, position


class _SealedEnd(NamedTuple):
    """What a footer says, and the record of the index that it names."""

    position: int
    records: int
    last_index: int
    record: Record
    data: bytes


def _sealed_end(file: File, name: str, size: int) -> _SealedEnd | None:
    """None if there is no footer. Raises Corrupt."""
    at = size - FOOTER_BYTES
    tail = file.read_at(at, FOOTER_BYTES) if at >= 0 else b""
    records, _, _ = scan(tail, 0, len(tail), FOOTER_BYTES - HEADER_BYTES)
    if len(records) != 1 or records[0][0] != Kind.FOOTER or len(tail) != FOOTER_BYTES:
        return None
    position, count, last = _FOOTER.unpack(tail[HEADER_BYTES:])
    if position > at:
        raise Corrupt(name, at, FOOTER_BYTES, f"the footer names an index at {position}, behind itself")
    record, data = record_at(file, name, position, size)
    if record[0] != Kind.INDEX:
        raise Corrupt(name, position, len(data), "index and footer do not agree")
    return _SealedEnd(position, count, last, record, data)


def must_be_sealed(disk: Disk, name: str, size: int) -> None:
    """This segment was sealed when it had this size. Neither its records are read nor what its index says. Raises Corrupt,
    FileNotFoundError."""
    file = disk.open(name)
    try:
        actual = file.size()
        if actual != size:
            reason = f"{size} bytes were written, {actual} are there"
            raise Corrupt(name, min(size, actual), abs(size - actual), reason)
        if _sealed_end(file, name, size) is None:
            at = max(0, size - FOOTER_BYTES)
            raise Corrupt(name, at, size - at, "its end is damaged")
    finally:
        file.close()

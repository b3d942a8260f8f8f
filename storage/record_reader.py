"""One record out of a file of records, by its position."""

from __future__ import annotations

from typing import Protocol

from native.crc32c import crc32c
from storage.errors import Corrupt
from storage.record import HEADER, HEADER_BYTES, PAYLOAD_BYTES_MAX, Record, payload_length, scan

CHECKSUM_BYTES = 4  # the first ones of a record, which is over the others
# Read at a time to check a large record: the piece stays in the processor's cache, and its memory in the heap.
CHECK_BYTES = 64 << 10


class Bytes(Protocol):
    """What is read of a file, whether it is one or lies in memory."""

    def read_at(self, offset: int, size: int) -> bytes: ...

    def size(self) -> int: ...


class BytesInMemory:
    """Fulfils Bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_at(self, offset: int, size: int) -> bytes:
        return self._content[offset : offset + size]

    def size(self) -> int:
        return len(self._content)


def must_be_of(record: Record, writer: int, index: int, name: str, position: int) -> None:
    """A block that was written to another place has sound records, and not those that are looked for. Raises Corrupt."""
    _, _, _, found_writer, found_index, start, end = record
    if (found_writer, found_index) != (writer, index):
        found = f"the record here has index {found_index} of writer {found_writer}"
        raise Corrupt(name, position, end - start, f"{found}, and index {index} of writer {writer} was written here")


def record_at(file: Bytes, name: str, position: int, end: int) -> tuple[Record, bytes]:
    """The record that begins here, and the bytes its positions refer to; they end before `end`. Raises Corrupt."""
    header = file.read_at(position, HEADER_BYTES)
    length = HEADER_BYTES + (payload_length(header) if len(header) == HEADER_BYTES else 0)
    if position + length > end:
        raise Corrupt(name, position, max(0, end - position), f"a record of {length} bytes does not fit here")
    return whole_record(file, name, position, length)


def whole_record(file: Bytes, name: str, position: int, length: int) -> tuple[Record, bytes]:
    """As `record_at`, of a record whose length is known. Raises Corrupt."""
    data = file.read_at(position, length)
    records, stop, _ = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
    if len(records) != 1 or stop != length:
        raise Corrupt(name, position, length, "the checksum of a record differs, or no whole record lies here")
    return records[0], data


def check_record(file: Bytes, name: str, position: int, length: int) -> tuple[Record, bytes]:
    """The record of `length` bytes that begins here, and its first bytes, CHECK_BYTES at most. All are read, a piece at a time,
    and its checksum is right: for a large one that is to be sent from the file. Raises Corrupt."""
    first = file.read_at(position, min(length, CHECK_BYTES))
    if len(first) < HEADER_BYTES:
        raise Corrupt(name, position, length, "the file ends within the header of a record")
    checksum, payload_bytes, kind, _, flags, term, writer, index = HEADER.unpack_from(first)
    found = crc32c(memoryview(first)[CHECKSUM_BYTES:])
    for at in range(len(first), length, CHECK_BYTES):
        found = crc32c(file.read_at(position + at, min(CHECK_BYTES, length - at)), found)
    if HEADER_BYTES + payload_bytes != length or found != checksum:
        raise Corrupt(name, position, length, "the checksum of a record differs")
    return (kind, flags, term, writer, index, HEADER_BYTES, length), first

"""Large entries where they lie: in a file of the log, one that is kept, or a segment of their group.

A large entry is alone in its record (raft/core/packs.py), so it is one piece of its file, and can leave the node from there
without being read into memory. It is read once before, to check its record; what was found sound does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from raft.core import packs
from raft.store.segments import OpenSegments, Wanted
from storage.disk import File
from storage.errors import Corrupt
from storage.file_piece import FilePiece
from storage.record import HEADER_BYTES, Kind
from storage.record_reader import check_record, must_be_of

# Smaller ones are read: finding and checking them in their file costs as much as copying them does. Records of this size hold
# one entry, with very few exceptions.
LARGE_BYTES_MIN = 128 << 10
_BEFORE_DATA = HEADER_BYTES + packs.ONE_HEAD_BYTES


class EntryInFile(NamedTuple):
    """A record that begins with an entry, and probably holds no other."""

    group: int
    entry: int
    name: str  # of the file
    file: File
    position: int
    length: int

    @property
    def size(self) -> int:
        """Of the entry."""
        return self.length - _BEFORE_DATA

    def check(self) -> bytes | None:
        """The first bytes of the entry; the checksum of its record is right. None: others are in the record. Raises Corrupt."""
        record, first = check_record(self.file, self.name, self.position, self.length)
        must_be_of(record, self.group, self.entry, self.name, self.position)
        if record[0] != Kind.RAFT_ENTRIES:
            raise Corrupt(self.name, self.position, self.length, f"a record of kind {record[0]} holds no entries")
        alone = packs.holds_one(memoryview(first)[HEADER_BYTES:], self.length - HEADER_BYTES)
        return first[_BEFORE_DATA:] if alone else None

    def piece(self, start: int, on_failed: Callable[[str], None]) -> FilePiece:
        """The entry, from this byte on."""
        return FilePiece(self.file, self.position + _BEFORE_DATA + start, self.size - start, on_failed)


def large_entry(group: int, index: int, name: str, file: File, position: int, length: int) -> EntryInFile | None:
    return EntryInFile(group, index, name, file, position, length) if length >= LARGE_BYTES_MIN else None


def entry_in_segments(open_segments: OpenSegments, wanted: Wanted, index: int) -> EntryInFile | None:
    """A large entry that begins a record. None: it has to be read, by `read_segments`. Raises Corrupt."""
    for row in reversed(wanted.segments):
        if not row.first <= index <= row.last:
            continue
        place = open_segments.get(wanted.group, row.number).place_from(index)
        if place is not None:
            return _at(open_segments, wanted.group, row.number, *place) if place[0] == index else None
    return None


def _at(open_segments: OpenSegments, group: int, number: int, index: int, position: int) -> EntryInFile | None:
    return large_entry(group, index, *open_segments.record_of(group, number, index, position))

"""Segments whose entries stay in the file of the node's log that they were written to.

Copying a large stream out of the log writes all of it a second time. A log file of which one group's entries are at least a
half is kept instead: it gets a second name beside the group's segments (a hard link), the log lets go of its own, and a segment
is written that says where the packs lie in it:

    RAFT_PLACE ...     index, term and flags as those of the pack's record; payload: offset u64 | size u32, of the pack in the
                       log file | count u32: how many of its entries count
    INDEX, FOOTER      as in any segment

It is read, rewritten once less than half of its entries count, and deleted as any other segment is (raft/store/segments.py),
and the kept file with it. So a group holds at most about four times what counts of it. The log's commits were fsynced long
before, and the new name becomes durable together with the segment's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from raft.core.messages import Entry
from raft.store.entry_records import entries_of
from storage.disk import Disk, File
from storage.errors import Corrupt
from storage.names import group_kept_log
from storage.record import HEADER_BYTES, Kind, Record
from storage.record_reader import must_be_of, record_at

_PLACE = Struct("<QII")
PLACE_BYTES = HEADER_BYTES + _PLACE.size  # of a record that says where a pack lies


class KeptPack(NamedTuple):
    """A pack of a group in a log file."""

    first: int
    term: int
    kind: int
    offset: int
    size: int
    entry_count: int  # of its entries that count: others behind them were overwritten


def encode_place(pack: KeptPack) -> bytes:
    return _PLACE.pack(pack.offset, pack.size, pack.entry_count)


def is_place(record: Record) -> bool:
    return record[0] == Kind.RAFT_PLACE


def decode_place(name: str, place: Record, data: bytes) -> tuple[int, int, int]:
    """Offset and size of the pack, and how many of its entries count. Raises Corrupt."""
    _, _, _, _, first, start, end = place
    if end - start != _PLACE.size:
        raise Corrupt(name, 0, 0, f"a place of {end - start} bytes for entry {first}")
    offset, size, count = _PLACE.unpack_from(data, start)
    return offset, size, count


def worth_keeping(packs: Sequence[KeptPack], file_bytes: int, pack_bytes_min: int) -> bool:
    """Whether the file has little else, and what says where its packs lie is small beside them. Without bytes it is missing."""
    size = sum(pack.size for pack in packs)
    return 0 < file_bytes <= size * 2 and size >= len(packs) * pack_bytes_min


def open_kept(disk: Disk, group: int, number: int) -> tuple[str, File]:
    """The log file that belongs to this segment. Raises Corrupt."""
    name = group_kept_log(group, number)
    try:
        return name, disk.open(name)
    except FileNotFoundError as error:
        raise Corrupt(name, 0, 0, "the file is missing") from error


def entries_in(name: str, file: File, group: int, place: Record, data: bytes, ahead_bytes: int = 0) -> list[Entry]:
    """The entries that count of the pack that is at this place of a kept file. With `ahead_bytes` what follows is fetched: as
    much again, and so many bytes. Raises Corrupt."""
    first = place[4]
    offset, size, count = decode_place(name, place, data)
    if ahead_bytes:
        file.read_ahead(offset + size, size + ahead_bytes)
    record, found = record_at(file, name, offset - HEADER_BYTES, offset + size)
    must_be_of(record, group, first, name, offset - HEADER_BYTES)
    entries = entries_of(name, group, record, found)
    if not 0 < count <= len(entries):
        raise Corrupt(name, offset, size, f"{len(entries)} entries lie where {count} should")
    return entries[:count]


def verify_entries(disk: Disk, group: int, names: tuple[str, str], records: Iterator[tuple[Record, bytes]]) -> None:
    """All entries of a segment with these names of its own and of its log file, if it has one. Raises Corrupt."""
    own, kept = names
    file: File | None = None
    try:
        for record, data in records:
            if not is_place(record):
                entries_of(own, group, record, data)
                continue
            file = file or disk.open(kept)
            entries_in(kept, file, group, record, data)
    except FileNotFoundError as error:
        raise Corrupt(kept, 0, 0, "the file is missing") from error
    finally:
        if file is not None:
            file.close()

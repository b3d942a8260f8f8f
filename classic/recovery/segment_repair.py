"""Repairs a damaged index segment at a start: what can be read of it takes its place.

A record is added that says which messages no content holds: the next start does not know any more that something is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from classic.recovery.survivors import DamagedSegment
from classic.store.index_entries import encode_ranges
from classic.store.node_storage import NodeStorage
from storage import names
from storage.disk import Buffer, Disk
from storage.errors import DiskFull
from storage.record import Kind, encode


def repair(storage: NodeStorage, queue_id: int, damaged: DamagedSegment) -> int | None:
    """Returns the size of the repaired file; None when there is no room for it, and the file is as it was."""
    parts: list[Buffer] = []
    at = 0
    for damage in sorted(damaged.damages):
        parts.append(damaged.data[at : damage.offset])
        at = damage.offset + damage.length
    parts.append(damaged.data[at:])
    if damaged.unheld:
        parts += encode(Kind.CLASSIC_INDEX_SETTLED, queue_id, damaged.segment.number, [encode_ranges(damaged.unheld)])
    try:
        replace_file(storage.disk, damaged.name, parts)
    except DiskFull:
        storage.found(f"there is no room to repair {damaged.name}")
        return None
    return sum(map(len, parts))


def replace_file(disk: Disk, name: str, parts: Sequence[Buffer]) -> None:
    """Another content for a file, durably: after a crash it is the old one or the new one. Raises DiskFull."""
    beside = names.temporary(name)
    with suppress(FileNotFoundError):  # of an attempt that a crash ended
        disk.delete(beside)
    file = disk.create(beside)
    try:
        file.write_at(0, parts)
        file.sync()
    finally:
        file.close()
    disk.rename(beside, name)
    disk.sync_dir(name.rpartition("/")[0])

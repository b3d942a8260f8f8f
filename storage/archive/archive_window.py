"""Which archived files have to go. A core: it is told what there is, how late it is, and what room there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

HOUR_MS = 3_600_000


class ArchiveLimits(NamedTuple):
    """The stricter one wins. What is older or more goes, the oldest first."""

    hours: int
    bytes_max: int
    free_min_bytes: int  # with less free on the disk the archive gives way


class ArchivedFile(NamedTuple):
    """One of the archive."""

    time_ms: int  # of the last that it tells of
    name: str
    size: int


def oldest_first(files: Iterable[ArchivedFile]) -> list[ArchivedFile]:
    """Files of one time in the order of their names, which is that of the log."""
    return sorted(files)


def to_delete(files: Sequence[ArchivedFile], limits: ArchiveLimits, now_ms: int, free_bytes: int) -> list[ArchivedFile]:
    """Of these, the oldest first."""
    until = now_ms - limits.hours * HOUR_MS
    too_many = sum(file.size for file in files) - limits.bytes_max
    too_few = limits.free_min_bytes - free_bytes
    gone: list[ArchivedFile] = []
    for file in files:
        if file.time_ms >= until and too_many <= 0 and too_few <= 0:
            break
        gone.append(file)
        too_many -= file.size
        too_few -= file.size
    return gone

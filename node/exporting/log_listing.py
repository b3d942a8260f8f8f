"""Which files a node has of its log, in `log/` and `archive/`, and how much of each is durable. All of it blocks.

A file that moves from `log/` into the archive meanwhile is found under one of its names. Of the file that is written, what
counts is what had been fsynced when this was asked. The others end where the head of their successor says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from storage.disk import Disk
from storage.names import (
    ARCHIVE_DIRECTORY,
    LOG_DIRECTORY,
    LOG_SUFFIX,
    RAFT_DIRECTORY,
    SNAPSHOT_SUFFIX,
    group_file_of,
    number_of,
    numbered,
    numbers_in,
)
from storage.record import MARK_BYTES, PAYLOAD_BYTES_MAX, ROLL_BYTES, Kind, decode_mark, decode_roll, scan

HEAD_BYTES = ROLL_BYTES + MARK_BYTES


class DurableEnd(NamedTuple):
    """Up to where the log is fsynced."""

    file: int
    offset: int


class ListedFile(NamedTuple):
    name: str
    size: int
    first_us: int = 0  # of its first mark; 0: not known
    last_us: int = 0  # of the first mark behind it; 0: there is none, or not known
    open: bool = False


class LogInventory(NamedTuple):
    snapshots: list[ListedFile]
    log: list[ListedFile]
    gaps: list[tuple[int, int]]  # first and last number of files that are missing

    @property
    def first_us(self) -> int:
        return next((file.first_us for file in self.log if file.first_us), 0)


class _Head(NamedTuple):
    """What the first bytes of a log file say."""

    log_id: bytes
    previous_end: int
    time_us: int


def list_log(disk: Disk, durable: DurableEnd) -> LogInventory:
    """Raises StorageError."""
    names = log_names(disk)
    heads = {number: head for number, name in names.items() if (head := _head(disk, name)) is not None}
    found: dict[int, ListedFile] = {}
    for number, name in names.items():
        size = end_of(disk, name, number, durable, heads.get(number + 1))
        if size:
            head, successor = heads.get(number), heads.get(number + 1)
            first_us = head.time_us if head is not None else 0
            last_us = successor.time_us if successor is not None else 0
            found[number] = ListedFile(name, size, first_us, last_us, number == durable.file)
    numbers = list(found)
    gaps = [(one + 1, other - 1) for one, other in pairwise(numbers) if other > one + 1]
    return LogInventory(list(_snapshots(disk)), list(found.values()), gaps)


def log_names(disk: Disk) -> dict[int, str]:
    """Where each file of the log is now, by ascending number. The archive is listed twice, as files move there."""
    found: dict[int, str] = {}
    for directory in (ARCHIVE_DIRECTORY, LOG_DIRECTORY, ARCHIVE_DIRECTORY):
        for number in numbers_in(disk.list(directory), LOG_SUFFIX):
            found[number] = numbered(directory, number, LOG_SUFFIX)
    return dict(sorted(found.items()))


def current_name(disk: Disk, name: str) -> str | None:
    """Where the file of this name, as listed before, is now; None: it was deleted."""
    base = name.rpartition("/")[2]
    kept = f"{ARCHIVE_DIRECTORY}/{base}"
    if number_of(base, LOG_SUFFIX) is not None:
        first = f"{LOG_DIRECTORY}/{base}"
    elif group_file_of(base, SNAPSHOT_SUFFIX) is not None:
        first = f"{RAFT_DIRECTORY}/{base}"
    else:
        return None
    return next((one for one in (kept, first, kept) if disk.exists(one)), None)


def length_of(disk: Disk, name: str, durable: DurableEnd) -> int:
    """How much of this file there is to read. Raises FileNotFoundError."""
    number = number_of(name, LOG_SUFFIX)
    if number is None:
        return _size(disk, name)
    successor = log_names(disk).get(number + 1)
    return end_of(disk, name, number, durable, None if successor is None else _head(disk, successor))


def end_of(disk: Disk, name: str, number: int, durable: DurableEnd, successor: _Head | None) -> int:
    """Where the last durable record of a log file ends; 0: none was written to it, or it was deleted."""
    if number >= durable.file:
        return durable.offset if number == durable.file else 0
    size = _size(disk, name)
    head = _head(disk, name)
    if successor is None or head is None or head.log_id != successor.log_id:
        return size  # with the zeros behind its last record
    return min(size, successor.previous_end)


def _snapshots(disk: Disk) -> Iterator[ListedFile]:
    seen: set[str] = set()
    for directory in (ARCHIVE_DIRECTORY, RAFT_DIRECTORY):
        for base in disk.list(directory):
            if group_file_of(base, SNAPSHOT_SUFFIX) is not None and base not in seen:
                seen.add(base)
                name = f"{directory}/{base}"
                if size := _size(disk, name):
                    yield ListedFile(name, size)


def _size(disk: Disk, name: str) -> int:
    """0 of a file that was deleted meanwhile."""
    try:
        file = disk.open(name)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _head(disk: Disk, name: str) -> _Head | None:
    try:
        file = disk.open(name)
    except FileNotFoundError:
        return None
    try:
        data = file.read_at(0, HEAD_BYTES)
    finally:
        file.close()
    records, _, _ = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
    if not records or records[0][0] != Kind.ROLL:
        return None
    roll = decode_roll(data[records[0][5] : records[0][6]])
    if roll is None:
        return None
    mark = decode_mark(data[records[1][5] : records[1][6]]) if len(records) > 1 and records[1][0] == Kind.MARK else None
    return _Head(roll.log_id, roll.previous_end, mark.time_us if mark is not None else 0)

"""What the queues knew when the node was stopped in order, so that the next start need not find it out.

One file for the node, written last and removed, durably, before a start changes anything: so it is never older than what it
speaks of. It is a snapshot file (storage/snapshot_file.py) with `CleanStop` as MessagePack. Whatever the log holds beyond
`next_index` was written later and is replayed on top.
"""

from __future__ import annotations

import msgspec

from storage import snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import CLASSIC_CLEAN_STOP, CLASSIC_DIRECTORY

VERSION = 1

Ranges = list[tuple[int, int]]


class LevelSummary(msgspec.Struct, array_like=True):
    """One priority of a queue. Runs are blocks of classic/store/index_entries.py."""

    next_sequence: int
    ready_bytes: int
    ready: Ranges
    older: list[bytes]  # runs before delta, in q4 and q3
    delta: tuple[int, int, int]  # start, end, count
    newer: list[bytes]  # runs behind it, in q2 and q1


class QueueSummary(msgspec.Struct, array_like=True):
    levels: list[LevelSummary]
    redelivered: Ranges


class CleanStop(msgspec.Struct):
    version: int
    next_index: int  # of the classic records in the log
    queues: dict[int, QueueSummary]
    live: dict[int, int]  # logged messages that live, by log file
    store: list[tuple[int, int, int, int, int, int]]  # id (two parts), file, offset, size, references


def save(disk: Disk, summary: CleanStop) -> None:
    snapshot_file.save(disk, CLASSIC_CLEAN_STOP, [msgspec.msgpack.encode(summary)])


def take(disk: Disk) -> CleanStop | None:
    """What the last stop left, which is gone then, durably. None after a crash. Raises Corrupt: then it is still there."""
    try:
        summary = decode(snapshot_file.load(disk, CLASSIC_CLEAN_STOP))
    except FileNotFoundError:
        return None
    remove(disk)
    return summary


def decode(payload: bytes) -> CleanStop:
    """Raises Corrupt."""
    try:
        summary = msgspec.msgpack.decode(payload, type=CleanStop)
    except msgspec.MsgspecError as error:
        raise Corrupt(CLASSIC_CLEAN_STOP, 0, len(payload), str(error)) from error
    if summary.version != VERSION:
        raise Corrupt(CLASSIC_CLEAN_STOP, 0, len(payload), f"its version is {summary.version}, not {VERSION}")
    return summary


def remove(disk: Disk) -> None:
    disk.delete(CLASSIC_CLEAN_STOP)
    disk.sync_dir(CLASSIC_DIRECTORY)

"""The bytes of a record: the log, and every append-only file of ours, is a sequence of these.

Little endian, 32 bytes, then the payload:

    offset  size  field
         0     4  crc32c       over the other 28 bytes of the header and the payload
         4     4  payload_len
         8     1  kind         see below; 0 is none, so zeros are never a record
         9     1  version      of the payload's format
        10     2  flags        the kind's own
        12     4  term         0 where there is no election
        16     8  writer       whose record it is: the id of a queue or of a Raft group; 0 is the log itself
        24     8  index        its place in the writer's order

The payload of MARK and of ROLL, the log's own records:

    MARK, 72 bytes; 64, without time_us, in old logs  ROLL, 40 bytes; the first record of each log file
    offset size field                                 offset size field
         0   16 log_id                                     0   16 log_id
        16    8 file          where this record           16    8 file          number of this file
        24    8 offset        itself lies                 24    8 previous_end  where the log ended in the file before
        32    8 durable_file  up to where the log         32    8 commit        the first one in this file
        40    8 durable_offset  had been fsynced
        48    8 commit        that this record is in
        56    8 first_of      1: begins its commit, 0: stands within it
        64    8 time_us       when it was made, by the wall clock of the
                              node, µs since 1970; it may jump either way

A mark knows its own place and the log's id, which no client ever learns. So a payload that imitates a mark, or holds the
copy of a whole log, is never taken for one.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from native.record_scan import CLEAN_END, DAMAGED, REACHED_END, TORN, Record, scan, seal
from storage.disk import Buffer

HEADER_BYTES = 32
VERSION = 1
PAYLOAD_BYTES_MAX = 1 << 30  # a bound for what a length field may claim; a message may have at most 512 MiB

HEADER = Struct("<IIBBHIQQ")
_MARK = Struct("<16sQQQQQQQ")
_MARK_WITHOUT_TIME = Struct("<16sQQQQQQ")
_ROLL = Struct("<16sQQQ")
MARK_BYTES = HEADER_BYTES + _MARK.size
MARK_BYTES_MIN = HEADER_BYTES + _MARK_WITHOUT_TIME.size
ROLL_BYTES = HEADER_BYTES + _ROLL.size
assert HEADER.size == HEADER_BYTES


class Kind(IntEnum):
    """What a record says. A kind's number is never given to another one. Below 16: the file's own records."""

    MARK = 1
    ROLL = 2
    INDEX = 3  # these two: storage/segment.py
    FOOTER = 4
    CLASSIC_PUBLISH = 16
    CLASSIC_SETTLE = 17
    CLASSIC_PURGE = 18
    CLASSIC_QUEUE_DELETED = 19
    CLASSIC_INDEX = (
        20  # these four: files of classic queues, see classic/store/index_entries.py and classic/store/store.py
    )
    CLASSIC_INDEX_SETTLED = 21
    CLASSIC_BODY = 22
    CLASSIC_STORED = 23
    CLASSIC_DONE = 24  # these four: classic/store/log_records.py
    CLASSIC_OUT = 25
    CLASSIC_BACK = 26
    CLASSIC_CHECKPOINT = 27
    RAFT_ENTRIES = 32  # replicated logs; all of these: raft/store/group_records.py
    RAFT_FACTS = 33
    RAFT_GROUP = 34
    RAFT_GROUP_REMOVED = 35
    RAFT_RENUMBERED = 36
    RAFT_SNAPSHOT = 37  # also the head of a snapshot file; these three: the rest of it, see raft/store/snapshots.py
    RAFT_LIVE = 38
    RAFT_STATE = 39
    RAFT_SNAPSHOT_END = 40
    RAFT_PLACE = 41  # of entries that stay in a log file: raft/store/kept_logs.py
    RAFT_COMMIT = 42  # for readers of the past: raft/store/group_records.py
    ACTOR = 48  # these three: storage/history/name_records.py
    ACTOR_GONE = 49
    NAME = 50
    COUNTS = 51  # storage/history/count_records.py
    STREAM_READERS = 52  # storage/history/reader_records.py


FIRST_KIND_OF_WRITERS = 16
_MARK_KIND = Kind.MARK  # for every commit: to look a member up in its Enum takes Python 3.11 a fifth of a microsecond


class Mark(NamedTuple):
    """A point of the log that says up to where everything before it had been fsynced."""

    log_id: bytes
    file: int
    offset: int
    durable_file: int
    durable_offset: int
    commit: int
    begins_commit: bool
    time_us: int = 0  # 0: not known, as in marks of 64 bytes


class Roll(NamedTuple):
    """The head of a log file."""

    log_id: bytes
    file: int
    previous_end: int
    commit: int


def encode(kind: int, writer: int, index: int, parts: list[Buffer], flags: int = 0, term: int = 0) -> list[Buffer]:
    """The record as buffers to be written one behind the other."""
    return [seal(parts, kind, flags, term, writer, index, VERSION), *parts]


def encode_mark(mark: Mark) -> bytes:
    payload = _MARK.pack(*mark)
    return bytes(seal([payload], _MARK_KIND, 0, 0, 0, mark.commit, VERSION)) + payload


def decode_mark(payload: Buffer) -> Mark | None:
    """The mark in this payload, None if it does not have a size of one."""
    time_us = 0
    if len(payload) == _MARK.size:
        log_id, file, offset, durable_file, durable_offset, commit, first_of, time_us = _MARK.unpack(payload)
    elif len(payload) == _MARK_WITHOUT_TIME.size:
        log_id, file, offset, durable_file, durable_offset, commit, first_of = _MARK_WITHOUT_TIME.unpack(payload)
    else:
        return None
    return Mark(log_id, file, offset, durable_file, durable_offset, commit, first_of == 1, time_us)


def encode_roll(roll: Roll) -> bytes:
    payload = _ROLL.pack(*roll)
    return bytes(seal([payload], Kind.ROLL, 0, 0, 0, roll.commit, VERSION)) + payload


def decode_roll(payload: Buffer) -> Roll | None:
    """The file's head in this payload, None if it does not have the size of one."""
    return Roll(*_ROLL.unpack(payload)) if len(payload) == _ROLL.size else None


def payload_length(header: Buffer) -> int:
    """What the length field of a header claims; to be trusted only once the checksum was right."""
    return int.from_bytes(header[4:8], "little")


# The kernel's names for what it finds, so that nobody else needs to know where they come from.
__all__ = ["CLEAN_END", "DAMAGED", "REACHED_END", "TORN", "Record", "scan", "seal"]

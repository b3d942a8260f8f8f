"""How far consumers of streams are: the records that say it, bytes that are none, and when they are written."""

from __future__ import annotations

import pytest

from broker.actors import ActorKind, LogActor
from storage.history.file_names import FileNames
from storage.history.reader_progress import ReaderPlace, ReaderProgressLog
from storage.history.reader_records import ReaderRow, decode_readers, encode_readers
from storage.record import Kind
from tests.unit.storage.test_unlogged_counts import Log

ROWS = [ReaderRow(7, 1 << 32 | 3, 2**64 - 1), ReaderRow(8, 1 << 32 | 3, 5, has_left=True)]
# As they were first written, and are to be read for ever.
OLD = bytes.fromhex("070000000300000001000000ffffffffffffffff00080000000300000001000000050000000000000001")


def test_readers_are_read_as_they_were_first_written() -> None:
    assert encode_readers(ROWS) == OLD
    assert decode_readers(memoryview(OLD)) == ROWS
    assert decode_readers(b"") == []


def test_what_is_cut_off_is_no_record_of_readers() -> None:
    for length in set(range(len(OLD))) - {0, len(OLD) // 2}:
        with pytest.raises(ValueError, match="readers of streams"):
            decode_readers(OLD[:length])


def test_who_moved_and_who_left_are_told_behind_their_names_and_nothing_is_told_of_nobody() -> None:
    log = Log()
    progress = ReaderProgressLog(log, FileNames(log, 1))
    progress.tell()
    assert log.kinds == []
    connection = LogActor(ActorKind.CONNECTION, user="ann")
    moving, leaving = (LogActor(ActorKind.CONSUMER, connection) for _ in range(2))
    progress.left(ReaderPlace(leaving, 1 << 32 | 3, "s", 5))
    progress.tell([ReaderPlace(moving, 1 << 32 | 3, "s", 9)])
    assert log.kinds == [Kind.NAME, Kind.ACTOR, Kind.ACTOR, Kind.ACTOR, Kind.STREAM_READERS]
    assert decode_readers(log.payloads[-1]) == [
        ReaderRow(moving.number, 1 << 32 | 3, 9),
        ReaderRow(leaving.number, 1 << 32 | 3, 5, has_left=True),
    ]
    progress.tell()
    progress.left(ReaderPlace(leaving, 1 << 32 | 3, "s", 5))
    log.failed = "the disk"
    progress.tell()
    log.failed = None
    progress.tell()
    assert len(log.kinds) == 5

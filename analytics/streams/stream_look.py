"""One pass over a file of a log, for the entries of streams in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, reader_of
from analytics.inputs import LogFile
from analytics.queue_events import FileEvents, QueueName
from native.columns import numbers, row_of
from native.log_columns import RECORDS
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from raft.core.packs import decode as unpacked
from replicated.local_members import QUEUE_GROUPS
from storage.history.column_reader import ColumnPiece
from storage.record import HEADER_BYTES, Kind
from stream.chunks.entries import ChunkEntry, LogEntry, RetentionCut, StoredOffsets, decode

STREAM = "stream"  # as groups of streams call their machine
_WRITER = next(at for at, one in enumerate(RECORDS) if one.name == "writer")


class LoggedChunk(NamedTuple):
    """Messages that were published together."""

    first_offset: int
    messages: int
    bytes: int
    time_ms: int


class LoggedStreamEntry(NamedTuple):
    """One entry of a stream's log, as a file has it. `said` is None where it is about nothing that is told."""

    place: int  # its index in the log
    term: int
    said: LoggedChunk | StoredOffsets | RetentionCut | None


@dataclass(slots=True)
class FileStreams(FileWindow):
    """What one file has. Plain values: it travels between processes."""

    names: dict[int, str] = field(default_factory=dict)
    entries: dict[int, list[LoggedStreamEntry]] = field(default_factory=dict)  # by group, in the order of the file


def look_for_streams(file: LogFile, *, tail: bool) -> FileStreams:
    """A file that its node has deleted meanwhile tells nothing."""
    seen = FileStreams(file)
    with suppress(FileNotFoundError):
        reader, durable = reader_of(file, tail=tail)
        said = FileEvents(file.number, durable)
        for piece in reader.pieces():
            seen.note_times(piece)
            for one in said.said(piece):
                if isinstance(one, QueueName) and one.kind == STREAM and one.queue >= QUEUE_GROUPS:
                    seen.names[one.queue] = one.name
            for group, entry in _entries_of(piece, seen.names):
                seen.entries.setdefault(group, []).append(entry)
        seen.damage = reader.damage
    return seen


def _entries_of(piece: ColumnPiece, streams: dict[int, str]) -> Iterator[tuple[int, LoggedStreamEntry]]:
    kinds, writers = piece.kinds(), numbers(RECORDS[_WRITER], piece.records[1][_WRITER])
    for row, writer in enumerate(writers):
        if kinds[row] == Kind.RAFT_ENTRIES and writer in streams:
            record = row_of(RECORDS, piece.records, row)
            start = record["offset"] - piece.base + HEADER_BYTES
            payload = bytes(memoryview(piece.buffer)[start : start + record["size"]])
            with suppress(BadBytes):  # it is sealed, and of no version that is known
                for one in unpacked(record["index"], record["term"], record["flags"], payload):
                    is_command = one.kind == EntryKind.COMMAND
                    yield (
                        writer,
                        LoggedStreamEntry(one.index, one.term, _told(decode(one.data)) if is_command else None),
                    )


def _told(entry: LogEntry) -> LoggedChunk | StoredOffsets | RetentionCut | None:
    if isinstance(entry, ChunkEntry):
        header = entry.header
        return LoggedChunk(header.first_offset, header.message_count, header.size, header.time_ms)
    return entry if isinstance(entry, StoredOffsets | RetentionCut) else None

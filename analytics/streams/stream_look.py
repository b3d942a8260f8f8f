"""One pass over a file of a log, for the entries of streams in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, entries_of, looked_through
from analytics.inputs import LogFile
from analytics.queue_events import QueueName
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from replicated.local_members import QUEUE_GROUPS
from storage.disk import Buffer
from stream.chunks.entries import ChunkEntry, RetentionCut, StoredOffsets, decode

STREAM = "stream"  # as groups of streams call their machine


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
    seen = FileStreams(file)
    for piece, said in looked_through(seen, tail=tail):
        for one in said:
            if isinstance(one, QueueName) and one.kind == STREAM and one.queue >= QUEUE_GROUPS:
                seen.names[one.queue] = one.name
        for group, entry in entries_of(piece, seen.names):
            told = _told(entry.data) if entry.kind == EntryKind.COMMAND else None
            seen.entries.setdefault(group, []).append(LoggedStreamEntry(entry.index, entry.term, told))
    return seen


def _told(data: Buffer) -> LoggedChunk | StoredOffsets | RetentionCut | None:
    try:
        entry = decode(data)
    except BadBytes:  # of a version that is not known
        return None
    if isinstance(entry, ChunkEntry):
        header = entry.header
        return LoggedChunk(header.first_offset, header.message_count, header.size, header.time_ms)
    return entry if isinstance(entry, StoredOffsets | RetentionCut) else None

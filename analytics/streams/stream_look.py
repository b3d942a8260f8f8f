"""One pass over a file that has entries of streams: one of the log, or a segment of a stream's log."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, LoggedEntry, LookedPiece, entries_of, looked_through
from analytics.inputs import LogFile, segment_group
from analytics.named_actors import NamedActors, connection_of
from analytics.queue_events import STREAM, QueueEvent, QueueName
from native.columns import rows_of
from native.log_columns import readers
from native.log_tables import READERS
from raft.core.errors import BadBytes
from raft.core.messages import Entry, EntryKind
from replicated.local_members import QUEUE_GROUPS
from storage.disk import Buffer
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow
from storage.names import ARCHIVE_DIRECTORY
from storage.record import Kind
from stream.chunks.chunk import CHUNK_HEADER_BYTES, must_be_sound
from stream.chunks.entries import ChunkEntry, decode, head_of, read_prefix


class LoggedStreamEntry(NamedTuple):
    """One entry of a stream's log, as a file has it."""

    place: int  # its index in the log
    term: int
    kind: int  # an EntryKind
    # What changes the machine: of a chunk without its data, of which it has a checksum. So copies with equal heads are equal,
    # as far as nothing is at fault with them.
    head: bytes
    size: int  # of all of it
    fault: str | None = None  # a chunk with this head has other data
    durable: bool = True
    written: int = 0

    def event(self, group: int, node: str) -> QueueEvent:
        return QueueEvent(
            group, self.place, self.term, Kind.RAFT_ENTRIES, None, self.kind, self.head, self.size, self.durable,
            self.written, node,
        )  # fmt: skip


class ReaderKey(NamedTuple):
    """A consumer of one process of a node."""

    incarnation: int
    actor: int


class LoggedReader(NamedTuple):
    """Where a consumer of a stream was last."""

    stream: int  # its group
    next_offset: int  # of the message that it is given next
    has_left: bool
    at: int | None  # µs
    consumer: ActorRow
    connection: ActorRow | None


@dataclass(slots=True)
class FileStreams(FileWindow):
    """What one file has. Plain values: it travels between processes."""

    names: dict[int, str] = field(default_factory=dict)
    entries: dict[int, list[LoggedStreamEntry]] = field(default_factory=dict)  # by group, in the order of the file
    standing: list[QueueEvent] = field(default_factory=list)  # what the node says of its members, of other queues too
    readers: dict[ReaderKey, LoggedReader] = field(default_factory=dict)  # where each of them was last

    @property
    def is_archived(self) -> bool:
        """No start of the node reads it."""
        return self.file.name.startswith(ARCHIVE_DIRECTORY)

    def groups(self) -> set[int]:
        """Whose entries it has, or says to be committed; of a segment none, for that is no part of the log."""
        said = {one.queue for one in self.standing if one.kind == Kind.RAFT_COMMIT}
        return {*self.entries, *said} if segment_group(self.file) is None else set()

    def note(self, looked: LookedPiece) -> None:
        """What it says of streams and their members."""
        for one in looked.said:
            if not isinstance(one, QueueName | QueueEvent) or one.queue < QUEUE_GROUPS:
                continue
            if isinstance(one, QueueEvent):
                self.standing.append(one._replace(node=self.file.node))
            elif one.kind == STREAM:
                self.names[one.queue] = one.name


def look_for_streams(file: LogFile, *, tail: bool) -> FileStreams:
    seen = FileStreams(file)
    group, actors = segment_group(file), NamedActors()
    for looked in looked_through(seen, tail=tail):
        seen.note(looked)
        # A file of the log that is kept as a segment has entries of other groups, too, and does not count for these; and what
        # it says of readers a later file says anew.
        for logged in entries_of(looked, seen.names if group is None else (group,)):
            seen.entries.setdefault(logged.group, []).append(logged_stream_entry(logged))
        if group is None:
            actors.read(looked.piece)
            seen.readers |= _readers(looked.piece, actors)
    return seen


def _readers(piece: ColumnPiece, actors: NamedActors) -> dict[ReaderKey, LoggedReader]:
    found: dict[ReaderKey, LoggedReader] = {}
    for row in rows_of(READERS, readers(piece.buffer, piece.base, piece.records)):
        owners = actors.owners_at(row["offset"], row["actor"])
        if owners:
            found[ReaderKey(owners[0].incarnation, row["actor"])] = LoggedReader(
                row["stream"], row["next_offset"], bool(row["has_left"]), row["time"], owners[0], connection_of(owners)
            )
    return found


def logged_stream_event(logged: LoggedEntry, node: str) -> QueueEvent:
    """For a fold, which needs no data of chunks."""
    entry = logged.entry
    return LoggedStreamEntry(
        entry.index,
        entry.term,
        entry.kind,
        _head_of(entry),
        len(entry.data),
        durable=logged.durable,
        written=logged.written,
    ).event(logged.group, node)


def _head_of(entry: Entry) -> bytes:
    """What cannot be read has all of its bytes for a head: whoever takes it says what is wrong."""
    if entry.kind == EntryKind.COMMAND:
        with suppress(BadBytes):
            read_prefix(entry.data)
            return bytes(head_of(entry.data))
    return bytes(entry.data)


def logged_stream_entry(logged: LoggedEntry) -> LoggedStreamEntry:
    """For a proof, which looks at them."""
    entry = logged.entry
    fault = _fault_of(entry.data) if entry.kind == EntryKind.COMMAND else None
    return LoggedStreamEntry(
        entry.index, entry.term, entry.kind, _head_of(entry), len(entry.data), fault, logged.durable, logged.written
    )


def _fault_of(data: Buffer) -> str | None:
    try:
        said = decode(data)
    except BadBytes:
        return None  # the fold says what is wrong
    try:
        if isinstance(said, ChunkEntry):
            must_be_sound(said.header, memoryview(said.chunk)[CHUNK_HEADER_BYTES:])
    except BadBytes as error:
        return str(error)
    return None

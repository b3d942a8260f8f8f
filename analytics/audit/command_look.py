"""One pass over a file of a log, for the entries of the metadata log in it, and for who the node and its actors are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, reader_of
from analytics.inputs import LogFile
from analytics.queue_events import ActorName, FileEvents, QueueEvent
from broker.catalog.metadata_entry import METADATA_GROUP
from native.columns import numbers, row_of
from native.log_columns import RECORDS
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind, node_of
from raft.core.packs import decode
from raft.store.group_records import read_identity
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow
from storage.record import HEADER_BYTES, Kind

_WRITER = next(at for at, one in enumerate(RECORDS) if one.name == "writer")
_SAY_COMMITTED = (Kind.RAFT_COMMIT, Kind.RAFT_SNAPSHOT)


class LoggedCommand(NamedTuple):
    """One entry of the metadata log, as a file has it."""

    place: int  # its index in the log
    term: int
    command: bytes | None  # None: it is of the group itself, as a new term or member


@dataclass(slots=True)
class FileCommands(FileWindow):
    """What one file has. Plain values: it travels between processes."""

    entries: list[LoggedCommand] = field(default_factory=list)
    committed: int = 0  # so many entries are known to be
    node: int | None = None  # number of the node, where the file says it
    actors: dict[tuple[int, int], ActorRow] = field(default_factory=dict)  # by incarnation and number


def look_for_commands(file: LogFile, *, tail: bool) -> FileCommands:
    """A file that its node has deleted meanwhile tells nothing."""
    seen = FileCommands(file)
    with suppress(FileNotFoundError):
        reader, durable = reader_of(file, tail=tail)
        said = FileEvents(file.number, durable)
        for piece in reader.pieces():
            seen.note_times(piece)
            for one in said.said(piece):
                if isinstance(one, ActorName):
                    seen.actors[one.row.incarnation, one.number] = one.row
                elif isinstance(one, QueueEvent):
                    _note_member(seen, one)
            seen.entries += _entries_of(piece)
        seen.damage = reader.damage
    return seen


def _note_member(seen: FileCommands, said: QueueEvent) -> None:
    """What the node says of its member of some group."""
    if said.kind == Kind.RAFT_GROUP:
        seen.node = node_of(read_identity(said.queue, ByteReader(said.data)).member)
    if said.queue == METADATA_GROUP and said.kind in _SAY_COMMITTED:
        seen.committed = max(seen.committed, said.first)


def _entries_of(piece: ColumnPiece) -> list[LoggedCommand]:
    found: list[LoggedCommand] = []
    kinds, writers = piece.kinds(), numbers(RECORDS[_WRITER], piece.records[1][_WRITER])
    for row, writer in enumerate(writers):
        if writer == METADATA_GROUP and kinds[row] == Kind.RAFT_ENTRIES:
            record = row_of(RECORDS, piece.records, row)
            start = record["offset"] - piece.base + HEADER_BYTES
            payload = bytes(memoryview(piece.buffer)[start : start + record["size"]])
            with suppress(BadBytes):  # it is sealed, and of no version that is known: its entries are told as missing
                for one in decode(record["index"], record["term"], record["flags"], payload):
                    is_command = one.kind == EntryKind.COMMAND
                    found.append(LoggedCommand(one.index, one.term, bytes(one.data) if is_command else None))
    return found

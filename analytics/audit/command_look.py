"""One pass over a file of a log, for the entries of the metadata log in it, and for who the node and its actors are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, entries_of, looked_through
from analytics.inputs import LogFile
from analytics.queue_events import ActorName, QueueEvent
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from raft.core.byte_reader import ByteReader
from raft.core.messages import EntryKind, node_of
from raft.store.group_records import read_identity
from storage.history.name_records import ActorRow
from storage.record import Kind

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
    seen = FileCommands(file)
    for looked in looked_through(seen, tail=tail):
        for one in looked.said:
            if isinstance(one, ActorName):
                seen.actors[one.row.incarnation, one.number] = one.row
            elif isinstance(one, QueueEvent):
                _note_member(seen, one)
        for logged in entries_of(looked, (METADATA_GROUP,)):
            entry = logged.entry
            command = bytes(entry.data) if entry.kind == EntryKind.COMMAND else None
            seen.entries.append(LoggedCommand(entry.index, entry.term, command))
    return seen


def _note_member(seen: FileCommands, said: QueueEvent) -> None:
    """What the node says of its member of some group."""
    if said.kind == Kind.RAFT_GROUP:
        seen.node = node_of(read_identity(said.queue, ByteReader(said.data)).member)
    if said.queue == METADATA_GROUP and said.kind in _SAY_COMMITTED:
        seen.committed = max(seen.committed, said.first)

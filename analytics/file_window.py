"""What one pass over a file of a log stands on, whatever it looks for: when its records were written, and what is damaged."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.coverage import Coverage, DamagedBytes, MissingFiles, but_oldest, iso_time, missing_between
from analytics.inputs import LogFile, NodeDisk, segment_group, unless_deleted, without_bodies
from analytics.lost_records import deleted, lost_of
from analytics.queue_events import FileEvents, Said
from native.columns import numbers, row_of
from native.log_tables import RECORDS
from raft.core.errors import BadBytes
from raft.core.messages import Entry
from raft.core.packs import decode
from storage.history.column_reader import ColumnPiece, ColumnReader, DamagedRange, durable_end
from storage.history.name_records import ActorRow
from storage.record import HEADER_BYTES, Kind

OWNERS_MAX = 4  # a consumer, its channel, its connection, and one for what nobody foresees
_TIME, _WRITER = (next(at for at, one in enumerate(RECORDS) if one.name == name) for name in ("time", "writer"))


@dataclass(slots=True)
class FileWindow:
    """Of one file. Plain values: it travels between processes."""

    file: LogFile
    damage: list[DamagedRange] = field(default_factory=list)
    first: int | None = None  # µs: when its first and last records were written
    last: int | None = None

    def note_times(self, piece: ColumnPiece) -> None:
        times = numbers(RECORDS[_TIME], piece.records[1][_TIME])
        first = next((time for time in times if time), None)
        if first is not None:
            self.first = first if self.first is None else self.first
            self.last = next(time for time in reversed(times) if time)


def reader_of(file: LogFile, *, tail: bool) -> tuple[ColumnReader, int | None]:
    """And up to where what it reads is known to be durable; None: all is."""
    disk = NodeDisk(file.directory)
    reader = ColumnReader(disk, file.name, is_followed=not file.is_last, until_durable=file.is_last and not tail)
    return reader, durable_end(disk, file.name) if file.is_last and tail else None


def looked_through(seen: FileWindow, *, tail: bool) -> Iterator[LookedPiece]:
    """Piece by piece; times and damage are noted, and so is that its node has deleted the file meanwhile."""
    seen.damage = deleted(seen.file)
    with unless_deleted(seen.file):
        reader, durable = reader_of(seen.file, tail=tail)
        events = FileEvents(seen.file.number, durable, is_segment=segment_group(seen.file) is not None)
        for piece in reader.pieces():
            seen.note_times(piece)
            yield LookedPiece(piece, events, events.said(piece))
        seen.damage = lost_of(seen.file, reader)


class LookedPiece(NamedTuple):
    """Consecutive records of a file that is looked through."""

    piece: ColumnPiece
    events: FileEvents
    said: list[Said]  # of names and members


class LoggedEntry(NamedTuple):
    """An entry of a group's log."""

    group: int
    entry: Entry
    durable: bool
    written: int  # as of a QueueEvent


def entries_of(looked: LookedPiece, groups: Container[int]) -> Iterator[LoggedEntry]:
    """Those of the logs of these groups. A record of a version that is not known has none."""
    piece = looked.piece
    kinds, writers = piece.kinds(), numbers(RECORDS[_WRITER], piece.records[1][_WRITER])
    for row, writer in enumerate(writers):
        if kinds[row] == Kind.RAFT_ENTRIES and writer in groups:
            record = row_of(RECORDS, piece.records, row)
            start = record["offset"] - piece.base + HEADER_BYTES
            payload = bytes(memoryview(piece.buffer)[start : start + record["size"]])
            durable = looked.events.is_durable(record["offset"])
            with suppress(BadBytes):
                for one in decode(record["index"], record["term"], record["flags"], payload):
                    yield LoggedEntry(writer, one, durable, looked.events.written_base + record["offset"])


def coverage_of(files: Sequence[LogFile], seen: Sequence[FileWindow]) -> Coverage:
    firsts = [one.first for one in seen if one.first is not None]
    lasts = [one.last for one in seen if one.last is not None]
    damage = [
        DamagedBytes(one.file.node, one.file.number, lost.offset, lost.length, lost.torn, lost.reason)
        for one in seen
        for lost in one.damage
    ]
    damage = but_oldest(damage, ((one.node, one.number) for one in files))
    nodes = sorted({one.node for one in files})
    first, last = iso_time(min(firsts, default=None)), iso_time(max(lasts, default=None))
    size = sum(one.size for one in files)
    return Coverage(nodes, len(files), size, first, last, damage, without_bodies(files))


def missing_files(files: Iterable[LogFile]) -> tuple[MissingFiles, ...]:
    """`files`: all that nodes have of their logs."""
    return missing_between((one.node, one.number) for one in files)


def owners(actors: Mapping[int, ActorRow], actor: object) -> list[ActorRow]:
    """An actor of one file, and to whom it belongs."""
    found: list[ActorRow] = []
    while isinstance(actor, int) and actor in actors and len(found) < OWNERS_MAX:
        found.append(actors[actor])
        actor = actors[actor].parent
    return found

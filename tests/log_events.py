"""What files of logs say, event by event, as the folds of analytics/ take it, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from analytics.inputs import LogFile
from analytics.queue_events import FileEvents, QueueEvent, Said
from native.columns import rows_of
from native.log_tables import EVENTS
from storage.history.column_reader import ColumnPiece, ColumnReader
from storage.os_disk import OsDisk


def pieces_of(file: LogFile) -> Iterator[ColumnPiece]:
    return ColumnReader(OsDisk(file.directory, read_only=True), file.name, is_followed=not file.is_last).pieces()


def said_in(found: ColumnPiece, events: FileEvents) -> Iterator[Said]:
    """All that a piece says, row by row."""
    yield from events.said(found)
    for row in rows_of(EVENTS, events.events(found)):
        offset = row.pop("offset")
        yield QueueEvent(**row, durable=events.is_durable(offset), written=events.written_base + offset)


def said_in_file(file: LogFile) -> Iterator[Said]:
    events = FileEvents(file.number)
    for piece in pieces_of(file):
        for said in said_in(piece, events):
            yield said._replace(node=file.node) if isinstance(said, QueueEvent) else said

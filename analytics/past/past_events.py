"""What one file of the log tells of one queue, in the form in which folds take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from analytics.file_window import FileWindow, LookedPiece, looked_through
from analytics.inputs import LogFile
from analytics.past.file_contents import NO_ENTRIES, IndexSpan
from analytics.queue_events import QueueEvent
from native.columns import BINARY, numbers, rows_at
from native.log_tables import EVENTS
from storage.record import Kind

_QUEUE, _DATA = (next(at for at, one in enumerate(EVENTS) if one.name == name) for name in ("queue", "data"))
_NUMBERS = tuple(one for one in EVENTS if one.kind != BINARY)


@dataclass(slots=True)
class FilePast(FileWindow):
    """Plain values: it travels between processes."""

    standing: list[QueueEvent] = field(default_factory=list)  # what the node says of its member
    events: list[QueueEvent] = field(default_factory=list)  # of a replicated log those that were asked for
    span: IndexSpan = NO_ENTRIES  # of all of its entries there


def past_of(file: LogFile, queue: int, wanted: range, *, tail: bool) -> FilePast:
    """`wanted`: of a replicated log the indexes of the entries that are asked for."""
    found = FilePast(file)
    for looked in looked_through(found, tail=tail):
        found.standing += [
            one._replace(node=file.node) for one in looked.said if isinstance(one, QueueEvent) and one.queue == queue
        ]
        for event in events_of(looked, queue, file.node):
            if event.kind != Kind.RAFT_ENTRIES:
                found.events.append(event)
                continue
            found.span = found.span.over(IndexSpan(event.place, event.place))
            if event.place in wanted:
                found.events.append(event)
    return found


def events_of(looked: LookedPiece, queue: int, node: str) -> Iterator[QueueEvent]:
    """Only its own rows are decoded, of a table of all queues' events."""
    count, columns = looked.events.events(looked.piece)
    rows = [row for row, one in enumerate(numbers(EVENTS[_QUEUE], columns[_QUEUE])) if one == queue]
    if not rows:
        return
    _, offsets, data = columns[_DATA]
    assert offsets is not None and data is not None, "events without data"
    ends = memoryview(offsets).cast("i")
    others = count, tuple(column for one, column in zip(EVENTS, columns, strict=True) if one.kind != BINARY)
    for row, values in zip(rows, rows_at(_NUMBERS, others, rows), strict=True):
        offset = values.pop("offset")
        written, durable = looked.events.written_base + offset, looked.events.is_durable(offset)
        payload = data[ends[row] : ends[row + 1]]
        yield QueueEvent(**values, data=payload, durable=durable, written=written, node=node)

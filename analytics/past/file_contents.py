"""Which queues a file of the log tells of, and since when.

An archived file has a summary beside it that says both. Of another file, of a damaged one, and beside a summary of an earlier
build, the first mark says when it begins, and all of it is read for its queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, looked_through
from analytics.inputs import LogFile, NodeDisk, unless_deleted
from analytics.queue_events import QUEUE_KINDS, QueueEvent, QueueName, queue_name
from native.columns import Table, numbers
from native.log_tables import EVENTS, RECORDS
from raft.core.packs import PACK_ENTRIES_MAX
from storage import snapshot_file
from storage.archive.summary import Summary
from storage.errors import StorageError
from storage.history.column_reader import ColumnReader
from storage.names import ARCHIVE_DIRECTORY, archived_summary
from storage.os_disk import OsDisk
from storage.record import Kind

YET_TO_COME_US = 1 << 62
HEAD_BYTES = 4_096  # of a file: its first mark lies in it
_QUEUE, _PLACE, _KIND = (
    next(at for at, one in enumerate(EVENTS) if one.name == name) for name in ("queue", "place", "kind")
)
_TIME, _WRITER = (next(at for at, one in enumerate(RECORDS) if one.name == name) for name in ("time", "writer"))


class IndexSpan(NamedTuple):
    """Of one group in one file: all of its entries there lie within."""

    first: int
    last: int

    def over(self, other: IndexSpan) -> IndexSpan:
        return IndexSpan(min(self.first, other.first), max(self.last, other.last))


NO_ENTRIES = IndexSpan(1 << 63, 0)  # of a classic queue, and of a group of which a file has other records only


class DatedFile(NamedTuple):
    """A file, and when it begins: µs, None if it does not say."""

    file: LogFile
    begin: int | None
    summary: Summary | None


@dataclass(slots=True)
class FileContents(FileWindow):
    """Plain values: it travels between processes."""

    queues: dict[int, IndexSpan] = field(default_factory=dict)
    names: dict[int, QueueName] = field(default_factory=dict)  # of those that the file has a name for
    others: set[int] = field(default_factory=set)  # logs of no queue; a classic queue may have the same number
    may_be_gone: set[int] = field(default_factory=set)  # groups of which it may say that the node's member was removed

    def note_names(self, names: Iterable[QueueName]) -> None:
        for one in names:
            if one.kind in QUEUE_KINDS:
                self.names[one.queue] = one
            else:
                self.others.add(one.queue)


def dated(file: LogFile) -> DatedFile:
    """A file that says only that others are missing before it tells of no moment: those may."""
    if file.is_behind_gap:
        return DatedFile(file, YET_TO_COME_US, None)
    summary = summary_beside(file)
    if summary is not None and summary.first_us:
        return DatedFile(file, summary.first_us, summary)
    return DatedFile(file, _first_time(file), summary)


def summary_beside(file: LogFile) -> Summary | None:
    """None: there is none, or none that says which queues all of the file is of."""
    if not file.name.startswith(ARCHIVE_DIRECTORY):
        return None
    name = archived_summary(file.name)
    try:
        found = Summary.decode(name, snapshot_file.load(OsDisk(file.directory, read_only=True), name))
    except (FileNotFoundError, StorageError):
        return None
    return found if found.whole and found.queues is not None else None


def _first_time(file: LogFile) -> int | None:
    with unless_deleted(file):
        reader = ColumnReader(NodeDisk(file.directory), file.name, end=HEAD_BYTES, piece_bytes=HEAD_BYTES)
        for piece in reader.pieces():
            return next((time for time in numbers(RECORDS[_TIME], piece.records[1][_TIME]) if time), None)
    return None


def contents_of(one: DatedFile, *, tail: bool) -> FileContents:
    return read_contents(one.file, tail=tail) if one.summary is None else _of_summary(one.file, one.summary)


def _of_summary(file: LogFile, summary: Summary) -> FileContents:
    """A record is counted by the first of its entries."""
    assert summary.queues is not None, f"the summary of {file.name} does not say which queues it is of"
    found = FileContents(file, first=summary.first_us, last=summary.last_us)
    found.queues = {queue: NO_ENTRIES for queue, _ in summary.queues}
    for row in summary.writers:
        if row.writer:
            found.queues[row.writer] = IndexSpan(row.first_index, row.last_index + PACK_ENTRIES_MAX - 1)
            if row.first_index == 0:  # as of that record, and of few others
                found.may_be_gone.add(row.writer)
    found.note_names(queue_name(queue, name) for queue, name in summary.queues if name is not None)
    return found


def read_contents(file: LogFile, *, tail: bool) -> FileContents:
    found = FileContents(file)
    for looked in looked_through(found, tail=tail):
        found.note_names(one for one in looked.said if isinstance(one, QueueName))
        found.may_be_gone.update(
            one.queue for one in looked.said if isinstance(one, QueueEvent) and one.kind == Kind.RAFT_GROUP_REMOVED
        )
        for group in set(numbers(RECORDS[_WRITER], looked.piece.records[1][_WRITER])) - {0}:
            found.queues.setdefault(group, NO_ENTRIES)
        for queue, span in _spans(looked.events.events(looked.piece)):
            found.queues[queue] = found.queues.get(queue, NO_ENTRIES).over(span)
    return found


def _spans(events: Table) -> Iterator[tuple[int, IndexSpan]]:
    queues, places, kinds = (numbers(EVENTS[at], events[1][at]) for at in (_QUEUE, _PLACE, _KIND))
    for queue, place, kind in zip(queues, places, kinds, strict=True):
        yield queue, IndexSpan(place, place) if kind == Kind.RAFT_ENTRIES else NO_ENTRIES

"""What a file of the log says that a classic queue had: CLASSIC_CHECKPOINT of classic/store/log_records.py.

A payload that does not fit its record's kind says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import error as struct_error
from typing import NamedTuple

from analytics.file_window import FileWindow, looked_through
from analytics.fold.queue_history import HistoryFold
from analytics.inputs import LogFile
from analytics.past.past_events import events_of
from analytics.queue_events import QueueEvent
from classic.store.log_records import Checkpoint, decode_checkpoint
from native.log_tables import FILE_BITS
from storage.record import Kind


class FoldBegin(NamedTuple):
    """A classic queue's fold as of a checkpoint, and what happened behind it."""

    fold: HistoryFold
    behind: list[QueueEvent]
    file: int  # that has the checkpoint

    def knows_who_is_out(self, end: int) -> bool:
        """Whether files up to this moment, µs, begin with a checkpoint each that says which messages there are: so
        `history.level` was full, what went out is told, and what a start has found ready, too."""
        firsts = {file_of(event): event for event in reversed(self._until(end))}
        return all(file == self.file or _has_ranges(event) for file, event in firsts.items())

    def last_file(self, end: int) -> int:
        """The newest one that tells something of before this moment, µs."""
        return max(map(file_of, self._until(end)), default=self.file)

    def _until(self, end: int) -> list[QueueEvent]:
        return [event for event in self.behind if event.at is not None and event.at < end]


def file_of(event: QueueEvent) -> int:
    """The number of the file that it is in, of an event of a classic queue."""
    return event.place >> FILE_BITS


def newest_begin(events: Sequence[QueueEvent], before: int) -> FoldBegin | None:
    """`events`: of one queue, in their order. `before`: µs."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if event.kind == Kind.CLASSIC_CHECKPOINT and event.at is not None and event.at < before:
            fold = _fold_at(event)
            if fold is not None:
                return FoldBegin(fold, list(events[at + 1 :]), file_of(event))
    return None


def _fold_at(event: QueueEvent) -> HistoryFold | None:
    made = checkpoint_in(event)
    if made is None or not made.has_ranges:
        return None
    fold = HistoryFold()
    try:
        fold.begin_at(made)
    except (ValueError, ArithmeticError):
        return None
    return fold


def _has_ranges(event: QueueEvent) -> bool:
    made = checkpoint_in(event) if event.kind == Kind.CLASSIC_CHECKPOINT else None
    return made is not None and made.has_ranges


def checkpoint_in(event: QueueEvent) -> Checkpoint | None:
    try:
        return decode_checkpoint(memoryview(event.data))
    except (ValueError, struct_error):
        return None


def first_checkpoint(file: LogFile, queue: int, *, tail: bool) -> Checkpoint | None:
    """The file is read up to there."""
    return next((made for event in _checkpoints(file, queue, tail=tail) if (made := checkpoint_in(event))), None)


def _checkpoints(file: LogFile, queue: int, *, tail: bool) -> Iterator[QueueEvent]:
    for looked in looked_through(FileWindow(file), tail=tail):
        if bytes([Kind.CLASSIC_CHECKPOINT]) in looked.piece.kinds():
            yield from (event for event in events_of(looked, queue, file.node) if event.kind == Kind.CLASSIC_CHECKPOINT)

"""What folds of one queue have to do with a past second, whatever its kind, and a classic queue at one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from analytics.file_window import FileWindow
from analytics.fold.lives import Life
from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold
from analytics.inputs import LogFile
from analytics.jobs.figures import MS, LifeTimes, QueueFigures, figures_at
from analytics.past.log_timeline import LogTimeline
from analytics.past.past_events import FilePast, past_of
from analytics.queue_events import CLASSIC_KINDS
from analytics.workers import Workers
from classic.stored_run import LEVEL_SHIFT

FILES_AT_ONCE = 16  # whose events are in memory
NO_WINDOW = range(0)


class QueuePast(NamedTuple):
    """One queue at the second that was asked for."""

    figures: QueueFigures
    unknown: str | None  # why something is not known; None: all is


class PastReader:
    """Reads files for one queue after the other, and notes what was read."""

    def __init__(self, workers: Workers, *, tail: bool) -> None:
        self.windows: dict[LogFile, FileWindow] = {}
        self._workers = workers
        self._tail = tail

    def read(self, files: Iterable[LogFile], queue: int, wanted: range) -> list[FilePast]:
        found = self._workers.each(partial(past_of, queue=queue, wanted=wanted, tail=self._tail), files)
        self.note(found)
        return found

    def note(self, seen: Iterable[FileWindow]) -> None:
        for one in seen:
            self.windows[one.file] = FileWindow(one.file, one.damage, one.first, one.last)


class TimesOfLives:
    """Lives as figures look at them, without those that were over before the second: most of a long history."""

    def __init__(self, second: int) -> None:
        self.times: list[LifeTimes] = []
        self.is_partial = False
        self.begins: dict[int, int] = {}  # by priority of a classic queue, the first sequence that is told of
        self.older: list[Life] = []  # of a snapshot, and still there at the end of the second
        self._start, self._end = second * MS, (second + 1) * MS

    def take(self, lives: Iterable[Life], *, of_group: bool) -> None:
        for life in lives:
            self.is_partial |= life.partial
            level, sequence = life.entry >> LEVEL_SHIFT, life.entry + life.first
            self.begins[level] = min(sequence, self.begins.get(level, sequence))
            is_known = life.publish.at is not None or (of_group and life.partial)
            if is_known and life.ended_at is not None and life.ended_at < self._start:
                continue
            self.times.append(
                LifeTimes(life.count, life.state, life.publish.at, life.ended_at, of_group and life.partial)
            )
            if of_group and life.partial and (life.ended_at is None or life.ended_at >= self._end):
                self.older.append(life)

    def begins_late(self) -> bool:
        return any(first != level << LEVEL_SHIFT for level, first in self.begins.items())


def classic_past(reader: PastReader, timeline: LogTimeline, queue: int, second: int) -> QueuePast:
    """Each file that tells of the queue counts, for nothing else says what was in it when a file began."""
    fold, lives = HistoryFold(), TimesOfLives(second)
    files = [one.file for one in timeline.telling_of(queue, 1)]
    for at in range(0, len(files), FILES_AT_ONCE):
        for one in reader.read(files[at : at + FILES_AT_ONCE], queue, NO_WINDOW):
            for event in one.events:
                if event.kind in CLASSIC_KINDS:  # the catalog's log has the number of a queue
                    fold.take(event)
        lives.take(fold.take_ended(), of_group=False)
    fold.end()
    lives.take(fold.history.lives, of_group=False)
    is_late = lives.is_partial or lives.begins_late() or (not lives.begins and timeline.late_begins())
    why = fold.history.unknown or (PUBLISHED_BEFORE if is_late else None)
    return QueuePast(figures_at(lives.times, None, second), why)

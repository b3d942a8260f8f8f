"""What folds of one queue have to do with a past second, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from analytics.file_window import FileWindow
from analytics.fold.lives import Life
from analytics.inputs import LogFile
from analytics.jobs.figures import MS, LifeTimes, QueueFigures
from analytics.past.past_events import FilePast, past_of
from analytics.workers import Workers
from classic.stored_run import LEVEL_SHIFT

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
        self.tail = tail

    def read(self, files: Iterable[LogFile], queue: int, wanted: range) -> list[FilePast]:
        found = self._workers.each(partial(past_of, queue=queue, wanted=wanted, tail=self.tail), files)
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
        self.older: list[Life] = []  # of a state at which reading began, and still there at the end of the second
        self._start, self._end = second * MS, (second + 1) * MS

    def take(self, lives: Iterable[Life], *, from_state: bool) -> None:
        """`from_state`: what was there when reading began is known, and is older than the second."""
        for life in lives:
            self.is_partial |= life.partial
            level, sequence = life.entry >> LEVEL_SHIFT, life.entry + life.first
            self.begins[level] = min(sequence, self.begins.get(level, sequence))
            is_known = life.publish.at is not None or (from_state and life.partial)
            if is_known and life.ended_at is not None and life.ended_at < self._start:
                continue
            self.times.append(
                LifeTimes(life.count, life.state, life.publish.at, life.ended_at, from_state and life.partial)
            )
            if from_state and life.partial and (life.ended_at is None or life.ended_at >= self._end):
                self.older.append(life)

    def begins_late(self) -> bool:
        return any(first != level << LEVEL_SHIFT for level, first in self.begins.items())

"""A classic queue at a past second, from those files that can tell of it.

Its fold begins at the newest checkpoint of before that second. What was there already is older than the second; when the oldest
of it was published says the file whose first checkpoint does not know it and behind which the next one does. Where there are
no checkpoints, as of a node whose `history.level` was not full, each file that tells of the queue counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from struct import error as struct_error

from analytics.fold.lives import Life, LifeState
from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold
from analytics.inputs import LogFile
from analytics.jobs.figures import MS, figures_at
from analytics.past.checkpoints import FoldBegin, file_of, first_checkpoint, newest_begin
from analytics.past.log_timeline import LogTimeline
from analytics.past.past_events import FilePast
from analytics.past.past_fold import PastReader, QueuePast, TimesOfLives
from analytics.queue_events import CLASSIC_KINDS, QueueEvent
from classic.store.log_records import decode_published
from classic.stored_run import LEVEL_SHIFT
from storage.record import Kind

FILES_AT_ONCE = 16  # whose events are in memory
FILES_FOR_A_CHECKPOINT = (
    4  # are read one by one, from the second back; where there is none in these there will hardly be one
)
NO_WINDOW = range(0)
US = 1_000  # of a ms


class NoCheckpoint(Exception):
    """A file that tells of the queue has none of it."""


class ClassicPast:
    """See the module. One question."""

    def __init__(self, reader: PastReader, timeline: LogTimeline, queue: int, second: int) -> None:
        self._reader = reader
        self._timeline = timeline
        self._queue = queue
        self._second = second
        self._files = [one.file for one in timeline.telling_of(queue, 1, maybe=True)]

    def told(self) -> QueuePast:
        begins = [(files, begin) for files in self._by_node() if (begin := self._begin_in(files)) is not None]
        if len(begins) == 1:  # the catalog's log, which each node has, has the number of a queue
            try:
                return self._from_checkpoint(*begins[0])
            except NoCheckpoint:
                pass
        return self._from_the_first()

    def _by_node(self) -> Iterable[list[LogFile]]:
        return (list(those) for _, those in groupby(self._files, attrgetter("node")))

    def _begin_in(self, files: Sequence[LogFile]) -> FoldBegin | None:
        behind: list[QueueEvent] = []
        for file in reversed(files[-FILES_FOR_A_CHECKPOINT:]):
            behind[:0] = self._events([file])
            begin = newest_begin(behind, self._second * MS * US)
            if begin is not None:
                return begin
        return None

    def _events(self, files: Sequence[LogFile]) -> list[QueueEvent]:
        read: list[FilePast] = self._reader.read(files, self._queue, NO_WINDOW)
        return [event for one in read for event in one.events if event.kind in CLASSIC_KINDS]

    def _from_checkpoint(self, files: Sequence[LogFile], begin: FoldBegin) -> QueuePast:
        """Raises NoCheckpoint."""
        lives = TimesOfLives(self._second)
        fold = begin.fold
        end = (self._second + 1) * MS * US
        states: dict[LifeState, int] | None = None
        for event in begin.behind:
            if states is None and event.at is not None and event.at >= end:
                states = _states(fold)
            fold.take(event)
        states = _states(fold) if states is None else states
        fold.end()
        lives.take(fold.history.lives, from_state=True)
        figures = figures_at(lives.times, None, self._second)
        is_certain = not states[LifeState.OUT] or self._tells_to_the_end(files, begin, end)
        if is_certain and begin.knows_who_is_out(end) and sum(states.values()) == figures.messages:
            figures = figures._replace(ready=states[LifeState.READY], unacknowledged=states[LifeState.OUT])
        node, why = files[0].node, fold.history.unknown
        if why in (None, PUBLISHED_BEFORE):
            why = self._timeline.lost_behind(node, begin.file) or self._timeline.open_end(node)
        if lives.older:
            at = self._oldest_of(lives.older, files)
            figures = figures._replace(oldest_ms=None if at is None else (self._second + 1) * MS - at)
            why = why or (self._why_no_age(lives.older, files, begin.file) if at is None else None)
        return QueuePast(figures, why)

    def _tells_to_the_end(self, files: Sequence[LogFile], begin: FoldBegin, end: int) -> bool:
        """Whether the newest file tells of the queue. Else its node may have been killed before that: then what was out is
        ready, and the log says so only with its next word of the queue."""
        return self._timeline.last_begun(files[0].node) <= begin.last_file(end)

    def _oldest_of(self, older: Iterable[Life], files: Sequence[LogFile]) -> int | None:
        """When it was published, ms; None: no file has it any more. Raises NoCheckpoint."""
        times = [self._published_at(sequence, files) for sequence in _firsts(older)]
        known = [time for time in times if time is not None]
        return min(known) if len(known) == len(times) else None

    def _published_at(self, sequence: int, files: Sequence[LogFile]) -> int | None:
        later = self._later(sequence, files)
        for event in self._events([files[later - 1]]) if later else ():
            if event.kind == Kind.CLASSIC_PUBLISH and event.at is not None and _publishes(event, sequence):
                return event.at // US
        return None

    def _later(self, sequence: int, files: Sequence[LogFile]) -> int:
        """How many of them began before it was published. Raises NoCheckpoint."""
        return bisect_right(files, sequence, key=lambda file: self._next_in(file, sequence >> LEVEL_SHIFT))

    def _why_no_age(self, older: Iterable[Life], files: Sequence[LogFile], until: int) -> str | None:
        """None: an archive has given way, and nothing else is missing where it was published."""
        read = self._reader.windows.values()
        for sequence in _firsts(older):
            later = self._later(sequence, files)
            first = files[later - 1].number if later else 0
            last = files[later].number if later < len(files) else until
            if (lost := self._timeline.lost_within(files[0].node, first, last, read)) is not None:
                return lost
        return None

    def _next_in(self, file: LogFile, level: int) -> int:
        """The sequence that comes next where the file begins to tell of the queue. Raises NoCheckpoint."""
        made = first_checkpoint(file, self._queue, tail=self._reader.tail)
        if made is None or level >= len(made.next_sequences):
            raise NoCheckpoint
        return made.next_sequences[level]

    def _from_the_first(self) -> QueuePast:
        fold, lives = HistoryFold(), TimesOfLives(self._second)
        since: dict[str, int] = {}  # by node that has had the queue, the first file that tells of it
        for at in range(0, len(self._files), FILES_AT_ONCE):
            for event in self._events(self._files[at : at + FILES_AT_ONCE]):
                since.setdefault(event.node, file_of(event))
                fold.take(event)
            lives.take(fold.take_ended(), from_state=False)
        fold.end()
        lives.take(fold.history.lives, from_state=False)
        is_late = lives.is_partial or lives.begins_late() or (not lives.begins and self._timeline.late_begins())
        gaps = (
            self._timeline.lost_behind(node, first) or self._timeline.open_end(node) for node, first in since.items()
        )
        why = fold.history.unknown or (PUBLISHED_BEFORE if is_late else None) or next(filter(None, gaps), None)
        return QueuePast(figures_at(lives.times, None, self._second), why)


def _firsts(older: Iterable[Life]) -> list[int]:
    """The first sequence of each priority."""
    firsts: dict[int, int] = {}
    for life in older:
        sequence = life.entry + life.first
        level = sequence >> LEVEL_SHIFT
        firsts[level] = min(sequence, firsts.get(level, sequence))
    return list(firsts.values())


def _states(fold: HistoryFold) -> dict[LifeState, int]:
    """How many messages are in each."""
    found = {LifeState.READY: 0, LifeState.OUT: 0}
    for life in fold.going_on():
        found[life.state] += life.count
    return found


def _publishes(event: QueueEvent, sequence: int) -> bool:
    """A payload that does not fit its record's kind publishes nothing."""
    try:
        messages = decode_published(memoryview(event.data)).message_count
    except (ValueError, IndexError, struct_error):
        return False
    return event.first <= sequence < event.first + messages

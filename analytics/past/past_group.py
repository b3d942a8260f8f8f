"""A quorum queue at a past second, from those files that can tell of it.

Its fold begins at the newest snapshot of before that second, and ends with the first entry behind it. Where that is not enough,
as across a gap, all of its log is folded, so no answer is less known than without the snapshot. Messages of the snapshot are
older than the second, and the entry of the oldest says how old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import error as struct_error
from typing import NamedTuple

from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold
from analytics.fold.quorum_queue import QueueFold, Second
from analytics.inputs import LogFile, SnapshotFile
from analytics.jobs.figures import MS, MachineSecond, figures_at
from analytics.past.file_contents import NO_ENTRIES, FileContents, IndexSpan
from analytics.past.log_timeline import LogTimeline
from analytics.past.past_events import FilePast
from analytics.past.past_fold import PastReader, QueuePast, TimesOfLives
from analytics.queue_events import QueueEvent, fold_order
from analytics.read_snapshots import snapshot_said
from quorum.fifo.commands import ENTRY_HEAD, ENTRY_VERSION
from raft.core.byte_reader import ByteReader
from raft.core.codec import read_meta
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from storage.record import Kind

WINDOW_ENTRIES = 200_000  # that are in memory: some 100 MB


class FoldStart(NamedTuple):
    """A snapshot of a group, and what its machine counted there."""

    said: QueueEvent
    state: QueueEvent
    counted: MachineSecond


def states_before(snapshots: Iterable[SnapshotFile], group: int, second: int) -> Iterator[FoldStart]:
    """Those of before this second, the newest first. What cannot be read is none."""
    for file in sorted((one for one in snapshots if one.group == group), key=lambda one: -one.number):
        said = snapshot_said(file)
        found = None if said is None else _fold_start(*said)
        if found is not None and found.counted.second < second:
            yield found


def _fold_start(said: QueueEvent, state: QueueEvent) -> FoldStart | None:
    try:
        meta = read_meta(ByteReader(state.data[: state.first]))
        machine = QueueFold((state.data[state.first :], meta.machine_version)).machine
    except (ValueError, BadBytes, struct_error):
        return None
    figures = machine.figures()
    counted = MachineSecond(
        machine.state.now // MS, figures.ready + figures.delayed, figures.unacknowledged, figures.consumers, 0
    )
    return FoldStart(said, state, counted)


class GroupPast:
    """See the module."""

    def __init__(
        self, reader: PastReader, timeline: LogTimeline, snapshots: Sequence[SnapshotFile], second: int
    ) -> None:
        self._reader = reader
        self._timeline = timeline
        self._snapshots = snapshots
        self._second = second

    def of(self, group: int) -> QueuePast:
        newest = next(states_before(self._snapshots, group, self._second), None)
        if newest is not None:
            fold = self._folded(group, [newest], begin=newest.state.place)
            if not fold.is_unclear:
                return self._told(group, fold)
        return self._told(group, self._folded(group, list(states_before(self._snapshots, group, self._second))))

    def _folded(self, group: int, states: list[FoldStart], begin: int = 0) -> _GroupFold:
        """Until an entry is behind the second, or there are no more: clocks of nodes differ, so it may be in a later file."""
        later, files = 1, self._timeline.telling_of(group, 1)
        while True:
            fold = _GroupFold(self._reader, group, states, self._second, files)
            fold.read([one.file for one in _behind(files, group, begin)], begin)
            later *= 2
            more = self._timeline.telling_of(group, later)
            if fold.is_past or len(more) == len(files):
                return fold
            files = more

    def _told(self, group: int, fold: _GroupFold) -> QueuePast:
        figures = figures_at(fold.lives.times, fold.counted(), self._second)
        why = fold.unknown or self._nothing_before(fold) or self._cut_short(group, fold)
        if fold.lives.older:
            entry = min(life.entry for life in fold.lives.older)
            at = self._time_of(group, entry, fold.files)
            figures = figures._replace(oldest_ms=None if at is None else (self._second + 1) * MS - at)
            why = why or (self._why_no_age(group, entry, fold.files) if at is None else None)
        return QueuePast(figures, why)

    def _why_no_age(self, group: int, entry: int, files: Iterable[FileContents]) -> str | None:
        """None: archives have given way, and nothing else is missing where the entry was."""
        spans: dict[str, dict[int, IndexSpan]] = {}
        for one in files:
            if one.queues[group] != NO_ENTRIES:
                spans.setdefault(one.file.node, {})[one.file.number] = one.queues[group]
        read = self._reader.windows.values()
        lost = (
            self._timeline.lost_within(
                node,
                max((number for number, span in those.items() if span.first <= entry), default=0),
                min((number for number, span in those.items() if span.first > entry), default=max(those)),
                read,
            )
            for node, those in spans.items()
        )
        return next(filter(None, lost), None)

    def _time_of(self, group: int, entry: int, files: Iterable[FileContents]) -> int | None:
        """ms; None: no file has it any more."""
        those = [one.file for one in files if one.queues[group].first <= entry <= one.queues[group].last]
        read = self._reader.read(those, group, range(entry, entry + 1))
        times = (_time_of(event) for one in read for event in one.events)
        return next((at for at in times if at is not None), None)

    def _cut_short(self, group: int, fold: _GroupFold) -> str | None:
        """Where an entry is behind the second, none before it is missing unseen."""
        return None if fold.is_past else self._timeline.cut_short(group)

    def _nothing_before(self, fold: _GroupFold) -> str | None:
        late = self._timeline.late_begins()
        return f"the log of {', '.join(late)} begins later" if late and fold.is_empty else None


def _behind(files: Sequence[FileContents], group: int, place: int) -> list[FileContents]:
    """Without those of which all entries are at or before this place; 0: all of them."""
    return [one for one in files if place == 0 or one.queues[group].last > place or group in one.may_be_gone]


class _GroupFold:
    """One attempt."""

    def __init__(
        self,
        reader: PastReader,
        group: int,
        states: Sequence[FoldStart],
        second: int,
        files: Sequence[FileContents],
    ) -> None:
        """`files`: that may tell of it, read or not."""
        self.files = files
        self.lives = TimesOfLives(second)
        self.is_past = False  # an entry is behind the second
        self.is_empty = not states
        self._reader = reader
        self._group = group
        self._states = sorted(states, key=lambda one: one.state.place)
        self._pending = list(self._states)
        self._second = second
        self._fold = HistoryFold()
        self._is_removed = False

    @property
    def unknown(self) -> str | None:
        """Messages of a snapshot were published before; that is all that is needed of them."""
        why = self._fold.history.unknown
        return None if why == PUBLISHED_BEFORE else why

    @property
    def is_unclear(self) -> bool:
        """More of the log may say more: entries are missing, or a member is gone, and files before say whose it was."""
        return self.unknown is not None or self._is_removed

    def read(self, files: Sequence[LogFile], begin: int) -> None:
        """`begin`: the entry behind which reading begins."""
        window = range(begin + 1, begin + 1 + WINDOW_ENTRIES)
        read = self._reader.read(files, self._group, window)
        spans = {one.file: one.span for one in read}
        self._take_standing(read)
        self._take_entries(read, window)
        while not self.is_past and (next_one := _next_window(spans, window)) is not None:
            window = next_one
            those = [file for file, span in spans.items() if span.first < window.stop and span.last >= window.start]
            self._take_entries(self._reader.read(those, self._group, window), window)
        self._take([one.state for one in self._pending])
        self._fold.end()
        self.lives.take(self._fold.history.lives, from_state=True)

    def _take_standing(self, read: Iterable[FilePast]) -> None:
        standing = [event for one in read for event in one.standing]
        self._is_removed = any(event.kind == Kind.RAFT_GROUP_REMOVED for event in standing)
        self._take([*standing, *(one.said for one in self._states)])

    def _take_entries(self, read: Iterable[FilePast], window: range) -> None:
        entries = [event for one in read for event in one.events]
        end = (self._second + 1) * MS
        self.is_past = any((_time_of(event) or 0) >= end for event in entries)
        self.is_empty &= not entries
        states = [one.state for one in self._pending if one.state.place < window.stop]
        del self._pending[: len(states)]
        self._take([*states, *entries])
        self.lives.take(self._fold.take_ended(), from_state=True)

    def _take(self, events: Iterable[QueueEvent]) -> None:
        for event in sorted(events, key=fold_order):
            self._fold.take(event)

    def counted(self) -> MachineSecond | None:
        """At the end of the last second up to this one in which something happened."""
        known = [one.counted for one in self._states]
        known += [_counted_in(one) for one in self._fold.history.seconds if one.second <= self._second]
        return max(known, key=lambda one: one.second, default=None)


def _time_of(event: QueueEvent) -> int | None:
    """ms, by the clock of the queue's leader, as all times of its messages are: that of the node whose log has the entry may
    be another one. None: of an entry that is no command of the queue."""
    if event.first != EntryKind.COMMAND or len(event.data) < ENTRY_HEAD.size:
        return None
    version, time_ms = ENTRY_HEAD.unpack_from(event.data)
    return time_ms if version == ENTRY_VERSION else None


def _next_window(spans: Mapping[LogFile, IndexSpan], window: range) -> range | None:
    left = [span for span in spans.values() if span.last >= window.stop]
    if not left:
        return None
    begin = max(window.stop, min(span.first for span in left))
    return range(begin, begin + WINDOW_ENTRIES)


def _counted_in(second: Second) -> MachineSecond:
    return MachineSecond(second.second, second.ready, second.unacknowledged, second.consumers, second.redelivered)

"""The log of a node, folded for one queue: which of its messages left as they are asked for, durably and for ever."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.file_window import FileWindow, looked_through, owners
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import Life
from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold
from analytics.inputs import LogFile, SnapshotFile
from analytics.named_actors import NamedActors
from analytics.past.file_contents import IndexSpan
from analytics.past.past_events import FilePast, events_of, past_of
from analytics.queue_events import CLASSIC_KINDS, ActorName, QueueEvent, fold_order
from analytics.read_snapshots import snapshot_said
from analytics.replay.choice import Choice
from native.log_tables import FILE_BITS
from quorum.fifo.commands import ConsumerKey
from storage.history.name_records import ActorRow

WINDOW_ENTRIES = 100_000  # of a quorum queue that are in memory: some 50 MB
RUNS_MAX = 500_000  # that are chosen at once; more are another replay, behind the last of these


class ChosenRun(NamedTuple):
    """Consecutive messages of a run that came to the same."""

    entry: int
    offset: int
    first: int
    messages: int
    end: str
    ended_at: int | None  # ms
    published_at: int | None
    exchange: str
    routing_key: str
    persistent: bool
    priority: int
    told_at: int  # the last place of the log that says something of it

    @property
    def run(self) -> tuple[int, int]:
        return self.entry, self.offset


@dataclass(slots=True)
class ChosenMessages:
    """What was chosen, in the order of places, and what that stands on."""

    runs: list[ChosenRun] = field(default_factory=list)
    windows: list[FileWindow] = field(default_factory=list)
    unknown: str | None = None  # why something is not known of the queue; None: all is
    uncommitted: int = 0  # messages that would be meant, of which it is not known that what is told of them counts
    unnamed: int = 0  # messages that would be meant if it were known who had them
    more: bool = False  # than RUNS_MAX were meant
    skipped: Counter[str] = field(default_factory=Counter)  # of the messages that left: how, and are not meant
    is_in_doubt: bool = (
        False  # whether all are meant that are: some were published before the log, with who knows which key
    )

    def skip(self, choice: Choice, life: Life, count: int) -> None:
        self.skipped[str(life.state)] += count
        self.is_in_doubt |= choice.may_take(life)

    def conclude(self, history: QueueHistory) -> None:
        self.unknown = history.unknown or (PUBLISHED_BEFORE if self.is_in_doubt else None)
        self.put_in_order()

    def put_in_order(self) -> None:
        self.runs.sort()
        self.more = len(self.runs) > RUNS_MAX
        del self.runs[RUNS_MAX:]


def chosen_of_classic(files: Sequence[LogFile], queue: int, choice: Choice) -> ChosenMessages:
    """Numbers of consumers are told apart record by record: a node that was started again gives them to others."""
    chosen, fold = ChosenMessages(), HistoryFold()
    for file in files:
        seen, actors = FileWindow(file), NamedActors()
        for looked in looked_through(seen, tail=False):
            actors.read(looked.piece)
            for event in events_of(looked, queue, file.node):
                if event.kind not in CLASSIC_KINDS:
                    continue  # the catalog's log has the number of a queue
                fold.take(event)
                at = event.written & (1 << FILE_BITS) - 1
                for life in fold.take_ended():
                    actor = life.last_consumer if isinstance(life.last_consumer, int) else None
                    _choose(chosen, choice, life, actors.owners_at(at, actor) if choice.consumer else ())
        chosen.windows.append(seen)
    fold.end()
    chosen.conclude(fold.history)
    return chosen


def chosen_of_group(
    files: Sequence[LogFile], snapshots: Iterable[SnapshotFile], group: int, choice: Choice
) -> ChosenMessages:
    return _GroupChoice(files, snapshots, group, choice).chosen()


def _choose(
    chosen: ChosenMessages, choice: Choice, life: Life, who: Sequence[ActorRow], *, of_group: bool = False
) -> None:
    first = choice.first_behind(life.entry, life.offset, life.first, of_group=of_group)
    count = life.end - first
    if count <= 0:
        return
    if not choice.takes(life):
        chosen.skip(choice, life, count)
    elif choice.consumer and not who:
        chosen.unnamed += count
    elif choice.consumer and not choice.is_of(who):
        chosen.skipped[str(life.state)] += count
    else:
        chosen.runs.append(_run_of(life, first, count))


def _run_of(life: Life, first: int, count: int) -> ChosenRun:
    said = life.publish
    exchange, key = sys.intern(said.exchange), sys.intern(said.routing_key)
    return ChosenRun(
        life.entry, life.offset, first, count, str(life.state), life.ended_at, said.at, exchange, key, said.persistent,
        said.priority, life.told_at,
    )  # fmt: skip


class _GroupChoice:
    """One queue of a node's log: entries are taken by their places, for a later leader may have written some anew."""

    def __init__(self, files: Sequence[LogFile], snapshots: Iterable[SnapshotFile], group: int, choice: Choice) -> None:
        self._files = files
        self._group = group
        self._choice = choice
        self._chosen = ChosenMessages()
        self._fold = HistoryFold()
        self._waiting: list[Life] = []  # until it is known who their consumers are
        found = [snapshot_said(file) for file in snapshots if file.group == group]
        self._snapshots = sorted((one for one in found if one is not None), key=lambda one: one[1].place)

    def chosen(self) -> ChosenMessages:
        window = range(1, 1 + WINDOW_ENTRIES)
        read = [past_of(file, self._group, window, tail=False) for file in self._files]
        self._chosen.windows += [FileWindow(one.file, one.damage, one.first, one.last) for one in read]
        spans = {one.file: one.span for one in read}
        self._take([event for one in read for event in one.standing])
        self._take([said for said, _ in self._snapshots])
        self._take_entries(read, window)
        while (following := _next_window(spans, window)) is not None:
            window = following
            those = [one for one, span in spans.items() if span.first < window.stop and span.last >= window.start]
            self._take_entries((past_of(one, self._group, window, tail=False) for one in those), window)
        self._take([state for _, state in self._snapshots])
        self._fold.end()
        self._waiting += self._meant(self._fold.history.lives)
        self._conclude()
        return self._chosen

    def _take_entries(self, read: Iterable[FilePast], window: range) -> None:
        states = [state for _, state in self._snapshots if state.place < window.stop]
        del self._snapshots[: len(states)]
        self._take([*states, *(event for one in read for event in one.events)])
        self._waiting += self._meant(self._fold.take_ended())

    def _take(self, events: Iterable[QueueEvent]) -> None:
        for event in sorted(events, key=fold_order):
            self._fold.take(event)

    def _meant(self, lives: Iterable[Life]) -> Iterator[Life]:
        """Those that may be chosen; of the others only numbers are kept."""
        for life in lives:
            if self._choice.takes(life):
                yield life
            elif life.state.has_ended:
                self._chosen.skip(self._choice, life, life.count)

    def _conclude(self) -> None:
        chosen, history = self._chosen, self._fold.history
        names = self._names() if self._choice.consumer else {}
        for life in self._waiting:
            if history.is_committed(life) is None:
                chosen.uncommitted += life.count
            else:
                _choose(chosen, self._choice, life, names.get(life.last_consumer, ()), of_group=True)
        chosen.conclude(history)

    def _names(self) -> dict[object, list[ActorRow]]:
        """Of consumers: this log names those whose clients are connected to its node."""
        actors = self._fold.history.actors
        wanted = {life.last_consumer for life in self._waiting}
        named: dict[tuple[int, int], list[ActorRow]] = {}
        for file in self._files:
            rows: dict[int, ActorRow] = {}
            for looked in looked_through(FileWindow(file), tail=False):
                rows.update({one.number: one.row for one in looked.said if isinstance(one, ActorName)})
            named.update({(row.incarnation, number): owners(rows, number) for number, row in rows.items()})
        found = {
            key: named.get((key.incarnation, actors.get(key, -1))) for key in wanted if isinstance(key, ConsumerKey)
        }
        return {key: rows for key, rows in found.items() if rows is not None}


def _next_window(spans: dict[LogFile, IndexSpan], window: range) -> range | None:
    left = [span.first for span in spans.values() if span.last >= window.stop]
    begin = max(window.stop, min(left, default=0))
    return range(begin, begin + WINDOW_ENTRIES) if left else None

"""One queue's events folded, whatever its kind: its lives, its seconds, and how much of its history there was to see.

What is missing is never guessed: behind a gap of a quorum queue's log nothing is known until the next snapshot (merged_log.py).
What is only in entries that may be replaced, or in records that no mark says were durable, is told apart:
`QueueHistory.is_committed`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from struct import error as struct_error

from analytics.fold.classic_queue import ClassicQueueFold
from analytics.fold.entry_batch import EntryBatch, Told
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import Life, LifeState, LifeStep, Lives
from analytics.fold.merged_log import MergedLog
from analytics.fold.node_processes import ClassicActor, NodeProcesses
from analytics.fold.quorum_queue import QueueFold
from analytics.queue_events import CLASSIC_KINDS, QueueEvent
from classic.store.log_records import (
    Checkpoint,
    DoneReason,
    decode_checkpoint,
    decode_published,
    decode_reasoned,
    decode_settled,
)
from classic.stored_run import LEVEL_SHIFT
from storage.record import Kind

PUBLISHED_BEFORE = "some messages were published before the log that was read"


def folded(told: Iterable[Told], *, with_steps: bool = False, processes: NodeProcesses | None = None) -> QueueHistory:
    """Events of one queue, in the order of their places; of the same place those of the highest term first. `processes`: who of
    several with one number somebody is; None: numbers will do."""
    fold = HistoryFold(with_steps=with_steps, processes=processes)
    with uncollected():
        for one in told:
            if isinstance(one, EntryBatch):
                fold.take_batch(one)
            else:
                fold.take(one)
        fold.end(is_whole=True)
    return fold.history


@contextmanager
def uncollected() -> Iterator[None]:
    """Lives that are kept are no garbage, and looking for some among ever more of them takes a fifth of the time of a fold."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class HistoryFold:
    """The same one by one. After `end` nothing more is taken."""

    def __init__(self, *, with_steps: bool = False, processes: NodeProcesses | None = None) -> None:
        self.history = QueueHistory()
        self._with_steps = with_steps
        self._processes = processes
        self._fold: _ClassicEvents | _QuorumEntries | None = None
        self.take: Callable[[QueueEvent], None] = self._begin

    def _begin(self, event: QueueEvent) -> None:
        self._fold = self._of_kind(event.kind)
        self.take = self._fold.take
        self.take(event)

    def take_batch(self, batch: EntryBatch) -> None:
        """The same for each of its entries."""
        if self._fold is None:
            self._fold = self._of_kind(batch.kind)
            self.take = self._fold.take
        self._fold.take_batch(batch)

    def _of_kind(self, kind: int) -> _ClassicEvents | _QuorumEntries:
        if kind in CLASSIC_KINDS:
            return _ClassicEvents(self.history, self._processes, with_steps=self._with_steps)
        return _QuorumEntries(self.history, with_steps=self._with_steps)

    def begin_at(self, checkpoint: Checkpoint) -> None:
        """A classic queue as it was there: nothing of before is to be taken. Raises ValueError and ArithmeticError."""
        fold = _ClassicEvents(self.history, self._processes, with_steps=self._with_steps)
        fold.begin_at(checkpoint)
        self._fold, self.take = fold, fold.take

    def take_steps(self) -> list[LifeStep]:
        """What was told since this was last asked."""
        if self._fold is not None:
            self.history.steps += self._fold.lives.take_steps()
        steps, self.history.steps = self.history.steps, []
        return steps

    def take_ended(self) -> list[Life]:
        """Those that have come to their end since this was last asked: of a long history most need not be kept."""
        if self._fold is not None:
            self.history.lives += self._fold.lives.take_ended()
        ended, self.history.lives = self.history.lives, []
        return ended

    def going_on(self) -> list[Life]:
        return [] if self._fold is None else self._fold.lives.going_on()

    def end(self, *, is_whole: bool = False) -> None:
        """`is_whole`: as of a MergedLog."""
        if self._fold is not None:
            self._fold.end(is_whole=is_whole)


class _ClassicEvents:
    def __init__(self, history: QueueHistory, processes: NodeProcesses | None, *, with_steps: bool) -> None:
        self._history = history
        self._processes = processes
        self._fold = ClassicQueueFold(with_steps=with_steps)
        self._next: dict[int, int] = {}  # the sequence that comes next, of each priority

    @property
    def lives(self) -> Lives:
        return self._fold.lives

    def begin_at(self, checkpoint: Checkpoint) -> None:
        self._next = {sequence >> LEVEL_SHIFT: sequence for sequence in checkpoint.next_sequences}
        self._fold.begin_at(checkpoint)

    def take(self, event: QueueEvent) -> None:
        """A payload that does not fit its record's kind says nothing."""
        try:
            self._take(event)
        except (ValueError, IndexError, ArithmeticError, struct_error):
            return

    def take_batch(self, batch: EntryBatch) -> None:
        """Of another queue of the same number, in a damaged log."""
        for event in batch.events():
            self.take(event)

    def _take(self, event: QueueEvent) -> None:
        fold, payload = self._fold, memoryview(event.data)
        at = None if event.at is None else event.at // 1000
        if not event.durable:
            fold.lives.place = event.place
        if event.kind == Kind.CLASSIC_PUBLISH:
            self._publish(event, at)
        elif event.kind == Kind.CLASSIC_SETTLE:
            fold.done(0, DoneReason.NOT_SAID, decode_settled(payload)[1], at)
        elif event.kind == Kind.CLASSIC_PURGE:
            fold.done(0, DoneReason.PURGED, decode_settled(payload)[1], at)
        elif event.kind == Kind.CLASSIC_DONE:
            _, actor, reason, ranges = decode_reasoned(payload)
            fold.done(self._who(event, actor), reason, ranges, at)
        elif event.kind == Kind.CLASSIC_OUT:
            _, actor, _, ranges = decode_reasoned(payload)
            fold.handed_out(self._who(event, actor), ranges, at)
        elif event.kind == Kind.CLASSIC_BACK:
            _, actor, reason, ranges = decode_reasoned(payload)
            fold.came_back(self._who(event, actor), reason, ranges, at)
        elif event.kind == Kind.CLASSIC_CHECKPOINT:
            fold.found_ready(decode_checkpoint(payload).ready_ranges, at)
        else:
            fold.deleted(at)
            self._next.clear()

    def _who(self, event: QueueEvent, actor: int) -> object:
        process = self._process(event) if actor else None
        return actor if process is None else ClassicActor(*process, actor)

    def _process(self, event: QueueEvent) -> tuple[str, int] | None:
        incarnation = None if self._processes is None else self._processes.at(event.node, event.place)
        return None if incarnation is None else (event.node, incarnation)

    def _publish(self, event: QueueEvent, at: int | None) -> None:
        published = decode_published(memoryview(event.data))
        level = event.first >> LEVEL_SHIFT
        try:
            if event.first < self._next.get(level, 0):
                raise ValueError(f"sequence {event.first} was published twice")
            self._fold.published(event.first, published, at, self._process(event))
        except ValueError as error:
            self._history.unknown = str(error)
            return
        self._next[level] = event.first + published.message_count

    def end(self, *, is_whole: bool) -> None:
        lives = self._fold.lives
        self._history.lives += [*lives.take_ended(), *lives.going_on()]
        self._history.steps += lives.take_steps()
        _note_partial(self._history)


class _QuorumEntries:
    """Fulfils EntriesFold."""

    def __init__(self, history: QueueHistory, *, with_steps: bool) -> None:
        self._history = history
        self._with_steps = with_steps
        self._fold = QueueFold(with_steps=with_steps)
        self._log = MergedLog(self)
        self.take = self._log.take

    @property
    def lives(self) -> Lives:
        return self._fold.lives

    def take_batch(self, batch: EntryBatch) -> None:
        self._log.take_batch(batch, self._fold.take_batch)

    def apply(self, event: QueueEvent) -> None:
        self._fold.take(event.place, event.data, event.size)

    def resume(self, place: int, state: bytes, version: int) -> Callable[[], None]:
        fold = QueueFold((state, version), with_steps=self._with_steps)
        return partial(self._resume, fold)

    def _resume(self, fold: QueueFold) -> None:
        self._close()
        self._fold = fold

    def check(self, place: int, state: bytes) -> None:
        """Members compare these themselves (replicated/comparison.py)."""

    def lose(self, why: str) -> None:
        self._history.unknown = self._history.unknown or why
        self._fold.lives.all_ended(LifeState.UNKNOWN, None)

    def pass_over(self, event: QueueEvent) -> None:
        """What became of its messages another entry would say."""

    def remove(self, at: int | None) -> None:
        self._fold.lives.all_ended(LifeState.DELETED, at)

    def end(self, *, is_whole: bool) -> None:
        self._fold.lives.place = 0  # that the queue is gone no entry tells, which might be replaced
        self._log.end(is_whole=is_whole)
        self._close()
        _note_partial(self._history)
        self._history.committed = self._log.copies.committed
        self._history.overruled = self._log.chains.overruled

    def _close(self) -> None:
        """Take over what the fold tells: nothing more is given to it."""
        fold, history = self._fold, self._history
        fold.end()
        history.lives += [*fold.lives.take_ended(), *fold.lives.going_on()]
        history.steps += fold.lives.take_steps()
        history.seconds += fold.take_seconds()
        history.refusals += fold.take_refusals()
        history.actors.update(fold.machine.actors)


def _note_partial(history: QueueHistory) -> None:
    if history.unknown is None and any(life.partial for life in history.lives):
        history.unknown = PUBLISHED_BEFORE

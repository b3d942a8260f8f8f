"""One queue's events folded, whatever its kind: its lives, its seconds, and how much of its history there was to see.

What is missing is never guessed. The fold of a quorum queue begins at its first entry or at the first snapshot that was read;
behind a gap nothing is known, for its machine cannot go on, until the next snapshot. What is only in entries that may be
replaced, or in records that no mark says were durable, is told apart: `QueueHistory.is_committed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import error as struct_error

from analytics.fold.classic_queue import ClassicQueueFold
from analytics.fold.group_copies import GroupCopies, Removal
from analytics.fold.lives import Life, LifeState, LifeStep, Lives
from analytics.fold.quorum_queue import QueueFold, Refusal, Second
from analytics.queue_events import CLASSIC_KINDS, STANDING_KINDS, QueueEvent
from classic.store.log_records import DoneReason, decode_published, decode_reasoned, decode_settled
from classic.stored_run import LEVEL_SHIFT
from native.log_columns import whole_entry
from quorum.fifo.commands import ConsumerKey
from raft.core.byte_reader import ByteReader
from raft.core.codec import read_meta
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from storage.record import Kind

FIRST_INDEX = 1


@dataclass(slots=True)
class QueueHistory:
    """What the events of one queue come to."""

    lives: list[Life] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    steps: list[LifeStep] = field(default_factory=list)  # of all messages, where the fold was asked to note them
    actors: dict[ConsumerKey, int] = field(default_factory=dict)  # who consumers of a quorum queue are
    unknown: str | None = None  # why something is not known; None: all is
    committed: int = 0  # the last place of its log that is known to count

    def is_committed(self, life: Life) -> bool | None:
        """Whether all that is told of it counts for ever; None: the logs that were read do not say."""
        return True if life.told_at <= self.committed else None

    def actor_of(self, consumer: object) -> int | None:
        """The number by which the log of its node names a consumer of a life; a life of a classic queue has no other."""
        return self.actors.get(consumer) if isinstance(consumer, ConsumerKey) else consumer  # type: ignore[return-value]


def folded(events: Iterable[QueueEvent], *, with_steps: bool = False) -> QueueHistory:
    """Events of one queue, in the order of their places; of the same place those of the highest term first."""
    fold = HistoryFold(with_steps=with_steps)
    for event in events:
        fold.take(event)
    fold.end()
    return fold.history


class HistoryFold:
    """The same one by one. After `end` nothing more is taken."""

    def __init__(self, *, with_steps: bool = False) -> None:
        self.history = QueueHistory()
        self._with_steps = with_steps
        self._fold: _ClassicEvents | _Entries | None = None

    def take(self, event: QueueEvent) -> None:
        if self._fold is None:
            kind = _ClassicEvents if event.kind in CLASSIC_KINDS else _Entries
            self._fold = kind(self.history, with_steps=self._with_steps)
        self._fold.take(event)

    def take_steps(self) -> list[LifeStep]:
        """What was told since this was last asked."""
        if self._fold is not None:
            self.history.steps += self._fold.lives.take_steps()
        steps, self.history.steps = self.history.steps, []
        return steps

    def end(self) -> None:
        if self._fold is not None:
            self._fold.end()


class _ClassicEvents:
    def __init__(self, history: QueueHistory, *, with_steps: bool) -> None:
        self._history = history
        self._fold = ClassicQueueFold(with_steps=with_steps)
        self._next: dict[int, int] = {}  # the sequence that comes next, of each priority

    @property
    def lives(self) -> Lives:
        return self._fold.lives

    def take(self, event: QueueEvent) -> None:
        """A payload that does not fit its record's kind says nothing."""
        try:
            self._take(event)
        except (ValueError, IndexError, ZeroDivisionError, struct_error):
            return

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
            fold.done(actor, reason, ranges, at)
        elif event.kind == Kind.CLASSIC_BACK:
            _, actor, reason, ranges = decode_reasoned(payload)
            fold.came_back(actor, reason, ranges, at)
        else:
            fold.deleted(at)
            self._next.clear()

    def _publish(self, event: QueueEvent, at: int | None) -> None:
        published = decode_published(memoryview(event.data))
        level = event.first >> LEVEL_SHIFT
        try:
            if event.first < self._next.get(level, 0):
                raise ValueError(f"sequence {event.first} was published twice")
            self._fold.published(event.first, published, at)
        except ValueError as error:
            self._history.unknown = str(error)
            return
        self._next[level] = event.first + published.message_count

    def end(self) -> None:
        lives = self._fold.lives
        self._history.lives = [*lives.take_ended(), *lives.going_on()]
        self._history.steps += lives.take_steps()
        _note_partial(self._history)


class _Entries:
    def __init__(self, history: QueueHistory, *, with_steps: bool) -> None:
        self._history = history
        self._with_steps = with_steps
        self._fold = QueueFold(with_steps=with_steps)
        self._copies = GroupCopies()
        self._next = FIRST_INDEX
        self._term = 0
        self._is_lost = False  # entries are missing: there is nothing that the next one applies to
        self._removed_at: int | None = None  # ms

    @property
    def lives(self) -> Lives:
        return self._fold.lives

    def take(self, event: QueueEvent) -> None:
        if event.kind in STANDING_KINDS:
            self._copies.take(event)
            if event.kind == Kind.RAFT_GROUP_REMOVED and event.at is not None:
                self._removed_at = max(self._removed_at or 0, event.at // 1000)
        elif event.kind == Kind.RAFT_STATE:
            self._begin_at(event)
        else:
            self._take_copy(event)

    def _begin_at(self, event: QueueEvent) -> None:
        """A snapshot, which is of use where entries are missing."""
        if event.place < (self._next - 1 if self._is_lost else self._next):
            return
        try:
            meta = read_meta(ByteReader(event.data[: event.first]))
            fold = QueueFold((event.data[event.first :], meta.machine_version), with_steps=self._with_steps)
        except (ValueError, BadBytes, struct_error):
            return
        if self._next > FIRST_INDEX and not self._is_lost:
            self._miss(event.place + 1)
        self._close()
        self._fold, self._is_lost = fold, False
        self._next, self._term = event.place + 1, meta.term
        self._copies.stand(event.place, meta.membership)

    def _take_copy(self, event: QueueEvent) -> None:
        if not self._is_lost and event.place >= self._next and event.term >= self._term:
            self._apply(event)
        if event.place == self._next - 1 and event.term == self._term and event.durable:
            self._copies.copied(event)  # else it is what a leader has replaced

    def _apply(self, event: QueueEvent) -> None:
        if event.place > self._next:
            self._miss(event.place)
            return
        self._next, self._term = event.place + 1, event.term
        self._copies.changed(event)
        if event.first != EntryKind.COMMAND:
            return
        try:
            self._fold.take(event.place, whole_entry(event.data, event.size))
        except ValueError as error:
            self._lose(str(error))

    def _miss(self, end: int) -> None:
        self._lose(f"entries {self._next} to {end - 1} are missing")

    def _lose(self, why: str) -> None:
        self._history.unknown = self._history.unknown or why
        self._fold.lives.all_ended(LifeState.UNKNOWN, None)
        self._is_lost = True

    def end(self) -> None:
        self._remove()
        self._close()
        _note_partial(self._history)
        self._history.committed = self._copies.committed

    def _close(self) -> None:
        """Take over what the fold tells: nothing more is given to it."""
        fold, history = self._fold, self._history
        fold.end()
        history.lives += [*fold.lives.take_ended(), *fold.lives.going_on()]
        history.steps += fold.lives.take_steps()
        history.seconds += fold.take_seconds()
        history.refusals += fold.take_refusals()
        history.actors.update(fold.machine.actors)

    def _remove(self) -> None:
        """Removing a member is no command of the log, so no entry says when the queue went."""
        removal, lives = self._copies.removal(), self._fold.lives
        lives.place = 0
        if removal is Removal.OF_ALL:
            lives.all_ended(LifeState.DELETED, self._removed_at)
        elif removal is Removal.UNCLEAR and self._history.unknown is None:
            nodes = ", ".join(self._copies.removed_nodes())
            self._lose(
                f"the member on {nodes} was removed, and no log that was read says whether the queue was deleted"
            )


def _note_partial(history: QueueHistory) -> None:
    if history.unknown is None and any(life.partial for life in history.lives):
        history.unknown = "some messages were published before the log that was read"

"""From a message on: what became of it in its queue, and which message it became when it died.

A message of a classic queue is followed by the records that name its sequence. What happened to one of a quorum queue follows
from all entries of its queue: these are folded from the newest snapshot before its entry on until it has come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

from analytics.coverage import Coverage
from analytics.file_window import coverage_of, missing_files, owners
from analytics.fold.lives import NODE_KILLED, PUBLISHED, LifeState, LifeStep
from analytics.fold.queue_history import HistoryFold
from analytics.inputs import LogFile, SnapshotFile
from analytics.life.file_look import FileSeen, entries, look
from analytics.life.wanted import AtPlace, FoundMessage, LookFor, MessagePlace, SuccessorOf
from analytics.queue_events import STANDING_KINDS, QueueEvent, QueueName, fold_order, note_name
from analytics.read_snapshots import snapshot_said
from analytics.workers import Workers
from quorum.fifo.commands import ConsumerKey
from storage.history.name_records import ActorRow
from storage.record import Kind

LIVES_MAX = 20  # that are told; each of them is searched for again, as a dead letter
SKEW_US = 3_600_000_000  # of the clocks of two nodes, at most
WINDOW_ENTRIES = 200_000  # of a quorum queue that are in memory: some 100 MB
ENDS = frozenset(str(state) for state in LifeState if state.has_ended and state is not LifeState.UNKNOWN)
REFUSED = "refused"  # by its queue
REPLACED = "a later leader replaced its entry before it was committed: it was never in the queue"


class KnownStep(NamedTuple):
    """What happened, and who that was: a consumer, and to whom it belongs; nobody where the logs do not name it."""

    step: LifeStep
    who: list[ActorRow]


@dataclass(slots=True)
class FollowedMessage:
    """One message in one queue, and what became of it there."""

    found: FoundMessage
    name: QueueName | None
    steps: list[KnownStep] = field(default_factory=list)  # without the first one, its publishing
    unknown: str | None = None  # why more is not known; None: all is
    committed: bool | None = True
    publisher: list[ActorRow] = field(default_factory=list)  # and to whom that belongs
    became: list[MessagePlace] = field(default_factory=list)  # dead letters of it

    @property
    def is_classic(self) -> bool:
        return self.found.kind == Kind.CLASSIC_PUBLISH


@dataclass(slots=True)
class Pursuit:
    """What was found, and what that stands on."""

    messages: list[FollowedMessage]
    coverage: Coverage
    more: bool  # than LIVES_MAX were found


def _any(_: LogFile) -> bool:
    return True


def pursue(
    files: Sequence[LogFile],
    snapshots: Sequence[SnapshotFile],
    asked: LookFor,
    *,
    tail: bool,
    may_hold: Callable[[LogFile], bool] = _any,
    processes_max: int | None = None,
) -> Pursuit:
    """See the module. `asked` says which messages to begin with; where `may_hold` is false a file has none of these."""
    with Workers(files, processes_max) as workers:
        held = [file for file in files if may_hold(file)]
        seen_first = {one.file: one for one in workers.each(partial(look, wanted=asked, tail=tail), held)}
        whole = [seen_first.get(file) or FileSeen(file) for file in files]
        names: dict[int, QueueName] = {}
        for name in (name for one in whole for name in one.names.values()):
            note_name(names, name)
        todo, more = _first(_distinct(whole), LIVES_MAX)
        known: dict[MessagePlace, FollowedMessage] = {}
        while todo and len(known) < LIVES_MAX:
            wanted = _next_look(todo, names, known)
            seen = workers.each(partial(look, wanted=wanted, tail=tail), _that_may_tell(whole, wanted, todo))
            follow = _Follower(workers, seen, snapshots, names, tail=tail)
            for one in follow.all(todo):
                if one.unknown != REPLACED or one.found.place not in known:
                    known[one.found.place] = one
            todo, over = _first([one for one in _distinct(seen) if one.place not in known], LIVES_MAX - len(known))
            more = more or over
    messages = sorted(known.values(), key=lambda one: (one.found.at or 0, one.found.place))
    for one in messages:
        one.became = [letter.found.place for letter in messages if _is_letter_of(letter, one)]
    covered = coverage_of(files, whole)._replace(skipped=len(files) - len(held), missing=missing_files(files))
    return Pursuit(messages, covered, more)


def _next_look(todo: Sequence[FoundMessage], names: dict[int, QueueName], known: Iterable[MessagePlace]) -> LookFor:
    """What became of these, what they were before, and which messages they became."""
    classic = [one for one in todo if one.kind == Kind.CLASSIC_PUBLISH]
    groups = frozenset(one.place.queue for one in todo if one.kind != Kind.CLASSIC_PUBLISH)
    here = {*known, *(one.place for one in todo)}
    before = [
        AtPlace(None, *one.died_in)
        for one in todo
        if one.died_in and not any(place.is_at(one.died_in) for place in here)
    ]
    return LookFor(
        sought=tuple(SuccessorOf(one.place, one.kind == Kind.CLASSIC_PUBLISH) for one in todo),
        places=tuple(before),
        sequences=frozenset((one.place.queue, one.place.pos + one.place.nth) for one in classic),
        groups=groups,
        consumed=frozenset(names[group].name.rpartition("/")[2] for group in groups if group in names),
        actors=frozenset(
            (one.incarnation, one.actor) for one in todo if one.incarnation is not None and one.actor is not None
        ),
    )


def _that_may_tell(seen: Sequence[FileSeen], wanted: LookFor, todo: Sequence[FoundMessage]) -> list[LogFile]:
    """Files that may say what became of these. Only what came before them, and quorum queues, need older ones."""
    if wanted.groups or wanted.places:
        return [one.file for one in seen]
    first = {one.node: min(each.file for each in todo if each.node == one.node) for one in todo}
    since = min((one.at or 0) for one in todo) - SKEW_US
    return [
        one.file
        for one in seen
        if (one.file.number >= first[one.file.node] if one.file.node in first else (one.last or since) >= since)
    ]


def _is_letter_of(letter: FollowedMessage, one: FollowedMessage) -> bool:
    died_in = letter.found.died_in
    return died_in is not None and SuccessorOf(one.found.place, one.is_classic).position() == died_in


def _first(found: list[FoundMessage], limit: int) -> tuple[list[FoundMessage], bool]:
    return found[:limit], len(found) > limit


def _distinct(seen: Iterable[FileSeen]) -> list[FoundMessage]:
    """Nodes have copies of a quorum queue's entries. Of one place leaders of two terms may have written different ones; which
    of them counts the fold says."""
    return list({(one.place, one.term): one for file in seen for one in reversed(file.found)}.values())


class _Follower:
    """What one pass over the files has told of some messages."""

    def __init__(
        self,
        workers: Workers,
        seen: Sequence[FileSeen],
        snapshots: Sequence[SnapshotFile],
        names: dict[int, QueueName],
        *,
        tail: bool,
    ) -> None:
        self._workers = workers
        self._seen = seen
        self._snapshots = snapshots
        self._names = names
        self._tail = tail
        self._actors: dict[ConsumerKey, int] = {}  # who consumers of quorum queues are, as folds have told

    def all(self, messages: Sequence[FoundMessage]) -> list[FollowedMessage]:
        followed = [FollowedMessage(one, self._names.get(one.place.queue)) for one in messages]
        for one in followed:
            if one.is_classic:
                self._follow_records(one)
        entries = sorted((one for one in followed if not one.is_classic), key=lambda one: one.found.place)
        for group, those in groupby(entries, lambda one: one.found.place.queue):
            self._follow_entries(group, list(those))
        self._name_others(followed)
        return followed

    def _name_others(self, messages: Iterable[FollowedMessage]) -> None:
        """Who took a message by a get, or purged a queue: of these only folds tell, and they may be clients of any node."""
        steps = [step for one in messages for step in one.steps]
        keys = {known.step.consumer for known in steps if not known.who}
        unnamed = {key for key in keys if isinstance(key, ConsumerKey) and key in self._actors}
        if not unnamed:
            return
        asked = LookFor(actors=frozenset((key.incarnation, self._actors[key]) for key in unnamed))
        files = [one.file for one in self._seen]
        self._seen = self._workers.each(partial(look, wanted=asked, tail=self._tail), files)
        for one in messages:
            one.steps = [
                known._replace(who=self._consumer(known.step.consumer)) if known.step.consumer in unnamed else known
                for known in one.steps
            ]

    # classic queues

    def _follow_records(self, one: FollowedMessage) -> None:
        found = one.found
        assert found.event is not None, f"the record of {found.place} was not kept"
        fold = HistoryFold(with_steps=True)
        fold.take(found.event)
        fold.take_steps()
        one.publisher = list(found.publisher)
        for file in self._seen:
            if file.file.node != found.node:
                continue
            for event in file.events:
                if event.queue == found.place.queue and event.place > found.event.place:
                    fold.take(event)
                    for step in _of(found, fold.take_steps()):
                        one.steps.append(_known_step(step, file.whose.get(event.place, []), one.steps))
        one.unknown = self._gap(found) or _ended_unsaid(one)

    def _gap(self, found: FoundMessage) -> str | None:
        numbers = sorted(one.file.number for one in self._seen if one.file.node == found.node)
        later = [number for number in numbers if number >= found.file]
        missing = sorted(set(range(found.file, later[-1])) - set(later))
        return f"file {missing[0]} of the log of {found.node} is missing" if missing else None

    # quorum queues

    def _follow_entries(self, group: int, messages: list[FollowedMessage]) -> None:
        fold = HistoryFold(with_steps=True)
        files = [one for one in self._seen if group in one.spans]
        standing = [event for one in self._seen for event in one.events if event.queue == group]
        states = self._states(group)
        begin = max((one.place for _, one in states if one.place < messages[0].found.place.pos), default=0)
        said = [event for event in standing if event.kind in STANDING_KINDS]
        for event in sorted([*said, *(one for one, _ in states)], key=fold_order):
            fold.take(event)
        taken = [state for _, state in states if state.place >= begin > 0]
        for state in taken[:1] if begin else []:
            fold.take(state)
        highest: dict[int, int] = {}  # of each place the last term
        last = max((one.spans[group][1] for one in files), default=0)
        for first in range(begin + 1, last + 1, WINDOW_ENTRIES):
            end = first + WINDOW_ENTRIES
            window = [state for _, state in states if first <= state.place < end]
            overlapping = [one.file for one in files if one.spans[group][0] < end and one.spans[group][1] >= first]
            read = partial(entries, group=group, first=first, end=end, tail=self._tail)
            for found in self._workers.each(read, overlapping):
                window += found
            for event in sorted(window, key=fold_order):
                highest[event.place] = max(highest.get(event.place, 0), event.term)
                fold.take(event)
            if _note_steps(fold, messages):
                break
        fold.end()
        _note_steps(fold, messages)
        self._actors |= fold.history.actors
        terms = highest | fold.history.overruled
        for one in messages:
            self._conclude(one, fold, terms)

    def _states(self, group: int) -> list[tuple[QueueEvent, QueueEvent]]:
        """Of each snapshot that can be read, ascending: that it is there, and the machine's state."""
        found = [snapshot_said(file) for file in self._snapshots if file.group == group]
        return sorted((one for one in found if one is not None), key=lambda one: one[1].place)

    def _conclude(self, one: FollowedMessage, fold: HistoryFold, terms: dict[int, int]) -> None:
        found, history = one.found, fold.history
        if found.incarnation is not None:
            one.publisher = self._actor_of(found.actor, found.incarnation)
        if terms.get(found.place.pos, found.term) != found.term:
            one.steps, one.unknown = [], REPLACED
            return
        one.steps = [KnownStep(step, self._consumer(step.consumer)) for step, _ in one.steps]
        refusal = next((r for r in history.refusals if _is_of(found, r.entry, r.offset, 0, r.messages)), None)
        if refusal is not None:
            place, why = found.place, refusal.result.name.lower().replace("_", " ")
            step = LifeStep(place.pos, place.off, place.nth, 1, REFUSED, refusal.at, None, why)
            one.steps = [KnownStep(step, [])]
            one.committed = True if place.pos <= history.committed else None
            return
        life = next(
            (life for life in history.lives if _is_of(found, life.entry, life.offset, life.first, life.count)), None
        )
        if life is None or life.state is LifeState.UNKNOWN:
            one.unknown = history.unknown or "the log that was read does not say"
        one.committed = None if life is None else history.is_committed(life)

    def _consumer(self, key: object) -> list[ActorRow]:
        return self._actor_of(self._actors.get(key), key.incarnation) if isinstance(key, ConsumerKey) else []

    def _actor_of(self, actor: object, incarnation: int) -> list[ActorRow]:
        """Whom the log of some node calls so, in this life of its process."""
        if not isinstance(actor, int):
            return []
        for one in self._seen:
            row = one.actors.get(actor)
            if row is not None and row.incarnation == incarnation:
                return owners(one.actors, actor)
        return []


def _known_step(step: LifeStep, whose: list[ActorRow], before: list[KnownStep]) -> KnownStep:
    """`whose`: of the record. That its node was killed a record of the next process says: not of who had the message."""
    if step.reason == NODE_KILLED and before:
        return KnownStep(step, before[-1].who)
    return KnownStep(step, whose if step.consumer else [])


def _note_steps(fold: HistoryFold, messages: list[FollowedMessage]) -> bool:
    """What was told of these since it was last asked. Whether all have come to their end."""
    steps = fold.take_steps()
    for one in messages:
        one.steps += [KnownStep(step, []) for step in _of(one.found, steps)]
    return all(_has_ended(one.steps) for one in messages)


def _has_ended(steps: list[KnownStep]) -> bool:
    return bool(steps) and steps[-1].step.what in ENDS


def _of(found: FoundMessage, steps: Iterable[LifeStep]) -> list[LifeStep]:
    """Those of this message, without its publishing."""
    return [
        step
        for step in steps
        if step.what != PUBLISHED and _is_of(found, step.entry, step.offset, step.first, step.messages)
    ]


def _is_of(found: FoundMessage, entry: int, offset: int, first: int, count: int) -> bool:
    _, pos, off, nth = found.place
    return (entry, offset) == (pos, off) and first <= nth < first + count


def _ended_unsaid(one: FollowedMessage) -> str | None:
    said = one.steps and one.steps[-1].step.what == LifeState.UNKNOWN
    return "the log says that it is done with, and not why" if said else None

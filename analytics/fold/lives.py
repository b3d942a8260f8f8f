"""The lives of a queue's messages: published, out and back, ended.

A *life* is consecutive messages of one run that have come to the same so far; where a part of them comes to something else the
life is divided. So a run of a thousand messages that one consumer acknowledged together is one life, and what is reported
needs as much memory as fates differ.

A message is named by its *place*: where its run is (`entry` and `offset`, as its queue counts), and the how manieth it is in
that run. What happens to a message whose publishing was not seen begins a life that says so (`partial`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple


class LifeState(StrEnum):
    READY = "ready"
    OUT = "out"
    ACKED = "acked"
    GOT = "got"  # by basic.get, without an acknowledgement
    NO_ACK = "no-ack"  # a consumer that acknowledges nothing had it
    EXPIRED = "expired"
    REJECTED = "rejected"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery-limit"
    PURGED = "purged"
    DELETED = "deleted"  # with its queue
    KEPT = "kept"  # in a stream, from which readers take nothing away
    CUT = "cut"  # from a stream, by retention
    UNKNOWN = "unknown"  # it is over, and the log does not say how

    @property
    def has_ended(self) -> bool:
        return self not in GOING_ON


_OUT = LifeState.OUT  # as a global, for what is done with each message
GOING_ON = frozenset({LifeState.READY, LifeState.OUT, LifeState.KEPT})


class PublishedRun(NamedTuple):
    """What all messages of a run share."""

    at: int | None  # ms; None: unknown
    messages: int
    body_bytes: int
    exchange: str = ""
    routing_key: str = ""
    persistent: bool = True
    priority: int = 0
    expires_at: int | None = None
    confirm: bool | None = None  # whether the publisher wanted one; None: the log does not say
    actor: int | None = None
    publish_no: int | None = None  # the publisher's number of the first message
    died_in: tuple[int, tuple[int, int, int], int] | None = None  # a dead letter: queue, position there, reason
    process: tuple[int, int] | None = None  # whose number the actor has, of a quorum queue: node and incarnation


NOT_SEEN = PublishedRun(None, 0, 0)
_NEVER: dict[str, int] = {}  # returned; a life is given another one when it is


@dataclass(slots=True)
class Life:
    """See the module. Times are ms; None: it has not come to that, or the log does not say."""

    entry: int
    offset: int
    first: int  # in its run
    count: int
    publish: PublishedRun
    partial: bool = False  # it began before what was read
    state: LifeState = LifeState.READY
    first_out_at: int | None = None
    last_out_at: int | None = None
    times_out: int = 0
    first_consumer: object = None  # as its queue names consumers
    last_consumer: object = None
    returned: dict[str, int] = field(default_factory=dict)  # how often, by reason
    ended_at: int | None = None
    told_at: int = 0  # the last place of the log that says something of it, where places count: see Lives.place

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def wait_ms(self) -> int | None:
        """From being published to being handed out for the first time."""
        return _between(self.publish.at, self.first_out_at)

    @property
    def hold_ms(self) -> int | None:
        """From being handed out for the last time to the end."""
        return _between(self.last_out_at, self.ended_at)


class LifeStep(NamedTuple):
    """One thing that happened to messages that had come to the same before. Those of a message are in the order of the log."""

    entry: int
    offset: int
    first: int
    messages: int
    what: str  # PUBLISHED, DELIVERED, RETURNED, or the state in which they ended
    at: int | None  # ms; None: the log does not say
    consumer: object = None  # as its queue names consumers, or who published or purged; None: nobody, or not known
    reason: str | None = None  # why they came back


PUBLISHED, DELIVERED, RETURNED = "published", "delivered", "returned"
NODE_KILLED = "its node was killed"  # of a classic queue, while somebody had the message
BY_CONSUMERS = frozenset(
    {LifeState.ACKED, LifeState.GOT, LifeState.NO_ACK, LifeState.REJECTED, LifeState.DELIVERY_LIMIT}
)


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start


class Lives:
    """See the module. Of one queue. `ended` are those that have come to their end since it was last taken."""

    __slots__ = ("_ended", "_runs", "_steps", "place")

    place: int  # of the log, where what is told now is written; 0: of what needs no other entry to count

    def __init__(self, *, with_steps: bool = False) -> None:
        """`with_steps`: note what happens one by one, too, which costs memory for each delivery."""
        self.place = 0
        self._steps: list[LifeStep] | None = [] if with_steps else None
        self._runs: dict[tuple[int, int], list[Life]] = {}  # those that go on, in the order of their places
        self._ended: list[Life] = []

    @property
    def notes_steps(self) -> bool:
        return self._steps is not None

    def take_ended(self) -> list[Life]:
        ended, self._ended = self._ended, []
        return ended

    def take_steps(self) -> list[LifeStep]:
        """What has happened since they were last taken."""
        if self._steps is None:
            return []
        steps, self._steps = self._steps, []
        return steps

    def going_on(self) -> list[Life]:
        return [life for lives in self._runs.values() for life in lives]

    def published(self, entry: int, offset: int, *parts: PublishedRun) -> None:
        """A run; several publishers may have had parts of it."""
        place = (entry, offset)
        assert place not in self._runs, f"the run at {place} is published twice"
        first, lives = 0, []
        for part in parts:
            lives.append(Life(entry, offset, first, part.messages, part, told_at=self.place))
            self._note(lives[-1], PUBLISHED, part.at, part.actor)
            first += part.messages
        self._runs[place] = lives

    def published_to(self, entry: int, offset: int, run: PublishedRun, consumer: object) -> None:
        """A run that one consumer was given at once."""
        where, runs = (entry, offset), self._runs
        assert where not in runs, f"the run at {where} is published twice"
        at, place = run.at, self.place
        life = Life(
            entry, offset, 0, run.messages, run, False, _OUT, at, at, 1, consumer, consumer, _NEVER, None, place
        )
        runs[where] = [life]
        if self._steps is not None:
            self._note(life, PUBLISHED, at, run.actor)
            self._note(life, DELIVERED, at, consumer)

    def came_and_went(
        self, entry: int, offset: int, run: PublishedRun, consumer: object, state: LifeState, at: int
    ) -> None:
        """A run of which nothing was told before all of it ended: one consumer had it at once. Not where steps are noted."""
        came, place = run.at, self.place
        self._ended.append(
            Life(
                entry, offset, 0, run.messages, run, False, state, came, came, 1, consumer, consumer, _NEVER, at, place
            )
        )

    def has_run(self, entry: int, offset: int) -> bool:
        """Whether some of it goes on."""
        return (entry, offset) in self._runs

    def was_out(self, entry: int, offset: int, first: int, count: int, consumer: object) -> None:
        """They were handed out to this one, if not as far as was told: nobody said when. Who else had them has them no more."""
        for life in self._lives(entry, offset, first, count):
            if life.state is LifeState.OUT and life.last_consumer != consumer and consumer:
                self._come_back(life, NODE_KILLED, None)
            if life.state is LifeState.READY:
                self._hand_out(life, None, consumer)

    def found(self, entry: int, offset: int, first: int, count: int, *, out: bool = False) -> None:
        """Messages that are there when reading begins."""
        for life in self._lives(entry, offset, first, count):
            life.state = LifeState.OUT if out else LifeState.READY

    def handed_out(self, entry: int, offset: int, first: int, count: int, at: int | None, consumer: object) -> None:
        for life in self._lives(entry, offset, first, count):
            self._hand_out(life, at, consumer)
            self._note(life, DELIVERED, at, consumer)

    def _hand_out(self, life: Life, at: int | None, consumer: object) -> None:
        self._tell(life, LifeState.OUT)
        life.last_out_at, life.last_consumer = at, consumer
        if not life.times_out:
            life.first_out_at, life.first_consumer = at, consumer
        life.times_out += 1

    def came_back(self, entry: int, offset: int, first: int, count: int, reason: str, at: int | None) -> None:
        for life in self._lives(entry, offset, first, count):
            self._come_back(life, reason, at)

    def _come_back(self, life: Life, reason: str, at: int | None) -> None:
        self._tell(life, LifeState.READY)
        self._note(life, RETURNED, at, life.last_consumer, reason)
        life.returned = {**life.returned, reason: life.returned.get(reason, 0) + 1}

    def no_more_out(self, entry: int, offset: int, first: int, end: int, at: int | None) -> None:
        """Those among these messages that are out were ready again: a node that is killed says nothing."""
        spans = [
            (max(first, life.first), min(end, life.end))
            for life in self._runs.get((entry, offset), ())
            if life.state is LifeState.OUT and life.first < end and first < life.end
        ]
        for start, stop in spans:
            self.came_back(entry, offset, start, stop - start, NODE_KILLED, at)

    def ended(
        self, entry: int, offset: int, first: int, count: int, state: LifeState, at: int | None, by: object = None
    ) -> None:
        """`by`: who ended them, if that is none who had them."""
        where = (entry, offset)
        lives = self._runs.get(where)
        if lives is not None and len(lives) == 1:
            life = lives[0]
            if life.first == first and life.count == count:
                del self._runs[where]  # the usual case: all of a run at once
                self._end(life, state, at, by)
                return
        gone = self._lives(entry, offset, first, count)
        for life in gone:
            self._end(life, state, at, by)
        self._forget(entry, offset, first, first + count)

    def all_ready_ended(self, state: LifeState, at: int | None, by: object = None) -> None:
        self._end_where(lambda life: life.state is LifeState.READY, state, at, by)

    def all_ended(self, state: LifeState, at: int | None) -> None:
        self._end_where(lambda life: True, state, at)

    def _end_where(self, ends: Callable[[Life], bool], state: LifeState, at: int | None, by: object = None) -> None:
        for place, lives in list(self._runs.items()):
            left = []
            for life in lives:
                if ends(life):
                    self._end(life, state, at, by)
                else:
                    left.append(life)
            if left:
                self._runs[place] = left
            else:
                del self._runs[place]

    def _end(self, life: Life, state: LifeState, at: int | None, by: object) -> None:
        life.state = state
        life.ended_at = at
        if self.place > life.told_at:
            life.told_at = self.place
        self._ended.append(life)
        if self._steps is not None:
            self._note(life, state, at, life.last_consumer if state in BY_CONSUMERS else by)

    def _note(self, life: Life, what: str, at: int | None, consumer: object, reason: str | None = None) -> None:
        if self._steps is not None:
            step = LifeStep(life.entry, life.offset, life.first, life.count, str(what), at, consumer, reason)
            self._steps.append(step)

    def _tell(self, life: Life, state: LifeState) -> None:
        life.state = state
        if self.place > life.told_at:
            life.told_at = self.place

    def _forget(self, entry: int, offset: int, first: int, end: int) -> None:
        left = [life for life in self._runs[entry, offset] if life.end <= first or life.first >= end]
        if left:
            self._runs[entry, offset] = left
        else:
            del self._runs[entry, offset]

    def _lives(self, entry: int, offset: int, first: int, count: int) -> list[Life]:
        """Those of exactly these messages: lives that are longer are divided, and where there are none some begin."""
        place, end = (entry, offset), first + count
        lives = self._runs.get(place)
        if lives is not None and len(lives) == 1 and lives[0].first == first and lives[0].count == count:
            return lives
        parts = [part for life in lives or () for part in _divided(life, first, end)]
        found = [part for part in parts if first <= part.first < end]
        unseen = [
            Life(entry, offset, start, stop - start, NOT_SEEN, partial=True, told_at=self.place)
            for start, stop in _gaps(found, first, end)
        ]
        self._runs[place] = sorted(parts + unseen, key=_first_of)
        return sorted(found + unseen, key=_first_of)


_first_of = attrgetter("first")


def _gaps(lives: list[Life], first: int, end: int) -> list[tuple[int, int]]:
    """What these, in their order, leave out of a range."""
    edges = [first, *(edge for life in lives for edge in (life.first, life.end)), end]
    return [(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if start < stop]


def _divided(life: Life, first: int, end: int) -> list[Life]:
    """At these places, if they lie within it."""
    if life.end <= first or life.first >= end or (first <= life.first and life.end <= end):
        return [life]
    parts = []
    edges = sorted({life.first, life.end, *(edge for edge in (first, end) if life.first < edge < life.end)})
    for start, stop in itertools.pairwise(edges):
        parts.append(replace(life, first=start, count=stop - start))
    return parts

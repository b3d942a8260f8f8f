"""What the log may tell of each message, as far as clients of a cluster could see while its nodes were killed.

A client that had no answer knows nothing, so both is allowed: that it happened, and that it did not. Nothing else is. At the
end of a run all queues were emptied by clients who acknowledge, so a message that nobody ended has to have come to an end that
its queue gives it: too old, too much, failed too often, purged.

A dead letter may be lost when a node is killed right then, for its queue gives it away at most once.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from analytics.fold.lives import LifeState
from tests.ledger.notes import SKEW_S, Told
from tests.ledger.sightings import ENDING, Publication, Purging, Sighting, Sightings

DEATHS = {
    "rejected": LifeState.REJECTED,
    "expired": LifeState.EXPIRED,
    "maxlen": LifeState.MAXLEN,
    "delivery_limit": LifeState.DELIVERY_LIMIT,
}
BY_CONSUMER = frozenset(
    {
        LifeState.ACKED, LifeState.GOT, LifeState.NO_ACK, LifeState.REJECTED, LifeState.DELIVERY_LIMIT, LifeState.OUT,
    }
)  # fmt: skip
NEVER_SEEN = frozenset({"never seen"})  # what was on its way to a consumer that left, or waited for it on its node
LOST_WITHIN_S = 3.0  # after its death, in which a dead letter may be on its way

Rows = dict[str, dict[str, list[Told]]]  # by queue and body


class QueuePlan(NamedTuple):
    """One queue of a run, and what it does to messages by itself."""

    name: str
    home: str = ""  # the node that it is declared on
    dead_to: str = ""
    ends: frozenset[LifeState] = frozenset()
    is_loose: bool = False  # its clients do not acknowledge
    is_single: bool = False  # it has a single active consumer
    timeout_ms: int | None = None  # of its consumers; of a single active one as that one wishes


class KindRules(Protocol):
    """What clients of one kind of queue can be sure of."""

    @property
    def early_s(self) -> float:
        """How long before a message was published the time may be that the log gives it."""

    @property
    def names_clients(self) -> bool:
        """Whether the log says which connection published a message, and which one consumed it, wherever its client was."""

    def ends(self, queue: str, seen: Sighting) -> frozenset[LifeState]:
        """What its answer makes of a message."""

    def loose_ends(self, queue: str) -> frozenset[LifeState]:
        """What may have become of a message that was lost on its way to a client that acknowledges nothing."""

    def is_sure(self, queue: str, seen: Sighting) -> bool:
        """What the client said is durable."""

    def is_stored(self, queue: str, seen: Sighting) -> bool:
        """That it was seen tells that it was durable there."""

    def is_told(self, queue: str, seen: Sighting) -> bool:
        """The log has to tell that it was out."""

    def returned(self, queue: str, seen: Sighting) -> frozenset[str]:
        """Why it may have come back afterwards."""

    def unseen(self, queue: str) -> frozenset[str]:
        """Why it may have come back, though no client has seen it."""

    def is_undone(self, queue: str, at: float) -> bool:
        """Whether the queue may have forgotten a death of that time, and have had it once more."""


def compared_rows(sightings: Sightings, plans: list[QueuePlan], told: Rows, rules: KindRules) -> list[str]:
    """Row by row: a sentence for each difference."""
    found = [f"{name} is in the log, and nobody declared it" for name in told.keys() - {plan.name for plan in plans}]
    for plan in plans:
        found += _Compared(sightings, plan, plans, told, rules).differences()
    return found


class _Compared:
    """One queue."""

    def __init__(
        self, sightings: Sightings, plan: QueuePlan, plans: list[QueuePlan], told: Rows, rules: KindRules
    ) -> None:
        self._sightings = sightings
        self._plan = plan
        self._sources = [one for one in plans if one.dead_to == plan.name]
        self._told = told
        self._rules = rules
        self._died = _deaths_in(sightings, plan.name)
        self._takers = {life.name for life in sightings.lives if plan.name in life.taking}
        self._unseen = rules.unseen(plan.name)

    def differences(self) -> list[str]:
        name = self._plan.name
        rows, seen = self._told.get(name, {}), self._sightings.seen.get(name, {})
        published = {body for body, one in self._sightings.published.items() if name in one.queues}
        died = {body for source in self._sources for body in self._told.get(source.name, {})}
        found = []
        for body in sorted(rows.keys() | seen.keys() | published | died):
            here = rows.get(body, [])
            least, most = self._how_many(body, seen.get(body, []))
            if not least <= len(here) <= most:
                found.append(f"{name}: {body} is in the log {len(here)} times, and should be {least} to {most} times")
            elif len(here) == 1:  # of two, whose were undone, nobody can say which of them clients saw
                found += [f"{name}: {body}: {one}" for one in self._of_row(body, here[0], seen.get(body, []))]
        return found

    def _how_many(self, body: str, seen: list[Sighting]) -> tuple[int, int]:
        publication = self._publication(body)
        least = int(any(self._rules.is_stored(self._plan.name, one) for one in seen))
        if publication is None:
            dead = self._dead(body)
            sure = [row for row in dead if not self._may_be_lost(row)]
            return max(least, len(sure)), len(dead) + self._undone(body)
        if publication.is_returned:
            return 0, 0
        return int(least or publication.confirmed_at is not None), 1

    def _undone(self, body: str) -> int:
        """How many of the dead letters here may be of deaths that their queue has forgotten."""
        here = self._told.get(self._plan.name, {}).get(body, ())
        return sum(
            self._rules.is_undone(source.name, (row.published_at or 0) / 1_000)
            for source in self._sources
            for row in here
        )

    def _publication(self, body: str) -> Publication | None:
        """By a client, and not as a dead letter."""
        found = self._sightings.published.get(body)
        return found if found is not None and self._plan.name in found.queues else None

    def _dead(self, body: str) -> list[Told]:
        """What the log tells of it in the queues whose dead letters come here."""
        rows = [row for source in self._sources for row in self._told.get(source.name, {}).get(body, ())]
        return [row for row in rows if row.state in DEATHS.values()]

    def _may_be_lost(self, row: Told) -> bool:
        died_at = (row.ended_at or 0) / 1_000
        return any(kill.at - LOST_WITHIN_S < died_at < kill.back_at + LOST_WITHIN_S for kill in self._sightings.kills)

    def _of_row(self, body: str, row: Told, seen: list[Sighting]) -> list[str]:
        found = [] if row.unknown is None else [f"the log does not know: {row.unknown}"]
        allowed = self._states(body, seen)
        if row.state not in allowed:
            names = " or ".join(sorted(allowed)) or "still there"
            found.append(f"it should be {names}, the log says {row.state}: {_shown(seen)}")
        elif row.times_out != sum(row.returned.values()) + (row.state in BY_CONSUMER):
            found.append(
                f"it is {row.state} and came back {dict(row.returned)}, the log says {row.times_out} times out"
            )
        else:
            found += [*self._returns(row, seen), *self._consumer(row, seen)]
        return found + self._published_at(body, row, seen) + self._origin(body, row)

    def _states(self, body: str, seen: list[Sighting]) -> set[LifeState]:
        name, rules = self._plan.name, self._rules
        if body in self._died and not self._may_be_undone(body):
            return self._died[body]
        states = self._plan.ends | self._died.get(body, set())
        if self._plan.is_loose:
            states |= rules.loose_ends(name)
        last = seen[-1] if seen else None
        if last is not None and last.answer in ENDING:
            if rules.is_sure(name, last):
                return set(rules.ends(name, last))
            states |= rules.ends(name, last)
        if _is_purged_after(self._sightings.purges.get(name, []), last):
            states |= {LifeState.PURGED}
        return set(states)

    def _may_be_undone(self, body: str) -> bool:
        """Its dead letters, those of the log and those that were only seen, came right before a kill."""
        name, target = self._plan.name, self._plan.dead_to
        letters = [(row.published_at or 0) / 1_000 for row in self._told.get(target, {}).get(body, ())]
        letters += [one.at for one in self._sightings.seen.get(target, {}).get(body, ())]
        return any(self._rules.is_undone(name, at) for at in letters)

    def _returns(self, row: Told, seen: list[Sighting]) -> list[str]:
        name, rules = self._plan.name, self._rules
        stayed = bool(seen) and row.state in BY_CONSUMER and row.state in rules.ends(name, seen[-1])
        came_back = [(rules.returned(name, one), rules.is_told(name, one)) for one in seen]
        ways = [came_back[:-1]] if stayed else [came_back]
        if row.state is LifeState.DELIVERY_LIMIT:
            ways.append(came_back[:-1])
        if not any(_matched(way, Counter(row.returned), NEVER_SEEN | self._unseen) for way in ways):
            return [f"it came back {dict(row.returned)}, which is not what clients saw: {_shown(seen)}"]
        return []

    def _consumer(self, row: Told, seen: list[Sighting]) -> list[str]:
        """Who had it last: the client that ended it, or one that was lost before it could see it."""
        name, last = self._plan.name, seen[-1] if seen else None
        if last is None or row.state not in self._rules.ends(name, last):
            return []
        may_have = self._takers | {last.life.name}
        if row.consumer is None:
            # A get may be the first of which a node says who it is, and is killed before it has written that down.
            is_named = last.is_consumed or not self._sightings.lost_its_node(last.life, last.at)
            return ["the log does not say who had it"] if is_named and self._rules.names_clients else []
        return [] if row.consumer in may_have else [f"{last.life.name} had it last, the log says {row.consumer}"]

    def _origin(self, body: str, row: Told) -> list[str]:
        """Who published it; of a dead letter the queue that it died in."""
        publication, may_be_silent = self._publication(body), not self._rules.names_clients
        if publication is None:
            places = {source.name for source in self._sources}
            is_right = row.died_in in places or (row.died_in is None and may_be_silent)
            return [] if is_right else [f"it died in one of {sorted(places)}, the log says {row.died_in}"]
        by = publication.by  # whose name its node may not have written down before it was killed
        may_be_silent = may_be_silent or self._sightings.lost_its_node(by, publication.sent_at)
        is_right = row.publisher == by.name or (not row.publisher and may_be_silent)
        return [] if is_right else [f"{by.name} published it, the log says {row.publisher}"]

    def _published_at(self, body: str, row: Told, seen: list[Sighting]) -> list[str]:
        before, after = self._times(body)
        after = min([after, *(one.at for one in seen)])
        at = (row.published_at or 0) / 1_000
        if not before - self._rules.early_s <= at <= after + SKEW_S:
            return [f"it was published between {before} and {after}, the log says {at}"]
        return []

    def _times(self, body: str) -> tuple[float, float]:
        """Between which it came here. A dead letter came some time after it was published elsewhere."""
        publication = self._publication(body)
        if publication is None:
            return self._sightings.published[body].sent_at, float("inf")
        return publication.sent_at, publication.confirmed_at or float("inf")


def _deaths_in(sightings: Sightings, queue: str) -> dict[str, set[LifeState]]:
    """By body, what dead letters say that a client has seen."""
    found: dict[str, set[LifeState]] = {}
    for messages in sightings.seen.values():
        for body, seen in messages.items():
            deaths = {DEATHS[reason] for one in seen for where, reason in one.deaths if where == queue}
            if deaths:
                found.setdefault(body, set()).update(deaths)
    return found


def _is_purged_after(purges: list[Purging], last: Sighting | None) -> bool:
    return any(last is None or purge.ended_at >= last.at for purge in purges)


def _matched(sighted: list[tuple[frozenset[str], bool]], left: Counter[str], unseen: frozenset[str]) -> bool:
    """Whether each sighting that has to be told has a reason of its own among those that are left, and the others are of what
    nobody saw."""
    if not sighted:
        return all(reason in unseen for reason, count in left.items() if count)
    (reasons, is_told), *others = sighted
    for reason in reasons:
        if left[reason] and _matched(others, left - Counter({reason: 1}), unseen):
            return True
    return not is_told and _matched(others, left, unseen)


def _shown(seen: list[Sighting]) -> str:
    said = [
        f"{one.at - seen[0].at:.3f} s: {one.answer.value}{'!' if one.is_heard else '?'} on {one.life.node}, "
        f"{one.life.ended.value}{', redelivered' if one.is_redelivered else ''}"
        for one in seen
    ]
    return "; ".join(said) or "nobody saw it"

"""What clients of classic queues can be sure of: a queue does not wait for its disk, so a kill of its home undoes what is new.

The home writes down who had a message when it comes back or is done with, from tick to tick. What was out when it was killed is
ready again, and the log does not tell that it was out. Of a client of another node its home knows less: a reject is not told
from the end of a channel, nor whether a message was acknowledged by the client or for it.
"""

from __future__ import annotations

from analytics.fold.lives import LifeState
from tests.ledger.sightings import Answer, ClientLife, Ended, Sighting, Sightings

DURABLE_WITHIN_S = 2.0  # ticks are much shorter, on a machine that is not busy
LATE_S = 2.0  # what a home sent before it was killed may come to a client of another node afterwards
EARLY_S = 5.0  # the log's time is that of a commit's begin, which waits for the fsync of the one before
STATES = {
    Answer.ACK: frozenset({LifeState.ACKED}),
    Answer.REJECT: frozenset({LifeState.REJECTED}),
    Answer.NO_ACK: frozenset({LifeState.NO_ACK}),
    Answer.GOT: frozenset({LifeState.GOT}),
}
FAR_STATES = STATES | dict.fromkeys((Answer.NO_ACK, Answer.GOT), frozenset({LifeState.ACKED}))
SAID = {Answer.NACK: frozenset({"nacked"}), Answer.REQUEUE: frozenset({"rejected"})}
FAR_SAID = {Answer.NACK: frozenset({"nacked"}), Answer.REQUEUE: frozenset({"returned"})}
LEFT = {Ended.LEFT: frozenset({"channel closed"}), Ended.BROKEN: frozenset({"connection lost"})}
FAR_LEFT = frozenset({"returned"})
LINK_LOST = frozenset({"connection lost"})


class ClassicRules:
    """See the module."""

    early_s = EARLY_S
    names_clients = False

    def __init__(self, sightings: Sightings, homes: dict[str, str]) -> None:
        """`homes`: of each queue, the node that it lives on."""
        self._sightings = sightings
        self._homes = homes

    def ends(self, queue: str, seen: Sighting) -> frozenset[LifeState]:
        states = STATES if self._is_at_home(queue, seen.life) else FAR_STATES
        return states.get(seen.answer, frozenset())

    def loose_ends(self, queue: str) -> frozenset[LifeState]:
        lost = self.unseen(queue)
        return STATES[Answer.NO_ACK] | STATES[Answer.GOT] | FAR_STATES[Answer.GOT] if lost else frozenset()

    def is_sure(self, queue: str, seen: Sighting) -> bool:
        return seen.is_heard and not self.is_undone(queue, seen.answered_at)

    def is_stored(self, queue: str, seen: Sighting) -> bool:
        return not self._home_was_killed(queue, seen.at - LATE_S, seen.at + DURABLE_WITHIN_S)

    def is_told(self, queue: str, seen: Sighting) -> bool:
        over_at = seen.answered_at if seen.is_heard else seen.life.ended_at
        return not self._home_was_killed(queue, seen.at - LATE_S, over_at + DURABLE_WITHIN_S)

    def is_undone(self, queue: str, at: float) -> bool:
        return self._home_was_killed(queue, at, at + DURABLE_WITHIN_S)

    def returned(self, queue: str, seen: Sighting) -> frozenset[str]:
        said = (SAID if self._is_at_home(queue, seen.life) else FAR_SAID).get(seen.answer, frozenset())
        return said if seen.is_heard else said | self._lost(queue, seen.life, seen.at)

    def unseen(self, queue: str) -> frozenset[str]:
        lives = [life for life in self._sightings.lives if queue in life.taking]
        return frozenset().union(*(self._lost(queue, life, life.ended_at) for life in lives))

    def _lost(self, queue: str, life: ClientLife, since: float) -> frozenset[str]:
        """Its connection came to an end, or its node did before it could say so."""
        if self._is_at_home(queue, life):
            return LEFT.get(life.ended, LEFT[Ended.LEFT] | LEFT[Ended.BROKEN])
        is_killed = self._sightings.lost_its_node(life, since)
        left = FAR_LEFT if life.may_have_left or life.ended is Ended.NOT else frozenset()
        return left | (LINK_LOST if is_killed else frozenset())

    def _is_at_home(self, queue: str, life: ClientLife) -> bool:
        return life.node == self._homes[queue]

    def _home_was_killed(self, queue: str, since: float, until: float) -> bool:
        home = self._homes[queue]
        return any(kill.node == home and since <= kill.at <= until for kill in self._sightings.kills)

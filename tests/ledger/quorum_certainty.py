"""What clients of quorum queues can be sure of: a queue decides by what is committed, so what it has heard is in the log."""

from __future__ import annotations

from collections.abc import Collection

from analytics.fold.lives import LifeState
from tests.ledger.notes import SKEW_S
from tests.ledger.sightings import Answer, ClientLife, Ended, Sighting, Sightings

STATES = {
    Answer.ACK: frozenset({LifeState.ACKED}),
    Answer.REJECT: frozenset({LifeState.REJECTED}),
    Answer.NO_ACK: frozenset({LifeState.NO_ACK}),
    Answer.GOT: frozenset({LifeState.ACKED}),  # for a client that does not acknowledge its node does
}
SAID = {Answer.NACK: frozenset({"released"}), Answer.REQUEUE: frozenset({"failed"})}
LEFT = frozenset({"failed", "consumer left"})
NODE_LOST = frozenset({"node gone", "node unreachable"})
TIMED_OUT = frozenset({"consumer timeout"})


class QuorumRules:
    """See the module."""

    early_s = SKEW_S
    names_clients = True

    def __init__(self, sightings: Sightings, timing_out: Collection[str] = ()) -> None:
        """`timing_out`: queues that take back what is not settled in time. What was settled may have been late all the
        same, for no client knows when it was handed out."""
        self._sightings = sightings
        self._timing_out = timing_out

    def ends(self, queue: str, seen: Sighting) -> frozenset[LifeState]:
        return STATES.get(seen.answer, frozenset())

    def loose_ends(self, queue: str) -> frozenset[LifeState]:
        return STATES[Answer.NO_ACK] | STATES[Answer.GOT] if self.unseen(queue) else frozenset()

    def is_sure(self, queue: str, seen: Sighting) -> bool:
        return seen.is_heard

    def is_stored(self, queue: str, seen: Sighting) -> bool:
        return True

    def is_told(self, queue: str, seen: Sighting) -> bool:
        return True

    def is_undone(self, queue: str, at: float) -> bool:
        return False

    def returned(self, queue: str, seen: Sighting) -> frozenset[str]:
        if seen.is_overdue:
            return TIMED_OUT
        said = SAID.get(seen.answer, frozenset()) | self._timeout(queue)
        return said if seen.is_heard else said | self._lost(seen.life, seen.at)

    def unseen(self, queue: str) -> frozenset[str]:
        lives = [life for life in self._sightings.lives if queue in life.taking]
        return self._timeout(queue).union(*(self._lost(life, life.ended_at) for life in lives))

    def _timeout(self, queue: str) -> frozenset[str]:
        return TIMED_OUT if queue in self._timing_out else frozenset()

    def _lost(self, life: ClientLife, since: float) -> frozenset[str]:
        """Its connection came to an end; and its node may have been killed before it could say so."""
        if life.ended is Ended.NOT:
            return frozenset()
        is_killed = self._sightings.lost_its_node(life, since)
        return (LEFT if life.may_have_left else frozenset()) | (NODE_LOST if is_killed else frozenset())

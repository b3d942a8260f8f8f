"""What is allowed to be in the log after kills: what clients know, both where they do not, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from analytics.fold.lives import LifeState
from tests.ledger.certainty import KindRules, QueuePlan, Rows, compared_rows
from tests.ledger.classic_certainty import DURABLE_WITHIN_S, ClassicRules
from tests.ledger.notes import Told
from tests.ledger.quorum_certainty import QuorumRules
from tests.ledger.sightings import Answer, ClientLife, Ended, Sighting, Sightings

MAIN, DEAD, BODY, HOME, AWAY = "main", "dead", "1.0.1", "n1", "n2"
PLANS = [QueuePlan(MAIN, HOME, DEAD), QueuePlan(DEAD, HOME)]


class World:
    """One message that was published at second 10, and what its clients see; `at` is what their clock shows."""

    def __init__(self, kind: str, *, confirmed: bool = True) -> None:
        self.at = 10.0
        self.sightings = Sightings(lambda: self.at)
        publication = self.sightings.publish(self.sightings.connected(AWAY, "p1"), BODY, (MAIN,))
        publication.confirmed_at = self.at if confirmed else None
        self._kind = kind
        self.timing_out: set[str] = set()

    def sees(self, life: ClientLife, answer: Answer, *, heard: bool) -> Sighting:
        self.at += 1
        seen = self.sightings.deliver(life, MAIN, BODY, ())
        self.sightings.answer(seen, answer)
        seen.is_heard = heard
        return seen

    def kills(self, node: str, after_s: float = 1.0) -> None:
        self.at += after_s
        self.sightings.kill(node).back_at = self.at + 1

    def found(self, *told: Told, dead: tuple[Told, ...] = ()) -> list[str]:
        rows: Rows = {MAIN: {BODY: list(told)}, DEAD: {BODY: list(dead)} if dead else {}}
        return compared_rows(self.sightings, PLANS, rows, self._rules())

    def _rules(self) -> KindRules:
        if self._kind == "quorum":
            return QuorumRules(self.sightings, self.timing_out)
        return ClassicRules(self.sightings, {plan.name: plan.home for plan in PLANS})


def told(state: LifeState, *returned: str, at: float = 10.0, ended_at: float = 11.0) -> Told:
    times_out = len(returned) + (state in (LifeState.ACKED, LifeState.REJECTED))
    return Told(
        state, times_out, Counter(returned), int(at * 1_000), "", ended_at=int(ended_at * 1_000), publisher="p1",
        died_in=MAIN, consumer="",
    )  # fmt: skip


def test_a_run_in_which_nothing_happened_is_not_taken_for_one_that_was_told_right() -> None:
    assert len(Sightings().not_seen()) == 3
    world = World("classic", confirmed=False)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=False)
    world.sees(world.sightings.connected(HOME), Answer.NACK, heard=True)
    assert len(world.sightings.not_seen()) == 3
    world.kills(HOME)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    assert world.sightings.not_seen() == ["nobody has seen a confirm"]
    world.sightings.published[BODY].confirmed_at = world.at
    assert world.sightings.not_seen() == []


@pytest.mark.parametrize("kind", ["classic", "quorum"])
class TestOfEachKind:
    def test_what_is_sure_is_allowed_one_way(self, kind: str) -> None:
        world = World(kind)
        world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
        assert world.found(told(LifeState.ACKED)) == []
        assert world.found() == [f"main: {BODY} is in the log 0 times, and should be 1 to 1 times"]
        assert "it should be acked, the log says ready" in world.found(told(LifeState.READY))[0]
        assert "it came back" in world.found(told(LifeState.ACKED, "failed"))[0]
        assert "it was published between" in world.found(told(LifeState.ACKED, at=12.0))[0]

    def test_a_publish_without_an_answer_may_have_come_to_nothing(self, kind: str) -> None:
        world = World(kind, confirmed=False)
        assert world.found() == []
        world.sees(world.sightings.connected(HOME), Answer.ACK, heard=False)
        assert world.found() != [], "somebody has seen it"

    def test_what_nobody_has_ended_cannot_be_gone(self, kind: str) -> None:
        world = World(kind)
        assert world.found(told(LifeState.ACKED)) != []
        world.sightings.purge(MAIN)
        assert world.found(told(LifeState.PURGED)) == []

    def test_a_dead_letter_may_be_lost_where_a_node_was_killed_and_nowhere_else(self, kind: str) -> None:
        world = World(kind)
        world.sees(world.sightings.connected(HOME), Answer.REJECT, heard=True)
        rejected = told(LifeState.REJECTED)
        assert world.found(rejected) == [f"dead: {BODY} is in the log 0 times, and should be 1 to 1 times"]
        assert "still there" in world.found(rejected, dead=(told(LifeState.ACKED),))[0]
        world.kills(AWAY)
        assert world.found(rejected) == []


def test_an_acknowledgement_that_a_quorum_queue_has_not_heard_may_be_lost_with_its_node() -> None:
    world = World("quorum")
    lost = world.sees(world.sightings.connected(AWAY), Answer.ACK, heard=False)
    world.kills(AWAY)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    again = told(LifeState.ACKED, "node gone")
    assert world.found(again) == []
    assert world.found(told(LifeState.ACKED, "released")) != []
    assert world.found(told(LifeState.ACKED)) != [], "it was out twice"
    lost.is_heard = True
    assert world.found(again) != []


def test_the_log_names_the_connection_that_ended_a_message() -> None:
    world = World("quorum")
    seen = world.sees(world.sightings.connected(HOME, "c1"), Answer.ACK, heard=True)
    acked = replace(told(LifeState.ACKED), consumer=None)
    assert world.found(acked) == [f"main: {BODY}: the log does not say who had it"]
    world.kills(HOME)
    assert world.found(acked) == [], "a get, and its node may have been killed before it had written down whose it was"
    seen.is_consumed = True
    assert world.found(acked) == [f"main: {BODY}: the log does not say who had it"]
    assert world.found(replace(acked, consumer="c1")) == []
    assert world.found(replace(acked, consumer="c2")) == [f"main: {BODY}: c1 had it last, the log says c2"]


def test_the_log_names_the_connection_that_published_a_message_unless_its_node_was_killed_then() -> None:
    world = World("quorum")
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    acked = told(LifeState.ACKED)
    assert world.found(replace(acked, publisher="p2")) == [f"main: {BODY}: p1 published it, the log says p2"]
    assert world.found(replace(acked, publisher=None)) == [f"main: {BODY}: p1 published it, the log says None"]
    world.kills(AWAY)
    assert world.found(replace(acked, publisher=None)) == []
    assert world.found(replace(acked, publisher="p2")) != []


def test_the_log_names_the_queue_that_a_dead_letter_died_in() -> None:
    world = World("quorum")
    world.sees(world.sightings.connected(HOME), Answer.REJECT, heard=True)
    world.at += 1
    world.sightings.answer(world.sightings.deliver(world.sightings.connected(HOME), DEAD, BODY, ()), Answer.ACK)
    rejected, letter = told(LifeState.REJECTED), told(LifeState.ACKED, at=11.0)
    assert world.found(rejected, dead=(letter,)) == []
    for said in (None, DEAD):
        wrong = world.found(rejected, dead=(replace(letter, died_in=said),))
        assert wrong == [f"dead: {BODY}: it died in one of ['main'], the log says {said}"]


def test_what_nobody_saw_comes_back_only_from_clients_that_were_taking_it() -> None:
    world = World("quorum")
    life = world.sightings.connected(AWAY)
    life.taking.add(MAIN)
    life.heard()
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    world.kills(AWAY)
    assert world.found(told(LifeState.ACKED, "node gone")) != []
    assert world.found(told(LifeState.ACKED, "never seen")) == []
    life.taking.add(MAIN)
    assert world.found(told(LifeState.ACKED, "node gone")) == []


def test_only_a_queue_with_a_consumer_timeout_takes_back_what_a_client_holds() -> None:
    world = World("quorum")
    held = world.sees(world.sightings.connected(HOME), Answer.NONE, heard=False)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    late = told(LifeState.ACKED, "consumer timeout")
    assert "it came back" in world.found(late)[0]
    world.timing_out = {MAIN}
    assert world.found(late) == []
    world.sightings.end(held.life, Ended.LEFT)
    assert world.found(told(LifeState.ACKED, "consumer left")) == []


@pytest.mark.parametrize(("kind", "left"), [("classic", "returned"), ("quorum", "consumer left")])
def test_who_was_leaving_when_its_node_was_killed_may_have_left_before(kind: str, left: str) -> None:
    """One of 38,000 messages came back in that moment, and its log was said to be wrong."""
    for is_leaving in (False, True):
        world = World(kind)
        held = world.sees(world.sightings.connected(AWAY), Answer.NONE, heard=False)
        held.life.is_leaving = is_leaving
        world.kills(AWAY)
        world.sees(world.sightings.connected(AWAY), Answer.ACK, heard=True)
        assert (world.found(told(LifeState.ACKED, left)) == []) is is_leaving
        assert world.found(told(LifeState.ACKED, "connection lost" if kind == "classic" else "node gone")) == []


def test_what_was_read_late_was_handed_out_before_what_is_a_redelivery() -> None:
    """On a busy machine a message was said to have been acknowledged by nobody: who had it first read of it last."""
    for is_killed, span_s, is_first in ((False, 0.1, True), (False, 2.0, False), (True, 0.1, False)):
        world = World("classic")
        again = world.sightings.connected(AWAY)
        world.sightings.answer(world.sightings.deliver(again, MAIN, BODY, ()), Answer.ACK)
        if is_killed:
            world.kills(HOME, after_s=0.0)
        world.at += span_s
        first = world.sightings.deliver(world.sightings.connected(AWAY), MAIN, BODY, (), is_redelivered=False)
        assert (world.sightings.seen[MAIN][BODY][0] is first) is is_first


def test_what_a_queue_said_was_late_came_back_for_that_reason_whatever_became_of_the_client() -> None:
    world = World("quorum")
    world.timing_out = {MAIN}
    late = world.sees(world.sightings.connected(HOME), Answer.NONE, heard=False)
    late.is_overdue = True
    world.sightings.end(late.life, Ended.LEFT)
    world.kills(HOME)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    assert world.found(told(LifeState.ACKED, "consumer timeout")) == []
    for reason in ("consumer left", "failed", "node gone", "released"):
        assert "it came back" in world.found(told(LifeState.ACKED, reason))[0]
    assert world.found(told(LifeState.ACKED)) != [], "it was out twice"


def test_an_acknowledgement_that_was_heard_may_have_come_too_late_only_where_consumers_have_a_timeout() -> None:
    world = World("quorum")
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    late = told(LifeState.ACKED, "consumer timeout")
    assert world.found(late) != []
    world.timing_out = {MAIN}
    assert world.found(late) == []
    assert world.found(told(LifeState.ACKED)) != [], "it was out twice"


def test_a_kill_of_its_home_undoes_what_a_classic_queue_was_told_right_before() -> None:
    early, late = World("classic"), World("classic")
    for world, after_s in ((early, DURABLE_WITHIN_S / 2), (late, DURABLE_WITHIN_S * 2)):
        world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
        world.kills(HOME, after_s)
        world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    assert early.found(told(LifeState.ACKED)) == []
    assert late.found(told(LifeState.ACKED)) != [], "it was acknowledged, and came again"


def test_a_death_and_its_dead_letter_may_both_be_undone_by_one_kill_though_a_client_has_seen_it() -> None:
    world = World("classic")
    world.sees(world.sightings.connected(HOME), Answer.REJECT, heard=True)
    world.sightings.deliver(world.sightings.connected(HOME), DEAD, BODY, ((MAIN, "rejected"),))
    world.kills(HOME, after_s=0.5)
    world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    assert world.found(told(LifeState.ACKED, ended_at=12.5)) == []


def test_what_a_home_sent_right_before_it_was_killed_may_be_seen_afterwards() -> None:
    world = World("classic")
    life = world.sightings.connected(AWAY)
    world.kills(HOME)
    world.at -= 0.8
    world.sees(life, Answer.NACK, heard=False)
    world.sightings.end(life, Ended.REFUSED)
    world.at += 5
    world.sees(world.sightings.connected(AWAY), Answer.ACK, heard=True)
    assert world.found(told(LifeState.ACKED, ended_at=17.0)) == []


def test_the_home_of_a_classic_queue_knows_less_of_clients_of_other_nodes() -> None:
    near, far = World("classic"), World("classic")
    for world, node in ((near, HOME), (far, AWAY)):
        life = world.sightings.connected(node)
        world.sees(life, Answer.REQUEUE, heard=True)
        world.sees(life, Answer.NONE, heard=False)
        world.sightings.end(life, Ended.BROKEN)
        world.sees(world.sightings.connected(HOME), Answer.ACK, heard=True)
    assert near.found(told(LifeState.ACKED, "rejected", "connection lost")) == []
    assert far.found(told(LifeState.ACKED, "returned", "returned")) == []
    assert near.found(told(LifeState.ACKED, "returned", "returned")) != []


def test_a_death_that_a_classic_queue_has_forgotten_may_come_once_more() -> None:
    world = World("classic")
    world.sees(world.sightings.connected(HOME), Answer.REJECT, heard=True)
    first = told(LifeState.PURGED, at=11.0)
    world.sightings.purge(DEAD)
    world.kills(HOME, after_s=0.5)
    world.sees(world.sightings.connected(HOME), Answer.REJECT, heard=True)
    rejected = told(LifeState.REJECTED, ended_at=12.5)
    assert world.found(rejected, dead=(first, told(LifeState.PURGED, at=12.5))) == []
    assert world.found(rejected, dead=(told(LifeState.PURGED, at=20.0), told(LifeState.PURGED, at=21.0))) != []

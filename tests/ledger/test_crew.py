"""When a single active consumer has taken over from another one, and that a run says what it never saw."""

from __future__ import annotations

from tests.ledger.crew import TIMED_OUT, TOOK_OVER, Crew, Turn, not_happened
from tests.ledger.sightings import Sightings

QUEUE = "single"


class World:
    """The turns of one crew."""

    def __init__(self) -> None:
        self.sightings = Sightings(lambda: 10.0)
        self.crew = Crew(QUEUE, None, self.sightings)

    def begins(self) -> Turn:
        return Turn(self.sightings.connected("n1"), self.crew.delivered)

    def is_given(self, turn: Turn) -> None:
        self.crew.note(turn)
        turn.taken.append((1, self.sightings.deliver(turn.life, QUEUE, "body", ())))


def test_who_waited_while_another_one_was_given_messages_took_over() -> None:
    world = World()
    first, second = world.begins(), world.begins()
    world.is_given(first)
    first.ended = "the client cancelled it"
    world.is_given(second)
    world.is_given(second)
    assert world.sightings.happened == {
        TOOK_OVER: 1, f"{TOOK_OVER}: before, the client cancelled it": 1,
    }  # fmt: skip


def test_who_came_when_the_one_before_had_left_did_not_wait() -> None:
    world = World()
    first = world.begins()
    world.is_given(first)
    world.is_given(world.begins())
    assert not world.sightings.happened


def test_the_one_before_may_have_lost_its_node() -> None:
    world = World()
    first, second = world.begins(), world.begins()
    world.is_given(first)
    world.sightings.kill("n1")
    world.is_given(second)
    assert world.sightings.happened[f"{TOOK_OVER}: before, its node was killed"] == 1


def test_a_run_in_which_nobody_was_late_or_took_over_says_so() -> None:
    sightings = Sightings()
    assert len(not_happened("quorum", sightings)) == 2
    sightings.happened[TOOK_OVER] += 1
    assert not_happened("classic", sightings) == []
    assert not_happened("quorum", sightings) == [f"{TIMED_OUT}: never, in all seeds"]

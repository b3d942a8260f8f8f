"""tests/sim/brokers/active_consumers.py: it sees a next consumer that overtakes, and nothing else."""

from __future__ import annotations

import pytest

from quorum.fifo.commands import ConsumerKey, SessionKey
from tests.sim.brokers.active_consumers import ActiveConsumers
from tests.sim.brokers.invariants import About
from tests.sim.invariants import Violation

LANE = (b"p", 4)
FIRST, NEXT, LAST = (ConsumerKey(node, 1, 1) for node in (1, 2, 3))


class Given:
    """The queue hands out messages; each is an entry of its own."""

    def __init__(self) -> None:
        self.watched = ActiveConsumers(About("queue", {}))

    def to(self, consumer: ConsumerKey, *numbers: int, unseen: bool = False) -> None:
        for number in numbers:
            self.watched.hand_out((number, 0, 0), LANE, number, consumer, unseen=unseen)


def test_a_next_consumer_that_is_given_newer_messages_first_is_noticed() -> None:
    given = Given()
    given.to(FIRST, 1, 2, 3)
    given.to(NEXT, 4, 5)
    with pytest.raises(Violation, match="message 3 was never seen, and its queue has given 5"):
        given.to(NEXT, 3, unseen=True)


def test_what_goes_back_before_the_next_one_is_given_anything_is_right() -> None:
    given = Given()
    given.to(FIRST, 1, 2, 3)
    given.to(NEXT, 2, 3, unseen=True)
    given.to(NEXT, 4)
    given.to(LAST, 3, 4, unseen=True)  # the next one has left as well
    given.to(LAST, 5)


def test_what_comes_again_to_the_same_consumer_overtakes_nothing() -> None:
    given = Given()
    given.to(FIRST, 1, 2, 3)
    given.to(FIRST, 2, 3, unseen=True)


@pytest.mark.parametrize("why", ["its node was not heard of", "it was late"])
def test_a_consumer_is_excused_when(why: str) -> None:
    given = Given()
    given.to(FIRST, 1, 2)
    given.to(NEXT, 3)
    if why == "it was late":
        given.watched.excuse(FIRST)
    else:
        given.watched.doubt(SessionKey(*FIRST[:2]))
    given.to(NEXT, 2, unseen=True)
    given.to(NEXT, 4)
    with pytest.raises(Violation, match="message 4 was never seen"):
        given.to(LAST, 5)
        given.to(LAST, 4, unseen=True)


def test_nothing_is_held_against_a_queue_that_had_no_such_rule() -> None:
    given = Given()
    given.to(FIRST, 1, 2)
    given.to(NEXT, 3)
    given.watched.forget()
    given.to(NEXT, 2, unseen=True)

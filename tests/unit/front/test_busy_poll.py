"""How long the event loop is kept from sleeping behind input."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from front.sockets.busy_poll import BusyPoll

SECONDS = 0.001


class Rounds:
    """A loop that has a clock, and nothing to do but what is asked of it."""

    def __init__(self) -> None:
        self.now = 5.0
        self.asked: deque[Callable[[], None]] = deque()
        self.poll = BusyPoll(self.asked.append, lambda: self.now, SECONDS)

    def round(self, took: float) -> bool:
        """One that takes so long. Whether another one follows without sleeping."""
        self.now += took
        for _ in range(len(self.asked)):
            self.asked.popleft()()
        return bool(self.asked)


def test_behind_input_the_loop_goes_on_for_as_long_as_it_is_told_and_then_sleeps() -> None:
    loop = Rounds()
    loop.poll.input_came()
    assert loop.round(0) and loop.round(SECONDS * 0.6)
    assert not loop.round(SECONDS * 0.6)
    loop.poll.input_came()
    assert loop.round(0)


def test_further_input_makes_it_longer_without_asking_for_more_rounds() -> None:
    loop = Rounds()
    for _ in range(3):
        loop.poll.input_came()
        loop.poll.input_came()
        assert loop.round(SECONDS * 0.6) and len(loop.asked) == 1
    assert loop.round(SECONDS * 0.6) and not loop.round(SECONDS * 0.6)


def test_what_the_loop_does_with_the_input_does_not_count() -> None:
    loop = Rounds()
    loop.poll.input_came()
    assert loop.round(SECONDS * 5)
    assert loop.round(SECONDS * 0.9) and not loop.round(SECONDS * 0.2)

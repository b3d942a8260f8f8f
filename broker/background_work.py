"""Work that is too much for one turn of the event loop, done in slices: of all that waits, fairly, between clients' requests.

A work is an iterator whose steps do a little each, at most about half a millisecond. It begins at once, and goes on as long as
this turn's budget lasts; what is left is done in later turns, each of which gives its budget to all works in turn. So a
small work is done when `do` returns, as if there were no slices, and a large one holds up nobody.

    in_turn     whether this turn may go on with something that can also be done later
    is_full     whether it may not, as far as is known without another look at the clock
    do          begin a work
    begin       the same, but its first step is taken even in a turn that has no budget left
    turn_ended  the next turn has a budget of its own
    finish      do all that waits, when there are no later turns

A core: time comes in through `clock`, later turns through `soon`. Where the clock does not move within a turn, as in
simulations, `steps_max` is the budget.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

TURN_S = 0.004  # beside what cannot wait; a publisher beside it should wait for no more than some of these

Steps = Iterator[None]


class Work(Protocol):
    """As those see it that have work to do."""

    def in_turn(self, at_least: int = 0) -> bool:
        """Whether one more step fits into this turn. So many fit in any case, however long they take."""

    def is_full(self, at_least: int = 0) -> bool:
        """Whether that is known to be False."""

    def do(self, work: Steps) -> None: ...

    def turn_ended(self) -> None: ...

    def finish(self) -> None:
        """Nothing is put off any more."""


def begin(work: Work, steps: Steps) -> None:
    """See the module."""
    if next(steps, work) is not work:
        work.do(steps)


class BackgroundWork:
    """See the module. Fulfils Work."""

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        clock: Callable[[], float],
        turn_s: float = TURN_S,
        steps_max: int | None = None,
    ) -> None:
        self._soon = soon
        self._clock = clock
        self._turn_s = turn_s
        self._steps_max = steps_max
        self._works: deque[Steps] = deque()
        self._scheduled = False
        self._steps = 0  # asked for in this turn
        self._until = 0.0  # of this turn; meaningful once a step was asked for
        self._over = False

    @property
    def count(self) -> int:
        """How many works are not at their end."""
        return len(self._works)

    def in_turn(self, at_least: int = 0) -> bool:
        steps = self._steps
        if not steps:
            self._until = self._clock() + self._turn_s
        elif steps >= at_least and not self._over:
            self._over = self._clock() >= self._until
        if steps == self._steps_max or (self._over and steps >= at_least):  # `is_full`, without a call for each message
            self._over = True
            return False
        self._steps = steps + 1
        return True

    def is_full(self, at_least: int = 0) -> bool:
        return self._steps == self._steps_max or (self._over and self._steps >= at_least)

    def turn_ended(self) -> None:
        self._steps, self._over = 0, False

    def finish(self) -> None:
        """The node stops: all of it, in this turn."""
        while self._works:
            for _ in self._works.popleft():
                pass

    def do(self, work: Steps) -> None:
        """Now as far as the turn's budget goes, and then in later turns."""
        if self._goes_on(work):
            self._works.append(work)
            self._schedule()

    def _goes_on(self, work: Steps) -> bool:
        """Do some of it; whether there is more."""
        while self.in_turn():
            if next(work, self) is self:
                return False
        return True

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._soon(self._run)

    def _run(self) -> None:
        """One turn's worth, a step of each work in turn."""
        self._scheduled = False
        self.turn_ended()
        try:
            while self._works and self.in_turn():
                work = self._works.popleft()
                if next(work, self) is not self:
                    self._works.append(work)
        finally:
            self.turn_ended()
            if self._works:
                self._schedule()


class Unsliced:
    """All of it where it is asked for: for tests and for hosts that have no turns. Fulfils Work."""

    def in_turn(self, at_least: int = 0) -> bool:
        return True

    def is_full(self, at_least: int = 0) -> bool:
        return False

    def do(self, work: Steps) -> None:
        for _ in work:
            pass

    def finish(self) -> None:
        pass

    def turn_ended(self) -> None:
        pass

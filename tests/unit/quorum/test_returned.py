"""Messages that came back stand where the rules say."""

from __future__ import annotations

from quorum.returned import Returned
from quorum.stored import NEVER, Stored


def run_of(length: int, first: int = 0) -> Stored:
    return Stored(7, 9, first, length, 3, 30, NEVER, 4, 0, 0)


def test_a_part_that_comes_back_stands_before_what_is_left_of_its_run() -> None:
    """What is left kept the place of the whole run, and was handed out before the message that stood before it. A member that
    had begun from a snapshot put it right, and so differed from the others."""
    returned = Returned()
    returned.in_place = True
    returned.put(run_of(3))
    assert returned.take(1) == run_of(1)
    second = returned.take(1)
    returned.put(second)
    assert [returned.take(1).first for _ in range(2)] == [1, 2]


def test_a_part_that_comes_back_waits_its_turn_by_default() -> None:
    returned = Returned()
    returned.put(run_of(3))
    first = returned.take(1)
    returned.put(first)
    assert [returned.take(1).first for _ in range(3)] == [1, 2, 0]

"""replicated/roll_call.py: it ends once, as early as it can, and tells who is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.pending import Pending
from raft.core.messages import MemberId
from replicated.roll_call import RollCall


class FakeLoop:
    """Keeps the one timer."""

    def __init__(self) -> None:
        self.time_is_up: Callable[[], object] = lambda: None
        self.cancelled = False

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        raise AssertionError("nothing is to be done soon")

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeLoop:
        self.time_is_up = lambda: callback(*args)
        return self

    def cancel(self) -> None:
        self.cancelled = True


class Called:
    def __init__(self, count: int) -> None:
        self.loop = FakeLoop()
        self.answers: dict[MemberId, Pending[bool]] = {voter: Pending() for voter in range(1, count + 1)}
        self.told: list[Sequence[MemberId]] = []
        RollCall(list(self.answers), self.told.append).begin(self.answers.__getitem__, self.loop)


def test_more_than_half_are_enough_and_who_comes_late_is_not_heard() -> None:
    called = Called(3)
    called.answers[1].resolve(True)
    assert called.told == []
    called.answers[3].resolve(True)
    assert (called.told, called.loop.cancelled) == ([[2]], True)
    called.answers[2].resolve(True)
    assert called.told == [[2]], "nor does it change what was told"
    called.loop.time_is_up()
    assert called.told == [[2]]


@pytest.mark.parametrize(("count", "away"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_it_ends_when_more_than_half_cannot_be_there_any_more(count: int, away: int) -> None:
    called = Called(count)
    for voter in range(1, away):
        called.answers[voter].resolve(False)
        assert called.told == []
    called.answers[away].resolve(False)
    assert called.told == [list(range(1, count + 1))]


def test_who_says_nothing_is_missing_when_time_is_up() -> None:
    called = Called(4)
    called.answers[2].resolve(True)
    called.loop.time_is_up()
    assert called.told == [[1, 3, 4]]
    called.answers[1].resolve(True)
    assert called.told == [[1, 3, 4]]

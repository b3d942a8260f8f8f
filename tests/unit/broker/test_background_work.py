"""Work in slices: at once what is small, fairly what is large, and never more than a turn's budget at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.background_work import BackgroundWork


class Loop:
    """Runs what is to come soon, one turn at a time; its clock moves with each step that is done."""

    def __init__(self, steps_max: int | None = None) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.work = BackgroundWork(self.soon.append, lambda: self.now, turn_s=1.0, steps_max=steps_max)

    def steps(self, name: str, count: int, each_s: float = 0.0) -> Iterator[None]:
        for _ in range(count):
            self.now += each_s
            self.done.append(name)
            yield

    def turn(self) -> list[str]:
        """What one turn does."""
        self.done.clear()
        soon = list(self.soon)
        self.soon.clear()
        for call in soon:
            call()
        return list(self.done)


def test_a_small_work_is_done_when_it_was_asked_for() -> None:
    loop = Loop(steps_max=10)
    loop.work.do(loop.steps("a", 5))
    assert (loop.done, loop.soon, loop.work.count) == (["a"] * 5, [], 0)


def test_a_large_work_goes_on_in_later_turns_until_it_is_done() -> None:
    loop = Loop(steps_max=4)
    loop.work.do(loop.steps("a", 10))
    assert loop.done == ["a"] * 4
    turns = []
    while loop.soon:
        turns.append(len(loop.turn()))
    assert turns == [4, 2]
    assert loop.work.count == 0


def test_works_take_turns_so_that_a_small_one_does_not_wait_for_a_large_one() -> None:
    loop = Loop(steps_max=4)
    loop.work.do(loop.steps("large", 1_000))
    loop.work.do(loop.steps("small", 2))
    assert loop.turn() == ["large", "small", "large", "small"]


def test_a_full_turn_does_nothing_of_what_can_be_done_later_until_it_ends() -> None:
    loop = Loop(steps_max=2)
    assert [loop.work.in_turn() for _ in range(3)] == [True, True, False]
    loop.work.do(loop.steps("a", 1))
    assert loop.done == []
    loop.work.turn_ended()
    assert loop.work.in_turn()
    assert loop.turn() == ["a"]


def test_a_turn_ends_with_the_step_that_uses_up_its_time() -> None:
    """The clock was looked at after each eighth step: eight dead letters of large runs took several turns' time."""
    loop = Loop()
    loop.work.do(loop.steps("a", 100, each_s=0.25))
    assert (len(loop.done), len(loop.turn())) == (4, 4)
    loop = Loop()
    loop.work.do(loop.steps("long", 3, each_s=2.0))
    assert (len(loop.done), len(loop.turn())) == (1, 1)


def test_a_turn_has_as_many_steps_as_are_asked_for_however_long_they_take() -> None:
    loop = Loop()
    allowed = []
    for _ in range(5):
        allowed.append(loop.work.in_turn(at_least=3))
        loop.now += 2.0
    assert allowed == [True, True, True, False, False]
    loop.work.turn_ended()
    assert [loop.work.in_turn(), loop.work.in_turn(at_least=3)] == [True, True]


def test_a_step_that_fails_ends_its_own_work_only() -> None:
    loop = Loop(steps_max=2)

    def failing() -> Iterator[None]:
        yield
        yield
        yield
        raise ValueError("a fault")

    loop.work.do(failing())
    loop.work.do(loop.steps("b", 3))
    with pytest.raises(ValueError, match="a fault"):
        while loop.soon:
            loop.turn()
    while loop.soon:
        loop.turn()
    assert loop.work.count == 0


def test_what_a_step_asks_for_is_done_behind_it() -> None:
    loop = Loop(steps_max=3)

    def asking() -> Iterator[None]:
        loop.done.append("first")
        loop.work.do(loop.steps("second", 5))
        yield

    loop.work.do(asking())
    seen = list(loop.done)
    while loop.soon:
        seen += loop.turn()
    assert seen == ["first", *["second"] * 5]


def test_what_has_to_fit_into_a_turn_does_when_other_work_has_used_up_its_time() -> None:
    seconds = [0.0]
    work = BackgroundWork(lambda _: None, lambda: seconds[0])
    assert work.in_turn()
    seconds[0] = 60.0
    assert (work.in_turn(), work.is_full()) == (False, True)
    assert (work.is_full(at_least=2), work.in_turn(at_least=2)) == (False, True)
    assert (work.is_full(at_least=2), work.in_turn(at_least=2)) == (True, False)

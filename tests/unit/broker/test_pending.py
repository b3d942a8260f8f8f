"""An answer that may come later: one answer, one listener, and errors that pass through."""

from __future__ import annotations

import pytest

from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.pending import Pending


class Listener:
    def __init__(self) -> None:
        self.values: list[object] = []
        self.errors: list[BrokerError] = []

    def listen(self, pending: Pending[int]) -> Listener:
        pending.then(self.values.append, self.errors.append)
        return self


def test_an_answer_that_is_known_is_told_at_once() -> None:
    error = NotFound("no")
    assert Listener().listen(Pending.of(1)).values == [1]
    assert Listener().listen(Pending.failed(error)).errors == [error]


def test_an_answer_that_comes_later_is_told_when_it_comes() -> None:
    first, second = Pending[int](), Pending[int]()
    listeners = [Listener().listen(first), Listener().listen(second)]
    assert not first.answered and [one.values + one.errors for one in listeners] == [[], []]
    first.resolve(5)
    second.fail(NotFound("no"))
    assert first.answered and second.answered
    assert (listeners[0].values, [error.text for error in listeners[1].errors]) == ([5], ["no"])


def test_a_second_answer_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="answered twice: 1, then 2"):
        Pending.of(1).resolve(2)
    with pytest.raises(AssertionError, match="answered 1, then failed"):
        Pending.of(1).fail(NotFound("no"))


@pytest.mark.parametrize("answered", [True, False])
def test_a_second_listener_is_a_bug(answered: bool) -> None:
    pending: Pending[int] = Pending.of(1) if answered else Pending()
    Listener().listen(pending)
    with pytest.raises(AssertionError, match="one listener"):
        Listener().listen(pending)


def test_an_answer_is_seen_through_a_change() -> None:
    pending = Pending[int]()
    seen = Listener().listen(pending.map(lambda value: value * 2))
    pending.resolve(21)
    assert seen.values == [42]


def test_an_error_passes_by_the_change() -> None:
    assert [error.text for error in Listener().listen(Pending[int].failed(NotFound("no")).map(abs)).errors] == ["no"]


def test_an_error_of_the_change_becomes_the_answer() -> None:
    def change(value: int) -> int:
        raise PreconditionFailed(f"{value} is not it")

    assert [error.text for error in Listener().listen(Pending.of(3).map(change)).errors] == ["3 is not it"]


def test_a_bug_in_the_change_is_not_taken_for_an_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        Pending.of(0).map(lambda value: 1 // value)


def test_what_is_asked_after_an_answer_answers_in_its_place() -> None:
    first, second = Pending[int](), Pending[str]()
    asked: list[int] = []

    def ask(value: int) -> Pending[str]:
        asked.append(value)
        return second

    seen = Listener().listen(first.then_ask(ask))
    first.resolve(3)
    assert (asked, seen.values) == ([3], [])
    second.resolve("three")
    assert seen.values == ["three"]


def test_nothing_is_asked_after_an_error_and_an_error_of_asking_becomes_the_answer() -> None:
    def ask(value: int) -> Pending[int]:
        raise PreconditionFailed(f"{value} is not it")

    for pending, text in ((Pending[int].failed(NotFound("no")), "no"), (Pending.of(3), "3 is not it")):
        assert [error.text for error in Listener().listen(pending.then_ask(ask)).errors] == [text]

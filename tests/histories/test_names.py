"""Histories of names: those that one order explains, and those that none does."""

from __future__ import annotations

import pytest

from tests.histories.names import OPEN, Answer, NameCall, Verb, judge_names


def declared(value: str, began: float, ended: float = OPEN, answer: Answer | None = Answer.DONE) -> NameCall:
    return NameCall(Verb.DECLARE, "orders", "c", began, ended, value, answer if ended < OPEN else None)


def deleted(began: float, ended: float = OPEN) -> NameCall:
    return NameCall(Verb.DELETE, "orders", "c", began, ended, answer=Answer.DONE if ended < OPEN else None)


def looked(found: bool, began: float, ended: float) -> NameCall:
    return NameCall(Verb.LOOK, "orders", "c", began, ended, answer=Answer.PRESENT if found else Answer.ABSENT)


RIGHT = {
    "declared, looked up, deleted, gone": [declared("a", 0, 1), looked(True, 2, 3), deleted(4, 5), looked(False, 6, 7)],
    "declared twice alike": [declared("a", 0, 1), declared("a", 2, 3)],
    "declared otherwise while it exists": [declared("a", 0, 1), declared("b", 2, 3, Answer.OTHER)],
    "declared otherwise after it was deleted": [declared("a", 0, 1), deleted(2, 3), declared("b", 4, 5)],
    "two at once, one of which wins": [declared("a", 0, 9), declared("b", 0, 9, Answer.OTHER), looked(True, 10, 11)],
    "deleted, though it never was": [deleted(0, 1), looked(False, 2, 3)],
    "a declaration of unknown fate that was done late": [declared("a", 0), looked(False, 1, 2), looked(True, 3, 4)],
    "a declaration of unknown fate that was never done": [declared("a", 0), declared("b", 1, 2), looked(True, 3, 4)],
    "a delete that could have found nothing, and must have found something": [
        declared("a", 0, 9), deleted(1, 9), declared("b", 10, 11)
    ],
    "a delete of unknown fate": [declared("a", 0, 1), deleted(2), looked(True, 3, 4), looked(False, 5, 6)],
}  # fmt: skip
WRONG = {
    "a declared name that is gone": [declared("a", 0, 1), looked(False, 2, 3)],
    "a deleted name that is back": [declared("a", 0, 1), deleted(2, 3), looked(True, 4, 5)],
    "a name that nobody declared": [looked(True, 0, 1)],
    "looked up, then not there, then there again": [
        declared("a", 0, 9), looked(True, 1, 2), looked(False, 3, 4), looked(True, 5, 6)
    ],
    "two declarations that both won": [declared("a", 0, 9), declared("b", 0, 9)],
    "refused for other arguments, and nobody declared any": [declared("b", 0, 1, Answer.OTHER)],
    "a delete that was undone by one of unknown fate": [
        declared("a", 0, 1), deleted(2), looked(False, 3, 4), looked(True, 5, 6)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_some_order_explains_is_right(name: str) -> None:
    assert judge_names(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_no_order_explains_is_found(name: str) -> None:
    (wrong,) = judge_names(WRONG[name])
    assert wrong.startswith("orders: no order explains")


def test_names_are_judged_apart() -> None:
    other = NameCall(Verb.LOOK, "bills", "c", 2, 3, answer=Answer.ABSENT)
    assert judge_names([declared("a", 0, 1), other]) == []

"""Confirms: each tag is answered once and truly, and `multiple` never says more than is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages.confirms import ConfirmTracker, Receipt, merged


class Calls:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def tracker_and_calls() -> tuple[ConfirmTracker, Calls]:
    calls = Calls()
    return ConfirmTracker(calls), calls


def test_tags_begin_at_one_and_a_run_takes_as_many_as_it_has_messages() -> None:
    tracker, _ = tracker_and_calls()
    assert [(receipt.first, receipt.last) for receipt in (tracker.expect(1, 1), tracker.expect(3, 2))] == [
        (1, 1),
        (2, 4),
    ]
    assert (tracker.next_tag, tracker.unanswered_count) == (5, 4)


def test_a_run_is_answered_when_all_its_queues_have_answered() -> None:
    tracker, calls = tracker_and_calls()
    receipt = tracker.expect(2, 2)
    receipt.accepted()
    assert (calls.count, tracker.take()) == (0, [])
    receipt.accepted()
    assert (calls.count, tracker.take()) == (1, [(1, 2, True, True)])


def test_one_refusal_is_enough_for_a_nack_but_it_waits_for_the_others() -> None:
    tracker, _ = tracker_and_calls()
    receipt = tracker.expect(1, 2)
    receipt.refused()
    assert tracker.take() == []
    receipt.accepted()
    assert tracker.take() == [(1, 1, False, False)]


def test_what_goes_to_no_queue_is_answered_at_once() -> None:
    tracker, calls = tracker_and_calls()
    tracker.expect(3, 0)
    assert (calls.count, tracker.take(), tracker.unanswered_count) == (1, [(1, 3, True, True)], 0)


def test_who_takes_is_called_once_for_all_that_waits() -> None:
    tracker, calls = tracker_and_calls()
    for _ in range(3):
        tracker.expect(1, 0)
    assert calls.count == 1
    tracker.take()
    tracker.expect(1, 0)
    assert calls.count == 2


def test_answers_out_of_order_are_told_without_multiple_until_the_gap_closes() -> None:
    tracker, _ = tracker_and_calls()
    first, second, third = (tracker.expect(2, 1) for _ in range(3))
    third.accepted()
    assert tracker.take() == [(5, 6, False, True)]
    second.accepted()
    assert tracker.take() == [(3, 4, False, True)]
    first.accepted()
    assert tracker.take() == [(1, 2, True, True)]


def test_an_ack_beside_a_nack_does_not_speak_for_several() -> None:
    tracker, _ = tracker_and_calls()
    receipts = [tracker.expect(1, 1) for _ in range(3)]
    receipts[0].accepted()
    receipts[1].refused()
    receipts[2].accepted()
    assert tracker.take() == [(1, 1, False, True), (2, 2, False, False), (3, 3, False, True)]


@pytest.mark.parametrize("told", [False, True], ids=["not told yet", "told"])
def test_what_all_queues_have_taken_is_not_refused_by_a_failure_behind_it(told: bool) -> None:
    tracker, calls = tracker_and_calls()
    receipt = tracker.expect(2, 1)
    receipt.accepted()
    taken = tracker.take() if told else []
    receipt.give_up()
    assert (calls.count, taken + tracker.take()) == (1, [(1, 2, True, True)])


def test_an_answer_too_many_is_a_bug_of_the_queue_and_says_which_tags() -> None:
    receipt = ConfirmTracker(lambda: None).expect(2, 1)
    receipt.accepted()
    with pytest.raises(AssertionError, match="tags 1 to 2 were answered more often than routed"):
        receipt.accepted()


def test_a_receipt_holds_at_least_one_tag() -> None:
    with pytest.raises(AssertionError, match="tags 3 to 2"):
        Receipt(ConfirmTracker(lambda: None), 3, 2, 1)


def test_neighbours_of_one_kind_become_one_answer() -> None:
    answers = [(7, 7, True), (1, 2, True), (3, 3, True), (4, 4, False), (5, 6, False)]
    assert merged(answers) == [(1, 3, True), (4, 6, False), (7, 7, True)]


class Publisher:
    """What a client believes of its publishes, reading `multiple` as the protocol says."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.told: dict[int, bool] = {}

    def hear(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        tags = {tag for tag in self.open if tag <= last} if multiple else set(range(first, last + 1))
        assert tags <= self.open, f"{sorted(tags - self.open)} were told twice"
        self.open -= tags
        self.told |= dict.fromkeys(tags, ok)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4), st.integers(0, 3)),
        st.tuples(st.just("accept"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("refuse"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("split"), st.integers(0, 20), st.integers(1, 3)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_publisher_hears_the_truth_about_every_tag_once(steps: list[tuple[str, int, int]]) -> None:
    tracker, publisher = ConfirmTracker(lambda: None), Publisher()
    receipts: list[Receipt] = []  # whole ones
    parts: list[Receipt] = []
    owed: dict[int, int] = {}  # by first tag: how many queues still answer the whole receipt
    refused: set[int] = set()
    truth: dict[int, bool] = {}  # of tags that are answered
    for step, number, queues in steps:
        if step == "publish":
            receipt = tracker.expect(number, queues)
            publisher.open |= set(range(receipt.first, receipt.last + 1))
            receipts.append(receipt)
            owed[receipt.first] = queues
        elif step == "take":
            for answer in tracker.take():
                publisher.hear(*answer)
            assert publisher.told == truth
            assert tracker.unanswered_count == len(publisher.open)
        elif step == "split":
            if whole := [receipt for receipt in receipts if owed[receipt.first]]:
                receipt = whole[number % len(whole)]
                by = min(queues, owed[receipt.first])
                owed[receipt.first] -= by
                parts += receipt.split(by)
        elif answerable := [one for one in receipts if owed[one.first]] + [one for one in parts if one.waiting]:
            receipt = answerable[number % len(answerable)]
            if receipt not in parts:
                owed[receipt.first] -= 1
            if step == "accept":
                receipt.accepted()
            else:
                refused |= set(range(receipt.first, receipt.last + 1))
                receipt.refused()
        truth = {
            tag: tag not in refused
            for receipt in receipts
            if not receipt.waiting
            for tag in range(receipt.first, receipt.last + 1)
        }


def test_a_run_that_one_queue_refuses_is_refused_though_another_one_took_part_of_it() -> None:
    """Its messages count as taken when every queue took them: those that the second queue took were confirmed."""
    tracker = ConfirmTracker(lambda: None)
    receipt = tracker.expect(3, 2)
    receipt.refuse_tag(2)
    receipt.accepted()
    receipt.refused()
    assert tracker.take() == [(1, 3, False, False)]

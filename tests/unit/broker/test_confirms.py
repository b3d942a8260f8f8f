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


class Answered:
    """A channel's publishes with queues that answer in any order, and what their publisher has to hear."""

    def __init__(self) -> None:
        self.tracker, self.publisher = ConfirmTracker(lambda: None), Publisher()
        self.receipts: list[Receipt] = []  # whole ones
        self.parts: list[Receipt] = []
        self.owed: dict[int, int] = {}  # by first tag: how many queues still answer the whole receipt
        self.refused: set[int] = set()

    def step(self, step: str, number: int, queues: int) -> None:
        if step == "publish":
            receipt = self.tracker.expect(number, queues)
            self.publisher.open |= set(range(receipt.first, receipt.last + 1))
            self.receipts.append(receipt)
            self.owed[receipt.first] = queues
        elif step == "take":
            self.take()
        elif step == "split":
            if whole := self.whole():
                receipt = whole[number % len(whole)]
                by = min(queues, self.owed[receipt.first])
                self.owed[receipt.first] -= by
                self.parts += receipt.split(by)
        elif answerable := self.answerable():
            self.answer(answerable[number % len(answerable)], step == "accept")

    def whole(self) -> list[Receipt]:
        return [receipt for receipt in self.receipts if self.owed[receipt.first]]

    def answerable(self) -> list[Receipt]:
        return self.whole() + [part for part in self.parts if part.waiting]

    def answer(self, receipt: Receipt, accepted: bool) -> None:
        if receipt not in self.parts:
            self.owed[receipt.first] -= 1
        if accepted:
            receipt.accepted()
        else:
            self.refused |= set(range(receipt.first, receipt.last + 1))
            receipt.refused()

    def take(self) -> None:
        """Parts are of one tag, so what became of it is known when nobody owes an answer for it."""
        for answer in self.tracker.take():
            self.publisher.hear(*answer)
        waiting = {tag for one in self.answerable() for tag in range(one.first, one.last + 1)}
        whole = [
            range(one.first, one.last + 1)
            for one in self.receipts
            if waiting.isdisjoint(range(one.first, one.last + 1))
        ]
        assert self.publisher.told == {tag: tag not in self.refused for tags in whole for tag in tags}
        assert self.tracker.unanswered_count == len(self.publisher.open)


@given(STEPS)
def test_a_publisher_hears_the_truth_about_every_tag_once(steps: list[tuple[str, int, int]]) -> None:
    channel = Answered()
    for step in steps:
        channel.step(*step)
    while answerable := channel.answerable():
        channel.answer(answerable[-1], len(answerable) % 3 > 0)
    channel.take()
    assert not channel.publisher.open


def test_what_a_queue_that_looks_at_each_message_refuses_is_refused_and_the_rest_of_its_run_is_not() -> None:
    """Two of three queues look at each for themselves."""
    tracker, _ = tracker_and_calls()
    whole = tracker.expect(3, 3)
    parts = whole.split(2)
    for part, refuse in zip(parts, (False, True, False), strict=True):
        part.accepted()
        part.refused() if refuse else part.accepted()
    assert tracker.take() == [], "the third queue owes its answer"
    whole.accepted()
    assert [(first, last, ok) for first, last, _, ok in tracker.take()] == [(1, 1, True), (2, 2, False), (3, 3, True)]


def test_a_part_of_which_a_tag_is_refused_was_not_taken() -> None:
    tracker, _ = tracker_and_calls()
    (part,) = tracker.expect(1, 1).split(1)
    part.refuse_tag(1)
    part.accepted()
    assert tracker.take() == [(1, 1, False, False)]


def test_whoever_is_left_of_the_queues_of_a_run_that_was_given_up_answers_to_nobody() -> None:
    tracker, _ = tracker_and_calls()
    receipt = tracker.expect(2, 2)
    receipt.give_up()
    receipt.accepted()
    receipt.accepted()
    assert tracker.take() == [(1, 2, False, False)]


def test_an_ack_that_came_before_the_nack_of_an_earlier_message_does_not_speak_for_it() -> None:
    tracker, _ = tracker_and_calls()
    first, second = tracker.expect(1, 1), tracker.expect(1, 1)
    second.accepted()
    first.refused()
    assert tracker.take() == [(1, 1, False, False), (2, 2, False, True)]


def test_a_channel_that_is_closed_is_called_no_more() -> None:
    tracker, calls = tracker_and_calls()
    receipt = tracker.expect(1, 1)
    tracker.close()
    receipt.accepted()
    assert calls.count == 0


def test_a_run_that_one_queue_refuses_is_refused_though_another_one_took_part_of_it() -> None:
    """Its messages count as taken when every queue took them: those that the second queue took were confirmed."""
    tracker = ConfirmTracker(lambda: None)
    receipt = tracker.expect(3, 2)
    receipt.refuse_tag(2)
    receipt.accepted()
    receipt.refused()
    assert tracker.take() == [(1, 3, False, False)]

"""Publisher confirms: every tag answered once, neighbours together, `multiple` only when it is true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.confirms import ConfirmTracker, Receipt, merged


class Channel:
    """A tracker, and how often it said that answers wait."""

    def __init__(self) -> None:
        self.ready = 0
        self.tracker = ConfirmTracker(self._note)

    def _note(self) -> None:
        self.ready += 1


def test_a_run_is_answered_when_all_its_queues_have_it() -> None:
    channel = Channel()
    receipt = channel.tracker.expect(3, queues=2)
    receipt.accepted()
    assert (channel.ready, channel.tracker.take()) == (0, [])
    receipt.accepted()
    assert (channel.ready, channel.tracker.take()) == (1, [(1, 3, True, True)])


def test_one_queue_that_refuses_makes_it_a_nack() -> None:
    channel = Channel()
    receipt = channel.tracker.expect(2, queues=3)
    receipt.accepted()
    receipt.refused()
    receipt.accepted()
    assert channel.tracker.take() == [(1, 2, False, False)]


def test_what_no_queue_gets_is_answered_at_once() -> None:
    channel = Channel()
    channel.tracker.expect(1, queues=0)
    assert (channel.ready, channel.tracker.take()) == (1, [(1, 1, True, True)])


def test_neighbours_are_answered_together() -> None:
    channel = Channel()
    receipts = [channel.tracker.expect(2, queues=1) for _ in range(3)]
    for receipt in receipts:
        receipt.accepted()
    assert channel.tracker.take() == [(1, 6, True, True)]


def test_multiple_is_said_only_when_nothing_below_is_open() -> None:
    channel = Channel()
    first, second, third = [channel.tracker.expect(1, queues=1) for _ in range(3)]
    second.accepted()
    third.accepted()
    assert channel.tracker.take() == [(2, 3, False, True)]
    first.accepted()
    assert channel.tracker.take() == [(1, 1, True, True)]


def test_an_ack_never_reaches_past_a_nack_that_goes_with_it() -> None:
    channel = Channel()
    receipts = [channel.tracker.expect(1, queues=1) for _ in range(3)]
    receipts[0].refused()
    receipts[1].accepted()
    receipts[2].accepted()
    assert channel.tracker.take() == [(1, 1, False, False), (2, 3, False, True)]


def test_readiness_is_said_once_until_answers_are_taken() -> None:
    channel = Channel()
    for _ in range(3):
        channel.tracker.expect(1, queues=0)
    assert channel.ready == 1
    channel.tracker.take()
    channel.tracker.expect(1, queues=0)
    assert channel.ready == 2


def test_open_tags_are_counted() -> None:
    channel = Channel()
    receipt = channel.tracker.expect(5, queues=1)
    channel.tracker.expect(2, queues=1)
    receipt.accepted()
    assert channel.tracker.unanswered_count == 2


def test_an_answer_too_many_is_a_bug_and_says_so() -> None:
    receipt = Receipt(Channel().tracker, 4, 6, waiting=1)
    receipt.accepted()
    with pytest.raises(AssertionError, match="tags 4 to 6 were answered more often than routed"):
        receipt.accepted()


def test_answers_of_different_kinds_are_not_merged() -> None:
    assert merged([(3, 3, True), (1, 1, True), (2, 2, False)]) == [(1, 1, True), (2, 2, False), (3, 3, True)]


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    data=st.data(),
)
def test_whatever_the_order_of_answers_a_client_learns_of_each_tag_once(counts: list[int], data: st.DataObject) -> None:
    channel = Channel()
    receipts = [channel.tracker.expect(count, queues=1) for count in counts]
    answered: dict[int, bool] = {}
    expected: dict[int, bool] = {}
    for receipt in data.draw(st.permutations(receipts)):
        ok = data.draw(st.booleans())
        expected.update(dict.fromkeys(range(receipt.first, receipt.last + 1), ok))
        if ok:
            receipt.accepted()
        else:
            receipt.refused()
        if data.draw(st.booleans()):
            learn(channel.tracker, answered)
    learn(channel.tracker, answered)
    assert answered == expected


def learn(tracker: ConfirmTracker, answered: dict[int, bool]) -> None:
    """Read answers as a client does: with `multiple`, everything up to the last that is not answered yet."""
    for first, last, multiple, ok in tracker.take():
        assert not any(tag in answered for tag in range(first, last + 1)), f"{first} to {last} are answered twice"
        for tag in range(1 if multiple else first, last + 1):
            answered.setdefault(tag, ok)

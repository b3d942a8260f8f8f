"""Which publishes have been answered: one receipt for a run, one tracker for a channel.

A run that goes to n queues is confirmed when all n have taken it, each in its own sense (classic: durable here; quorum and
stream: durable on a majority). A receipt counts those answers for the whole run, so confirms cost the same for one
message and for a thousand. The tracker gathers what was answered until the front takes it, merged into ranges.

    confirmed   every tag below `oldest_open` has been answered and handed over
    open        ranges of tags still owed an answer, in order
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class AnswersTo(Protocol):
    """Whoever made a receipt and is to know when it is complete."""

    def answered(self, receipt: Receipt) -> None: ...

    def given_up(self, receipt: Receipt) -> None:
        """The newest receipt counts as refused, and will never be complete."""


class Receipt:
    """What a run's queues still owe. Each queue calls exactly one of `accepted` and `refused`, once."""

    __slots__ = ("first", "last", "refusals", "tracker", "waiting")

    def __init__(self, tracker: AnswersTo, first: int, last: int, waiting: int) -> None:
        assert first <= last, f"a receipt for tags {first} to {last}"
        self.tracker = tracker
        self.first = first
        self.last = last
        self.waiting = waiting  # queues that have not answered yet
        self.refusals = 0

    def accepted(self) -> None:
        self.waiting -= 1
        assert self.waiting >= 0, f"tags {self.first} to {self.last} were answered more often than routed"
        if self.waiting == 0:
            self.tracker.answered(self)

    def refused(self) -> None:
        self.refusals += 1
        self.accepted()

    def give_up(self) -> None:
        """A kind of queue failed in the middle of taking the run: refused, whatever others still answer."""
        if self.waiting:
            self.waiting += 1
            self.tracker.given_up(self)


# (first tag, last tag, True for ack or False for nack)
Answer = tuple[int, int, bool]


class ConfirmTracker:
    """The publisher confirms of one channel. `on_ready` is called when answers wait and none waited before."""

    __slots__ = ("_answers", "_on_ready", "_open", "next_tag")

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self.next_tag = 1
        self._open: deque[Receipt] = deque()  # in order of tags; answered ones leave from the left
        self._answers: list[Answer] = []
        self._on_ready = on_ready

    def expect(self, count: int, queues: int) -> Receipt:
        """A receipt for the next `count` tags; answered at once when no queue is to answer."""
        first = self.next_tag
        self.next_tag += count
        receipt = Receipt(self, first, first + count - 1, queues)
        self._open.append(receipt)
        if queues == 0:
            self.answered(receipt)
        return receipt

    def answered(self, receipt: Receipt) -> None:
        if not self._answers:
            self._on_ready()
        self._answers.append((receipt.first, receipt.last, receipt.refusals == 0))

    def given_up(self, receipt: Receipt) -> None:
        assert self._open[-1] is receipt, f"tags {receipt.first} to {receipt.last} are not the newest"
        self._open[-1] = Receipt(self, receipt.first, receipt.last, 1)
        self._open[-1].refused()

    @property
    def unanswered_count(self) -> int:
        return sum(receipt.last - receipt.first + 1 for receipt in self._open if receipt.waiting)

    def take(self) -> list[tuple[int, int, bool, bool]]:
        """What to tell the publisher now: (first, last, multiple, ok). `multiple` says that nothing below is open."""
        answers = merged(self._answers)
        self._answers = []
        while self._open and self._open[0].waiting == 0:
            self._open.popleft()
        oldest_open = self._open[0].first if self._open else self.next_tag
        # An ack with `multiple` answers for everything below it, so it may not reach past a nack that goes out with it.
        all_taken = all(ok for _, _, ok in answers)
        return [(first, last, all_taken and last < oldest_open, ok) for first, last, ok in answers]


def merged(answers: list[Answer]) -> list[Answer]:
    """Neighbouring answers of the same kind as one, in order of tags."""
    result: list[Answer] = []
    for first, last, ok in sorted(answers):
        if result and result[-1][1] + 1 == first and result[-1][2] == ok:
            result[-1] = (result[-1][0], last, ok)
        else:
            result.append((first, last, ok))
    return result

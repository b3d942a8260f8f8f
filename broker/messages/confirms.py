"""Which publishes have been answered: one receipt for a run, one tracker for a channel.

A run that goes to n queues is confirmed when all n have taken it, each in its own sense (classic: durable here; quorum and
stream: durable on a majority). A receipt counts those answers for the whole run, so confirms cost the same for one
message and for a thousand. The tracker gathers what was answered until the front takes it, merged into ranges.

A queue that looks at each message for itself (a limit that may refuse one of a run) splits the receipt. It is complete when
each of its parts is, so a part that was lost on the way leaves the publisher without an answer, and never with a wrong one.

    confirmed   every tag below `oldest_open` has been answered and handed over
    open        ranges of tags still owed an answer, in order
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class AnswersTo(Protocol):
    """Whoever made a receipt and is to know when it is complete."""

    def answered(self, receipt: Receipt) -> None:
        """Every queue has answered: `receipt.answers()` says what."""

    def given_up(self, receipt: Receipt) -> None:
        """The receipt counts as refused. What its queues still answer is told to nobody."""


# (first tag, last tag, True for ack or False for nack)
Answer = tuple[int, int, bool]


class Receipt:
    """What a run's queues still owe. Each queue calls exactly one of `accepted` and `refused`, once."""

    __slots__ = ("first", "last", "refusals", "refused_tags", "tracker", "waiting")

    def __init__(self, tracker: AnswersTo, first: int, last: int, waiting: int) -> None:
        assert first <= last, f"a receipt for tags {first} to {last}"
        self.tracker = tracker
        self.first = first
        self.last = last
        self.waiting = waiting  # queues that have not answered yet
        self.refusals = 0  # by queues that would not take the run
        self.refused_tags: set[int] | None = None  # of messages that a queue would not take, though it took others

    def accepted(self) -> None:
        self.waiting -= 1
        assert self.waiting >= 0, f"tags {self.first} to {self.last} were answered more often than routed"
        if self.waiting == 0:
            self.tracker.answered(self)

    def refused(self) -> None:
        self.refusals += 1
        self.accepted()

    def refuse_tag(self, tag: int) -> None:
        """One message was refused by a queue that is still to accept the run."""
        assert self.first <= tag <= self.last, f"{tag} is none of the tags {self.first} to {self.last}"
        if self.refused_tags is None:
            self.refused_tags = set()
        self.refused_tags.add(tag)

    def split(self, queues: int) -> list[Receipt]:
        """A receipt for each message, which so many of the queues that owe this one answer instead."""
        assert 0 < queues <= self.waiting, f"{queues} queues split a receipt that {self.waiting} owe"
        parts = _Parts(self, queues, self.last + 1 - self.first)
        return [Receipt(parts, tag, tag, queues) for tag in range(self.first, self.last + 1)]

    def answers(self) -> list[Answer]:
        """What became of which messages, as ranges in order."""
        if self.refusals or self.refused_tags is None:
            return [(self.first, self.last, not self.refusals)]
        return merged([(tag, tag, tag not in self.refused_tags) for tag in range(self.first, self.last + 1)])

    @property
    def taken(self) -> bool:
        """Whether every queue took every message."""
        return not self.refusals and self.refused_tags is None

    def give_up(self) -> None:
        """A kind of queue failed in the middle of taking the run: refused, whatever others still answer."""
        if self.waiting:
            tracker, self.tracker = self.tracker, NOBODY
            tracker.given_up(self)


class _Parts:
    """Complete the receipt that was split when all of them are. Fulfils AnswersTo."""

    def __init__(self, whole: Receipt, queues: int, count: int) -> None:
        self._whole = whole
        self._queues = queues
        self._open = count

    def answered(self, receipt: Receipt) -> None:
        if not receipt.taken:
            self._whole.refuse_tag(receipt.first)
        self._open -= 1
        if not self._open:
            for _ in range(self._queues):
                self._whole.accepted()

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError(f"only part of a receipt is given up: tag {receipt.first}")


class _Nobody:
    """Hears of a receipt that was given up. Fulfils AnswersTo."""

    def answered(self, receipt: Receipt) -> None:
        pass

    def given_up(self, receipt: Receipt) -> None:
        pass


NOBODY = _Nobody()


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
        if receipt.refused_tags is None:
            self._answers.append((receipt.first, receipt.last, receipt.refusals == 0))
        else:
            self._answers += receipt.answers()

    def given_up(self, receipt: Receipt) -> None:
        # Nearly always the newest, and few are behind it otherwise.
        at = next(at for at in range(len(self._open) - 1, -1, -1) if self._open[at] is receipt)
        stands_in = self._open[at] = Receipt(self, receipt.first, receipt.last, 1)
        stands_in.refused()

    def close(self) -> None:
        """Nobody hears of what is still to be answered."""
        self._on_ready = _nothing

    @property
    def unanswered_count(self) -> int:
        return sum(receipt.last - receipt.first + 1 for receipt in self._open if receipt.waiting)

    def take(self) -> list[tuple[int, int, bool, bool]]:
        """What to tell the publisher now: (first, last, multiple, ok). `multiple` says that nothing below is open."""
        answers, self._answers = self._answers, []
        if len(answers) > 1:
            answers = merged(answers)
        while self._open and self._open[0].waiting == 0:
            self._open.popleft()
        oldest_open = self._open[0].first if self._open else self.next_tag
        # An ack with `multiple` answers for everything below it, so it may not reach past a nack that goes out with it.
        all_taken = True
        for answer in answers:
            all_taken &= answer[2]
        return [(first, last, all_taken and last < oldest_open, ok) for first, last, ok in answers]


def _nothing() -> None:
    pass


def merged(answers: list[Answer]) -> list[Answer]:
    """Neighbouring answers of the same kind as one, in order of tags."""
    result: list[Answer] = []
    for first, last, ok in sorted(answers):
        if result and result[-1][1] + 1 == first and result[-1][2] == ok:
            result[-1] = (result[-1][0], last, ok)
        else:
            result.append((first, last, ok))
    return result

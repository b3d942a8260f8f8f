"""Whether dead letters that their queue keeps have arrived where they were sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from broker.messages.confirms import Receipt
from broker.queues.queue_type import Arrival, OnArrival


class DeadLetterReceipt:
    """Tells what became of messages of one run, when all queues that were given it have answered."""

    def __init__(self, members: Sequence[int], reached: set[int], on_answer: OnArrival) -> None:
        """`members`: what the messages are called in the answer. `reached`: numbers of queues that have all of them; those
        that take all are added."""
        self.reached = reached
        self._members = members
        self._on_answer = on_answer
        self._owed = 0
        self._refused: dict[int, set[int]] = {}  # by place of the message in the run: queues that would not take it
        self._took_some: set[int] = set()  # queues that took other messages than these, too

    def begin(self, queues: int) -> None:
        """So many are given it."""
        self._owed = queues
        if not queues:
            self._answer()

    def told(self, queue: int, refused: Collection[int] = ()) -> None:
        """One has taken it, but for the messages at these places."""
        if not refused:
            self.reached.add(queue)
        else:
            self._took_some.add(queue)
            for nth in refused:
                self._refused.setdefault(nth, set()).add(queue)
        self._owed -= 1
        if not self._owed:
            self._answer()

    def took_nothing(self, queue: int) -> None:
        self.told(queue, range(len(self._members)))

    def went_nowhere(self) -> None:
        self._on_answer(self._members, Arrival.NOWHERE, self.reached)

    def _answer(self) -> None:
        refused = self._refused
        arrived = [one for nth, one in enumerate(self._members) if nth not in refused] if refused else self._members
        if arrived:
            self._on_answer(arrived, Arrival.ARRIVED, self.reached)
        for nth, queues in refused.items():
            self._on_answer([self._members[nth]], Arrival.REFUSED, self.reached | self._took_some - queues)


class QueueAnswer:
    """What one queue says of a run, whose tags count its messages from 0. Fulfils AnswersTo."""

    def __init__(self, receipt: DeadLetterReceipt, queue: int) -> None:
        self._receipt = receipt
        self._queue = queue

    def answered(self, receipt: Receipt) -> None:
        if receipt.taken:
            self._receipt.told(self._queue)
        elif receipt.refusals:
            self._receipt.took_nothing(self._queue)
        else:
            assert receipt.refused_tags, "a receipt that is neither taken nor refused"
            self._receipt.told(self._queue, receipt.refused_tags)

    def given_up(self, receipt: Receipt) -> None:
        self._receipt.took_nothing(self._queue)

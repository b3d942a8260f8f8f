"""Around a classic queue while what it holds becomes another one's: nothing comes in, nothing is handed out, nothing dies.

What is said meanwhile is kept, and carried out when the fence is opened: on this queue, if it stays what it was, or on the one
that has taken its place. A fence that is *sealed* keeps settlements, too: what the other queue is to have is decided. Should
the other one take the place, they are dropped, and what they were about comes again; should it not, they are made up for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.errors import BrokerError
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.queue_type import Outcome, Queue, Slice
from broker.queues.waiting_publishes import OnPublish, WaitingPublishes

T = TypeVar("T")


class Fence:
    """See the module."""

    def __init__(self) -> None:
        self.publishes = WaitingPublishes()
        self.sealed = False
        self.settlements: list[tuple[Slice, Outcome]] = []
        self._asked: list[tuple[Callable[[Queue], None], Callable[[BrokerError], None]]] = []  # or what it is failed by

    def later(self, ask: Callable[[Queue], Pending[T]]) -> Pending[T]:
        """Its answer by the queue that will be there, which may refuse it."""
        answer: Pending[T] = Pending()

        def carry_out(queue: Queue) -> None:
            try:
                asked = ask(queue)
            except BrokerError as error:
                answer.fail(error)
            else:
                asked.then(answer.resolve, answer.fail)

        self._asked.append((carry_out, answer.fail))
        return answer

    def open(self, to: Queue, publish: OnPublish) -> None:
        """This queue is there now. Publishes first: whoever asks may ask for them."""
        self.publishes.give_to(publish)
        asked, self._asked = self._asked, []
        for carry_out, _ in asked:
            carry_out(to)

    def gone(self, error: BrokerError) -> None:
        """The queue is deleted, and no other one comes. What was published to it counts as confirmed."""
        self.publishes.give_to(_confirm)
        asked, self._asked = self._asked, []
        for _, fail in asked:
            fail(error)


def _confirm(run: Run, receipt: Receipt | None) -> None:
    if receipt is not None:
        receipt.accepted()

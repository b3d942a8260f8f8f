"""Around a classic queue while what it holds becomes another one's: nothing comes in, nothing is handed out, nothing dies.

What is said meanwhile is kept, and carried out when the fence is opened: on this queue, if it stays what it was, or on the one
that has taken its place. A fence that is *sealed* keeps settlements, too: what the other queue is to have is decided. Should
the other one take the place, they are dropped, and what they were about comes again; should it not, they are made up for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
        self._asked: list[Callable[[Queue], None]] = []

    def later(self, ask: Callable[[Queue], Pending[T]]) -> Pending[T]:
        """Its answer by the queue that will be there."""
        answer: Pending[T] = Pending()
        self._asked.append(lambda queue: ask(queue).then(answer.resolve, answer.fail))
        return answer

    def open(self, to: Queue, publish: OnPublish) -> None:
        """This queue is there now. Publishes first: whoever asks may ask for them."""
        self.publishes.give_to(publish)
        asked, self._asked = self._asked, []
        for ask in asked:
            ask(to)

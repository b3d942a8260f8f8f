"""One consumer of this node: what the queue has given it, and what of that its client has not been given yet.

Deliveries carry ids that ascend without gaps, whoever brings them: the member here, the leader's node, or a look at what the
machine says is out. So what comes twice is seen, and what is missing too.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from broker.consumer import Consumer
from quorum.bodies import Body
from quorum.commands import Piece

FIRST_ID = 1  # of a consumer's deliveries


class Portion(NamedTuple):
    """Messages for the consumer. `source` is where they are: in the log here, or brought along."""

    first_id: int
    length: int
    delivery_count: int
    acquired_count: int
    source: Piece | Body


class Subscription:
    """See the module."""

    __slots__ = ("consumer", "known", "next_id", "number", "waiting")

    def __init__(self, consumer: Consumer, number: int) -> None:
        self.consumer = consumer
        self.number = number
        self.known = False  # to the group, and so to the client
        self.next_id = FIRST_ID  # of the first message that has not come
        self.waiting: deque[Portion] = deque()  # until the client can be written to

    def skip_to(self, first_id: int) -> None:
        """What was before it is out no more, and will not come."""
        self.next_id = max(self.next_id, first_id)

    def take_back(self) -> None:
        """What the client was not given yet is to come again, from somewhere else."""
        if self.waiting:
            self.next_id = self.waiting[0].first_id
            self.waiting.clear()

    def take(self, portion: Portion) -> bool:
        """False: something before it is missing."""
        if portion.first_id > self.next_id:
            return False
        end = portion.first_id + portion.length
        if end <= self.next_id:
            return True
        missed = self.next_id - portion.first_id
        if missed:
            portion = without_first(portion, missed)
        self.waiting.append(portion)
        self.next_id = end
        return True


class Departed:
    """A consumer whose client has left. What still comes for it goes back."""

    __slots__ = ("known_at", "next_id")

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id  # of the first message that has not come; what came before is the client's to settle
        self.known_at: int | None = (
            None  # index of a state in which it is known to have left; None: it is not known yet
        )


def without_first(portion: Portion, count: int) -> Portion:
    source = portion.source
    if isinstance(source, Piece):
        source = source._replace(first=source.first + count, length=source.length - count)
    else:
        source = source.after(count)
    return portion._replace(first_id=portion.first_id + count, length=portion.length - count, source=source)

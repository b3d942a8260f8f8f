"""What a queue of delayed messages offers beyond the contract of any queue (queue_type.py): which wait, until when, and to take
one of them out.

A message is named by its place in the queue's log. No other one ever has that place.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from broker.actors import LogActor
from broker.messages.browsed import Browsed
from broker.pending import Pending
from broker.queues.queue_type import Queue

LISTED_MAX = 500  # in one answer; of a million that wait, finding so many of the next takes some 10 ms


class WaitingPlace(NamedTuple):
    entry: int
    offset: int
    message: int


FIRST_PLACE = WaitingPlace(0, 0, 0)  # before all others


class ListOrder(IntEnum):
    DUE = 0  # those that are to be routed next
    PUBLISHED = 1


class WaitingMessage(NamedTuple):
    place: WaitingPlace
    due_ms: int  # by the queue's clock, which goes on steadily
    message: Browsed


class HoldingContract(Queue, Protocol):
    """See the module."""

    def waiting(self, order: ListOrder, after: WaitingPlace, limit: int, now: int) -> Pending[list[WaitingMessage]]:
        """Messages whose time has not come. `after`: of those in the order in which they were published, begin behind this
        one. Fewer than `limit` also where more would be too many for one answer."""

    def withdraw(self, place: WaitingPlace, now: int, by: LogActor | None = None) -> Pending[int]:
        """Drop this message; answers 1 once that is durable, or 0 if it does not wait. Raises PreconditionFailed where the
        nodes of the queue are of a version that cannot do it. `by`: who asks, for the history."""

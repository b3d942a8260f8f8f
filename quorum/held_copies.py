"""Copies of another queue's messages in one that is to take its place: all are held as by a consumer, until it does.

What nobody else can be given does not expire, is not counted by limits and is not delivered, while the other queue still lives.
The group hands out ids in the order in which the copies came, so this node knows each by its number and reads none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from quorum.fifo.commands import FIRST_ID, Cancel, Consume, UponCancel, Window
from quorum.queue import QuorumQueue

HELD_MAX = (1 << 32) - 1


class HeldCopies:
    """See the module. Of one process of this node, which has a member of the queue."""

    def __init__(self, queue: QuorumQueue) -> None:
        self.queue = queue
        self.next_id = FIRST_ID  # of the copy that comes next
        self._number = queue.session.new_number()
        self._key = queue.session.consumer_key(self._number)

    def begin(self, begun: Callable[[Any], None]) -> None:
        self.queue.session.say(Consume(self._key, "", prefetch=HELD_MAX, timeout_ms=0), begun)
        self.queue.session.flush()

    def add(self, run: Run, receipt: Receipt) -> int:
        """Returns the id of its first message."""
        first, self.next_id = self.next_id, self.next_id + run.count
        self.queue.publish(run, receipt)
        return first

    def settle(self, first: int, count: int, outcome: Outcome) -> None:
        self.queue.session.settle(self._number, first, count, outcome)

    def flush(self) -> None:
        self.queue.session.flush()

    @property
    def are_as_expected(self) -> bool:
        """Whether the member here has seen all of them handed out, and each once: else ids are not what they seem to be."""
        member = self.queue.member
        held = member.machine.state.consumers.all.get(self._key) if member is not None else None
        return held is not None and held.next_id == self.next_id

    def close(self) -> None:
        """No more come. Behind it, and before `end`, is settled what is not to be as if it had never been handed out."""
        self.queue.session.say(Window(self._key, 0))

    def end(self, ended: Callable[[Any], None]) -> None:
        """The rest is ready, for whoever consumes from the queue."""
        self.queue.session.say(Cancel(self._key, UponCancel.RETURNED), ended)
        self.queue.session.flush()

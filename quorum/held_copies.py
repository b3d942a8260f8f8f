"""Copies of another queue's messages in one that is to take its place: all are held as by a consumer, until it does.

What nobody else can be given does not expire, is not counted by limits and is not delivered, while the other queue still lives.
The group hands out ids in the order in which the copies came, so this node knows each by its number and reads none of them.
While it takes this node for down it hands out nothing, and what is settled then is not heard: that is said again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from native.sequence_set import SequenceSet
from quorum.fifo.checked_out import CheckedOut
from quorum.fifo.commands import FIRST_ID, FIRST_SEQUENCE, Cancel, Consume, SessionKey, Tick, UponCancel, Window
from quorum.fifo.consumers import MachineConsumer
from quorum.queue import QuorumQueue

HELD_MAX = (1 << 32) - 1


class HeldCopies:
    """See the module. Of one process of this node, which has a member of the queue."""

    def __init__(self, queue: QuorumQueue) -> None:
        self.queue = queue
        self.next_id = FIRST_ID  # of the copy that comes next
        self._settled = SequenceSet()  # ids of those that were let go
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
        if outcome is Outcome.ACKNOWLEDGED:
            self._settled.add(first, first + count)
        self.queue.session.settle(self._number, first, count, outcome)

    def flush(self) -> None:
        self.queue.session.flush()

    @property
    def are_as_expected(self) -> bool:
        """Whether the member here has seen all of them handed out, each once, and none taken back, as they are from a node that
        is cut off for long: else ids are not what they seem to be."""
        held = self._as_seen_here()
        if held is None or held.next_id != self.next_id or self._heard_here() != self.next_id - FIRST_ID:
            return False
        return held.checked_out.count >= self._left

    @property
    def _left(self) -> int:
        return self.next_id - FIRST_ID - self._settled.count

    def close(self) -> None:
        """No more come. Behind it, and before `end`, is settled what is not to be as if it had never been handed out."""
        self.queue.session.say(Window(self._key, 0))
        held = self._as_seen_here()
        if held is not None and held.checked_out.count > self._left:
            self._settle_again(held.checked_out)

    def _settle_again(self, out: CheckedOut) -> None:
        """What was let go, and is there still."""
        for start, stop in self._settled.ranges():
            for held in out.from_id(start):
                if held.first_id >= stop:
                    break
                count = min(stop, held.end) - held.first_id
                self.queue.session.settle(self._number, held.first_id, count, Outcome.ACKNOWLEDGED)

    def end(self, ended: Callable[[Any], None]) -> None:
        """The rest is ready, for whoever consumes from the queue. `ended` is called when the member here has seen that, too: a
        leader elsewhere answers before. Never without such a member."""
        self.queue.session.say(Cancel(self._key, UponCancel.RETURNED), partial(self._look, ended))
        self.queue.session.flush()

    def _look(self, ended: Callable[[Any], None], _: Any) -> None:
        if self.queue.member is None or self.queue.deleted:
            return
        if self._as_seen_here() is None:
            ended(None)
            return
        self.queue.session.say(Tick(), partial(self._look, ended))
        self.queue.session.flush()

    def _as_seen_here(self) -> MachineConsumer | None:
        """Who holds them, as far as the member here has come."""
        member = self.queue.member
        return member.machine.state.consumers.all.get(self._key) if member is not None else None

    def _heard_here(self) -> int:
        """How many of them. Where that is less, those that it knows as handed out may be others, of a second time."""
        assert self.queue.member is not None, "nobody here has heard of any"
        session = self.queue.member.machine.state.sessions.all.get(SessionKey(*self._key[:2]))
        return session.next_sequence - FIRST_SEQUENCE if session is not None else 0

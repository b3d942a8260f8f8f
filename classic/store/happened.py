"""What happened to messages of classic queues and is not in the log yet: which are done with, which came back, which went out,
and which contents no run refers to any more because of that.

It is gathered by queue, by who did it and why, and written from tick to tick: `ClassicQueues.tick`.
"""

from __future__ import annotations

from broker.actors import LogActor
from classic.store.log_records import DoneReason
from classic.store.stored_queue import StoredQueue
from classic.stored_run import InStore
from native.sequence_set import SequenceSet

Why = tuple[LogActor | None, int]  # who did it, and a DoneReason, a BackReason or flags
Reasons = dict[Why, SequenceSet]


class Happened:
    """See the module."""

    def __init__(self) -> None:
        self.unreferenced: list[InStore] = []  # contents
        self.settled: dict[StoredQueue, Reasons] = {}  # these three: see `gather`
        self.back: dict[StoredQueue, Reasons] = {}
        self.out: dict[StoredQueue, Reasons] = {}  # some may be settled by now

    def forget_queue(self, queue: StoredQueue) -> None:
        """It is deleted: that says what became of its messages."""
        self.take(queue)

    @property
    def is_told(self) -> bool:
        return not (self.back or self.settled or self.out)

    def has_come_back(self, queue: StoredQueue, why: Why, first: int, end: int) -> bool:
        """Whether one of these messages came back already, for the same reason."""
        ranges = self.back.get(queue, {}).get(why)
        return ranges is not None and ranges.first_range(first, end) is not None

    def next_queue(self) -> StoredQueue:
        """One of those to which something happened."""
        return next(iter(self.back or self.settled or self.out))

    def left(self, queue: StoredQueue) -> list[tuple[int, SequenceSet]]:
        """What has been settled there since the node was started, and why."""
        reasons = self.settled.get(queue, {})
        return [(reason, ranges) for (_, reason), ranges in reasons.items() if reason != DoneReason.NOT_SAID]

    def returned(self, queue: StoredQueue) -> list[SequenceSet]:
        """What came back there, and may have gone out or left since."""
        return list(self.back.get(queue, {}).values())

    def not_out(self, queue: StoredQueue, first: int, end: int) -> None:
        """These messages came back: who had them has them no more."""
        for ranges in self.out.get(queue, {}).values():
            ranges.remove(first, end)

    def take(self, queue: StoredQueue) -> tuple[Reasons, Reasons, Reasons]:
        """What came back, what is settled, and what went out; it is forgotten with that."""
        return self.back.pop(queue, {}), self.settled.pop(queue, {}), self.out.pop(queue, {})


def gather(by_queue: dict[StoredQueue, Reasons], queue: StoredQueue, why: Why, first: int, end: int) -> None:
    reasons = by_queue.get(queue)
    if reasons is None:
        reasons = by_queue[queue] = {}
    ranges = reasons.get(why)
    if ranges is None:
        ranges = reasons[why] = SequenceSet()
    ranges.add(first, end)

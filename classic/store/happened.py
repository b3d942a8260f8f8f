"""What happened to messages of classic queues and is not in the log yet: which are done with, which came back, and which
contents no run refers to any more because of that.

It is gathered by queue, by who did it and why, and written from tick to tick: `ClassicQueues.tick`.
"""

from __future__ import annotations

from broker.actors import LogActor
from classic.store.log_records import DoneReason
from classic.store.stored_queue import StoredQueue
from classic.stored_run import InStore
from native.sequence_set import SequenceSet

Why = tuple[LogActor | None, int]  # who did it, and a DoneReason or BackReason
Reasons = dict[Why, SequenceSet]


class Happened:
    """See the module."""

    def __init__(self) -> None:
        self.unreferenced: list[InStore] = []  # contents
        self.settled: dict[StoredQueue, Reasons] = {}  # these two: see `gather`
        self.back: dict[StoredQueue, Reasons] = {}

    def forget_queue(self, queue: StoredQueue) -> None:
        """It is deleted: that says what became of its messages."""
        self.settled.pop(queue, None)
        self.back.pop(queue, None)

    @property
    def is_told(self) -> bool:
        return not (self.back or self.settled)

    def has_come_back(self, queue: StoredQueue, why: Why, first: int, end: int) -> bool:
        """Whether one of these messages came back already, for the same reason."""
        ranges = self.back.get(queue, {}).get(why)
        return ranges is not None and ranges.first_range(first, end) is not None

    def next_queue(self) -> StoredQueue:
        """One of those to which something happened."""
        return next(iter(self.back or self.settled))

    def left(self, queue: StoredQueue) -> list[tuple[int, SequenceSet]]:
        """What has been settled there since the node was started, and why."""
        reasons = self.settled.get(queue, {})
        return [(reason, ranges) for (_, reason), ranges in reasons.items() if reason != DoneReason.NOT_SAID]

    def take(self, queue: StoredQueue) -> tuple[Reasons, Reasons]:
        """What came back, and what is settled; it is forgotten with that."""
        return self.back.pop(queue, {}), self.settled.pop(queue, {})


def gather(by_queue: dict[StoredQueue, Reasons], queue: StoredQueue, why: Why, first: int, end: int) -> None:
    reasons = by_queue.get(queue)
    if reasons is None:
        reasons = by_queue[queue] = {}
    ranges = reasons.get(why)
    if ranges is None:
        ranges = reasons[why] = SequenceSet()
    ranges.add(first, end)

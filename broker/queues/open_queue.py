"""A queue that is open on this node, with what the broker keeps about it beside its record."""

from __future__ import annotations

from broker.catalog.policy import EffectiveArguments
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Queue, QueueType


class OpenQueue:
    __slots__ = ("consumers", "effective", "kind", "place", "queue")

    def __init__(self, kind: QueueType, queue: Queue, effective: EffectiveArguments) -> None:
        self.kind = kind
        self.queue = queue
        self.effective = effective  # what the queue was told last
        self.place = 0  # among all that are open (queue_walk.py)
        self.consumers: dict[Consumer, None] = {}  # in the order they came; told when the queue is deleted

"""Kinds of queue that keep their promise late, or not at all, for tests of what publishers are told."""

from __future__ import annotations

from collections.abc import Sequence

from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Queue
from tests.contract.memory_queue import MemoryQueues


class LateQueues(MemoryQueues):
    """Their disk takes its time: `owed` are the receipts to answer."""

    owed: list[Receipt]

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        super().publish(queues, run, None, now)
        if receipt is not None:
            self.owed += [receipt] * len(queues)


class FailedQueues(MemoryQueues):
    """Their disk failed."""

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        raise ResourceExhausted("this node's disk failed, it takes no messages")

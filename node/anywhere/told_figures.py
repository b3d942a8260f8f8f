"""Figures of this node's classic queues, as other nodes were told them last.

To put all figures of a queue together takes ten times as long as to look at its counts, and most queues rest: who has the same
counts as at the last look is looked at in full once in so many rounds only. That finds what changes by itself, such as how
much of a queue is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from broker.queues.queue_type import Queue, QueueStatistics

FULL_LOOK_ROUNDS = 16

Counts = tuple[int, ...]


class ToldFigures:
    """By queue. A round goes over all of them, in parts."""

    def __init__(self) -> None:
        self._told: dict[int, QueueStatistics] = {}
        self._counts: dict[int, Counts] = {}
        self._round = 0

    def next_round(self) -> None:
        self._round = (self._round + 1) % FULL_LOOK_ROUNDS

    def changed(self, queues: Iterable[Queue]) -> list[tuple[int, QueueStatistics]]:
        """Those whose figures are others than were told. They count as told."""
        changed = []
        for queue in queues:
            queue_id, counts = queue.record.id, counts_of(queue)
            if counts == self._counts.get(queue_id) and queue_id % FULL_LOOK_ROUNDS != self._round:
                continue
            self._counts[queue_id] = counts
            if (figures := queue.statistics()) != self._told.get(queue_id):
                self._told[queue_id] = replace(figures)
                changed.append((queue_id, self._told[queue_id]))
        return changed

    def forget(self, queue_id: int) -> None:
        self._told.pop(queue_id, None)
        self._counts.pop(queue_id, None)

    def all(self) -> Iterator[tuple[int, QueueStatistics]]:
        return iter(self._told.items())


def counts_of(queue: Queue) -> Counts:
    """Whatever clients do changes one of these."""
    now = queue.counts()
    return (
        now.ready, now.unacknowledged, now.published, now.delivered, now.delivered_no_ack, now.redelivered, now.acknowledged,
        now.got, now.disk_reads, now.disk_writes, queue.consumer_count,
    )  # fmt: skip

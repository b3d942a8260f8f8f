"""node/anywhere/told_figures.py: what changed is told in the next round, and who rests is hardly looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.queues.queue_type import QueueStatistics
from node.anywhere.told_figures import FULL_LOOK_ROUNDS, ToldFigures


@dataclass
class Record:
    id: int


@dataclass
class CountedQueue:
    """Counts how often it was looked at in full."""

    record: Record
    figures: QueueStatistics = field(default_factory=QueueStatistics)
    consumer_count: int = 0
    looks: int = 0

    def counts(self) -> QueueStatistics:
        return self.figures

    def statistics(self) -> QueueStatistics:
        self.looks += 1
        self.figures.consumers = self.consumer_count
        return self.figures


def told(figures: ToldFigures, *queues: Any) -> list[int]:
    figures.next_round()
    return [queue_id for queue_id, _ in figures.changed(queues)]


def test_a_queue_that_rests_is_looked_at_in_full_once_in_so_many_rounds() -> None:
    figures, queue = ToldFigures(), CountedQueue(Record(7))
    assert told(figures, queue) == [7]
    for _ in range(3 * FULL_LOOK_ROUNDS):
        assert told(figures, queue) == []
    assert queue.looks == 1 + 3


def test_whatever_clients_do_is_told_in_the_next_round() -> None:
    figures, queue = ToldFigures(), CountedQueue(Record(7))
    told(figures, queue)
    for name in (
        "ready",
        "unacknowledged",
        "published",
        "delivered",
        "delivered_no_ack",
        "redelivered",
        "acknowledged",
        "got",
        "disk_reads",
        "disk_writes",
    ):
        setattr(queue.figures, name, 1)
        assert told(figures, queue) == [7], name
    queue.consumer_count = 1
    assert told(figures, queue) == [7]


def test_what_changes_by_itself_is_told_within_so_many_rounds() -> None:
    figures, queue = ToldFigures(), CountedQueue(Record(7))
    told(figures, queue)
    queue.figures.ram = 5
    assert [one for _ in range(FULL_LOOK_ROUNDS) for one in told(figures, queue)] == [7]


def test_what_was_told_is_not_what_the_queue_goes_on_to_change() -> None:
    figures, queue = ToldFigures(), CountedQueue(Record(7))
    told(figures, queue)
    queue.figures.ready = 9
    assert [one.ready for _, one in figures.all()] == [0]


def test_a_queue_that_is_forgotten_is_told_anew() -> None:
    figures, queue = ToldFigures(), CountedQueue(Record(7))
    told(figures, queue)
    figures.forget(7)
    assert list(figures.all()) == []
    assert told(figures, queue) == [7]

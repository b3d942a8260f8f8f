"""Settled messages that wait for the queue: how many they are, and what a purge leaves."""

from __future__ import annotations

from quorum.fifo.returning import Fate, Returning
from quorum.fifo.stored import NEVER, StoredMessages

DELIVERY_LIMIT = 3


def run_of(length: int, *, size: int, delivery_count: int = 0) -> StoredMessages:
    return StoredMessages(7, 9, 0, length, length, size, NEVER, 4, delivery_count, 1)


def test_a_purge_leaves_what_is_for_the_dead_letters_and_counts_only_that() -> None:
    """Bytes of what was purged stayed in the count: the queue was longer than its limit for ever."""
    returning = Returning()
    rejected, failed_too_often = run_of(3, size=300), run_of(2, size=50, delivery_count=DELIVERY_LIMIT)
    returning.add(Fate.RETURNED, [run_of(5, size=70), run_of(1, size=1)])
    returning.add(Fate.REJECTED, [rejected])
    returning.add(Fate.FAILED, [run_of(4, size=20), failed_too_often])
    returning.add(Fate.UNSEEN, [run_of(1, size=9)])
    assert returning.purge(DELIVERY_LIMIT) == 5 + 1 + 4 + 1
    assert (returning.count, returning.size) == (3 + 2, 300 + 50)
    assert [returning.take(), returning.take()] == [(Fate.REJECTED, rejected), (Fate.FAILED, failed_too_often)]
    assert (returning.count, returning.size, len(returning)) == (0, 0, 0)

"""How much may be published to a queue that is being copied, so that copying catches up whatever its publishers do.

A core. Two copies are the credit for one message: publishers go on at half of the pace of the copying, so that a backlog of n
is gone when n messages more have come at the latest. When copying itself stands still, as without a leader, nobody is
kept waiting for it.
"""

from __future__ import annotations

COPIES_FOR_ONE = 2
STANDSTILL_MS = 500  # behind the last copy


class PublishersCredit:
    """See the module. Messages are counted from `begin` on, the sequence of the next one when copying began. Times are those of
    a clock that only goes forward."""

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._copied = 0
        self._copied_at = 0

    def copied(self, count: int, now: int) -> None:
        self._copied += count
        self._copied_at = now

    def is_spent(self, next_sequence: int, now: int) -> bool:
        """`next_sequence`: of the message that is published next."""
        published = next_sequence - self._begin
        return published * COPIES_FOR_ONE > self._copied and now < self._copied_at + STANDSTILL_MS

"""What time it is in a queue, as the node says that leads it: it never goes back, and never stands still.

The time of a queue is the latest that an entry has told it. Were that always what the leader's wall clock says, then after one
that was an hour ahead everything would wait for an hour: times to live, retries, timeouts of consumers, what consumers of lost
nodes hold. So where the wall clock is behind, time goes on from where it is, as fast as the monotonic clock, until the wall
clock has overtaken it. A queue counts how long something takes, never what date it is: being ahead does no harm.
"""

from __future__ import annotations

from collections.abc import Callable


class QueueTime:
    """Of one queue, on one node."""

    __slots__ = ("_at_ms", "_monotonic", "_since_s", "_wall_ms")

    def __init__(self, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._at_ms = 0  # what was said last, or what it was when the wall clock was found to be behind
        self._since_s: float | None = None  # when that was, by the monotonic clock; None: the wall clock is not behind

    def now(self, told: int) -> int:
        """In ms. `told`: by the last entry that was applied here."""
        wall = self._wall_ms()
        known = max(told, self._at_ms if self._since_s is None else self._gone_on(self._since_s))
        if wall >= known:
            self._at_ms, self._since_s = wall, None
            return wall
        if self._since_s is None or known == told:
            self._at_ms, self._since_s = known, self._monotonic()
        return known

    def _gone_on(self, since_s: float) -> int:
        return self._at_ms + int((self._monotonic() - since_s) * 1000)

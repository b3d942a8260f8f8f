"""What time it is in a queue whose messages must not be early, whatever becomes of the wall clock.

QueueTime follows a wall clock that is set forward, and everything in the queue that waits is done with at once. Here the wall
clock is asked once, when the node begins with the queue; from there time goes on as fast as the monotonic clock. What the queue
was told by a leader before counts where it is later. So only a node that was started with a clock that is ahead, and leads,
makes messages early.
"""

from __future__ import annotations

from collections.abc import Callable


class SteadyTime:
    """Of one queue, on one node. Used as QueueTime."""

    __slots__ = ("_at_ms", "_monotonic", "_since_s")

    def __init__(self, wall_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._at_ms = wall_ms()
        self._since_s = monotonic()

    def now(self, told: int) -> int:
        """In ms. `told`: by the last entry that was applied here."""
        elapsed_s = self._monotonic() - self._since_s
        now = self._at_ms + int(elapsed_s * 1000)
        if told > now:
            self._at_ms, self._since_s = told, self._since_s + elapsed_s
            return told
        return now

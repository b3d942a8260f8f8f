"""How large messages are that clients publish, in the steps that RabbitMQ's metrics have.

Counted once for each run: of messages that came together the mean size counts, for each of them.
"""

from __future__ import annotations

from bisect import bisect_left

BOUNDS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)  # bytes, each included


class MessageSizes:
    """Of the clients of one protocol, since the node was started."""

    __slots__ = ("bytes", "counts")

    def __init__(self) -> None:
        self.bytes = 0
        self.counts = [0] * (len(BOUNDS) + 1)  # by bound; the last is of larger ones

    def add(self, count: int, size: int) -> None:
        """So many messages with so many bytes together."""
        self.bytes += size
        self.counts[bisect_left(BOUNDS, size // count)] += count

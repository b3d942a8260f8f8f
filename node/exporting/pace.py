"""A rate limit for reading: how long to wait after so many bytes. A core: it is told what time it is."""

from __future__ import annotations

BURST_S = 0.1  # of the rate may be taken at once


class Pace:
    """Shared by all who read: together they are not faster."""

    def __init__(self, bytes_per_s: int) -> None:
        assert bytes_per_s > 0, f"a rate of {bytes_per_s} bytes a second never ends"
        self._bytes_per_s = bytes_per_s
        self._paid_until = 0.0  # what was taken is paid for with the time up to here

    def take(self, size: int, now: float) -> float:
        """These bytes were read; the next ones are not to be before so many seconds."""
        self._paid_until = max(self._paid_until, now) + size / self._bytes_per_s
        return max(0.0, self._paid_until - now - BURST_S)

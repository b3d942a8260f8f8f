"""When a link that ended begins again: after its delay, then after twice as long with each failure, up to a minute.

A broker that is down for long is not asked every second by each of a thousand links, and not by all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable

DELAY_S_MAX = 60.0  # unless the definition asks for more
JITTER = 0.25
FAILURES_MAX = 10  # counted


class Backoff:
    """`fraction`: a number by chance, from 0 to 1."""

    def __init__(self, delay_s: float, fraction: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._fraction = fraction
        self._failures = 0

    def failed(self) -> float | None:
        """Seconds until the next try. None: there is none."""
        if not self._delay_s:
            return None
        grown: float = max(self._delay_s, min(self._delay_s * (1 << self._failures), DELAY_S_MAX))
        self._failures = min(self._failures + 1, FAILURES_MAX)
        return grown * (1 + JITTER * (2 * self._fraction() - 1))

    def worked(self) -> None:
        """Something has arrived: the next failure is the first."""
        self._failures = 0

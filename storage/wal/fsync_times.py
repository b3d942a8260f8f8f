"""How long small commits took lately: whether the event loop can afford to wait for the next one.

It can while the fastest of the last few took less than INLINE_S_MAX, and no commit took longer than STALL_S within the last
STALL_AVOIDED_S: a disk that stalls does it again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

# An fsync of a fast disk takes 0.1 ms, and 4 ms when something else has taken the core meanwhile, which says nothing of the
# disk: so the fastest counts.
INLINE_S_MAX = 0.001
STALL_S = 0.02
STALL_AVOIDED_S = 5.0
COMMITS_LOOKED_AT = 8
NEVER = -math.inf


class FsyncTimes:
    """See the module."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._took_s: deque[float] = deque(maxlen=COMMITS_LOOKED_AT)
        self._stalled_at = NEVER  # when a commit was last seen to take longer than STALL_S

    def note(self, took_s: float) -> None:
        """Time of one small commit."""
        self._took_s.append(took_s)
        if took_s > STALL_S:
            self._stalled_at = self._monotonic()

    def are_short(self) -> bool:
        if self._took_s and min(self._took_s) >= INLINE_S_MAX:
            return False
        return self._stalled_at == NEVER or self._monotonic() - self._stalled_at > STALL_AVOIDED_S

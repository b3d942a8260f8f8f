"""How long to wait before the next attempt: growing, and different for each client, so that they do not return as one."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Full jitter: a random time up to a bound that doubles with each failure."""

    first_s: float = 0.1
    max_s: float = 10.0
    failures: int = 0

    def next_delay_s(self) -> float:
        # Beyond 2^32 the bound is max_s anyway; without the limit the power would grow for ever.
        bound = min(self.max_s, self.first_s * 2 ** min(self.failures, 32))
        self.failures += 1
        return random.uniform(0, bound)

    def reset(self) -> None:
        self.failures = 0

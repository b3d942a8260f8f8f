"""What has outlived a full garbage collection is not looked through by the next ones: with 100,000 queues that takes 1.4 s.

Most of what ends is freed at once, for it is part of no cycle: messages, classic queues, connections of all protocols
(tests/e2e/test_leftovers_of_clients.py). What ends as a cycle though it was set aside (replicated queues, calls of gRPC's
library) waits for a collection of everything, which comes once enough has ended to be worth its time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

OLDEST = 2  # the generation that a full collection is of
ENDED_MAX = 10_000  # queues and connections, some 100 objects of 100 bytes each at most


class LastingObjects:
    """`ended` says how many queues and connections have ended since the node was started."""

    def __init__(self, ended: Callable[[], int]) -> None:
        self._ended = ended
        self._ended_before = 0  # when everything was looked through

    def start(self) -> None:
        self._ended_before = self._ended()
        gc.callbacks.append(self._collecting)

    def stop(self) -> None:
        """Also when it was never started."""
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif self._ended() - self._ended_before >= ENDED_MAX:
            self._ended_before = self._ended()
            gc.unfreeze()

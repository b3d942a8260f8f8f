"""The ports NodeTime, Random and Process, and their real sides. The other two are storage/disk.py and, with clusters, Net.

Everything below node/ is handed these and asks the world nothing itself, so that a simulator can hand in its own.
"""

from __future__ import annotations

import os
import time
from typing import Protocol


class NodeTime(Protocol):
    """Time, in the two senses that must never be mixed."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for what people and message TTLs mean by time. May jump."""

    def wall_us(self) -> int:
        """The same in microseconds, for what is written down of the past."""

    def monotonic(self) -> float:
        """Seconds that only go forward, for intervals and deadlines."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)  # itself: it is asked several times for a message


class Random(Protocol):
    """What nobody can foresee."""

    def random_bytes(self, count: int) -> bytes:
        """For generated names and keys."""

    def fraction(self) -> float:
        """From 0 to 1, below 1."""


class SystemRandom:
    """The operating system's source of randomness."""

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def fraction(self) -> float:
        return int.from_bytes(os.urandom(6)) / (1 << 48)


class Process(Protocol):
    """How a node ends itself."""

    def stop(self, reason: str) -> None:
        """Begin to stop: a promise cannot be kept, and whoever watches the process is to know. `reason` is for the log."""

    def fail(self, reason: str) -> None:
        """Begin to stop: a fault of this node's own. No promise is broken, and a new start goes on."""

    def leave_out(self, reason: str) -> None:
        """Begin to stop: the node has no place in its cluster any more, and a new start would find none."""

    def end(self, reason: str) -> None:
        """Begin to stop, as an operator has asked for."""

    def restart(self, reason: str, *, join: str = "") -> None:
        """Stop, and begin again in this process. `join`: with an empty data directory, as a node of the cluster of the node at
        this address."""

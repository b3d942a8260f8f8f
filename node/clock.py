"""The ports NodeTime, Random and Process, and their real sides. The other two are storage/disk.py and, with clusters, Net.

Everything below node/ is handed these and asks the world nothing itself, so that a simulator can hand in its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from raft.loop import Timer


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


class TimerLoop(Protocol):
    """What is needed of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class TickTimers:
    """Has the timers of a broker (broker/timers.py) called in time: those of the wall clock, and delays."""

    def __init__(self, loop: TimerLoop, clock: NodeTime, tick: Callable[[], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._at: Timer | None = None
        self._in: Timer | None = None

    def monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def tick_at(self, when: int) -> None:
        """Instead of when it was told before."""
        self._at = self._instead_of(self._at, when - self._clock.wall_ms())

    def tick_in(self, delay_ms: int) -> None:
        """Instead of when it was told before."""
        self._in = self._instead_of(self._in, delay_ms)

    def cancel(self) -> None:
        for timer in (self._at, self._in):
            if timer is not None:
                timer.cancel()

    def _instead_of(self, before: Timer | None, delay_ms: int) -> Timer:
        if before is not None:
            before.cancel()
        return self._loop.call_later(max(0, delay_ms) / 1000, self._tick)


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

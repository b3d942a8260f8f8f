"""What groups need of the world: an event loop with timers, and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """What call_at returns."""

    def cancel(self) -> object: ...


class Loop(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """The same seconds as the loop's."""

    def wall_ms(self) -> int:
        """Since 1970; may jump. Nothing is decided by it."""

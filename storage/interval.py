"""How often something happens that nobody asks for, by a wall clock that may be set forward and back."""

from __future__ import annotations


class Interval:
    """A span of time that begins now and then. Where the clock is set back to before it began, it is over: what waits for it
    happens early then, and never as late as the clock was wrong."""

    __slots__ = ("_began_at", "ms")

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self._began_at: int | None = None

    def begin(self, now: int) -> None:
        self._began_at = now

    def end(self) -> None:
        self._began_at = None

    @property
    def begun(self) -> bool:
        return self._began_at is not None

    def lasts(self, now: int) -> bool:
        return self._began_at is not None and self._began_at <= now < self._began_at + self.ms

    def due(self, now: int) -> bool:
        """Whether the last one is over, or there was none. Then the next begins."""
        if self.lasts(now):
            return False
        self.begin(now)
        return True

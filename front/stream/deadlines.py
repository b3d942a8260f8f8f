"""Several deadlines with the one timer that a connection has."""

from __future__ import annotations

from collections.abc import Hashable

from front.sockets.peer import Outside


class ConnectionDeadlines:
    """What is due is told by `due`, each once."""

    __slots__ = ("_at", "_outside")

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._at: dict[Hashable, float] = {}

    def set(self, what: Hashable, seconds: float) -> None:
        """Replaces an earlier one for the same thing."""
        self._at[what] = self._outside.monotonic() + seconds
        self._arm()

    def clear(self, what: Hashable) -> None:
        if self._at.pop(what, None) is not None:
            self._arm()

    def clear_all(self) -> None:
        self._at.clear()
        self._outside.arm(0)

    def due(self) -> list[Hashable]:
        """The timer has elapsed."""
        now = self._outside.monotonic()
        due = [what for what, at in self._at.items() if at <= now]
        for what in due:
            del self._at[what]
        self._arm()
        return due

    def _arm(self) -> None:
        if not self._at:
            self._outside.arm(0)
            return
        # Never 0, which disarms: what is due already is told at the next tick.
        self._outside.arm(max(min(self._at.values()) - self._outside.monotonic(), 0.001))

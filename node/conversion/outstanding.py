"""Copies that are not on a majority of their group yet, and how long none of them has come there. A core."""

from __future__ import annotations


class Outstanding:
    """See the module. Times are those of a clock that only goes forward."""

    def __init__(self) -> None:
        self.bytes = 0
        self._since = 0  # when the first was sent, or one of them arrived last

    def sent(self, size: int, now: int) -> None:
        if not self.bytes:
            self._since = now
        self.bytes += size

    def arrived(self, size: int, now: int) -> None:
        self.bytes -= size
        self._since = now

    def waited_ms(self, now: int) -> int:
        """0: none is on its way."""
        return now - self._since if self.bytes else 0

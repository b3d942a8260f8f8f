"""When to send a heartbeat, and when silence has lasted too long.

A check comes twice in each interval. Each time, a heartbeat is due if nothing was sent since the last one; every second time
the other direction is looked at, and after two such looks without a byte (two to three intervals) the peer is taken for dead.
"""

from __future__ import annotations

from front.amqp.frame import HEARTBEAT_FRAME

SILENT_CHECKS_MAX = 2


class Heartbeat:
    """Counts silence by comparing byte counters; any traffic is a sign of life."""

    __slots__ = ("_bytes_in", "_bytes_out", "_even", "_silent_checks", "interval_s")

    def __init__(self) -> None:
        self.interval_s = 0  # agreed with the client; 0: no heartbeats
        self._bytes_in = -1
        self._bytes_out = 0
        self._even = False
        self._silent_checks = 0

    @property
    def check_every_s(self) -> float:
        return self.interval_s / 2

    def sending_is_due(self, bytes_out: int) -> bool:
        """True when a heartbeat must go out now. Heartbeats themselves are no traffic: a quiet line gets one each check."""
        due = bytes_out == self._bytes_out
        self._bytes_out = bytes_out + len(HEARTBEAT_FRAME) if due else bytes_out
        return due

    def peer_is_silent(self, bytes_in: int, reading: bool) -> bool:
        """True when the peer has been silent for too long. While we do not read we cannot know."""
        self._even = not self._even
        if self._even:
            return False
        silent = reading and bytes_in == self._bytes_in
        self._bytes_in = bytes_in
        self._silent_checks = self._silent_checks + 1 if silent else 0
        return self._silent_checks >= SILENT_CHECKS_MAX

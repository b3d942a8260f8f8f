"""When to send a heartbeat, and when silence has lasted too long.

    sending     twice in each interval, counted from tune-ok, whatever else was sent: a heartbeat is eight bytes, and leaving
                one out because of a frame just before lets the line be quiet for nearly a whole interval
    receiving   a look once in each interval; after two looks in a row that found no byte the peer is considered dead, two to
                three intervals after its last one

The timers behind this are coarse and never early, so what must not be late is asked for LATENESS_S before.
"""

from __future__ import annotations

from front.sockets.wheel import LATENESS_S

SILENT_LOOKS_MAX = 2


class Heartbeat:
    """Times are seconds of a monotonic clock. Silence is counted by comparing byte counters: any traffic is a sign of life."""

    __slots__ = ("_agreed_at", "_bytes_in", "_looked_at", "_silent_looks", "interval_s")

    def __init__(self) -> None:
        self.interval_s = 0  # agreed with the client; 0: no heartbeats
        self._agreed_at = 0.0
        self._looked_at = 0.0
        self._bytes_in = -1
        self._silent_looks = 0

    def agree(self, interval_s: int, now: float) -> None:
        """The client has said connection.tune-ok."""
        self.interval_s = interval_s
        self._agreed_at = self._looked_at = now

    def first_check_in_s(self, now: float) -> float:
        """For a connection that is opened now. 0: never."""
        return max(LATENESS_S / 2, self.check_every_s - (now - self._agreed_at)) if self.interval_s else 0

    @property
    def check_every_s(self) -> float:
        """Each check sends a heartbeat. 0: never."""
        return self.interval_s / 2 - LATENESS_S if self.interval_s else 0

    def peer_is_silent(self, bytes_in: int, reading: bool, now: float) -> bool:
        """True when the peer has been silent for too long. While we do not read we cannot know."""
        # The second check in an interval comes up to so much early; the clients of a short one may be late themselves.
        if now - self._looked_at < max(self.interval_s - 2 * LATENESS_S, self.interval_s * 0.9):
            return False
        self._looked_at = now
        silent = reading and bytes_in == self._bytes_in
        self._bytes_in = bytes_in
        self._silent_looks = self._silent_looks + 1 if silent else 0
        return self._silent_looks >= SILENT_LOOKS_MAX

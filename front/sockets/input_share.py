"""How long one socket's input may take in a turn of the event loop, when others are as busy.

A turn serves every socket that is readable before it looks at its timers and at what is due. So what all of them may take is
shared among those that kept it busy in the turn before. A socket that has little to say does not count. Where more are busy
than before, those that come when the turn's time is used up read as little as they may.

A core: later turns come through `soon`.
"""

from __future__ import annotations

from collections.abc import Callable

INPUT_S_MAX = 0.008  # of one socket that is alone: a publisher beside it should wait for no more
INPUT_TURN_S = 0.008  # of all of them
INPUT_S_MIN = 0.0004  # with less, what each turn costs anyway would be most of it
BUSY_S = INPUT_S_MIN / 2


class InputShare:
    """See the module. Of one server."""

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        self.seconds = INPUT_S_MAX
        self.is_used_up = False  # this turn's time
        self._soon = soon
        self._busy = 0  # sockets, in this turn
        self._spent_s = 0.0  # by them
        self._counts = False

    def worked(self, took_s: float) -> None:
        """A socket's input took so long in this turn."""
        if took_s >= BUSY_S:
            self._busy += 1
            self._spent_s += took_s
            self.is_used_up = self._spent_s >= INPUT_TURN_S
            if not self._counts:
                self._counts = True
                self._soon(self._turn_ended)

    def _turn_ended(self) -> None:
        self._counts = False
        self.seconds = min(INPUT_S_MAX, max(INPUT_S_MIN, INPUT_TURN_S / self._busy))
        self._busy, self._spent_s, self.is_used_up = 0, 0.0, False

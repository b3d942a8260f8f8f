"""Looking again for input before the event loop sleeps: `node.busy_poll_us`.

A core that sleeps takes tens of microseconds to wake up, and who waits for one answer at a time waits for that each time. So
behind each input the loop looks at its sockets again and again for a while. That takes a core from whoever else would use it,
so it is for machines that have one for each node.

A core: the loop is asked for further rounds through `soon`.
"""

from __future__ import annotations

from collections.abc import Callable


class BusyPoll:
    """See the module. One for all sockets of a node."""

    def __init__(
        self, soon: Callable[[Callable[[], None]], object], monotonic: Callable[[], float], seconds: float
    ) -> None:
        self._soon = soon
        self._monotonic = monotonic
        self._seconds = seconds
        self._until = 0.0
        self._came = False  # something, since the last look
        self._looks = False  # the loop was asked for another round, and has not come to it

    def input_came(self) -> None:
        self._came = True
        if not self._looks:
            self._looks = True
            self._soon(self._look)

    def _look(self) -> None:
        """The loop has looked at its sockets, and done what it was asked to do before: the time counts from then on."""
        now = self._monotonic()
        if self._came:
            self._came = False
            self._until = now + self._seconds
        self._looks = now < self._until
        if self._looks:
            self._soon(self._look)

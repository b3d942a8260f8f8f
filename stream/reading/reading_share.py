"""How much is read for the readers of all streams of a node in one round of the event loop.

Each input of a client ends a turn, and a round has hundreds of turns where hundreds of clients give credit: with a bound for
each turn 500 readers of one stream held up its publisher for a second. Streams that had nothing of a round come first in the
next.

While something is published a round has an eighth, and what was taken beyond that is missing in the next ones: whatever is
published waits for the end of a round several times until it is confirmed. Of hundreds of readers two are served in such a
round. Each is given the chunks that came since its last turn, as far as it has credit: many cost little more than one.

What is old has less still. Measured with one reader of an old stream and one publisher with 1,000 unconfirmed: the publisher
keeps nine tenths of its rate, and kept six. What is in memory was published just now: to hold up those who read it would be to
hold up the stream.
"""

from __future__ import annotations

from collections.abc import Callable

ROUND_BYTES_MAX = 2 << 20
BYTES_BESIDE_PUBLISHERS = 256 << 10
OLD_BYTES_BESIDE_PUBLISHERS = 128 << 10
PUBLISHED_S = 0.05  # so long after something was published more is expected
# What one reader costs beside the bytes that it is given, counted as bytes: to write to its socket, and to take the credit that
# it gives for that, takes as long as to copy these.
SERVED_BYTES = 128 << 10
LOOKED_AT_BYTES = 8 << 10  # there was nothing for it


class ReadingShare:
    """See the module. One for a node."""

    def __init__(self, soon: Callable[[Callable[[], None]], object], monotonic: Callable[[], float]) -> None:
        """`soon` calls in the next round of the event loop."""
        self._soon = soon
        self._monotonic = monotonic
        self._published_until = monotonic()
        self._left = self._left_for_old = ROUND_BYTES_MAX
        self._renews = False  # in the next round
        self._had_nothing: dict[Callable[[], None], None] = {}
        self._had_some: dict[Callable[[], None], None] = {}

    def left(self, *, old: bool) -> int:
        """Bytes for a reader of what is in memory, or is `old`."""
        return max(0, min(self._left, self._left_for_old) if old else self._left)

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0

    def published(self) -> None:
        """To a stream, by a client of this node."""
        self._published_until = self._monotonic() + PUBLISHED_S

    def served(self, size: int, *, old: bool) -> None:
        """So many bytes were read for one reader."""
        self._left -= size + SERVED_BYTES if size else LOOKED_AT_BYTES
        self._left_for_old -= size if old else 0
        self._renew_soon()

    def wait(self, go_on: Callable[[], None], *, first: bool) -> None:
        """Call in the next round, for readers that could take more; `first`, if they had nothing in this one."""
        (self._had_nothing if first else self._had_some)[go_on] = None
        self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renews:
            self._renews = True
            self._soon(self._renew)

    def _renew(self) -> None:
        waiting = [*self._had_nothing, *self._had_some]
        self._had_nothing, self._had_some = {}, {}
        self._renews = False
        if self._monotonic() < self._published_until:
            self._left = min(0, self._left) + BYTES_BESIDE_PUBLISHERS
            self._left_for_old = min(0, self._left_for_old) + OLD_BYTES_BESIDE_PUBLISHERS
        else:
            self._left = self._left_for_old = ROUND_BYTES_MAX
        for go_on in waiting:
            go_on()

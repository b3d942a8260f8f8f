"""How much is read for the readers of all streams of a node in one round of the event loop.

Each input of a client ends a turn, and a round has hundreds of turns where hundreds of clients give credit: with a bound for
each turn 500 readers of one stream held up its publisher for a second. Streams that had nothing of a round come first in the
next.

While something is published a round has an eighth, and what was taken beyond that is missing in the next ones: whatever is
published waits for the end of a round several times until it is confirmed. Of hundreds of readers two are served in such a
round. Each is given the chunks that came since its last turn, as far as it has credit: many cost little more than one.

A commit that a thread writes, or that waits for other nodes, takes many rounds. When each of them served readers, a publisher
kept a third of its rate beside 500: what readers cost the node and their clients took the processor from the thread, from the
publisher, and from the round in which the commit is done. So while something published is not committed, a round in which
nothing is published or committed serves no reader. After PAUSE_S of such rounds there is a share, and after each further pause
twice as much: the loop has nothing else to do. For some time after a pause other rounds serve fewer readers. A commit that the
loop writes itself is done in the round that took the publish, and nothing pauses. Nor does anything while somebody reads what
is old: many bytes at a time cost little, and the bound below keeps publishers. With pauses a replay beside commits of 2 ms had
244 MB/s of 863, for twice the processor time.

What is old has less still. Measured with one reader of an old stream and one publisher with 1,000 unconfirmed: the publisher
keeps nine tenths of its rate, and kept six. What is in memory was published just now: to hold up those who read it would be to
hold up the stream.
"""

from __future__ import annotations

from collections.abc import Callable

from replicated.ports import QueueLoop, QueueTimer

ROUND_BYTES_MAX = 2 << 20
BYTES_BESIDE_PUBLISHERS = 256 << 10
BYTES_BESIDE_SLOW_COMMITS = 128 << 10
OLD_BYTES_BESIDE_PUBLISHERS = 128 << 10
PUBLISHED_S = 0.05  # so long after something was published more is expected
SLOW_COMMITS_S = 0.05  # so long after a pause commits are expected to take many rounds
PAUSE_S = 0.001  # the shortest that event loops have
# What one reader costs beside the bytes that it is given, counted as bytes: to write to its socket, and to take the credit that
# it gives for that, takes as long as to copy these.
SERVED_BYTES = 128 << 10
LOOKED_AT_BYTES = 8 << 10  # there was nothing for it


class ReadingShare:
    """See the module. One for a node."""

    def __init__(self, loop: QueueLoop, monotonic: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._published_until = self._slow_until = monotonic()
        self._left = self._left_for_old = ROUND_BYTES_MAX
        self._renews = False  # in the next round
        self._pause: QueueTimer | None = None
        self._pause_bytes = BYTES_BESIDE_SLOW_COMMITS  # the share at its end
        self._waits_for_commit = False  # what was published last
        self._progressed = False  # something was published or committed since the share was renewed
        self._read_old = False  # somebody was given what is old, of the last share that had something for that
        self._had_nothing: dict[Callable[[], None], None] = {}
        self._had_some: dict[Callable[[], None], None] = {}

    def left(self, *, old: bool) -> int:
        """Bytes for a reader of what is in memory, or is `old`."""
        return max(0, min(self._left, self._left_for_old) if old else self._left)

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0

    def published(self, *, member_here: bool) -> None:
        """To a stream, by a client of this node. Without a member here nothing tells when it is committed."""
        self._published_until = self._monotonic() + PUBLISHED_S
        self._waits_for_commit = member_here
        self._progress()

    def committed(self) -> None:
        """Entries of a stream of this node."""
        self._waits_for_commit = False
        self._progress()

    def served(self, size: int, *, old: bool) -> None:
        """So many bytes were read for one reader."""
        self._left -= size + SERVED_BYTES if size else LOOKED_AT_BYTES
        if old and size:
            self._left_for_old -= size
            self._read_old = True
        self._renew_soon()

    def wait(self, go_on: Callable[[], None], *, first: bool) -> None:
        """Call when there is a share again, for readers that could take more; `first`, if they had nothing of this one."""
        (self._had_nothing if first else self._had_some)[go_on] = None
        self._renew_soon()

    def _progress(self) -> None:
        self._progressed = True
        self._pause_bytes = BYTES_BESIDE_SLOW_COMMITS
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renews and self._pause is None:
            self._renews = True
            self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._renews = False
        now = self._monotonic()
        if now >= self._published_until:
            self._left = self._left_for_old = ROUND_BYTES_MAX
            self._go_on()
        elif self._waits_for_commit and not (self._progressed or self._read_old):
            self._slow_until = now + SLOW_COMMITS_S
            self._pause = self._loop.call_later(PAUSE_S, self._pause_ends)
        else:
            are_slow = now < self._slow_until and not self._read_old
            in_memory = BYTES_BESIDE_SLOW_COMMITS if are_slow else BYTES_BESIDE_PUBLISHERS
            self._renew(in_memory, OLD_BYTES_BESIDE_PUBLISHERS)

    def _pause_ends(self) -> None:
        self._pause = None
        share, self._pause_bytes = self._pause_bytes, min(2 * self._pause_bytes, ROUND_BYTES_MAX)
        self._renew(share, share)

    def _renew(self, in_memory: int, for_old: int) -> None:
        """Less what was taken too much."""
        self._progressed = False
        self._left = min(0, self._left) + in_memory
        self._left_for_old = min(0, self._left_for_old) + for_old
        self._read_old = self._read_old and not self.left(old=True)
        self._go_on()

    def _go_on(self) -> None:
        waiting = [*self._had_nothing, *self._had_some]
        self._had_nothing, self._had_some = {}, {}
        for go_on in waiting:
            go_on()

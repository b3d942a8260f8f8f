"""Finding the rows that have expired without looking at all of them (quorum/fifo/ready_rows.py).

BlockTimes has for each block of rows a time before which none of its rows expires. A million rows have 4,000 blocks, and a
queue of delayed messages asks some hundred times a second which have a row that is due: so all are looked at once for the
next WATCHED_MS, and until then those that were found and those that were added since.

The order in which the rows of one block expire has a byte for each row. It is found when the block is full, and kept up to
date as rows are cut out: what is due is at its beginning. Where a million messages expire at any time, nearly every one that
does is alone in its block. If its order were found only then, most orders would be found within the first third of a
second in which any row expires: 10,000 messages a second were 0.12 s late in that time. Blocks that come with a snapshot, all
in one turn, do wait until then.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorum.fifo.stored import NEVER

WATCHED_MS = 20
ROWS_MAX = 256  # of a block: a row's number is one byte

# What the numbers of rows become when one of them is cut out.
_BEHIND_CUT = [bytes(range(row + 1)) + bytes(range(row, ROWS_MAX - 1)) for row in range(ROWS_MAX)]


class BlockTimes:
    """Of the blocks of one priority. Begins with one block that has no rows."""

    __slots__ = ("_known", "_until", "_watched", "times")

    def __init__(self) -> None:
        # By position of the block. Whoever adds a row to the last block lowers its time, and nobody lowers another one's.
        self.times = [NEVER]
        self._unwatch()

    def add_block(self) -> None:
        self.times.append(NEVER)

    def drop_first(self) -> None:
        del self.times[0]
        self._unwatch()

    def keep(self, positions: list[int]) -> None:
        """Only these blocks are left."""
        self.times = [self.times[at] for at in positions]
        self._unwatch()

    def due(self, now: int) -> list[int]:
        """Positions of the blocks that have a row that has expired."""
        if now > self._until:
            self._watch(now + WATCHED_MS)
        times = self.times
        return [at for at in self._watched if times[at] <= now] + [
            at for at in range(self._known, len(times)) if times[at] <= now
        ]

    def soonest(self) -> int:
        """Nothing expires before."""
        watched = min([self.times[at] for at in self._watched], default=NEVER)
        found = min([watched, *self.times[self._known :]])
        return found if found <= self._until else min(self.times)

    def _watch(self, until: int) -> None:
        self._until = until
        self._known = len(self.times) - 1  # the last one gets more rows
        self._watched: list[int] = [at for at, time in enumerate(self.times[:-1]) if time <= until]

    def _unwatch(self) -> None:
        self._until = -1
        self._known = 0
        self._watched = []


def order_of(times: Sequence[int]) -> bytes:
    """Of rows that expire at these times."""
    listed = list(times)  # of integers that exist: 13 us for 256 rows, 24 where pairs of time and row are sorted
    return bytes(sorted(range(len(listed)), key=listed.__getitem__))


def without_first(order: bytes, count: int) -> bytes:
    """The order of the rows that are left when so many are cut off at the beginning of the block."""
    return order.translate(bytes(count) + bytes(range(ROWS_MAX - count)), bytes(range(count)))


def without(order: bytes, rows: Sequence[int]) -> bytes:
    """The order of the rows that are left when these, ascending, are cut out."""
    for row in reversed(rows):
        order = order.translate(_BEHIND_CUT[row], bytes((row,)))
    return order

"""Messages of one priority that were never delivered, in the order of the log.

A row is one run, or what is left of it, as five numbers in a column of 64-bit ones; the rows lie in blocks. So a backlog
costs 40 bytes for each run whatever else is going on, and has no Python objects.

    word 0   index of the entry
         1   offset of the op, upper half | first message that is left, lower half
         2   messages that are left, upper half | messages of the run, lower half
         3   bytes of the whole run
         4   when it expires; NEVER

Taking leaves at the head, adding happens at the tail, expiring cuts rows out anywhere. Only the first and the last block ever
change: one that is behind the first becomes another one when rows are cut out of it, or when it becomes the first. So a
snapshot refers to all blocks between, and copies none of them. Looking for what expires touches few blocks,
and few rows of them (quorum/fifo/due_rows.py).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import islice

from quorum.fifo.due_rows import ROWS_MAX, BlockTimes, order_of, without, without_first
from quorum.fifo.stored import NEVER, StoredMessages
from storage.disk import Buffer

ROW_WORDS = 5
BLOCK_ROWS = ROWS_MAX
ROW_BYTES = 8 * ROW_WORDS
HALF_MAX = (1 << 32) - 1

_BLOCK_WORDS = BLOCK_ROWS * ROW_WORDS
_BLOCK_BYTES = BLOCK_ROWS * ROW_BYTES
_SWAPPED = sys.byteorder == "big"


class ReadyRows:
    """See the module. How many messages there are is counted by ReadyMessages."""

    __slots__ = ("_blocks", "_head", "_orders", "_soonest", "_tail", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.clear()

    def clear(self) -> None:
        self._tail = array("Q")
        self._blocks = deque([self._tail])
        self._soonest = BlockTimes()
        self._orders: deque[bytes | None] = deque([None])  # for each block, when known: in which order its rows expire
        self._head = 0  # word of the first row that is left in the first block

    def __bool__(self) -> bool:
        return self._head < len(self._blocks[0])

    def __iter__(self) -> Iterator[StoredMessages]:
        for at, block in enumerate(self._blocks):
            start = 0 if at else self._head
            for row in range(start, len(block), ROW_WORDS):
                yield self._row(block, row)

    @property
    def row_count(self) -> int:
        return (sum(map(len, self._blocks)) - self._head) // ROW_WORDS

    def add(self, entry: int, offset: int, length: int, run_bytes: int, expires_at: int) -> None:
        tail = self._tail
        if len(tail) >= _BLOCK_WORDS:
            if self._soonest.times[-1] != NEVER:
                self._order_of(-1)
            tail = self._add_block()
        tail.extend((entry, offset << 32, length << 32 | length, run_bytes, expires_at))
        times = self._soonest.times
        if expires_at < times[-1]:
            times[-1] = expires_at

    def take(self, limit: int) -> StoredMessages:
        """What is left of the first run, but not more than `limit` messages. There must be one."""
        block, head = self._blocks[0], self._head
        entry, place, lengths, run_bytes, expires_at = block[head : head + ROW_WORDS]
        length = lengths >> 32
        if length > limit:
            length = limit
            block[head + 1] = place + limit
            block[head + 2] = lengths - (limit << 32)
        else:
            self._head = head = head + ROW_WORDS
            if head == len(block):
                self._drop_first_block()
        return StoredMessages(
            entry, place >> 32, place & HALF_MAX, length, lengths & HALF_MAX, run_bytes, expires_at, self.priority, 0, 0
        )

    def expire(self, now: int, rows_max: int) -> list[StoredMessages]:
        """Take out the first rows that have expired, wherever they are."""
        expired: list[StoredMessages] = []
        emptied = False
        for at in self._soonest.due(now):
            expired += self._expire_in(at, now, rows_max - len(expired))
            emptied = emptied or not self._blocks[at]
            if len(expired) == rows_max:
                break
        if emptied:
            self._drop_empty_blocks()
        return expired

    def withdraw(self, entry: int, offset: int, message: int) -> StoredMessages | None:
        """Take out this message of a run; None: it is not here."""
        at, row = self._find(entry, offset, message)
        block = self._blocks[at]
        if row < (0 if at else self._head):
            return None
        stored = self._row(block, row)
        before, behind = message - stored.first, stored.first + stored.length - message - 1
        if stored[:2] != (entry, offset) or behind < 0:
            return None
        left = [stored.part(start, length) for start, length in ((0, before), (before + 1, behind)) if length]
        kept = array("Q", [word for part in left for word in _words(part)])
        self._replace(at, block[0 if at else self._head : row] + kept + block[row + ROW_WORDS :])
        if not self._blocks[at]:
            self._drop_empty_blocks()
        return stored.part(before, 1)

    def behind(self, entry: int, offset: int, message: int) -> Iterator[StoredMessages]:
        """What stands behind this place, the first row perhaps from before it."""
        at, row = self._find(entry, offset, message)
        for later in range(at, len(self._blocks)):
            block, start = self._blocks[later], 0 if later else self._head
            for word in range(max(row, start) if later == at else start, len(block), ROW_WORDS):
                yield self._row(block, word)

    def next_to_expire(self, limit: int) -> list[StoredMessages]:
        """So many rows, the soonest first. At most one block for each is looked at, for each has a row that is that soon."""
        found: list[tuple[int, int, int]] = []  # when, block, word
        soonest = self._soonest.times
        for at in sorted(range(len(soonest)), key=soonest.__getitem__):
            last = found[limit - 1][0] if len(found) >= limit else NEVER - 1
            if soonest[at] > last:
                break
            block, start = self._blocks[at], 0 if at else self._head
            words = range(start, len(block), ROW_WORDS)
            times = block[start + 4 :: ROW_WORDS]
            found += [(due, at, word) for due, word in zip(times, words, strict=True) if due <= last]
            found = sorted(found)[:limit]
        return [self._row(self._blocks[at], word) for _, at, word in found]

    def soonest(self) -> int:
        """Nothing expires before; after `expire` that is exact, unless rows were taken that would have expired."""
        return self._soonest.soonest()

    def entries(self) -> array[int]:
        """Indexes of entries, ascending; one that holds several runs comes as often."""
        column = self._blocks[0][self._head :: ROW_WORDS]
        for block in islice(self._blocks, 1, None):
            column += block[::ROW_WORDS]
        return column

    def encode(self) -> list[Buffer]:
        """The rows as bytes, little endian. They stay as they are, whatever is added or taken later."""
        blocks = list(self._blocks)
        ends = {0, len(blocks) - 1}
        blocks[0] = blocks[0][self._head :]
        return [
            _little_endian(block).tobytes() if at in ends or _SWAPPED else memoryview(block).cast("B")
            for at, block in enumerate(blocks)
        ]

    def decode(self, data: memoryview) -> None:
        """Have these rows, which `encode` gave, and no others."""
        assert len(data) % ROW_BYTES == 0, f"{len(data)} bytes are no rows of {ROW_BYTES} each"
        self.clear()
        for start in range(0, len(data), _BLOCK_BYTES):
            if start:
                self._add_block()
            self._tail.frombytes(data[start : start + _BLOCK_BYTES])
            if _SWAPPED:
                self._tail.byteswap()
            self._soonest.times[-1] = min(self._tail[4::ROW_WORDS])

    def _row(self, block: array[int], at: int) -> StoredMessages:
        entry, place, lengths, run_bytes, expires_at = block[at : at + ROW_WORDS]
        return StoredMessages(
            entry,
            place >> 32,
            place & HALF_MAX,
            lengths >> 32,
            lengths & HALF_MAX,
            run_bytes,
            expires_at,
            self.priority,
            0,
            0,
        )

    def _expire_in(self, at: int, now: int, rows_max: int) -> list[StoredMessages]:
        if at == 0 and self._head:
            self._cut_off_taken()
        block, order = self._blocks[at], self._order_of(at)
        due: list[int] = []
        for row in order:
            if block[row * ROW_WORDS + 4] > now:
                break
            due.append(row)
        rows = sorted(due)[:rows_max]  # in the order of the log, as on all members
        expired = [self._row(block, row * ROW_WORDS) for row in rows]
        if rows:
            block, order = _without_rows(block, rows), without(order, rows)
            self._replace(at, block, order)
        self._soonest.times[at] = block[order[0] * ROW_WORDS + 4] if order else NEVER
        return expired

    def _order_of(self, at: int) -> bytes:
        block, order = self._blocks[at], self._orders[at]
        if order is None or len(order) * ROW_WORDS < len(block):  # rows were added since
            order = self._orders[at] = order_of(block[4::ROW_WORDS])
        return order

    def _cut_off_taken(self) -> None:
        order, head = self._orders[0], self._head
        left = None if order is None else without_first(order, head // ROW_WORDS)
        self._replace(0, self._blocks[0][head:], left)

    def _find(self, entry: int, offset: int, message: int) -> tuple[int, int]:
        """The block and the word in it at which this message's row begins if it is here: rows stand in the order of the log.
        The word is before those of the block if all are behind it."""
        place = entry, offset << 32 | message
        at = max(0, bisect_right(self._blocks, place, lo=1, key=_place) - 1)
        block = self._blocks[at]
        rows = range(0 if at else self._head, len(block), ROW_WORDS)
        return at, rows.start + ROW_WORDS * (bisect_right(rows, place, key=lambda row: _place(block, row)) - 1)

    def _replace(self, at: int, kept: array[int], order: bytes | None = None) -> None:
        """Have these rows in the place of a block, from its beginning on, and in which order they expire, if that is known. A
        snapshot may refer to what it was."""
        if self._blocks[at] is self._tail:
            self._tail = kept
        self._blocks[at] = kept
        self._orders[at] = order
        if at == 0:
            self._head = 0

    def _add_block(self) -> array[int]:
        self._tail = tail = array("Q")
        self._blocks.append(tail)
        self._soonest.add_block()
        self._orders.append(None)
        return tail

    def _drop_first_block(self) -> None:
        self._head = 0
        if len(self._blocks) == 1:
            del self._tail[:]
            self._soonest.times[0], self._orders[0] = NEVER, None
        else:
            self._blocks.popleft()
            self._soonest.drop_first()
            self._orders.popleft()
            if self._blocks[0] is not self._tail:
                self._blocks[0] = self._blocks[0][:]  # a snapshot may refer to it, and the first block changes

    def _drop_empty_blocks(self) -> None:
        kept = [at for at, block in enumerate(self._blocks) if block]
        if not kept:
            self.clear()
            return
        if kept[0]:
            self._head = 0
        self._blocks = deque([self._blocks[at] for at in kept])
        self._soonest.keep(kept)
        self._orders = deque([self._orders[at] for at in kept])
        for end in (0, -1):  # these will change, and may have been between
            self._blocks[end] = self._blocks[end][:]
        self._tail = self._blocks[-1]


def _without_rows(block: array[int], rows: list[int]) -> array[int]:
    """A copy without these rows, which ascend."""
    kept = block[:]
    for row in reversed(rows):
        del kept[row * ROW_WORDS : (row + 1) * ROW_WORDS]
    return kept


def _place(block: array[int], row: int = 0) -> tuple[int, int]:
    return block[row], block[row + 1]


def _words(stored: StoredMessages) -> tuple[int, int, int, int, int]:
    place, lengths = stored.offset << 32 | stored.first, stored.length << 32 | stored.run_length
    return stored.entry, place, lengths, stored.run_bytes, stored.expires_at


def _little_endian(block: array[int]) -> array[int]:
    if _SWAPPED:
        block = block[:]
        block.byteswap()
    return block

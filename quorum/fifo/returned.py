"""Messages that were handed out and came back, in the order in which they are to be handed out again.

By default they come before all others, first returned first: in line. With the rule `requeue_in_place` each stands at its old
place: by priority and then by its position in the log; what was never handed out is always behind it there, because that left
its priority from the head. What is in line when that rule comes stays there, and goes before all others. What its client never
saw stands at its old place whatever the rule: what its client did see is older, and comes back later.

A row is bytes: where it belongs in place, comparable as it stands, and then the message as snapshots have it. So a snapshot of
a great many of them is put together by a kernel. Rows lie in blocks, as ready rows do, and each block knows a time before
which none of its rows expires: what is taken, put or found expired touches few of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct

from quorum.fifo.commands import PRIORITY_MAX
from quorum.fifo.stored import NEVER, STORED, StoredMessages

BLOCK_ROWS = 512

_PLACE = Struct(">BQII")  # what is handed out before has a smaller one
_EXPIRES_AT = Struct("<Q")
_EXPIRES_AT_START = _PLACE.size + 32
_ENTRY = Struct(f"<{_PLACE.size}xQ{STORED.size - 8}x")


def _row(stored: StoredMessages) -> bytes:
    place = _PLACE.pack(PRIORITY_MAX - stored.priority, stored.entry, stored.offset, stored.first)
    return place + STORED.pack(*stored)


def _stored(row: bytes) -> StoredMessages:
    return StoredMessages(*STORED.unpack_from(row, _PLACE.size))


def _expires_at(row: bytes) -> int:
    expires_at: int = _EXPIRES_AT.unpack_from(row, _EXPIRES_AT_START)[0]
    return expires_at


class _Block:
    """Some rows, at least one, but while they are being changed."""

    __slots__ = ("rows", "soonest")

    def __init__(self, rows: list[bytes], soonest: int) -> None:
        self.rows = rows
        self.soonest = soonest  # none expires before

    @property
    def last(self) -> bytes:
        return self.rows[-1]

    def expire(self, now: int, rows_max: int) -> list[bytes]:
        kept: list[bytes] = []
        expired: list[bytes] = []
        soonest = NEVER
        for row in self.rows:
            at = _expires_at(row)
            if at <= now and len(expired) < rows_max:
                expired.append(row)
            else:
                kept.append(row)
                soonest = min(soonest, at)
        self.rows, self.soonest = kept, soonest
        return expired


class Returned:
    """See the module."""

    __slots__ = ("_line", "_placed", "puts_in_place")

    def __init__(self) -> None:
        self.puts_in_place = False  # what comes now
        self._line: deque[_Block] = deque()
        self._placed: deque[_Block] = deque()

    def __bool__(self) -> bool:
        return bool(self._line or self._placed)

    def __len__(self) -> int:
        """Rows."""
        return self.line_rows + sum([len(block.rows) for block in self._placed])

    def __iter__(self) -> Iterator[StoredMessages]:
        """Those in line, and then those in place."""
        yield from self.in_line()
        yield from self.in_place()

    def in_line(self) -> Iterator[StoredMessages]:
        return (_stored(row) for block in self._line for row in block.rows)

    def in_place(self) -> Iterator[StoredMessages]:
        return (_stored(row) for block in self._placed for row in block.rows)

    @property
    def line_rows(self) -> int:
        return sum([len(block.rows) for block in self._line])

    def entries(self) -> set[int]:
        """Indexes of entries that hold them."""
        blocks = (*self._line, *self._placed)
        return {entry for block in blocks for (entry,) in _ENTRY.iter_unpack(b"".join(block.rows))}

    def encode(self) -> list[bytes]:
        """The messages as they stand in a snapshot, in order."""
        start = _PLACE.size
        return [b"".join([row[start:] for row in block.rows]) for block in (*self._line, *self._placed)]

    def precedes(self, priority: int) -> bool:
        """Whether the first one goes before fresh messages of this priority. There must be one."""
        return bool(self._line) or PRIORITY_MAX - self._placed[0].rows[0][0] >= priority

    def put(self, stored: StoredMessages, in_place: bool = False) -> None:
        """`in_place`: whatever the rule says."""
        if in_place or self.puts_in_place:
            self._place(_row(stored), stored.expires_at)
        else:
            self._append(self._line, _row(stored), stored.expires_at)

    def take(self, limit: int) -> StoredMessages:
        """The first one, but not more than `limit` messages of it. There must be one."""
        blocks = self._line or self._placed
        rows = blocks[0].rows
        stored = _stored(rows[0])
        if stored.length <= limit:
            del rows[0]
            if not rows:
                blocks.popleft()
            return stored
        # What is left stays the first: nobody else's place lies between the two parts. But the part that goes may come back in
        # place, and then stands before it.
        rows[0] = _row(stored.part(limit, stored.length - limit))
        return stored.part(0, limit)

    def expire(self, now: int, rows_max: int) -> list[StoredMessages]:
        """Take out the first ones that have expired."""
        expired: list[bytes] = []
        for blocks in (self._line, self._placed):
            for block in blocks:
                if block.soonest <= now and len(expired) < rows_max:
                    expired += block.expire(now, rows_max - len(expired))
        if expired:
            self._line = deque(block for block in self._line if block.rows)
            self._placed = deque(block for block in self._placed if block.rows)
        return [_stored(row) for row in expired]

    def soonest(self) -> int:
        """Nothing expires before; what has expired by the time of the last `expire` is counted exactly."""
        return min((block.soonest for block in (*self._line, *self._placed)), default=NEVER)

    def order(self, in_place: bool, at_once: bool) -> None:
        """Keep this order from now on. `at_once`: what is in line finds its old place, too, however much that is. What is in
        place stays as it is in any case, and what comes then stands behind it."""
        if in_place == self.puts_in_place:
            return
        self.puts_in_place = in_place
        if not in_place:
            self._line += self._placed
            self._placed = deque()
        elif at_once:
            waiting = list(self.in_line())
            self._line = deque()
            for stored in waiting:
                self.put(stored)

    def clear(self) -> None:
        self._line.clear()
        self._placed.clear()

    def restored(self, messages: Sequence[StoredMessages], line_rows: int) -> None:
        """Have those of a snapshot, of which the first so many are in line."""
        for at, stored in enumerate(messages):
            if at < line_rows:
                self._append(self._line, _row(stored), stored.expires_at)
            else:
                self._place(_row(stored), stored.expires_at)

    def _place(self, row: bytes, expires_at: int) -> None:
        blocks = self._placed
        at = bisect_left(blocks, row, key=lambda block: block.last)
        if at == len(blocks):
            self._append(blocks, row, expires_at)
            return
        block = blocks[at]
        insort(block.rows, row)
        block.soonest = min(block.soonest, expires_at)
        if len(block.rows) > 2 * BLOCK_ROWS:
            blocks.insert(at, _Block(block.rows[:BLOCK_ROWS], block.soonest))
            del block.rows[:BLOCK_ROWS]

    def _append(self, blocks: deque[_Block], row: bytes, expires_at: int) -> None:
        if not blocks or len(blocks[-1].rows) >= BLOCK_ROWS:
            blocks.append(_Block([], NEVER))
        block = blocks[-1]
        block.rows.append(row)
        block.soonest = min(block.soonest, expires_at)

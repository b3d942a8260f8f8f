"""Messages that wait for a consumer: 32 priorities, the highest first, and what came back before what is fresh.

`count` and `size` are what length limits and statistics mean by messages and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorum.fifo.commands import PRIORITY_MAX
from quorum.fifo.ready_rows import ReadyRows
from quorum.fifo.returned import Returned
from quorum.fifo.stored import NEVER, StoredMessages


class ReadyMessages:
    """See the module."""

    __slots__ = ("_filled", "by_priority", "count", "returned", "size", "soonest")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0  # bytes of bodies
        self.soonest = NEVER  # nothing here expires before
        self.returned = Returned()
        self.by_priority: list[ReadyRows | None] = [None] * (PRIORITY_MAX + 1)  # made when first used
        self._filled = 0  # a bit for each priority that has messages

    def __iter__(self) -> Iterator[StoredMessages]:
        """In the order in which they would be handed out."""
        yield from self.returned.in_line()
        waiting = list(self.returned.in_place())
        for ready_rows in reversed(self.by_priority):
            if ready_rows is not None:
                yield from (stored for stored in waiting if stored.priority == ready_rows.priority)
                yield from ready_rows

    @property
    def alike(self) -> bool:
        """Whether all are of one priority, none expires, and none came back: who takes one of those that did and has not seen
        it gives it back behind them."""
        return not self._filled & self._filled - 1 and self.soonest == NEVER and not self.returned

    def add(self, entry: int, offset: int, length: int, run_bytes: int, expires_at: int, priority: int) -> None:
        """A run that has just come."""
        ready_rows = self.by_priority[priority]
        if ready_rows is None:
            ready_rows = self.by_priority[priority] = ReadyRows(priority)
        ready_rows.add(entry, offset, length, run_bytes, expires_at)
        self._filled |= 1 << priority
        self.count += length
        self.size += run_bytes
        if expires_at < self.soonest:
            self.soonest = expires_at

    def put_back(self, stored: StoredMessages, in_place: bool = False) -> None:
        """Messages that were handed out. `in_place`: to their old place, whatever the rule says."""
        self._make_rows(stored.priority)
        self.returned.put(stored, in_place)
        self.count += stored.length
        self.size += stored.size
        if stored.expires_at < self.soonest:
            self.soonest = stored.expires_at

    def take(self, limit: int) -> StoredMessages:
        """The next messages of one run, `limit` at most. There must be one."""
        returned, filled = self.returned, self._filled
        if returned and returned.precedes(filled.bit_length() - 1):
            stored = returned.take(limit)
        else:
            ready_rows = self.by_priority[filled.bit_length() - 1]
            assert ready_rows is not None and filled, f"no priority has messages, and {self.count} are counted"
            stored = ready_rows.take(limit)
            if not ready_rows:
                self._filled = filled ^ 1 << ready_rows.priority
        self.count -= stored.length
        self.size -= stored.size
        return stored

    def expire(self, now: int, rows_max: int) -> list[StoredMessages]:
        """Take out what has expired, wherever it is; what came back first, then the highest priority. If that is more than
        `rows_max`, the rest is still here, and `soonest` says so."""
        if self.soonest > now:
            return []
        expired = self.returned.expire(now, rows_max)
        self.soonest = self.returned.soonest()
        for ready_rows in reversed(self.by_priority):
            if ready_rows is not None:
                expired += ready_rows.expire(now, rows_max - len(expired))
                self.soonest = min(self.soonest, ready_rows.soonest())
                self._mark(ready_rows)
        for stored in expired:
            self.count -= stored.length
            self.size -= stored.size
        return expired

    def withdraw(self, entry: int, offset: int, message: int) -> StoredMessages | None:
        """Take out one message that was never handed out; None: there is none in this place."""
        for ready_rows in self.by_priority:
            stored = ready_rows.withdraw(entry, offset, message) if ready_rows else None
            if ready_rows is not None and stored is not None:
                self._mark(ready_rows)
                self.count -= 1
                self.size -= stored.size
                return stored
        return None

    def next_to_expire(self, limit: int) -> list[StoredMessages]:
        """So many rows that were never handed out, the soonest first."""
        found = [one for rows in self.by_priority if rows for one in rows.next_to_expire(limit)]
        return sorted(found, key=lambda stored: (stored.expires_at, stored.entry, stored.offset, stored.first))[:limit]

    def behind(self, entry: int, offset: int, message: int) -> Iterator[StoredMessages]:
        """Those that were never handed out and stand behind this place, in the order of the log within each priority. The
        first row perhaps from before it."""
        for rows in self.by_priority:
            if rows:
                yield from rows.behind(entry, offset, message)

    def clear(self) -> int:
        """Forget all; how many there were."""
        count = self.count
        self.returned.clear()
        for ready_rows in self.by_priority:
            if ready_rows is not None:
                ready_rows.clear()
        self.count = self.size = self._filled = 0
        self.soonest = NEVER
        return count

    def come_back(self, messages: Sequence[StoredMessages], line_rows: int) -> None:
        """Those of a snapshot that were handed out; the first so many are in line. `restored` counts them."""
        for stored in messages:
            self._make_rows(stored.priority)
        self.returned.restored(messages, line_rows)

    def _make_rows(self, priority: int) -> None:
        if self.by_priority[priority] is None:
            self.by_priority[priority] = ReadyRows(priority)

    def restored(self, count: int, size: int) -> None:
        """Rows and returned messages are those of a snapshot: count what follows from them."""
        self.count, self.size = count, size
        self.soonest = self.returned.soonest()
        for ready_rows in self.by_priority:
            if ready_rows is not None:
                self.soonest = min(self.soonest, ready_rows.soonest())
                self._mark(ready_rows)

    def _mark(self, ready_rows: ReadyRows) -> None:
        if ready_rows:
            self._filled |= 1 << ready_rows.priority
        else:
            self._filled &= ~(1 << ready_rows.priority)

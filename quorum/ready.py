"""Messages that wait for a consumer: 32 priorities, the highest first, and what came back before what is fresh.

`count` and `size` are what length limits and statistics mean by messages and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorum.commands import PRIORITY_MAX
from quorum.lane import Lane
from quorum.returned import Returned
from quorum.stored import NEVER, StoredMessages


class ReadyMessages:
    """See the module."""

    __slots__ = ("_filled", "count", "lanes", "returned", "size", "soonest")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0  # bytes of bodies
        self.soonest = NEVER  # nothing here expires before
        self.returned = Returned()
        self.lanes: list[Lane | None] = [None] * (PRIORITY_MAX + 1)  # made when first used
        self._filled = 0  # a bit for each lane that has messages

    def __iter__(self) -> Iterator[StoredMessages]:
        """In the order in which they would be handed out."""
        yield from self.returned.in_line()
        waiting = list(self.returned.in_place())
        for lane in reversed(self.lanes):
            if lane is not None:
                yield from (stored for stored in waiting if stored.priority == lane.priority)
                yield from lane

    def add(self, entry: int, offset: int, length: int, run_bytes: int, expires_at: int, priority: int) -> None:
        """A run that has just come."""
        lane = self.lanes[priority]
        if lane is None:
            lane = self.lanes[priority] = Lane(priority)
        lane.add(entry, offset, length, run_bytes, expires_at)
        self._filled |= 1 << priority
        self.count += length
        self.size += run_bytes
        if expires_at < self.soonest:
            self.soonest = expires_at

    def put_back(self, stored: StoredMessages) -> None:
        """Messages that were handed out."""
        self._make_lane(stored.priority)
        self.returned.put(stored)
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
            lane = self.lanes[filled.bit_length() - 1]
            assert lane is not None and filled, f"no lane has messages, and {self.count} are counted"
            stored = lane.take(limit)
            if not lane:
                self._filled = filled ^ 1 << lane.priority
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
        for lane in reversed(self.lanes):
            if lane is not None:
                expired += lane.expire(now, rows_max - len(expired))
                self.soonest = min(self.soonest, lane.soonest())
                self._mark(lane)
        for stored in expired:
            self.count -= stored.length
            self.size -= stored.size
        return expired

    def clear(self) -> int:
        """Forget all; how many there were."""
        count = self.count
        self.returned.clear()
        for lane in self.lanes:
            if lane is not None:
                lane.clear()
        self.count = self.size = self._filled = 0
        self.soonest = NEVER
        return count

    def come_back(self, messages: Sequence[StoredMessages], line_rows: int) -> None:
        """Those of a snapshot that were handed out; the first so many go before all others. `restored` counts them."""
        for stored in messages:
            self._make_lane(stored.priority)
        self.returned.restored(messages, line_rows)

    def _make_lane(self, priority: int) -> None:
        if self.lanes[priority] is None:
            self.lanes[priority] = Lane(priority)

    def restored(self, count: int, size: int) -> None:
        """Lanes and returned messages are those of a snapshot: count what follows from them."""
        self.count, self.size = count, size
        self.soonest = self.returned.soonest()
        for lane in self.lanes:
            if lane is not None:
                self.soonest = min(self.soonest, lane.soonest())
                self._mark(lane)

    def _mark(self, lane: Lane) -> None:
        if lane:
            self._filled |= 1 << lane.priority
        else:
            self._filled &= ~(1 << lane.priority)

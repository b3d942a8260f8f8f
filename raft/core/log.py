"""A member's log as the core sees it: what the store has fsynced, and behind it what is only in memory yet.

`durable` is the highest index that is fsynced here *and has not been truncated since*. The tail holds exactly the entries
above it. Each Ready that hands out entries makes a claim: "when this number is persisted, everything up to here is durable".
Truncation lowers `durable` and every claim on its way at once, so a write that finishes late never vouches for an entry that
took the place of the one it wrote.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from raft.core.log_store import LogStore
from raft.core.messages import Entry, EntryRun

ENTRY_OVERHEAD_BYTES = 24  # what an entry costs on its way beside its data; a guess that need not be exact


class Log:
    """Positions: handed, durable and commit of the member are at most `last`; entries up to `durable` are the store's."""

    __slots__ = (
        "_claims", "_durable_term", "_ends", "_newest", "_store", "_tail", "durable", "handed", "last", "last_term",
    )  # fmt: skip

    durable: int
    handed: int  # entries up to here were handed out to be persisted; durable <= handed <= last
    last: int
    last_term: int

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._claims: deque[list[int]] = deque()  # [number of the Ready, durable up to here when it is persisted]
        self._stand_on_store()

    def _stand_on_store(self) -> None:
        self.durable = self.handed = self.last = self._store.last_index()
        self.last_term = self._durable_term = self._store.term(self.last)
        self._tail: list[Entry] = []
        self._ends = [0]  # _ends[i]: bytes of the first i entries of the tail
        self._newest: EntryRun | None = None  # ends with the last entry: what was asked for last, or came

    def first_index(self) -> int:
        return self._store.first_index()

    def term(self, index: int) -> int:
        """Of an entry or of the snapshot. Raises Compacted below first_index() - 1."""
        assert 0 <= index <= self.last, f"term of entry {index} asked for, the log ends at {self.last}"
        if index == self.last:
            return self.last_term
        if index == self.durable:  # which a leader asks for each follower
            return self._durable_term
        if index > self.durable:
            return self._tail[index - self.durable - 1].term
        return self._store.term(index)

    def matches(self, index: int, term: int) -> bool:
        """Whether the log has this entry. Index 0 is before every log. What was compacted is not known to match."""
        if index == self.last:
            return term == self.last_term
        return self.first_index() - 1 <= index < self.last and self.term(index) == term

    def append(self, entries: Sequence[Entry]) -> None:
        """Behind the last one."""
        assert entries[0].index == self.last + 1, f"entry {entries[0].index} cannot follow {self.last}"
        assert entries[0].term >= self.last_term, f"term {entries[0].term} cannot follow {self.last_term}"
        sizes = [len(entry.data) + ENTRY_OVERHEAD_BYTES for entry in entries]
        ends = accumulate(sizes, initial=self._ends.pop())
        self._tail += entries
        self._ends += ends
        self._newest = entries if type(entries) is EntryRun else None
        self.last = entries[-1].index
        self.last_term = entries[-1].term

    def truncate(self, last: int) -> None:
        """Entries above `last` are gone, whatever a write on its way says."""
        assert 0 <= last < self.last, f"truncated to {last}, the log ends at {self.last}"
        if last < self.durable:
            self.durable, self._durable_term = last, self._store.term(last)
            self._tail.clear()
        else:
            del self._tail[last - self.durable :]
        del self._ends[len(self._tail) + 1 :]
        for claim in self._claims:
            claim[1] = min(claim[1], last)
        self.handed = min(self.handed, last)
        self.last_term = self._tail[-1].term if self._tail else self._durable_term
        self.last = last
        self._newest = None

    def hand_out(self, number: int) -> Sequence[Entry]:
        """What is still to be persisted; `number` identifies it."""
        if self.handed == self.last:
            return ()
        entries = self._from(self.handed + 1)
        self.handed = self.last
        self._claims.append([number, self.last])
        return entries

    def _from(self, low: int) -> EntryRun:
        """The tail from there on; the same run for all who ask, so that it is packed once."""
        run = self._newest
        if run is None or run[0].index != low:
            run = self._newest = EntryRun(self._tail[low - self.durable - 1 :])
        return run

    def persisted(self, number: int) -> None:
        """Claims up to this number hold now."""
        durable = self.durable
        while self._claims and self._claims[0][0] <= number:
            claimed = self._claims.popleft()[1]
            if claimed > durable:
                durable = claimed
        assert durable <= self.handed, f"{durable} became durable, but only {self.handed} was handed out"
        if durable > self.durable:
            self._durable_term = self._tail[durable - self.durable - 1].term
            self._drop(durable - self.durable)
            self.durable = durable

    def _drop(self, count: int) -> None:
        if count == len(self._tail):
            self._tail = []
            self._ends = [0]
            self._newest = None
        else:
            del self._tail[:count]
            del self._ends[:count]

    def entries(self, low: int, bytes_max: int) -> tuple[tuple[Entry, ...], int]:
        """Entries from `low` on, fewer than there are when they come to more than `bytes_max`, but at least one; and their
        size. Those that the store has come alone."""
        assert low <= self.last, f"entries from {low} asked for, the log ends at {self.last}"
        if low > self.durable:
            ends, start = self._ends, low - self.durable - 1
            if ends[-1] - ends[start] <= bytes_max:
                return self._from(low), ends[-1] - ends[start]
            stop = max(start + 1, bisect_right(ends, ends[start] + bytes_max) - 1)
            return tuple(self._tail[start:stop]), ends[stop] - ends[start]
        stored = self._store.entries(low, self.durable + 1, bytes_max)
        assert stored and stored[0].index == low, f"the store has no entry {low}, durable is {self.durable}"
        return tuple(stored), sum([len(entry.data) for entry in stored]) + ENTRY_OVERHEAD_BYTES * len(stored)

    def between(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        """Durable entries from `low` to `high`, both included; fewer as above."""
        assert high <= self.durable, f"entries up to {high} asked for, durable is {self.durable}"
        return self._store.entries(low, high + 1, bytes_max)

    def last_not_above(self, term: int, low: int, high: int) -> int:
        """The highest index from `low` to `high` whose term is at most `term`; `low` when there is none. Terms never
        fall along a log, so this is a binary search."""
        while low < high:
            middle = (low + high + 1) // 2
            if self.term(middle) <= term:
                low = middle
            else:
                high = middle - 1
        return low

    def first_conflict(self, entries: Sequence[Entry]) -> int | None:
        """The lowest index at which these and the log have different terms, or None. Two logs that agree on one entry's
        term agree on all before, so the entries that agree come first and a binary search finds where they end."""
        if entries[0].index > self.last:
            return None
        overlap = min(len(entries), self.last - entries[0].index + 1)
        if self.term(entries[overlap - 1].index) == entries[overlap - 1].term:
            return None
        low, high = 0, overlap - 1  # entries before low agree; the one at high does not
        while low < high:
            middle = (low + high) // 2
            if self.term(entries[middle].index) == entries[middle].term:
                low = middle + 1
            else:
                high = middle
        return entries[high].index

    def reset(self, index: int) -> None:
        """The store begins behind a snapshot of `index` now and holds nothing else."""
        assert self._store.last_index() == index, (
            f"snapshot {index} installed, store ends at {self._store.last_index()}"
        )
        for claim in self._claims:
            claim[1] = min(claim[1], index)
        self._stand_on_store()

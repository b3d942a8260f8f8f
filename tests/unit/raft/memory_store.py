"""A LogStore in memory, with the writes that a driver makes. What is written here is durable; a test that wants to lose a write
does not make it.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core.errors import Compacted
from raft.core.membership import decode
from raft.core.messages import Entry, EntryKind, Membership, SnapshotMeta
from raft.core.ready import Facts


class MemoryStore:
    """Entries are kept behind a snapshot; `keep` of those below it stay readable."""

    def __init__(self, membership: Membership) -> None:
        self._facts = Facts(0, 0)
        self._meta = SnapshotMeta(0, 0, membership, 0)
        self._state = b""
        self._entries: list[Entry] = []
        self._first = 1
        self._term_before = 0  # of the entry before the first

    def facts(self) -> Facts:
        return self._facts

    def snapshot(self) -> SnapshotMeta:
        return self._meta

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        behind = [one for one in self._entries if one.index > self._meta.index and one.kind == EntryKind.MEMBERSHIP]
        return [(self._meta.index, self._meta.membership)] + [(one.index, decode(one.data)) for one in behind]

    def first_index(self) -> int:
        return self._first

    def last_index(self) -> int:
        return self._first + len(self._entries) - 1

    def term(self, index: int) -> int:
        assert index <= self.last_index(), f"term of {index} asked for, the store ends at {self.last_index()}"
        if index == self._first - 1:
            return self._term_before
        if index < self._first:
            raise Compacted(index, self._first)
        return self._entries[index - self._first].term

    def entries(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        if low < self._first:
            raise Compacted(low, self._first)
        assert low < high <= self.last_index() + 1, f"entries {low}..{high - 1} of ..{self.last_index()}"
        found = self._entries[low - self._first : high - self._first]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if count and size > bytes_max:
                return found[:count]
        return found

    def read_snapshot(self, index: int, offset: int, size: int) -> tuple[bytes, bool] | None:
        if index != self._meta.index:
            return None
        return self._state[offset : offset + size], offset + size >= len(self._state)

    # What the driver does

    def write(self, facts: Facts | None, entries: Sequence[Entry]) -> None:
        """Persist what a Ready says."""
        if facts is not None:
            self._facts = facts
        if entries:
            first = entries[0].index
            assert self._first <= first <= self.last_index() + 1, f"entry {first} behind {self.last_index()}: a gap"
            self._entries[first - self._first :] = [Entry(one.index, one.term, one.kind, one.data) for one in entries]

    def save_snapshot(self, index: int, membership: Membership, state: bytes, keep: int = 0) -> None:
        """A snapshot of our own; `keep` entries below it stay."""
        if index <= self._meta.index:
            return  # a newer one was installed meanwhile
        self._meta = SnapshotMeta(index, self.term(index), membership, 1)
        self._state = state
        first = max(self._first, index + 1 - keep)
        self._term_before = self.term(first - 1)
        self._entries = self._entries[first - self._first :]
        self._first = first

    def install(self, meta: SnapshotMeta, state: bytes) -> None:
        """Somebody else's; the log holds nothing else."""
        self._meta, self._state = meta, state
        self._entries = []
        self._first, self._term_before = meta.index + 1, meta.term

    def lose(self, last: int) -> None:
        """The disk had said that all is fsynced; what is behind this entry is not there."""
        assert self._meta.index <= last < self.last_index(), (
            f"entries behind {last}, of {self.last_index()}, cannot be lost"
        )
        del self._entries[last + 1 - self._first :]

    def all_entries(self) -> Sequence[Entry]:
        return self._entries

"""A member's log in memory, gone with the process: fulfils LogStore, and GroupStore of raft/store/member_store.py. For learners
only, whose word nobody counts; each process begins another one. Whatever is handed to it is as durable as it will ever be.

It keeps no snapshot: the machine stands on it, a learner sends none, and the next process begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raft.core import membership
from raft.core.errors import Compacted
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, Membership, SnapshotChunk, SnapshotMeta
from raft.core.ready import Facts
from raft.store import snapshots
from storage.disk import Buffer
from storage.errors import Corrupt

TICKET = 0  # of everything


class _Nowhere:
    """What is written nowhere is as durable at once as it will ever be. Fulfils Durability of raft/driver.py."""

    durable = TICKET

    def when_durable(self, subscriber: Callable[[int], None]) -> None:
        """Nobody has to wait."""

    def hold_commit(self) -> None:
        """There is none."""

    def commit_at_once(self) -> None:
        """There is nothing to be committed."""

    def commit_soon(self) -> None:
        """Nor then."""


NOWHERE = _Nowhere()


class MemoryLogStore:
    """See the module."""

    durability = NOWHERE

    def __init__(self, group: int, found: Callable[[str], None]) -> None:
        self._group = group
        self._found = found
        self._facts = Facts(0, 0)
        self._meta = SnapshotMeta(0, 0, Membership(()), 0)
        self._entries: list[Entry] = []  # those behind the snapshot
        self._incoming = bytearray()

    # LogStore

    def facts(self) -> Facts:
        return self._facts

    def snapshot(self) -> SnapshotMeta:
        return self._meta

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        behind = [
            (entry.index, membership.decode(entry.data))
            for entry in self._entries
            if entry.kind == EntryKind.MEMBERSHIP
        ]
        return [(self._meta.index, self._meta.membership), *behind]

    def first_index(self) -> int:
        return self._meta.index + 1

    def last_index(self) -> int:
        return self._meta.index + len(self._entries)

    def term(self, index: int) -> int:
        assert index <= self.last_index(), f"the term of {index} of a log up to {self.last_index()}"
        if index < self._meta.index:
            raise Compacted(index, self.first_index())
        return self._meta.term if index == self._meta.index else self._entries[index - self.first_index()].term

    def entries(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        first = self.first_index()
        if low < first:
            raise Compacted(low, first)
        assert low < high <= self.last_index() + 1, f"entries {low} to {high - 1} of a log up to {self.last_index()}"
        found: list[Entry] = []
        for entry in self._entries[low - first : high - first]:
            bytes_max -= len(entry.data)
            if bytes_max < 0 and found:
                break
            found.append(entry)
        return found

    def read_snapshot(self, index: int, offset: int, size: int) -> tuple[bytes, bool] | None:
        raise AssertionError(f"a learner of group {self._group} is to send snapshot {index}")

    # GroupStore

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        if facts is not None:
            self._facts = facts
        if entries:
            behind = entries[0].index - self.first_index()
            assert 0 <= behind <= len(self._entries), f"entry {entries[0].index} behind {self.last_index()}: a gap"
            self._entries[behind:] = entries
        return TICKET

    def save_snapshot(
        self,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries | None,
        done: Callable[[bool], None],
        *,
        keeps_recent: bool = True,
    ) -> None:
        assert live is None, f"group {self._group} leaves entries in a log that has no room for them"
        newer = self._meta.index < meta.index <= self.last_index()
        if newer:
            del self._entries[: meta.index - self._meta.index]
            self._meta = meta
        done(newer)

    def note_committed(self, index: int) -> None:
        """There is no log that somebody could read later."""

    def receive(self, chunk: SnapshotChunk) -> None:
        if chunk.offset == 0:
            self._incoming.clear()
        assert chunk.offset == len(self._incoming), f"a chunk at {chunk.offset} behind {len(self._incoming)} bytes"
        self._incoming += chunk.data

    def install(self, meta: SnapshotMeta, done: Callable[[bytes | None], None]) -> None:
        stream, self._incoming = bytes(self._incoming), bytearray()
        try:
            state = snapshots.state_in(stream, self._group, meta)
        except Corrupt as error:
            self._found(f"a snapshot of group {self._group} was received and cannot be used: {error}")
            done(None)
            return
        self._meta, self._entries = meta, []
        done(state)

    def load_state(self) -> bytes:
        raise AssertionError(f"group {self._group} begins in memory, with no snapshot")

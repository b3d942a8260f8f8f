"""The port LogStore: what the core must be able to read of what its member has fsynced.

The core itself keeps what it has handed out and not yet heard to be persisted. `raft/store/wal_log_store.py` keeps entries in
the node's shared log and in segments; a stream's own segment files can be another one. All calls return at once or read a local
file; none changes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from raft.core.messages import Entry, Membership, SnapshotMeta
from raft.core.ready import Facts


class LogStore(Protocol):
    """A member's log on this node: a snapshot (perhaps of nothing) and the entries behind it, without gaps."""

    def facts(self) -> Facts:
        """As persisted last; term 0 and no vote for a new member."""

    def snapshot(self) -> SnapshotMeta:
        """The newest one. Index 0 and the first membership for a group that has none yet."""

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        """The snapshot's, by its index, and those of the entries behind it, ascending."""

    def first_index(self) -> int:
        """The lowest entry that can be read; at most snapshot().index + 1. Entries below the snapshot may be kept for
        followers that are a little behind."""

    def last_index(self) -> int:
        """The highest entry, or first_index() - 1 when there is none."""

    def term(self, index: int) -> int:
        """The term of an entry, or of the snapshot at its index. Raises Compacted below first_index() - 1; asking
        above last_index() is a mistake of ours."""

    def entries(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        """Entries from `low` up to, without, `high`; fewer when they are more than `bytes_max`, or take long to read, but at
        least one. Raises Compacted when `low` is below first_index(), Damaged when a stored entry is not what was written."""

    def read_snapshot(self, index: int, offset: int, size: int) -> tuple[bytes, bool] | None:
        """Part of the newest snapshot as it is sent, with the live entries that belong to it: up to `size` bytes, fewer at its
        end or where they take long to read, but at least one, and whether they reach the end. None when there is another newest
        one by now: begin anew. How long it is nobody asks, for that would take reading all of it at once."""

"""The ports to one group's log: GroupStore, all that raft/driver.py needs, and MemberStore, of one that a store keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raft.core.live_entries import LiveEntries
from raft.core.log_store import LogStore
from raft.core.messages import Entry, MemberId, SnapshotChunk, SnapshotMeta
from raft.core.ready import Facts
from raft.store.entry_files import EntryInFile
from raft.store.group_records import GroupIdentity
from storage.disk import Buffer


class Durability(Protocol):
    """Where the groups of a store become durable: the node's log, or files of their own. Tickets count upward."""

    @property
    def durable(self) -> int:
        """The highest ticket that is fsynced."""

    def when_durable(self, subscriber: Callable[[int], None]) -> None: ...

    def hold_commit(self) -> None:
        """Of what is appended from now on, until one of the next two is called in this turn of the loop."""

    def commit_at_once(self) -> None:
        """Commit what was appended now, not at the end of this turn of the loop, if the loop can do it by itself. Who waits
        is told before this returns."""

    def commit_soon(self) -> None:
        """At the end of this turn of the loop."""


class GroupStore(LogStore, Protocol):
    """One group's part of a store of groups. Nothing here blocks; what takes time ends in a call of `done` on the loop."""

    @property
    def durability(self) -> Durability:
        """Whose tickets `append` returns."""

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        """Hand to the log; durable once `durability.durable` reaches the ticket that is returned. Raises DiskFailed."""

    def save_snapshot(
        self,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries | None,
        done: Callable[[bool], None],
        *,
        keeps_recent: bool = True,
    ) -> None:
        """A local snapshot; `live` names the entries that it refers to. `done` is told
        False when it was not kept: the disk had no room, or a newer one was installed meanwhile. `keeps_recent`: some entries
        below it stay for followers that are a little behind."""

    def note_committed(self, index: int) -> None:
        """Entries up to this one are committed: for readers of the log, later. Nothing waits for it to be written."""

    def receive(self, chunk: SnapshotChunk) -> None:
        """Part of a snapshot from the leader, kept aside."""

    def install(self, meta: SnapshotMeta, done: Callable[[bytes | None], None]) -> None:
        """The chunks are whole: make them the newest snapshot, durably, with a log that begins behind it. `done` is given
        the machine's state, or None when what was received is not this snapshot."""

    def load_state(self) -> bytes:
        """The machine's state in the newest snapshot; there is one."""


class MemberStore(GroupStore, Protocol):
    """That of a group which a store keeps from one process to the next: raft/store/group_stores.py."""

    @property
    def identity(self) -> GroupIdentity: ...

    @property
    def member(self) -> MemberId: ...

    def read_entry(self, index: int) -> bytes:
        """An entry that still counts, also a live one below the snapshot. Raises Damaged."""

    def entry_in_file(self, index: int) -> EntryInFile | None:
        """Where such an entry lies, if it is better sent from there than read; it is to be checked first. Raises Damaged."""

"""Where a node keeps the logs of its groups: the port GroupStores, and all of them together, NodeStores.

Most groups share the node's log (raft/store/node_log.py). A group whose log has files of its own lives in another store. Which
one keeps a group is decided when the group is created; from then on it is looked up by the group's number. raft/groups.py
serves all groups alike: it asks each group's store when that is durable, and hands what it cannot read to the store that keeps
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from raft.core.errors import Damaged
from raft.core.messages import MemberId
from raft.store.group_records import GroupIdentity
from raft.store.member_store import MemberStore
from storage.wal.file_reader import Chunk
from storage.wal.log_core import LogEnd
from storage.wal.log_users import LogShare
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter


class GroupStores(Protocol):
    """The logs of some of a node's groups. `recover` and `finish` the replay of the node's log, then `attach`, before anything
    else; `close` after the log."""

    on_damaged: Callable[[int, Damaged], None] | None  # told of damage that work beside the loop met

    @property
    def name(self) -> str:
        """Of its share in the node's log."""

    @property
    def stores(self) -> Mapping[int, MemberStore]:
        """By group number: those that are here."""

    @property
    def renumbered(self) -> Collection[int]:
        """Groups that were found damaged at this start: their members are new ones, which the others repair."""

    def recover(self, replay: Replay, chunks: Iterator[Chunk], log_first_file: int) -> Iterator[Chunk]:
        """Take what it keeps in the node's log from `chunks`, which are those of `replay`, and hand them on."""

    def finish(self, end: LogEnd) -> None:
        """The replay is finished, and the log will go on in the file behind `end`. Raises Corrupt, DiskFull, DiskFailed."""

    def attach(self, log: LogWriter, share: LogShare) -> None:
        """Go on, in this log as far as it is used: `share` is released up to what is not needed any more. Raises DiskFailed."""

    def group(self, group: int) -> MemberStore:
        """Raises KeyError when there is none here."""

    def create_group(self, identity: GroupIdentity) -> int:
        """Returns the ticket with which it is durable. Its member's number must never have been another's."""

    def remove_group(self, group: int) -> int:
        """The group, and all it has here. Returns the ticket with which it is gone; its files go later."""

    def repair(self, group: int, damage: Damaged, done: Callable[[MemberId], None]) -> None:
        """A member, which takes part no more, could not read what it had stored. It becomes another one, that keeps what
        stands before the damage and that the others repair. `done` is told the new member when it is durable, unless the
        group was removed meanwhile, also where it is here again by then."""

    def tick(self, now_ms: int) -> None:
        """Now and then: begin work beside the loop that has no other occasion."""

    def close(self) -> None:
        """After the log was closed."""


class NodeStores:
    """All of one node."""

    def __init__(self, stores: Sequence[GroupStores]) -> None:
        names = [one.name for one in stores]
        assert len(set(names)) == len(names), f"two stores of groups have one name: {names}"
        self._stores = tuple(stores)

    def recover(self, replay: Replay, log_first_file: int) -> Iterator[Chunk]:
        """The chunks of the log, read by all of them, for others to read too."""
        chunks = replay.chunks()
        for one in self._stores:
            chunks = one.recover(replay, chunks, log_first_file)
        return chunks

    def finish(self, end: LogEnd) -> None:
        for one in self._stores:
            one.finish(end)
        groups = [group for one in self._stores for group in one.stores]
        assert len(set(groups)) == len(groups), f"a group is kept in two stores: {sorted(groups)}"

    def attach(self, log: LogWriter, join: Callable[[str], LogShare]) -> None:
        """`join`: a share in the log for the one of this name. All have joined before anything is released."""
        shares = [join(one.name) for one in self._stores]
        for one, share in zip(self._stores, shares, strict=True):
            one.attach(log, share)

    def tell_damage(self, on_damaged: Callable[[int, Damaged], None]) -> None:
        for one in self._stores:
            one.on_damaged = on_damaged

    def of(self, group: int) -> GroupStores:
        """The one that keeps this group. Raises KeyError."""
        for one in self._stores:
            if group in one.stores:
                return one
        raise KeyError(group)

    @property
    def renumbered(self) -> list[int]:
        return [group for one in self._stores for group in one.renumbered]

    def tick(self, now_ms: int) -> None:
        for one in self._stores:
            one.tick(now_ms)

    def close(self) -> None:
        for one in self._stores:
            one.close()

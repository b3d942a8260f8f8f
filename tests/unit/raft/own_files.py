"""A second store of groups, for tests: each group's log is a file of its own, and none of it is in the node's log.

A `Platter` is what its disk has: a process that is killed leaves what was fsynced, and loses the rest. There is one fsync at a
time; it takes FSYNC_S and carries all groups, with tickets that have nothing to do with those of the node's log. A test may
`damage` an entry on the platter: a start finds that, as it would by reading, and gives the member another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raft.core import membership
from raft.core.errors import Compacted, Damaged
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, MemberId, Membership, SnapshotChunk, SnapshotMeta
from raft.core.ready import Facts
from raft.store.group_records import GroupIdentity
from raft.store.member_store import Durability
from raft.store.replicas import NewReplica, successor
from storage.disk import Buffer
from storage.wal.file_reader import Chunk
from storage.wal.log_core import LogEnd
from storage.wal.log_users import LogShare
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop

FSYNC_S = 0.002


class Image(NamedTuple):
    """A group as it is on the platter. The entries are those behind the snapshot."""

    identity: GroupIdentity
    facts: Facts
    meta: SnapshotMeta
    state: bytes
    entries: tuple[Entry, ...]

    def cut(self, member: MemberId, last_good: int) -> Image:
        """As another member, that has nothing behind this entry and has promised nothing."""
        kept = self.entries[: max(0, last_good - self.meta.index)]
        return self._replace(identity=self.identity._replace(member=member), facts=Facts(0, 0), entries=kept)


@dataclass
class Platter:
    """See the module."""

    images: dict[int, Image] = field(default_factory=dict)
    damaged: dict[int, int] = field(default_factory=dict)  # by group: the first entry that cannot be read

    def damage(self, group: int, index: int) -> None:
        assert index > self.images[group].meta.index, f"entry {index} is not on the platter"
        self.damaged[group] = index


class OwnLog:
    """One group's part. Fulfils MemberStore of raft/store/group_stores.py."""

    def __init__(self, node: OwnFiles, image: Image) -> None:
        self.image = image
        self._node = node
        self._incoming = bytearray()

    @property
    def identity(self) -> GroupIdentity:
        return self.image.identity

    @property
    def member(self) -> MemberId:
        return self.image.identity.member

    @property
    def durability(self) -> Durability:
        return self._node

    # LogStore

    def facts(self) -> Facts:
        return self.image.facts

    def snapshot(self) -> SnapshotMeta:
        return self.image.meta

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        meta, entries = self.image.meta, self.image.entries
        behind = [(one.index, membership.decode(one.data)) for one in entries if one.kind == EntryKind.MEMBERSHIP]
        return [(meta.index, meta.membership), *behind]

    def first_index(self) -> int:
        return self.image.meta.index + 1

    def last_index(self) -> int:
        return self.image.meta.index + len(self.image.entries)

    def term(self, index: int) -> int:
        if index < self.image.meta.index:
            raise Compacted(index, self.first_index())
        return self.image.meta.term if index == self.image.meta.index else self._entry(index).term

    def entries(self, low: int, high: int, bytes_max: int) -> Sequence[Entry]:
        if low < self.first_index():
            raise Compacted(low, self.first_index())
        assert low < high <= self.last_index() + 1, f"entries {low} to {high - 1} of a log up to {self.last_index()}"
        return [self._entry(index) for index in range(low, high)]

    def read_snapshot(self, index: int, offset: int, size: int) -> tuple[bytes, bool] | None:
        if index != self.image.meta.index:
            return None
        return self.image.state[offset : offset + size], offset + size >= len(self.image.state)

    # GroupStore

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        image = self.image
        if facts is not None:
            image = image._replace(facts=facts)
        if entries:
            behind = entries[0].index - self.first_index()
            assert 0 <= behind <= len(image.entries), f"entry {entries[0].index} behind {self.last_index()}: a gap"
            image = image._replace(entries=(*image.entries[:behind], *entries))
        return self._change(image)

    def save_snapshot(
        self,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries | None,
        done: Callable[[bool], None],
        *,
        keeps_recent: bool = True,
    ) -> None:
        behind = self.image.entries[meta.index - self.image.meta.index :]
        self._change(self.image._replace(meta=meta, state=b"".join(map(bytes, state)), entries=behind))
        self._node.when(lambda: done(True))

    def note_committed(self, index: int) -> None:
        """Its files say nothing of it."""

    def receive(self, chunk: SnapshotChunk) -> None:
        if chunk.offset == 0:
            self._incoming.clear()
        self._incoming += chunk.data

    def install(self, meta: SnapshotMeta, done: Callable[[bytes | None], None]) -> None:
        state = bytes(self._incoming)
        self._change(self.image._replace(meta=meta, state=state, entries=()))
        self._node.when(lambda: done(state))

    def load_state(self) -> bytes:
        return self.image.state

    def read_entry(self, index: int) -> bytes:
        return self._entry(index).data

    def _entry(self, index: int) -> Entry:
        return self.image.entries[index - self.first_index()]

    def _change(self, image: Image) -> int:
        self.image = image
        return self._node.changed(self.identity.group, image)


class OwnFiles:
    """See the module. Fulfils GroupStores of raft/store/group_stores.py, and Durability of raft/store/member_store.py."""

    name = "own files"

    def __init__(self, loop: SimLoop, platter: Platter, new_replica: NewReplica) -> None:
        self.on_damaged: Callable[[int, Damaged], None] | None = None
        self.renumbered: list[int] = []
        self.durable = 0
        self._loop = loop
        self._platter = platter
        self._new_replica = new_replica
        self._logs: dict[int, OwnLog] = {}
        self._last_ticket = 0
        self._pending: dict[int, Image | None] = {}
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._subscribers: list[Callable[[int], None]] = []
        self._syncing = False
        self._closed = False

    # GroupStores

    @property
    def stores(self) -> Mapping[int, OwnLog]:
        return self._logs

    def recover(self, replay: Replay, chunks: Iterator[Chunk], log_first_file: int) -> Iterator[Chunk]:
        return chunks

    def finish(self, end: LogEnd) -> None:
        for group, index in self._platter.damaged.items():
            image = self._platter.images[group]
            member = successor(image.identity.member, self._new_replica)
            self._platter.images[group] = image.cut(member, index - 1)
            self.renumbered.append(group)
        self._platter.damaged.clear()
        self._logs = {group: OwnLog(self, image) for group, image in self._platter.images.items()}

    def attach(self, log: LogWriter, share: LogShare) -> None:
        log.when_rolled(lambda number: share.release(number + 1))  # it needs nothing of them

    def group(self, group: int) -> OwnLog:
        return self._logs[group]

    def create_group(self, identity: GroupIdentity) -> int:
        meta = SnapshotMeta(0, 0, identity.membership, 0)
        log = self._logs[identity.group] = OwnLog(self, Image(identity, Facts(0, 0), meta, b"", ()))
        return self.changed(identity.group, log.image)

    def remove_group(self, group: int) -> int:
        del self._logs[group]
        return self.changed(group, None)

    def repair(self, group: int, damage: Damaged, done: Callable[[MemberId], None]) -> None:
        log = self._logs[group]
        member = successor(log.member, self._new_replica)
        log.image = log.image.cut(member, damage.index - 1)
        self.changed(group, log.image)
        self.when(lambda: done(member))

    def tick(self, now_ms: int) -> None:
        """There is no work beside the loop."""

    def close(self) -> None:
        """The process ends, cleanly or not."""
        self._closed = True

    # Durability

    def when_durable(self, subscriber: Callable[[int], None]) -> None:
        self._subscribers.append(subscriber)

    def commit_at_once(self) -> None:
        if self._pending and not self._syncing:
            self._syncing = True
            carried, self._pending = self._pending, {}
            self._loop.call_later(FSYNC_S, self._fsynced, self._last_ticket, carried)

    def hold_commit(self) -> None:
        """Each change is committed in a round of its own, anyway."""

    def commit_soon(self) -> None:
        """`changed` has asked for that."""

    def _fsynced(self, ticket: int, carried: dict[int, Image | None]) -> None:
        if self._closed:
            return
        self._syncing = False
        for group, image in carried.items():
            if image is None:
                self._platter.images.pop(group, None)
            else:
                self._platter.images[group] = image
        self.durable = ticket
        self.commit_at_once()
        for subscriber in self._subscribers:
            subscriber(ticket)
        while self._waiting and self._waiting[0][0] <= ticket:
            self._waiting.pop(0)[1]()

    def changed(self, group: int, image: Image | None) -> int:
        self._pending[group] = image
        self._last_ticket += 1
        self._loop.call_soon(self.commit_at_once)
        return self._last_ticket

    def when(self, call: Callable[[], None]) -> None:
        """When everything is durable that was changed until now."""
        self._waiting.append((self._last_ticket, call))

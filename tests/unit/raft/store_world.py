"""A node's store of groups on a simulated disk, and the dumb twin that says what must be in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from raft.core.errors import Compacted, Damaged
from raft.core.live_entries import LiveEntries
from raft.core.membership import encode as encode_entry
from raft.core.messages import Entry, EntryKind, Membership, SnapshotChunk, SnapshotMeta, member_id
from raft.core.ready import Facts
from raft.store.group_records import GroupIdentity
from raft.store.node_log import RaftStore
from raft.store.replicas import NewReplica
from raft.store.store_limits import StoreLimits
from raft.store.wal_log_store import WalLogStore
from storage.beside_loop import AtOnce
from storage.errors import Corrupt
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.log_users import LogUsers
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk

LOG_ID = bytes(range(100, 116))
TINY = StoreLimits(
    segment_entries_max=8,
    log_files_kept=0,
    entries_kept=0,
    memory_bytes_max=600,
    open_segments_max=2,
    small_segments_max=3,
    compaction_interval_ms=0,
    snapshot_part_bytes=250,
)
FIRST = Membership((member_id(1, 1), member_id(2, 1), member_id(3, 1)))


@dataclass
class Digest:
    """Everything that can be asked of a group."""

    member: int
    facts: Facts
    snapshot: SnapshotMeta
    first: int
    entries: list[tuple[int, int, bytes]]  # term, kind, data
    memberships: list[tuple[int, Membership]]
    live: dict[int, bytes]
    state: bytes | None

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


def digest_of(store: WalLogStore) -> Digest:
    log = store.log
    first, last = store.first_index(), store.last_index()
    found: list[Entry] = []
    while (index := first + len(found)) <= last:
        more = store.entries(index, last + 1, 100)
        assert more[0].index == index, f"entry {more[0].index} was read where {index} is"
        found += more
    assert [entry.index for entry in found] == list(range(first, last + 1)), "a gap"
    assert [store.term(entry.index) for entry in found] == [entry.term for entry in found]
    assert store.term(store.snapshot().index) == store.snapshot().term
    return Digest(
        store.member,
        store.facts(),
        store.snapshot(),
        first,
        [(entry.term, entry.kind, entry.data) for entry in found],
        list(store.memberships()),
        {index: store.read_entry(index) for index in log.live},
        store.load_state() if log.snapshot.file else None,
    )


def receive(store: WalLogStore, source: WalLogStore, chunk_bytes: int = 100) -> None:
    """The newest snapshot there, to be installed here."""
    meta, offset, last = source.snapshot(), 0, False
    while not last:
        part = source.read_snapshot(meta.index, offset, chunk_bytes)
        assert part is not None and part[0], f"nothing at {offset}"
        data, last = part
        store.receive(SnapshotChunk(0, 0, 1, meta, offset, data, last))
        offset += len(data)


def replicas_from(first: int) -> NewReplica:
    """What a clock says that goes on by one each time it is asked."""
    numbers = count(first)
    return lambda above: max(next(numbers), above + 1)


@dataclass
class World:
    """One node. `open` after whatever happened; then the ways of changing a group, done to store and twin alike."""

    disk: SimDisk = field(default_factory=SimDisk)
    limits: StoreLimits = TINY
    node: int = 1
    file_bytes_max: int = 2048
    findings: list[str] = field(default_factory=list)
    history: dict[int, list[tuple[int, Digest | None]]] = field(default_factory=dict)  # group: ticket, what it was then
    replicas: NewReplica = field(default_factory=lambda: replicas_from(1000))

    def open(self) -> World:
        self.loop = SimLoop()
        self.failures: list[str] = []
        facts = load_or_create(self.disk, LOG_ID)
        replay = Replay(self.disk, facts, salvage=True)
        self.store = RaftStore(self.disk, self.limits, AtOnce(), self.replicas, self.findings.append)
        for _ in self.store.recover(replay, replay.chunks(), facts.first_file):
            pass
        end = replay.finish()
        self.store.finish(end)
        core = LogCore(facts.log_id, end, self.file_bytes_max)
        self.log = LogWriter(
            core, self.disk, self.loop, facts, on_failed=self.failures.append, commit_inline_bytes_max=None
        )
        self.store.attach(self.log, LogUsers(self.log).join("raft"))
        return self

    def reopened(self) -> World:
        """A new process on the same disk."""
        return replace(self).open()

    def settle(self) -> None:
        self.loop.run_soon()

    # the twin

    def now(self, group: int) -> Digest:
        digest = self.history[group][-1][1]
        assert digest is not None
        return digest

    def note(self, group: int, digest: Digest | None, ticket: int | None = None) -> None:
        self.history.setdefault(group, []).append((self.store.last_ticket if ticket is None else ticket, digest))

    def create(self, group: int) -> None:
        member = member_id(self.node, self.replicas(0))
        self.store.create_group(GroupIdentity(group, member, f"g{group}", "map", FIRST))
        none = SnapshotMeta(0, 0, FIRST, 0)
        self.note(group, Digest(member, Facts(0, 0), none, 1, [], [(0, FIRST)], {}, None))

    def remove(self, group: int) -> None:
        self.store.remove_group(group)
        self.note(group, None)

    def facts(self, group: int, term: int, vote: int) -> None:
        self.store.group(group).append(Facts(term, vote), ())
        self.note(group, replace(self.now(group), facts=Facts(term, vote)))

    def append(
        self, group: int, first: int, term: int, datas: list[bytes], membership: Membership | None = None
    ) -> None:
        before = self.now(group)
        new = [(term, int(EntryKind.COMMAND), data) for data in datas]
        if membership is not None:
            new[-1] = (term, int(EntryKind.MEMBERSHIP), encode_entry(membership))
        entries = [Entry(first + at, *one) for at, one in enumerate(new)]
        self.store.group(group).append(None, entries)
        memberships = [one for one in before.memberships if one[0] < first]
        if membership is not None:
            memberships.append((entries[-1].index, membership))
        kept = before.entries[: first - before.first]
        self.note(group, replace(before, entries=kept + new, memberships=memberships))

    def snapshot(self, group: int, index: int, live: list[int], state: bytes) -> bool:
        """`live` are among the entries from first to index and those that were live."""
        with nothing_is_lost(group):
            return self._snapshot(group, index, live, state)

    def _snapshot(self, group: int, index: int, live: list[int], state: bytes) -> bool:
        store, before = self.store.group(group), self.now(group)
        membership = [one for since, one in before.memberships if since <= index][-1]
        meta = SnapshotMeta(index, store.term(index), membership, 3)
        answers: list[bool] = []
        data = {one: store.read_entry(one) for one in live}
        store.save_snapshot(meta, [state[:5], state[5:]], LiveEntries(sorted(live)), answers.append)
        if answers == [True]:
            first = max(before.first, index + 1 - self.limits.entries_kept)
            memberships = [(index, membership), *(one for one in before.memberships if one[0] > index)]
            entries = before.entries[first - before.first :]
            changed = replace(before, snapshot=meta, first=first, entries=entries, live=data, state=state)
            self.note(group, replace(changed, memberships=memberships))
        return answers == [True]

    def install(self, group: int, donor: World, chunk_bytes: int = 100) -> bool:
        """The donor's newest snapshot of the same group, which is beyond all that is committed here."""
        source, store, before = donor.store.group(group), self.store.group(group), self.now(group)
        meta = source.snapshot()
        receive(store, source, chunk_bytes)
        theirs = donor.now(group)
        after = Digest(
            before.member,
            before.facts,
            meta,
            meta.index + 1,
            [],
            [(meta.index, meta.membership)],
            theirs.live,
            theirs.state,
        )
        answers: list[bytes | None] = []
        store.install(meta, answers.append)
        for turn in range(4):  # it waits its turn: a job before it may have found no room
            if not answers and store.snapshot() != meta:
                self.store.tick(10**7 + turn * 10_000)
                self.settle()
        if store.snapshot() != meta:
            return False
        self.note(group, after)
        self.settle()
        assert answers == [theirs.state] or self.log.failed
        return answers == [theirs.state]

    # judging

    def check_now(self) -> None:
        for group, states in self.history.items():
            if states[-1][1] is not None:
                with nothing_is_lost(group):
                    found = digest_of(self.store.group(group))
                assert found == states[-1][1], f"group {group} is {found}, and was {states[-1][1]}"

    def check_recovered(self, durable: int, opened: World) -> None:
        """Every group is what it was at some moment not before the last durable commit; that is its state from now on."""
        for group, states in list(self.history.items()):
            with nothing_is_lost(group):
                found = digest_of(opened.store.group(group)) if group in opened.store.stores else None
            if found is not None and found.snapshot == SnapshotMeta(0, 0, FIRST, 0):
                found.state = None
            settled = max((at for at, (ticket, _) in enumerate(states) if ticket <= durable), default=-1)
            allowed = [one for _, one in states[max(settled, 0) :]] + ([None] if settled < 0 else [])
            assert found in allowed, f"group {group} is {found}, and was one of {allowed}"
            opened.history[group] = [(0, found)]
        assert opened.store.renumbered == []


@contextmanager
def nothing_is_lost(group: int) -> Iterator[None]:
    """Whatever counts can be read, on a disk that has damaged nothing."""
    try:
        yield
    except (Compacted, Corrupt, Damaged) as error:
        raise AssertionError(f"group {group} has lost what counts: {error}") from error


class PowerCut(Exception):
    pass


def cut_off(world: World, disk: SimDisk, at: int) -> bool:
    """Open, and lose power at this call. Whether the start was through before."""

    def faults(call: object) -> None:
        if disk.calls == at:
            raise PowerCut

    disk.calls = 0
    disk.faults = faults
    try:
        World(disk, world.limits, replicas=world.replicas).open()
    except PowerCut:
        return False
    return True

"""Members of one group in memory: what a driver does, step by step, and what must hold after each step.

The network is whatever the test makes of `post`; the disk is a queue of writes for each member that the test lets through one
by one, or loses. A `Ledger` remembers what was promised to anybody, and asserts that nobody ever goes back on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from raft.core.core import Core
from raft.core.majority import majority_of
from raft.core.messages import (
    AppendReply,
    Entry,
    EntryKind,
    MemberId,
    Membership,
    Message,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    VoteReply,
    VoteRequest,
)
from raft.core.ready import Ready, Role
from raft.core.settings import Settings
from tests.unit.raft.memory_store import MemoryStore

Applied = list[tuple[int, int, bytes]]  # index, term, data of every command


class Ledger:
    """What any member ever showed to others, and what must therefore never be otherwise."""

    def __init__(self) -> None:
        self.leaders: dict[int, MemberId] = {}
        self.votes: dict[tuple[MemberId, int], MemberId] = {}
        self.applied: dict[int, tuple[int, int, bytes]] = {}
        self.committed = 0

    def led(self, term: int, member: MemberId) -> bool:
        """Whether that is new."""
        known = self.leaders.get(term)
        assert known in (None, member), f"two leaders in term {term}: {known} and {member}"
        self.leaders[term] = member
        return known is None

    def voted(self, voter: MemberId, term: int, candidate: MemberId) -> None:
        known = self.votes.setdefault((voter, term), candidate)
        assert known == candidate, f"{voter} voted twice in term {term}: for {known} and {candidate}"

    def apply(self, member: MemberId, entry: Entry) -> None:
        key = (entry.term, int(entry.kind), entry.data)
        known = self.applied.setdefault(entry.index, key)
        assert known == key, f"member {member} applied {key} at {entry.index}, others {known}"
        self.committed = max(self.committed, entry.index)


@dataclass
class Write:
    """Part of a Ready that waits for the disk."""

    ready: Ready
    install: SnapshotMeta | None = None
    state: bytes = b""


@dataclass
class Member:
    """One member: its disk survives `crash`, all else does not."""

    id: MemberId
    store: MemoryStore
    core: Core | None = None
    writes: deque[Write] = field(default_factory=deque)
    applied: Applied = field(default_factory=list)
    incoming: bytearray = field(default_factory=bytearray)
    commit: int = 0  # when it was looked at last
    voters: tuple[MemberId, ...] = ()  # likewise

    def running(self) -> Core:
        assert self.core is not None, f"member {self.id} is not running"
        return self.core

    def crash(self) -> None:
        self.core = None
        self.writes.clear()
        self.applied = []
        self.incoming = bytearray()
        self.commit = 0

    def state(self) -> bytes:
        return b"\n".join([b"machine", *(b"%d %d %s" % one for one in self.applied)])

    def restore(self, state: bytes) -> None:
        rows = [line.split(b" ", 2) for line in state.split(b"\n")[1:]]
        self.applied = [(int(index), int(term), data) for index, term, data in rows]


class World:
    """Everybody, and the ledger."""

    def __init__(self, settings: Settings, random: Callable[[], float], post: Callable[[Message], None]) -> None:
        self.settings = settings
        self.random = random
        self.post = post
        self.now = 0.0
        self.members: dict[MemberId, Member] = {}
        self.ledger = Ledger()
        self.reads: dict[int, tuple[MemberId, int]] = {}  # token: who was asked, committed at that time
        self.answered: list[tuple[int, int]] = []
        self.lost: list[int] = []
        self.trusted: Callable[[MemberId, MemberId], bool] = lambda a, b: True
        self.counted: dict[str, int] = {}

    def count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def add(self, member: MemberId, membership: Membership) -> Member:
        one = self.members[member] = Member(member, MemoryStore(membership))
        self.start(member)
        return one

    def start(self, member: MemberId) -> None:
        one = self.members[member]
        assert one.core is None, f"member {member} runs already"
        snapshot = one.store.snapshot()
        state = one.store.read_snapshot(snapshot.index, 0, 1 << 30)
        assert state is not None, f"member {member} cannot read its snapshot {snapshot.index}"
        one.restore(state[0])
        one.core = Core(member, one.store, self.settings, self.random, self.now, snapshot.index)

    def take_ready(self, member: MemberId) -> Ready | None:
        """The duties of one Ready, except for those that wait for the disk."""
        one = self.members[member]
        core = one.running()
        expected = core.has_ready()
        ready = core.ready(self.now)
        assert ready is None or expected, f"member {member} said that it has nothing to do, and has"
        if ready is None:
            return None
        if ready.forgotten is not None:
            one.crash()
            return ready
        self._check(one)
        for message in ready.messages:
            self._send(one, message)
        for chunk in ready.chunks:
            self._receive(one, chunk)
        if ready.must_persist or (ready.messages_after and one.writes):
            one.writes.append(Write(ready))
        else:
            self._send_after(one, ready)
        if ready.install is not None:
            one.writes.append(Write(ready, ready.install, bytes(one.incoming)))
        self._apply(one, ready)
        for point in ready.reads:
            asked, committed = self.reads.pop(point.token)
            assert asked == member, f"{member} answers read {point.token} that {asked} was asked"
            assert point.index >= committed, f"stale read {point.token}: {point.index}, committed was {committed}"
            self.answered.append((point.token, point.index))
        for token in ready.lost_reads:
            del self.reads[token]
            self.lost.append(token)
        return ready

    def _receive(self, one: Member, chunk: SnapshotChunk) -> None:
        if chunk.offset == 0:
            one.incoming = bytearray()
        assert chunk.offset == len(one.incoming), f"chunk at {chunk.offset} behind {len(one.incoming)}"
        one.incoming += chunk.data

    def _apply(self, one: Member, ready: Ready) -> None:
        for entry in ready.committed:
            assert entry.index <= one.store.last_index(), f"{one.id} applies {entry.index}, which is not durable here"
            self.ledger.apply(one.id, entry)
            if entry.kind == EntryKind.COMMAND:
                one.applied.append((entry.index, entry.term, entry.data))
        if ready.committed:
            one.running().applied(ready.committed[-1].index)

    def write(self, member: MemberId) -> None:
        """The disk has the oldest write that waits."""
        one = self.members[member]
        core = one.running()
        write = one.writes.popleft()
        if write.install is None:
            one.store.write(write.ready.facts, write.ready.entries)
            core.persisted(write.ready.number, self.now)
            self._send_after(one, write.ready)
            return
        self.count("snapshots installed")
        one.store.install(write.install, write.state)
        one.restore(write.state)
        core.installed(write.install)

    def _send_after(self, one: Member, ready: Ready) -> None:
        for message in ready.messages_after:
            self._send(one, message)

    def _send(self, one: Member, message: Message) -> None:
        assert message.to != one.id, f"member {one.id} talks to itself: {message}"
        match message:
            case VoteReply(granted=True, pre=False):
                self.ledger.voted(one.id, message.term, message.to)
                assert one.store.facts() >= (message.term, 0), f"vote {message} is not durable: {one.store.facts()}"
            case VoteRequest(pre=False):
                self.ledger.voted(one.id, message.term, one.id)
                assert message.last_index <= one.store.last_index(), f"{message} tells of what is not durable"
                assert one.store.facts() >= (message.term, 0), (
                    f"{one.id} stands in a term that it may forget: {message}"
                )
            case AppendReply(accepted=True) | SnapshotReply(installed=True):
                last = one.store.last_index()
                assert message.index <= last, f"{one.id} acknowledges {message.index}, {last} are durable"
            case _:
                pass
        self.post(message)

    def save_snapshot(self, member: MemberId, keep: int) -> None:
        """Of everything that this member has applied."""
        one = self.members[member]
        core = one.running()
        index = core.status().applied
        if index > one.store.snapshot().index and not core.status().installing:
            membership = [known for at, known in one.store.memberships() if at <= index][-1]
            one.store.save_snapshot(index, membership, one.state(), keep)
            self.count("snapshots taken")

    def _check(self, one: Member) -> None:
        """What one member can be asked at any time."""
        status = one.running().status()
        assert status.applied <= min(status.commit, status.durable), f"applied too much: {status}"
        assert status.durable <= status.last, f"{status}"
        assert status.commit <= status.last, f"{status}"
        assert status.commit >= one.commit, f"commit went back from {one.commit}: {status}"
        if status.role is Role.LEADER:
            if self.ledger.led(status.term, one.id):
                self.count("elections")
                self._check_complete(one)
            if status.commit > one.commit:
                self._check_committed(one, status.commit)
        one.commit = status.commit
        one.voters = one.running().status().membership.voters

    def _check_complete(self, one: Member) -> None:
        """A leader has everything that was committed before."""
        terms = {entry.index: entry.term for write in one.writes for entry in write.ready.entries}
        for index, (term, _, _) in self.ledger.applied.items():
            if index <= one.store.snapshot().index or index < one.store.first_index():
                continue
            mine = terms.get(index) or (one.store.term(index) if index <= one.store.last_index() else None)
            assert mine == term, f"leader {one.id} has term {mine} at {index}, committed was {term}"

    def _check_committed(self, one: Member, commit: int) -> None:
        """What a leader calls committed is durable on a majority of those in force; a commit may bring the next in force."""
        durable = {other.id for other in self.members.values() if other.store.last_index() >= commit}
        ways = {one.voters, one.running().status().membership.voters}
        assert any(len(durable.intersection(voters)) >= majority_of(len(voters)) for voters in ways if voters), (
            f"{one.id} commits {commit}, durable on {sorted(durable)}, voters are {ways}"
        )

    def check_logs(self) -> None:
        """Log matching: entries with equal index and term are equal, and so are all before them."""
        stores = [one.store for one in self.members.values()]
        for a in stores:
            for b in stores:
                if a is not b:
                    _check_matching(a, b)


def _check_matching(a: MemoryStore, b: MemoryStore) -> None:
    theirs = {entry.index: entry for entry in b.all_entries()}
    agreed = False
    for entry in reversed(a.all_entries()):
        other = theirs.get(entry.index)
        if other is not None:
            agreed = agreed or other.term == entry.term
            if agreed:
                assert other == entry, f"logs agree behind {entry.index}, but not there: {entry} and {other}"

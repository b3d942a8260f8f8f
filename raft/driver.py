"""One group on this node: performs what its core answers, in the order of the duties; raft/requests.py answers who asked
for something.

A turn has three parts, so that a node can serve all its groups with one batch per peer and one commit of its log:

1. `begin` hands the core what gathered (proposals, changes, reads), takes its Ready and sends what may be sent at once. Only
   when all groups have done so do the batches leave the node: before its own disk is asked, which then works while they travel.
2. `persist` hands the log what is to be fsynced. What must wait for that is kept by raft/groups.py under the commit's ticket
   and comes back in `persisted`: before the third part if the commit is fast, so that acknowledgements need not wait for it.
3. `perform` receives snapshots, applies, and answers.

A machine that fails on an entry or a snapshot *halts* its member: what it holds in memory is not to be built upon. The member
still keeps what the leader sends and votes, so that the group loses nothing by it, but it applies nothing more, takes no
snapshot and does not lead. The next start begins with what is stored, and goes on if the machine knows by then how to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from raft.core.core import Core
from raft.core.errors import CannotApply, Damaged, Forgotten, NotLeader, RaftError
from raft.core.membership import Change
from raft.core.messages import (
    Entry,
    EntryKind,
    MatchCheck,
    MemberId,
    Membership,
    Message,
    NodeId,
    SnapshotMeta,
    node_of,
    shown,
)
from raft.core.ready import Ready, Role, Standing
from raft.log_growth import LogGrowth
from raft.machine import Machine
from raft.requests import AwaitedEntries, OnRead, OnResults, Proposers, Readers
from raft.store.member_store import GroupStore
from storage.errors import StorageError

ROOM_BYTES_MIN = 1 << 20  # what a snapshot has to free at least to be taken for that
ROOM_SHARE_OF_HELD = 4  # and one in so many of the bytes that it has to stand for: with a long queue its state is long

# How much longer the log may grow at least than the rules say while a follower receives a snapshot.
SNAPSHOT_HELD_BACK_TIMES = 8

_COMMAND = int(EntryKind.COMMAND)  # a look at a member of an enumeration costs as much as a call

GroupId = int


class Host(Protocol):
    """What a driver needs of the node: raft/groups.py."""

    def wake(self, driver: Driver) -> None:
        """Give it a turn in this round of the loop."""

    def send(self, group: GroupId, message: Message) -> None: ...

    def when_durable(self, ticket: int, driver: Driver, ready: Ready) -> None:
        """Call `persisted` with this Ready as soon as the log is durable up to the ticket."""

    def leading_changed(self, driver: Driver) -> None: ...

    def cannot_apply(self, driver: Driver, error: CannotApply) -> None:
        """Its machine failed on a snapshot that was installed."""


class SnapshotRules:
    """When a member takes a snapshot of its own: so many entries, or bytes of them, behind the last one."""

    __slots__ = ("bytes_max", "entries_max")

    def __init__(self, entries_max: int = 50_000, bytes_max: int = 64 << 20) -> None:
        assert entries_max > 0, f"a snapshot every {entries_max} entries"
        assert bytes_max > 0, f"a snapshot every {bytes_max} bytes"
        self.entries_max = entries_max
        self.bytes_max = bytes_max


class Driver:
    """A group's core, store and machine, kept going. All methods belong to the event loop's thread."""

    __slots__ = (
        "_asked",
        "_changes",
        "_growth",
        "_host",
        "_last_ticket",
        "_proposals",
        "_readers",
        "_rules",
        "_snapshotting",
        "_store",
        "applied",
        "commit_latency_s",
        "core",
        "durability",
        "gone",
        "group",
        "halted",
        "heap_deadline",
        "in_turn",
        "installing",
        "machine",
        "me",
        "standing",
        "timed",
        "waking",
    )

    def __init__(
        self,
        group: GroupId,
        me: MemberId,
        core: Core,
        store: GroupStore,
        machine: Machine,
        rules: SnapshotRules,
        host: Host,
    ) -> None:
        self.group = group
        self.me = me
        self.core = core
        self.durability = store.durability
        self.machine = machine
        self.standing = Standing(Role.FOLLOWER, 0, 0)
        self.applied = store.snapshot().index  # highest index that the machine has applied
        self.waking = False  # the host has it on its list for this round
        self.gone = False  # the host has taken it out
        self.in_turn = False  # the host looks at the end of the turn what is left to do
        self.heap_deadline: float | None = None  # the host's: the earliest entry for it in the heap of deadlines
        self.installing: SnapshotMeta | None = None
        self.halted: str | None = None  # why the machine cannot go on
        self._store = store
        self._host = host
        self._rules = rules
        self._growth = LogGrowth(self.applied, machine.held_bytes)
        self._snapshotting = False
        self._last_ticket = 0  # of the log's commit that holds what was persisted last
        self._proposals: list[tuple[Sequence[bytes], OnResults]] = []  # gathered for the next turn
        self._changes: list[tuple[Change, OnResults]] = []
        self._asked = Proposers()
        self._readers = Readers()
        self.timed: tuple[int, float] | None = None  # one entry that was proposed here, and when: one at a time
        self.commit_latency_s = 0.0  # from proposing until it was applied here, of the last that was timed

    # What the node asks of it.

    @property
    def leads(self) -> bool:
        return self.standing.role is Role.LEADER

    @property
    def leader(self) -> MemberId:
        """As far as this member knows; 0: none."""
        return self.standing.leader

    @property
    def leader_node(self) -> NodeId:
        return node_of(self.standing.leader)

    def propose(self, commands: Sequence[bytes], on_results: OnResults) -> None:
        """Have the commands committed and applied. Everything proposed in one round of the loop is appended together."""
        self._proposals.append((commands, on_results))
        self._host.wake(self)

    def change(self, change: Change, on_results: OnResults) -> None:
        """Change the membership; told when it is committed and applied here."""
        self._changes.append((change, on_results))
        self._host.wake(self)

    def read(self, on_read: OnRead) -> None:
        """A linearizable read. All reads of one round of the loop share a question to the others."""
        self._readers.gathered.append(on_read)
        self._host.wake(self)

    def transfer(self, to: MemberId, now: float) -> None:
        """Hand the leadership over. Raises NotLeader and BadChange."""
        self.core.transfer(to, now)
        self._host.wake(self)

    def tell_commits(self, nodes: Iterable[NodeId]) -> None:
        """What was applied here matters to members there now, if this one leads: they hear of it in this round."""
        self.core.tell_commits(nodes)
        self._host.wake(self)

    def forget_leader(self, now: float) -> None:
        """The leader's member has ended, though its node answers (again)."""
        self.core.forget_leader(self.standing.leader, now)

    # A turn.

    def begin(self, now: float) -> Ready | None:
        """First: what gathered goes to the core, and what may be sent at once goes out. Raises Forgotten."""
        if self._proposals:
            self._hand_over_proposals(now)
        if self._changes:
            self._hand_over_changes(now)
        if self._readers.gathered:
            self._readers.ask(self.core, now)
        ready = self.core.ready(now)
        if ready is None:
            return None
        if ready.forgotten is not None:
            raise self._forgotten(ready.forgotten)
        if ready.standing is not None:
            self._stand(ready.standing)
        for asked in reversed(self._asked):
            if asked.term:
                break
            asked.term = self.standing.term
        for message in ready.messages:
            self._host.send(self.group, message)
        return ready

    def _forgotten(self, check: MatchCheck) -> Forgotten:
        last = self.core.status().last
        text = (
            f"member {shown(self.me)} acknowledged entry {check.index} of term {check.index_term} to its leader "
            f"{shown(check.sender)} and does not have it; its log ends at {last}. Its disk confirmed an fsync and lost what "
            f"was written, or is an old copy: it is not to be trusted"
        )
        return Forgotten(text, last + 1, check.index)

    def persist(self, ready: Ready) -> None:
        """Second: to the log. Raises StorageError when that takes nothing more: then this node is at its end."""
        if ready.facts is not None or ready.entries:
            self._last_ticket = self._store.append(ready.facts, ready.entries)
            self._host.when_durable(self._last_ticket, self, ready)
        elif ready.messages_after:
            self._host.when_durable(self._last_ticket, self, ready)  # not before what was persisted last

    def perform(self, ready: Ready) -> None:
        """Third: what need not be fsynced, or is. Raises Damaged and CannotApply."""
        for chunk in ready.chunks:
            self._store.receive(chunk)
        if ready.install is not None:
            self._install(ready.install)
        if ready.committed:
            self._apply(ready.committed)
        committed = self.core.take_committed()  # by what this very turn has persisted; each takes no more than it may
        if committed:
            self._apply(committed)
        if ready.standing is not None:
            self._asked.lose(ready.standing.term if self.leads else None)
        if ready.reads:
            self._readers.confirm(ready.reads, self.applied)
        if ready.lost_reads:
            self._readers.lose(ready.lost_reads, self.leader)

    def persisted(self, ready: Ready, now: float) -> None:
        """What this Ready, and all before it, wanted persisted is fsynced."""
        if ready.facts is not None or ready.entries:
            self.core.persisted(ready.number, now)
        for message in ready.messages_after:
            self._host.send(self.group, message)

    def take_time(self, monotonic: Callable[[], float]) -> None:
        """Of the entry that is timed, once it is applied."""
        if self.timed is not None and self.applied >= self.timed[0]:
            self.commit_latency_s = monotonic() - self.timed[1]
            self.timed = None

    def halt(self, reason: str, now: float) -> None:
        """The machine cannot go on. May be called again, see Core.halt."""
        self.halted = reason
        self.core.halt(now)
        readers = self._readers.take_all()
        self._asked.give_up(f"the machine of group {self.group} does not go on here: {reason}")
        for on_read in readers:
            on_read(NotLeader(0))
        self._host.wake(self)

    def close(self) -> None:
        """The node stops, or gives the group up: every pending request is answered."""
        proposals, self._proposals = self._proposals, []
        changes, self._changes = self._changes, []
        unanswered = self._readers.take_all()
        self._asked.give_up("this node is stopping")
        for _, on_results in [*proposals, *changes]:
            on_results(None, NotLeader(0))
        for on_read in unanswered:
            on_read(NotLeader(0))

    # To the core.

    def _hand_over_proposals(self, now: float) -> None:
        proposals, self._proposals = self._proposals, []
        for commands, on_results in proposals:
            try:
                indexes = self.core.propose(commands, now)
            except RaftError as error:
                on_results(None, error)
            else:
                self._asked.append(AwaitedEntries(indexes[0], indexes[-1], on_results))
                self.timed = self.timed or (indexes[-1], now)

    def _hand_over_changes(self, now: float) -> None:
        changes, self._changes = self._changes, []
        for change, on_results in changes:
            try:
                index = self.core.change(change, now)
            except RaftError as error:
                on_results(None, error)
            else:
                self._asked.append(AwaitedEntries(index, index, on_results))

    # Duties.

    def _stand(self, standing: Standing) -> None:
        led = self.leads
        self.standing = standing
        self.timed = None
        if led or self.leads:
            self._host.leading_changed(self)

    def _apply(self, entries: Sequence[Entry]) -> None:
        first, last = entries[0].index, entries[-1].index
        assert first == self.applied + 1, f"entry {first} is to be applied behind {self.applied}"
        assert self.installing is None, f"entry {first} is to be applied while a snapshot is installed"
        commands = [entry for entry in entries if entry.kind == _COMMAND]
        try:
            results = self.machine.apply(commands) if commands else ()
        except (Damaged, StorageError):
            raise
        except (
            Exception
        ) as error:  # a version that is unknown here, or a mistake of ours: the node and other groups live
            raise CannotApply(f"entries {first} to {last} cannot be applied: {_described(error)}") from error
        assert len(results) == len(commands), f"{len(results)} results of {len(commands)} commands"
        self.applied = last
        self.core.applied(last)
        self._store.note_committed(last)
        if self._asked and self._asked[0].first <= last:
            self._asked.tell(entries, results)
        if self._readers.confirmed:
            self._readers.answer(self.applied)
        for entry in commands:
            self._growth.entry_bytes += len(entry.data)
        if self._snapshot_is_due:
            self.take_snapshot()

    # Snapshots.

    @property
    def _snapshot_is_due(self) -> bool:
        growth, rules = self._growth, self._rules
        entries, size = self.applied - growth.snapshot_index, growth.entry_bytes
        # Nearly always nobody need count what is held, for that could not be dead.
        little_is_dead = size + growth.held_before < rules.bytes_max
        if entries < rules.entries_max and size < rules.bytes_max and (little_is_dead or not self._much_is_dead):
            return False
        received = self.core.snapshot_received_bytes()
        return received is None or self._sends_back(entries, size, received)

    @property
    def _much_is_dead(self) -> bool:
        """As much as it may grow by, and more than is alive: so the states that are written while a long queue is consumed are
        no more than what is freed."""
        held = self.machine.held_bytes
        return self._growth.dead_bytes(held) >= max(self._rules.bytes_max, held)

    def _sends_back(self, entries: int, size: int, received: int) -> bool:
        """A newer snapshot sends whoever receives the last one back to its begin, and whoever catches up from it, for its log
        begins there. Nobody is sent back who got more of it than the log grew by, however large it is: under load it would
        never end. Who stands still holds the log no longer than that."""
        times, rules = SNAPSHOT_HELD_BACK_TIMES, self._rules
        return size >= received and (entries >= rules.entries_max * times or size >= rules.bytes_max * times)

    @property
    def snapshot_index(self) -> int:
        """Of the newest snapshot that is kept."""
        return self._store.snapshot().index

    @property
    def stands_on_its_log(self) -> bool:
        """Whether the log has what the machine names. Not from where a snapshot is installed until that is durable: the machine
        is still the one from before it, whose entries the log has let go of."""
        return self.applied >= self.snapshot_index

    def take_snapshot_for_room(self) -> None:
        """The machine refers to fewer entries than the newest snapshot, and room is to be had by that. Not while it would send
        a follower back: ask again."""
        if self.core.snapshot_received_bytes() is None:
            self.take_snapshot()

    def give_room(self) -> bool:
        """The disk is nearly full. Take a snapshot if that frees a good deal, and keep nothing below it. Returns whether one
        was begun."""
        held = self.machine.held_bytes
        worth = self._growth.room_bytes(held) >= max(ROOM_BYTES_MIN, held // ROOM_SHARE_OF_HELD)
        return worth and self.core.snapshot_received_bytes() is None and self.take_snapshot(keeps_recent=False)

    def take_snapshot(self, *, keeps_recent: bool = True) -> bool:
        """Keep the machine's state as it is now, so that the log before it can go. One at a time. Returns whether one was
        begun. `keeps_recent`: what lies right below it stays for slow followers."""
        if self._snapshotting or self.installing is not None or self.applied == self.snapshot_index or self.halted:
            return False
        membership = self._membership_at(self.applied)
        if not membership.voters:  # it was taken in later than that, and has yet to hear who belongs to the group
            return False
        self._snapshotting = True
        index, held = self.applied, self.machine.held_bytes
        room = self._growth.room_bytes(held)
        self._growth.begin(index, held, kept_bytes=self._growth.entry_bytes if keeps_recent else 0)
        self._store.save_snapshot(
            SnapshotMeta(index, self._store.term(index), membership, self.machine.version),
            self.machine.snapshot(),
            self.machine.live_entries(),
            partial(self._snapshot_ended, room),
            keeps_recent=keeps_recent,
        )
        return True

    def _snapshot_ended(self, room_bytes: int, kept: bool) -> None:
        self._snapshotting = False  # one that was not kept is taken again when the next is due
        if not kept:
            self._growth.not_freed(room_bytes)

    def _membership_at(self, index: int) -> Membership:
        found = None
        for since, membership in self._store.memberships():
            if since > index:
                break
            found = membership
        assert found is not None, f"no membership is known for index {index}"
        return found

    def _install(self, meta: SnapshotMeta) -> None:
        assert self.installing is None, f"snapshot {meta.index} comes while {self.installing} is installed"
        self.installing = meta
        self._store.install(meta, self._installed)

    def _installed(self, state: bytes | None) -> None:
        meta, self.installing = self.installing, None
        assert meta is not None, "a snapshot was installed that nobody asked for"
        if state is None:
            self.core.install_failed()
        else:
            if self.halted is None:
                self._restore(state, meta)
            self.applied = meta.index
            self._growth.begin(meta.index, self.machine.held_bytes, kept_bytes=0)
            self.core.installed(meta)
        self._readers.answer(self.applied)
        self._host.wake(self)

    def _restore(self, state: bytes, meta: SnapshotMeta) -> None:
        try:
            self.machine.restore(state, meta.machine_version)
        except ValueError as error:
            text = f"the machine cannot stand on snapshot {meta.index}: {_described(error)}"
            self._host.cannot_apply(self, CannotApply(text))


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

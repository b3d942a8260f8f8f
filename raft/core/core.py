"""One member of one group: decides, and does nothing. Time, chance and the world come in as arguments.

    core.step(message, now); core.propose([b"x"], now); core.tick(now)      # events, in any order
    while (ready := core.ready(now)) is not None:                           # duties, see raft/core/ready.py
        send(ready.messages)
        persist(ready.facts, ready.entries)     # when fsynced: core.persisted(ready.number, now), send(ready.messages_after)
        apply(ready.committed)                  # when applied: core.applied(index)

The driver may gather events before it asks for a Ready, and have several Readies on their way to the disk at once. It calls
`tick` when `deadline` has come. A member whose group is at rest has no deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from raft.core import election, feeding, follower, leader, succession
from raft.core.errors import NotLeader
from raft.core.leadership import Leadership
from raft.core.log_store import LogStore
from raft.core.membership import Change
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    MemberId,
    Message,
    NodeId,
    NotLeading,
    Replaced,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
    node_of,
)
from raft.core.ready import Ready, Role, Standing
from raft.core.settings import Settings as Settings
from raft.core.snapshot_transfer import SnapshotPace
from raft.core.state import State
from raft.core.status import Formation, Status, formation_of, status_of


def time_not_known() -> int:
    """Where there is no wall clock."""
    return 0


class Core:
    """A member. It trusts no other node before `trust` is called for it."""

    __slots__ = ("_now", "_number", "_persisted", "_s")

    def __init__(
        self,
        me: MemberId,
        store: LogStore,
        settings: Settings,
        random: Callable[[], float],
        now: float,
        applied: int = 0,
        wall_ms: Callable[[], int] = time_not_known,
        pace: SnapshotPace | None = None,
    ) -> None:
        """`random` gives numbers from 0 to 1. `applied` is the state of the machine: its snapshot, or entries behind it
        that it kept by itself. `wall_ms`: what a new leader says in the log of when its term began. `pace`: shared by all
        members of a node."""
        self._s = State(me, store, settings, random, applied, wall_ms, pace or SnapshotPace(0))
        self._number = 0
        self._persisted = 0
        self._now = now  # of the last Ready
        self._s.arm(now)

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called, on the monotonic clock. None: not before something else happens."""
        lead = self._s.leadership
        return self._s.election_at if lead is None else lead.deadline()

    def status(self) -> Status:
        return status_of(self._s)

    def formation(self) -> Formation:
        return formation_of(self._s)

    def standing(self) -> Standing:
        return self._s.standing()

    def snapshot_received_bytes(self) -> int | None:
        """How much of a snapshot the follower has that has most of it, of those that receive one or catch up from it. None:
        there are none."""
        lead = self._s.leadership
        if lead is None:
            return None
        return max((size for one in lead.progress.values() if (size := one.received_bytes) is not None), default=None)

    def tell_commits(self, nodes: Iterable[NodeId]) -> None:
        """A client of that member waits: send it the commit index at once, not with the next entries. Leader only."""
        lead = self._s.leadership
        if lead is not None:
            lead.prompted.update(nodes)
            lead.must_send = True

    def halt(self, now: float) -> None:
        """The machine cannot go on. The member stays a voter whose log counts, but it is handed nothing more to apply, and it
        leads no more: it hands over, or, if that came to nothing by the next call, steps down and tells the others. To be
        called periodically as long as there is no leader, since others follow a leader whose node answers."""
        s = self._s
        first, s.halted = not s.halted, True
        if s.leadership is None:
            if s.campaign is not None:
                follower.become_follower(s, s.term, 0, now)
            s.arm(now)
        elif not first or not succession.hand_over(s, s.leadership, now):
            if s.leadership.transfer is not None:
                return  # it has until its time is up
            follower.become_follower(s, s.term, 0, now)
        if s.leadership is None:
            election.deny_to_all(s)

    # Events

    def tick(self, now: float) -> None:
        """Time has passed. Calling it too often does no harm."""
        s = self._s
        if s.leadership is not None:
            leader.tick(s, s.leadership, now)
        elif s.election_at is not None and now >= s.election_at:
            election.stand(s, now)

    def suspect(self, node: NodeId, now: float, *, silent: bool = False) -> None:
        """The node does not answer, or hung up. `silent`: it may be busy, and lead on; after so long a wait a moment
        more is no loss."""
        s = self._s
        if node == node_of(s.me) or node not in s.trusted:
            return
        s.trusted.discard(node)
        if s.leadership is not None:
            leader.suspect(s, s.leadership, node, now)
        elif s.campaign is not None and not s.may_campaign():
            follower.become_follower(s, s.term, 0, now)
        elif s.leader and node_of(s.leader) == node:
            lost = s.leader
            follower.forget_leader(s, now)  # if it still leads, it says so when its node is trusted again
            if not silent:
                s.hasten(lost, now)
        elif not s.may_campaign():
            s.election_at = None

    def trust(self, node: NodeId, now: float) -> None:
        """The node answers (again)."""
        s = self._s
        if node in s.trusted:
            return
        s.trusted.add(node)
        if s.leadership is not None:
            leader.trust(s.leadership, node)
        elif s.election_at is None or s.attempts or s.trusts_leader():
            s.attempts = 0
            s.arm(now)
            election.deny_to_node(s, node)
            election.ask_node_who_leads(s, node)

    def forget_leader(self, leader: MemberId, now: float) -> None:
        """The process that led, as far as this member knows, has ended."""
        s = self._s
        if s.leadership is None and s.leader == leader:
            follower.forget_leader(s, now)

    def step(self, message: Message, now: float) -> None:
        """A message arrived. What is stale or makes no sense is ignored."""
        s = self._s
        if type(message) is Replaced:
            self._step_replaced(message, now)
        elif message.to != s.me:
            return
        elif type(message) is LeaderLookup:
            self._step_lookup(message, now)
        elif message.term > s.term and not self._enter_term(message, now):
            return
        elif message.term < s.term:
            self._answer_stale(message, now)
        else:
            self._step_current(message, now)

    def _step_replaced(self, message: Replaced, now: float) -> None:
        s = self._s
        if s.leadership is not None:
            succession.step_replaced(s, s.leadership, message, now)
        else:
            follower.step_replaced(s, message, now)

    def _step_lookup(self, lookup: LeaderLookup, now: float) -> None:
        s = self._s
        if s.leadership is not None:
            leader.answer_doubt(s.leadership, lookup.sender)
        else:
            election.step_lookup(s, lookup, now)

    def _enter_term(self, message: Message, now: float) -> bool:
        """A message of a later term: whether it is to be handled in that term now."""
        s = self._s
        match message:
            case VoteRequest(pre=True):
                self._step_pre_request(message, now)
                return False
            case VoteReply(pre=True, granted=True):
                election.step_reply(s, message, now)
                return False
            case VoteRequest() if s.role is not Role.LEADER and election.objects(s, message):
                election.object_to(s, message)
                return False
            case Append() | SnapshotChunk() | MatchCheck():
                follower.become_follower(s, message.term, message.sender, now)
            case _:
                follower.become_follower(s, message.term, 0, now)
        return True

    def _step_pre_request(self, request: VoteRequest, now: float) -> None:
        s = self._s
        if s.leadership is not None:
            leader.answer_doubt(s.leadership, request.sender)
        else:
            election.step_pre_request(s, request, now)

    def _answer_stale(self, message: Message, now: float) -> None:
        """Tells a leader or candidate of an earlier term about this one."""
        s = self._s
        match message:
            case VoteRequest():
                election.refuse(s, message)
            case Append(prev_index=prev_index):
                self._tell_term(message.sender, prev_index)
            case SnapshotChunk():
                self._tell_term(message.sender, 0)
            case AppendReply() | SnapshotReply() | LeaderCheck() if s.leadership is None:
                election.deny_leading(s, message.sender, now)
            case _:
                pass

    def _tell_term(self, member: MemberId, rejected: int) -> None:
        s = self._s
        s.messages_after.append(AppendReply(member, s.me, s.term, False, 0, s.commit, rejected))

    def _step_current(self, message: Message, now: float) -> None:
        s = self._s
        lead = s.leadership
        match message:
            case Append():
                follower.step_append(s, message, now)
            case AppendReply():
                if lead is not None:
                    leader.step_append_reply(s, lead, message, now)
                else:
                    election.deny_leading(s, message.sender, now)
            case VoteRequest():
                if message.pre or lead is not None:
                    self._step_pre_request(message, now)
                else:
                    election.step_request(s, message, now)
            case VoteReply():
                election.step_reply(s, message, now)
            case LeaderCheck():
                if lead is None:
                    election.deny_leading(s, message.sender, now)
            case NotLeading():
                election.step_not_leading(s, message.sender, now)
            case MatchCheck():
                follower.step_match_check(s, message, now)
            case SnapshotChunk():
                follower.step_chunk(s, message, now)
            case SnapshotReply():
                if lead is not None:
                    leader.step_snapshot_reply(s, lead, message, now)
                else:
                    election.deny_leading(s, message.sender, now)
            case TransferNow():
                if lead is None and s.leader in (0, message.sender):
                    election.stand_at_once(s, message.sender, now)
            case TransferDeclined():
                if lead is not None:
                    succession.declined(lead, message.sender)
            case Replaced() | LeaderLookup():
                raise AssertionError("answered above")
            case _ as never:
                assert_never(never)

    # Requests

    def propose(self, commands: Sequence[bytes], now: float) -> range:
        """Append commands; their indexes. Raises NotLeader, Busy, TooLarge."""
        return leader.propose(self._s, self._lead(), commands)

    def change(self, change: Change, now: float) -> int:
        """Append a membership change; its index. Raises NotLeader, ChangePending, BadChange."""
        return succession.change(self._s, self._lead(), change, now)

    def transfer(self, to: MemberId, now: float) -> None:
        """Hand the leadership over. Raises NotLeader, BadChange."""
        succession.transfer(self._s, self._lead(), to, now)

    def read(self, token: int, now: float) -> None:
        """Make sure that whatever was committed before this call is seen. Answered by Ready.reads, or in lost_reads.
        Raises NotLeader."""
        leader.read(self._s, self._lead(), token)

    def _lead(self) -> Leadership:
        lead = self._s.leadership
        if lead is None:
            raise NotLeader(self._s.leader)
        return lead

    # Duties

    def has_ready(self) -> bool:
        """Whether to call `ready`. A leader may find then that there is nothing to be done after all."""
        s = self._s
        log, lead = s.log, s.leadership
        return bool(
            s.messages
            or s.messages_after
            or s.facts_changed
            or log.handed < log.last
            or (lead is not None and lead.must_send)
            or (s.applying < s.commit and self._may_apply() > s.applying)
            or s.chunks
            or s.install is not None
            or s.reads
            or s.lost_reads
            or s.forgotten is not None
            or s.shown != (s.role, s.term, s.leader)
        )

    def ready(self, now: float) -> Ready | None:
        """What is to be done. None: nothing."""
        s = self._s
        if s.leadership is not None and s.leadership.must_send:
            feeding.feed_all(s, s.leadership, now)
        if not self.has_ready():
            return None
        self._now = now
        self._number += 1
        facts = s.facts() if s.facts_changed else None
        if facts is not None:
            s.facts_changed = False
            s.facts_number = self._number
        standing = None
        if s.shown != (s.role, s.term, s.leader):
            standing = s.shown = s.standing()
        # By place, in the order of the class: names would cost 0.8 us for every turn of every group.
        ready = Ready(
            self._number,
            standing,
            s.messages,
            facts,
            s.log.hand_out(self._number),
            s.messages_after,
            s.chunks,
            s.install,
            self.take_committed(),
            s.reads,
            s.lost_reads,
            s.forgotten,
        )
        s.messages, s.messages_after, s.chunks, s.reads, s.lost_reads = [], [], [], [], []
        s.install = s.forgotten = None
        return ready

    def _may_apply(self) -> int:
        """Committed, and fsynced here. Nothing while a snapshot is being installed, or when the machine cannot go on."""
        s = self._s
        return s.applying if s.installing is not None or s.halted else min(s.commit, s.log.durable)

    def take_committed(self) -> Sequence[Entry]:
        """What may be applied now, as the next Ready would say: a commit may be known by the time that a Ready is performed."""
        s = self._s
        if s.applying == s.commit or (high := self._may_apply()) <= s.applying:
            return ()
        entries = s.log.between(s.applying + 1, high, s.settings.apply_bytes_max)
        assert entries[0].index == s.applying + 1, f"entry {entries[0].index} follows {s.applying} to be applied"
        s.applying = entries[-1].index
        return entries

    def persisted(self, number: int, now: float) -> None:
        """The facts and entries of this Ready, and of all before it, are fsynced."""
        s = self._s
        assert number <= self._number, f"Ready {number} was persisted, only {self._number} were made"
        if number <= self._persisted:
            return
        self._persisted = number
        s.log.persisted(number)
        facts_are_new = not s.facts_durable and not s.facts_changed and number >= s.facts_number
        if facts_are_new:
            s.vote_is_durable(now)
        if s.leadership is not None:
            leader.count(s, s.leadership, now)
        elif facts_are_new and s.role is Role.CANDIDATE:
            election.own_vote_is_durable(s, now)

    def applied(self, index: int) -> None:
        """The machine has applied entries up to here."""
        s = self._s
        assert s.applied <= index <= s.applying, (
            f"applied {index}; it was {s.applied}, and {s.applying} were handed out"
        )
        s.applied = index

    def installed(self, meta: SnapshotMeta) -> None:
        """The snapshot of Ready.install is durable and the machine was restored from it."""
        follower.installed(self._s, meta, self._now)

    def install_failed(self) -> None:
        """The chunks were not a sound snapshot; the log and the machine are as they were."""
        follower.install_failed(self._s, self._now)

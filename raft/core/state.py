"""What a member knows, whatever its role, and what it has decided to have done.

Roles are decisions about this state: follower.py, election.py, leader.py. Nothing here performs anything; what is
to be done gathers in `outbox` fields until Core.ready takes it.

    applied <= applying <= min(commit, durable) <= durable <= handed <= last,    commit <= last
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from raft.core.campaign import Campaign
from raft.core.log import Log
from raft.core.log_store import LogStore
from raft.core.majority import majority_of
from raft.core.membership import MembershipHistory
from raft.core.messages import (
    Entry,
    MatchCheck,
    MemberId,
    Membership,
    Message,
    NodeId,
    SnapshotChunk,
    SnapshotMeta,
    node_of,
    replica_of,
)
from raft.core.ready import Facts, ReadPoint, Role, Standing
from raft.core.settings import Settings

if TYPE_CHECKING:
    from raft.core.leadership import Leadership
    from raft.core.snapshot_transfer import SnapshotIntake, SnapshotPace


class State:
    """One member of one group."""

    __slots__ = (
        "applied", "applying", "attempts", "campaign", "chunks", "commit", "delayed_s", "election_at", "facts_changed",
        "facts_durable", "facts_number", "forgotten", "halted", "hastened", "install", "installing", "intake", "leader",
        "leadership", "log", "lost_reads", "me", "members", "messages", "messages_after", "pace", "random", "reads", "role",
        "settings", "shown", "store", "term", "trusted", "vote", "wall_ms",
    )  # fmt: skip

    term: int
    vote: MemberId  # in this term; 0: none
    leader: MemberId  # of this term, as far as known; 0: none
    role: Role
    commit: int  # highest index known to be durable on a majority
    applying: int  # highest index handed out to the machine
    applied: int  # highest index that the machine has told of
    election_at: float | None  # when to stand for election, if no leader shows up before
    attempts: int  # elections in a row that did not come to anything
    hastened: bool  # it is to stand before its time, see `hasten`

    def __init__(
        self,
        me: MemberId,
        store: LogStore,
        settings: Settings,
        random: Callable[[], float],
        applied: int,
        wall_ms: Callable[[], int],
        pace: SnapshotPace,
    ) -> None:
        self.me = me
        self.store = store
        self.settings = settings
        self.random = random
        self.wall_ms = wall_ms
        self.pace = pace
        self.log = Log(store)
        self.members = MembershipHistory(store.memberships())
        self.term, self.vote = store.facts()
        self.leader = 0
        self.commit = self.applying = self.applied = max(applied, store.snapshot().index)
        assert self.applied == applied, f"the machine is at {applied}, its log begins behind {self.applied}"
        assert self.commit <= self.log.last, f"the machine is at {applied}, its log ends at {self.log.last}"
        self.trusted: set[NodeId] = {node_of(me)}
        self.election_at = None
        self.delayed_s: float | None = None  # how long to wait before standing, once the vote is fsynced
        self.attempts = 0
        self.hastened = False
        self.campaign: Campaign | None = None  # while PRE_CANDIDATE or CANDIDATE
        self.leadership: Leadership | None = None  # while LEADER
        self.intake: SnapshotIntake | None = None  # chunks of a snapshot that arrived up to now
        self.installing: SnapshotMeta | None = None  # between Ready.install and Core.installed; the log is frozen
        self.role = self.resting_role()
        self.halted = (
            False  # its machine cannot go on: it votes and keeps what it is sent, applies nothing and leads nothing
        )

        self.facts_changed = False
        self.facts_number = 0  # of the Ready that carried the newest facts
        self.facts_durable = True  # the newest facts are fsynced here
        self.messages: list[Message] = []
        self.messages_after: list[Message] = []
        self.chunks: list[SnapshotChunk] = []
        self.install: SnapshotMeta | None = None
        self.reads: list[ReadPoint] = []
        self.lost_reads: list[int] = []
        self.forgotten: MatchCheck | None = None
        self.shown = Standing(self.role, 0, 0)  # the standing of the last Ready

    @property
    def membership(self) -> Membership:
        return self.members.current

    def resting_role(self) -> Role:
        return Role.FOLLOWER if self.me in self.membership.voters else Role.LEARNER

    def standing(self) -> Standing:
        return Standing(self.role, self.term, self.leader)

    def trusts(self, member: MemberId) -> bool:
        return node_of(member) in self.trusted

    def trusts_leader(self) -> bool:
        return self.leader != 0 and self.trusts(self.leader)

    def trusts_majority(self) -> bool:
        voters = self.membership.voters
        return sum([self.trusts(voter) for voter in voters]) >= majority_of(len(voters))

    def set_facts(self, term: int, vote: MemberId) -> None:
        """The only place where they change. A member never goes back to an earlier term nor votes twice in one."""
        assert term > self.term or (term == self.term and self.vote in (0, vote)), (
            f"facts ({term}, {vote}) cannot follow ({self.term}, {self.vote})"
        )
        if (term, vote) != (self.term, self.vote):
            self.term, self.vote = term, vote
            self.facts_changed = True
            self.facts_durable = False

    def facts(self) -> Facts:
        return Facts(self.term, self.vote)

    def arm(self, now: float) -> None:
        """Stand for election after a while, unless there is a leader to trust. A member that could not win (no voter, or
        too few voters trusted) does not try: suspicion and trust wake it, so that waiting costs nothing. One whose vote is on
        its way to the disk waits for that first (Core.persisted): where an fsync takes longer than an election's time, it would
        stand again and again, each time with another vote to wait for."""
        self.election_at = None
        self.hastened = False
        if self.role is Role.LEADER or self.trusts_leader() or not self.may_campaign():
            return
        delay = 0.0 if self.membership.voters == (self.me,) else self._election_delay()
        if self.facts_durable:
            self.election_at = now + delay
        else:
            self.delayed_s = delay

    def hasten(self, lost: MemberId, now: float) -> None:
        """The node of the leader was lost. Where chance alone decides, two followers of three wait 0.13 s for nothing, and an
        operation on two queues 0.18. So one of them stands at once, another one for the next group."""
        settings = self.settings
        if self.election_at is not None and (settings.eagerness > 1 or self.me == self._heir_of(lost)):
            self.election_at = min(self.election_at, now + settings.heir_s / settings.eagerness)
            self.hastened = True

    def _heir_of(self, lost: MemberId) -> MemberId:
        left = sorted(voter for voter in self.membership.voters if voter != lost and self.trusts(voter))
        return left[replica_of(lost) % len(left)] if left else 0

    def vote_is_durable(self, now: float) -> None:
        """What waited for that begins to wait for a leader."""
        self.facts_durable = True
        delay, self.delayed_s = self.delayed_s, None
        if delay is not None and self.role is not Role.LEADER and not self.trusts_leader() and self.may_campaign():
            self.election_at = now + delay

    def may_campaign(self) -> bool:
        return self.installing is None and self.may_lead() and self.trusts_majority()

    def may_lead(self) -> bool:
        """A voter, or one whose removal is not known to be committed: the entry that removes it may be in its log alone,
        which no voter's is then as long as, so that no other member could be elected."""
        if self.halted:
            return False
        if self.me in self.membership.voters:
            return True
        return self.members.index > self.commit and self.me in self.members.committed(self.commit).voters

    def _election_delay(self) -> float:
        """Chance keeps members from standing at the same time. In a new group a preferred one has no rival and no leader to
        wait for: whoever declared a queue publishes to it next. Once somebody has stood it has: itself, with a vote on its way
        to slow disks, or the one that it has voted for."""
        settings = self.settings
        is_first = settings.eagerness > 1 and self.term == 0 and self.log.last == 0
        if is_first and self.attempts == 0:
            return 0.0
        spread = settings.election_max_s - settings.election_min_s
        chance = 0.0 if is_first else self.random()
        delay = (settings.election_min_s + chance * spread) / settings.eagerness
        backoff: int = 1 << min(self.attempts, settings.election_backoff_max)
        return delay * backoff

    def append(self, entries: list[Entry] | tuple[Entry, ...]) -> None:
        """To the log; memberships among them are in force at once. Who calls looks after what that changes."""
        self.log.append(entries)
        self.members.take(entries, self.commit)

    def commit_to(self, index: int) -> None:
        assert index <= self.log.last, f"commit {index} beyond last {self.log.last}: were entries lost?"
        assert index >= self.commit, f"commit {index} below {self.commit}"
        self.commit = index

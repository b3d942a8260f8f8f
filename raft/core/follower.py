"""A follower takes what its leader sends: entries, news of commits, snapshots."""

from __future__ import annotations

from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    MatchCheck,
    MemberId,
    Replaced,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
)
from raft.core.ready import Role
from raft.core.snapshot_transfer import SnapshotIntake
from raft.core.state import State


def become_follower(s: State, term: int, leader: MemberId, now: float) -> None:
    """Of a leader, or 0 while none is known: then this member campaigns after its timeout."""
    if term > s.term:
        s.set_facts(term, 0)
    if s.leadership is not None:
        s.lost_reads += s.leadership.reads.lost()
    s.leadership = s.campaign = None
    s.leader = leader
    s.role = s.resting_role()
    if s.trusts_leader():
        s.attempts = 0
    s.arm(now)


def forget_leader(s: State, now: float) -> None:
    """It showed that it leads no more."""
    s.leader = 0
    s.arm(now)


def step_append(s: State, message: Append, now: float) -> None:
    """Of this term."""
    _follow(s, message.sender, now)
    if s.installing is not None:
        # What lies in the log is about to be replaced, or was replaced already and is not durable yet. Ask it nothing: what is
        # committed is in the leader's log, whatever its term. Once the leader asks there, it sees that the logs agree and that
        # nothing is taken, and tries again after a while.
        _refuse(s, message, s.commit, s.term)
        return
    entries, prev_index, prev_term = message.entries, message.prev_index, message.prev_term
    verified = prev_index + len(entries)
    if entries and (entries[0].index != prev_index + 1 or entries[-1].index != verified):
        return  # no leader of ours makes such a message
    if verified <= s.commit:
        # Whatever is committed here is in every later leader's log.
        _look_for_removed_leader(s, now)
        _accept(s, message, s.commit)
        return
    if prev_index < s.commit:
        entries = entries[s.commit - prev_index :]
    elif not s.log.matches(prev_index, prev_term):
        agrees = _may_agree(s, prev_index, prev_term)
        _refuse(s, message, agrees, s.log.term(agrees))
        return
    if entries:
        _write(s, entries, now)
    # The log may go on behind what this message verified, with entries of another leader: those are not committed by it.
    commit = min(message.commit, verified)
    if commit > s.commit:
        s.commit_to(commit)
    _look_for_removed_leader(s, now)
    _accept(s, message, verified)


def _follow(s: State, leader: MemberId, now: float) -> None:
    assert s.role is not Role.LEADER, f"two leaders in term {s.term}: {s.me} and {leader}"
    assert s.leader in (0, leader), f"two leaders in term {s.term}: {s.leader} and {leader}"
    if s.leader != leader or s.campaign is not None:
        become_follower(s, s.term, leader, now)
    elif s.election_at is not None:
        s.arm(now)  # known, but not trusted (yet): it talks, so give it time


def _may_agree(s: State, prev_index: int, prev_term: int) -> int:
    """The highest index below `prev_index` at which the logs may agree: the leader has nothing of a later term there."""
    return s.log.last_not_above(prev_term, s.commit, max(s.commit, min(prev_index - 1, s.log.last)))


def _write(s: State, entries: tuple[Entry, ...], now: float) -> None:
    """Append what is not there yet. Entries are never truncated unless one of them differs: this message may be an old one,
    and the log longer by what came since."""
    conflict = s.log.first_conflict(entries)
    membership = s.members.current
    if conflict is not None:
        assert conflict > s.commit, f"entry {conflict} differs from the leader's, but {s.commit} are committed"
        s.log.truncate(conflict - 1)
        s.members.truncate(conflict - 1)
    known = s.log.last + 1 - entries[0].index
    new = entries[known:] if known else entries
    if new:
        s.append(new)
    if s.members.current is not membership:
        s.role = s.resting_role()
        s.arm(now)


def _look_for_removed_leader(s: State, now: float) -> None:
    """A leader that removed itself leaves once that is known; it may have no time to say so, so it is not believed in."""
    voters = s.members.current.voters
    if voters and s.leader not in voters and s.members.index <= s.commit:
        forget_leader(s, now)


def _accept(s: State, message: Append, index: int) -> None:
    """Everything up to `index` agrees with the leader, and will be fsynced before this leaves."""
    s.messages_after.append(
        AppendReply(message.sender, s.me, s.term, True, index, s.commit, read_round=message.read_round)
    )


def _refuse(s: State, message: Append, agrees: int, hint_term: int) -> None:
    s.messages_after.append(
        AppendReply(
            message.sender, s.me, s.term, False, agrees, s.commit, message.prev_index, hint_term, message.read_round
        )
    )


def step_match_check(s: State, check: MatchCheck, now: float) -> None:
    """Of this term. What was acknowledged in it cannot go by itself, for no leader overwrites its own log. While a snapshot is
    being installed nothing can be said about the log."""
    _follow(s, check.sender, now)
    if s.installing is None and check.index > s.commit and not s.log.matches(check.index, check.index_term):
        s.forgotten = check


def step_chunk(s: State, chunk: SnapshotChunk, now: float) -> None:
    """Of this term."""
    _follow(s, chunk.sender, now)
    meta = chunk.meta
    if s.installing is None and meta.index > s.commit and s.log.matches(meta.index, meta.term):
        # Everything that it covers is in the log already. Only committed entries are in snapshots.
        s.commit_to(meta.index)
    if meta.index <= s.commit:
        s.intake = s.intake if s.installing is not None else None
        s.messages_after.append(SnapshotReply(chunk.sender, s.me, s.term, meta.index, 0, installed=True))
        return
    if s.intake is None or not s.intake.continues(chunk):
        if s.installing is not None:
            return  # the leader asks again
        s.intake = SnapshotIntake(chunk)
    _take_chunk(s, s.intake, chunk)


def _take_chunk(s: State, intake: SnapshotIntake, chunk: SnapshotChunk) -> None:
    if chunk.data or chunk.last:
        duplicate = chunk.offset < intake.next_offset
        if intake.take(chunk):
            s.chunks.append(chunk)
            if intake.complete:
                s.install = s.installing = chunk.meta
                s.election_at = None
        elif duplicate:
            return  # an answer would look as if something were missing
    s.messages_after.append(SnapshotReply(chunk.sender, s.me, s.term, intake.index, intake.next_offset))


def installed(s: State, meta: SnapshotMeta, now: float) -> None:
    """It is durable, the log begins behind it, and the machine was restored from it."""
    assert s.installing is not None, f"snapshot {meta.index} was installed, but none was to be"
    assert meta.index == s.installing.index, f"snapshot {meta.index} was installed, {s.installing.index} was to be"
    s.installing = s.intake = None
    s.log.reset(meta.index)
    s.members.reset(meta.index, meta.membership)
    s.commit_to(meta.index)
    s.applying = s.applied = meta.index
    s.role = s.resting_role()
    if s.leader:
        s.messages_after.append(SnapshotReply(s.leader, s.me, s.term, meta.index, 0, installed=True))
    s.arm(now)


def install_failed(s: State, now: float) -> None:
    """Its bytes were not what they should be, or the disk took none: from the beginning. The log is as it was. The leader is
    not told, and asks in a while: where nothing can be installed, it would send the whole snapshot again and again at once."""
    assert s.installing is not None, "a snapshot could not be installed, but none was to be"
    s.installing = s.intake = None
    s.arm(now)


def step_replaced(s: State, message: Replaced, now: float) -> None:
    """The leader takes care of it, unless it was the leader that is gone."""
    if message.old == s.leader:
        forget_leader(s, now)

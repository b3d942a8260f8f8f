"""The leader takes proposals, counts who has them durable, and answers reads.

Feeding followers is feeding.py; changing who belongs to the group, and handing the leadership over, are succession.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core import succession
from raft.core.errors import Busy, TooLarge
from raft.core.feeding import expect_answer
from raft.core.follower import become_follower
from raft.core.leadership import Leadership, TermBegun
from raft.core.log import ENTRY_OVERHEAD_BYTES
from raft.core.majority import majority_of, reached_by_majority
from raft.core.messages import AppendReply, Entry, EntryKind, MatchCheck, MemberId, NodeId, SnapshotReply
from raft.core.progress import Progress
from raft.core.ready import Role
from raft.core.state import State


def become_leader(s: State, now: float) -> None:
    """A majority granted it. The first entry of the term asks for nothing, but what is committed with it commits all before."""
    s.role = Role.LEADER
    s.leader = s.me
    s.campaign = s.intake = None
    s.election_at = None
    s.attempts = 0
    lead = s.leadership = Leadership(s.log.last + 1)
    succession.follow_membership(s, lead)
    s.append([Entry(lead.first_index, s.term, EntryKind.NOOP, TermBegun(s.me, s.wall_ms()).encode())])
    count(s, lead, now)


def propose(s: State, lead: Leadership, commands: Sequence[bytes]) -> range:
    """Raises Busy, TooLarge. The commands are in the log, and sent with the next Ready."""
    if lead.transfer is not None or lead.leaving:
        raise Busy("the leadership is being handed over; propose again in a moment")
    size, added = sum(map(len, commands)), len(commands)
    size += ENTRY_OVERHEAD_BYTES * added
    entry_bytes_max = s.settings.entry_bytes_max
    if size > entry_bytes_max and (largest := max(map(len, commands))) > entry_bytes_max:
        raise TooLarge(f"a command of {largest} bytes; at most {entry_bytes_max} fit into an entry")
    most = s.settings.uncommitted_bytes_max
    if lead.uncommitted_bytes and lead.uncommitted_bytes + size > most:
        raise Busy(f"{lead.uncommitted_bytes} bytes wait to be committed; {size} more would be above {most}")
    first = s.log.last + 1
    term = s.term
    if commands:
        s.log.append([Entry(index, term, 0, data) for index, data in enumerate(commands, first)])
        lead.took(s.log.last, size)
    return range(first, first + added)


def count(s: State, lead: Leadership, now: float) -> None:
    """Commit what a majority of voters has durable: its own log counts up to its own durable index, and it does without
    if others were faster. Entries of earlier terms are never committed by counting, only with one of this term behind them."""
    progress, me, durable = lead.progress, s.me, s.log.durable
    voters = s.members.current.voters
    index = reached_by_majority([durable if one == me else progress[one].match for one in voters])
    if index <= s.commit or index < lead.first_index:
        return
    s.commit_to(index)
    lead.committed(index)
    if lead.progress:
        _have_news(s, lead, now)
    succession.go_on(s, lead, now)
    if s.leadership is lead and (lead.reads.wanted or lead.reads.waiting):
        confirm_round(s, lead)  # who had not said it back may have been removed
        ask_round(s, lead)


def _have_news(s: State, lead: Leadership, now: float) -> None:
    """Of a commit, for followers: with the next entries, or alone after a while."""
    wait_s = s.settings.commit_news_s
    if lead.news_at is None:
        lead.news_at = now + wait_s
    if not wait_s:
        lead.must_send = True


def read(s: State, lead: Leadership, token: int) -> None:
    """Answered by a round that begins now or later."""
    lead.reads.wait(token)
    ask_round(s, lead)


def ask_round(s: State, lead: Leadership) -> None:
    """Begin a read round if one is wanted; not before an entry of this term is committed, for until then this leader does
    not know what earlier ones committed."""
    if s.commit >= lead.first_index and lead.reads.begin(s.commit):
        lead.must_send = True
        confirm_round(s, lead)


def confirm_round(s: State, lead: Leadership) -> None:
    """Answer the reads whose round a majority has said back."""
    progress, me, reads = lead.progress, s.me, lead.reads
    if reads.wanted:
        said = [reads.round if one == me else progress[one].round for one in s.membership.voters]
        points = reads.confirmed(reached_by_majority(said))
        if points:
            s.reads += points
            ask_round(s, lead)


def step_append_reply(s: State, lead: Leadership, reply: AppendReply, now: float) -> None:
    """Of this term, from a member perhaps no longer in the group."""
    one = lead.progress.get(reply.sender)
    if one is None or not one.trusted or reply.index > s.log.last:
        return
    if reply.read_round > one.round:
        one.round = min(reply.read_round, lead.reads.round)
    if reply.commit > one.commit:
        one.commit = reply.commit if reply.commit < s.commit else s.commit
    advanced = False
    if reply.accepted:
        advanced = one.accepted(reply.index)
        lead.must_send = lead.must_send or (advanced and one.next <= s.log.last)
    elif reply.rejected <= one.match:
        _check_match(s, lead, one)
    elif one.rejected(reply.rejected, _agrees(s, reply)):
        lead.must_send = True
    _heard(s, lead, one, now)
    if lead.reads.wanted:
        confirm_round(s, lead)
    if advanced and one.match > s.commit:
        count(s, lead, now)
    if s.leadership is lead:
        succession.go_on(s, lead, now)


def _check_match(s: State, lead: Leadership, one: Progress) -> None:
    """It refuses what it has acknowledged. Most often that was said before it acknowledged. Else it has lost something without
    noticing, must not be counted, and would never be sent that again: it finds out itself (follower.step_match_check)."""
    if s.log.first_index() - 1 <= one.match and _can_replace(s, lead, one.member):
        s.messages.append(MatchCheck(one.member, s.me, s.term, one.match, s.log.term(one.match)))


def _can_replace(s: State, lead: Leadership, member: MemberId) -> bool:
    """Whether the others can commit that it is replaced. Where two of three have lost something, the group would have no
    majority permanently if both gave themselves up; as it is, an operator still has a choice."""
    others = [voter for voter in s.membership.voters if voter != member]
    sound = sum([voter == s.me or lead.progress[voter].is_fed for voter in others])
    return sound >= majority_of(len(others)) and s.members.index <= s.commit


def _agrees(s: State, reply: AppendReply) -> int:
    """The highest index at which the logs may agree: of what the follower has there, nothing is of a later term."""
    lowest = s.log.first_index() - 1
    if reply.index <= lowest:
        return reply.index
    return s.log.last_not_above(reply.hint_term, lowest, reply.index)


def step_snapshot_reply(s: State, lead: Leadership, reply: SnapshotReply, now: float) -> None:
    """Of this term."""
    one = lead.progress.get(reply.sender)
    if one is None or not one.trusted or one.snapshot is None or one.snapshot.meta.index != reply.index:
        return
    lead.must_send = True
    if reply.installed:
        one.installed(reply.index)
        count(s, lead, now)
    else:
        one.snapshot.wanted(reply.next_offset)
    if s.leadership is lead:
        _heard(s, lead, one, now)


def _heard(s: State, lead: Leadership, one: Progress, now: float) -> None:
    one.resend_at = None
    if one.owes(s.log.last, s.commit, lead.reads.wanted):
        expect_answer(s, one, now)


def answer_doubt(lead: Leadership, member: MemberId) -> None:
    """It campaigns, or asks who leads, so it does not know. An append says it, and more than a refused vote."""
    one = lead.progress.get(member)
    if one is not None and one.trusted and one.snapshot is None:
        one.probe()
        lead.must_send = True


def suspect(s: State, lead: Leadership, node: NodeId, now: float) -> None:
    """Without a majority to trust it leads no more: it could not commit anything, and somebody else may lead already."""
    for one in lead.progress.values():
        if one.node == node:
            one.suspect()
    if not s.trusts_majority():
        become_follower(s, s.term, 0, now)
        return
    succession.suspect(lead, node)


def trust(lead: Leadership, node: NodeId) -> None:
    """Its members may have missed anything."""
    for one in lead.progress.values():
        if one.node == node:
            one.trust()
            lead.must_send = True


def tick(s: State, lead: Leadership, now: float) -> None:
    """Ask those again that owe an answer; tell of commits; give up what takes too long."""
    if lead.news_at is not None and lead.news_at <= now:
        lead.must_send = True
    if lead.chunk_at is not None and lead.chunk_at <= now:
        lead.must_send = True
    for one in lead.progress.values():
        if one.resend_at is not None and one.resend_at <= now:
            one.resend_at = None
            if one.owes(s.log.last, s.commit, lead.reads.wanted):
                one.ask_again()
                lead.must_send = True
    succession.tick(lead, now)

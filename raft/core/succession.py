"""Who belongs to the group while somebody leads it, and who leads next.

One membership change at a time, and none before an entry of the leader's own term is committed: so two leaders never build on
different memberships. Whatever waits (replaced members, learners that have caught up) goes on when something is committed.
"""

from __future__ import annotations

from raft.core.errors import BadChange, ChangePending
from raft.core.follower import become_follower
from raft.core.leadership import Leadership, Transfer
from raft.core.majority import majority_of
from raft.core.membership import Change, Promote, Replace, changed, encode, members_of
from raft.core.messages import Entry, EntryKind, MemberId, NodeId, Replaced, TransferNow, node_of
from raft.core.progress import Progress
from raft.core.state import State


def follow_membership(s: State, lead: Leadership) -> None:
    """A follower for each other member in force."""
    members = members_of(s.membership)
    lead.progress = {
        member: lead.progress.get(member) or Progress(member, s.log.last, trusted=s.trusts(member))
        for member in members
        if member != s.me
    }


def change(s: State, lead: Leadership, wanted: Change, now: float) -> int:
    """Append a change. Raises ChangePending, BadChange."""
    if s.commit < lead.first_index:
        raise ChangePending(f"the leader of term {s.term} has not committed anything yet; try again in a moment")
    if s.members.index > s.commit:
        raise ChangePending(f"the change at entry {s.members.index} is not committed yet; try again in a moment")
    if lead.transfer is not None or lead.leaving:
        raise ChangePending("the leadership is being handed over; ask the next leader")
    caught_up = isinstance(wanted, Promote) and has_caught_up(s, lead, wanted.member)
    membership = changed(s.membership, wanted, caught_up=caught_up)
    moved = set(membership.voters) ^ set(s.membership.voters)
    assert len(moved) <= 1, f"{wanted} changes voters {sorted(moved)} at once; majorities might not meet"
    entry = Entry(s.log.last + 1, s.term, EntryKind.MEMBERSHIP, encode(membership))
    s.append([entry])
    follow_membership(s, lead)
    lead.must_send = True
    if not s.trusts_majority():
        become_follower(s, s.term, 0, now)
    return entry.index


def has_caught_up(s: State, lead: Leadership, member: MemberId) -> bool:
    one = lead.progress.get(member)
    return (
        one is not None and one.trusted and one.match > 0 and one.match + s.settings.promote_lag_entries >= s.log.last
    )


def step_replaced(s: State, lead: Leadership, message: Replaced, now: float) -> None:
    """Remembered until the rules allow to take the new one in."""
    if message.old in lead.progress and message.sender not in lead.progress:
        lead.replaced[message.old] = message.sender
        go_on(s, lead, now)


def go_on(s: State, lead: Leadership, now: float) -> None:
    """Whatever waited for something to be committed or acknowledged."""
    membership = s.members.current
    if s.me not in membership.voters and s.members.index <= s.commit:
        _leave_when_known(s, lead, now)
        return
    if lead.transfer is not None:
        _tell_successor(s, lead, lead.transfer)
        return
    waits = lead.replaced or membership.promotable
    if waits and s.commit >= lead.first_index and s.members.index <= s.commit:
        wanted = _waiting_change(s, lead)
        if wanted is not None:
            change(s, lead, wanted, now)


def _waiting_change(s: State, lead: Leadership) -> Change | None:
    while lead.replaced:
        old, new = lead.replaced.popitem()
        replace = Replace(old, new)
        try:
            changed(s.membership, replace)
        except BadChange:
            continue  # it was taken out meanwhile, or is the last voter, or this is old news
        return replace
    for member in s.membership.promotable:
        if has_caught_up(s, lead, member):
            return Promote(member)
    return None


def transfer(s: State, lead: Leadership, to: MemberId, now: float) -> None:
    """Begin to hand over. Raises BadChange."""
    if to == s.me:
        raise BadChange(f"member {to} leads already")
    if to not in s.membership.voters:
        raise BadChange(f"member {to} is no voter of this group: {s.membership}")
    if not s.trusts(to):
        raise BadChange(f"member {to} cannot lead: node {node_of(to)} does not answer")
    lead.transfer = Transfer(to, now + s.settings.transfer_timeout_s, told=False)
    lead.must_send = True
    _tell_successor(s, lead, lead.transfer)


def hand_over(s: State, lead: Leadership, now: float) -> bool:
    """To the member that is furthest ahead, as this one should not lead. False: no other can take over."""
    others = [lead.progress[voter] for voter in s.membership.voters if voter != s.me and s.trusts(voter)]
    if not others:
        return False
    transfer(s, lead, max(others, key=lambda one: (one.match, one.commit)).member, now)
    return True


def _tell_successor(s: State, lead: Leadership, handing: Transfer) -> None:
    one = lead.progress.get(handing.to)
    if one is None or handing.to not in s.membership.voters:
        lead.transfer = None
    elif not handing.told and one.match == s.log.last:
        lead.transfer = handing._replace(told=True)
        s.messages.append(TransferNow(handing.to, s.me, s.term))


def _leave_when_known(s: State, lead: Leadership, now: float) -> None:
    """A leader that is no voter any more leads until a majority knows that, so that one of them campaigns: if it
    went before, all might go on believing in it, and it cannot stand itself."""
    lead.leaving = True
    voters = [lead.progress[voter] for voter in s.membership.voters]
    know = sum([voter.commit >= s.members.index for voter in voters])
    if know >= majority_of(len(voters)):
        _leave(s, lead, now)


def _leave(s: State, lead: Leadership, now: float) -> None:
    candidates = [lead.progress[voter] for voter in s.membership.voters if lead.progress[voter].trusted]
    if candidates:
        best = max(candidates, key=lambda one: (one.match, one.commit))
        s.messages.append(TransferNow(best.member, s.me, s.term))
    become_follower(s, s.term, 0, now)


def declined(lead: Leadership, member: MemberId) -> None:
    """It cannot lead now."""
    if lead.transfer is not None and lead.transfer.to == member:
        lead.transfer = None


def suspect(lead: Leadership, node: NodeId) -> None:
    """Leadership is not transferred to a node that does not answer."""
    if lead.transfer is not None and node_of(lead.transfer.to) == node:
        lead.transfer = None


def tick(lead: Leadership, now: float) -> None:
    """A handover that takes too long is given up."""
    if lead.transfer is not None and lead.transfer.until <= now:
        lead.transfer = None
        lead.must_send = True

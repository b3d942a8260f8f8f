"""Elections, from both sides: standing for one, and voting.

A member first asks whether it would win (pre-vote), which changes no term, so one that cannot win disturbs no other.
Voters refuse while they know a leader whose node they trust. A real candidate votes for itself like for anyone else: the
vote counts, and others are asked, once it is fsynced together with the log that the request tells of.

Disks may be slower than elections. No member campaigns while its own vote is on its way to the disk (State.arm), and a
candidate that asks again, as no votes came in time, still counts those of its term: they may be on their way to other disks.
"""

from __future__ import annotations

from raft.core.campaign import Campaign
from raft.core.follower import become_follower, forget_leader
from raft.core.leader import become_leader
from raft.core.majority import VoteOutcome
from raft.core.membership import members_of
from raft.core.messages import (
    LeaderCheck,
    LeaderLookup,
    MemberId,
    NodeId,
    NotLeading,
    TransferDeclined,
    VoteReply,
    VoteRequest,
    node_of,
)
from raft.core.ready import Role
from raft.core.state import State


def stand(s: State, now: float) -> None:
    """There is no leader, as far as this member knows: ask who would vote for it."""
    assert s.may_campaign(), f"member {s.me} must not campaign in {s.membership}, trusting {sorted(s.trusted)}"
    s.leader = 0
    s.attempts += not s.hastened  # too early for some voter, it is no reason to wait longer
    earlier = s.campaign if s.campaign is None or s.role is Role.CANDIDATE else s.campaign.earlier
    s.role = Role.PRE_CANDIDATE
    s.campaign = Campaign(earlier)
    s.campaign.count(s.me, granted=True)
    s.arm(now)
    s.messages += _requests(s, s.term + 1, pre=True, transfer=False)
    _decide(s, now)


def stand_at_once(s: State, leader: MemberId, now: float) -> None:
    """The leader hands over to this member, which says so if its machine cannot go on: nothing is taken until it knows."""
    if s.may_campaign():
        _stand_really(s, now, transfer=True)
    elif s.halted:
        s.messages_after.append(TransferDeclined(leader, s.me, s.term))


def _stand_really(s: State, now: float, transfer: bool) -> None:
    s.set_facts(s.term + 1, s.me)
    s.leader = 0
    s.role = Role.CANDIDATE
    s.campaign = Campaign()
    s.arm(now)
    s.messages_after += _requests(s, s.term, pre=False, transfer=transfer)


def _requests(s: State, term: int, pre: bool, transfer: bool) -> list[VoteRequest]:
    last, last_term = s.log.last, s.log.last_term
    others = [voter for voter in s.membership.voters if voter != s.me]
    return [VoteRequest(voter, s.me, term, last, last_term, pre, transfer) for voter in others]


def own_vote_is_durable(s: State, now: float) -> None:
    """The candidate's own vote counts from now on."""
    assert s.campaign is not None, f"member {s.me} is {s.role}, it does not stand for election"
    assert s.vote == s.me, f"candidate {s.me} voted for {s.vote}"
    s.campaign.count(s.me, granted=True)
    _decide(s, now)


def step_reply(s: State, reply: VoteReply, now: float) -> None:
    """Of this term, or of the next one if a pre-vote was granted."""
    if s.campaign is None:
        return
    if reply.pre != (s.role is Role.PRE_CANDIDATE):
        if not reply.pre and s.campaign.earlier is not None:
            _count_late(s, s.campaign.earlier, reply, now)
        return
    if reply.granted and reply.term != s.term + reply.pre:
        return
    s.campaign.count(reply.sender, reply.granted)
    _decide(s, now)


def _count_late(s: State, campaign: Campaign, reply: VoteReply, now: float) -> None:
    """A vote of this term, which was asked for before this member asked again whether it would win."""
    if reply.granted and reply.term == s.term:
        campaign.count(reply.sender, granted=True)
        if campaign.outcome(s.membership.voters) is VoteOutcome.WON:
            become_leader(s, now)


def _decide(s: State, now: float) -> None:
    assert s.campaign is not None, f"member {s.me} is {s.role}, it does not stand for election"
    match s.campaign.outcome(s.membership.voters):
        case VoteOutcome.WON if s.role is Role.PRE_CANDIDATE:
            _stand_really(s, now, transfer=False)
        case VoteOutcome.WON:
            become_leader(s, now)
        case VoteOutcome.LOST:
            become_follower(s, s.term, 0, now)


def objects(s: State, request: VoteRequest) -> bool:
    """Whether this member has a leader that it is content with. The leader itself may ask, or have somebody ask."""
    return not request.transfer and s.leader != request.sender and s.trusts_leader()


def step_request(s: State, request: VoteRequest, now: float) -> None:
    """A real one, of this term. If its term is new, there is no leader that could object."""
    granted = s.vote == request.sender or (s.vote == 0 and s.leader == 0 and _may_vote_for(s, request))
    if granted:
        s.set_facts(s.term, request.sender)
        s.arm(now)
    _answer(s, request, granted)


def step_pre_request(s: State, request: VoteRequest, now: float) -> None:
    """Of any term. Changes nothing, but shows that who asks does not lead."""
    if request.term > s.term and request.sender == s.leader:
        forget_leader(s, now)
    if objects(s, request):
        object_to(s, request)
        return
    _answer(s, request, request.term > s.term and _may_vote_for(s, request))


def object_to(s: State, request: VoteRequest) -> None:
    """Refuse, and see whether the leader still leads."""
    refuse(s, request)
    _check_leader(s)


def _check_leader(s: State) -> None:
    """Somebody doubts it, and it may lead no more without standing for election itself."""
    s.messages_after.append(LeaderCheck(s.leader, s.me, s.term))


def step_lookup(s: State, lookup: LeaderLookup, now: float) -> None:
    """Of any term; this member does not lead. Who asks does not either."""
    if lookup.term >= s.term and lookup.sender == s.leader:
        forget_leader(s, now)
    if s.trusts_leader():
        _check_leader(s)


def step_not_leading(s: State, sender: MemberId, now: float) -> None:
    """Of this term."""
    if sender == s.leader:
        forget_leader(s, now)


def deny_leading(s: State, member: MemberId, now: float) -> None:
    """`member` speaks as if this member led. Tell it; if it is who this member follows, neither leads."""
    if member == s.leader:
        forget_leader(s, now)
    s.messages_after.append(NotLeading(member, s.me, s.term))


def deny_to_all(s: State) -> None:
    """A member that led this term and leads no more tells all others, unless another leader is known."""
    if s.vote == s.me and s.leader == 0:
        s.messages_after += [NotLeading(member, s.me, s.term) for member in members_of(s.membership) if member != s.me]


def deny_to_node(s: State, node: NodeId) -> None:
    """A member that led this term, was removed and lost its majority may still be believed in, and cannot show by standing
    for election that it leads no more: tell a node that is heard again."""
    if s.vote == s.me and s.leader == 0 and not s.may_lead():
        s.messages_after += [
            NotLeading(member, s.me, s.term) for member in members_of(s.membership) if node_of(member) == node
        ]


def ask_node_who_leads(s: State, node: NodeId) -> None:
    """A learner never campaigns, and a leader whose own node was held up may not know that it was doubted: ask a node
    that is heard again."""
    if s.leader == 0 and s.installing is None and not s.may_lead():
        s.messages += [
            LeaderLookup(voter, s.me, s.term)
            for voter in s.membership.voters
            if voter != s.me and node_of(voter) == node
        ]


def refuse(s: State, request: VoteRequest) -> None:
    _answer(s, request, granted=False)


def _may_vote_for(s: State, request: VoteRequest) -> bool:
    """Whoever founded nothing and has nothing was never made a voter, for that takes an entry that it has: who asks it means an
    earlier life with its number, and does not know that what that had promised is lost."""
    if not s.log.last and not members_of(s.membership):
        return False
    return _is_up_to_date(s, request)


def _is_up_to_date(s: State, request: VoteRequest) -> bool:
    return (request.last_term, request.last_index) >= (s.log.last_term, s.log.last)


def _answer(s: State, request: VoteRequest, granted: bool) -> None:
    term = request.term if granted else s.term
    s.messages_after.append(VoteReply(request.sender, s.me, term, granted, request.pre))

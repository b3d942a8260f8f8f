"""Restart from the sole, damaged replica: no other node can repair it.

Its member would wait forever for a leader, which could only be itself. So it continues with what it has: an entry appended
to its log makes it the only voter, in a term without an election. What followed the damage is lost, confirmed messages
included, and messages whose acknowledgement was there are delivered again. This is reported, and never done where another
node may know more: neither if the catalog names one, nor if the member's own log does and the catalog may be older than that
log.
"""

from __future__ import annotations

from raft.core.membership import encode
from raft.core.messages import Entry, EntryKind, Membership, node_of
from raft.core.ready import Facts
from raft.store.member_store import MemberStore


def votes_alone(store: MemberStore) -> bool:
    """Whether the member needs nobody else, as its log says."""
    return store.memberships()[-1][1].voters == (store.member,)


def names_others(store: MemberStore) -> bool:
    """Whether a voter is on another node, as its log says."""
    return any(node_of(voter) != node_of(store.member) for voter in store.memberships()[-1][1].voters)


def begin_alone(store: MemberStore) -> int:
    """Has the member be the only voter from its next start on. Returns the last entry of what it goes on with."""
    kept, term = store.last_index(), store.facts().term + 1
    alone = Membership((store.member,))
    assert not votes_alone(store), f"member {store.member} votes alone already"
    store.append(Facts(term, 0), [Entry(kept + 1, term, EntryKind.MEMBERSHIP, encode(alone))])
    return kept

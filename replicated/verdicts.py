"""When a member obeys a leader that found its state to be wrong (GIVE_UP): it throws away what it has acknowledged.

So the verdict must come from the leader that this member follows now, in the term that it has on disk, and be about this very
member and not about an earlier one of its node. And the member must have said itself, when it was asked last, what the verdict
is about: a state after that entry which is another than the majority's. A verdict that is late, or that nobody may give, is
dropped; a leader compares again and repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping

from raft.messages import NodeId, node_of
from replicated.letters import Verdict
from replicated.ports import Driver, MemberStore


def is_due(verdict: Verdict, sender: NodeId, driver: Driver, store: MemberStore, told: Mapping[int, int]) -> bool:
    """`told`: the digests that this node has told of its member last, by the index of an entry."""
    standing = driver.standing
    return (
        node_of(verdict.leader) == sender
        and (standing.leader, standing.term) == (verdict.leader, verdict.term)
        and store.facts().term == verdict.term
        and driver.me == store.member == verdict.member
        and told.get(verdict.after, verdict.digest) != verdict.digest
    )

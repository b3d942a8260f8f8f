"""The votes that a member gathers during its campaign (raft/core/election.py)."""

from __future__ import annotations

from raft.core.majority import VoteOutcome, outcome
from raft.core.messages import MemberId


class Campaign:
    """Votes of one attempt, pre-vote or real. Only members that may vote are counted. `earlier`, of a pre-vote: the real
    attempt in the present term, whose votes may still come."""

    __slots__ = ("earlier", "granted", "refused")

    def __init__(self, earlier: Campaign | None = None) -> None:
        self.earlier = earlier
        self.granted: set[MemberId] = set()
        self.refused: set[MemberId] = set()

    def count(self, voter: MemberId, granted: bool) -> None:
        """The first answer of a voter is its answer."""
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).add(voter)

    def outcome(self, voters: tuple[MemberId, ...]) -> VoteOutcome:
        granted = sum([voter in self.granted for voter in voters])
        refused = sum([voter in self.refused for voter in voters])
        return outcome(len(voters), granted, refused)

"""Linearizable reads: the leader makes sure, after it was asked, that it still leads.

It notes its commit index and asks all voters to say a number back, in the term in which it leads. Once a majority has, no other
leader can have committed anything before the question, so the noted index is new enough. One such round is on its way; reads
that arrive meanwhile gather for the next, because the answers on their way may be older than they are. Time plays no part in
it: a paused process or a clock that jumps cannot make a read stale.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core.ready import ReadPoint


class Reads:
    """The rounds of one leadership. Numbers begin at 1; 0 is no round."""

    __slots__ = ("_asked", "_index", "round", "waiting", "wanted")

    round: int  # on its way, or the last one that was
    wanted: int  # the round that followers are to say back; 0: none is on its way

    def __init__(self) -> None:
        self.round = self.wanted = 0
        self._index = 0
        self._asked: list[int] = []  # tokens of the round on its way
        self.waiting: list[int] = []  # for the next round

    def wait(self, token: int) -> None:
        self.waiting.append(token)

    def begin(self, commit: int) -> bool:
        """Start a round if somebody waits and none is on its way. Whether it was started."""
        if self._asked or not self.waiting:
            return False
        self.round += 1
        self.wanted = self.round
        self._index = commit
        self._asked, self.waiting = self.waiting, []
        return True

    def confirmed(self, read_round: int) -> Sequence[ReadPoint]:
        """A majority has said this round back."""
        assert read_round <= self.round, f"read round {read_round} said back, only {self.round} were asked"
        if not self._asked or read_round < self.round:
            return ()
        asked, self._asked, self.wanted = self._asked, [], 0
        return [ReadPoint(token, self._index) for token in asked]

    def lost(self) -> Sequence[int]:
        """No leader will answer these here any more."""
        lost = self._asked + self.waiting
        self._asked, self.waiting, self.wanted = [], [], 0
        return lost

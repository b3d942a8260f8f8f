"""Which voters respond now? The node of a failed one is trusted for a while yet, and a voter under repair does not respond,
though its node does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broker.pending import Pending
from raft.core.majority import VoteOutcome, outcome
from raft.core.messages import MemberId
from replicated.ports import QueueLoop, QueueTimer

WITHIN_S = 2.0  # twice as long as it takes to suspect a node: then it is known why one has not answered


class RollCall:
    """Ends once: when more than half are there, when that many cannot be any more, or when time is up."""

    def __init__(self, voters: Sequence[MemberId], on_end: Callable[[Sequence[MemberId]], None]) -> None:
        self._voters = voters
        self._missing = list(voters)
        self._waited_for = set(voters)
        self._on_end = on_end  # told of those that are not there, as far as is known
        self._timer: QueueTimer | None = None

    def begin(self, is_there: Callable[[MemberId], Pending[bool]], loop: QueueLoop) -> None:
        self._timer = loop.call_later(WITHIN_S, self._end)
        for voter in self._voters:
            is_there(voter).then(partial(self._heard, voter), lambda error: None)  # time will be up

    def _heard(self, voter: MemberId, is_there: bool) -> None:
        if self._timer is None:
            return
        self._waited_for.discard(voter)
        if is_there:
            self._missing.remove(voter)
        there = len(self._voters) - len(self._missing)
        if outcome(len(self._voters), there, len(self._missing) - len(self._waited_for)) is not VoteOutcome.OPEN:
            self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._on_end(self._missing)

"""The entries of one quorum queue: what time they say it is, and the bodies that belong to their results.

Fulfils replicated.leader_route.Entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quorum import letters
from quorum.fifo import commands
from quorum.fifo.results import Result, TakenMessage
from quorum.letters import Fetched, QueueNews
from quorum.member import QueueMember
from raft.core.errors import Damaged, RaftError
from raft.core.messages import NodeId
from replicated.leader_route import OnAnswer
from replicated.ports import QueuePorts
from replicated.queue_time import QueueTime
from replicated.steady_time import SteadyTime


class QueueEntries:
    """See the module."""

    __slots__ = ("_group", "_groups", "_on_news", "_on_refused", "_time", "member")

    def __init__(
        self,
        group: int,
        ports: QueuePorts,
        on_news: Callable[[QueueNews], None],
        on_refused: Callable[[str], None],
        *,
        is_steady: bool = False,
    ) -> None:
        """`is_steady`: nothing may be early in it, whatever becomes of the wall clock."""
        self.member: QueueMember | None = None  # this node's, if it has one
        self._group = group
        self._groups = ports.groups
        self._time = (SteadyTime if is_steady else QueueTime)(ports.wall_ms, ports.monotonic)
        self._on_news = on_news
        self._on_refused = on_refused

    def now_ms(self) -> int:
        """What time it is in the queue, if it is led from here."""
        return self._time.now(self.member.machine.state.now if self.member is not None else 0)

    def entry(self, ops: Sequence[Any]) -> bytes:
        told = self.member.machine.state.now if self.member is not None else 0
        return b"".join((commands.entry_head(self._time.now(told)), *ops))

    def applied(self, on_answer: OnAnswer, results: Sequence[Result] | None, error: RaftError | None) -> None:
        if results is None:
            on_answer(None)
            return
        assert self.member is not None, f"group {self._group} has applied an entry here, without a member"
        try:
            bodies = [self.member.bodies.get(result.piece) for result in results if type(result) is TakenMessage]
        except Damaged as damage:  # asked again, another member gives the same message
            self._groups.damaged(self._group, damage)
            on_answer(None)
            return
        on_answer(letters.with_bodies(results, bodies) if bodies else results)

    def decode(self, answer: bytes) -> Sequence[Result | Fetched]:
        news, results = letters.decode_done(answer)
        self._on_news(news)
        return results

    def refused(self, node: NodeId, why: str) -> None:
        """The ops are proposed again, perhaps to another node some day."""
        self._on_refused(f"node {node} does not take what this node has to say: {why}")

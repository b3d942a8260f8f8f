"""This node leaves its cluster for good, in steps that may be cut short anywhere and begun again.

    draining   it takes no clients and leads nothing, and gets no members of queues any more
    moving     its members of replicated queues go, one queue at a time; others take their place as far as there is one
    leaving    it is removed from the catalog, and waits until the others know
    left       the process ends

Each step looks at what is left to be done, so a node that was killed meanwhile serves again when it starts, and goes on where
it was when it is told to leave again. What fails leaves the node in the cluster, and says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from broker.errors import BrokerError, PreconditionFailed
from broker.node_queues import NodeQueues
from front.node_ports import DecommissionPlan, DecommissionProgress, LostQueue, PlannedMove

Report = Callable[[DecommissionProgress], None]

logger = logging.getLogger("leveret")


def queues_at_home(broker: NodeQueues) -> list[LostQueue]:
    """Classic queues that live on this node and would be missed: not those that go with their connection."""
    found = []
    for queue in broker.queues():
        record = queue.record
        if record.kind == "classic" and record.home == broker.node and record.owner is None:
            counts = queue.counts()
            messages = counts.ready + counts.unacknowledged
            found.append(
                LostQueue(record.vhost, record.name, messages, counts.ready_bytes + counts.unacknowledged_bytes)
            )
    return sorted(found, key=lambda one: (one.vhost, one.queue))


class Decommissioning:
    """See the module."""

    def __init__(
        self,
        node: str,
        *,
        plan_moves: Callable[[], Sequence[PlannedMove]],
        lost_queues: Callable[[], Sequence[LostQueue]],
        obstacles: Callable[[], Sequence[str]],
        leave: Callable[[Report], Awaitable[None]],
    ) -> None:
        """`lost_queues`: classic queues that live here. `obstacles`: why the node cannot leave now. `leave` does it."""
        self.progress = DecommissionProgress(node)
        self._node = node
        self._plan_moves = plan_moves
        self._lost_queues = lost_queues
        self._obstacles = obstacles
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    def plan(self) -> DecommissionPlan:
        moves = self._plan_moves()
        lost = [move for move in moves if not move.copies]
        obstacles = [*self._obstacles()]
        if lost:
            obstacles.append(
                f"{len(lost)} replicated queues have their only member on node '{self._node}', such as '{lost[0].queue}' in "
                f"vhost '{lost[0].vhost}', and no other disk node can take it now: delete the queues, or add a node"
            )
        short = [move for move in moves if 0 < move.copies < move.copies_wanted]
        if short:
            obstacles.append(
                f"{len(short)} replicated queues would have too few copies, such as '{short[0].queue}' in vhost "
                f"'{short[0].vhost}' with {short[0].copies} instead of {short[0].copies_wanted}, for the nodes that could take "
                "one are down or drained: start or revive them, or forget them"
            )
        return DecommissionPlan(self._node, moves, self._lost_queues(), obstacles)

    def begin(self, *, lose_queues: bool) -> None:
        """Raises PreconditionFailed; then nothing has changed."""
        if self._task is not None and not self._task.done():
            return
        plan = self.plan()
        if plan.obstacles:
            raise PreconditionFailed(plan.obstacles[0])
        if plan.lost and not lose_queues:
            messages = sum(one.messages for one in plan.lost)
            raise PreconditionFailed(
                f"{len(plan.lost)} classic queues with {messages} messages live on node '{self._node}' and would be lost: "
                f"empty or move them first, or accept that"
            )
        self.progress = DecommissionProgress(self._node, total=len(plan.moves))
        self._report(replace(self.progress, phase="draining"))
        self._task = asyncio.get_running_loop().create_task(self._run())

    def _report(self, progress: DecommissionProgress) -> None:
        """Of a phase that counts nothing, what was counted before stays."""
        if not progress.total:
            progress = replace(progress, moved=self.progress.moved, total=self.progress.total)
        if progress.phase != self.progress.phase:
            logger.info("node '%s' is decommissioned: %s", self._node, progress.phase)
        self.progress = progress

    async def _run(self) -> None:
        """Whoever asked may be gone: what went wrong is in the progress, and in the log."""
        try:
            await self._leave(self._report)
        except BrokerError as error:
            logger.warning("node '%s' stays in its cluster: %s", self._node, error.text)
            self._failed(error.text)
        except Exception as fault:
            logger.exception("a bug while node '%s' was decommissioned: it stays in its cluster", self._node)
            self._failed(
                f"the node failed ({type(fault).__name__}); its log says how. Told again, it goes on with what is left"
            )

    def _failed(self, why: str) -> None:
        self.progress = replace(self.progress, phase="failed", error=why)

"""This node leaves its cluster for good, in steps that may be cut short anywhere and begun again.

    draining   it takes no clients and leads nothing, and gets no members of queues any more
    moving     its members of replicated queues go, one queue at a time; others take their place as far as there is one
    leaving    it is removed from the catalog, and waits until the others know
    left       the process ends
    waiting    something is in the way, as a node that is down and could take a copy: it looks again every AGAIN_S

That it is to leave is an intent, kept in the node's file of facts: written before anything is changed, with no need of a
majority, and gone with the disk. The catalog could have it, too, but only where all nodes are of a version that knows of it,
and taking it back would want a majority. Each step looks at what is left to be done, so a node that was killed meanwhile serves
again when it starts, and goes on by itself where it was. Up to the step `leaving` it can be taken back; what was moved stays
moved. A fault of the node's own is not tried again before it is told, or starts, again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from broker.errors import BrokerError, PreconditionFailed
from broker.node_queues import NodeQueues
from front.node_ports import DecommissionPlan, DecommissionProgress, LostQueue, PlannedMove
from node.identity import Departure

Report = Callable[[DecommissionProgress], None]
Check = Callable[[], None]

AGAIN_S = 5.0
NAMED_MAX = 5  # queues in a refusal
TOO_LATE = ("leaving", "left")

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


class LeavingIntent(Protocol):
    """What is needed of node/identity.py."""

    @property
    def leaving(self) -> Departure | None: ...

    def intend(self, leaving: Departure | None) -> None:
        """Durable when it returns."""


class Decommissioning:
    """See the module."""

    def __init__(
        self,
        node: str,
        intent: LeavingIntent,
        *,
        plan_moves: Callable[[], Sequence[PlannedMove]],
        lost_queues: Callable[[], Sequence[LostQueue]],
        obstacles: Callable[[], Sequence[str]],
        leave: Callable[[Report, Check], Awaitable[None]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`lost_queues`: classic queues that live here. `obstacles`: why the node cannot leave now. `leave` does it,
        and calls the check right before the node is removed."""
        self.progress = DecommissionProgress(node)
        self._node = node
        self._intent = intent
        self._plan_moves = plan_moves
        self._lost_queues = lost_queues
        self._obstacles = obstacles
        self._leave = leave
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    def plan(self) -> DecommissionPlan:
        moves = self._plan_moves()
        obstacles = [*self._obstacles(), *self._obstacles_of(moves)]
        return DecommissionPlan(self._node, moves, self._lost_queues(), obstacles)

    def _obstacles_of(self, moves: Sequence[PlannedMove]) -> list[str]:
        obstacles = []
        lost = [move for move in moves if not move.copies]
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
        return obstacles

    def refuse_losses(self, *, lose_queues: bool) -> None:
        """Raises PreconditionFailed where queues would be lost, or have too few copies, if the node left now. `lose_queues`
        accepts that of classic queues."""
        for obstacle in self._obstacles_of(self._plan_moves()):
            raise PreconditionFailed(obstacle)
        if not lose_queues:
            self._refuse_to_lose(self._lost_queues())

    def begin(self, *, lose_queues: bool) -> None:
        """Raises PreconditionFailed; then nothing has changed. One that waits takes up what it is told now."""
        if self._is_under_way() and self.progress.phase != "waiting":
            return
        plan = self._plan_without_obstacles(lose_queues)
        self._intent.intend(Departure(lose_queues))
        self._stop()
        self._start(plan)

    async def leave_now(self, *, lose_queues: bool) -> None:
        """For one who waits for it, and is told what is in the way: then the node stays, and so it does where who asked goes
        away. Where its process ends meanwhile, the next one goes on as if it had been told to `begin`."""
        if self._intent.leaving is not None:
            raise PreconditionFailed(
                f"node '{self._node}' was told to leave its cluster already, and is {self.progress.phase}: let it stay first, "
                "or wait"
            )
        self.refuse_losses(lose_queues=lose_queues)
        self._intent.intend(Departure(lose_queues))
        try:
            self._report(DecommissionProgress(self._node, "draining"))
            await self._leave(self._report, partial(self._check_wanted, lose_queues))
        except BaseException:
            if not self._is_under_way():
                self._intent.intend(None)
                self.progress = DecommissionProgress(self._node)
            raise

    def _check_wanted(self, lose_queues: bool) -> None:
        """Its members have moved: clients declare queues meanwhile, and it may have been taken back."""
        if self._intent.leaving is None:
            raise PreconditionFailed(f"node '{self._node}' stays in its cluster: its leaving was taken back")
        self.refuse_losses(lose_queues=lose_queues)

    def go_on(self) -> None:
        """The node has started: if it was to leave before, it is still."""
        if self._intent.leaving is not None:
            logger.warning("node '%s' was told to leave its cluster before it started, and goes on", self._node)
            self._wait_because("the node has just started")
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take_back(self) -> None:
        """The node stays. Raises PreconditionFailed where it is being removed, or does not leave."""
        if self._intent.leaving is None:
            raise PreconditionFailed(f"node '{self._node}' was not told to leave its cluster")
        if self.progress.phase in TOO_LATE:
            raise PreconditionFailed(f"node '{self._node}' is being removed from its cluster already")
        self._intent.intend(None)
        self._stop()
        logger.warning("node '%s' stays in its cluster: its decommission was taken back", self._node)
        self.progress = DecommissionProgress(self._node)

    def sentences(self) -> tuple[str, ...]:
        """For operators at any node; each goes on behind the name of this one."""
        if self._intent.leaving is None:
            return ()
        now = self.progress
        why = f": {now.error}" if now.error else f": {now.moved} of {now.total} queues are moved"
        return (f"is to leave the cluster, {now.phase}{why}",)

    def stop(self) -> None:
        """The process ends. What was begun goes on with the next one."""
        self._stop()

    def _is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _start(self, plan: DecommissionPlan) -> None:
        self.progress = DecommissionProgress(self._node, total=len(plan.moves))
        self._report(replace(self.progress, phase="draining"))
        self._task = asyncio.get_running_loop().create_task(self._run(at_once=True))

    def _plan_without_obstacles(self, lose_queues: bool) -> DecommissionPlan:
        plan = self.plan()
        if plan.obstacles:
            raise PreconditionFailed(plan.obstacles[0])
        if not lose_queues:
            self._refuse_to_lose(plan.lost)
        return plan

    def _refuse_to_lose(self, lost: Sequence[LostQueue]) -> None:
        if lost:
            messages = sum(one.messages for one in lost)
            raise PreconditionFailed(
                f"{len(lost)} classic queues with {messages} messages live on node '{self._node}' and would be lost, "
                f"{_named(lost)}: convert or delete them first, or accept their loss (lose_queues)"
            )

    def _check_again(self) -> None:
        """Clients declare queues here as long as it moves: for hours, perhaps."""
        if not self._loses_queues:
            self._refuse_to_lose(self._lost_queues())

    @property
    def _loses_queues(self) -> bool:
        leaving = self._intent.leaving
        return leaving is not None and leaving.lose_queues

    def _report(self, progress: DecommissionProgress) -> None:
        """Of a phase that counts nothing, what was counted before stays."""
        if not progress.total:
            progress = replace(progress, moved=self.progress.moved, total=self.progress.total)
        if progress.phase != self.progress.phase:
            logger.info("node '%s' is decommissioned: %s", self._node, progress.phase)
        self.progress = progress

    async def _run(self, *, at_once: bool = False) -> None:
        """Whoever asked may be gone: what is in the way is in the progress, and in the log."""
        try:
            while not (at_once and await self._attempted()):
                await self._pause(AGAIN_S)
                at_once = self._may_begin()
        except Exception as fault:
            logger.exception("a bug while node '%s' was decommissioned: it stays in its cluster", self._node)
            self._failed(
                f"the node failed ({type(fault).__name__}); its log says how. Told again, or started, it goes on"
            )

    def _may_begin(self) -> bool:
        """Whether nothing is in the way any more; then it is drained again."""
        try:
            plan = self._plan_without_obstacles(self._loses_queues)
        except BrokerError as error:
            self._wait_because(error.text)
            return False
        self.progress = replace(self.progress, moved=0, total=len(plan.moves))
        self._report(replace(self.progress, phase="draining", error=""))
        return True

    async def _attempted(self) -> bool:
        """Whether it has left."""
        try:
            await self._leave(self._report, self._check_again)
        except BrokerError as error:
            self._wait_because(error.text)
            return False
        return True

    def _wait_because(self, why: str) -> None:
        if why != self.progress.error:
            logger.warning("node '%s' stays in its cluster and tries again to leave it: %s", self._node, why)
        self._report(replace(self.progress, phase="waiting", error=why))

    def _failed(self, why: str) -> None:
        self.progress = replace(self.progress, phase="failed", error=why)


def _named(lost: Sequence[LostQueue]) -> str:
    """Those with the most messages."""
    most = sorted(lost, key=lambda one: -one.messages)[:NAMED_MAX]
    named = ", ".join(f"'{one.queue}' in vhost '{one.vhost}' with {one.messages}" for one in most)
    return f"{named} and {len(lost) - len(most)} more" if len(lost) > len(most) else named

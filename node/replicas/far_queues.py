"""How the replicated queues are of which this node has no member, asked of the nodes that have one when somebody looks.

Topic QUEUES of node/peers/calls.py, with the letters of replicated/letters.py: one letter asks a node for many queues. A
node that knows of no leader, or has no member any more, or does not answer, is followed by the next one, until one names a
leader. One that has not answered within ANSWER_S_MAX is asked for nothing more in the same look. What is found counts for
FRESH_S. A node of a version without these letters is asked for each queue by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Protocol

from broker.records import QueueRecord
from front.answers import answered
from front.slices import step_by_step
from node.peers.calls import QUEUES, Answer, Handler, OnAnswer, Payload
from raft.core.messages import NodeId
from replicated import letters
from replicated.kinds import ReplicatedKinds
from replicated.leader_route import LeaderSight
from replicated.letters import MemberReport
from replicated.queue import ReplicatedQueue

FRESH_S = 1.0
ANSWER_S_MAX = 1.0  # of one node
ASKED_AT_ONCE = 500  # queues, in one letter: a few milliseconds of the node that answers
SEARCHED_AT_ONCE = 5_000  # queues, of all nodes: sorting them by nodes takes a millisecond or two
OLDER_AT_ONCE = 16  # queues, of a node that is asked one by one


class LookCalls(Protocol):
    """What is needed of node/peers/calls.py."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None: ...

    def serve(self, topic: int, handler: Handler) -> None: ...


class _Search:
    """For somebody who knows how one queue is."""

    __slots__ = ("best", "nodes", "queue")

    def __init__(self, queue: ReplicatedQueue, nodes: list[NodeId]) -> None:
        self.queue = queue
        self.nodes = nodes  # that are still to be asked, the last one first
        self.best: MemberReport | None = None

    @property
    def goes_on(self) -> bool:
        return bool(self.nodes) and (self.best is None or not self.best.leader)

    def heard(self, report: MemberReport | None) -> None:
        if report is not None and (self.best is None or report.leader):
            self.best = report


class FarQueues:
    """See the module."""

    def __init__(
        self,
        kinds: ReplicatedKinds,
        calls: LookCalls,
        reaches: Callable[[NodeId], bool],
        name_of: Callable[[NodeId], str],
    ) -> None:
        self._kinds = kinds
        self._calls = calls
        self._reaches = reaches
        self._name_of = name_of

    def serve(self) -> None:
        """From now on other nodes are answered."""
        self._calls.serve(QUEUES, self._asked)

    def _asked(self, _: NodeId, letter: bytes, answer: Answer | None) -> None:
        reports = map(self._kinds.report, letters.groups_asked_for(letter))
        if answer is not None:
            answer(letters.told_reports(report for report in reports if report is not None))

    async def look(self, records: Iterable[QueueRecord] | None) -> Sequence[str]:
        """Afterwards these queues, None: all, show how they are. Returns the names of the nodes of members where none has
        answered."""
        searches: list[_Search] = []
        queues = list(self._kinds) if records is None else map(self._kinds.find, records)
        await step_by_step(self._begin(queues, searches, _loop_s()))
        silent: set[NodeId] = set()
        hanging: set[NodeId] = set()
        for at in range(0, len(searches), SEARCHED_AT_ONCE):
            silent |= await self._search(searches[at : at + SEARCHED_AT_ONCE], hanging)
        return sorted(map(self._name_of, silent))

    async def _search(self, searches: Sequence[_Search], hanging: set[NodeId]) -> set[NodeId]:
        """Returns the nodes that should have told of those of which nobody has."""
        looking = [one for one in searches if one.nodes]
        while looking:
            await self._ask_next(looking, hanging)
            looking = [one for one in looking if one.goes_on]
        await step_by_step(self._settle(searches))
        return {node for one in searches if one.best is None for node in one.queue.member_nodes()}

    def _begin(self, queues: Iterable[ReplicatedQueue | None], searches: list[_Search], now: float) -> Iterator[None]:
        reaches = cache(self._reaches)  # for this look
        for queue in queues:
            if queue is not None and queue.member is None:
                sight = queue.route.sight
                if sight is None or not sight.answered or now >= sight.at_s + FRESH_S:
                    searches.append(_Search(queue, _nodes_of(queue, reaches)))
            yield

    async def _ask_next(self, looking: Iterable[_Search], hanging: set[NodeId]) -> None:
        of_nodes: dict[NodeId, list[_Search]] = {}
        for search in looking:
            node = search.nodes.pop()
            if node not in hanging:
                of_nodes.setdefault(node, []).append(search)
        asks = [
            (node, some[at : at + ASKED_AT_ONCE])
            for node, some in of_nodes.items()
            for at in range(0, len(some), ASKED_AT_ONCE)
        ]
        answering = await asyncio.gather(*[self._ask(*one) for one in asks])
        hanging.update(node for (node, _), answers in zip(asks, answering, strict=True) if not answers)

    async def _ask(self, node: NodeId, some: Sequence[_Search]) -> bool:
        """False: it has not answered."""
        asked: asyncio.Future[list[MemberReport] | None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: bytes | None) -> None:
            reports = None if answer is None else letters.decode_reports(answer)
            if not asked.done():
                asked.set_result(reports)

        self._calls.ask(node, QUEUES, letters.ask_reports(one.queue.group for one in some), on_answer)
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                reports = await asked
        except TimeoutError:
            return False
        if reports is None:
            return await self._ask_older(node, some)
        by_group = {one.queue.group: one for one in some}
        for report in reports:
            if report.group in by_group:
                by_group[report.group].heard(report)
        return True

    async def _ask_older(self, node: NodeId, some: Sequence[_Search]) -> bool:
        """One that does not know these letters, or is gone. False: it hangs, and was waited for once and not for each queue."""
        left, answers = list(some), True

        async def ask_some() -> None:
            nonlocal answers
            while left:
                search = left.pop()
                try:
                    search.heard(await self._figures(search.queue, node))
                except TimeoutError:
                    answers = False
                    left.clear()

        await asyncio.gather(*[ask_some() for _ in range(OLDER_AT_ONCE)])
        return answers

    async def _figures(self, queue: ReplicatedQueue, node: NodeId) -> MemberReport | None:
        async with asyncio.timeout(ANSWER_S_MAX):
            figures = await answered(self._kinds.administration_of(queue).figures(queue, node))
        return None if figures is None else letters.report_of_figures(queue.group, figures)

    def _settle(self, searches: Iterable[_Search]) -> Iterator[None]:
        for search in searches:
            queue, best = search.queue, search.best
            queue.route.sight = LeaderSight(_loop_s(), best is not None, 0 if best is None else best.leader)
            if best is not None:
                self._kinds.reported(queue, best)
            yield


def _nodes_of(queue: ReplicatedQueue, reaches: Callable[[NodeId], bool]) -> list[NodeId]:
    """The leader as it was known comes last, and so is asked first; else where it was declared."""
    nodes = [node for node in reversed(queue.member_nodes()) if reaches(node)]
    sight = queue.route.sight
    if sight is not None and sight.leader in nodes:
        nodes.remove(sight.leader)
        nodes.append(sight.leader)
    return nodes


def _loop_s() -> float:
    return asyncio.get_running_loop().time()

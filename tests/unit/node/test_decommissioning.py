"""node/membership/decommissioning.py: which queues would be missed, what keeps a node from leaving, and how far it is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import PreconditionFailed, ResourceExhausted
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.node_ports import DecommissionProgress, LostQueue, PlannedMove
from node.membership.decommissioning import Decommissioning, Report, queues_at_home

MOVE = PlannedMove("/", "q", "quorum", to="n2", copies=3, copies_before=3, copies_wanted=3, leads=True, bytes=5)


def hosted(name: str, home: str = "n1", kind: str = "classic", owner: str | None = None, **counts: int) -> Any:
    record = QueueRecord("/", name, kind, True, owner is not None, False, {}, 1, home, owner)
    return SimpleNamespace(record=record, counts=lambda: QueueStatistics(**counts))


def test_those_queues_are_missed_that_live_here_and_go_with_no_connection() -> None:
    queues = [
        hosted("b", ready=2, ready_bytes=20, unacknowledged=3, unacknowledged_bytes=30), hosted("a"),
        hosted("elsewhere", home="n2", ready=1), hosted("of a connection", owner="1"), hosted("replicated", kind="quorum"),
    ]  # fmt: skip
    broker: Any = SimpleNamespace(node="n1", queues=lambda: iter(queues))
    assert queues_at_home(broker) == [LostQueue("/", "a", 0, 0), LostQueue("/", "b", 5, 50)]


class Leaving:
    """A node that leaves as the test says."""

    def __init__(self, *reports: DecommissionProgress, error: Exception | None = None) -> None:
        self.moves = [MOVE]
        self.obstacles: list[str] = []
        self.lost: list[LostQueue] = []
        self.seen: list[tuple[str, int, int]] = []
        self.times_left = 0
        self._reports = reports
        self._error = error
        self.node = Decommissioning(
            "n1",
            plan_moves=lambda: self.moves,
            lost_queues=lambda: self.lost,
            obstacles=lambda: self.obstacles,
            leave=self.leave,
        )

    async def leave(self, report: Report) -> None:
        self.times_left += 1
        for progress in self._reports:
            report(progress)
            now = self.node.progress
            self.seen.append((now.phase, now.moved, now.total))
        if self._error is not None:
            raise self._error

    async def told(self) -> None:
        self.node.begin(lose_queues=False)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


def test_what_was_counted_stays_in_phases_that_count_nothing() -> None:
    leaving = Leaving(
        DecommissionProgress("n1", "moving", 1, 2), DecommissionProgress("n1", "moving", 2, 2),
        DecommissionProgress("n1", "leaving"), DecommissionProgress("n1", "left"),
    )  # fmt: skip
    asyncio.run(leaving.told())
    assert leaving.seen == [("moving", 1, 2), ("moving", 2, 2), ("leaving", 2, 2), ("left", 2, 2)]


def test_an_attempt_after_one_that_failed_begins_with_a_count_of_its_own() -> None:
    async def story() -> None:
        leaving = Leaving(DecommissionProgress("n1", "moving", 1, 1), error=ResourceExhausted("no majority"))
        await leaving.told()
        assert (leaving.node.progress.phase, leaving.node.progress.error) == ("failed", "no majority")
        leaving.moves = [MOVE, MOVE]
        leaving.node.begin(lose_queues=False)
        assert leaving.node.progress == DecommissionProgress("n1", "draining", 0, 2)

    asyncio.run(story())


def test_a_fault_of_the_node_ends_it_and_it_may_be_told_again() -> None:
    async def story() -> None:
        leaving = Leaving(DecommissionProgress("n1", "moving", 1, 1), error=KeyError("q"))
        await leaving.told()
        progress = leaving.node.progress
        assert (progress.phase, progress.moved) == ("failed", 1)
        assert progress.error.startswith("the node failed (KeyError); its log says how")
        await leaving.told()
        assert leaving.times_left == 2

    asyncio.run(story())


def test_classic_queues_are_lost_only_where_that_is_accepted() -> None:
    async def story() -> None:
        leaving = Leaving()
        leaving.lost = [LostQueue("/", "a", 2, 20), LostQueue("/", "b", 3, 30)]
        with pytest.raises(
            PreconditionFailed, match="2 classic queues with 5 messages live on node 'n1' and would be lost"
        ):
            leaving.node.begin(lose_queues=False)
        assert leaving.node.progress.phase == "none"
        leaving.node.begin(lose_queues=True)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        assert leaving.times_left == 1

    asyncio.run(story())


def test_who_is_told_again_while_it_leaves_goes_on_as_it_was() -> None:
    async def story() -> None:
        leaving = Leaving(DecommissionProgress("n1", "moving", 1, 1))
        leaving.node.begin(lose_queues=False)
        leaving.moves, leaving.obstacles = [], ["it is leaving"]
        await leaving.told()
        assert (leaving.times_left, leaving.seen) == (1, [("moving", 1, 1)])

    asyncio.run(story())


def test_a_node_whose_queue_would_be_gone_or_that_has_a_single_obstacle_stays() -> None:
    leaving = Leaving()
    leaving.obstacles = ["it is the last one"]
    with pytest.raises(PreconditionFailed, match="the last one"):
        leaving.node.begin(lose_queues=True)
    leaving.obstacles, leaving.moves = (
        [],
        [PlannedMove("/", "only", "quorum", "", 0, 1, copies_wanted=1, leads=True, bytes=0)],
    )
    with pytest.raises(
        PreconditionFailed, match="1 replicated queues have their only member on node 'n1', such as 'only'"
    ):
        leaving.node.begin(lose_queues=True)
    assert (leaving.times_left, leaving.node.progress.phase) == (0, "none")

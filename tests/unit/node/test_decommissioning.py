"""node/membership/decommissioning.py: which queues would be missed, what keeps a node from leaving, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import PreconditionFailed, ResourceExhausted
from broker.queues.queue_type import QueueStatistics
from broker.records import QueueRecord
from front.node_ports import DecommissionProgress, LostQueue, PlannedMove
from node.identity import Departure
from node.membership.decommissioning import AGAIN_S, Check, Decommissioning, Report, queues_at_home

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


class Facts:
    """Of a node. Fulfils LeavingIntent; what the process before wrote is there when the next one begins."""

    def __init__(self) -> None:
        self.leaving: Departure | None = None

    def intend(self, leaving: Departure | None) -> None:
        self.leaving = leaving


class Leaver:
    """A node that leaves as the test says. `errors` come one by one, and then it leaves."""

    def __init__(
        self, *reports: DecommissionProgress, errors: Sequence[Exception] = (), facts: Facts | None = None
    ) -> None:
        self.moves = [MOVE]
        self.obstacles: list[str] = []
        self.lost: list[LostQueue] = []
        self.seen: list[tuple[str, int, int]] = []
        self.waited: list[str] = []  # why, in each pause
        self.times_left = 0
        self.during_pause: Callable[[], None] = lambda: None
        self.while_moving: Callable[[], None] = lambda: None
        self.facts = facts or Facts()
        self._reports = reports
        self._errors = list(errors)
        self.node = Decommissioning(
            "n1",
            self.facts,
            plan_moves=lambda: self.moves,
            lost_queues=lambda: self.lost,
            obstacles=lambda: self.obstacles,
            leave=self.leave,
            pause=self.pause,
        )

    async def leave(self, report: Report, check: Check) -> None:
        self.times_left += 1
        for progress in self._reports:
            report(progress)
            now = self.node.progress
            self.seen.append((now.phase, now.moved, now.total))
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors.pop(0)
        self.while_moving()
        check()
        report(DecommissionProgress("n1", "left"))

    async def pause(self, seconds: float) -> None:
        assert (seconds, self.node.progress.phase) == (AGAIN_S, "waiting")
        self.waited.append(self.node.progress.error)
        assert len(self.waited) < 10, "it waits for ever"
        await asyncio.sleep(0)
        self.during_pause()

    async def told(self, *, lose_queues: bool = False) -> None:
        self.node.begin(lose_queues=lose_queues)
        await self.ended()

    async def ended(self) -> None:
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


def test_what_was_counted_stays_in_phases_that_count_nothing() -> None:
    leaver = Leaver(
        DecommissionProgress("n1", "moving", 1, 2), DecommissionProgress("n1", "moving", 2, 2),
        DecommissionProgress("n1", "leaving"),
    )  # fmt: skip
    asyncio.run(leaver.told())
    assert leaver.seen == [("moving", 1, 2), ("moving", 2, 2), ("leaving", 2, 2)]
    assert leaver.node.progress == DecommissionProgress("n1", "left", 2, 2)


def test_what_is_in_the_way_is_told_and_waited_for_and_each_attempt_has_a_count_of_its_own() -> None:
    leaver = Leaver(DecommissionProgress("n1", "moving", 1, 2), errors=[ResourceExhausted("no majority")])

    def one_is_left() -> None:
        leaver.obstacles = ["n2 is down"] if len(leaver.waited) < 3 else []
        leaver.moves = [MOVE, MOVE, MOVE]

    leaver.during_pause = one_is_left
    asyncio.run(leaver.told())
    assert leaver.waited == ["no majority", "n2 is down", "n2 is down"]
    assert (leaver.times_left, leaver.node.progress.phase, leaver.node.progress.error) == (2, "left", "")


def test_a_fault_of_the_node_ends_it_and_it_may_be_told_again() -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", "moving", 1, 1), errors=[KeyError("q")])
        await leaver.told()
        progress = leaver.node.progress
        assert (progress.phase, progress.moved) == ("failed", 1)
        assert progress.error.startswith("the node failed (KeyError); its log says how")
        await leaver.told()
        assert (leaver.times_left, leaver.waited) == (2, [])

    asyncio.run(story())


def test_a_node_that_was_killed_goes_on_by_itself_when_it_starts_and_accepts_what_was_accepted() -> None:
    async def story() -> None:
        killed = Leaver()
        killed.node.begin(lose_queues=True)
        assert killed.facts.leaving == Departure(lose_queues=True)
        killed.node.stop()
        await killed.ended()
        started = Leaver(facts=killed.facts)
        started.lost = [LostQueue("/", "a", 2, 20)]
        started.node.go_on()
        assert started.node.progress.phase == "waiting"
        await started.ended()
        assert (started.times_left, started.waited, started.node.progress.phase) == (
            1,
            ["the node has just started"],
            "left",
        )

    asyncio.run(story())


def test_all_nodes_tell_of_one_that_is_to_leave_how_far_it_is_or_what_it_waits_for() -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", "moving", 1, 2), errors=[ResourceExhausted("no majority")])
        assert leaver.node.sentences() == ()
        leaver.node.begin(lose_queues=False)
        await asyncio.sleep(0)
        assert leaver.node.sentences() == ("is to leave the cluster, moving: 1 of 2 queues are moved",)
        await asyncio.sleep(0)
        assert leaver.node.sentences() == ("is to leave the cluster, waiting: no majority",)
        leaver.node.take_back()
        assert leaver.node.sentences() == ()

    asyncio.run(story())


def test_a_node_that_was_not_told_to_leave_stays_when_it_starts() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.node.go_on()
        await leaver.ended()
        assert (leaver.times_left, leaver.node.progress.phase) == (0, "none")

    asyncio.run(story())


def test_one_that_goes_on_loses_no_classic_queue_that_nobody_has_given_up() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.facts.intend(Departure(lose_queues=False))
        leaver.lost = [LostQueue("/", "a", 2, 20)]
        leaver.during_pause = lambda: leaver.lost.clear() if len(leaver.waited) == 3 else None
        leaver.node.go_on()
        await leaver.ended()
        assert all("1 classic queues with 2 messages live on" in why for why in leaver.waited[1:])
        assert (len(leaver.waited), leaver.times_left) == (3, 1)

    asyncio.run(story())


@pytest.mark.parametrize("accepted", [False, True])
def test_a_classic_queue_that_was_declared_while_members_moved_is_lost_only_where_that_is_accepted(
    accepted: bool,
) -> None:
    """It was looked for before the first member moved only, and what was confirmed to it until the last had went with it."""
    leaver = Leaver()
    declared = [LostQueue("/", "late", 3, 30)]
    leaver.while_moving = lambda: leaver.lost.extend(declared)

    def emptied() -> None:
        leaver.lost.clear()
        declared.clear()

    leaver.during_pause = emptied
    asyncio.run(leaver.told(lose_queues=accepted))
    refusal = (
        "1 classic queues with 3 messages live on node 'n1' and would be lost, 'late' in vhost '/' with 3: convert or delete "
        "them first, or accept their loss (lose_queues)"
    )
    assert (leaver.waited, leaver.node.progress.phase) == ([] if accepted else [refusal], "left")


def test_who_waits_takes_up_what_it_is_told_now() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.facts.intend(Departure(lose_queues=False))
        leaver.lost = [LostQueue("/", "a", 2, 20)]
        leaver.node.go_on()
        leaver.node.begin(lose_queues=True)
        assert (leaver.node.progress.phase, leaver.facts.leaving) == ("draining", Departure(lose_queues=True))
        await leaver.ended()
        assert (leaver.times_left, leaver.waited) == (1, [])

    asyncio.run(story())


def test_who_is_told_anew_while_it_waits_leaves_once() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.facts.intend(Departure(lose_queues=False))
        leaver.lost = [LostQueue("/", "a", 2, 20)]
        leaver.node.go_on()
        await asyncio.sleep(0)
        assert leaver.waited == ["the node has just started"]
        leaver.node.begin(lose_queues=True)
        await leaver.ended()
        assert (leaver.times_left, leaver.node.progress.phase) == (1, "left")

    asyncio.run(story())


@pytest.mark.parametrize("waits", [False, True])
def test_it_is_taken_back_for_good_while_it_moves_and_while_it_waits(waits: bool) -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", "moving", 1, 2))
        if waits:
            leaver.facts.intend(Departure(lose_queues=False))
            leaver.node.go_on()
        else:
            leaver.node.begin(lose_queues=False)
        await asyncio.sleep(0)
        assert leaver.node.progress.phase == ("waiting" if waits else "moving")
        leaver.node.take_back()
        await leaver.ended()
        assert (leaver.node.progress, leaver.facts.leaving) == (DecommissionProgress("n1"), None)
        assert not leaver.waited[1:] and leaver.times_left == (not waits)

    asyncio.run(story())


@pytest.mark.parametrize("phase", ["leaving", "left"])
def test_a_node_that_is_being_removed_and_one_that_does_not_leave_take_nothing_back(phase: str) -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", phase))
        with pytest.raises(PreconditionFailed, match="'n1' was not told to leave its cluster"):
            leaver.node.take_back()
        leaver.node.begin(lose_queues=False)
        await asyncio.sleep(0)
        with pytest.raises(PreconditionFailed, match="'n1' is being removed from its cluster already"):
            leaver.node.take_back()
        assert leaver.facts.leaving is not None

    asyncio.run(story())


def test_classic_queues_are_lost_only_where_that_is_accepted() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.lost = [LostQueue("/", "a", 2, 20), LostQueue("/", "b", 3, 30)]
        with pytest.raises(
            PreconditionFailed, match="2 classic queues with 5 messages live on node 'n1' and would be lost"
        ):
            leaver.node.begin(lose_queues=False)
        assert (leaver.node.progress.phase, leaver.facts.leaving) == ("none", None), (
            "nor does it leave when it starts again"
        )
        leaver.node.begin(lose_queues=True)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        assert leaver.times_left == 1

    asyncio.run(story())


def test_who_is_told_again_while_it_leaves_goes_on_as_it_was() -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", "moving", 1, 1))
        leaver.node.begin(lose_queues=False)
        leaver.moves, leaver.obstacles = [], ["it is leaving"]
        await leaver.told()
        assert (leaver.times_left, leaver.seen) == (1, [("moving", 1, 1)])

    asyncio.run(story())


def test_a_node_whose_queue_would_be_gone_or_that_has_a_single_obstacle_stays() -> None:
    leaver = Leaver()
    leaver.obstacles = ["it is the last one"]
    with pytest.raises(PreconditionFailed, match="the last one"):
        leaver.node.begin(lose_queues=True)
    leaver.obstacles, leaver.moves = (
        [],
        [PlannedMove("/", "only", "quorum", "", 0, 1, copies_wanted=1, leads=True, bytes=0)],
    )
    with pytest.raises(
        PreconditionFailed, match="1 replicated queues have their only member on node 'n1', such as 'only'"
    ):
        leaver.node.begin(lose_queues=True)
    assert (leaver.times_left, leaver.node.progress.phase) == (0, "none")


def test_a_node_that_was_killed_while_it_left_goes_on_when_it_starts() -> None:
    async def story() -> None:
        killed = Leaver(errors=[ResourceExhausted("no majority")])
        leaving = asyncio.create_task(killed.node.leave_now(lose_queues=True))
        await asyncio.sleep(0)
        assert killed.node.sentences() == ("is to leave the cluster, draining: 0 of 0 queues are moved",)
        facts = Facts()
        facts.intend(killed.facts.leaving)  # as they are on the disk of the next process
        with pytest.raises(ResourceExhausted):
            await leaving
        again = Leaver(facts=facts)
        again.lost = [LostQueue("/", "q", 1, 10)]
        again.node.go_on()
        await again.ended()
        assert (again.times_left, again.node.progress.phase) == (1, "left")

    asyncio.run(story())


@pytest.mark.parametrize("how", ["refused", "given up"])
def test_a_node_whose_leaving_did_not_come_about_stays_when_it_starts(how: str) -> None:
    async def story() -> None:
        leaver = Leaver(errors=[ResourceExhausted("no majority")])
        leaving = asyncio.create_task(leaver.node.leave_now(lose_queues=False))
        await asyncio.sleep(0)
        if how == "given up":
            leaving.cancel()
        with pytest.raises(ResourceExhausted if how == "refused" else asyncio.CancelledError):
            await leaving
        assert (leaver.facts.leaving, leaver.node.sentences()) == (None, ())
        assert leaver.node.progress == DecommissionProgress("n1")

    asyncio.run(story())


def test_who_is_told_for_good_while_somebody_waits_for_it_leaves_though_that_one_goes_away() -> None:
    """What was told since stayed in memory only: its next process would have stayed in the cluster."""

    async def story() -> None:
        leaver = Leaver()
        leaver.while_moving = lambda: None
        leaving = asyncio.create_task(leaver.node.leave_now(lose_queues=False))
        await asyncio.sleep(0)
        leaver.node.begin(lose_queues=True)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert leaver.facts.leaving == Departure(True)
        await leaver.ended()
        assert leaver.node.progress.phase == "left"

    asyncio.run(story())


def test_a_node_that_stops_tries_no_more_and_its_next_process_goes_on() -> None:
    async def story() -> None:
        leaver = Leaver(errors=[ResourceExhausted("no majority")])
        leaver.node.begin(lose_queues=False)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert leaver.waited, "it is between two attempts"
        leaver.node.stop()
        await leaver.ended()
        assert (leaver.times_left, leaver.facts.leaving) == (1, Departure(False))

    asyncio.run(story())


def test_an_attempt_that_begins_anew_says_so_and_what_there_is_to_move_now() -> None:
    async def story() -> None:
        leaver = Leaver(DecommissionProgress("n1", "draining"), errors=[ResourceExhausted("no majority")])
        leaver.during_pause = lambda: setattr(leaver, "moves", [MOVE] * 3)
        await leaver.told()
        assert leaver.seen == [("draining", 0, 1), ("draining", 0, 3)]
        assert leaver.node.progress.error == ""

    asyncio.run(story())


def test_a_leaving_that_is_taken_back_while_members_move_removes_nothing() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.while_moving = leaver.node.take_back
        with pytest.raises(PreconditionFailed, match="its leaving was taken back"):
            await leaver.node.leave_now(lose_queues=False)
        assert leaver.facts.leaving is None

    asyncio.run(story())


def test_who_is_to_leave_already_is_not_told_to_leave_at_once() -> None:
    async def story() -> None:
        leaver = Leaver()
        leaver.node.begin(lose_queues=False)
        with pytest.raises(PreconditionFailed, match="was told to leave its cluster already, and is draining"):
            await leaver.node.leave_now(lose_queues=True)
        await leaver.ended()
        assert leaver.times_left == 1

    asyncio.run(story())

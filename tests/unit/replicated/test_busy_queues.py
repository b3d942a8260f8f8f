"""replicated/busy_queues.py: which queues are looked after, how often, and when no more."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicated.busy_queues import CHECKED_AT_ONCE, LOOK_S, BusyQueues
from tests.sim.clock import SimLoop


class Noting:
    """Any part of a queue: remembers what it was told, and answers what the test says."""

    attendants = (3,)

    def __init__(self, told: list[tuple[Any, ...]], **answers: Any) -> None:
        self._told = told
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._told.append((name, *arguments))
            return self._answers.get(name)

        return call


class OneQueue:
    """A queue as this file needs it."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.leading: Noting | None = Noting(self.told)
        self.remote_serving: Noting | None = Noting(self.told, go_on=True)
        self.finds_no_leader = True
        self.asks = True

    def try_again(self) -> None:
        self.told.append(("try_again",))

    def still_asks(self) -> bool:
        self.told.append(("still_asks",))
        return self.asks

    def take(self) -> list[tuple[Any, ...]]:
        """What it was told since the last time."""
        told, self.told[:] = list(self.told), []
        return told


@pytest.fixture
def world() -> SimpleNamespace:
    loop = SimLoop()
    return SimpleNamespace(loop=loop, busy=BusyQueues(loop), queue=OneQueue())


def test_a_queue_is_looked_after_while_it_is_led_here_and_no_longer(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    busy.leading_changed(queue)
    busy.tick(5)
    busy.writable(2)
    busy.link_changed(3, came=False)
    assert queue.take() == [("tell_news",), ("check", 5), ("writable", 2), ("link_went", 3)]
    queue.leading = None
    busy.leading_changed(queue)
    assert list(busy.led) == []
    queue.leading = Noting(queue.told)  # again, and nobody has said so yet
    busy.tick(5_000)
    assert queue.take() == []


def test_ten_ticks_look_after_all_that_are_led_here_and_none_after_more_than_a_tenth(world: SimpleNamespace) -> None:
    busy, queues = world.busy, [OneQueue() for _ in range(41)]
    for queue in queues:
        busy.leading_changed(queue)
    busy.tick(0)  # the first looks at all
    for queue in queues:
        assert ("check", 0) in queue.take()
    busy.forget(queues.pop())
    for now in range(100, 1_001, 100):
        busy.tick(now)
        checked = [queue for queue in queues if ("check", now) in queue.told]
        assert len(checked) == 4
    assert all(sum(name == "check" for name, *_ in queue.told) == 1 for queue in queues)


def test_of_many_that_are_due_some_wait_for_what_comes_in_meanwhile(world: SimpleNamespace) -> None:
    busy, loop, queues = world.busy, world.loop, [OneQueue() for _ in range(2 * CHECKED_AT_ONCE + 1)]
    for queue in queues:
        busy.leading_changed(queue)

    def checked() -> int:
        return sum(("check", 5) in queue.told for queue in queues)

    seen = list[int]()
    busy.tick(5)
    assert checked() == CHECKED_AT_ONCE
    loop.call_soon(lambda: seen.append(checked()))
    busy.tick(6)
    assert checked() == CHECKED_AT_ONCE, "they go on by themselves"
    loop.run_soon()
    assert seen == [2 * CHECKED_AT_ONCE] and checked() == len(queues)


def test_a_check_that_raises_keeps_no_other_queue_from_its_own(world: SimpleNamespace) -> None:
    busy, loop, queues = world.busy, world.loop, [OneQueue() for _ in range(2 * CHECKED_AT_ONCE)]
    for queue in queues:
        busy.leading_changed(queue)
    queues[0].leading = SimpleNamespace(attendants=(), check=lambda now: 1 / 0)  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        busy.tick(5)
    loop.run_soon()
    assert all(("check", 5) in queue.told for queue in queues[CHECKED_AT_ONCE:])
    queues[0].leading = None
    busy.tick(1_005)
    loop.run_soon()
    assert all(("check", 1_005) in queue.told for queue in queues[1:])


def test_a_queue_that_serves_no_other_node_has_nobody_to_tell_news(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    queue.leading.attendants = ()
    busy.leading_changed(queue)
    busy.tick(5)
    assert queue.take() == [("check", 5)]


def test_a_queue_without_a_leader_looks_for_one_until_it_has_found_it(world: SimpleNamespace) -> None:
    busy, queue, loop = world.busy, world.queue, world.loop
    busy.look_for_leader(queue)
    busy.look_for_leader(queue)
    for _ in range(3):
        loop.run_for(LOOK_S * 1.01)
        assert queue.take() == [("try_again",)], "once, however often it was said"
    queue.finds_no_leader = False
    loop.run_for(LOOK_S * 1.01)
    assert queue.take() == [("try_again",)]
    loop.run_for(10 * LOOK_S)
    assert queue.take() == [] and not busy.looking


def test_a_link_that_comes_has_queues_look_at_once_and_not_twice_as_often_from_then_on(world: SimpleNamespace) -> None:
    busy, queue, loop = world.busy, world.queue, world.loop
    busy.look_for_leader(queue)
    loop.run_for(LOOK_S / 2)
    busy.link_changed(2, came=True)
    assert queue.take() == [("try_again",)]
    loop.run_for(LOOK_S * 4.2)
    assert queue.take() == [("try_again",)] * 4


def test_a_queue_that_another_node_serves_hears_of_lost_links_and_is_asked_whether_to_go_on(
    world: SimpleNamespace,
) -> None:
    busy, queue = world.busy, world.queue
    busy.serve_remotely(queue)
    busy.tick(5)
    busy.link_changed(3, came=False)
    assert queue.take() == [("go_on", 5), ("lost", 3)]
    queue.remote_serving = Noting(queue.told, go_on=False)
    busy.tick(1_005)
    busy.tick(2_005)
    assert queue.take() == [("go_on", 1_005)]


def test_a_queue_that_waits_for_answers_is_reminded_until_it_waits_no_more(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    busy.ask(queue)
    busy.tick(0)
    queue.asks = False
    busy.tick(100)
    busy.tick(200)
    assert queue.take() == [("still_asks",)] * 2
    assert not busy.asking


def test_a_queue_that_is_forgotten_hears_nothing_more(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    busy.leading_changed(queue)
    busy.look_for_leader(queue)
    busy.ask(queue)
    busy.serve_remotely(queue)
    busy.forget(queue)
    busy.tick(5)
    busy.link_changed(2, came=True)
    busy.link_changed(2, came=False)
    busy.writable(2)
    world.loop.run_for(LOOK_S * 2)
    assert queue.take() == []

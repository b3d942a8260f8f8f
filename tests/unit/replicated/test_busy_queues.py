"""replicated/busy_queues.py: which queues are looked after, how often, and when no more."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicated.busy_queues import LOOK_S, BusyQueues
from tests.sim.clock import SimLoop


class Noting:
    """Any part of a queue: remembers what it was told, and answers what the test says."""

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
    busy.tick()
    busy.check(5)
    busy.writable(2)
    busy.link_changed(3, came=False)
    assert queue.take() == [("tell_news",), ("check", 5), ("writable", 2), ("link_went", 3)]
    queue.leading = None
    busy.leading_changed(queue)
    assert list(busy.led) == []
    queue.leading = Noting(queue.told)  # again, and nobody has said so yet
    busy.tick()
    busy.check(6)
    assert queue.take() == []


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
    busy.check(5)
    busy.link_changed(3, came=False)
    assert queue.take() == [("go_on", 5), ("lost", 3)]
    queue.remote_serving = Noting(queue.told, go_on=False)
    busy.check(6)
    busy.check(7)
    assert queue.take() == [("go_on", 6)]


def test_a_queue_that_waits_for_answers_is_reminded_until_it_waits_no_more(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    busy.ask(queue)
    busy.tick()
    queue.asks = False
    busy.tick()
    busy.tick()
    assert queue.take() == [("still_asks",)] * 2
    assert not busy.asking


def test_a_queue_that_is_forgotten_hears_nothing_more(world: SimpleNamespace) -> None:
    busy, queue = world.busy, world.queue
    busy.leading_changed(queue)
    busy.look_for_leader(queue)
    busy.ask(queue)
    busy.serve_remotely(queue)
    busy.forget(queue)
    busy.tick()
    busy.check(5)
    busy.link_changed(2, came=True)
    busy.link_changed(2, came=False)
    busy.writable(2)
    world.loop.run_for(LOOK_S * 2)
    assert queue.take() == []

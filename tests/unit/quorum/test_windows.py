"""quorum/windows.py: when a group is told of another window, and what happens where it does not know any."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from quorum.fifo.commands import ConsumerKey, Window
from quorum.fifo.results import ResultCode
from quorum.fifo.versions import WINDOWS_CHANGE
from quorum.windows import RETRY_S, Windows

FIRST, LATER = 10, 4


class Consumer:
    """What is needed of a subscription, and what its client and its channel make of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.window = self.first_window = self.wanted = FIRST
        self.stopped = False
        self.waits = 0
        self.room = 0
        self.consumer = SimpleNamespace(shared_left=lambda: self.room)
        self.held_back = SimpleNamespace(yes=False, keep_waiting=self.keep_waiting)
        self.ahead = SimpleNamespace(messages=0, ended=lambda known_at: None)

    def wanted_window(self) -> int:
        return self.wanted

    def keep_waiting(self) -> None:
        self.waits += 1


class World:
    """Two consumers; what is said waits for the test to answer."""

    def __init__(self) -> None:
        self.said: list[tuple[Window, Callable[[Any], None]]] = []
        self.given_back: list[int] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.woken = 0
        self.consumers = {number: Consumer(number) for number in (1, 2)}
        session = SimpleNamespace(
            ahead=False,
            consumer_key=lambda number: ConsumerKey(1, 1, number),
            say=lambda op, asker: self.said.append((op, asker)),
        )
        host = SimpleNamespace(wake=self.wake)
        loop = SimpleNamespace(call_later=lambda delay, call: self.later.append((delay, call)))
        parts: list[Any] = [
            SimpleNamespace(), self.consumers, lambda one: self.given_back.append(one.number), lambda: 0, session, host, loop,
        ]  # fmt: skip
        self.windows = Windows(*parts)

    def wake(self, queue: Any) -> None:
        self.woken += 1

    def keep(self) -> list[tuple[int, int]]:
        """What the group is told of whose windows."""
        before = len(self.said)
        for one in self.consumers.values():
            self.windows.keep(one)  # type: ignore[arg-type]
        return [(op.consumer.number, op.messages) for op, _ in self.said[before:]]


def test_a_group_that_knows_no_windows_is_told_again_after_a_while_as_long_as_it_does_not() -> None:
    world = World()
    for one in world.consumers.values():
        one.wanted = LATER
    assert world.keep() == [(1, LATER), (2, LATER)]
    for turn in (1, 2):
        for _, answered in world.said[-2:]:
            answered(ResultCode.UNKNOWN)
        assert [one.window for one in world.consumers.values()] == [FIRST, FIRST], "which is what the group has"
        assert world.keep() == [] and len(world.later) == turn, "one timer for all"
        delay, again = world.later[-1]
        again()
        assert (delay, world.woken) == (RETRY_S, turn)
        assert world.keep() == [(1, LATER), (2, LATER)]


def test_a_member_here_of_a_later_version_has_all_windows_told_at_once() -> None:
    world = World()
    world.consumers[1].wanted = LATER
    world.keep()
    world.said[0][1](ResultCode.UNKNOWN)
    world.windows.moved(WINDOWS_CHANGE - 1)
    assert world.keep() == [] and not world.woken
    world.windows.moved(WINDOWS_CHANGE)
    assert world.woken and world.keep() == [(1, LATER)]


def test_what_waits_for_a_channel_goes_back_once_the_group_gives_nothing_more() -> None:
    world = World()
    one = world.consumers[1]
    one.held_back.yes, one.wanted = True, 0
    assert world.keep() == [(1, 0)]
    world.windows.full(one)  # type: ignore[arg-type]
    assert world.given_back == [], "it would be given the same again"
    world.said[0][1](None)
    assert (one.stopped, world.given_back) == (True, [1])
    world.windows.full(one)  # type: ignore[arg-type]
    assert world.given_back == [1, 1], "what was on its way"
    one.held_back.yes, one.wanted = False, FIRST
    assert world.keep() == [(1, FIRST)]
    world.windows.full(one)  # type: ignore[arg-type]
    assert (one.stopped, one.waits, world.given_back) == (False, 1, [1, 1]), "it is given something again"


def test_where_windows_do_not_change_or_there_is_room_nobody_is_held_back() -> None:
    """It would keep what it was given, and be given nothing more for ever."""
    world = World()
    one = world.consumers[1]
    one.room = 1
    world.windows.full(one)  # type: ignore[arg-type]
    one.room = 0
    world.windows.change = False
    world.windows.full(one)  # type: ignore[arg-type]
    assert one.waits == 0

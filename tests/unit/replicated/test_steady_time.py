"""A queue's time that no wall clock moves: nothing in it is early, whatever happens to the clocks of its nodes."""

from __future__ import annotations

import pytest

from replicated.steady_time import SteadyTime
from tests.sim.clock import SimClock

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> SimClock:
    return SimClock(wall_ms=HOUR_MS)


@pytest.fixture
def time(clock: SimClock) -> SteadyTime:
    return SteadyTime(clock.wall_ms, clock.monotonic)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_it_goes_on_as_fast_as_before_when_the_wall_clock_is_set(
    clock: SimClock, time: SteadyTime, jump_ms: int
) -> None:
    clock.jump_wall_ms(jump_ms)
    assert time.now(told=0) == HOUR_MS
    clock.advance(1.5)
    assert time.now(told=0) == HOUR_MS + 1_500


def test_it_goes_on_from_what_the_queue_was_told(clock: SimClock, time: SteadyTime) -> None:
    assert time.now(told=2 * HOUR_MS) == 2 * HOUR_MS
    clock.advance(1)
    assert time.now(told=2 * HOUR_MS) == 2 * HOUR_MS + 1_000
    assert time.now(told=2 * HOUR_MS + 400) == 2 * HOUR_MS + 1_000


def test_what_it_was_told_before_changes_nothing(clock: SimClock, time: SteadyTime) -> None:
    clock.advance(2)
    assert time.now(told=HOUR_MS + 1_000) == HOUR_MS + 2_000

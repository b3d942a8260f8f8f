"""tests/sim/world.py: events without end within no time are a storm, and what is delivered to clients is none."""

from __future__ import annotations

import pytest

from tests.sim.invariants import Violation
from tests.sim.layers import layer_of
from tests.sim.world import SERVED_EVENTS, STORM_EVENTS, World


def a_world() -> World:
    world = layer_of("engine").world(layer_of("engine").draw(1))
    world.form()
    return world


def test_nodes_that_answer_each_other_at_once_for_ever_are_a_storm() -> None:
    world = a_world()
    with pytest.raises(Violation, match="no_storm"):
        for _ in range(2 * STORM_EVENTS):
            world.event(world.sites[1], len, ("",))


def test_a_client_that_empties_a_long_queue_at_once_is_no_storm() -> None:
    world = a_world()
    for number in range(3 * STORM_EVENTS):
        if number % SERVED_EVENTS == 0:
            world.served()
        world.event(world.sites[1], len, ("",))

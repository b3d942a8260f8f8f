"""tests/sim/world.py: events without end within no time are a storm, and what is delivered to clients is none."""

from __future__ import annotations

import pytest

from tests.sim.brokers.plan import BrokerShape
from tests.sim.invariants import Violation
from tests.sim.layers import layer_of
from tests.sim.plan import Ask, Plan
from tests.sim.run import run
from tests.sim.world import PIECE_EVENTS, SERVED_EVENTS, STORM_EVENTS, World


def a_world() -> World:
    world = layer_of("engine").world(layer_of("engine").draw(1))
    world.form()
    return world


def test_nodes_that_answer_each_other_at_once_for_ever_are_a_storm() -> None:
    world = a_world()
    with pytest.raises(Violation, match="no_storm"):
        for _ in range(2 * STORM_EVENTS):
            world.event(world.sites[1], len, ("",))


def test_pieces_of_snapshots_are_no_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 19000479 of brokers: three of them at a time, in pieces of 200 bytes, over links of 0.3 ms."""
    world, sent = a_world(), {(7, 1): 0}
    monkeypatch.setattr(world, "_snapshot_bytes_sent", lambda: dict(sent))
    for _ in range(2 * STORM_EVENTS // PIECE_EVENTS):
        sent[7, 1] += world.shape.snapshot_chunk_bytes
        for _ in range(PIECE_EVENTS):
            world.event(world.sites[1], len, ("",))
    with pytest.raises(Violation, match="no_storm"):
        for _ in range(2 * STORM_EVENTS):
            world.event(world.sites[1], len, ("",))


def test_a_client_that_empties_a_long_queue_at_once_is_no_storm() -> None:
    world = a_world()
    for number in range(3 * STORM_EVENTS):
        if number % SERVED_EVENTS == 0:
            world.served()
        world.event(world.sites[1], len, ("",))


def test_what_a_publisher_sends_at_once_when_it_has_a_connection_again_is_no_storm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 16000055 of brokers: it had none for long, and each of its messages has a number, so is a publish of its own."""
    served: list[World] = []
    monkeypatch.setattr(World, "served", lambda world: served.append(world))
    shape = BrokerShape(seconds=16.0, groups=0, queues="plain", publishers=1, takers=1)
    outcome = run(Plan(1, shape, (), (Ask(0.3, 1, 0, "burst", "plain", 20),), "brokers"))
    assert outcome.is_good, outcome.message
    assert len(served) == 40, "each of 20 messages was confirmed, and delivered in the end"

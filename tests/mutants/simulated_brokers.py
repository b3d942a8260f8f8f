"""Clusters of whole brokers, one seed after another, as a killer. Not one of the tests: named on the command line only."""

from __future__ import annotations

import pytest

from tests.mutants.simulated_seeds import SimulationError
from tests.sim.brokers.plan import draw
from tests.sim.run import run

SEEDS = range(1, 41)
SECONDS = 60.0  # simulated


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    outcome = run(draw(seed, SECONDS))
    if outcome.invariant == "the_simulator_itself":
        raise SimulationError(outcome.message.splitlines()[-1])
    assert outcome.is_good, outcome.message

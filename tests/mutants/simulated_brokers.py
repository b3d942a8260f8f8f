"""Clusters of whole brokers, one seed after another, as a killer. Not one of the tests: named on the command line only."""

from __future__ import annotations

import pytest

from tests.mutants.simulation import judge
from tests.sim.brokers.plan import draw

SEEDS = range(1, 41)
SECONDS = 60.0  # simulated


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    judge(draw(seed, SECONDS))

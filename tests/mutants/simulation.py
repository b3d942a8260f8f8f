"""One simulated run as a killer's judge: a promise that was broken is an assertion that fails, code that fell over is not."""

from __future__ import annotations

from tests.sim.plan import Plan
from tests.sim.run import run


class SimulationError(Exception):
    """The code under test fell over, and nothing was found to be wrong before."""


def judge(plan: Plan) -> None:
    """Raises AssertionError, SimulationError."""
    outcome = run(plan)
    if outcome.invariant == "the_simulator_itself":
        raise SimulationError(outcome.message.splitlines()[-1])
    assert outcome.is_good, outcome.message

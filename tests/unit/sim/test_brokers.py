"""Whole brokers in the simulator: a few seeds, which are the same run everywhere, and a bug that they must find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorum import numbered, queue
from tests.sim.brokers.ledger import Hold, Known
from tests.sim.brokers.plan import BrokerShape, draw
from tests.sim.run import run

ROOT = Path(__file__).parents[3]
SECONDS = 30.0


@pytest.mark.parametrize("seed", [1, 3])
def test_brokers_keep_their_promises_whatever_happens(seed: int) -> None:
    outcome = run(draw(seed, SECONDS))
    assert outcome.is_good, outcome.message
    assert outcome.answered > 50
    assert outcome.checked["first_deliveries_are_in_order"] > 50


def test_a_seed_of_brokers_is_the_same_run_in_every_process() -> None:
    """With another order of hashes, too."""
    here = run(draw(1, SECONDS)).hash
    command = [sys.executable, "-m", "tests.sim", "--layer", "brokers", "--seed", "1", "--seconds", str(SECONDS)]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"trace {here}" in done.stdout.splitlines()


def test_what_the_leader_has_brought_may_be_ahead_of_a_new_member() -> None:
    """Seed 5000336: the client took it when its node had a member already, which had applied nothing yet."""
    hold = Hold(Known((64, 481, 0), b"body", 9), failures=0, acquired=0, since=64)
    assert not hold.is_over_at(0)
    hold.until = 70
    assert [hold.is_over_at(applied) for applied in (0, 69, 70)] == [False, False, True]


def test_dead_letters_that_are_taken_for_duplicates_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead letter that still counts as numbered is lost where it arrives after a later number."""
    monkeypatch.setattr(numbered, "DEATHS", "no such header")
    for module in (numbered, queue):  # who knows where a message died does not look at the header
        monkeypatch.setattr(module, "may_be_numbered", lambda run: True)
    plans = [draw(seed, SECONDS) for seed in range(1, 60)]
    mourning = [plan for plan in plans if isinstance(plan.shape, BrokerShape) and "mourned" in plan.shape.queue_names]
    found = (run(plan).invariant for plan in mourning)
    assert next(filter(None, found)) == "dead_letters_leave_when_they_have_arrived"

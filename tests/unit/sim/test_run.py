"""The simulator on a handful of seeds: it is what finds the rest, so it must repeat itself, and it must find."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raft.core import election, follower
from raft.core.core import Core
from raft.core.membership import MembershipHistory
from raft.core.messages import Append, AppendReply, VoteReply, VoteRequest
from raft.core.state import State
from raft.driver import Driver
from raft.store import moving
from tests.sim.kept import read
from tests.sim.plan import Plan, draw
from tests.sim.run import Outcome, run, run_with_log
from tests.sim.shrink import Shrinker

ROOT = Path(__file__).parents[3]
SECONDS = 30.0


def first_failure(seeds: range) -> Outcome:
    """The first seed that fails."""
    for seed in seeds:
        outcome = run(draw(seed, SECONDS))
        if not outcome.is_good:
            return outcome
    raise AssertionError(f"none of the seeds {seeds} has found anything")


@pytest.mark.parametrize("seed", [6, 34, 118, 329, 1015])
def test_a_cluster_keeps_its_promises_whatever_happens(seed: int) -> None:
    """Of seeds that have found something once."""
    outcome = run(draw(seed))
    assert outcome.is_good, outcome.message
    assert outcome.answered > 20
    assert outcome.committed > 20


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """With another order of hashes, too."""
    here = run(draw(17, SECONDS)).hash
    assert run(draw(17, SECONDS)).hash == here
    assert run(draw(18, SECONDS)).hash != here
    command = [sys.executable, "-m", "tests.sim", "--seed", "17", "--seconds", str(SECONDS)]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert f"trace {here}" in done.stdout.splitlines()


def test_the_log_of_a_run_tells_every_event() -> None:
    log: list[str] = []
    outcome = run_with_log(draw(17, SECONDS), log)
    assert len(log) == outcome.events
    assert any(line.endswith("_receive") for line in log)


def test_a_voter_that_forgets_its_vote_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """B10: two leaders in one term are possible then."""

    def grant_again(s: State, request: VoteRequest, now: float) -> None:
        if s.leader == 0:
            s.messages_after.append(VoteReply(request.sender, s.me, request.term, True, request.pre))

    monkeypatch.setattr(election, "step_request", grant_again)
    found = first_failure(range(1, 10))
    assert found.invariant in ("facts_are_durable_before_they_are_told", "one_vote_per_term"), found.message


def test_a_follower_that_acknowledges_before_its_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A3."""

    def accept(s: State, message: Append, index: int) -> None:
        reply = AppendReply(message.sender, s.me, s.term, True, index, s.commit, read_round=message.read_round)
        s.messages.append(reply)

    monkeypatch.setattr(follower, "_accept", accept)
    found = first_failure(range(1, 10))
    assert found.invariant in ("match_is_durable", "facts_are_durable_before_they_are_told"), found.message


def test_a_follower_that_applies_before_its_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its core believes that all is fsynced which it has handed out to be, so it keeps its own word. There are no snapshots, of
    which that is asked, too."""
    persisted = Core.persisted

    def believe_all(core: Any, number: int, now: float) -> None:
        persisted(core, number, now)
        log = core._s.log
        if core._s.leadership is None:
            log._drop(log.handed - log.durable)
            log.durable = log.handed

    monkeypatch.setattr(Core, "persisted", believe_all)
    plan = draw(3, SECONDS)
    slow = replace(plan.shape, voters=3, snapshot_entries_max=1 << 30, snapshot_bytes_max=1 << 30, fsync_s=0.02)
    found = run(replace(plan, shape=slow, faults=()))
    assert found.invariant == "applied_within_durable", found.message


def test_a_store_that_lets_log_files_go_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6."""
    monkeypatch.setattr(moving, "rows_to_move", lambda log, file: None)
    found = first_failure(range(1, 10))
    assert found.invariant == "log_file_is_not_needed", found.message


def test_a_failure_is_made_smaller_and_written_down_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that breaks as soon as a power cut and a big value meet, whatever else is in it."""
    plan = next(plan for plan in map(draw, range(100)) if _meet(plan) and len(plan.faults) > 10)
    shrinker = Shrinker(_meet)
    smaller = shrinker.smaller(plan)
    assert [fault.kind for fault in smaller.faults] == ["power cut"]
    assert [ask.kind for ask in smaller.asks] == ["big"]
    assert (smaller.shape.spare, smaller.shape.groups) == (0, 1)
    assert read(smaller.text("why")) == smaller
    assert read(plan.text("why\nin two lines")) == plan


def _meet(plan: Plan) -> bool:
    return any(fault.kind == "power cut" for fault in plan.faults) and any(ask.kind == "big" for ask in plan.asks)


@pytest.mark.parametrize("line", ["fault soon halves", "shape voters=many", "ask 1.0 who=1", "hello"])
def test_a_plan_that_makes_no_sense_says_which_line(line: str) -> None:
    with pytest.raises(ValueError, match=f"line 2, '{line}'"):
        read(f"seed 1\n{line}\n")


def test_a_snapshot_that_carries_an_uncommitted_membership_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "_membership_at", lambda driver, index: driver.core._s.membership)
    found = first_failure(range(1, 80))
    assert found.invariant == "snapshot_has_the_committed_membership", found.message


def test_a_membership_that_outlives_an_installed_snapshot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MembershipHistory, "reset", lambda history, index, membership: None)
    found = first_failure(range(1, 80))
    assert found.invariant == "membership_in_force_is_committed", found.message

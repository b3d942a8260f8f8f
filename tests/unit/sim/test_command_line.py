"""python -m tests.sim: what it prints, what it keeps, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raft.store import moving
from tests.sim.__main__ import BROKEN, GOOD, NOT_REACHED, main
from tests.sim.campaign import Totals, campaign
from tests.sim.engine_layer import LAYER
from tests.sim.plan import KINDS
from tests.sim.run import Outcome

SHORT = ["--seconds", "20"]


def test_a_few_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--from", "100", *SHORT, "--json"]) == GOOD
    told = json.loads(capsys.readouterr().out)
    assert told["seeds"] == 2
    assert told["run_twice"] == 1, "seed 100 is one of each hundred"
    assert told["unequal"] == []
    assert set(told["faults"]) == set(KINDS)
    assert sum(told["faults"].values()) == told["faults_injected"] > 0
    assert len(told["invariants"]) >= 27


def test_there_are_faults_of_two_dozen_kinds_and_more() -> None:
    assert len(set(KINDS)) == len(KINDS) >= 24


def test_a_failure_is_kept_smaller_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(moving, "rows_to_move", lambda log, file: None)
    asked = ["--seed", "2", *SHORT, "--keep-in", str(tmp_path), "--shrink", "20"]
    assert main(asked) == BROKEN
    assert "log_file_is_not_needed: group" in capsys.readouterr().out
    (kept,) = tmp_path.iterdir()
    assert kept.name == "log_file_is_not_needed_2.txt"
    assert main(["--file", str(kept), "--json"]) == BROKEN
    assert json.loads(capsys.readouterr().out)["invariant"] == "log_file_is_not_needed"
    monkeypatch.undo()
    assert main(["--file", str(kept)]) == GOOD


def outcome(seed: int, trace: str = "same") -> Outcome:
    return Outcome(seed, trace, 1, 60.0, 0.1)


def test_a_big_campaign_must_have_reached_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = Totals(LAYER)
    for seed in range(LAYER.big - 1):
        totals.add(outcome(seed))
    assert totals.never_reached() == []
    totals.add(outcome(LAYER.big))
    missing = totals.never_reached()
    assert "fault: halves" in missing
    assert "path: snapshot installed" in missing
    assert "invariant: logs_match" in missing
    monkeypatch.setattr("tests.sim.__main__.campaign", lambda *_, **__: totals)
    assert main(["--seeds", str(LAYER.big)]) == NOT_REACHED


def test_two_runs_of_a_seed_that_differ_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    for first, second in ((Totals.add, Totals.add_second), (Totals.add_second, Totals.add)):
        totals = Totals(LAYER)
        first(totals, outcome(100))
        second(totals, outcome(100, "another"))
        assert totals.unequal == [100]
    monkeypatch.setattr("tests.sim.__main__.campaign", lambda *_, **__: totals)
    assert main(["--seeds", "1"]) == BROKEN


def test_a_campaign_stops_when_its_time_is_over() -> None:
    said: list[str] = []
    assert campaign(LAYER, range(1000), seconds=20.0, jobs=1, wall_s=0.0, say=said.append).seeds == 1

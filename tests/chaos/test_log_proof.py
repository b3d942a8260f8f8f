"""Where a proof and the judge would contradict each other: each case must be found, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from analytics.jobs.proof import ProofRow
from tests.chaos import runner, topology
from tests.chaos.backend import Backend, Shape
from tests.chaos.log_proof import disagreements, doubts, unproved
from tests.chaos.recorder import Recorder
from tests.chaos.scenarios import BY_NAME
from tests.histories.judge import judge
from tests.histories.records import Acknowledged, Attempted, Confirmed, Delivered, Drained, History
from tests.histories.rules import QueueRules, Rules

QUEUE = QueueRules("q", frozenset({"p"}))
RULES = Rules((QUEUE,))
HOLDS = ProofRow("//q", 1, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, [], None)
MISSING = HOLDS._replace(acked=1, missing=1, first_missing=[1])
UNKNOWN = HOLDS._replace(promised=0, why="records are missing")
EMPTY = Drained(9.0, "q", "n1", 0)


def history(*, consumed: int) -> History:
    """Two messages were confirmed, and the first so many consumed."""
    published = [one for n in (1, 2) for one in (Attempted(0.1 * n, "p", n), Confirmed(0.1 * n, "p", n))]
    taken = [
        one
        for n in range(1, consumed + 1)
        for one in (Delivered(1.0 * n, n, "q", "c", "p", n), Acknowledged(1.0 * n, n))
    ]
    return [*published, *taken, EMPTY]


def told(row: ProofRow | None, consumed: int = 2, rules: Rules = RULES) -> str:
    seen = history(consumed=consumed)
    return "; ".join(disagreements({} if row is None else {"q": row}, seen, rules, judge(seen, rules)))


def test_they_agree_that_all_is_there_and_that_something_is_lost() -> None:
    assert told(HOLDS) == ""
    assert told(MISSING, consumed=1) == ""


def test_a_proof_that_does_not_know_never_disagrees() -> None:
    assert told(UNKNOWN) == told(UNKNOWN, consumed=1) == ""


def test_where_nothing_was_taken_from_the_logs_each_queue_that_is_judged_must_be_proved() -> None:
    rows = {"p": UNKNOWN, "q": UNKNOWN}
    assert unproved(rows) == dict.fromkeys(rows, "records are missing")
    assert list(doubts(rows, RULES)) == [
        "q: nothing was taken from the logs, and they prove nothing of it: records are missing"
    ]
    assert list(doubts({"q": HOLDS}, RULES)) == list(doubts({"q": MISSING}, RULES)) == []


@pytest.mark.parametrize(("scenario", "may_not_know"), [("leader-killed", False), ("wiped-disk", True)])
def test_a_run_is_wrong_when_its_logs_prove_nothing_though_no_fault_took_any(
    scenario: str, may_not_know: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = {queue.name: UNKNOWN for queue in topology.QUEUES}
    monkeypatch.setattr(runner, "proofs_of_nodes", lambda *_: rows)
    backend = create_autospec(Backend, shape=Shape())
    verdict = runner.Verdict(scenario, "none", 0)
    wrong = runner._judged(BY_NAME[scenario], backend, Recorder(tmp_path), verdict)
    blamed = {one.partition(":")[0] for one in wrong if "they prove nothing" in one}
    assert blamed == (set() if may_not_know else rows.keys())
    assert verdict.unproved.keys() == rows.keys()


@pytest.mark.parametrize(
    ("row", "consumed", "what"),
    [
        (HOLDS, 1, "clients miss some"),
        (MISSING, 2, "clients miss nothing"),
        (HOLDS._replace(promised=1, acked=1), 2, "clients know of 2 messages, and the logs of 1"),
        (HOLDS._replace(acked=1, present=1), 2, "it was drained"),
        (None, 2, "no log tells of it"),
    ],
)
def test_each_contradiction_is_found(row: ProofRow | None, consumed: int, what: str) -> None:
    assert what in told(row, consumed)


def test_of_a_queue_whose_disk_was_lost_the_logs_may_say_anything() -> None:
    lenient = Rules((replace(QUEUE, keeps_confirmed=False),))
    for row in (HOLDS._replace(promised=0, acked=0), MISSING, None):
        assert told(row, 2, lenient) == ""


def test_what_was_delivered_and_never_confirmed_need_not_be_in_a_log() -> None:
    seen: History = [Attempted(0.1, "p", 1), Delivered(0.2, 1, "q", "c", "p", 1), Acknowledged(0.3, 1), EMPTY]
    assert list(disagreements({"q": HOLDS._replace(promised=0, acked=0)}, seen, RULES, judge(seen, RULES))) == []

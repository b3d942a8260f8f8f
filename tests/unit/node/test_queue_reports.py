"""node/replicas/reports.py: what is said again and again is one line in a while for each queue, and counted."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from node.replicas.reports import REFUSALS_TOLD_S, UNDELIVERED_TOLD_S, QuorumReports

TOLD_S = {"refused": REFUSALS_TOLD_S, "not_delivered": UNDELIVERED_TOLD_S}


def queue(name: str) -> Any:
    return SimpleNamespace(record=SimpleNamespace(label=f"queue '{name}'"))


@pytest.mark.parametrize("what", TOLD_S)
def test_one_line_for_each_queue_in_an_interval_says_how_many_there_were(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    say = getattr(QuorumReports(logging.getLogger("test.reports"), lambda: now), what)
    for _ in range(1_000):
        say(queue("a"), "there is no op in it")
    say(queue("b"), "there is no op in it")
    now += TOLD_S[what] - 0.1
    say(queue("a"), "there is no op in it")
    assert caplog.messages == ["queue 'a': there is no op in it", "queue 'b': there is no op in it"]
    caplog.clear()
    now += 0.2
    say(queue("a"), "there is no op in it")
    assert caplog.messages == ["queue 'a': there is no op in it (1000 more times since the last line)"]


def test_what_is_refused_is_an_error_also_while_other_lines_are_held_back(caplog: pytest.LogCaptureFixture) -> None:
    reports = QuorumReports(logging.getLogger("test.reports"), lambda: 100.0)
    reports.not_delivered(queue("a"), "a sub-batch")
    reports.refused(queue("a"), "a run")
    assert [(one.levelno, one.message) for one in caplog.records] == [
        (logging.WARNING, "queue 'a': a sub-batch"),
        (logging.ERROR, "queue 'a': a run"),
    ]

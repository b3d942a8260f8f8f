"""An answer on the screen."""

from __future__ import annotations

import json

import pytest

from analytics.coverage import Coverage
from analytics.jobs.answer import JobAnswer
from analytics.show import show

COVERED = Coverage(["n1"], 2, 100, None, None, [])
ANSWER = JobAnswer(
    [("name", "string"), ("messages", "bigint"), ("why", "string")],
    [{"name": "[bold]/q\x1b[2J", "messages": 3, "why": None}],
)


def test_what_clients_chose_is_neither_markup_nor_a_command_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(COVERED, ANSWER, as_json=False)
    said = capsys.readouterr().out
    assert "[bold]/q\\x1b[2J" in said
    assert "\x1b" not in said
    assert "why" not in said, "a column without a value"


def test_json_has_schema_coverage_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(COVERED, ANSWER, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["schema"][1] == {"name": "messages", "type": "bigint"}
    assert (said["coverage"]["nodes"], said["rows"]) == (["n1"], ANSWER.rows)


def test_contents_that_were_withheld_are_said() -> None:
    assert COVERED._replace(without_bodies=("n1", "n2")).sentence().endswith("contents of messages withheld by n1, n2")

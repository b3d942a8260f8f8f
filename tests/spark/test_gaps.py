"""No question holds over what the log said and nobody can read: each ends with 75."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from storage.names import log_file
from tests.spark.conftest import Ask
from tests.unit.analytics.test_coverage import logged

pytestmark = pytest.mark.spark

QUESTIONS = (
    ("queues",), ("lives", "c"), ("dead",), ("dropped",), ("redelivered",), ("latency",), ("hot",),
    ("duplicates", "--within", "60"), ("sql", "select state from lives"), ("proof",),
    ("terms",), ("compare",), ("report", "--html", "report.html"),
)  # fmt: skip


@pytest.mark.parametrize("what", ["missing", "damaged", "missing at the end"])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question[0])
def test_no_question_holds_over_a_gap(
    ask: Ask, tmp_path: Path, question: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is gone, only the proof said so: what had come and gone in it was no more."""
    monkeypatch.chdir(tmp_path)
    whole = logged(tmp_path / "whole", 1, 2, 3)
    code, rows = ask(whole, "--tail", *question)
    assert code == EXIT_HOLDS or question[0] in ("proof", "report"), rows
    path = whole / "n1" / log_file(2)
    if what == "missing":
        path.unlink()
    elif what == "missing at the end":
        (whole / "n1" / log_file(3)).unlink()
        (whole / "n1" / log_file(4)).write_bytes(bytes(4096))  # as a node makes it for later
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert ask(whole, "--tail", *question)[0] == EXIT_UNKNOWN

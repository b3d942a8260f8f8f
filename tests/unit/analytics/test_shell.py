"""Several questions in one session."""

from __future__ import annotations

import pytest

from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, EXIT_USAGE
from analytics.shell import lines_of_terminal, shell


def test_a_line_is_a_command_or_sql_and_what_goes_wrong_with_one_does_not_end_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[list[str]] = []

    def ask(words: list[str]) -> int:
        asked.append(words)
        if words[-1] == "bad":
            raise SystemExit(2)
        if words[0] == "sql":
            raise RuntimeError("no such table\nand a page more")
        return EXIT_HOLDS

    lines = [
        "",
        "# a remark",
        "dead 'my orders'",
        "dead bad",
        "select 1 from x;\n",
        "help",
        "dead",
        "quit",
        "dead late",
    ]
    assert shell(lines, {"dead"}, ask) == EXIT_USAGE
    assert asked == [["dead", "my orders"], ["dead", "bad"], ["sql", "select 1 from x"], ["dead"]]
    said = capsys.readouterr()
    assert said.err == "leveret-analytics: no such table\n"
    assert "Commands: dead" in said.out


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["# nothing", "help", "quit", "fails"], EXIT_HOLDS),
        (["holds", "help-of-it", "holds"], EXIT_HOLDS),
        (["unknown", "holds"], EXIT_UNKNOWN),
        (["unknown", "fails", "holds"], EXIT_USAGE),
        (["unknown", "refused", "holds"], EXIT_USAGE),
        (["missing", "fails", "unknown"], EXIT_MISSING),
        (["holds 'an open quote"], EXIT_USAGE),
    ],
)
def test_it_ends_with_the_worst_that_its_questions_came_to(lines: list[str], code: int) -> None:
    """It was 0, whatever had failed: a script that fed it questions never knew."""

    def ask(words: list[str]) -> int:
        match words[0]:
            case "fails":
                raise RuntimeError("no such table")
            case "refused":
                raise SystemExit(2)
            case "help-of-it":
                raise SystemExit(0)
        return {"holds": EXIT_HOLDS, "unknown": EXIT_UNKNOWN, "missing": EXIT_MISSING}[words[0]]

    assert shell(lines, {"holds", "unknown", "missing", "fails", "refused", "help-of-it"}, ask) == code


def test_with_a_closed_input_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert list(lines_of_terminal()) == []

"""Several questions in one session."""

from __future__ import annotations

import pytest

from analytics.shell import shell


def test_a_line_is_a_command_or_sql_and_what_goes_wrong_with_one_does_not_end_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[list[str]] = []

    def ask(words: list[str]) -> None:
        asked.append(words)
        if words[-1] == "bad":
            raise SystemExit(2)
        if words[0] == "sql":
            raise RuntimeError("no such table\nand a page more")

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
    shell(lines, {"dead"}, ask)
    assert asked == [["dead", "my orders"], ["dead", "bad"], ["sql", "select 1 from x"], ["dead"]]
    said = capsys.readouterr()
    assert said.err == "leveret-analytics: no such table\n"
    assert "Commands: dead" in said.out

"""An answer on the screen."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

import pytest

from analytics.__main__ import print_any_name
from analytics.coverage import Coverage
from analytics.jobs.answer import JobAnswer
from analytics.show import show, show_now

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


def test_a_table_has_names_of_columns_and_each_value_in_a_line_of_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [("name", "string"), ("returned", "map"), ("nodes", "array")]
    rows = [
        {"name": "x" * 200, "returned": {"failed": 2, "released": 1}, "nodes": ["n1", "n2"]},
        {"name": "y", "returned": {}, "nodes": []},
    ]
    show(COVERED, JobAnswer(columns, rows), as_json=False)
    covered, head, first, second = capsys.readouterr().out.splitlines()
    assert (covered, head.split()) == (COVERED.sentence(), ["name", "returned", "nodes"])
    assert (first.split(), second.split()) == (["x" * 200, "failed:2,released:1", "n1,n2"], ["y"])


def test_a_story_is_told_instead_of_a_table_and_nothing_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show(COVERED, replace(ANSWER, text=["one\x1b[2J", "two"]), as_json=False)
    assert capsys.readouterr().out == f"{COVERED.sentence()}\none\\x1b[2J\ntwo\n"
    show(COVERED, replace(ANSWER, rows=[]), as_json=False)
    assert capsys.readouterr().out == f"{COVERED.sentence()}\n"


@pytest.mark.parametrize(("missed", "lost"), [(0, ""), (2, ", 2 files of the log were deleted before they were read")])
def test_one_of_many_answers_stands_below_its_time(capsys: pytest.CaptureFixture[str], missed: int, lost: str) -> None:
    show_now("now", ANSWER, missed, as_json=False)
    head, _, row = capsys.readouterr().out.splitlines()
    assert (head, row.split()) == (f"now{lost}", ["[bold]/q\\x1b[2J", "3"])
    show_now("now", replace(ANSWER, rows=[]), missed, as_json=False)
    assert capsys.readouterr().out == f"now{lost}: nothing happened\n"
    show_now("now", ANSWER, missed, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "at": "now",
        "missed_files": missed,
        "damaged_places": 0,
        "rows": ANSWER.rows,
    }


def test_json_has_schema_coverage_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(COVERED, ANSWER, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["schema"][1] == {"name": "messages", "type": "bigint"}
    assert (said["coverage"]["nodes"], said["rows"]) == (["n1"], ANSWER.rows)


def test_contents_that_were_withheld_are_said() -> None:
    assert COVERED._replace(without_bodies=("n1", "n2")).sentence().endswith("contents of messages withheld by n1, n2")


def test_a_name_that_is_no_utf8_is_printed_as_json_that_has_its_bytes(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """It ended the command with a sentence about a codec."""
    name = b"key\xff\xc3\xbc".decode("utf-8", "surrogateescape")
    show(COVERED, JobAnswer([("name", "string")], [{"name": name}]), as_json=True)
    (row,) = json.loads(capsysbinary.readouterr().out)["rows"]
    assert row["name"].encode("utf-8", "surrogateescape") == name.encode("utf-8", "surrogateescape")


def test_json_is_json_where_the_output_has_no_characters_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))
    print_any_name()
    show(COVERED, JobAnswer([("name", "string")], [{"name": "caf\u00e9 \U0001f407"}]), as_json=True)
    (row,) = json.loads(written.getvalue())["rows"]
    assert row["name"] == "caf\u00e9 \U0001f407"


def test_json_is_said_into_a_buffer_of_text_that_has_no_encoding() -> None:
    """A program that calls the command from its own process ended with a TypeError."""
    with redirect_stdout(StringIO()) as said:
        show(COVERED, ANSWER, as_json=True)
    assert json.loads(said.getvalue())["rows"] == ANSWER.rows


@pytest.mark.parametrize("is_cut", [False, True])
def test_rows_that_were_left_out_are_said_to_be_more(capsys: pytest.CaptureFixture[str], is_cut: bool) -> None:
    """A program that asked for all queues had a thousand of them, and no word that there were others."""
    show(COVERED, replace(ANSWER, is_cut=is_cut), as_json=True)
    assert json.loads(capsys.readouterr().out)["more"] is is_cut
    show(COVERED, replace(ANSWER, is_cut=is_cut), as_json=False)
    assert ("the first 1 rows; --limit N asks for more" in capsys.readouterr().err) is is_cut

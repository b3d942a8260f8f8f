"""Mutants do not rot: each patch fits the tree as it is, and what comes out is a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import Result, chosen, in_turn, recorded_files, table
from tests.mutants.killers import KILLERS, Kill
from tests.mutants.patches import Patch, PatchError, parse, paths, read
from tests.tidy.sources import ROOT

MUTANTS = paths()
STORY = "What is wrong.\n\n"
NAMES = "--- a/raft/x.py\n+++ b/raft/x.py\n"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 40
    changed = {read(path).path.partition("/")[0] for path in MUTANTS}
    assert changed >= {"raft", "storage", "quorum", "node"}


@pytest.mark.parametrize("path", MUTANTS, ids=[path.stem for path in MUTANTS])
def test_a_mutant_applies_and_is_another_program(path: Path) -> None:
    patch = read(path)
    before = (ROOT / patch.path).read_text()
    after = patch.apply(before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before)), f"{patch.name} changes comments only"
    assert patch.title.endswith("."), f"the story of {patch.name} begins with a sentence on a line of its own"


def test_each_mutant_is_seen_by_a_cheap_killer_and_by_the_simulator() -> None:
    for path in MUTANTS:
        seeing = [killer.name for killer in KILLERS if killer.sees(read(path).path)]
        assert len(seeing) >= 2 and seeing[-1] in ("simulator", "simulated brokers"), f"{path.stem} is seen by {seeing}"


def test_every_mutant_is_in_the_table_of_kills() -> None:
    kills = (ROOT / "docs/mutants.md").read_text()
    assert [path.stem for path in MUTANTS if f"| `{path.stem}` |" not in kills] == []
    assert "**nobody**" not in kills


def test_no_mutant_is_left_to_tests_that_draw_what_they_do() -> None:
    """They found it today; with other code they draw something else, or need minutes to come upon it."""
    drawn = [test.removeprefix("tests/") for killer in KILLERS if killer.at_random for test in killer.tests]
    kills = (ROOT / "docs/mutants.md").read_text().partition("<!-- kills -->")[2]
    assert [row for row in kills.splitlines() if any(f"`{test}`" in row for test in drawn)] == []


def test_who_killed_it_last_is_asked_first_and_the_others_behind() -> None:
    patch = read(next(path for path in MUTANTS if path.stem == "acknowledged_before_fsync"))
    plain = in_turn(KILLERS, patch, {})
    for file, killer in (
        ("tests/unit/raft/test_node_log.py", "store"),
        ("tests/mutants/simulated_seeds.py", "simulator"),
    ):
        first, *others = in_turn(KILLERS, patch, {patch.name: file})
        assert first.name == killer
        assert others == [one for one in plain if one is not first]
    assert in_turn(KILLERS, patch, {patch.name: "tests/that/is/gone.py"}) == plain


def test_all_kills_of_the_table_are_known_to_a_killer() -> None:
    recorded = recorded_files((ROOT / "docs/mutants.md").read_text())
    assert sorted(recorded) == sorted(path.stem for path in MUTANTS)
    assert [file for file in recorded.values() if not any(killer.asks(file) for killer in KILLERS)] == []


def test_a_mutant_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(PatchError, match="no mutant called unheard_of"):
        chosen(["unheard_of", MUTANTS[0].stem])


def test_rows_of_mutants_that_were_not_run_stay() -> None:
    first, second = MUTANTS[0].stem, MUTANTS[1].stem
    old = [
        f"| `{first}` | A. | by one | 1.0 |",
        f"| `{second}` | B. | by one | 1.0 |",
        "| `gone` | C. | by one | 1.0 |",
    ]
    result = Result(second, "B.", Kill("log", "tests/unit/x.py::test_it_is_so", "it is not"), (), 9.0, 2.0)
    assert table(old, [result]).splitlines()[2:] == [old[0], f"| `{second}` | B. | `unit/x.py` it is so | 2.0 |"]


def test_lines_are_found_wherever_they_stand_now() -> None:
    patch = parse("one", f"{STORY}{NAMES}@@ -900,2 +900,2 @@\n a\n-b\n+c\n")
    assert patch == Patch("one", "What is wrong.", "raft/x.py", patch.hunks)
    assert patch.apply("x\na\nb\n") == "x\na\nc\n"


@pytest.mark.parametrize(("text", "times"), [("a\nc\n", 0), ("a\nb\na\nb\n", 2)])
def test_a_patch_whose_place_is_not_certain_does_not_apply(text: str, times: int) -> None:
    patch = parse("one", f"{STORY}{NAMES}@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    with pytest.raises(PatchError, match=f"around 'b' stand {times} times in raft/x.py"):
        patch.apply(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no diff at all\n", "is no unified diff"),
        (f"{NAMES}@@ -1 +1 @@\n-a\n", "does not tell which bug"),
        (f"{STORY}--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n", "is no unified diff of one file"),
        (f"{STORY}{NAMES}-a\n", "has no '@@' line"),
        (f"{STORY}{NAMES}@@ -1 +1 @@\nab\n", "'ab' is no line"),
        (f"{STORY}{NAMES}@@ -1 +1 @@\n a\n", "changes 0 lines"),
        (f"{STORY}{NAMES}@@ -1 +1 @@\n" + "-a\n" * 4, "changes 4 lines"),
        (f"{STORY}{NAMES}@@ -1 +1 @@\n+a\n", "nothing says where"),
    ],
)
def test_what_is_no_patch_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PatchError, match=problem):
        parse("one", text)

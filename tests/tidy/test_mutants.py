"""Mutants do not rot: each patch fits the tree as it is, and what comes out is a program."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

import pytest

from tests.mutants import killers
from tests.mutants.__main__ import chosen, in_turn, mutate
from tests.mutants.killers import KILLERS, Kill
from tests.mutants.patches import Patch, PatchError, parse, paths, read
from tests.mutants.recorded_kills import Result, kills, readable, recorded_tests, table
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


def test_what_killed_it_last_is_asked_first_alone_then_its_killer_and_the_others_behind() -> None:
    patch = read(next(path for path in MUTANTS if path.stem == "acknowledged_before_fsync"))
    plain = in_turn(KILLERS, patch, {})
    for test, killer in (
        ("tests/unit/raft/test_node_log.py::test_it_is_so", "store"),
        ("tests/mutants/simulated_seeds.py::test_seeds[1]", "simulator"),
    ):
        alone, group, *others = in_turn(KILLERS, patch, {patch.name: test})
        assert (alone[0].name, alone[1]) == (killer, (test,))
        assert (group[0].name, group[1]) == (killer, ())
        assert others == [one for one in plain if one != group]
    assert in_turn(KILLERS, patch, {patch.name: "tests/that/is/gone.py::test_it_is_so"}) == plain


def test_a_killer_hangs_by_the_processor_time_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants that are run beside other work get little of a processor, and have noticed nothing by that."""
    (tmp_path / "tests/mutants").mkdir(parents=True)
    (tmp_path / "raft.py").touch()
    shutil.copy(ROOT / "tests/mutants/witness.py", tmp_path / "tests/mutants")
    (tmp_path / "test_busy.py").write_text("def test_busy() -> None:\n    while True:\n        pass\n")
    monkeypatch.setattr(killers, "CPU_SECONDS_MAX", 2)
    verdict = killers.ask(tmp_path, killers.Killer("busy", ("test_busy.py",)))
    assert verdict == (None, ("busy: not at its end after 2 seconds of processor time",), 2)


def test_all_recorded_tests_are_known_to_a_killer_that_sees_the_mutant() -> None:
    recorded = recorded_tests()
    names = [path.stem for path in MUTANTS]
    missing = " ".join(name for name in names if name not in recorded)
    assert not missing, f"nothing is recorded: python -m tests.mutants {missing} --record docs/mutants.md"
    assert list(recorded) == names
    for path in MUTANTS:
        assert in_turn(KILLERS, read(path), recorded)[0][1] == (recorded[path.stem],), path.stem


def test_the_table_names_the_recorded_tests() -> None:
    rows = (ROOT / "docs/mutants.md").read_text().splitlines()
    named = {row.split("`")[1]: row for row in rows if row.startswith("| `")}
    assert [name for name, test in recorded_tests().items() if f" | {readable(test)} | " not in named[name]] == []


def test_recorded_tests_exist() -> None:
    """Arguments of theirs may be others by now: the runner says so."""
    for test in set(recorded_tests().values()):
        file, *scopes = test.partition("[")[0].split("::")
        within = ast.parse((ROOT / file).read_text()).body
        for scope in scopes:
            named = [one for one in within if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
            found = [one for one in named if one.name == scope]
            assert found, f"{test} is recorded, and {file} has no {scope}"
            within = found[0].body


def test_a_mutant_leaves_the_tree_alone_whose_files_it_shares(tmp_path: Path) -> None:
    patch = read(MUTANTS[0])
    mutant, shared = tmp_path / patch.path, tmp_path / "shared.py"
    mutant.parent.mkdir(parents=True)
    shutil.copy(ROOT / patch.path, shared)
    os.link(shared, mutant)
    mutate(tmp_path, patch)
    assert shared.read_text() == (ROOT / patch.path).read_text() != mutant.read_text()


def test_a_mutant_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(PatchError, match="no mutant called unheard_of"):
        chosen(["unheard_of", MUTANTS[0].stem])


def test_what_is_recorded_of_mutants_that_were_not_run_stays() -> None:
    first, second = MUTANTS[0].stem, MUTANTS[1].stem
    old = [
        f"| `{first}` | A. | by one | 1.0 |",
        f"| `{second}` | B. | by one | 1.0 |",
        "| `gone` | C. | by one | 1.0 |",
    ]
    test = "tests/unit/x.py::test_it_is_so"
    result = Result(second, "B.", Kill("log", test, "it is not"), (), 9.0, 2.0)
    assert table(old, [result]).splitlines()[2:] == [old[0], f"| `{second}` | B. | `unit/x.py` it is so | 2.0 |"]
    assert kills({first: "one", second: "one", "gone": "one"}, [result]) == {first: "one", second: test}
    assert kills({first: "one", second: test}, [Result(second, "B.", None, (), 9.0, 2.0)]) == {first: "one"}


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

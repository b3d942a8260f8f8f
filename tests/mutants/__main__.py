"""Puts historic bugs back, one at a time, and looks which test notices.

    python -m tests.mutants [NAME...] [--by KILLER] [--jobs N] [--json] [--record FILE]

NAME is a patch of tests/mutants/raft or brokers, without `.patch`; all by default. Every mutant lives in a copy of the tree in
a temporary directory. The killers (tests/mutants/killers.py) are asked in turn, or the one of --by alone, until an assertion
fails; who killed it when that was last recorded is asked first, unless it is to be recorded anew. In the end the tests that
killed are run on the tree without any patch, where they must pass. --record writes down the kills in a Markdown file, in the
table between its two `kills` comments; rows of mutants that were not run stay.

Exit status: 0 all were killed; 1 one survived, only crashed, or was killed by a test that fails anyway; 2 a patch no
longer applies, or a killer could not be run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tests.mutants.killers import KILLERS, Kill, Killer, KillerError, ask, warm_up
from tests.mutants.patches import Patch, PatchError, all_patches
from tests.tidy.sources import SERVER

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "mutants.md"
COPIED = (*SERVER, "client", "tests", "pyproject.toml")
CRASHES_SHOWN = 4
BEGIN, END = "<!-- kills -->", "<!-- end of kills -->"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    mutant: str
    title: str
    kill: Kill | None
    crashes: tuple[str, ...]
    seconds: float
    cpu_s: float  # of the killers: this does not depend on what else the machine does

    def as_dict(self) -> dict[str, object]:
        kill = self.kill._asdict() if self.kill is not None else None
        return {**asdict(self), "kill": kill}

    def line(self) -> str:
        if self.kill is not None:
            how, why = self.kill.test, [self.kill.why]
        else:
            how = f"ONLY CRASHED, in {len(self.crashes)} tests" if self.crashes else "SURVIVED"
            why = list(self.crashes[:CRASHES_SHOWN])
        head = f"{self.mutant:44} {self.seconds:6.1f} s, {self.cpu_s:5.1f} s of CPU  "
        return "\n".join([head + how, *(" " * len(head) + one[:200] for one in why)])


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """The parts of a tree that killers need, in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="leveret-mutant-") as name:
        root = Path(name)
        for part in COPIED:
            if (source / part).is_dir():
                shutil.copytree(source / part, root / part)  # with compiled files: all keep their times
            else:
                shutil.copy2(source / part, root / part)
        yield root


def mutate(root: Path, patch: Patch) -> None:
    """Raises PatchError."""
    path = root / patch.path
    path.write_text(patch.apply(path.read_text()))
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def in_turn(killers: Sequence[Killer], patch: Patch, recorded: Mapping[str, str]) -> list[Killer]:
    """All that can see it; the recorded one before those who have nothing to say."""
    file = recorded.get(patch.name, "")
    return sorted((one for one in killers if one.sees(patch.path)), key=lambda one: not one.asks(file))


def run(base: Path, patch: Patch, killers: Sequence[Killer], recorded: Mapping[str, str]) -> Result:
    """Raises PatchError, KillerError."""
    begun = time.perf_counter()
    crashes: list[str] = []
    cpu_s = 0.0
    kill = None
    with copied(base) as root:
        mutate(root, patch)
        for killer in in_turn(killers, patch, recorded):
            kill, crashed, taken = ask(root, killer)
            crashes += crashed
            cpu_s += taken
            if kill is not None:
                break
    return Result(patch.name, patch.title, kill, tuple(crashes), time.perf_counter() - begun, cpu_s)


def failing_anyway(base: Path, kills: Sequence[Kill]) -> list[str]:
    """Tests that killed, and fail without a mutant too."""
    found: list[str] = []
    for killer in KILLERS:
        tests = sorted({kill.test for kill in kills if kill.killer == killer.name})
        while tests:  # a run ends at its first failure
            kill, crashes, _ = ask(base, killer, tuple(tests))
            found += crashes
            if kill is None:
                break
            found.append(f"{kill.test}: {kill.why}")
            tests.remove(kill.test)
    return found


def table(rows: Sequence[str], results: Sequence[Result]) -> str:
    """The rows that were there, with these results in their places."""
    by_name = {row.split("`")[1]: row for row in rows if row.startswith("| `")}
    for one in results:
        killer = _test(one.kill.test) if one.kill else "**nobody**"
        by_name[one.mutant] = f"| `{one.mutant}` | {one.title} | {killer} | {one.cpu_s:.1f} |"
    known = {patch.name for patch in all_patches()}
    kept = [by_name[name] for name in sorted(known.intersection(by_name))]
    return "\n".join(["| mutant | the bug | killed by | CPU seconds |", "|---|---|---|---|", *kept])


def _test(node_id: str) -> str:
    file, _, test = node_id.removeprefix("tests/").partition("::")
    return f"`{file}` {test.removeprefix('test_').replace('_', ' ')}"


def record(path: Path, results: Sequence[Result]) -> None:
    before, _, rest = path.read_text().partition(BEGIN)
    rows, found, after = rest.partition(END)
    if not found:
        raise PatchError(f"{path} has no place for the table: '{BEGIN}' and '{END}' are expected")
    path.write_text(f"{before}{BEGIN}\n{table(rows.splitlines(), results)}\n{END}{after}")


def recorded_files(page: str) -> dict[str, str]:
    """By mutant: the test file that killed it."""
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    cells = [row.split("`") for row in rows if row.startswith("| `")]
    return {cell[1]: f"tests/{cell[3]}" for cell in cells if len(cell) > 3}


def chosen(names: Sequence[str]) -> list[Patch]:
    """Raises PatchError."""
    patches = all_patches()
    unknown = set(names) - {patch.name for patch in patches}
    if unknown:
        raise PatchError(f"there is no mutant called {', '.join(sorted(unknown))}; see tests/mutants")
    return [patch for patch in patches if patch.name in names or not names]


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--by", choices=[killer.name for killer in KILLERS], metavar="KILLER", help="ask this one alone"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the table into this Markdown file")
    arguments = parser.parse_args()
    killers = [killer for killer in KILLERS if arguments.by in (None, killer.name)]
    recorded = recorded_files(TABLE.read_text()) if arguments.record is None and TABLE.exists() else {}
    results: list[Result] = []
    try:
        patches = chosen(arguments.names)
        with copied(ROOT) as base, ThreadPoolExecutor(arguments.jobs) as pool:
            for patch in patches:
                patch.apply((base / patch.path).read_text())  # all of them, before any time is spent
            warm_up(base)
            for result in pool.map(partial(run, base, killers=killers, recorded=recorded), patches):
                results.append(result)
                if arguments.record is not None:  # at once: a run that is cut off has found out something, too
                    record(arguments.record, results)
                print(result.line(), file=sys.stderr if arguments.json else sys.stdout, flush=True)
            false = failing_anyway(base, [one.kill for one in results if one.kill is not None])
    except (PatchError, KillerError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    survived = [one.mutant for one in results if one.kill is None]
    if arguments.json:
        print(json.dumps({"results": [one.as_dict() for one in results], "failing_anyway": false}, indent=2))
    for test in false:
        print(f"this test fails without any mutant, so it killed nothing: {test}", file=sys.stderr)
    times = sorted(one.cpu_s for one in results)
    print(
        f"{len(results) - len(survived)} of {len(results)} mutants killed; median {times[len(times) // 2]:.1f} s of CPU, "
        f"longest {times[-1]:.1f} s{', not killed: ' + ', '.join(survived) if survived else ''}",
        file=sys.stderr if arguments.json else sys.stdout,
    )
    return 1 if survived or false else 0


if __name__ == "__main__":
    sys.exit(main())

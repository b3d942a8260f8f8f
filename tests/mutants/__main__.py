"""Puts historic bugs back, one at a time, and looks which test notices.

    python -m tests.mutants [NAME...] [--by KILLER] [--jobs N] [--json] [--anew] [--record FILE]

NAME is a patch of tests/mutants/raft or brokers, without `.patch`; all by default. Every mutant lives in a copy of the tree in
a temporary directory. The killers (tests/mutants/killers.py) are asked in turn, or the one of --by alone, until an assertion
fails. Before them the test is asked that killed it when that was last recorded, unless --anew is given. In the end the tests
that killed are run on the tree without any patch, where they must pass. --record writes down the kills for the next run, and in
a Markdown file, in the table between its two `kills` comments; what is there about mutants that were not run stays.

Exit status: 0 all were killed; 1 one survived, only crashed, or was killed by a test that fails anyway; 2 a patch no
longer applies, or a killer could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.mutants.killers import KILLERS, Kill, Killer, KillerError, Tests, ask, warm_up
from tests.mutants.patches import Patch, PatchError, all_patches
from tests.mutants.recorded_kills import Result, record, recorded_tests
from tests.tidy.sources import SERVER

ROOT = Path(__file__).resolve().parents[2]
COPIED = (*SERVER, "client", "tests", "pyproject.toml")


@contextmanager
def copied(source: Path, copy: Callable[[str, str], object] = shutil.copy2) -> Iterator[Path]:
    """The parts of a tree that killers need, in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="leveret-mutant-") as name:
        root = Path(name)
        for part in COPIED:
            if (source / part).is_dir():
                # With compiled files: all keep their times. What another process is just writing is about to be renamed.
                being_written = shutil.ignore_patterns("*.pyc.*")
                shutil.copytree(source / part, root / part, copy_function=copy, ignore=being_written)
            else:
                copy(str(source / part), str(root / part))
        yield root


def mutate(root: Path, patch: Patch) -> None:
    """Raises PatchError."""
    path = root / patch.path
    mutant = patch.apply(path.read_text())
    path.unlink()  # the tree that this one is a copy of may share the file
    path.write_text(mutant)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def in_turn(killers: Sequence[Killer], patch: Patch, recorded: Mapping[str, str]) -> list[tuple[Killer, Tests]]:
    """What is asked: the test that killed it when that was recorded, its killer, then all others that can see the mutant.

    A killer without tests is asked with all that it has.
    """
    test = recorded.get(patch.name, "")
    file = test.partition("::")[0]
    seeing = sorted((one for one in killers if one.sees(patch.path)), key=lambda one: not one.asks(file))
    alone: list[tuple[Killer, Tests]] = [(seeing[0], (test,))] if seeing and seeing[0].asks(file) else []
    return alone + [(one, ()) for one in seeing]


def run(base: Path, patch: Patch, killers: Sequence[Killer], recorded: Mapping[str, str]) -> Result:
    """Raises PatchError, KillerError."""
    begun = time.perf_counter()
    crashes: dict[str, None] = {}  # each once, in the order in which they came
    cpu_s = 0.0
    kill = None
    with copied(base, os.link) as root:
        mutate(root, patch)
        for killer, tests in in_turn(killers, patch, recorded):
            kill, crashed, taken = ask(root, killer, tests)
            crashes |= dict.fromkeys(crashed)
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
    parser.add_argument("--anew", action="store_true", help="ask the killers in turn, as if no kill was recorded")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the kills down, for the next run and in this Markdown file"
    )
    arguments = parser.parse_args()
    killers = [killer for killer in KILLERS if arguments.by in (None, killer.name)]
    recorded = {} if arguments.anew else recorded_tests()
    results: list[Result] = []
    try:
        patches = chosen(arguments.names)
        with copied(ROOT) as base, ThreadPoolExecutor(arguments.jobs) as pool:
            for patch in patches:
                patch.apply((base / patch.path).read_text())  # all of them, before any time is spent
            there = warm_up(base)
            gone = {test for test in recorded.values() if test not in there}
            print("".join(f"recorded, but no longer there: {test}\n" for test in sorted(gone)), end="", file=sys.stderr)
            recorded = {name: test for name, test in recorded.items() if test not in gone}
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

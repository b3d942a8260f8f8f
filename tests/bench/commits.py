"""This tree beside an older commit: what has become slower?

    python -m tests.bench.commits BASE [--set SET] [--rounds N] [--only TEXT] [--at-least 0.95] [--trend FILE]

BASE is checked out to a temporary directory, and its kernels are built there. Nodes of both run side by side, and each workload
runs on them in turn. A row that is below the bar is given twice as many pairs more before it counts, for single pairs differ
by a fifth on a machine with other work. Ends with 1 if a row is below. Before there were streams, only --set classic.

--trend adds a line of JSON to a file: commits, machine, and each row.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.brokers import Broker, running_broker
from tests.bench.side_by_side import Comparison, Result, means
from tests.bench.workloads import ONE_NODE_SET, SETS
from tests.running_node import ROOT

AT_LEAST = 0.95
ROUNDS = 5
MORE_ROUNDS = 2  # times as many, where a row is below


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit, built."""
    with tempfile.TemporaryDirectory(prefix="leveret-base-") as scratch:
        tree = Path(scratch) / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
            built = subprocess.run(build, cwd=tree, capture_output=True, text=True)
            if built.returncode:
                raise SystemExit(f"the kernels of {commit} cannot be built:\n{built.stderr[-4000:]}")
            yield tree
        finally:
            shutil.rmtree(tree)
            git("worktree", "prune")


def git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def compared(base: Path, options: argparse.Namespace) -> list[Result]:
    with running_broker(options.set) as ours, running_broker(options.set, base) as theirs:
        return side_by_side(ours, theirs, options)


def side_by_side(ours: Broker, theirs: Broker, options: argparse.Namespace) -> list[Result]:
    """Each workload that is asked for, on both."""
    results = []
    for workload in SETS[options.set]:
        if options.only in workload.name:
            results.append(measured(Comparison(workload, ours, theirs), options.rounds, options.at_least))
            print(results[-1].line(), flush=True)
    return results


def measured(comparison: Comparison, rounds: int, at_least: float) -> Result:
    result = comparison.run(rounds)
    return comparison.run(rounds * MORE_ROUNDS) if is_below(result, at_least) else result


def is_below(result: Result, at_least: float) -> bool:
    return result.ratio is not None and result.ratio < at_least


def trend_line(base: str, results: Sequence[Result]) -> str:
    machine = {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    said = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": git("rev-parse", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")), "base": git("rev-parse", base),
        "machine": machine, "rows": [asdict(result) for result in results],
    }  # fmt: skip
    return json.dumps(said) + "\n"


def add_options(parser: argparse.ArgumentParser, at_least: float) -> None:
    parser.add_argument("--set", choices=SETS, default=ONE_NODE_SET, help="workloads; quorum: on three nodes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"pairs of each workload; default {ROUNDS}")
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--at-least", type=float, default=at_least, metavar="RATIO", help=f"default {at_least}")


def judged(results: Sequence[Result], at_least: float) -> int:
    """What the command ends with; rows that are below are named."""
    for line in means(results):
        print(line)
    below = [result for result in results if is_below(result, at_least)]
    for result in below:
        print(f"below {at_least}: {result.workload}: {result.ratio:.3f} of {result.rounds} pairs", file=sys.stderr)
    return 1 if below else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit, tag or branch")
    add_options(parser, AT_LEAST)
    parser.add_argument("--trend", type=Path, help="a file that a line is added to")
    options = parser.parse_args()
    with checked_out(options.base) as tree:
        results = compared(tree, options)
    if options.trend:
        with options.trend.open("a") as file:
            file.write(trend_line(options.base, results))
    return judged(results, options.at_least)


if __name__ == "__main__":
    sys.exit(main())

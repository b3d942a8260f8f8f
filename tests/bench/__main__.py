"""The broker beside another one, on the same machine, in turn.

    python -m tests.bench [--a HOST:PORT] [--b HOST:PORT] [--rounds N] [--only TEXT] [--json FILE] [--record FILE]

A is Leveret; without --a a node is started on a temporary directory. B is the yardstick, usually a RabbitMQ. Each workload
runs A B A B ..., and the ratio is taken pair by pair, so that it holds while the machine's speed drifts. More than 1 means
that A is ahead. Without --b only A's figures are shown. --record adds the result to a Markdown file.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.workloads import WORKLOADS, Address, Workload
from tests.running_node import running_node


@dataclass(frozen=True, slots=True)
class Result:
    workload: str
    unit: str
    a: float
    b: float | None
    ratio: float | None  # median over the pairs; above 1 means that A is ahead
    worst: float | None
    rounds: int


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def measure(workload: Workload, a: Address, b: Address | None, rounds: int, stamp: int) -> Result:
    a_values, b_values, ratios = [], [], []
    for turn in range(rounds):
        name = f"bench.{stamp}.{workload.name.replace(' ', '-')}.{turn}"
        a_values.append(workload.run(a, name))
        if b is not None:
            b_values.append(workload.run(b, name))
            ahead = a_values[-1] / b_values[-1]
            ratios.append(ahead if workload.more_is_better else 1 / ahead)
    return Result(
        workload=workload.name,
        unit=workload.unit,
        a=statistics.median(a_values),
        b=statistics.median(b_values) if b_values else None,
        ratio=statistics.median(ratios) if ratios else None,
        worst=min(ratios) if ratios else None,
        rounds=rounds,
    )


def line(result: Result) -> str:
    text = f"{result.workload:36} {result.unit:10} A {result.a:>11,.6g}"
    if result.b is not None:
        text += f"  B {result.b:>11,.6g}  ahead {result.ratio:6.2f}x (worst {result.worst:.2f}x of {result.rounds})"
    return text


def markdown(results: list[Result]) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    rows = [
        f"## {datetime.date.today()}, commit {commit or 'unknown'}, {machine}",
        "",
        "| workload | unit | Leveret | other | ratio | worst pair |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        other, ratio, worst = (
            ("", "", "") if result.b is None else (f"{result.b:,.4g}", f"{result.ratio:.2f}", f"{result.worst:.2f}")
        )
        rows.append(f"| {result.workload} | {result.unit} | {result.a:,.4g} | {other} | {ratio} | {worst} |")
    return "\n".join(rows) + "\n\n"


@contextlib.contextmanager
def side_a(given: str | None) -> Iterator[Address]:
    if given:
        yield address(given)
        return
    with running_node() as node:
        yield node.amqp


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a")
    parser.add_argument("--b")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    results = []
    with side_a(options.a) as a:
        for workload in WORKLOADS:
            if options.only in workload.name:
                b = address(options.b) if options.b else None
                results.append(measure(workload, a, b, options.rounds, int(time.time())))
                print(line(results[-1]), flush=True)
    ratios = [result.ratio for result in results if result.ratio is not None]
    if ratios:
        print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    if options.record:
        with options.record.open("a") as file:
            file.write(markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

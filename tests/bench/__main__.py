"""The broker beside another one, on the same machine, in turn.

    python -m tests.bench [--a HOST:PORT] [--b HOST:PORT] [--set SET] [--rounds N] [--only TEXT]
                          [--b-process PID]... [--json FILE] [--record FILE]

A is Leveret; without --a a node, or a cluster of three, is started on a temporary directory. B is the yardstick, usually a
RabbitMQ. Each workload runs A B B A ..., and the ratio is taken pair by pair, so that it holds while the machine's speed
drifts. More than 1 means that A is ahead. Without --b only A's figures are shown. --record adds the result to a Markdown file.
With the processes of all of B's nodes, where these are on this machine, the ratio of the processor time that both took for the
same work is told beside that of the rates. A row that one of them fails at is told, and left out.
Beside another commit: python -m tests.bench.commits. Two configurations: python -m tests.bench.configurations.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.bench.brokers import Broker, running_broker
from tests.bench.side_by_side import Comparison, Result, means
from tests.bench.workloads import ONE_NODE_SET, SETS, Address, LoadFailed


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def markdown(results: list[Result]) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    rows = [
        f"## {datetime.date.today()}, commit {commit or 'unknown'}, {machine}",
        "",
        "| workload | unit | Leveret | other | ratio | worst pair | by processor time |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        other, ratio, worst = (
            ("", "", "") if result.b is None else (f"{result.b:,.4g}", f"{result.ratio:.2f}", f"{result.worst:.2f}")
        )
        spent = "" if result.processor is None else f"{result.processor:.2f}"
        rows.append(f"| {result.workload} | {result.unit} | {result.a:,.4g} | {other} | {ratio} | {worst} | {spent} |")
    return "\n".join(rows) + "\n\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a")
    parser.add_argument("--b")
    parser.add_argument("--b-process", type=int, action="append", default=[], metavar="PID", help="of a node of B")
    parser.add_argument("--set", choices=SETS, default=ONE_NODE_SET, help="workloads; quorum: on three nodes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    results, status = [], 0
    started = contextlib.nullcontext(Broker(address(options.a))) if options.a else running_broker(options.set)
    with started as a:
        b = Broker(address(options.b), tuple(options.b_process)) if options.b else None
        for workload in SETS[options.set]:
            if options.only in workload.name:
                try:
                    results.append(Comparison(workload, a, b).run(options.rounds))
                except LoadFailed as error:
                    status = 1
                    print(f"{workload.name}: {error}", file=sys.stderr, flush=True)
                else:
                    print(results[-1].line(), flush=True)
    for line in means(results):
        print(line)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    if options.record:
        with options.record.open("a") as file:
            file.write(markdown(results))
    return status


if __name__ == "__main__":
    sys.exit(main())

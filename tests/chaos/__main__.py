"""Faults on whole clusters of real nodes while clients work, and a verdict on what these saw.

    python -m tests.chaos                               every scenario once, on each backend that can do it
    python -m tests.chaos --short                       a few minutes' worth
    python -m tests.chaos leader-killed --times 5       some of them
    python -m tests.chaos --list
    python -m tests.containers python -m tests.chaos --backend containers

One line of JSON for each run goes to standard output, progress to standard error. When something is wrong the run's history and
the nodes' logs are kept, and the exit code is 1. Namespaces and power cuts need root; what cannot be done here is named,
and the exit code is 69 when that was all.
`python -m tests.chaos failover --help` measures how long clients wait after a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.chaos import containers, failover, namespaces, processes
from tests.chaos.backend import Backend
from tests.chaos.containers import Containers
from tests.chaos.namespaces import Namespaces
from tests.chaos.processes import Processes
from tests.chaos.runner import Verdict, run
from tests.chaos.scenarios import BY_NAME, SCENARIOS, SHORT, Scenario
from tests.crash import power

NOTHING_RUN = 69  # of what was asked for, this machine can do nothing

BACKENDS = {
    "processes": (Processes, processes.unavailable),
    "netns": (Namespaces, namespaces.unavailable),
    "containers": (Containers, containers.unavailable),
}


def main() -> int:
    if sys.argv[1:2] == ["failover"]:
        return failover.main(sys.argv[2:])
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="names; none: all of them")
    parser.add_argument("--backend", choices=BACKENDS, help="one of those that can; default: the first that can")
    parser.add_argument("--short", action="store_true", help=f"these: {', '.join(SHORT)}")
    parser.add_argument("--times", type=int, default=1, help="of each")
    parser.add_argument("--seed", type=int, help="of the first run; the next ones count on from it")
    parser.add_argument("--keep", type=Path, help="where runs that went wrong are kept; default: a new directory")
    parser.add_argument("--list", action="store_true", help="names and faults, and nothing else")
    given = parser.parse_args()
    if unknown := [name for name in given.scenarios if name not in BY_NAME]:
        parser.error(f"there is no scenario {', '.join(unknown)}: see --list")
    if given.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name:30} {', '.join(sorted(fault.value for fault in scenario.faults))}")
        return 0
    names = given.scenarios or (SHORT if given.short else tuple(BY_NAME))
    power.end_by_exception()
    if given.backend != "containers" and power.available() is None:
        power.keep_mounts_apart()
    return run_all([BY_NAME[name] for name in names], given.backend, given.times, given.seed, given.keep)


def run_all(
    scenarios: list[Scenario], backend: str | None, times: int, first_seed: int | None, keep: Path | None
) -> int:
    keep = keep or Path(tempfile.mkdtemp(prefix="leveret-chaos-"))
    keep.mkdir(parents=True, exist_ok=True)
    wrong = left_out = 0
    runs = [(scenario, number) for number in range(times) for scenario in scenarios]
    for at, (scenario, _) in enumerate(runs):
        seed = first_seed + at if first_seed is not None else random.SystemRandom().randrange(1 << 32)
        chosen = next(_able(scenario, backend), None)
        if chosen is None:
            left_out += 1
            continue
        verdict = run_once(scenario, chosen, keep, seed)
        print(json.dumps(asdict(verdict)), flush=True)
        wrong += bool(verdict.wrong)
        outcome = "WRONG: " + "; ".join(verdict.wrong)[:400] if verdict.wrong else f"{verdict.confirmed} confirmed"
        print(f"{at + 1} of {len(runs)}: {scenario.name} in {verdict.seconds:g} s: {outcome}", file=sys.stderr)
    print(f"{len(runs) - left_out} runs, {wrong} wrong, {left_out} cannot be done here", file=sys.stderr)
    if not any(keep.iterdir()):
        keep.rmdir()
    if left_out == len(runs):
        return NOTHING_RUN
    return 1 if wrong else 0


def _able(scenario: Scenario, wanted: str | None) -> Iterator[str]:
    """Backends that can do all that the scenario needs. Says what keeps the others from it."""
    why_not = []
    for name, (kind, unavailable) in BACKENDS.items():
        if wanted is not None and name != wanted:
            continue
        if (reason := kind.unfit(scenario.shape) or unavailable(scenario.needs)) is None:
            yield name
        else:
            why_not.append(f"{name}: {reason}")
    print(f"{scenario.name} is left out: {'; '.join(why_not)}", file=sys.stderr)


def run_once(scenario: Scenario, name: str, keep: Path, seed: int) -> Verdict:
    directory = Path(tempfile.mkdtemp(prefix=f"{scenario.name}-", dir=keep))
    with tempfile.TemporaryDirectory(prefix="leveret-chaos-nodes-") as scratch:
        kind, _ = BACKENDS[name]
        backend: Backend = kind(scenario.shape, Path(scratch), scenario.needs)
        return asyncio.run(run(scenario, name, backend, directory, seed))


if __name__ == "__main__":
    sys.exit(main())

"""python -m tests.sim: clusters in virtual time, put through everything that can go wrong.

    python -m tests.sim --seeds 1000 --from 1 --jobs 2     many seeds; the exit code is 1 when a promise was broken, and 2
                                                           when a fault that was asked for often never
                                                           happened, or a big campaign has not reached everything
    python -m tests.sim --seed 17                          one seed again, to the bit
    python -m tests.sim --layer brokers --seed 17          whole brokers, instead of the consensus engine alone
    python -m tests.sim --file tests/scenarios/found/x.txt a plan that was kept

The plan of a failure is made smaller and kept in tests/scenarios/found, which the tests replay for ever.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.sim.campaign import Totals, campaign
from tests.sim.kept import read
from tests.sim.layers import NAMES, layer_of
from tests.sim.plan import SECONDS, Plan
from tests.sim.run import Outcome, run, run_with_log
from tests.sim.shrink import ATTEMPTS_MAX, Shrinker

FOUND = Path(__file__).parent.parent / "scenarios" / "found"
SHRINK_MAX = 3  # failures of one campaign that are made smaller
GOOD, BROKEN, NOT_REACHED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.file is not None:
        return _one(read(options.file.read_text()), options, is_kept=True)
    if options.seed is not None:
        return _one(layer_of(options.layer).draw(options.seed, options.seconds), options, is_kept=False)
    return _many(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.splitlines()[0])
    parser.add_argument("--layer", choices=NAMES, default="engine", help="what is simulated (default: engine)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seed", type=int, help="run this one, and make it smaller when it fails")
    what.add_argument("--file", type=Path, help="run a plan that was kept")
    what.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--fresh", action="store_true", help="seeds that nobody has run before, by the clock")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="simulated, of each seed (default: 60)")
    parser.add_argument("--wall", type=float, help="begin nothing new after so many real seconds")
    parser.add_argument("--faults", type=int, help="begin nothing new after so many faults")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--trace", action="store_true", help="with --seed or --file: print every event")
    parser.add_argument(
        "--shrink", type=int, default=ATTEMPTS_MAX, help="attempts to make a failure smaller; 0: keep none"
    )
    parser.add_argument("--keep-in", type=Path, default=FOUND, help="where the plans of failures go")
    return parser


# One


def _one(plan: Plan, options: argparse.Namespace, *, is_kept: bool) -> int:
    log: list[str] | None = [] if options.trace else None
    outcome = run_with_log(plan, log)
    for line in log or ():
        print(line)
    if options.json:
        print(json.dumps(outcome.as_dict(), indent=2))
    else:
        _tell_outcome(plan, outcome)
    if outcome.is_good:
        return GOOD
    if not is_kept and options.shrink:
        _keep(plan, outcome, options)
    return BROKEN


def _tell_outcome(plan: Plan, outcome: Outcome) -> None:
    shape = plan.shape
    print(
        f"seed {outcome.seed}: {shape.voters} voters, {shape.spare} spare nodes, {shape.groups} groups, {shape.frail} frail"
    )
    print(f"{outcome.events} events in {outcome.simulated_s:.1f} simulated seconds, {outcome.cpu_s:.2f} s of CPU")
    print(
        f"{outcome.committed} entries committed, {outcome.answered} calls answered, {outcome.unknown} of unknown fate"
    )
    print(f"{sum(outcome.checked.values())} checks of {len(outcome.checked)} invariants")
    _table("faults", outcome.faults)
    _table("reached", dict(sorted(outcome.counted.items())))
    print(f"trace {outcome.hash}")
    print(outcome.message if outcome.invariant else "no promise was broken")


# Many


def _many(options: argparse.Namespace) -> int:
    first = int(time.time()) * 10_000 if options.fresh else options.first
    layer = layer_of(options.layer)
    totals = campaign(
        layer,
        range(first, first + options.seeds),
        seconds=options.seconds,
        jobs=options.jobs,
        wall_s=options.wall,
        faults_enough=options.faults,
    )
    if options.json:
        print(json.dumps(totals.as_dict(), indent=2))
    else:
        _tell_totals(totals, first)
    for failure in totals.failures[:SHRINK_MAX]:
        if options.shrink:
            _keep(layer.draw(failure.seed, options.seconds), failure, options)
    if totals.failures or totals.unequal:
        return BROKEN
    return NOT_REACHED if totals.never_reached() else GOOD


def _tell_totals(totals: Totals, first: int) -> None:
    _table("faults", {kind: totals.faults[kind] for kind in totals.layer.kinds})
    _table("rare paths", {path: totals.counted[path] for path in totals.layer.rare_paths})
    _table("invariants, times checked", {name: totals.checked[name] for name in totals.layer.invariants})
    print(
        f"{totals.seeds} seeds from {first}: {totals.simulated_s / 3600:.1f} simulated hours in {totals.cpu_s:.0f} s of CPU, "
        f"{totals.events} events, {totals.faults.total()} faults of {len(+totals.faults)} kinds"
    )
    print(
        f"{totals.committed} entries committed, {totals.answered} calls answered, {totals.unknown} of unknown fate, "
        f"{totals.checked.total()} checks of {len(+totals.checked)} invariants"
    )
    print(totals.progress_told)
    print(f"{totals.run_twice} seeds were run twice, {len(totals.unequal)} came to another trace: {totals.unequal}")
    for path in totals.never_reached():
        print(f"never reached: {path}")
    for failure in totals.failures:
        print(f"\nseed {failure.seed} broke {failure.invariant}:\n{failure.message}")
        print(f"run it again: python -m tests.sim --layer {totals.layer.name} --seed {failure.seed}")
    if not totals.failures:
        print("no promise was broken")


def _table(title: str, figures: Mapping[str, int]) -> None:
    print(f"{title}:")
    for name, figure in figures.items():
        print(f"  {figure:>10}  {name}")


# Failures


def _keep(plan: Plan, outcome: Outcome, options: argparse.Namespace) -> None:
    """Make it smaller, and write it down."""

    def fails(smaller: Plan) -> bool:
        return run(smaller).invariant == outcome.invariant

    print(f"seed {plan.seed} is made smaller ...", file=sys.stderr, flush=True)
    shrinker = Shrinker(fails, options.shrink)
    smaller = shrinker.smaller(plan)
    path = options.keep_in / f"{outcome.invariant}_{plan.seed}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    why = run(smaller).message.splitlines()
    path.write_text(smaller.text("\n".join(["TODO: tell the story in a sentence.", *why[:1]])))
    print(
        f"{len(smaller.faults)} of {len(plan.faults)} faults and {len(smaller.asks)} of {len(plan.asks)} questions are left "
        f"after {shrinker.attempts} attempts: {path}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())

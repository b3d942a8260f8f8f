"""Many seeds over several processes, and what they come to together.

Every hundredth seed is run twice, as a rule by another process with another order of hashes: both runs must come to the same
trace. A campaign that is big enough must also have reached every kind of fault, every promise and every rare path; in a smaller
one each kind of fault must have happened that was asked for often.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.layers import Layer, layer_of
from tests.sim.run import Outcome, run

TWICE_EVERY = 100
PROGRESS_EVERY_S = 10.0
ASKED_OFTEN = 120  # of the kind that finds least of what it needs, one in ten happens


@dataclass
class Totals:
    """Of all runs so far; the second run of a seed counts for its hash only."""

    layer: Layer
    seeds: int = 0
    events: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    answered: int = 0
    unknown: int = 0
    committed: int = 0
    run_twice: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)  # faults of all plans
    counted: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    unequal: list[int] = field(default_factory=list)  # seeds whose two runs differed
    _hashes: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        if outcome.seed % TWICE_EVERY == 0:
            known = self._hashes.setdefault(outcome.seed, outcome.hash)
            if known != outcome.hash:
                self.unequal.append(outcome.seed)
        self.seeds += 1
        self.events += outcome.events
        self.simulated_s += outcome.simulated_s
        self.cpu_s += outcome.cpu_s
        self.answered += outcome.answered
        self.unknown += outcome.unknown
        self.committed += outcome.committed
        self.faults.update(outcome.faults)
        self.asked.update(outcome.asked)
        self.counted.update(outcome.counted)
        self.checked.update(outcome.checked)
        if not outcome.is_good:
            self.failures.append(outcome)

    def add_second(self, outcome: Outcome) -> None:
        self.run_twice += 1
        if self._hashes.setdefault(outcome.seed, outcome.hash) != outcome.hash:
            self.unequal.append(outcome.seed)

    def never_reached(self) -> list[str]:
        """Of a small campaign only kinds of faults that are not missing by chance."""
        layer = self.layer
        if self.seeds < layer.big:
            never = [kind for kind in layer.kinds if self.asked[kind] >= ASKED_OFTEN and not self.faults[kind]]
            return [f"fault: {kind}, asked for {self.asked[kind]} times" for kind in never]
        return [
            *(f"fault: {kind}" for kind in layer.kinds if not self.faults[kind]),
            *(f"path: {path}" for path in layer.rare_paths if not self.counted[path]),
            *(f"invariant: {name}" for name in layer.invariants if not self.checked[name]),
            *([f"progress: {self.progress_told}"] if self.stands else []),
        ]

    @property
    def stands(self) -> bool:
        """Whether faults come so close that clusters only suffer them, and serve nobody in between."""
        progress = self.layer.progress
        return bool(progress) and self.counted[progress] < self.faults.total()

    @property
    def progress_told(self) -> str:
        progress = self.layer.progress
        told = f"{self.faults.total() / max(self.cpu_s, 0.001):.0f} faults in a second of CPU"
        if progress:
            told += f", '{progress}' {self.counted[progress] / max(self.faults.total(), 1):.1f} times for each"
        return told

    def as_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer.name,
            "seeds": self.seeds,
            "simulated_hours": round(self.simulated_s / 3600, 3),
            "cpu_s": round(self.cpu_s, 1),
            "events": self.events,
            "faults_injected": self.faults.total(),
            "progress": self.counted[self.layer.progress],
            "entries_committed": self.committed,
            "calls_answered": self.answered,
            "calls_unknown": self.unknown,
            "checks": self.checked.total(),
            "run_twice": self.run_twice,
            "unequal": self.unequal,
            "failures": [one.as_dict() for one in self.failures],
            "never_reached": self.never_reached(),
            "faults": {kind: self.faults[kind] for kind in self.layer.kinds},
            "rare_paths": {path: self.counted[path] for path in self.layer.rare_paths},
            "counted": dict(sorted(self.counted.items())),
            "invariants": {name: self.checked[name] for name in self.layer.invariants},
        }


Task = tuple[str, int, float, bool]  # layer, seed, simulated seconds, whether it is the second run of it


def _run_task(task: Task) -> tuple[bool, Outcome]:
    layer, seed, seconds, is_second = task
    return is_second, run(layer_of(layer).draw(seed, seconds))


def _tasks(layer: Layer, seeds: Iterable[int], seconds: float) -> Iterator[Task]:
    for seed in seeds:
        yield layer.name, seed, seconds, False
        if seed % TWICE_EVERY == 0:
            yield layer.name, seed, seconds, True


def outcomes(tasks: Iterable[Task], jobs: int) -> Iterator[tuple[bool, Outcome]]:
    if jobs <= 1:
        yield from map(_run_task, tasks)
        return
    # Spawned, not forked: each has an order of hashes of its own, on which nothing may depend.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_task, tasks, chunksize=4)


def campaign(
    layer: Layer,
    seeds: Sequence[int],
    *,
    seconds: float,
    jobs: int,
    wall_s: float | None = None,
    faults_enough: int | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Totals:
    """Run them all, or as many as are done within `wall_s`, or until so many faults have happened."""
    totals = Totals(layer)
    began = said = time.monotonic()
    for is_second, outcome in outcomes(_tasks(layer, seeds, seconds), jobs):
        if is_second:
            totals.add_second(outcome)
        else:
            totals.add(outcome)
        if not outcome.is_good and not is_second:
            say(f"seed {outcome.seed}: {outcome.message.splitlines()[0]}")
        now = time.monotonic()
        if now - said >= PROGRESS_EVERY_S:
            said = now
            faults, failures = totals.faults.total(), len(totals.failures)
            say(f"{now - began:.0f} s: {totals.seeds} of {len(seeds)} seeds, {faults} faults, {failures} failures")
        if wall_s is not None and now - began > wall_s:
            break
        if faults_enough is not None and totals.faults.total() >= faults_enough:
            break
    return totals

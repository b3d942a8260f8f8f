"""A workload on two brokers in turn, and what comes of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.bench.brokers import Broker
from tests.bench.workloads import Workload


@dataclass(frozen=True, slots=True)
class Result:
    """Medians."""

    workload: str
    unit: str
    a: float
    b: float | None
    ratio: float | None  # of the pairs; above 1 means that A is ahead
    worst: float | None
    rounds: int
    processor: float | None = (
        None  # as `ratio`, of the processor time that the brokers took; None: it is not known of both
    )

    def line(self) -> str:
        text = f"{self.workload:44} {self.unit:10} A {self.a:>11,.6g}"
        if self.b is not None:
            text += f"  B {self.b:>11,.6g}  ahead {self.ratio:6.2f}x (worst {self.worst:.2f}x of {self.rounds})"
        if self.processor is not None:
            text += f", by processor time {self.processor:.3f}x"
        return text


class _Run(NamedTuple):
    figure: float
    processor_s: float | None


class Comparison:
    """Of one workload, as many pairs as are asked for. Who is first changes from pair to pair."""

    def __init__(self, workload: Workload, a: Broker, b: Broker | None) -> None:
        self._workload = workload
        self._a, self._b = a, b
        self._pairs: list[tuple[_Run, _Run]] = []
        self._alone: list[float] = []
        self._stamp = time.time_ns()
        self._turn = 0

    def run(self, rounds: int) -> Result:
        """With those that were run before."""
        for _ in range(rounds):
            self._turn += 1
            if self._b is None:
                self._alone.append(self._once(self._a).figure)
            elif self._turn % 2:
                a = self._once(self._a)
                self._pairs.append((a, self._once(self._b)))
            else:
                b = self._once(self._b)
                self._pairs.append((self._once(self._a), b))
        return self._result()

    def _once(self, where: Broker) -> _Run:
        name = f"bench.{self._stamp}.{self._workload.name.replace(' ', '-')}.{self._turn}"
        before = where.processor_seconds()
        figure = self._workload.run(where.address, name)
        after = where.processor_seconds()
        return _Run(figure, None if before is None or after is None else after - before)

    def _result(self) -> Result:
        one = self._workload
        if self._b is None:
            return Result(one.name, one.unit, statistics.median(self._alone), None, None, None, len(self._alone))
        figures = [(a.figure, b.figure) for a, b in self._pairs]
        ratios = [a / b if one.more_is_better else b / a for a, b in figures]
        a, b = (statistics.median(values) for values in zip(*figures, strict=True))
        ratio, processor = statistics.median(ratios), self._processor_ratio()
        return Result(one.name, one.unit, a, b, ratio, min(ratios), len(ratios), processor)

    def _processor_ratio(self) -> float | None:
        ratios = [b.processor_s / a.processor_s for a, b in self._pairs if a.processor_s and b.processor_s]
        return statistics.median(ratios) if ratios else None


def means(results: Sequence[Result]) -> Iterator[str]:
    """Geometric ones, of rates and of processor times, in words; none of what was not compared."""
    ratios = [result.ratio for result in results if result.ratio is not None]
    if ratios:
        yield f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}"
    times = [result.processor for result in results if result.processor is not None]
    if times:
        yield f"geometric mean by processor time: {statistics.geometric_mean(times):.2f}"

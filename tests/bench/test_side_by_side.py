"""Pairs of measurements, and when a row counts as slower."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.bench.brokers import Broker
from tests.bench.commits import is_below, measured
from tests.bench.side_by_side import Comparison, Result, means
from tests.bench.workloads import Address, Workload

OURS, THEIRS = Broker(("ours", 1)), Broker(("theirs", 1))


class Scripted:
    """Gives the next figure of whoever is asked, and notes who that was."""

    def __init__(self, ours: list[float], theirs: list[float]) -> None:
        self._figures: dict[Address, Iterator[float]] = {OURS.address: iter(ours), THEIRS.address: iter(theirs)}
        self.asked: list[str] = []

    def run(self, where: Address, name: str) -> float:
        self.asked.append(where[0])
        return next(self._figures[where])


def test_who_is_first_changes_from_pair_to_pair() -> None:
    script = Scripted([1, 2, 3], [2, 2, 2])
    result = Comparison(Workload("w", script.run), OURS, THEIRS).run(3)
    assert script.asked == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert (result.a, result.b, result.ratio, result.worst, result.rounds) == (2, 2, 1, 0.5, 3)


def test_of_times_less_is_ahead() -> None:
    script = Scripted([5], [10])
    result = Comparison(Workload("w", script.run, "ms", more_is_better=False), OURS, THEIRS).run(1)
    assert result.ratio == 2


class Metered(Broker):
    """Takes so many seconds of processor time in each run."""

    seconds: Iterator[float]

    def processor_seconds(self) -> float:
        return next(self.seconds)


def metered(name: str, *seconds: float) -> Metered:
    broker = Metered((name, 1))
    broker.seconds = iter(seconds)
    return broker


def test_processor_time_is_compared_pair_by_pair() -> None:
    a, b = metered(OURS.address[0], 1.0, 3.0, 3.0, 4.0), metered(THEIRS.address[0], 5.0, 6.0, 6.0, 10.0)
    result = Comparison(Workload("w", Scripted([1, 1], [1, 1]).run), a, b).run(2)
    assert result.processor == pytest.approx((0.5 + 4.0) / 2)


def test_the_processor_time_of_a_broker_is_that_of_all_its_nodes() -> None:
    begun = time.process_time()
    once, twice = Broker(OURS.address, (os.getpid(),)), Broker(OURS.address, (os.getpid(), os.getpid()))
    one, two = once.processor_seconds(), twice.processor_seconds()
    assert one is not None and two is not None and begun <= one and 2 * one <= two


def test_means_are_of_rates_and_of_processor_times() -> None:
    rows = [Result("w", "per second", 1, 1, ratio, ratio, 1, processor) for ratio, processor in ((2, 3.0), (8, None))]
    assert list(means(rows)) == ["geometric mean of the ratios: 4.00", "geometric mean by processor time: 3.00"]


def test_of_a_broker_whose_processes_nobody_names_no_processor_time_is_known() -> None:
    assert Comparison(Workload("w", Scripted([1], [1]).run), OURS, THEIRS).run(1).processor is None


def test_alone_there_is_no_ratio() -> None:
    result = Comparison(Workload("w", Scripted([3, 1, 2], []).run), OURS, None).run(3)
    assert (result.a, result.b, result.ratio, list(means([result]))) == (2, None, None, [])
    assert not is_below(result, 1.0)


@pytest.mark.parametrize(
    ("ours", "rounds", "ratio"),
    [([96, 96], 2, 0.96), ([90, 90, 100, 100, 100, 100], 6, 1.0), ([90] * 6, 6, 0.9)],
)
def test_a_row_that_is_below_is_given_more_pairs_before_it_counts(ours: list[float], rounds: int, ratio: float) -> None:
    result = measured(Comparison(Workload("w", Scripted(ours, [100] * 6).run), OURS, THEIRS), 2, 0.95)
    assert (result.rounds, result.ratio, is_below(result, 0.95)) == (rounds, ratio, ratio < 0.95)

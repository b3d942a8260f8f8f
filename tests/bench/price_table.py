"""What levels of the history cost beside each other: ratios of portions of one round, with how sure they are."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

# What each is compared with, and how much of its speed it has to have; the control is `off` once more, which has no bar.
BESIDE = {"control": "off", "basic": "off", "full": "off", "archive": "basic"}
BARS = {"basic": 0.98, "full": 0.97, "archive": 0.99}
MORE_IS_BETTER = "rate"
SUMMED = {"cpu": "cpu, sum"}  # figures that are told of all rounds together, too, and how that is called
DRAWS = 1_000
SURE = 0.95

Portions = dict[str, dict[str, float]]  # figures by level


class Round(NamedTuple):
    """Portions of one row that came one behind the other, of nodes that ran side by side since the same start."""

    row: str
    start: str
    levels: Portions


class Price(NamedTuple):
    """Of a level's figure: below 1 it is slower than what it is compared with."""

    row: str
    level: str
    figure: str
    ratio: float
    low: float
    high: float
    starts: tuple[float, ...]  # the ratio of each start of the nodes
    rounds: int

    @property
    def is_over(self) -> bool:
        """The whole interval is below the bar."""
        return self.high < BARS.get(self.level, 0.0)


Pairs = list[tuple[float, float]]  # of rounds: how fast a level was, and what it is compared with, in any unit
Ratio = Callable[[Pairs], float]


def prices(rounds: Sequence[Round], chance: random.Random) -> Iterator[Price]:
    """By row, figure and level."""
    for row in dict.fromkeys(one.row for one in rounds):
        of_row = [one for one in rounds if one.row == row]
        for figure in dict.fromkeys(name for one in of_row for of in one.levels.values() for name in of):
            for level, beside in BESIDE.items():
                pairs = _pairs(of_row, figure, level, beside)
                if pairs:
                    yield _price(row, level, figure, pairs, median_ratio, chance)
                if pairs and figure in SUMMED:
                    yield _price(row, level, SUMMED[figure], pairs, ratio_of_sums, chance)


def _pairs(rounds: Iterable[Round], figure: str, level: str, beside: str) -> list[Pairs]:
    """By start."""
    found: dict[str, Pairs] = {}
    for one in rounds:
        if level in one.levels and beside in one.levels:
            ours, theirs = one.levels[level][figure], one.levels[beside][figure]
            found.setdefault(one.start, []).append((ours, theirs) if figure == MORE_IS_BETTER else (theirs, ours))
    return list(found.values())


def median_ratio(pairs: Pairs) -> float:
    return math.exp(statistics.median(math.log(ours / theirs) for ours, theirs in pairs))


def ratio_of_sums(pairs: Pairs) -> float:
    return sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs)


def _price(row: str, level: str, figure: str, pairs: list[Pairs], ratio: Ratio, chance: random.Random) -> Price:
    drawn = sorted(ratio(_drawn(pairs, chance)) for _ in range(DRAWS))
    edge = int(DRAWS * (1 - SURE) / 2)
    every = [pair for of_start in pairs for pair in of_start]
    starts = tuple(ratio(of_start) for of_start in pairs)
    return Price(row, level, figure, ratio(every), drawn[edge], drawn[-1 - edge], starts, len(every))


def _drawn(pairs: list[Pairs], chance: random.Random) -> Pairs:
    """Starts, and rounds of them: two rounds of one start have its layout of memory in common."""
    starts = chance.choices(pairs, k=len(pairs))
    return [pair for of_start in starts for pair in chance.choices(of_start, k=len(of_start))]


def over(found: Sequence[Price]) -> list[Price]:
    """Those that are surely below their bar, where the control is not."""
    controls = {(one.row, one.figure): one for one in found if one.level == "control"}
    bad = []
    for one in found:
        control = controls.get((one.row, one.figure))
        if one.is_over and (control is None or control.high >= BARS[one.level]):
            bad.append(one)
    return bad


def markdown(found: Sequence[Price]) -> Iterator[str]:
    """A line for each row and figure, a column for each level."""
    yield f"| row | figure | {' | '.join(BESIDE)} | rounds, starts |"
    yield "|---" * (len(BESIDE) + 3) + "|"
    for row, figure in dict.fromkeys((one.row, one.figure) for one in found):
        of = {one.level: one for one in found if (one.row, one.figure) == (row, figure)}
        said = " | ".join(_cell(of[level]) if level in of else "" for level in BESIDE)
        most = max(of.values(), key=lambda one: one.rounds)
        yield f"| {row} | {figure} | {said} | {most.rounds}, {len(most.starts)} |"


def _cell(one: Price) -> str:
    return f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f}; {min(one.starts):.2f} to {max(one.starts):.2f})"

"""How fast what is counted grows, for who looks again and again.

Nothing is sampled while nobody looks, and looking costs nothing but two samples of what is shown: the rate is what was counted
between the last two looks that were STEP_MS apart, by the time between them. Who looks for the first time, or the first time
in KEPT_MS, is shown 0.0.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

STEP_MS = 5_000
KEPT_MS = 600_000
SAMPLED_MAX = 50_000  # things; those that nobody looked at for longest go first

Counts = dict[str, int]


@dataclass(slots=True)
class _Samples:
    at: int
    counts: Counts
    rates: dict[str, float]


class ShownRates:
    """Of one node. What it is asked about has names with `_details` beside them."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._samples: OrderedDict[Hashable, _Samples] = OrderedDict()

    def fill(self, key: Hashable, shown: dict[str, Any]) -> dict[str, Any]:
        """The same, with the rates of what it counts."""
        rates = self._rates_of(key, {name: shown[name] for name in shown if f"{name}_details" in shown})
        for name, rate in rates.items():
            if f"{name}_details" in shown:
                shown[f"{name}_details"]["rate"] = rate
        return shown

    def _rates_of(self, key: Hashable, counts: Counts) -> dict[str, float]:
        now, last = self._wall_ms(), self._samples.pop(key, None)
        if last is None or not 0 <= now - last.at <= KEPT_MS:
            last = _Samples(now, counts, {})
        elif now - last.at >= STEP_MS:
            last = _Samples(now, counts, _growth(last.counts, counts, now - last.at))
        self._samples[key] = last
        if len(self._samples) > SAMPLED_MAX:
            self._samples.popitem(last=False)
        return last.rates


def _growth(before: Counts, now: Counts, elapsed_ms: int) -> dict[str, float]:
    """A thing that was made anew under the same name has counted less than before: that is no rate."""
    return {name: max(0, count - before.get(name, 0)) * 1_000 / elapsed_ms for name, count in now.items()}

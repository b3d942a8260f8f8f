"""What is shown of one object, or of the same object as several nodes have counted it: counts, their rates, and samples.

As it goes to other nodes: {"counts": {NAME: COUNT}, "rates": {NAME: RATE}, "points": {NAME: [[TIME, COUNT]]}}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from front.web.samples.ranges import Details, Points, details

Json = dict[str, Any]
K = TypeVar("K")
N = TypeVar("N", int, float)
NOTHING: Mapping[str, Any] = {}


class SampledFigures:
    """Never changed: adding makes new dictionaries."""

    __slots__ = ("counts", "points", "rates")

    def __init__(
        self,
        counts: Mapping[str, int] = NOTHING,
        rates: Mapping[str, float] = NOTHING,
        points: Mapping[str, Points] = NOTHING,
    ) -> None:
        """`points`: of those of which times are asked for."""
        self.counts = counts
        self.rates = rates
        self.points = points

    @classmethod
    def of_nodes(cls, rows: Iterable[Json]) -> SampledFigures:
        """What nodes have said, added up. What a node of another version does not say is nothing."""
        found = cls()
        for row in rows:
            points = {name: dict(some) for name, some in row.get("points", {}).items()}
            found = found.with_those_of(cls(row.get("counts", {}), row.get("rates", {}), points))
        return found

    def with_those_of(self, other: SampledFigures) -> SampledFigures:
        """What another node has counted, or another object."""
        points = {
            name: _added(self.points.get(name, {}), other.points.get(name, {}))
            for name in {*self.points, *other.points}
        }
        return SampledFigures(_added(self.counts, other.counts), _added(self.rates, other.rates), points)

    def only(self, names: Iterable[str]) -> SampledFigures:
        names = tuple(names)  # gone through three times
        return SampledFigures(
            {name: self.counts[name] for name in names if name in self.counts},
            {name: self.rates[name] for name in names if name in self.rates},
            {name: self.points[name] for name in names if name in self.points},
        )

    def row(self) -> Json:
        points = {name: list(some.items()) for name, some in self.points.items()}
        return {"counts": self.counts, "rates": self.rates, "points": points}

    def details(self, name: str) -> Details:
        return details(float(self.rates.get(name, 0.0)), self.points.get(name))

    def shown(self, names: Iterable[str]) -> Json:
        """Each count, with how it grows and was beside it."""
        found: Json = {}
        for name in names:
            found[name] = self.counts.get(name, 0)
            found[f"{name}_details"] = self.details(name)
        return found


def _added(one: Mapping[K, N], other: Mapping[K, N]) -> dict[K, N]:
    found = dict(one)
    for name, count in other.items():
        found[name] = found[name] + count if name in found else count
    return found

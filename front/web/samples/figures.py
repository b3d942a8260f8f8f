"""What is shown of one object, or of the same object as several nodes have counted it: counts, their rates, and samples.

As it goes to other nodes: {"counts": {NAME: COUNT}, "rates": {NAME: RATE}, "points": {NAME: [[TIME, COUNT]]}}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from front.web.samples.ranges import Details, Points, details

Json = dict[str, Any]


class Figures:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.rates: Counter[str] = Counter()
        self.points: dict[str, Counter[int]] = {}  # of those of which times are asked for

    @classmethod
    def of(cls, counts: Mapping[str, int], rates: Mapping[str, float], points: Mapping[str, Points]) -> Figures:
        found = cls()
        found.counts.update(counts)
        found.rates.update(rates)
        found.points = {name: Counter(some) for name, some in points.items()}
        return found

    @classmethod
    def of_nodes(cls, rows: Iterable[Json]) -> Figures:
        """What nodes have said, added up. What a node of another version does not say is nothing."""
        found = cls()
        for row in rows:
            points = {name: dict(some) for name, some in row.get("points", {}).items()}
            found.add(cls.of(row.get("counts", {}), row.get("rates", {}), points))
        return found

    def add(self, other: Figures) -> None:
        """What another node has counted, or another object."""
        self.counts.update(other.counts)
        self.rates.update(other.rates)
        for name, some in other.points.items():
            self.points.setdefault(name, Counter()).update(some)

    def only(self, names: Iterable[str]) -> Figures:
        found = Figures()
        for name in names:
            found.counts[name], found.rates[name] = self.counts[name], self.rates[name]
            if name in self.points:
                found.points[name] = self.points[name]
        return found

    def row(self) -> Json:
        points = {name: list(some.items()) for name, some in self.points.items()}
        return {"counts": self.counts, "rates": self.rates, "points": points}

    def details(self, name: str) -> Details:
        return details(float(self.rates[name]), self.points.get(name))

    def shown(self, names: Iterable[str]) -> Json:
        """Each count, with how it grows and was beside it."""
        found: Json = {}
        for name in names:
            found[name] = self.counts[name]
            found[f"{name}_details"] = self.details(name)
        return found

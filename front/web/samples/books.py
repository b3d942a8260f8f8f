"""The samples of all objects of one kind on this node.

Of each there are the last two, for its rate: 200 bytes if it does nothing. What somebody has looked at by itself gets rings for
the next LOOKED_AT_MS, and at most RINGED_MAX objects of a kind have them: they are what takes memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from front.web.samples.figures import NOTHING, SampledFigures
from front.web.samples.ranges import Points, Ranges, sampled_at
from front.web.samples.rings import At, SampleRing
from front.web.samples.shapes import MAY_SHRINK, Row, SampleShape

STEP_S = 5
# Seconds that a ring reaches back, and between its samples.
GLOBAL = ((605, STEP_S), (3_660, 60), (29_400, 600), (86_400, 1_800))
BASIC = ((605, STEP_S), (3_600, 60))
DETAILED = ((605, STEP_S),)
LOOKED_AT_MS = 600_000
RINGED_MAX = 1_000
OLD_ROUNDS = 2.0  # a rate that was measured so long ago says nothing of now

Spans = Sequence[tuple[int, int]]


class _Sampled:
    """One object: its last sample, the one before, and its rings, if it has any."""

    __slots__ = ("at", "before", "before_at", "changed_at", "rings", "round", "row")

    def __init__(self, at: int, row: Row) -> None:
        self.at = self.before_at = self.changed_at = at
        self.row = self.before = row
        self.rings: Sequence[SampleRing] = ()
        self.round = 0

    def add(self, at: int, row: Row) -> None:
        """One that did nothing keeps one row, and no two."""
        self.before_at, self.before = self.at, self.row
        self.at = at
        if row != self.row:
            self.row, self.changed_at = row, at
        for ring in self.rings:
            ring.add(at, row)


class SampleBook:
    """See the module. `always`: each of its objects has rings from the start, as long as there are not too many."""

    def __init__(self, shape: SampleShape, spans: Spans, *, always: bool = False) -> None:
        self._shown = shape.shown()
        self._single = [(name, places[0]) for name, (_, places) in self._shown.items() if len(places) == 1]
        self._sums = [(name, places) for name, (_, places) in self._shown.items() if len(places) > 1]
        self._no_rates = dict.fromkeys(self._shown, 0.0)
        self._nothing: Row = (0,) * len(shape.names)
        self._spans = spans
        self._always = always
        self._round = 0
        self._objects: dict[Hashable, _Sampled] = {}
        self._ringed: OrderedDict[Hashable, int] = OrderedDict()  # with the time of the last look
        self.round_ms = STEP_S * 1_000  # how long a round over all objects of the node takes

    # sampling

    def add(self, key: Hashable, at: int, row: Row) -> None:
        found = self._objects.get(key)
        if found is not None and found.at <= at:
            found.add(at, row)
        else:  # it is new, or the clock was set back: what was sampled before is worth nothing
            found = self._objects[key] = _Sampled(at, row if any(row) else self._nothing)
            if self._ringed.pop(key, None) is not None or (self._always and len(self._ringed) < RINGED_MAX):
                self.look_at(key, at)
        found.round = self._round

    def forget_gone(self, now: int) -> Iterator[None]:
        """Objects that were not sampled in this round, which ends with it; one with each step."""
        for key in list(self._objects):
            if self._objects[key].round != self._round:
                del self._objects[key]
                self._ringed.pop(key, None)
            yield
        self._forget_looks(now)
        self._round += 1

    def _forget_looks(self, now: int) -> None:
        while not self._always and self._ringed:
            key, looked_at = next(iter(self._ringed.items()))
            if now - looked_at < LOOKED_AT_MS:
                return
            self._without_rings(key)

    # looking

    def look_at(self, key: Hashable, now: int) -> None:
        """From now on there will be samples of the times that are asked for."""
        found = self._objects.get(key)
        if found is None:
            return
        if self._ringed.pop(key, None) is None:
            self._with_rings(found)
        self._ringed[key] = now
        if len(self._ringed) > RINGED_MAX:
            self._without_rings(next(iter(self._ringed)))

    def _with_rings(self, found: _Sampled) -> None:
        found.rings = [SampleRing(len(self._nothing), span // step, step * 1_000) for span, step in self._spans]
        for ring in found.rings:
            ring.add(found.before_at, found.before)
            ring.add(found.at, found.row)

    def _without_rings(self, key: Hashable) -> None:
        del self._ringed[key]
        self._objects[key].rings = ()

    def rates(self, key: Hashable, now: int) -> Mapping[str, float]:
        """Of each figure, a second; 0.0 where that is not known."""
        found = self._objects.get(key)
        if found is None or found.row is found.before or now - found.at > OLD_ROUNDS * self.round_ms:
            return self._no_rates
        new, old, elapsed_ms = found.row, found.before, found.at - found.before_at
        return {name: _rate(one, new, old, elapsed_ms) for name, one in self._shown.items()}

    def rate(self, key: Hashable, figure: str, now: int) -> float:
        """One of them, for who sorts by it."""
        found = self._objects.get(key)
        if found is None or found.row is found.before or now - found.at > OLD_ROUNDS * self.round_ms:
            return 0.0
        return _rate(self._shown[figure], found.row, found.before, found.at - found.before_at)

    def idle_since(self, key: Hashable) -> int | None:
        """When its counts were seen to change last, or it was seen first; None: they do, or that is not known."""
        found = self._objects.get(key)
        return None if found is None or found.changed_at == found.at else found.changed_at

    def points(self, key: Hashable, asked: Ranges) -> dict[str, Points]:
        """Of figures of which times are asked for."""
        found = self._objects.get(key)
        sampled: Mapping[str, list[At]] = {
            kind: []
            if found is None or not found.rings
            else list(sampled_at(self._ring_for(found, wanted[0]).newest_first(), wanted))
            for kind, wanted in asked.items()
        }
        return {
            name: {at: sum([row[place] for place in places]) for at, row in sampled[kind]}
            for name, (kind, places) in self._shown.items()
            if kind in sampled
        }

    def _ring_for(self, found: _Sampled, age_ms: int) -> SampleRing:
        """The finest that reaches back so far."""
        assert found.rings, "looked at without rings"
        for ring, (span, _) in zip(found.rings, self._spans, strict=False):
            if span * 1_000 >= age_ms:
                return ring
        return found.rings[-1]

    def figures(self, key: Hashable, row: Row, now: int, asked: Ranges) -> SampledFigures:
        """Of an object that has these counts now."""
        counts = {name: row[place] for name, place in self._single}
        for name, places in self._sums:
            counts[name] = sum([row[place] for place in places])
        return SampledFigures(counts, self.rates(key, now), self.points(key, asked) if asked else NOTHING)

    # its size

    def __len__(self) -> int:
        return len(self._objects)

    def ring_bytes(self) -> int:
        return sum(ring.byte_count() for found in self._objects.values() for ring in found.rings)


def _rate(figure: tuple[str, tuple[int, ...]], new: Row, old: Row, elapsed_ms: int) -> float:
    """What only grows began anew if it has not."""
    kind, places = figure
    grown = sum([new[place] - old[place] for place in places])
    return (grown if kind in MAY_SHRINK else max(0, grown)) * 1_000 / elapsed_ms

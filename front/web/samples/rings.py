"""The counts of one object at several times, oldest overwritten first, in one array of a fixed size.

times    | t | t | t | ...          milliseconds
counts   | row | row | row | ...    as many numbers each as the object has counts
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from front.web.samples.shapes import Row

EARLY_MS_MAX = 2_500  # timers are not exact: a sample that comes so much too early is taken

At = tuple[int, Row]  # milliseconds, and the counts then


class SampleRing:
    """Room for `capacity` samples that are a step apart."""

    __slots__ = ("_capacity", "_counts", "_newest", "_step_ms", "_times", "_width")

    def __init__(self, width: int, capacity: int, step_ms: int) -> None:
        self._width = width
        self._capacity = capacity
        self._step_ms = step_ms
        self._times = array("q")
        self._counts = array("q")
        self._newest = -1  # its place

    def add(self, at: int, row: Row) -> None:
        """Too early for the next step: it is passed over. Of a clock that was set back the old samples are worth nothing."""
        if self._times:
            since = at - self._times[self._newest]
            if since < 0:
                del self._times[:], self._counts[:]
            elif since < self._step_ms - EARLY_MS_MAX:
                return
        self._append(at, row)

    def _append(self, at: int, row: Row) -> None:
        if len(self._times) < self._capacity:
            self._times.append(at)
            self._counts.extend(row)
            self._newest = len(self._times) - 1
            return
        place = self._newest = (self._newest + 1) % self._capacity
        self._times[place] = at
        self._counts[place * self._width : (place + 1) * self._width] = array("q", row)

    def newest_first(self) -> Iterator[At]:
        width, count = self._width, len(self._times)
        for back in range(count):
            place = (self._newest - back) % count
            yield self._times[place], self._counts[place * width : (place + 1) * width]

    def byte_count(self) -> int:
        return self._times.itemsize * (len(self._times) + len(self._counts))

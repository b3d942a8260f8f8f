"""Which entries at or below a snapshot still count, because the machine's state refers to them; as ranges.

Encoded, little endian, ascending, for each range:

    first u64 | end u64: the index behind its last
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from native.index_ranges import union
from raft.core.errors import BadBytes


class LiveEntries:
    """A set of indexes that does not change."""

    __slots__ = ("_ends", "_firsts", "count")

    count: int

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        """`indexes` ascend."""
        self._have(*union([array("Q", indexes)]))

    @classmethod
    def of_columns(cls, columns: Sequence[array[int]]) -> LiveEntries:
        """Each of them ascends; numbers may come again, also in others."""
        live = cls()
        live._have(*union(columns))
        return live

    @classmethod
    def of_ranges(cls, ranges: Iterable[Sequence[int]]) -> LiveEntries:
        """First and end of each; they ascend and do not touch."""
        live = cls()
        columns = list(zip(*ranges, strict=True)) or [(), ()]
        live._have(array("Q", columns[0]), array("Q", columns[1]))
        return live

    def _have(self, firsts: array[int], ends: array[int]) -> None:
        self._firsts, self._ends = firsts, ends
        self.count = sum(ends) - sum(firsts)

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index < self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for first, end in self.ranges():
            yield from range(first, end)

    def ranges(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._ends, strict=True)

    def within(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the ranges that lie between `first` and, without, `end`."""
        for at in range(max(0, bisect_right(self._firsts, first) - 1), len(self._firsts)):
            start, stop = max(first, self._firsts[at]), min(end, self._ends[at])
            if self._firsts[at] >= end:
                return
            if start < stop:
                yield start, stop

    def encode(self) -> bytes:
        columns = array("Q", [0]) * (2 * len(self._firsts))
        columns[::2], columns[1::2] = self._firsts, self._ends
        if sys.byteorder == "big":
            columns.byteswap()
        return columns.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> LiveEntries:
        """Raises BadBytes."""
        if len(data) % 16:
            raise BadBytes(f"{len(data)} bytes are no ranges of 16 bytes each")
        columns = array("Q", data)
        if sys.byteorder == "big":
            columns.byteswap()
        if any(columns[at] >= columns[at + 1] for at in range(len(columns) - 1)):
            raise BadBytes("the ranges of live entries do not ascend")
        live = cls()
        live._have(columns[::2], columns[1::2])
        return live


NONE_LIVE = LiveEntries()

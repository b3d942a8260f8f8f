"""A set of unsigned 64-bit numbers, kept as ranges.

A queue's messages, what a consumer has not acknowledged, what a publisher has not been told: all are nearly contiguous,
so a million members are mostly a handful of ranges. Ranges are half open, sorted, disjoint, and never touch each other.
Taking from the front and adding at the end cost O(1) amortised; anything else O(log ranges) to find, and the move of
what lies behind (16 bytes a range in the compiled twin) to insert or remove a range in the middle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

from native import compiled_twin

Range: TypeAlias = tuple[int, int]

_LIMIT = 2**64 - 1  # the largest end, so the largest member is one less
_FRONT_SLACK_MIN = 64  # this many dropped ranges are kept before the lists are cut


class SequenceSetPlain:
    """See the module. Numbers outside of 0 to 2**64 - 2 can be no members; asked for as such they are an error."""

    __slots__ = ("_count", "_ends", "_front", "_starts")
    __hash__ = None  # type: ignore[assignment]  # it changes; typeshed has no other way to say so

    def __init__(self) -> None:
        # Range i is (starts[i], ends[i]); those before `front` are gone, and cut off now and then.
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._front = 0
        self._count = 0

    def add(self, start: int, end: int) -> int:
        """Add start <= n < end; how many were not in the set before."""
        _check(start, end)
        if start == end:
            return 0
        first = bisect_left(self._ends, start, self._front)  # the first range that overlaps or touches
        last = bisect_right(self._starts, end, first)  # the first one beyond
        new = end - start - self._overlap(first, last, start, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self._count += new
        return new

    def remove(self, start: int, end: int) -> int:
        """Remove start <= n < end; how many were in the set before."""
        _check(start, end)
        first = bisect_right(self._ends, start, self._front)  # the first range that overlaps
        last = bisect_left(self._starts, end, first)
        if start == end or first >= last:
            return 0
        gone = self._overlap(first, last, start, end)
        left = (self._starts[first], start)
        right = (end, self._ends[last - 1])
        kept = [part for part in (left, right) if part[0] < part[1]]
        if first == self._front and not kept:
            self._drop_front(last)
        else:
            self._starts[first:last] = [part[0] for part in kept]
            self._ends[first:last] = [part[1] for part in kept]
        self._count -= gone
        return gone

    def first(self) -> int:
        """The smallest member."""
        if not self._count:
            raise ValueError("an empty set has no first member")
        return self._starts[self._front]

    def last(self) -> int:
        """The largest member."""
        if not self._count:
            raise ValueError("an empty set has no last member")
        return self._ends[-1] - 1

    def ranges(self) -> list[Range]:
        """All of it, in order."""
        return list(zip(self._starts[self._front :], self._ends[self._front :], strict=True))

    def intersect(self, start: int, end: int) -> list[Range]:
        """The members with start <= n < end, as ranges."""
        _check(start, end)
        if start == end:
            return []
        first = bisect_right(self._ends, start, self._front)
        last = bisect_left(self._starts, end, first)
        return [(max(start, self._starts[i]), min(end, self._ends[i])) for i in range(first, last)]

    def first_range(self, start: int, end: int) -> Range | None:
        """The first of the ranges that `intersect` would list."""
        _check(start, end)
        at = bisect_right(self._ends, start, self._front)
        if start == end or at == len(self._starts) or self._starts[at] >= end:
            return None
        return max(start, self._starts[at]), min(end, self._ends[at])

    def pop_first(self, n: int) -> list[Range]:
        """Remove the n smallest members, or all if there are fewer; what was removed, as ranges."""
        if n < 0:
            raise ValueError(f"cannot take {n} members")
        taken: list[Range] = []
        at = self._front
        while n and at < len(self._starts):
            start = self._starts[at]
            end = min(self._ends[at], start + n)
            taken.append((start, end))
            n -= end - start
            self._count -= end - start
            self._starts[at] = end
            at += end == self._ends[at]
        self._drop_front(at)
        return taken

    def clear(self) -> None:
        """Remove everything."""
        self._starts.clear()
        self._ends.clear()
        self._front = self._count = 0

    def copy(self) -> SequenceSetPlain:
        """A set of its own with the same members."""
        twin = SequenceSetPlain()
        twin._starts = self._starts[self._front :]
        twin._ends = self._ends[self._front :]
        twin._count = self._count
        return twin

    @property
    def count(self) -> int:
        """The number of members, where len() could not say it."""
        return self._count

    @property
    def range_count(self) -> int:
        """The number of ranges: what the set costs."""
        return len(self._starts) - self._front

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self._ends, number, self._front)
        return at < len(self._starts) and self._starts[at] <= number

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceSetPlain):
            return NotImplemented
        return self.ranges() == other.ranges()

    def __repr__(self) -> str:
        return f"SequenceSet({self.ranges()})"

    def _overlap(self, first: int, last: int, start: int, end: int) -> int:
        """How many members ranges first to last - 1 have between start and end."""
        return sum(max(0, min(end, self._ends[i]) - max(start, self._starts[i])) for i in range(first, last))

    def _drop_front(self, front: int) -> None:
        """Forget the ranges before `front`; the lists are cut when half of them is slack, so each is moved once."""
        self._front = front
        if (front > _FRONT_SLACK_MIN and front * 2 > len(self._starts)) or front == len(self._starts):
            del self._starts[:front]
            del self._ends[:front]
            self._front = 0


def _check(start: int, end: int) -> None:
    for number in (start, end):
        if not 0 <= number <= _LIMIT:
            raise OverflowError(f"{number} is outside of 0 to {_LIMIT}")
    if start > end:
        raise ValueError(f"range from {start} to {end} ends before it starts")


SequenceSet = SequenceSetPlain

# For mypy the plain class is the type; the twin's has the same methods.
if not TYPE_CHECKING and (_twin := compiled_twin("sequence_set")) is not None:
    SequenceSet = _twin.SequenceSet

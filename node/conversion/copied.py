"""Which messages of a classic queue have copies, and which copies they are: by sequence there, by id here.

A core. Copies are numbered in the order in which they are made, nearly always that of the sequences, so a million of them are
a handful of rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from native.sequence_set import Range, SequenceSet


class Copied:
    """See the module."""

    def __init__(self) -> None:
        self.held = SequenceSet()  # sequences whose copies are held, and have not been let go
        self.lost = SequenceSet()  # sequences of what cannot be read, and so gets no copy
        self._firsts: list[int] = []  # sequence at which each row begins, ascending
        self._rows: list[tuple[int, int]] = []  # how many, and the id of the first

    def add(self, first: int, count: int, copy_id: int) -> None:
        """None of them has a copy yet."""
        added = self.held.add(first, first + count)
        assert added == count, f"{count - added} of the messages {first} to {first + count - 1} are copied twice"
        at = bisect_right(self._firsts, first)
        if at:
            begin, (length, known) = self._firsts[at - 1], self._rows[at - 1]
            if begin + length == first and known + length == copy_id:
                self._rows[at - 1] = length + count, known
                return
        self._firsts.insert(at, first)
        self._rows.insert(at, (count, copy_id))

    def missing(self, ranges: Iterable[Range]) -> list[Range]:
        """What of these has no copy, and can have one."""
        found: list[Range] = []
        for first, end in ranges:
            at = first
            for start, stop in self.held.intersect(first, end):
                if at < start:
                    found.append((at, start))
                at = stop
            if at < end:
                found.append((at, end))
        if not self.lost:
            return found
        return [one for first, end in found for one in _without(first, end, self.lost.intersect(first, end))]

    def let_go(self, alive_in: Callable[[int, int], Iterable[Range]]) -> list[Range]:
        """Copies of messages that live no more: ids and counts. They are not held any more."""
        gone = [one for first, end in self.held.ranges() for one in _without(first, end, alive_in(first, end))]
        ids = [one for first, end in gone for one in self.ids_of(first, end)]
        for first, end in gone:
            self.held.remove(first, end)
        return ids

    def ids_of(self, first: int, end: int) -> Iterator[Range]:
        """Ids and counts of the copies of these messages, in the order of the messages."""
        while first < end:
            at = bisect_right(self._firsts, first) - 1
            begin, (length, copy_id) = self._firsts[at], self._rows[at]
            count = min(end, begin + length) - first
            assert count > 0, f"message {first} has no copy"
            yield copy_id + first - begin, count
            first += count


def _without(first: int, end: int, ranges: Iterable[Range]) -> Iterator[Range]:
    for start, stop in ranges:
        if first < start:
            yield first, start
        first = stop
    if first < end:
        yield first, end

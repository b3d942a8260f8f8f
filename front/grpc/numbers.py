"""From the session's tags to the numbers that a publisher gave its messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class _Stretch:
    """Tags of the session that differ from the client's numbers by the same amount."""

    first_tag: int
    count: int
    distance: int
    unanswered: int


class Numbers:
    """From the session's tags to the client's numbers. They differ by what was refused on the way in, so mostly by nothing."""

    def __init__(self) -> None:
        self._next_tag = 1
        self._stretches: deque[_Stretch] = deque()
        self.unanswered = 0

    def expect(self, sequence: int, count: int) -> None:
        """The session is about to take `count` messages, which the client numbers from `sequence`."""
        distance = sequence - self._next_tag
        if not self._stretches or self._stretches[-1].distance != distance:
            self._stretches.append(_Stretch(self._next_tag, 0, distance, 0))
        self._stretches[-1].count += count
        self._stretches[-1].unanswered += count
        self._next_tag += count
        self.unanswered += count

    def take_back(self, count: int) -> None:
        """The session did not take the last `count` after all."""
        last = self._stretches[-1]
        last.count -= count
        last.unanswered -= count
        self._next_tag -= count
        self.unanswered -= count
        if last.count == 0:
            self._stretches.pop()

    def answered(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The client's numbers for these tags, which count as answered."""
        found = []
        for stretch in self._stretches:
            start = max(first, stretch.first_tag)
            end = min(last, stretch.first_tag + stretch.count - 1)
            if start <= end:
                stretch.unanswered -= end - start + 1
                assert stretch.unanswered >= 0, f"tags {first} to {last} were answered twice"
                found.append((start + stretch.distance, end + stretch.distance))
        count = sum(end - start + 1 for start, end in found)
        assert count == last - first + 1, f"tags {first} to {last} answered, but only {count} of them are known"
        self.unanswered -= count
        while len(self._stretches) > 1 and self._stretches[0].unanswered == 0:
            self._stretches.popleft()
        return iter(found)

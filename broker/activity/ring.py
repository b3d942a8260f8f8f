"""The last of many things, each with a number, so that who looks again is given what is new.

Numbers go on from one process to the next, for they begin at its clock, and fewer things than milliseconds pass. Did they begin
at 1, a reader who had come to 5 in one process would miss the first five of the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


class NumberedRing(Generic[T]):
    """Who comes with a number that was not reached yet saw an earlier process, before the clock was set back."""

    def __init__(self, most: int, wall_ms: Callable[[], int]) -> None:
        self.last = 0
        self._wall_ms = wall_ms
        self._kept: deque[tuple[int, T]] = deque(maxlen=most)

    def add(self, one: T) -> None:
        self.last = (self.last or self._wall_ms()) + 1
        self._kept.append((self.last, one))

    def after(self, number: int) -> Iterator[tuple[int, T]]:
        """The newest first, down to that number."""
        known = number if number <= self.last else 0
        return takewhile(lambda numbered: numbered[0] > known, reversed(tuple(self._kept)))

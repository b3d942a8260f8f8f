"""The last of many things, each with a number, so that who looks again is given what is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


class NumberedRing(Generic[T]):
    """Numbers begin at 1 with each process. Who comes with a number that was not reached yet saw an earlier process."""

    def __init__(self, most: int) -> None:
        self.last = 0
        self._kept: deque[tuple[int, T]] = deque(maxlen=most)

    def add(self, one: T) -> None:
        self.last += 1
        self._kept.append((self.last, one))

    def after(self, number: int) -> Iterator[tuple[int, T]]:
        """The newest first, down to that number."""
        known = number if number <= self.last else 0
        return takewhile(lambda numbered: numbered[0] > known, reversed(tuple(self._kept)))

"""Where in a segment each number lies. Numbers ascend but may have gaps; time or anything else that ascends will do.

Encoded, little endian: the numbers as u64, then as many positions as u64.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right


class SegmentIndex:
    """Two columns of equal length: numbers, ascending, and positions."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._positions = array("Q")

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def first(self) -> int:
        """The lowest number. There must be one."""
        return self._numbers[0]

    @property
    def last(self) -> int:
        """The highest number. There must be one."""
        return self._numbers[-1]

    def add(self, number: int, position: int) -> None:
        assert not self._numbers or number > self.last, f"number {number} does not follow {self.last}"
        self._numbers.append(number)
        self._positions.append(position)

    def find(self, number: int) -> int | None:
        """The position of exactly this number."""
        at = bisect_left(self._numbers, number)
        return self._positions[at] if at < len(self) and self._numbers[at] == number else None

    def at_or_before(self, number: int) -> tuple[int, int] | None:
        """The highest number that is not above this one, and its position."""
        at = bisect_right(self._numbers, number)
        return (self._numbers[at - 1], self._positions[at - 1]) if at else None

    def above(self, number: int) -> int | None:
        """The lowest number that is above this one."""
        at = bisect_right(self._numbers, number)
        return self._numbers[at] if at < len(self) else None

    def encode(self) -> bytes:
        return _little_endian(self._numbers) + _little_endian(self._positions)

    @classmethod
    def decode(cls, data: bytes) -> SegmentIndex:
        """Raises ValueError when these are not two ascending columns of one length."""
        if len(data) % 16:
            raise ValueError(f"an index of {len(data)} bytes is not two columns of 8 bytes each")
        index = cls()
        half = len(data) // 2
        index._numbers.frombytes(data[:half])
        index._positions.frombytes(data[half:])
        if sys.byteorder == "big":
            index._numbers.byteswap()
            index._positions.byteswap()
        for column in (index._numbers, index._positions):
            if any(column[at] >= column[at + 1] for at in range(len(column) - 1)):
                raise ValueError("an index whose columns do not ascend")
        return index


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array("Q", column)
        column.byteswap()
    return column.tobytes()

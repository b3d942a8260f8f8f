"""Ascending columns of numbers -> their union as ranges. A backlog's entries become live ranges when a snapshot is taken."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import merge
from itertools import pairwise

from native import compiled_twin


def union_plain(columns: Sequence[array[int]]) -> tuple[array[int], array[int]]:
    """Arrays of "Q", which may repeat numbers and share them. Of each range its first number, and the one behind its last.

    Raises ValueError for a column that does not ascend.
    """
    for column in columns:
        for before, after in pairwise(column):
            if after < before:
                raise ValueError(f"{after} stands behind {before} in a column that is to ascend")
    firsts, ends = array("Q"), array("Q")
    for number in merge(*columns):
        if not ends or number > ends[-1]:
            firsts.append(number)
            ends.append(number + 1)
        elif number == ends[-1]:
            ends[-1] = number + 1
    return firsts, ends


union = union_plain

if (_twin := compiled_twin("index_ranges")) is not None:
    union = _twin.union

"""native/index_ranges.py: the union of columns is what a set of their numbers says, in both forms."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.native.both import forms

LAST = (1 << 64) - 2  # the number behind it is the highest that there is
NUMBERS = st.lists(st.one_of(st.integers(0, 40), st.integers(LAST - 5, LAST)), max_size=60)


def union(form: Any, *columns: list[int]) -> list[tuple[int, int]]:
    firsts, ends = form.union([array("Q", column) for column in columns])
    assert (firsts.typecode, ends.typecode) == ("Q", "Q")
    return list(zip(firsts, ends, strict=True))


@pytest.mark.parametrize("form", forms("index_ranges", "union"))
class TestUnion:
    def test_nothing_has_no_ranges(self, form: Any) -> None:
        assert union(form) == union(form, [], []) == []

    def test_neighbours_are_one_range_whichever_column_they_come_from(self, form: Any) -> None:
        assert union(form, [1, 2, 5, 9], [3, 9, 10]) == [(1, 4), (5, 6), (9, 11)]

    def test_what_repeats_counts_once(self, form: Any) -> None:
        assert union(form, [4, 4, 4, 5, 5], [4, 5]) == [(4, 6)]

    def test_a_long_backlog(self, form: Any) -> None:
        assert union(form, list(range(7, 3_000)), list(range(3_002, 3_400, 2))) == [
            (7, 3_000), *((number, number + 1) for number in range(3_002, 3_400, 2))
        ]  # fmt: skip

    @given(st.lists(NUMBERS.map(sorted), max_size=6))
    def test_it_is_the_union_of_sets(self, form: Any, columns: list[list[int]]) -> None:
        ranges = union(form, *columns)
        numbers = sorted({number for column in columns for number in column})
        assert [number for first, end in ranges for number in range(first, end)] == numbers
        assert all(before[1] < after[0] for before, after in pairwise(ranges))

    @pytest.mark.parametrize("columns", [([2, 1],), ([1, 2, 9], [5, 7, 6]), ([LAST, 0],)])
    def test_a_column_that_does_not_ascend_is_refused(self, form: Any, columns: tuple[list[int], ...]) -> None:
        with pytest.raises(ValueError, match="in a column that is to ascend"):
            union(form, *columns)

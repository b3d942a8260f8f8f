"""Tags of the session become the client's numbers, whatever was refused in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from front.grpc.numbers import Numbers


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=20), st.integers(0, 100), st.randoms())
def test_numbers_agree_with_a_plain_dictionary(runs: list[tuple[int, bool]], first: int, random: Any) -> None:
    numbers, plain, tag, sequence = Numbers(), {}, 1, first
    for count, taken in runs:
        numbers.expect(sequence, count)
        if taken:
            plain.update({tag + place: sequence + place for place in range(count)})
            tag += count
        else:
            numbers.take_back(count)
        sequence += count
    tags = list(plain)
    random.shuffle(tags)
    for one in tags:
        assert list(numbers.answered(one, one)) == [(plain[one], plain[one])]
    assert numbers.unanswered == 0


def test_a_range_of_tags_is_cut_where_something_was_refused() -> None:
    numbers = Numbers()
    numbers.expect(10, 2)
    numbers.expect(12, 3)
    numbers.take_back(3)
    numbers.expect(15, 2)
    assert list(numbers.answered(1, 4)) == [(10, 11), (15, 16)]


def test_an_answer_for_what_was_never_published_is_a_bug() -> None:
    numbers = Numbers()
    numbers.expect(1, 2)
    with pytest.raises(AssertionError, match="only 2 of them are known"):
        list(numbers.answered(1, 3))

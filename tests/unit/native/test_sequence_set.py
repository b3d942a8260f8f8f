"""native/sequence_set.py against a set of ints, which is what it stands for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native import compiled_twin
from native.sequence_set import SequenceSetPlain

TWIN = compiled_twin("sequence_set")
FORMS = [pytest.param(SequenceSetPlain, id="plain")]
if TWIN is not None:
    FORMS.append(pytest.param(TWIN.SequenceSet, id="compiled"))

LIMIT = 2**64 - 1


def as_ranges(members: set[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for member in sorted(members):
        if ranges and ranges[-1][1] == member:
            ranges[-1] = (ranges[-1][0], member + 1)
        else:
            ranges.append((member, member + 1))
    return ranges


spans = st.tuples(st.integers(0, 120), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), spans),
        st.tuples(st.just("remove"), spans),
        st.tuples(st.just("pop"), st.integers(0, 9)),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=60,
)


@pytest.mark.parametrize("form", FORMS)
class TestSequenceSet:
    @given(steps)
    @settings(max_examples=200, deadline=None)
    def test_every_step_does_what_a_set_of_ints_does(self, form: Any, steps: list[tuple[str, Any]]) -> None:
        ours, model = form(), set[int]()
        for verb, argument in steps:
            before = set(model)
            if verb == "add":
                model |= set(range(*argument))
                assert ours.add(*argument) == len(model - before)
            elif verb == "remove":
                model -= set(range(*argument))
                assert ours.remove(*argument) == len(before - model)
            elif verb == "pop":
                model = set(sorted(model)[argument:])
                assert ours.pop_first(argument) == as_ranges(before - model)
            else:
                ours.clear()
                model = set()
            assert ours.ranges() == as_ranges(model)
            assert ours.count == len(ours) == len(model)
            assert bool(ours) is bool(model)
            assert ours.range_count == len(as_ranges(model))
        for number in range(-2, 136):
            assert (number in ours) is (number in model)
        assert ours.intersect(10, 90) == as_ranges(model & set(range(10, 90)))
        for start in range(0, 136, 5):
            for end in (start, start + 3, 140):
                among = ours.intersect(start, end)
                assert ours.first_range(start, end) == (among[0] if among else None)
        if model:
            assert (ours.first(), ours.last()) == (min(model), max(model))

    def test_an_empty_set_has_no_first_and_no_last(self, form: Any) -> None:
        for ask in (form().first, form().last):
            with pytest.raises(ValueError, match="empty"):
                ask()

    def test_the_whole_of_64_bits_fits(self, form: Any) -> None:
        ours = form()
        assert ours.add(0, LIMIT) == LIMIT
        assert ours.count == LIMIT
        with pytest.raises(OverflowError):
            len(ours)
        assert ours.remove(1, LIMIT - 1) == LIMIT - 2
        assert ours.ranges() == [(0, 1), (LIMIT - 1, LIMIT)]
        assert LIMIT - 1 in ours
        assert LIMIT not in ours

    @pytest.mark.parametrize("span", [(-1, 3), (0, 2**64), (2**64, 2**65)])
    def test_numbers_beyond_64_bits_are_refused(self, form: Any, span: tuple[int, int]) -> None:
        for method in ("add", "remove", "intersect"):
            with pytest.raises(OverflowError):
                getattr(form(), method)(*span)
        assert span[1] not in form()

    def test_a_range_that_ends_before_it_starts_is_refused(self, form: Any) -> None:
        for method in ("add", "remove", "intersect"):
            with pytest.raises(ValueError, match="range from 5 to 4 ends before it starts"):
                getattr(form(), method)(5, 4)
        with pytest.raises(ValueError, match="-1"):
            form().pop_first(-1)

    def test_what_is_no_number_is_no_member(self, form: Any) -> None:
        ours = form()
        ours.add(1, 2)
        assert "1" not in ours
        assert None not in ours

    def test_a_copy_lives_its_own_life(self, form: Any) -> None:
        ours = form()
        ours.add(1, 9)
        ours.pop_first(2)
        twin = ours.copy()
        assert twin == ours
        twin.add(20, 21)
        assert twin != ours
        assert ours.ranges() == [(3, 9)]
        assert ours != [(3, 9)]
        assert repr(ours) == "SequenceSet([(3, 9)])"

    def test_it_cannot_be_a_key(self, form: Any) -> None:
        with pytest.raises(TypeError):
            hash(form())

    def test_a_queue_of_separate_numbers_passes_through(self, form: Any) -> None:
        """Added behind, taken in front, requeued in front: the slack is used again, and nothing is lost on the way."""
        ours = form()
        for number in range(6000):
            ours.add(2 * number, 2 * number + 1)
            if number % 3:
                ours.pop_first(1)
            if number % 5 == 0 and ours:
                first = ours.first()
                ours.remove(first, first + 1)
                ours.add(first, first + 1)
        assert ours.ranges() == [(2 * number, 2 * number + 1) for number in range(4000, 6000)]
        assert ours.pop_first(10_000) and not ours

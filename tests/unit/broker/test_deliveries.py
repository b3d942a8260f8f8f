"""What a session holds: ranges that are cut, taken and put back, beside a set of tags that cannot be wrong."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.queues.queue_type import POSITION_UNKNOWN, BackReason, Slice
from broker.session.deliveries import COMPACT_AFTER, Held, Unacknowledged, marked

QUEUE = cast(Any, None)  # nobody asks the queue here


def piece(sequence: int, count: int) -> Slice:
    return Slice(QUEUE, "run", sequence, count, 40, "x", "k", True, {"x-delivery-count": 1})


def held(*ranges: tuple[int, int]) -> Unacknowledged:
    """Deliveries with these first and last tags; sequences are tags + 1000."""
    unacknowledged = Unacknowledged()
    for first, last in ranges:
        unacknowledged.add(first, piece(1000 + first, last + 1 - first), None)
    return unacknowledged


def tags(taken: list[Held] | None) -> list[tuple[int, int]] | None:
    return None if taken is None else [(one.first, one.end - 1) for one in taken]


def test_a_part_of_a_delivery_of_a_stream_begins_at_its_own_offset() -> None:
    unacknowledged = held((1, 2))
    unacknowledged.add(10, Slice(QUEUE, "run", 1000, 5, 40, "x", "k", offset=70), None)
    taken = [unacknowledged.take_range(tag, tag) for tag in (12, 10, 14, 1)]
    assert [one[0].slice().offset for one in taken if one] == [72, 70, 74, None]


def test_in_order_one_by_one_shortens_the_first_range() -> None:
    unacknowledged = held((1, 3), (4, 4))
    assert [tags(unacknowledged.take_range(tag, tag)) for tag in (1, 2, 3, 4)] == [
        [(1, 1)], [(2, 2)], [(3, 3)], [(4, 4)],
    ]  # fmt: skip
    assert unacknowledged.count == 0


def test_up_to_a_tag_takes_whole_ranges_and_cuts_the_last() -> None:
    unacknowledged = held((1, 3), (4, 6), (7, 9))
    assert tags(unacknowledged.take_up_to(5)) == [(1, 3), (4, 5)]
    assert (unacknowledged.count, unacknowledged.holds(5), unacknowledged.holds(6)) == (4, False, True)


def test_out_of_its_middle_a_range_becomes_two() -> None:
    unacknowledged = held((1, 9))
    assert tags(unacknowledged.take_range(4, 6)) == [(4, 6)]
    assert tags(unacknowledged.take_all()) == [(1, 3), (7, 9)]


def test_across_ranges_the_ends_stay() -> None:
    unacknowledged = held((1, 3), (4, 6), (7, 9))
    assert tags(unacknowledged.take_range(2, 8)) == [(2, 3), (4, 6), (7, 8)]
    assert tags(unacknowledged.take_all()) == [(1, 1), (9, 9)]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (4, 4), (3, 5), (9, 10), (12, 12), (2, 9)])
def test_of_a_range_with_an_unknown_tag_nothing_is_taken(first: int, last: int) -> None:
    unacknowledged = held((1, 3), (5, 9))  # 4 is settled
    assert unacknowledged.take_range(first, last) is None
    assert unacknowledged.count == 8


@pytest.mark.parametrize("last", [0, 4, 10])
def test_up_to_an_unknown_tag_takes_nothing(last: int) -> None:
    unacknowledged = held((1, 3), (5, 9))
    assert unacknowledged.take_up_to(last) is None
    assert unacknowledged.count == 8


def test_of_nothing_nothing_is_taken() -> None:
    unacknowledged = Unacknowledged()
    assert (unacknowledged.take_all(), unacknowledged.take_range(1, 1), unacknowledged.take_up_to(1)) == (
        [],
        None,
        None,
    )
    assert not unacknowledged.holds(1)


def test_a_whole_delivery_comes_back_as_the_slice_it_was() -> None:
    unacknowledged, delivered = Unacknowledged(), piece(1000, 5)
    unacknowledged.add(1, delivered, None)
    (taken,) = unacknowledged.take_all()
    assert taken.slice() is delivered


def test_a_part_names_its_messages_and_keeps_all_else() -> None:
    unacknowledged = held((1, 5))
    first = unacknowledged.take_range(1, 2)
    rest = unacknowledged.take_range(4, 5)
    assert first is not None and rest is not None
    assert first[0].slice() == Slice(QUEUE, "run", 1001, 2, 40, "x", "k", True, {"x-delivery-count": 1})
    assert rest[0].slice() == Slice(QUEUE, "run", 1004, 2, POSITION_UNKNOWN, "x", "k", True, {"x-delivery-count": 1})


def test_what_is_put_back_is_held_in_its_place() -> None:
    unacknowledged = held((1, 3), (4, 6))
    taken = unacknowledged.take_up_to(2)
    assert taken is not None
    unacknowledged.put_back(taken)
    assert (unacknowledged.count, tags(unacknowledged.take_up_to(6))) == (6, [(1, 2), (3, 3), (4, 6)])


def test_what_is_used_up_does_not_pile_up() -> None:
    unacknowledged = held(*[(tag, tag) for tag in range(1, 4 * COMPACT_AFTER)])
    for tag in range(1, 3 * COMPACT_AFTER):
        unacknowledged.take_range(tag, tag)
    assert len(unacknowledged._ranges) <= 2 * (COMPACT_AFTER + 1)
    assert unacknowledged.count == COMPACT_AFTER


TAG = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("range"), TAG, st.integers(0, 8)),
        st.tuples(st.just("up to"), TAG, st.just(0)),
        st.tuples(st.just("all"), st.just(0), st.just(0)),
        st.tuples(st.just("put back"), st.just(0), st.just(0)),
    ),
    max_size=50,
)


@given(STEPS)
def test_any_order_of_settling_ends_as_it_does_for_a_set(steps: list[tuple[str, int, int]]) -> None:
    unacknowledged, known, next_tag = Unacknowledged(), set[int](), 1
    last_taken: list[Held] = []
    for step, number, more in steps:
        taken: list[Held] | None = []
        expected: set[int] | None = set()
        if step == "deliver":
            unacknowledged.add(next_tag, piece(1000 + next_tag, number), None)
            known |= set(range(next_tag, next_tag + number))
            next_tag += number
        elif step == "range":
            wanted = set(range(number, number + more + 1))
            taken, expected = unacknowledged.take_range(number, number + more), wanted if wanted <= known else None
        elif step == "up to":
            taken = unacknowledged.take_up_to(number)
            expected = {tag for tag in known if tag <= number} if number in known else None
        elif step == "all":
            taken, expected = unacknowledged.take_all(), set(known)
        else:
            unacknowledged.put_back(last_taken)
            known |= {tag for one in last_taken for tag in range(one.first, one.end)}
            last_taken = []
        assert (taken is None) == (expected is None)
        if taken:
            last_taken = taken
            found = [tag for one in taken for tag in range(one.first, one.end)]
            assert found == sorted(expected or ())
            sequences = [one.slice().sequence + offset for one in taken for offset in range(one.count)]
            assert sequences == [1000 + tag for tag in found]
        known -= expected or set()
        assert unacknowledged.count == len(known)
        assert [tag for tag in range(next_tag + 2) if unacknowledged.holds(tag)] == sorted(known)


def test_what_is_put_back_from_the_middle_is_held_in_its_place() -> None:
    unacknowledged = held((1, 3), (4, 6), (7, 9))
    taken = unacknowledged.take_range(4, 6)
    assert taken is not None
    unacknowledged.put_back(taken)
    assert (unacknowledged.count, unacknowledged.holds(2), unacknowledged.holds(5)) == (9, True, True)
    assert tags(unacknowledged.take_up_to(8)) == [(1, 3), (4, 6), (7, 8)]


def test_what_is_put_back_behind_deliveries_that_are_settled_is_held_alone() -> None:
    unacknowledged = held((1, 3), (4, 6), (7, 9))
    assert unacknowledged.take_range(1, 3)
    taken = unacknowledged.take_range(4, 6)
    assert taken is not None
    unacknowledged.put_back(taken)
    assert not unacknowledged.holds(2)
    assert (unacknowledged.count, tags(unacknowledged.take_all())) == (6, [(4, 6), (7, 9)])


def test_why_messages_are_given_back_is_said_of_a_whole_delivery_and_of_a_part() -> None:
    unacknowledged = held((1, 3), (4, 6))
    taken = unacknowledged.take_up_to(4)
    assert taken is not None
    assert {one.slice().back for one in marked(taken, BackReason.NACKED)} == {BackReason.NACKED}

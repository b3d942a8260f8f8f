"""Delivery tags as ranges: what is taken comes out as the right slices, whatever the order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.deliveries import COMPACT_AFTER, Held, Unacknowledged
from broker.queue_type import POSITION_UNKNOWN, Slice


def piece(sequence: int, count: int, position: int = 0) -> Slice:
    queue: Any = None
    return Slice(queue, "run", sequence, count, position, "", "key")


def holding(*counts: int) -> Unacknowledged:
    """Deliveries of these sizes, with tags from 1 and sequences from 101."""
    held = Unacknowledged()
    tag = 1
    for count in counts:
        held.add(tag, piece(tag + 100, count, position=tag), None)
        tag += count
    return held


def shown(taken: list[Held] | None) -> list[tuple[int, int, int]]:
    """(first tag, sequence, count) of each."""
    assert taken is not None
    return [(held.first, held.slice().sequence, held.slice().count) for held in taken]


def test_a_whole_delivery_comes_back_as_the_very_slice_that_went_out() -> None:
    held = Unacknowledged()
    out = piece(7, 3)
    held.add(1, out, None)
    taken = held.take_up_to(3)
    assert taken is not None
    assert taken[0].slice() is out
    assert held.count == 0


def test_single_tags_in_order_shorten_the_first_range() -> None:
    held = holding(3, 2)
    assert [shown(held.take_range(tag, tag)) for tag in range(1, 6)] == [[(tag, tag + 100, 1)] for tag in range(1, 6)]
    assert held.count == 0


def test_a_tag_from_the_middle_splits_a_range() -> None:
    held = holding(5)
    assert shown(held.take_range(3, 3)) == [(3, 103, 1)]
    assert [held.holds(tag) for tag in range(1, 6)] == [True, True, False, True, True]
    assert shown(held.take_all()) == [(1, 101, 2), (4, 104, 2)]


def test_multiple_takes_whole_ranges_and_a_part_of_the_last() -> None:
    held = holding(2, 3, 4)
    assert shown(held.take_up_to(6)) == [(1, 101, 2), (3, 103, 3), (6, 106, 1)]
    assert held.count == 3
    assert shown(held.take_up_to(9)) == [(7, 107, 3)]


def test_a_range_across_deliveries_comes_out_in_one_part_of_each() -> None:
    held = holding(3, 3, 3)
    assert shown(held.take_range(2, 8)) == [(2, 102, 2), (4, 104, 3), (7, 107, 2)]
    assert shown(held.take_all()) == [(1, 101, 1), (9, 109, 1)]


def test_only_a_part_from_the_beginning_knows_its_position() -> None:
    held = holding(4)
    first, rest = held.take_range(1, 1), held.take_range(2, 3)
    assert first is not None
    assert rest is not None
    assert (first[0].slice().position, rest[0].slice().position) == (1, POSITION_UNKNOWN)


def test_what_is_not_held_takes_nothing() -> None:
    held = holding(3)
    held.take_range(2, 2)
    assert held.take_up_to(2) is None
    assert held.take_up_to(4) is None
    assert held.take_range(1, 3) is None
    assert held.take_range(0, 0) is None
    assert held.take_range(3, 4) is None
    assert held.count == 2


def test_an_empty_session_holds_nothing() -> None:
    held = Unacknowledged()
    assert held.take_all() == []
    assert held.take_up_to(1) is None
    assert held.take_range(1, 1) is None


def test_what_is_put_back_is_held_at_its_old_place() -> None:
    held = holding(3, 3)
    taken = held.take_range(2, 4)
    assert taken is not None
    held.put_back(taken)
    assert held.count == 6
    assert shown(held.take_up_to(6)) == [(1, 101, 1), (2, 102, 2), (4, 104, 1), (5, 105, 2)]


def test_used_up_ranges_do_not_pile_up() -> None:
    held = holding(*[1] * (3 * COMPACT_AFTER))
    for tag in range(1, 3 * COMPACT_AFTER):
        held.take_range(tag, tag)
        assert len(held._ranges) - held._head == 3 * COMPACT_AFTER - tag
        assert held._head <= max(COMPACT_AFTER + 1, len(held._ranges) // 2 + 1)
    assert held.holds(3 * COMPACT_AFTER)


@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    requests=st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 5)), max_size=25),
)
def test_any_requests_take_what_a_set_of_tags_would(counts: list[int], requests: list[tuple[bool, int, int]]) -> None:
    held, twin = holding(*counts), set(range(1, sum(counts) + 1))
    for multiple, tag, more in requests:
        if multiple:
            wanted = {one for one in twin if one <= tag}
            allowed = tag in twin
            taken = held.take_up_to(tag)
        else:
            wanted = set(range(tag, tag + more + 1))
            allowed = wanted <= twin
            taken = held.take_range(tag, tag + more)
        assert (taken is not None) == allowed
        if taken is not None:
            tags = [one for part in taken for one in range(part.first, part.end)]
            assert tags == sorted(wanted)
            sequences = [part.slice().sequence + number for part in taken for number in range(part.count)]
            assert sequences == [one + 100 for one in tags]
            twin -= wanted
        assert held.count == len(twin)
        assert [one for one in range(45) if held.holds(one)] == sorted(twin)

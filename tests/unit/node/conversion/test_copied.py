"""node/conversion/copied.py: which messages have copies, and which those are."""

from __future__ import annotations

import pytest

from node.conversion.copied import Copied


@pytest.fixture
def copied() -> Copied:
    """Messages 10 to 19 as copies 1 to 10, 30 to 34 as 11 to 15, and then 5 and 6, which were out, as 16 and 17."""
    made = Copied()
    for first, count, copy_id in ((10, 10, 1), (30, 5, 11), (5, 2, 16)):
        made.add(first, count, copy_id)
    return made


def test_what_has_no_copy_is_told_as_ranges(copied: Copied) -> None:
    assert copied.missing([(0, 12), (19, 40)]) == [(0, 5), (7, 10), (20, 30), (35, 40)]
    assert copied.missing([(10, 20), (5, 7)]) == []


def test_copies_are_found_by_the_messages_whatever_the_order_in_which_they_were_made(copied: Copied) -> None:
    assert list(copied.ids_of(5, 7)) == [(16, 2)]
    assert list(copied.ids_of(12, 15)) == [(3, 3)]


def test_messages_with_others_in_between_are_found_though_their_copies_have_one_id_after_the_other(
    copied: Copied,
) -> None:
    """20 to 29 were out when those around them were copied: with another's id a living copy would be let go."""
    assert list(copied.ids_of(30, 35)) == [(11, 5)]
    assert list(copied.ids_of(19, 20)) == [(10, 1)]


def test_copies_that_were_made_one_after_the_other_are_one(copied: Copied) -> None:
    copied.add(35, 5, 16 + 2)
    copied.add(40, 1, 16 + 7)
    assert list(copied.ids_of(35, 41)) == [(18, 6)]


def test_copies_of_messages_that_have_left_are_let_go_once(copied: Copied) -> None:
    alive = [(5, 6), (13, 15), (16, 20), (30, 35)]

    def alive_in(first: int, end: int) -> list[tuple[int, int]]:
        return [(max(first, start), min(end, stop)) for start, stop in alive if start < end and stop > first]

    assert copied.let_go(alive_in) == [(17, 1), (1, 3), (6, 1)]
    assert copied.held.ranges() == [(5, 6), (13, 15), (16, 20), (30, 35)]
    assert copied.let_go(alive_in) == []


def test_a_message_is_not_copied_twice(copied: Copied) -> None:
    with pytest.raises(AssertionError, match="copied twice"):
        copied.add(19, 2, 18)


def test_what_cannot_be_read_is_not_missing(copied: Copied) -> None:
    copied.lost.add(21, 25)
    assert copied.missing([(18, 32)]) == [(20, 21), (25, 30)]

"""A later member of a node has a higher number, whatever the clock says."""

from __future__ import annotations

import pytest

from raft.messages import member_id, node_of, replica_of, shown
from raft.replicas import replica_at, successor


def test_a_successor_is_numbered_by_the_clock() -> None:
    assert successor(member_id(7, 0), replica_at(1_700_000_000_999)) == member_id(7, 1_700_000_000)


def test_with_a_clock_that_was_set_back_a_successor_is_still_a_later_member() -> None:
    assert successor(member_id(7, 1_700_000_000), 5) == member_id(7, 1_700_000_001)


def test_a_successor_is_above_the_later_member_that_others_know() -> None:
    assert successor(member_id(7, 3), 5, heard=member_id(7, 90)) == member_id(7, 91)
    assert successor(member_id(7, 90), 5, heard=member_id(7, 3)) == member_id(7, 91)


def test_a_member_of_another_node_is_no_earlier_one() -> None:
    with pytest.raises(AssertionError, match="does not live on node 7"):
        successor(member_id(7, 3), 5, heard=member_id(8, 90))


def test_people_read_a_member_as_node_and_replica() -> None:
    member = member_id(3, 42)
    assert (node_of(member), replica_of(member), shown(member)) == (3, 42, "3.42")

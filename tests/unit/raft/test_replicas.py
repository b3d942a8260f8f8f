"""A later member of a node has a higher number, whatever the clock says."""

from __future__ import annotations

import pytest

from raft.messages import member_id, node_of, replica_of, shown
from raft.replicas import AHEAD_MAX, NewReplica, replica_after, replica_at, successor


def clock(seconds: int, chance: float = 0.0) -> NewReplica:
    return lambda above: replica_after(above, seconds, chance)


def test_a_successor_is_numbered_by_the_clock() -> None:
    by_clock = clock(replica_at(1_700_000_000_999), chance=0.5)
    assert successor(member_id(7, 0), by_clock) == member_id(7, 1_700_000_000)


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999999])
def test_with_a_clock_that_was_set_back_a_successor_is_still_a_later_member(chance: float) -> None:
    later = successor(member_id(7, 1_700_000_000), clock(5, chance))
    assert member_id(7, 1_700_000_000) < later < member_id(7, 1_700_000_000 + AHEAD_MAX)


def test_how_much_later_is_left_to_chance() -> None:
    chances = [number / 50 for number in range(50)]
    assert len({successor(member_id(7, 9), clock(5, chance)) for chance in chances}) == len(chances)


def test_a_successor_is_above_the_later_member_that_others_know() -> None:
    assert successor(member_id(7, 3), clock(5), heard=member_id(7, 90)) == member_id(7, 91)
    assert successor(member_id(7, 90), clock(5), heard=member_id(7, 3)) == member_id(7, 91)


def test_a_member_of_another_node_is_no_earlier_one() -> None:
    with pytest.raises(AssertionError, match="does not live on node 7"):
        successor(member_id(7, 3), clock(5), heard=member_id(8, 90))


def test_people_read_a_member_as_node_and_replica() -> None:
    member = member_id(3, 42)
    assert (node_of(member), replica_of(member), shown(member)) == (3, 42, "3.42")

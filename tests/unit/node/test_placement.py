"""node/replicas/placement.py: zones first, load second, and never where a member is of no use."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.errors import ResourceExhausted
from node.replicas.placement import BALANCED, CLIENT_LOCAL, LOCATORS, Candidate, next_member, place, size_for

candidates = st.lists(
    st.builds(
        Candidate,
        number=st.integers(1, 9),
        zone=st.sampled_from("abc"),
        members=st.integers(0, 3),
        leaders=st.integers(0, 3),
        up=st.booleans(),
        draining=st.booleans(),
        disk=st.booleans(),
    ),
    min_size=1,
    max_size=9,
    unique_by=lambda node: node.number,
)


@settings(max_examples=500, deadline=None)
@given(candidates, st.integers(1, 9), st.integers(0, 9), st.sampled_from(LOCATORS))
def test_places_keep_all_the_rules(found: list[Candidate], asked: int, wanted: int, locator: str) -> None:
    disks = [node for node in found if node.disk]
    usable = [node for node in disks if node.usable]
    if not usable:
        with pytest.raises(ResourceExhausted):
            place(found, asked, wanted, locator)
        return
    places = place(found, asked, wanted, locator)
    by_number = {node.number: node for node in disks}
    chosen = [by_number[number] for number in places.members]  # disk nodes, every one of them
    assert len(set(places.members)) == len(places.members) <= size_for(wanted, len(disks))
    assert places.leader == places.members[0] and by_number[places.leader].usable
    assert 2 * sum(node.up for node in chosen) > len(chosen)
    if len(usable) >= len(chosen):
        assert all(node.usable for node in chosen)
        if locator == BALANCED:
            assert len({node.zone for node in chosen}) == min(len(chosen), len({node.zone for node in usable}))
    if locator == CLIENT_LOCAL and asked in by_number and by_number[asked].usable:
        assert places.leader == asked


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.sampled_from(LOCATORS))
def test_many_queues_are_spread_evenly(count: int, queues: int, locator: str) -> None:
    members: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for queue in range(queues):
        now = [Candidate(number, f"z{number}", members[number], leaders[number]) for number in range(1, count + 1)]
        places = place(now, queue % count + 1, locator=locator)
        members.update(places.members)
        leaders[places.leader] += 1
    if locator == BALANCED:
        assert max(members.values()) - min(members[number] for number in range(1, count + 1)) <= 1
    assert max(leaders.values()) - min(leaders[number] for number in range(1, count + 1)) <= 1 + (locator == BALANCED)


@pytest.mark.parametrize(
    ("wanted", "count", "size"),
    [
        (0, 1, 1),
        (0, 2, 2),
        (0, 3, 3),
        (0, 4, 3),
        (0, 9, 3),
        (5, 4, 3),
        (5, 5, 5),
        (4, 5, 4),
        (2, 3, 2),
        (7, 6, 5),
        (1, 3, 1),
    ],
)
def test_a_size_is_capped_and_then_made_odd(wanted: int, count: int, size: int) -> None:
    assert size_for(wanted, count) == size


def test_a_node_that_is_down_gets_a_member_only_when_the_others_are_too_few() -> None:
    first, second = Candidate(1, "z1"), Candidate(2, "z2")
    down = Candidate(3, "z3", up=False)
    assert place([first, second, down, Candidate(4, "z1")], asked=1).members == (1, 2, 4)
    assert place([first, second, down], asked=1).members == (1, 2, 3)
    drained = Candidate(3, "z3", draining=True)
    assert place([first, second, drained], asked=3).leader != 3


def test_with_most_nodes_down_a_queue_has_only_as_many_members_as_can_work() -> None:
    found = [Candidate(1, "z1"), Candidate(2, "z2", up=False), Candidate(3, "z3", up=False)]
    assert place(found, asked=1).members == (1,)


def test_a_queue_grows_to_another_zone_first() -> None:
    found = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b", members=9), Candidate(4, "c", up=False)]
    assert next_member(found, [1]) == 3
    assert next_member(found, [1, 3]) == 2
    assert next_member(found, [1, 2, 3]) is None


def test_a_queue_is_led_where_the_fewest_leaders_are_and_not_the_fewest_members() -> None:
    nodes = [Candidate(1, "a", members=1, leaders=2), Candidate(2, "b", members=9, leaders=0), Candidate(3, "c", 1, 1)]
    assert place(nodes, asked=1, locator=BALANCED).leader == 2
    assert place(nodes, asked=1, locator=CLIENT_LOCAL).leader == 1


def test_a_queue_grows_to_disk_nodes_that_can_take_a_member_now() -> None:
    nodes = [
        Candidate(1, "a"),
        Candidate(2, "b", disk=False),
        Candidate(3, "c", up=False),
        Candidate(4, "d", draining=True),
    ]
    assert next_member(nodes, {1}) is None
    assert next_member([*nodes, Candidate(5, "e", members=9)], {1}) == 5

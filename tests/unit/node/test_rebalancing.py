"""node/replicas/rebalancing.py: leaders move until no node leads much more than the others, never to where they cannot be."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from node.replicas.rebalancing import LeaderMove, Led, loads_of, moves


def counts_after(queues: list[Led[int]], nodes: set[int]) -> Counter[int]:
    found = targets(queues, nodes)
    return Counter(found.get(queue.key, queue.leader) for queue in queues)


def targets(queues: list[Led[int]], nodes: set[int]) -> dict[int, int]:
    return {key: move.target for key, move in moves(queues, nodes).items()}


def test_nine_queues_led_by_one_of_three_nodes_are_led_by_three_each() -> None:
    queues = [Led(key, 1, (2, 3)) for key in range(9)]
    assert counts_after(queues, {1, 2, 3}) == {1: 3, 2: 3, 3: 3}
    assert len(moves(queues, {1, 2, 3})) == 6


def test_what_is_even_stays_as_it_is() -> None:
    queues = [Led(key, 1 + key % 3, (1, 2, 3)) for key in range(10)]
    assert moves(queues, {1, 2, 3}) == {}


def test_a_drained_node_gives_up_all_that_others_can_take() -> None:
    queues = [Led(0, 3, (1, 2)), Led(1, 3, (2,)), Led(2, 3, ())]
    found = targets(queues, {1, 2})
    assert found == {0: 1, 1: 2}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.sets(st.integers(1, 5))), max_size=40),
    st.sets(st.integers(1, 5), min_size=1),
)
def test_leaders_go_to_heirs_only_and_counts_come_closer(made: list[tuple[int, set[int]]], nodes: set[int]) -> None:
    queues = [Led(key, leader, tuple(sorted(heirs - {leader}))) for key, (leader, heirs) in enumerate(made)]
    found = targets(queues, nodes)
    for queue in queues:
        if queue.key in found:
            assert found[queue.key] in queue.heirs and found[queue.key] in nodes
    after = counts_after(queues, nodes)
    for queue in queues:  # nobody could still give one to somebody who leads two less
        leader = found.get(queue.key, queue.leader)
        for heir in {*queue.heirs, queue.leader} & nodes - {leader}:
            assert leader in nodes and after[heir] + 1 >= after[leader]


def test_one_busy_queue_outweighs_many_that_rest() -> None:
    busy = [Led(0, 1, (2, 3), load=100)]
    resting = [Led(key, 1, (2, 3), load=1) for key in range(1, 11)]
    found = targets(busy + resting, {1, 2, 3})
    assert 0 in found or len(found) == 10, "the busy one is alone on its node"
    loads = Counter({1: 0, 2: 0, 3: 0})
    for queue in busy + resting:
        loads[found.get(queue.key, queue.leader)] += queue.load
    assert sorted(loads.values()) == [5, 5, 100]


def test_a_queue_that_costs_nothing_stays_where_it_is() -> None:
    assert moves([Led(key, 1, (2,), load=0) for key in range(5)], {1, 2}) == {}


def test_a_move_says_what_both_nodes_carried_before() -> None:
    queues = [Led(0, 1, (2,), load=4), Led(1, 1, (2,), load=3)]
    assert moves(queues, {1, 2}) == {0: LeaderMove(1, 2, load=4, source_load=7, target_load=0)}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=30))
def test_the_heaviest_node_never_carries_more_than_before(made: list[tuple[int, int]]) -> None:
    nodes = {1, 2, 3, 4}
    queues = [Led(key, leader, tuple(nodes - {leader}), load) for key, (leader, load) in enumerate(made)]
    found = targets(queues, nodes)
    before, after = loads_of(queues, nodes), Counter(dict.fromkeys(nodes, 0))
    for queue in queues:
        after[found.get(queue.key, queue.leader)] += queue.load
    assert max(after.values()) <= max(before.values())

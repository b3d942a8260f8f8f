"""node/replicas/spreading.py: plans that never take a copy too many, keep zones, bring nodes closer, and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from node.replicas.placement import Candidate
from node.replicas.spreading import MOVES_MAX, MemberMove, Placed, member_moves

Queues = Sequence[Placed[int]]


def nodes_of(*zones: str) -> list[Candidate]:
    return [Candidate(number, zone) for number, zone in enumerate(zones, 1)]


def carried_out(queues: Queues, moves: Sequence[MemberMove[int]]) -> list[Placed[int]]:
    """Each step as an operator's: the new member first, then the old one goes."""
    found = {queue.key: queue for queue in queues}
    for move in moves:
        queue = found[move.key]
        members = (*queue.members, move.target) if move.target else queue.members
        found[move.key] = replace(queue, members=tuple(one for one in members if one != move.source))
    return list(found.values())


def loads_of(queues: Queues, nodes: Sequence[Candidate]) -> Counter[int]:
    loads = Counter({node.number: 0 for node in nodes})
    for queue in queues:
        loads.update(dict.fromkeys(queue.members, queue.load))
    return loads


def zones_of(queue: Placed[int], nodes: Sequence[Candidate]) -> int:
    zones = {node.number: node.zone for node in nodes}
    return len({zones[one] for one in queue.members})


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Placed[int]], list[Candidate]]:
    count = draw(st.integers(1, 7))
    nodes = [
        Candidate(
            number,
            draw(st.sampled_from("abc")),
            up=draw(st.sampled_from((True, True, True, False))),
            draining=draw(st.sampled_from((False, False, False, True))),
            disk=draw(st.sampled_from((True, True, True, False))),
        )
        for number in range(1, count + 1)
    ]
    numbers = st.lists(st.integers(1, count), min_size=1, max_size=min(5, count), unique=True)
    queues = [
        Placed(key, tuple(draw(numbers)), draw(st.sampled_from((0, 0, 3, 4))), draw(st.integers(0, 20)))
        for key in range(draw(st.integers(0, 15)))
    ]
    return queues, nodes


@given(clusters())
def test_no_queue_has_too_few_members_or_fewer_zones_than_it_could(
    cluster: tuple[list[Placed[int]], list[Candidate]],
) -> None:
    queues, nodes = cluster
    usable = {node.number for node in nodes if node.usable and node.disk}
    moves = member_moves(queues, nodes)
    assert len(moves) == len({move.key for move in moves}), "a queue is changed twice by one plan"
    after = {queue.key: queue for queue in carried_out(queues, moves)}
    by_key = {move.key: move for move in moves}
    for queue in queues:
        now, move = after[queue.key], by_key.get(queue.key)
        assert len(set(now.members)) == len(now.members)
        if move is None:
            assert now == queue
        elif move.target:
            assert len(now.members) == len(queue.members)
            assert move.target in usable and move.source in usable
            assert move.target not in queue.members and move.source in queue.members
            assert zones_of(now, nodes) >= zones_of(queue, nodes)
        else:
            assert len(now.members) == len(queue.members) - 1 >= max(3, queue.wanted)
            assert len(now.members) % 2 == 1, "it bears the loss of as many nodes as before"


@given(clusters())
def test_every_plan_brings_nodes_closer_until_there_is_nothing_to_do(
    cluster: tuple[list[Placed[int]], list[Candidate]],
) -> None:
    queues, nodes = cluster
    usable = {node.number for node in nodes if node.usable and node.disk}

    def unevenness(queues: Queues) -> int:
        return sum(load * load for node, load in loads_of(queues, nodes).items() if node in usable)

    rounds = 0
    while moves := member_moves(queues, nodes):
        now = carried_out(queues, moves)
        assert any(not move.target for move in moves) or unevenness(now) < unevenness(queues)
        queues, rounds = now, rounds + 1
        assert rounds <= 1_000


@given(clusters(), st.data())
def test_a_plan_that_is_cut_short_behind_an_added_member_ends_as_well(
    cluster: tuple[list[Placed[int]], list[Candidate]], data: st.DataObject
) -> None:
    """What was begun is taken back or ended, and no queue that nobody grew keeps one member more."""
    queues, nodes = cluster
    queues = [replace(queue, wanted=0) for queue in queues if len(queue.members) % 2]
    moves = [move for move in member_moves(queues, nodes) if move.target]
    if not moves:
        return
    made = data.draw(st.integers(0, len(moves) - 1))
    left = carried_out(queues, moves[:made])
    begun = moves[made]
    left = [replace(one, members=(*one.members, begun.target)) if one.key == begun.key else one for one in left]
    for _ in range(1_000):
        again = member_moves(left, nodes)
        if not again:
            break
        left = carried_out(left, again)
    before = {queue.key: queue for queue in queues}
    for queue in left:
        if len(before[queue.key].members) > 1:
            assert len(queue.members) == len(before[queue.key].members)
            assert zones_of(queue, nodes) >= zones_of(before[queue.key], nodes)


def test_a_new_node_gets_members_until_it_keeps_about_as_many_as_the_others() -> None:
    queues = [Placed(key, (1, 2, 3), 0) for key in range(40)]
    nodes = nodes_of("", "", "", "")
    after = carried_out(queues, member_moves(queues, nodes))
    assert max(loads_of(after, nodes).values()) - min(loads_of(after, nodes).values()) <= 3


def test_a_large_queue_moves_rather_than_many_small_ones() -> None:
    queues = [Placed(0, (1, 2, 3), 0, load=1_000), *(Placed(key, (1, 2, 3), 0, load=10) for key in range(1, 101))]
    (move, *_) = member_moves(queues, nodes_of("", "", "", ""))
    assert (move.key, move.target, move.load) == (0, 4, 1_000)


def test_a_member_does_not_leave_the_only_zone_of_its_kind() -> None:
    queues = [Placed(key, (1, 2, 3), 0) for key in range(10)]
    moves = member_moves(queues, nodes_of("a", "b", "c", "c"))
    assert moves and {move.source for move in moves} == {3}


def test_nodes_that_keep_about_as_much_are_left_alone() -> None:
    queues = [Placed(key, (1, 2, 3), 0) for key in range(100)] + [Placed(key, (2, 3, 4), 0) for key in range(100, 195)]
    assert [
        move for move in member_moves(queues, nodes_of("", "", "", "")) if {move.source, move.target} == {1, 4}
    ] == []


def test_a_copy_is_not_made_for_a_tenth_of_what_a_node_keeps() -> None:
    queues = [Placed(key, (1,), 0) for key in range(40)] + [Placed(key, (2,), 0) for key in range(40, 78)]
    assert member_moves(queues, nodes_of("", "")) == []
    assert len(member_moves(queues[:70], nodes_of("", ""))) > 0, "40 and 30"


def test_a_move_that_was_cut_short_is_ended_where_most_is_kept() -> None:
    queues = [Placed(0, (1, 2, 3, 4), 0, load=5), Placed(1, (1, 2, 3), 3, load=2)]
    assert member_moves(queues, nodes_of("", "", "", ""))[0] == MemberMove(0, 3, 0, 5, 7, 0)
    assert all(move.target for move in member_moves([replace(queues[0], wanted=4)], nodes_of("", "", "", "")))


def test_a_plan_has_so_many_moves_that_they_can_be_waited_for() -> None:
    queues = [Placed(key, (1,), 0) for key in range(5 * MOVES_MAX)]
    assert len(member_moves(queues, nodes_of("", ""))) == MOVES_MAX

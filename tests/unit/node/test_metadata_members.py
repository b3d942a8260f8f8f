"""node/catalog/group_members.py: one change after the other, until the group is what the catalog says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.records import NodeRecord
from node.catalog.group_members import wanted_change
from raft.core.membership import AddLearner, Change, Promote, RemoveMember, changed, members_of
from raft.core.messages import Membership, member_id, node_of


def record(number: int, kind: str = "disk", disk_id: int = 10) -> NodeRecord:
    return NodeRecord(f"n{number}", number, disk_id, f"n{number}:1", kind)


def member(number: int, replica: int = 10) -> int:
    return member_id(number, replica)


def settled(membership: Membership, nodes: list[NodeRecord], leader: int) -> tuple[Membership, list[Change]]:
    """The membership when nothing is left to change; learners that are to vote catch up at once."""
    made: list[Change] = []
    while True:
        for one in membership.promotable:
            membership = changed(membership, Promote(one), caught_up=True)
        change = wanted_change(membership, nodes, leader)
        if change is None:
            return membership, made
        made.append(change)
        membership = changed(membership, change)
        assert len(made) < 50, f"no end: {made[-4:]}"


def test_a_node_that_was_taken_in_becomes_a_voter_and_a_ram_node_a_learner() -> None:
    nodes = [record(1), record(2), record(3, "ram")]
    membership, made = settled(Membership((member(1),)), nodes, 1)
    assert made == [AddLearner(member(2), promote=True), AddLearner(member(3), promote=False)]
    assert membership == Membership((member(1), member(2)), (member(3),))


def test_a_node_that_is_gone_is_taken_out_and_the_leader_last() -> None:
    voters = Membership((member(1), member(2), member(3)))
    membership, made = settled(voters, [record(2)], 1)
    assert made == [RemoveMember(member(3)), RemoveMember(member(1))]
    assert membership == Membership((member(2),))


def test_a_disk_node_that_is_to_be_a_ram_node_loses_its_vote_before_it_stops() -> None:
    membership, _ = settled(Membership((member(1), member(2))), [record(1), record(2, "ram")], 1)
    assert membership == Membership((member(1),), (member(2),))


def test_a_ram_node_that_is_to_be_a_disk_node_votes_when_it_has_started_as_one() -> None:
    """What it has until then is in memory only: a vote of it would be forgotten."""
    before = Membership((member(1),), (member(2, 10),))
    assert wanted_change(before, [record(1), record(2, "disk", disk_id=11)], 1) is None
    after = Membership((member(1),), (member(2, 11),))
    assert wanted_change(after, [record(1), record(2, "disk", disk_id=11)], 1) == Promote(member(2, 11))


def test_another_disk_replaces_its_member_by_itself() -> None:
    assert wanted_change(Membership((member(1), member(2, 10))), [record(1), record(2, disk_id=11)], 1) is None


def test_a_ram_node_that_was_to_vote_does_not_come_to_it() -> None:
    """It was a disk node when it was taken in. What it promised with its vote would be gone with its memory."""
    joining = Membership((member(1),), (member(2),), (member(2),))
    assert wanted_change(joining, [record(1), record(2, "ram")], 1) == RemoveMember(member(2))


def test_a_leader_that_is_to_be_a_ram_node_goes_when_another_one_leads() -> None:
    voters, nodes = Membership((member(1), member(2))), [record(1, "ram"), record(2)]
    assert wanted_change(voters, nodes, 1) is None
    assert wanted_change(voters, nodes, 2) == RemoveMember(member(1))


def test_the_last_voter_stays_until_another_one_votes_though_its_node_is_gone() -> None:
    assert wanted_change(Membership((member(3),)), [record(1)], 3) == AddLearner(member(1))
    learns = Membership((member(3),), (member(1),), (member(1),))
    assert wanted_change(learns, [record(1)], 3) is None
    assert wanted_change(Membership((member(1), member(3))), [record(1)], 3) == RemoveMember(member(3))


def test_who_catches_up_keeps_no_other_node_from_being_taken_in() -> None:
    """It is promoted by itself: to ask for that again is refused, each time."""
    learns = Membership((member(1),), (member(2),), (member(2),))
    assert wanted_change(learns, [record(1), record(2), record(3)], 1) == AddLearner(member(3))


@settings(max_examples=200, deadline=None)
@given(
    kinds=st.dictionaries(st.integers(1, 7), st.sampled_from(["disk", "ram"]), min_size=1, max_size=7),
    voters=st.sets(st.integers(1, 7), min_size=1, max_size=5),
    learners=st.sets(st.integers(1, 7), max_size=3),
)
def test_it_ends_with_every_node_once_and_disk_nodes_as_voters(
    kinds: dict[int, str], voters: set[int], learners: set[int]
) -> None:
    leader = min(voters)
    kinds = kinds | {leader: "disk"}
    start = Membership(tuple(map(member, sorted(voters))), tuple(map(member, sorted(learners - voters))))
    membership, _ = settled(start, [record(number, kind) for number, kind in kinds.items()], leader)
    assert sorted(map(node_of, members_of(membership))) == sorted(kinds)
    assert {node_of(one) for one in membership.voters} == {number for number, kind in kinds.items() if kind == "disk"}

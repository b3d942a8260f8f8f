"""node/replicas/group_view.py: a group as it is put together from what its members' nodes tell, and what is missing of it."""

from __future__ import annotations

from typing import Any

from front.node_ports import GroupView, ReaderView
from node.replicas.group_view import HEIR_LAG_ENTRIES, group_view, heirs_of
from raft.core.messages import MemberId, member_id

N1, N2, N3, N4 = (member_id(node, 7) for node in (1, 2, 3, 4))


def raft(member: MemberId, role: str = "follower", **changes: Any) -> dict[str, Any]:
    told = {
        "member": member, "role": role, "term": 4, "first": 1, "last": 90, "commit": 88, "applied": 88, "snapshot": 0,
        "membership": [[N1, N2, N3], [N4], [N4]], "uncommitted_bytes": 300, "change_pending": False, "followers": [],
    }  # fmt: skip
    return {"leader_node": 1, "raft": told | changes, "machine": {"version": 2, "digest": 255}}


def follower(member: MemberId, match: int, suspected: bool = False, sent: int | None = None) -> dict[str, Any]:
    return {"member": member, "match": match, "suspected": suspected, "snapshot_sent_bytes": sent}


LEADER = raft(
    N1, "leader", followers=[follower(N2, 90), follower(N3, 10, suspected=True), follower(N4, 30, sent=1_000)]
)


def view(told: dict[int, Any], *, away: tuple[int, ...] = ()) -> GroupView:
    return group_view((N1, N2, N3), told, lambda node: f"n{node}", lambda node: node not in away, lambda node: 5_000)


def test_the_leader_says_how_far_the_others_are_and_who_is_away_since_when() -> None:
    found = view({1: LEADER, 2: raft(N2), 3: None, 4: raft(N4, "learner", applied=25)}, away=(3,))
    assert (found.leader, found.term, found.commit, found.open_entries, found.needed) == ("n1", 4, 88, 2, 2)
    assert [(one.node, one.state, one.membership, one.lag, one.away_since_ms) for one in found.members] == [
        ("n1", "leader", "voter", 0, 0),
        ("n2", "follower", "voter", 0, 0),
        ("n3", "down", "voter", 80, 5_000),
        ("n4", "learner", "promotable", 60, 0),
    ]
    assert found.members[3].snapshot_sent_bytes == 1_000
    assert found.members[0].digest == "00000000000000ff"


def test_without_a_leader_the_member_that_knows_most_is_believed() -> None:
    found = view({1: raft(N1, commit=70), 2: raft(N2, "candidate", commit=80, term=5), 3: None}, away=(3,))
    assert (found.leader, found.commit, found.term) == ("", 80, 5)
    assert [one.state for one in found.members[:3]] == ["follower", "candidate", "down"]


def test_of_two_that_lead_the_one_of_the_later_term_is_believed() -> None:
    """One that is cut off still takes itself for the leader."""
    for first, second in ((4, 5), (5, 4)):
        found = view({1: raft(N1, "leader", term=first), 2: raft(N2, "leader", term=second), 3: None})
        assert (found.leader, found.term) == ("n1" if first == 5 else "n2", 5)


def test_if_nobody_answers_the_record_says_who_they_are() -> None:
    found = view({1: None, 2: None, 3: None}, away=(2, 3))
    assert [(one.node, one.state) for one in found.members] == [("n1", "silent"), ("n2", "down"), ("n3", "down")]


def test_a_member_that_another_one_of_its_node_follows_is_being_replaced() -> None:
    found = view({1: LEADER, 2: raft(N2), 3: raft(member_id(3, 9), "learner"), 4: raft(N4)})
    assert found.members[2].state == "replaced"


def test_heirs_are_voters_that_have_caught_up_and_are_not_away() -> None:
    assert heirs_of(LEADER) == (2,)
    enough = 90 - HEIR_LAG_ENTRIES
    followers = [follower(N2, enough), follower(N3, 90, suspected=True), follower(N4, 90)]
    assert heirs_of(raft(N1, "leader", followers=followers)) == (2,), "not who is suspected, nor a learner"
    assert heirs_of(raft(N1, "leader", followers=[follower(N2, enough - 1)])) == ()


def test_members_of_a_stream_tell_where_they_are_and_who_reads_there() -> None:
    leader, behind = raft(N1, "leader"), raft(N2)
    leader["machine"] |= {"first_offset": 3, "committed_offset": 9, "segments": 2, "bytes": 700}
    behind["machine"] |= {"first_offset": 3, "committed_offset": 5, "segments": 1, "bytes": 400}
    behind["reading"] = [{"consumer_tag": "c", "offset": 4, "offset_lag": 2, "bytes_sent": 100}]
    found = view({1: leader, 2: behind, 3: None})
    assert [
        (one.first_offset, one.committed_offset, one.segments, one.bytes, list(one.readers))
        for one in found.members[:3]
    ] == [(3, 9, 2, 700, []), (3, 5, 1, 400, [ReaderView("c", 4, 2, 100)]), (0, 0, 0, 0, [])]

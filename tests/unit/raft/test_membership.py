"""Changes move one voter at a time; what is truncated takes its membership with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.errors import BadBytes, BadChange
from raft.core.membership import (
    AddLearner,
    Change,
    MembershipHistory,
    Promote,
    RemoveMember,
    Replace,
    changed,
    decode,
    encode,
    members_of,
)
from raft.core.messages import Entry, EntryKind, MemberId, Membership, member_id

A, B, C, D = (member_id(node, 1) for node in (1, 2, 3, 4))
A_AGAIN = member_id(1, 2)

some_members = st.builds(member_id, st.integers(1, 4), st.integers(1, 3))
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(AddLearner, some_members, st.booleans()),
    st.builds(RemoveMember, some_members),
    st.builds(Promote, some_members),
    st.builds(Replace, some_members, some_members),
)


@given(st.lists(st.tuples(changes, st.booleans()), max_size=30))
def test_any_changes_move_one_voter_at_a_time_and_keep_members_apart(wanted: list[tuple[Change, bool]]) -> None:
    membership = Membership((A, B))
    for change, caught_up in wanted:
        before = membership
        try:
            membership = changed(before, change, caught_up=caught_up)
        except BadChange:
            continue
        assert len(set(before.voters) ^ set(membership.voters)) <= 1
        assert membership != before
        assert membership.voters, "somebody must be left"
        assert all(list(part) == sorted(set(part)) for part in membership)
        assert not set(membership.voters) & set(membership.learners)
        assert set(membership.promotable) <= set(membership.learners)
        assert decode(encode(membership)) == membership


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (AddLearner(A), "node 1 has member"),
        (AddLearner(A_AGAIN), "node 1 has member"),
        (RemoveMember(D), "is not in this group"),
        (Promote(B), "is no learner"),
        (Promote(C), "as soon as it has caught up"),
        (Replace(A, B), "different nodes"),
        (Replace(A_AGAIN, A), "not of a later life"),
        (Replace(D, member_id(4, 2)), "is not in this group"),
    ],
)
def test_a_change_that_makes_no_sense_says_why(change: Change, complaint: str) -> None:
    with pytest.raises(BadChange, match=complaint):
        changed(Membership((A, B), (C,), (C,)), change)


def test_the_last_voter_stays() -> None:
    with pytest.raises(BadChange, match="last voter"):
        changed(Membership((A,), (C,)), RemoveMember(A))
    with pytest.raises(BadChange, match="last voter"):
        changed(Membership((A,), (C,)), Replace(A, A_AGAIN))


def test_who_replaces_a_voter_begins_as_a_learner_to_be_promoted() -> None:
    assert changed(Membership((A, B, C)), Replace(A, A_AGAIN)) == Membership((B, C), (A_AGAIN,), (A_AGAIN,))


def test_who_replaces_a_learner_that_was_to_be_promoted_is_promoted_too() -> None:
    assert changed(Membership((B, C), (A,), (A,)), Replace(A, A_AGAIN)) == Membership((B, C), (A_AGAIN,), (A_AGAIN,))


def test_who_replaces_a_plain_learner_stays_one() -> None:
    assert changed(Membership((B, C), (A,)), Replace(A, A_AGAIN)) == Membership((B, C), (A_AGAIN,))


def test_a_learner_that_lags_is_marked_for_promotion_first() -> None:
    marked = changed(Membership((A,), (B,)), Promote(B))
    assert marked == Membership((A,), (B,), (B,))
    assert changed(marked, Promote(B), caught_up=True) == Membership((A, B))


@pytest.mark.parametrize(
    "data", [b"", b"\x02" + bytes(6), encode(Membership((A,)))[:-1], encode(Membership((A,))) + b"\0"]
)
def test_other_bytes_are_no_membership(data: bytes) -> None:
    with pytest.raises(BadBytes, match="membership"):
        decode(data)


def entry(index: int, *voters: MemberId) -> Entry:
    return Entry(index, 1, EntryKind.MEMBERSHIP, encode(Membership(voters)))


def test_the_newest_membership_is_in_force_until_it_is_truncated() -> None:
    history = MembershipHistory([(0, Membership((A,)))])
    assert not history.take([Entry(1, 1, EntryKind.NOOP, b"")], commit=0)
    assert history.take([entry(2, A, B), Entry(3, 1, EntryKind.COMMAND, b"x"), entry(4, A, B, C)], commit=0)
    assert (history.index, history.current.voters) == (4, (A, B, C))
    assert history.committed(3).voters == (A, B)
    assert not history.truncate(4)
    assert history.truncate(3)
    assert history.current.voters == (A, B)
    assert history.truncate(0)
    assert history.current.voters == (A,)


def test_what_lies_before_the_newest_committed_membership_is_forgotten() -> None:
    history = MembershipHistory([(0, Membership((A,)))])
    history.take([entry(2, A, B)], commit=0)
    history.take([entry(5, A)], commit=3)
    history.truncate(4)
    assert history.current.voters == (A, B)
    with pytest.raises(AssertionError, match="was committed, but truncated to 1"):
        history.truncate(1)


def test_a_snapshot_brings_its_own() -> None:
    history = MembershipHistory([(0, Membership((A,))), (4, Membership((A, B)))])
    history.reset(9, Membership((C,), (D,)))
    assert (history.index, members_of(history.current)) == (9, (C, D))

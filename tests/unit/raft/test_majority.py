"""Majorities, beside a slower and more obvious way to count them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.majority import VoteOutcome, is_needed, majority_of, outcome, reached_by_majority


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9))
def test_what_a_majority_reached_is_the_highest_that_more_than_half_have(positions: list[int]) -> None:
    reached = [one for one in range(51) if 2 * sum(position >= one for position in positions) > len(positions)]
    assert reached_by_majority(positions) == max(reached)


def test_nobody_reaches_nothing() -> None:
    assert reached_by_majority([]) == 0


@given(st.integers(0, 9))
def test_two_majorities_share_a_member(count: int) -> None:
    assert 2 * majority_of(count) > count
    assert 2 * (majority_of(count) - 1) <= count


@given(st.integers(0, 9), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_a_voter_is_needed_where_the_others_that_can_be_reached_are_half_at_most(
    voter: int, voters: set[int], reached: set[int]
) -> None:
    others = (voters & reached) - {voter}
    needed = voter in voters and 2 * len(others) <= len(voters)
    assert is_needed(voter, voters, reached.__contains__) is needed


@given(st.lists(st.sampled_from(["granted", "refused", "silent"]), max_size=9))
def test_an_election_is_open_while_the_silent_can_still_decide_it(votes: list[str]) -> None:
    granted, refused, silent = (votes.count(what) for what in ("granted", "refused", "silent"))
    if 2 * granted > len(votes):
        expected = VoteOutcome.WON
    elif 2 * (granted + silent) > len(votes):
        expected = VoteOutcome.OPEN
    else:
        expected = VoteOutcome.LOST
    assert outcome(len(votes), granted, refused) is expected


def test_more_votes_than_voters_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="2 granted and 2 refused, of 3 voters"):
        outcome(3, 2, 2)

"""replicated/sole_replica.py: how the only one that is left goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raft.core.membership import decode
from raft.core.messages import Entry, EntryKind, Membership, member_id
from raft.core.ready import Facts
from replicated.sole_replica import begin_alone, names_others, votes_alone

MINE, EARLIER, OTHER = member_id(1, 8), member_id(1, 7), member_id(2, 7)


class Store:
    """What is needed of a member's store: entries up to 9, of terms up to 4."""

    member = MINE

    def __init__(self, *voters: int) -> None:
        self.appended: list[tuple[Facts, list[Entry]]] = []
        self._memberships = [(0, Membership((OTHER,))), (5, Membership(voters))]

    def memberships(self) -> Any:
        return self._memberships

    def last_index(self) -> int:
        return 9

    def facts(self) -> Any:
        return SimpleNamespace(term=4)

    def append(self, facts: Facts, entries: list[Entry]) -> None:
        self.appended.append((facts, entries))


def test_it_is_the_only_voter_in_a_term_that_nobody_has_voted_in() -> None:
    store: Any = Store(MINE, OTHER)
    assert begin_alone(store) == 9, "what it goes on with"
    ((facts, (entry,)),) = store.appended
    assert facts == Facts(5, 0)
    assert (entry.index, entry.term, entry.kind) == (10, 5, EntryKind.MEMBERSHIP)
    assert decode(entry.data) == Membership((MINE,))


@pytest.mark.parametrize(
    ("voters", "alone", "others"),
    [((MINE,), True, False), ((MINE, OTHER), False, True), ((MINE, EARLIER), False, False), ((OTHER,), False, True)],
    ids=["itself", "another node too", "an earlier one of its own node", "another node only"],
)
def test_its_log_says_who_else_votes(voters: tuple[int, ...], alone: bool, others: bool) -> None:
    store: Any = Store(*voters)
    assert (votes_alone(store), names_others(store)) == (alone, others)

"""What nodes say of their members, in whatever order it is read, and what their copies prove before all of it is known."""

from __future__ import annotations

import itertools

import pytest

from analytics.fold.group_copies import GroupCopies, Removal
from analytics.queue_events import QueueEvent
from raft.core.messages import EntryKind, Membership
from raft.store.group_records import GroupIdentity, encode_identity, encode_member
from storage.record import Kind

GROUP = 1 << 32
PAIR = Membership((1, 2))


def said(kind: Kind, first: int = 0, data: bytes = b"", *, term: int = 0, node: str = "n1") -> QueueEvent:
    return QueueEvent(GROUP, 0, term, kind, None, first, data, node=node)


def member(number: int, at: int, node: str = "n1", voters: Membership = PAIR) -> QueueEvent:
    identity = GroupIdentity(GROUP, number, "q", "quorum", voters)
    return said(Kind.RAFT_GROUP, at, encode_identity(identity), node=node)


def removed(at: int, node: str = "n1") -> QueueEvent:
    return said(Kind.RAFT_GROUP_REMOVED, at, node=node)


def copies(*events: QueueEvent) -> GroupCopies:
    made = GroupCopies()
    for event in events:
        made.take(event)
    return made


def entry(place: int, node: str, term: int = 1) -> QueueEvent:
    return QueueEvent(GROUP, place, term, Kind.RAFT_ENTRIES, None, EntryKind.COMMAND, b"", node=node)


ALONE = Membership((1,))


@pytest.mark.parametrize(
    ("events", "removal"),
    [
        ((member(1, 10, voters=ALONE), removed(20), removed(5)), Removal.OF_ALL),
        ((member(1, 10, voters=ALONE), removed(5), member(1, 3, voters=ALONE)), Removal.NONE),
        ((member(1, 10, voters=ALONE), removed(20), member(1, 30, voters=ALONE), removed(25)), Removal.NONE),
    ],
)
def test_the_newest_record_of_a_node_says_whether_its_member_is_there(
    events: tuple[QueueEvent, ...], removal: Removal
) -> None:
    for order in itertools.permutations(events):
        assert copies(*order).removal() is removal, order


def test_the_newest_record_of_a_node_says_which_member_it_has() -> None:
    """The one that it had before is of another membership, and counts no more."""
    for order in itertools.permutations((member(1, 10), member(2, 20))):
        found = copies(*order, said(Kind.RAFT_FACTS, term=1))
        found.copied(entry(1, "n1"))
        found.copied(entry(1, "n2"))
        assert found.committed == 0, "it is one member of two"
        assert found.unread_voters() == 1


def test_without_a_word_of_members_and_terms_copies_prove_nothing() -> None:
    found = copies(said(Kind.RAFT_FACTS, term=1))
    found.copied(entry(1, "n1"))
    found.copied(entry(1, "n9"))
    assert (found.committed, found.removal(), found.unread_voters()) == (0, Removal.NONE, None)
    silent = copies(member(1, 1), member(2, 2, "n2"))
    for node in ("n1", "n2"):
        silent.copied(entry(1, node))
    assert silent.committed == 0, "nobody says in which term they were"
    assert silent.unread_voters() == 0


def test_a_removal_is_unclear_where_nothing_says_who_the_members_are() -> None:
    found = copies(removed(5))
    assert (found.removal(), found.removed_nodes()) == (Removal.UNCLEAR, ["n1"])
    joined = copies(member(3, 1, voters=Membership(())), said(Kind.RAFT_COMMIT, 7, node="n2"), removed(5))
    assert (joined.removal(), joined.removed_nodes(), joined.committed) == (Removal.UNCLEAR, ["n1"], 7)


def test_a_membership_that_cannot_be_read_leaves_nobody_in_force() -> None:
    """Copies were counted among the members of before."""
    found = copies(member(1, 1, voters=ALONE), said(Kind.RAFT_FACTS, term=1))
    found.changed(QueueEvent(GROUP, 1, 1, Kind.RAFT_ENTRIES, None, EntryKind.MEMBERSHIP, b"\xff" * 3, node="n1"))
    found.copied(entry(2, "n1"))
    assert (found.committed, found.unread_voters()) == (0, None)


def test_what_cannot_be_read_of_a_member_says_nothing() -> None:
    found = copies(
        member(1, 1, voters=ALONE), said(Kind.RAFT_GROUP, 9, b"\xff"), said(Kind.RAFT_FACTS, term=1), removed(5)
    )
    assert found.removal() is Removal.OF_ALL
    renumbered = copies(member(1, 1, voters=ALONE), said(Kind.RAFT_RENUMBERED, 9, encode_member(4)), removed(5))
    assert renumbered.removal() is Removal.NONE


def test_a_renumbered_member_is_there_again_and_never_vouches_for_its_log() -> None:
    """The record is newer than the one that removed its member of before."""
    events = (member(1, 1, voters=Membership((1, 4))), said(Kind.RAFT_RENUMBERED, 9, encode_member(4)), removed(5))
    for order in itertools.permutations(events):
        assert copies(*order).removed_nodes() == [], order
    found = copies(*events, said(Kind.RAFT_FACTS, term=1))
    found.stand(3, Membership((4,)))
    found.copied(entry(4, "n1"))
    assert found.committed == 3, "what a snapshot stands for was committed, and the copy proves nothing"


def test_nodes_whose_members_are_gone_are_told_in_order() -> None:
    found = copies(*(event for node in ("n3", "n1", "n2") for event in (member(1, 1, node), removed(5, node))))
    assert found.removed_nodes() == ["n1", "n2", "n3"]

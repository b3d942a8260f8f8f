"""One group's log as a core: terms of entries that are kept behind a snapshot."""

from __future__ import annotations

from raft.core.live_entries import NONE_LIVE
from raft.core.messages import EntryKind, Membership, SnapshotMeta, member_id
from raft.core.ready import Facts
from raft.store.group_log import GroupLog
from raft.store.group_records import GroupIdentity, StoredSnapshot
from storage.wal.log_core import Location

FIRST = Membership((member_id(1, 1),))
TERMS = (1, 1, 2, 2, 3)


def test_the_term_before_the_first_entry_that_is_kept_is_known() -> None:
    """A leader tells a slow follower of it with the first entry: it was 0, and no log agreed with that."""
    for first in range(1, len(TERMS) + 1):
        log = GroupLog(GroupIdentity(1, member_id(1, 1), "g", "register", FIRST))
        for index, term in enumerate(TERMS, 1):
            log.append(index, 1, term, int(EntryKind.COMMAND), Location(1, 100 * index, 10))
        log.snapshot_taken(StoredSnapshot(SnapshotMeta(5, 3, FIRST, 1), first, 1, 10, 0), NONE_LIVE)
        known = [log.term(index) for index in range(max(1, first - 1), len(TERMS) + 1)]
        assert known == list(TERMS[max(1, first - 1) - 1 :])


def test_a_member_that_is_renumbered_has_voted_for_nobody_and_goes_back_to_no_earlier_term() -> None:
    """Its term says which leaders it may have acknowledged something to (replicated/departures.py)."""
    log = GroupLog(GroupIdentity(1, member_id(1, 1), "g", "register", FIRST))
    log.facts = Facts(7, member_id(1, 1))
    log.renumbered(member_id(1, 2), 0)
    assert (log.identity.member, log.facts) == (member_id(1, 2), Facts(7, 0))


def test_a_member_that_has_lost_what_stands_behind_its_snapshot_keeps_the_snapshot() -> None:
    log = GroupLog(GroupIdentity(1, member_id(1, 1), "g", "register", FIRST))
    for index in range(1, 6):
        log.append(index, 1, 1, int(EntryKind.COMMAND), Location(1, 100 * index, 10))
    taken = StoredSnapshot(SnapshotMeta(3, 1, FIRST, 1), 4, 1, 10, 0)
    log.snapshot_taken(taken, NONE_LIVE)
    log.renumbered(member_id(1, 2), 3)
    assert (log.snapshot, log.first, log.last) == (taken, 4, 3)
    log.renumbered(member_id(1, 3), 2)
    assert (log.snapshot.file, log.first, log.last) == (0, 1, 0), "something that the snapshot stands for is lost"


def test_an_entry_of_an_earlier_term_than_the_one_before_it_cannot_stand_there() -> None:
    log = GroupLog(GroupIdentity(1, member_id(1, 1), "g", "register", FIRST))
    for index, term in enumerate(TERMS, 1):
        log.append(index, 1, term, int(EntryKind.COMMAND), Location(1, 100 * index, 10))
    assert log.problem(6, 3) is None
    assert log.problem(6, 4) is None
    assert log.problem(6, 2) == "entry 6 of term 2 follows one of term 3"
    assert log.problem(4, 1) == "entry 4 of term 1 follows one of term 2"
    assert log.problem(7, 3) == "entry 7 follows 5: something in between is missing"

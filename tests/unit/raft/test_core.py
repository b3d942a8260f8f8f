"""What a driver may do with a core, and what it must not; what a member costs. Whole stories are in tests/scenarios/raft."""

from __future__ import annotations

import ast
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import raft
from raft.core.core import Core
from raft.core.errors import BadChange, NotLeader
from raft.core.leadership import Leadership, Transfer
from raft.core.membership import AddLearner, RemoveMember, encode
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    MemberId,
    Membership,
    Message,
    NotLeading,
    Replaced,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
    member_id,
)
from raft.core.progress import Progress
from raft.core.ready import Facts, Ready, Role
from raft.core.settings import Settings
from tests.unit.raft.memory_store import MemoryStore

ME, YOU, THEY = (member_id(node, 1) for node in (1, 2, 3))
THREE = Membership((ME, YOU, THEY))
CORE_FILES = (
    "core", "election", "feeding", "follower", "leader", "leadership", "log", "majority", "membership", "progress", "reads",
    "settings", "snapshot_transfer", "state", "status", "succession",
)  # fmt: skip
WORLD = {"asyncio", "os", "random", "socket", "storage", "threading", "time"}


def core_of(
    membership: Membership, store: MemoryStore | None = None, settings: Settings | None = None
) -> tuple[Core, MemoryStore]:
    store = store or MemoryStore(membership)
    core = Core(ME, store, settings or Settings(), lambda: 0.5, 0.0, store.snapshot().index)
    core.trust(2, 0.0)
    core.trust(3, 0.0)
    return core, store


def persist(core: Core, store: MemoryStore) -> list[Ready]:
    """Whatever there is to do, until there is nothing."""
    done = []
    while (ready := core.ready(0.0)) is not None:
        done.append(ready)
        store.write(ready.facts, ready.entries)
        core.persisted(ready.number, 0.0)
        if ready.committed:
            core.applied(ready.committed[-1].index)
    return done


def leader(term: int = 1, settings: Settings | None = None) -> tuple[Core, MemoryStore]:
    """Of three, with its first entry committed and known."""
    store = MemoryStore(THREE)
    store.write(Facts(term - 1, 0), [])
    core, store = core_of(THREE, store, settings)
    assert core.deadline is not None
    core.tick(core.deadline)
    core.step(VoteReply(ME, YOU, term, granted=True, pre=True), 0.0)
    persist(core, store)
    core.step(VoteReply(ME, YOU, term, granted=True), 0.0)
    persist(core, store)
    for member in (YOU, THEY):
        core.step(AppendReply(ME, member, term, True, 1, 1), 0.0)
    persist(core, store)
    assert core.status().role is Role.LEADER
    return core, store


def test_who_has_nothing_and_founded_nothing_grants_no_vote() -> None:
    """It was never made a voter: whoever asks it means an earlier life of its node that had the same number."""

    def granted(core: Core, store: MemoryStore, term: int) -> list[bool]:
        for pre in (True, False):
            core.step(VoteRequest(ME, YOU, term, last_index=6, last_term=2, pre=pre), 0.0)
        said = [one for ready in persist(core, store) for one in ready.messages_after if isinstance(one, VoteReply)]
        return [one.granted for one in said]

    core, store = core_of(Membership(()))
    assert granted(core, store, 3) == [False, False]
    core.step(Append(ME, THEY, 4, 0, 0, 0, (Entry(1, 1, EntryKind.NOOP, b""),)), 0.0)
    persist(core, store)
    core.suspect(3, 0.0)
    assert granted(core, store, 5) == [True, True]
    founder, store = core_of(THREE)
    assert granted(founder, store, 3) == [True, True]


def test_a_thousand_proposals_are_one_message_to_each_follower() -> None:
    core, _ = leader()
    for number in range(500):
        core.propose([b"%d" % number, b"x"], 0.0)
    ready = core.ready(0.0)
    assert ready is not None
    assert len(ready.entries) == 1000
    assert [(type(one), one.to, len(one.entries)) for one in ready.messages if isinstance(one, Append)] == [
        (Append, YOU, 1000),
        (Append, THEY, 1000),
    ]


def test_proposals_get_their_places_in_order() -> None:
    core, _ = leader()
    assert core.propose([b"a", b"b"], 0.0) == range(2, 4)
    assert core.propose([], 0.0) == range(4, 4)
    assert core.propose([b"c"], 0.0) == range(4, 5)


def test_who_does_not_lead_says_who_does() -> None:
    core, _ = core_of(THREE)
    with pytest.raises(NotLeader, match="no leader") as nobody:
        core.propose([b"x"], 0.0)
    assert nobody.value.leader == 0
    core.step(Append(ME, YOU, 1, 0, 0, 0), 0.0)
    for ask in (lambda: core.read(1, 0.0), lambda: core.transfer(ME, 0.0), lambda: core.change(RemoveMember(ME), 0.0)):
        with pytest.raises(NotLeader) as somebody:
            ask()
        assert somebody.value.leader == YOU


def test_a_member_that_trusts_nobody_waits_without_a_deadline() -> None:
    store = MemoryStore(THREE)
    core = Core(ME, store, Settings(), lambda: 0.5, 0.0)
    assert core.deadline is None
    core.trust(2, 1.0)
    assert core.deadline is not None and core.deadline > 1.0
    core.suspect(2, 1.0)
    assert core.deadline is None


def test_a_member_of_no_group_never_stands() -> None:
    core, _ = core_of(Membership(()))
    assert core.deadline is None
    core.tick(1000.0)
    core.step(TransferNow(ME, YOU, 0), 0.0)
    assert core.ready(1000.0) is None


EAGER_WAIT_S = (Settings().election_min_s + Settings().election_max_s) / 2 / 4


def eager_core(store: MemoryStore) -> Core:
    core = Core(ME, store, Settings(eagerness=4.0), lambda: 0.5, 0.0)
    core.trust(2, 0.0)
    return core


def test_an_eager_member_stands_sooner() -> None:
    store = MemoryStore(THREE)
    store.write(None, [Entry(1, 1, EntryKind.COMMAND, b"x")])
    assert eager_core(store).deadline == pytest.approx(EAGER_WAIT_S)
    other, _ = core_of(THREE)
    assert other.deadline == pytest.approx(4 * EAGER_WAIT_S)


def test_an_eager_member_of_a_new_group_stands_at_once_and_after_that_seldomer() -> None:
    core, now, waits = eager_core(MemoryStore(THREE)), 0.0, []
    for _ in range(3):
        assert core.deadline is not None
        waits.append(core.deadline - now)
        now = core.deadline
        core.tick(now)
    assert waits == pytest.approx([0.0, 2 * Settings().election_min_s / 4, 4 * Settings().election_min_s / 4])


def test_an_eager_member_that_has_voted_in_a_new_group_gives_the_other_its_time() -> None:
    """It stood against it in the moment in which its vote was durable, and deposed it."""
    store = MemoryStore(THREE)
    core = eager_core(store)
    core.step(VoteRequest(ME, YOU, 1, 0, 0, pre=False, transfer=False), 0.0)
    persist(core, store)
    assert store.facts() == (1, YOU)
    assert core.deadline == pytest.approx(EAGER_WAIT_S)


def test_an_eager_candidate_does_not_stand_once_more_as_it_hears_of_another_node() -> None:
    store = MemoryStore(THREE)
    core = eager_core(store)
    core.tick(0.0)
    core.step(VoteReply(ME, YOU, 1, granted=True, pre=True), 0.0)
    persist(core, store)
    assert (core.standing().role, core.standing().term) == (Role.CANDIDATE, 1)
    core.trust(3, 0.0)
    assert core.deadline == pytest.approx(EAGER_WAIT_S)


def follower_of(leader: MemberId, settings: Settings | None = None) -> Core:
    """Of THREE, as any member but the leader."""
    core, store = core_of(Membership(tuple(sorted({ME, leader, THEY}))), settings=settings)
    core.step(Append(ME, leader, 1, 0, 0, 0), 0.0)
    persist(core, store)
    assert core.standing().leader == leader
    return core


def test_of_the_followers_of_a_lost_leader_one_stands_at_once_and_which_one_differs_from_group_to_group() -> None:
    """So a node that is lost does not leave all that it led to one other node."""
    waits: list[float] = []
    for replica in range(4):
        leader = member_id(2, 1 + replica)
        core = follower_of(leader)
        core.suspect(2, 0.0)
        assert core.deadline is not None
        waits.append(core.deadline)
    usual = (Settings().election_min_s + Settings().election_max_s) / 2
    assert waits == pytest.approx([usual, Settings().heir_s, usual, Settings().heir_s])


def test_a_preferred_follower_of_a_lost_leader_stands_before_the_other() -> None:
    core = follower_of(member_id(2, 1), Settings(eagerness=4.0))
    core.suspect(2, 0.0)
    assert core.deadline == pytest.approx(Settings().heir_s / 4)


def test_the_followers_of_a_leader_that_was_only_silent_give_it_the_usual_time() -> None:
    """On a busy machine it may live, and say so."""
    for settings in (Settings(), Settings(eagerness=4.0)):
        core = follower_of(member_id(2, 2), settings)
        core.suspect(2, 0.0, silent=True)
        usual = (settings.election_min_s + settings.election_max_s) / 2 / settings.eagerness
        assert core.deadline == pytest.approx(usual)


def test_a_follower_that_stood_too_early_waits_as_any_other_then() -> None:
    core = follower_of(member_id(2, 2))
    core.suspect(2, 0.0)
    core.tick(Settings().heir_s)
    assert core.standing().role is Role.PRE_CANDIDATE
    usual = (Settings().election_min_s + Settings().election_max_s) / 2
    assert core.deadline == pytest.approx(Settings().heir_s + usual)


def test_a_candidate_that_keeps_failing_asks_less_and_less_often() -> None:
    core, _ = core_of(THREE)
    waits, now = [], 0.0
    for _ in range(7):
        assert core.deadline is not None
        waits.append(core.deadline - now)
        now = core.deadline
        core.tick(now)
    assert waits == pytest.approx([waits[0] * factor for factor in (1, 2, 4, 8, 16, 16, 16)])
    core.suspect(2, now)
    core.trust(2, now)
    assert core.deadline is not None and core.deadline - now == pytest.approx(waits[0]), "somebody is back"


def test_the_same_event_twice_does_nothing_the_second_time() -> None:
    core, _ = core_of(THREE)
    before = core.deadline
    core.trust(2, 0.1)
    core.suspect(1, 0.1)
    core.suspect(9, 0.1)
    assert core.deadline == before
    core.tick(0.0)
    assert core.ready(0.0) is None


def test_a_restarted_member_keeps_its_term_and_vote() -> None:
    store = MemoryStore(THREE)
    store.write(Facts(7, YOU), [Entry(1, 7, EntryKind.NOOP, b"")])
    core, _ = core_of(THREE, store)
    core.step(VoteRequest(ME, THEY, 7, 5, 7), 0.0)
    ready = core.ready(0.0)
    assert ready is not None
    assert list(ready.messages_after) == [VoteReply(THEY, ME, 7, granted=False)]
    assert core.status().vote == YOU


@pytest.mark.parametrize("handed_out", [False, True])
def test_what_was_persisted_before_a_candidate_voted_says_nothing_of_its_vote(handed_out: bool) -> None:
    """Its own vote counted when the disk told of entries that were written before: it led by a vote that it had forgotten after
    a restart, and gave to another one in the same term."""
    core, store = core_of(THREE)
    core.step(Append(ME, YOU, 1, 0, 0, 0), 0.0)
    persist(core, store)
    core.step(Append(ME, YOU, 1, 0, 0, 0, (Entry(1, 1, EntryKind.NOOP, b""),)), 0.0)
    written = core.ready(0.0)
    assert written is not None
    store.write(written.facts, written.entries)
    core.suspect(2, 0.0)
    assert core.deadline is not None
    core.tick(core.deadline)
    core.step(VoteReply(ME, THEY, 2, granted=True, pre=True), 0.0)
    assert core.status().role is Role.CANDIDATE
    if handed_out:
        assert core.ready(0.0) is not None
    core.persisted(written.number, 0.0)
    core.step(VoteReply(ME, THEY, 2, granted=True), 0.0)
    assert core.status().role is Role.CANDIDATE, "one vote of three is durable"


def test_who_would_have_won_an_earlier_election_does_not_stand_for_it_in_a_later_term() -> None:
    core, store = core_of(THREE)
    assert core.deadline is not None
    core.tick(core.deadline)
    core.step(Append(ME, YOU, 1, 0, 0, 0), 0.0)
    persist(core, store)
    core.suspect(2, 0.0)
    assert core.deadline is not None
    core.tick(core.deadline)
    core.step(VoteReply(ME, THEY, 1, granted=True, pre=True), 0.0)
    assert core.status().role is Role.PRE_CANDIDATE
    core.step(VoteReply(ME, THEY, 2, granted=True, pre=True), 0.0)
    assert core.status().role is Role.CANDIDATE


@pytest.mark.parametrize("pending", [False, True])
def test_who_lost_what_it_acknowledged_is_told_so_only_where_its_replacement_can_be_committed(pending: bool) -> None:
    """A change of members at a time: while one is pending, who gives itself up is not replaced, and missed by a majority."""
    core, store = leader()
    if pending:
        core.change(AddLearner(member_id(4, 1)), 0.0)
        persist(core, store)
    core.step(AppendReply(ME, YOU, 1, False, 0, 1, rejected=1), 0.0)
    ready = core.ready(0.0)
    told = [one for one in ready.messages if isinstance(one, MatchCheck)] if ready is not None else []
    assert bool(told) is not pending


def test_a_refused_vote_is_no_denial_of_leading() -> None:
    """A leader refuses who stands in an earlier term, and that may come late: it was taken for "I do not lead"."""
    core, store = core_of(THREE)
    core.step(Append(ME, YOU, 5, 0, 0, 0), 0.0)
    core.step(VoteReply(ME, YOU, 5, granted=False, pre=True), 0.0)
    persist(core, store)
    assert core.status().leader == YOU
    core.step(NotLeading(ME, YOU, 5), 0.0)
    assert core.status().leader == 0


def test_a_denial_of_leading_is_no_refused_vote() -> None:
    core, store = core_of(THREE)
    assert core.deadline is not None
    core.tick(core.deadline)
    persist(core, store)
    assert core.status().role is Role.PRE_CANDIDATE
    core.step(NotLeading(ME, YOU, 0), 0.0)
    core.step(NotLeading(ME, THEY, 0), 0.0)
    assert core.status().role is Role.PRE_CANDIDATE


def test_who_asks_for_the_leader_in_an_earlier_term_hears_of_it() -> None:
    """Asked as if for a vote, a leader of a later term only refused."""
    core, store = leader(term=7)
    core.step(LeaderLookup(ME, THEY, 2), 0.0)
    said = [one for ready in persist(core, store) for one in [*ready.messages, *ready.messages_after]]
    assert [type(one) for one in said if one.to == THEY] == [Append]


def test_an_acknowledgement_of_more_than_the_leader_has_commits_nothing() -> None:
    core, store = leader()
    core.propose([b"a"], 0.0)
    persist(core, store)
    core.step(AppendReply(ME, YOU, 1, True, 99, 1), 0.0)
    assert (core.status().last, core.status().commit) == (2, 1)
    core.step(AppendReply(ME, YOU, 1, True, 2, 1), 0.0)
    assert core.status().commit == 2


def test_a_read_round_that_nobody_has_asked_confirms_no_read() -> None:
    core, store = leader()
    core.step(AppendReply(ME, YOU, 1, True, 1, 1, read_round=99), 0.0)
    core.read(7, 0.0)
    assert [ready.reads for ready in persist(core, store) if ready.reads] == []
    core.step(AppendReply(ME, YOU, 1, True, 1, 1, read_round=1), 0.0)
    assert [point.token for ready in persist(core, store) for point in ready.reads] == [7]


@pytest.mark.parametrize("indexes", [(2,), (1, 3), (1, 1)])
def test_an_append_whose_entries_do_not_follow_each_other_is_not_taken(indexes: tuple[int, ...]) -> None:
    core, store = core_of(THREE)
    entries = tuple(Entry(index, 1, EntryKind.COMMAND, b"a") for index in indexes)
    core.step(Append(ME, YOU, 1, 0, 0, 0, entries), 0.0)
    said = [message for ready in persist(core, store) for message in ready.messages_after]
    assert (core.status().last, said) == (0, [])


def test_only_who_cannot_lead_declines_a_handover() -> None:
    core, _ = leader()
    core.transfer(YOU, 0.0)
    core.step(VoteReply(ME, YOU, 1, granted=False, pre=True), 0.0)
    assert core.status().transfer_to == YOU
    core.step(TransferDeclined(ME, YOU, 1), 0.0)
    assert core.status().transfer_to == 0


def test_a_member_finds_out_that_it_lost_what_its_leader_counts_on() -> None:
    core, store = core_of(THREE)
    core.step(Append(ME, YOU, 1, 0, 0, 0, (Entry(1, 1, EntryKind.NOOP, b""),)), 0.0)
    persist(core, store)
    core.step(MatchCheck(ME, YOU, 1, 1, 1), 0.0)
    core.step(MatchCheck(ME, YOU, 0, 9, 0), 0.0)  # of an earlier leadership
    assert core.ready(0.0) is None
    core.step(MatchCheck(ME, YOU, 1, 2, 1), 0.0)
    ready = core.ready(0.0)
    assert ready is not None
    assert ready.forgotten == MatchCheck(ME, YOU, 1, 2, 1)


def test_a_member_that_installs_a_snapshot_cannot_tell_whether_it_lost_anything() -> None:
    """The store may have replaced its log already."""
    core, store = core_of(THREE)
    core.step(Append(ME, YOU, 1, 0, 0, 0, (Entry(1, 1, EntryKind.NOOP, b""),)), 0.0)
    persist(core, store)
    core.step(SnapshotChunk(ME, YOU, 1, SnapshotMeta(5, 1, THREE, 1), 0, b"state", True), 0.0)
    ready = core.ready(0.0)
    assert ready is not None
    assert ready.install is not None
    core.step(MatchCheck(ME, YOU, 1, 2, 1), 0.0)
    assert core.ready(0.0) is None


def test_readies_may_be_on_their_way_together_and_are_told_of_by_the_last() -> None:
    core, store = leader()
    first, second = [], []
    core.propose([b"a"], 0.0)
    first.append(core.ready(0.0))
    core.propose([b"b"], 0.0)
    second.append(core.ready(0.0))
    assert first[0] is not None and second[0] is not None
    assert first[0].number < second[0].number
    store.write(None, [*first[0].entries, *second[0].entries])
    core.persisted(second[0].number, 0.0)
    core.persisted(first[0].number, 0.0)
    assert core.status().durable == 3
    with pytest.raises(AssertionError, match="Ready 99 was persisted, only"):
        core.persisted(99, 0.0)


def test_the_machine_cannot_be_ahead_of_what_it_was_given() -> None:
    core, _ = leader()
    with pytest.raises(AssertionError, match="applied 5; it was 1, and 1 were handed out"):
        core.applied(5)
    with pytest.raises(AssertionError, match="the machine is at 9, its log ends at 0"):
        Core(ME, MemoryStore(THREE), Settings(), lambda: 0.5, 0.0, applied=9)


def test_a_machine_that_kept_more_than_its_snapshot_is_not_given_it_again() -> None:
    store = MemoryStore(Membership((ME,)))
    store.write(Facts(1, ME), [Entry(1, 1, EntryKind.COMMAND, b"a"), Entry(2, 1, EntryKind.COMMAND, b"b")])
    core = Core(ME, store, Settings(), lambda: 0.5, 0.0, applied=1)
    core.tick(0.0)
    applied = [entry.index for ready in persist(core, store) for entry in ready.committed]
    assert applied == [2, 3]


def test_a_snapshot_that_nobody_waits_for_cannot_be_installed() -> None:
    core, _ = core_of(THREE)
    with pytest.raises(AssertionError, match="none was to be"):
        core.installed(SnapshotMeta(5, 1, THREE, 1))
    with pytest.raises(AssertionError, match="none was to be"):
        core.install_failed()


def test_an_append_while_a_snapshot_is_installed_is_refused_without_a_look_at_the_log() -> None:
    """Found by the simulator: the store had replaced the log already, of which the core asked for a term that was gone."""
    core, store = core_of(THREE)
    entries = tuple(Entry(index, 1, EntryKind.COMMAND, b"a") for index in (1, 2, 3, 4))
    core.step(Append(ME, YOU, 1, 0, 0, 3, entries), 0.0)
    persist(core, store)
    meta = SnapshotMeta(9, 1, THREE, 1)
    core.step(SnapshotChunk(ME, YOU, 1, meta, 0, b"state", last=True), 0.0)
    ready = core.ready(0.0)
    assert ready is not None
    assert ready.install == meta
    store.install(meta, b"state")
    core.step(Append(ME, YOU, 1, 4, 1, 4, (Entry(5, 1, EntryKind.COMMAND, b"b"),)), 0.0)
    replies = [message for ready in persist(core, store) for message in ready.messages_after]
    assert replies == [AppendReply(YOU, ME, 1, False, 3, 3, rejected=4, hint_term=1)]


def test_a_snapshot_that_cannot_be_installed_is_not_asked_for_again_at_once() -> None:
    """Found by the simulator (seed 100601): the store had stopped its work, and the leader sent the whole snapshot again and
    again as fast as the network took it."""
    core, store = core_of(THREE)
    meta = SnapshotMeta(9, 1, THREE, 1)
    core.step(SnapshotChunk(ME, YOU, 1, meta, 0, b"state", last=True), 0.0)
    assert [ready.install for ready in persist(core, store)] == [meta]
    core.install_failed()
    assert [message for ready in persist(core, store) for message in ready.messages_after] == []
    core.step(SnapshotChunk(ME, YOU, 1, meta, 0, b"", last=False), 0.5)
    replies = [message for ready in persist(core, store) for message in ready.messages_after]
    assert replies == [SnapshotReply(YOU, ME, 1, 9, 0)], "the leader's question is answered: from the beginning"


def test_where_news_of_a_commit_wait_for_nothing_they_leave_at_once() -> None:
    core, store = leader(settings=Settings(commit_news_s=0.0))
    core.propose([b"x"], 0.0)
    persist(core, store)
    core.step(AppendReply(ME, YOU, 1, True, 2, 1), 0.0)
    said = [one for ready in persist(core, store) for one in ready.messages if isinstance(one, Append)]
    assert [(one.to, one.commit, len(one.entries)) for one in said] == [(YOU, 2, 0), (THEY, 2, 0)]


def test_a_leader_wakes_for_what_is_due_first_whatever_that_is() -> None:
    lead = Leadership(1)
    lead.news_at = 5.0
    lead.transfer = Transfer(YOU, 3.0, told=False)
    assert lead.deadline() == 3.0
    for member, at in ((YOU, 4.0), (THEY, 2.0), (ME, None)):
        lead.progress[member] = Progress(member, 0, trusted=True)
        lead.progress[member].resend_at = at
    assert lead.deadline() == 2.0
    lead.news_at = 1.0
    assert lead.deadline() == 1.0
    lead.chunk_at = 0.5
    assert lead.deadline() == 0.5


def test_a_leader_refuses_a_successor_it_cannot_reach() -> None:
    core, _ = leader()
    core.suspect(3, 0.0)
    with pytest.raises(BadChange, match="node 3 does not answer"):
        core.transfer(THEY, 0.0)


def test_a_follower_catches_up_from_its_snapshot_until_it_was_sent_everything() -> None:
    """Found by the simulated brokers (seed 18000031): the log behind the snapshot was gone when the follower stood on it."""
    core, store = leader()
    progress = core._s.leadership.progress[YOU]  # type: ignore[union-attr]
    progress.send_snapshot(store.snapshot())
    assert progress.snapshot is not None
    progress.snapshot.was_read(70, last=True)
    assert core.snapshot_received_bytes() == 0
    core.propose([b"behind the snapshot"], 0.0)
    core.step(SnapshotReply(ME, YOU, 1, store.snapshot().index, 70, installed=True), 0.0)
    assert core.snapshot_received_bytes() == 70
    persist(core, store)
    assert core.snapshot_received_bytes() == 70, "where its log ends is asked first"
    core.step(AppendReply(ME, YOU, 1, True, 1, 1), 0.0)
    persist(core, store)
    assert core.snapshot_received_bytes() is None


def test_status_tells_of_every_follower() -> None:
    core, _ = leader()
    core.suspect(3, 0.0)
    core.propose([b"x" * 76], 0.0)
    core.ready(0.0)
    status = core.status()
    assert [
        (one.member, one.match, one.next, one.sending, one.in_flight_bytes, one.suspected) for one in status.followers
    ] == [
        (YOU, 1, 3, "stream", 100, False),
        (THEY, 1, 2, "probe", 0, True),
    ]
    assert (status.last, status.commit, status.uncommitted_bytes, status.leader) == (2, 1, 100, ME)


def test_a_member_at_rest_is_small() -> None:
    count = 200
    stores = [MemoryStore(THREE) for _ in range(count)]
    shared = Settings()
    tracemalloc.start()
    cores = [Core(ME, store, shared, lambda: 0.5, 0.0) for store in stores]
    size = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    assert len(cores) == count
    assert size < 3072, f"{size:.0f} bytes"


numbers = st.integers(0, 6)
memberss = st.sampled_from([ME, YOU, THEY, member_id(3, 2)])
entry_lists = st.builds(
    lambda first, terms: tuple(
        Entry(first + offset, term, EntryKind.COMMAND, b"") for offset, term in enumerate(sorted(terms))
    ),
    numbers,
    st.lists(st.integers(0, 3), max_size=3),
)
metas = st.builds(SnapshotMeta, st.integers(1, 6), st.integers(1, 3), st.just(THREE), st.just(1))
stale: st.SearchStrategy[Message] = st.one_of(
    st.builds(VoteRequest, st.just(ME), memberss, numbers, numbers, numbers, st.booleans(), st.booleans()),
    st.builds(VoteReply, st.just(ME), memberss, numbers, st.booleans(), st.booleans()),
    st.builds(AppendReply, st.just(ME), memberss, numbers, st.booleans(), numbers, numbers, numbers, numbers, numbers),
    st.builds(SnapshotReply, st.just(ME), memberss, numbers, numbers, numbers, st.booleans()),
    st.builds(TransferNow, st.just(ME), memberss, numbers),
    st.builds(TransferDeclined, st.just(ME), memberss, numbers),
    st.builds(LeaderCheck, st.just(ME), memberss, numbers),
    st.builds(LeaderLookup, st.just(ME), memberss, numbers),
    st.builds(NotLeading, st.just(ME), memberss, numbers),
    st.builds(MatchCheck, st.just(ME), memberss, st.just(0), numbers, numbers),
    st.builds(Replaced, st.just(ME), memberss, numbers, memberss),
    st.builds(Append, st.just(ME), memberss, st.just(0), numbers, numbers, numbers, entry_lists, numbers),
    st.builds(SnapshotChunk, st.just(ME), memberss, st.just(0), metas, numbers, st.binary(max_size=3), st.booleans()),
)


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.lists(stale, max_size=8))
def test_replies_and_requests_that_nobody_asked_for_never_stop_a_leader(messages: list[Message]) -> None:
    core, store = leader()
    for message in messages:
        core.step(message, 0.0)
        persist(core, store)
    assert core.status().durable == core.status().last


@pytest.mark.parametrize("name", CORE_FILES)
def test_a_core_file_imports_nothing_that_acts(name: str) -> None:
    tree = ast.parse(Path(raft.__path__[0], "core", f"{name}.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {one.split(".")[0] for one in imported} & WORLD


def test_a_membership_in_an_entry_is_in_force_when_it_arrives() -> None:
    core, store = core_of(THREE)
    entry = Entry(1, 1, EntryKind.MEMBERSHIP, encode(Membership((YOU, THEY))))
    core.step(Append(ME, YOU, 1, 0, 0, 0, (entry,)), 0.0)
    persist(core, store)
    assert core.status().membership.voters == (YOU, THEY)
    assert core.status().role is Role.LEARNER

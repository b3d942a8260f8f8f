"""What copies of a replicated log prove together, of clusters whose leaders come and go: analytics/fold/merged_log.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from analytics.fold.merged_log import MergedLog
from analytics.queue_events import STANDING_PLACE, QueueEvent, fold_order
from raft.core.messages import EntryKind, Membership
from raft.store.group_records import GroupIdentity, encode_identity
from storage.record import Kind

GROUP = 1 << 32
SIZES = (3, 5)

Entry = tuple[int, int]  # index and term


@dataclass
class Collected:
    """Fulfils EntriesFold: what was given to it."""

    entries: list[Entry] = field(default_factory=list)
    passed_over: list[Entry] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    removed_at: list[int | None] = field(default_factory=list)

    def apply(self, event: QueueEvent) -> None:
        self.entries.append((event.place, event.term))

    def resume(self, place: int, state: bytes, version: int) -> Callable[[], None]:
        raise ValueError("no snapshot")

    def check(self, place: int, state: bytes) -> None:
        """There are none."""

    def lose(self, why: str) -> None:
        self.lost.append(why)

    def pass_over(self, event: QueueEvent) -> None:
        self.passed_over.append((event.place, event.term))

    def remove(self, at: int | None) -> None:
        self.removed_at.append(at)


@dataclass
class Member:
    """Of a group: its term and its log, and each record that it has written of them."""

    number: int
    founders: range
    term: int = 0
    leads: int = 0  # the term that it was elected in
    committed: int = 0
    log: list[int] = field(default_factory=list)  # the term of each entry
    written: list[QueueEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        identity = GroupIdentity(GROUP, self.number, "q", "quorum", Membership(tuple(self.founders)))
        self._say(Kind.RAFT_GROUP, data=encode_identity(identity))

    @property
    def rank(self) -> tuple[int, int]:
        return (self.log[-1] if self.log else 0), len(self.log)

    @property
    def is_leader(self) -> bool:
        return self.leads == self.term > 0

    def be_in(self, term: int) -> None:
        if term > self.term:
            self.term = term
            self._say(Kind.RAFT_FACTS, term=term)

    def put(self, index: int, term: int) -> None:
        del self.log[index - 1 :]
        self.log.append(term)
        self._write(QueueEvent(GROUP, index, term, Kind.RAFT_ENTRIES, None, EntryKind.COMMAND, b""))

    def commit(self, index: int) -> None:
        if index > self.committed:
            self.committed = index
            self._say(Kind.RAFT_COMMIT, first=index)

    def _say(self, kind: Kind, *, term: int = 0, first: int = 1, data: bytes = b"") -> None:
        self._write(QueueEvent(GROUP, STANDING_PLACE, term, kind, None, first, data))

    def _write(self, event: QueueEvent) -> None:
        self.written.append(event._replace(written=len(self.written) + 1, node=f"n{self.number}"))

    def follow(self, leader: Member, upto: int) -> None:
        """What is the same stays; from the first difference on the leader's entries replace its own."""
        theirs, same = leader.log[:upto], 0
        while same < min(len(theirs), len(self.log)) and theirs[same] == self.log[same]:
            same += 1
        for index in range(same + 1, len(theirs) + 1):
            self.put(index, theirs[index - 1])


class Cluster:
    """Of members that tell each other of entries in any order, or not at all."""

    def __init__(self, random: Random) -> None:
        size = random.choice(SIZES)
        self._random = random
        self._majority = size // 2 + 1
        self.members = [Member(number, range(1, size + 1)) for number in range(1, size + 1)]
        for _ in range(random.randrange(1, 12)):
            self._elect(*random.sample(self.members, self._majority))
            for _ in range(random.choice((0, 1, 1, 2, 6))):
                self._work()

    def _elect(self, one: Member, *others: Member) -> None:
        one.be_in(max(other.term for other in (one, *others)) + 1)
        votes = [other for other in others if one.rank >= other.rank]
        for other in votes:
            other.be_in(one.term)
        if len(votes) == len(others):
            one.leads = one.term

    def _work(self) -> None:
        """Also of leaders that do not know of a later one."""
        random, leaders = self._random, [one for one in self.members if one.is_leader]
        if not leaders:
            return
        leader = random.choice(leaders)
        for _ in range(random.randrange(3)):
            leader.put(len(leader.log) + 1, leader.term)
        for other in random.sample(self.members, random.randrange(len(self.members))):
            if other is not leader and other.term <= leader.term:
                upto = random.choice((len(leader.log), random.randrange(len(leader.log) + 1)))
                other.be_in(leader.term)
                other.follow(leader, upto)
                other.commit(min(leader.committed, upto))
        if random.random() < 0.5:
            leader.commit(self.proved(leader.term))

    def electable(self) -> list[Member]:
        """Who may become the next leader, from whose log nothing that was committed is missing."""
        return [one for one in self.members if sum(one.rank >= other.rank for other in self.members) >= self._majority]

    def proved(self, term: int) -> int:
        """The last entry of this term that a majority has that is in it."""
        having = Counter(
            index
            for one in self.members
            for index, written_in in enumerate(one.log, 1)
            if written_in == one.term == term
        )
        return max((index for index, count in having.items() if count >= self._majority), default=0)

    def has_on_a_majority(self, best: Member) -> int:
        """The last entry of this log that a majority has, whenever it was accepted."""
        having = (
            index
            for index, term in enumerate(best.log, 1)
            if sum(one.log[index - 1 : index] == [term] for one in self.members) >= self._majority
        )
        return max(having, default=0)


def merged(events: Iterable[QueueEvent]) -> tuple[MergedLog, Collected]:
    found = Collected()
    log = MergedLog(found)
    for one in sorted(events, key=fold_order):
        log.take(one)
    log.end()
    return log, found


def said(kind: Kind, *, at_s: int = 0, first: int = 1, data: bytes = b"") -> QueueEvent:
    return QueueEvent(GROUP, STANDING_PLACE, 0, kind, at_s * 1_000_000, first, data, node="n1")


def entry(index: int, kind: EntryKind = EntryKind.COMMAND) -> QueueEvent:
    return QueueEvent(GROUP, index, 1, Kind.RAFT_ENTRIES, None, kind, b"", written=index, node="n1")


def test_a_group_was_there_until_its_last_member_was_removed_whatever_nodes_said_later() -> None:
    alone = encode_identity(GroupIdentity(GROUP, 1, "q", "quorum", Membership((1,))))
    _, found = merged(
        [
            said(Kind.RAFT_GROUP, at_s=1, first=1, data=alone),
            said(Kind.RAFT_GROUP_REMOVED, at_s=5, first=9),
            said(Kind.RAFT_COMMIT, at_s=8),
            said(Kind.RAFT_FACTS, at_s=9),
        ]
    )
    assert found.removed_at == [5_000]


def test_a_record_of_a_classic_queue_that_has_the_number_of_a_group_says_nothing_of_it() -> None:
    """Its place in a file was taken for that of an entry, before which all others are missing."""
    stranger = QueueEvent(GROUP, 1 << 40, 0, Kind.CLASSIC_DONE, None, 0, b"", written=9, node="n1")
    _, found = merged([entry(1), entry(2), stranger])
    assert ([index for index, _ in found.entries], found.lost) == ([1, 2], [])


def test_behind_an_entry_of_a_newer_version_nothing_is_applied() -> None:
    class OfBefore(Collected):
        def apply(self, event: QueueEvent) -> None:
            if event.place == 2:
                raise ValueError("it is of a newer version")
            super().apply(event)

    found = OfBefore()
    log = MergedLog(found)
    for one in (entry(1), entry(2), entry(3), entry(4)):
        log.take(one)
    log.end()
    assert (found.entries, found.passed_over) == ([(1, 1)], [(3, 1), (4, 1)])
    assert found.lost == ["it is of a newer version"]


@pytest.mark.parametrize("data", [b"", b"\xff", bytes(40)])
def test_a_snapshot_whose_head_cannot_be_read_is_none(data: bytes) -> None:
    state = QueueEvent(GROUP, 2, 0, Kind.RAFT_STATE, None, len(data), data)
    _, found = merged([entry(1), entry(2), state, entry(3)])
    assert ([index for index, _ in found.entries], found.lost) == ([1, 2, 3], [])
    _, found = merged([entry(1), state, entry(3)])
    assert ([index for index, _ in found.entries], found.lost) == ([1], ["entries 2 to 2 are missing"])


CLUSTERS = 200  # of each seed


@pytest.mark.parametrize("seed", range(3))
def test_no_later_leader_replaces_what_is_told_as_committed(seed: int) -> None:
    """Whatever of the nodes' logs was read, and whatever they did later."""
    random, happened = Random(seed), Counter[str]()
    for _ in range(CLUSTERS):
        cluster = Cluster(random)
        log, found = merged(
            one for member in cluster.members for one in member.written[: random.choice((99, random.randrange(40)))]
        )
        committed = log.copies.committed
        happened["some is committed"] += committed > 0
        happened["not all is"] += committed < len(found.entries)
        for member in cluster.electable():
            happened["a later leader goes on"] += len(member.log) > committed > 0
            assert list(enumerate(member.log[:committed], 1)) == found.entries[:committed]
    assert min(happened.values()) > CLUSTERS / 10, happened


@pytest.mark.parametrize("seed", range(3))
def test_copies_prove_all_that_a_majority_accepted_in_the_term_of_the_entry(seed: int) -> None:
    """Without a word of what members knew to be committed."""
    random, happened = Random(seed), Counter[str]()
    for _ in range(CLUSTERS):
        cluster = Cluster(random)
        log, found = merged(one for member in cluster.members for one in member.written if one.kind != Kind.RAFT_COMMIT)
        best = max(cluster.members, key=lambda member: member.rank)
        proved = max(cluster.proved(member.term) for member in cluster.members)
        assert found.entries == list(enumerate(best.log, 1)) and not found.lost
        assert log.copies.committed == proved
        happened["some is committed"] += proved > 0
        happened["not all is"] += proved < len(best.log)
        happened["not all that a majority has is"] += proved < cluster.has_on_a_majority(best)
        happened["some was overruled"] += bool(log.chains.overruled)
    assert min(happened.values()) > 0, happened

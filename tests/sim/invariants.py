"""The promises of replicated logs and of the log on disk, each a function that raises Violation with its own name.

Sixteen are Raft's, the others the store's; some are checked in two places, with a name each. `Book` holds what was ever
shown to anybody of one group; twins (tests/sim/twin.py) hold what each member's log must be. Who calls these, and when, is
tests/sim/watch.py: after every event, for what has changed since the last one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from raft.core.majority import majority_of
from raft.core.membership import decode
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    LeaderCheck,
    MatchCheck,
    MemberId,
    Membership,
    Message,
    NotLeading,
    SnapshotChunk,
    SnapshotReply,
    VoteReply,
    VoteRequest,
)
from tests.sim.references import Reference
from tests.sim.twin import LogModel, Row, Twin

NOBODY = Membership(())
WALKED_BACK_MAX = (
    4  # to the end of what it has acknowledged, and to what it says that it has; both twice, as letters cross
)


class Violation(AssertionError):
    """A promise was broken. `invariant` names it."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


@dataclass
class Book:
    """One group, as everybody together has seen it."""

    group: int
    checked: dict[str, int]
    reference: Reference
    leaders: dict[int, MemberId] = field(default_factory=dict)  # by term
    votes: dict[tuple[MemberId, int], MemberId] = field(default_factory=dict)
    seen: dict[tuple[int, int], tuple[int, bytes, int]] = field(
        default_factory=dict
    )  # index, term: kind, data, term before
    memberships: list[tuple[int, Membership]] = field(
        default_factory=list
    )  # committed, each with its entry; founders: 0
    committed: list[Row] = field(default_factory=list)
    committed_in: list[int] = field(
        default_factory=list
    )  # the term in which it was known first, which rises with the index
    places: dict[bytes, int] = field(default_factory=dict)  # of committed commands
    digests: dict[int, str | None] = field(default_factory=dict)  # of the machine behind each committed command
    last_commands: list[int] = field(default_factory=lambda: [0])  # by index: the last command up to there
    twins: dict[MemberId, Twin] = field(default_factory=dict)
    in_memory: dict[MemberId, bool] = field(default_factory=dict)  # learners that keep nothing
    forgiven: dict[MemberId, int] = field(default_factory=dict)  # acknowledged, then lost, as the atlas allows
    is_over: bool = False  # what the group was for is deleted: members go, and nobody misses them

    def __post_init__(self) -> None:
        self.digests[0] = self.reference.digest()

    @property
    def label(self) -> str:
        return f"group {self.group}"

    def commit(self, row: Row, in_term: int) -> None:
        """The next entry that everybody will ever have."""
        self.committed.append(row)
        self.committed_in.append(max(in_term, self.committed_in[-1]) if self.committed_in else in_term)
        term, kind, data = row
        if kind == EntryKind.MEMBERSHIP:
            self.memberships.append((len(self.committed), decode(data)))
        if kind == EntryKind.COMMAND:
            index = len(self.committed)
            self.places[data] = index
            self.last_commands.append(index)
            self.digests[index] = self.reference.apply(Entry(index, term, kind, data))
        else:
            self.last_commands.append(self.last_commands[-1])

    @property
    def membership(self) -> Membership:
        """The newest committed one."""
        return self.memberships[-1][1] if self.memberships else NOBODY

    def membership_at(self, index: int) -> tuple[int, Membership]:
        """The committed one that counts at an entry, and where it came from."""
        return next(found for found in reversed(self.memberships) if found[0] <= index)

    def digest_at(self, index: int, found: str) -> str:
        """Of everybody's machine; where nobody has said so yet, it is as it was found now."""
        command = self.last_commands[index]
        known = self.digests[command]
        if known is None:
            known = self.digests[command] = found
        return known

    def is_beyond(self, member: MemberId, term: int) -> bool:
        """Whether a member takes part in a later term, whose leader may have had it truncate what it acknowledged."""
        twin = self.twins.get(member)
        return twin is not None and twin.now.facts.term > term

    def holds(self, member: MemberId, index: int, term: int) -> bool:
        """Whether a member has this entry fsynced, or had when it said so and was allowed to lose it."""
        twin = self.twins.get(member)
        return twin is not None and (twin.durable.has(index, term) or index <= self.forgiven.get(member, 0))


class Subject(Protocol):
    """What an invariant is about: a book, for those of groups."""

    @property
    def label(self) -> str: ...

    @property
    def checked(self) -> dict[str, int]: ...


Check = TypeVar("Check", bound=Callable[..., None])


def registered_in(registry: dict[str, Callable[..., None]]) -> Callable[[Check], Check]:
    """Invariants of one layer."""

    def invariant(check: Check) -> Check:
        """Count it, and tell its name when it does not hold."""
        name = check.__name__

        @functools.wraps(check)
        def checked(subject: Subject, *args: Any) -> None:
            counts = subject.checked
            counts[name] = counts.get(name, 0) + 1
            try:
                check(subject, *args)
            except AssertionError as error:
                raise Violation(name, f"{subject.label}: {error}") from None

        registry[name] = checked
        return cast(Check, checked)

    return invariant


INVARIANTS: dict[str, Callable[..., None]] = {}
invariant = registered_in(INVARIANTS)


# Raft


@invariant
def one_leader_per_term(book: Book, member: MemberId, term: int) -> None:
    known = book.leaders.setdefault(term, member)
    assert known == member, f"{known} and {member} lead in term {term}"


@invariant
def facts_are_durable_before_they_are_told(book: Book, twin: Twin, message: Message) -> None:
    term = twin.durable.facts.term
    match message:
        case Append() | AppendReply() | MatchCheck() | SnapshotChunk() | SnapshotReply() | LeaderCheck() | NotLeading():
            assert term >= message.term, f"{message}, and fsynced is term {term}"
        case VoteReply(pre=True) | VoteRequest(pre=True):
            return
        case VoteReply(granted=True):
            vote = twin.votes.get(message.term)
            assert vote == message.to or term > message.term, (
                f"{message}, and fsynced is term {term}, a vote for {vote}"
            )
        case VoteRequest():
            vote = twin.votes.get(message.term)
            assert vote == message.sender or term > message.term, f"{message}, and fsynced is {term}, a vote for {vote}"
        case VoteReply():
            assert term >= message.term, f"{message}, and fsynced is term {term}"
        case _:
            return


@invariant
def one_vote_per_term(book: Book, member: MemberId, term: int, candidate: MemberId) -> None:
    known = book.votes.setdefault((member, term), candidate)
    assert known == candidate, f"{member} votes for {known} and {candidate} in term {term}"


@invariant
def logs_match(book: Book, member: MemberId, first: int, term_before: int | None, rows: Sequence[Row]) -> None:
    """An index and a term name one entry, and one entry before it: so two logs that share one share all before."""
    for index, (term, kind, data) in enumerate(rows, first):
        if term_before is not None:
            found = (kind, data, term_before)
            known = book.seen.setdefault((index, term), found)
            assert known == found, f"entry {index} of term {term} is {known} and, at {member}, {found}"
            assert term >= term_before, f"entry {index} of term {term} follows one of term {term_before} at {member}"
        term_before = term


@invariant
def leader_is_complete(
    book: Book, member: MemberId, term: int, last: int, term_at: Callable[[int], int | None]
) -> None:
    """Whoever is elected has everything that was committed in an earlier term."""
    index = len(book.committed)
    while index and book.committed_in[index - 1] >= term:
        index -= 1
    if index:
        committed_term = book.committed[index - 1][0]
        assert index <= last, f"{member} leads in term {term} with entries up to {last}; {index} is committed"
        found = term_at(index)
        assert found in (None, committed_term), f"{member} leads with {index} of term {found}, not {committed_term}"


@invariant
def leader_only_appends(book: Book, member: MemberId, first: int, last: int) -> None:
    assert first == last + 1, f"leader {member} writes entry {first}, and its log ends at {last}"


@invariant
def machines_agree(book: Book, member: MemberId, entries: Sequence[Entry], digest: str) -> None:
    for entry in entries:
        found = (entry.term, int(entry.kind), entry.data)
        assert entry.index <= len(book.committed), f"{member} applies {entry.index}, which nobody knows to be committed"
        known = book.committed[entry.index - 1]
        assert found == known, f"{member} applies {found} at {entry.index}, others {known}"
    index = entries[-1].index
    everybodys = book.digest_at(index, digest)
    assert digest == everybodys, f"the machine of {member} is another one than that of others at {index}"


@invariant
def commit_is_agreed(book: Book, member: MemberId, index: int, row: Row) -> None:
    known = book.committed[index - 1] if index <= len(book.committed) else None
    assert known == row, f"{member} takes {row} at {index} for committed, others {known}"


@invariant
def commit_never_falls(book: Book, member: MemberId, before: int, commit: int) -> None:
    assert commit >= before, f"commit of {member} falls from {before} to {commit}"


@invariant
def commit_is_on_a_majority(
    book: Book, member: MemberId, memberships: Sequence[Sequence[MemberId]], index: int, term: int
) -> None:
    """`memberships`: the voters of each that it may have counted in."""
    counts = [(sum(book.holds(voter, index, term) for voter in voters), voters) for voters in memberships]
    enough = any(have >= majority_of(len(voters)) for have, voters in counts)
    assert enough, f"{member} commits {index} of term {term}, fsynced by {counts} of its voters"


@invariant
def only_own_term_is_counted(book: Book, member: MemberId, term: int, index: int, entry_term: int) -> None:
    assert entry_term == term, f"leader {member} of term {term} commits up to {index}, of term {entry_term}"


@invariant
def match_is_durable(book: Book, leader: MemberId, member: MemberId, match: int, term: int | None) -> None:
    if match and term is not None:
        assert book.holds(member, match, term), f"{leader} believes that {member} has {match} of term {term}, fsynced"


@invariant
def who_is_told_of_a_loss_has_lost(book: Book, member: MemberId, acknowledged: int) -> None:
    allowed = book.forgiven.get(member, 0)
    assert acknowledged <= allowed, f"{member} is said to have lost {acknowledged}, and has lost none behind {allowed}"


@invariant
def truncation_lowers_durable(book: Book, member: MemberId, first: int, durable: int) -> None:
    assert durable < first, f"{member} overwrites entry {first} and takes {durable} for fsynced"


@invariant
def applied_within_commit(book: Book, member: MemberId, applied: int, commit: int) -> None:
    assert applied <= commit, f"{member} has applied {applied}, and knows {commit} to be committed"


@invariant
def applied_within_durable(book: Book, member: MemberId, applied: int, durable: int) -> None:
    assert applied <= durable, f"{member} has applied {applied}, and {durable} are fsynced"


@invariant
def one_change_at_a_time(
    book: Book,
    member: MemberId,
    before: Membership,
    changed_at: int,
    after: Membership,
    commit: int,
    first_of_term: int,
) -> None:
    assert changed_at <= commit, (
        f"{member} changes members while the change at {changed_at} is not committed ({commit})"
    )
    assert commit >= first_of_term, f"{member} changes members before {first_of_term}, its first entry, is committed"
    came = [one for one in after.voters if one not in before.voters]
    went = [one for one in before.voters if one not in after.voters]
    assert len(came) + len(went) <= 1, f"{member} changes voters by {came} and {went} at once"


@invariant
def founders_agree(book: Book, member: MemberId, membership: Membership) -> None:
    """Whoever begins a group begins the same one."""
    if not book.memberships:
        book.memberships.append((0, membership))
    founders = book.memberships[0][1]
    assert founders == membership, f"{member} founds the group as {membership}, others as {founders}"


@invariant
def membership_in_force_is_committed(book: Book, member: MemberId, commit: int, membership: Membership) -> None:
    """`membership`: the newest up to `commit` that the member knows of. Who was taken in later, and has not heard of it yet,
    knows of none: founders are in no log."""
    if membership != NOBODY or book.membership_at(commit)[0]:
        _is_committed(book, commit, membership, f"{member} goes by")


@invariant
def snapshot_has_the_committed_membership(book: Book, member: MemberId, index: int, membership: Membership) -> None:
    _is_committed(book, index, membership, f"the snapshot of {member} says")


def _is_committed(book: Book, index: int, membership: Membership, who: str) -> None:
    changed_at, everybodys = book.membership_at(index)
    assert membership == everybodys, f"{who} {membership} at {index}; committed is {everybodys} of {changed_at}"


@invariant
def read_asked_a_majority(
    book: Book,
    leader: MemberId,
    memberships: Sequence[Sequence[MemberId]],
    heard: Collection[MemberId],
    index: int,
    committed: int,
) -> None:
    """`memberships`: the voters of each that was in force since the question; `heard`: who said since then that this leader
    leads; `committed`: what was when it was asked."""
    asked = any(
        sum(one == leader or one in heard for one in voters) >= majority_of(len(voters)) for voters in memberships
    )
    assert asked, f"{leader} answers a read; of {memberships[0]} only {sorted(heard)} were heard since"
    assert index >= committed, f"{leader} answers a read as of {index}; {committed} were committed when it was asked"


# The log on disk


@invariant
def recovered_as_it_was(book: Book, found: LogModel, possible: Sequence[LogModel]) -> None:
    assert found in possible, f"{_show(found)} is none of {'; '.join(map(_show, possible))}"


@invariant
def acknowledged_is_recovered(book: Book, found: LogModel, acknowledged: int, term: int) -> None:
    known = found.term(acknowledged)
    assert acknowledged <= found.last, f"{found.member} said that it has {acknowledged}, and has {found.last}"
    assert known in (None, term), f"{found.member} said that it has {acknowledged} of term {term}, and has term {known}"


@invariant
def nothing_unwritten_is_recovered(book: Book, found: LogModel) -> None:
    for index, (term, kind, data) in found.rows.items():
        known = book.seen.get((index, term))
        assert known is not None, f"entry {index} of term {term} was never written"
        assert known[:2] == (kind, data), f"entry {index} of term {term} is {(kind, data)}; written was {known}"


@invariant
def no_gaps(book: Book, found: LogModel) -> None:
    indexes = list(found.rows)
    assert indexes == list(range(found.first, found.last + 1)), f"{indexes} of {found.first} to {found.last}"
    assert found.first <= found.snapshot + 1, f"the log begins at {found.first}, behind snapshot {found.snapshot}"
    terms = [row[0] for row in found.rows.values()]
    assert terms == sorted(terms), f"terms fall: {terms}"


@invariant
def damage_is_no_tail(book: Book, found: LogModel, vouched: LogModel) -> None:
    """What a later commit stands behind is there, or the member is another one. Not asked where the marks that would tell
    were damaged too (tests/sim/marks.py)."""
    if found.member == vouched.member:
        assert found.last >= vouched.last or found.term(found.last) != vouched.term(found.last), (
            f"{_show(found)} after damage; {_show(vouched)} was known to be fsynced"
        )
        assert found.facts >= vouched.facts, f"facts {found.facts} after damage; {vouched.facts} were fsynced"


@invariant
def log_file_is_not_needed(book: Book, number: int, first_needed: int) -> None:
    assert number < first_needed, f"log file {number} goes; entries of group {book.group} are in {first_needed}"


@invariant
def named_files_exist(book: Book, named: Sequence[str], exists: Callable[[str], bool]) -> None:
    missing = [name for name in named if not exists(name)]
    assert not missing, f"{missing} are named and do not exist"


@invariant
def unnamed_files_go(book: Book, node: int, lie_around: Sequence[str]) -> None:
    assert not lie_around, f"node {node} keeps files that nobody names: {list(lie_around)}"


@invariant
def recovery_is_idempotent(book: Book, first: LogModel, second: LogModel) -> None:
    assert first == second, f"{_show(first)} is {_show(second)} when it is recovered again"


@invariant
def snapshot_is_committed_state(
    book: Book, member: MemberId, index: int, term: int, stands_on: int, digest: str
) -> None:
    assert index <= stands_on <= len(book.committed), (
        f"{member} takes a snapshot of {stands_on}, which is not committed"
    )
    known = book.committed[index - 1][0]
    assert term == known, f"{member} takes a snapshot of {index} and term {term}; its term is {known}"
    everybodys = book.digest_at(stands_on, digest)
    assert digest == everybodys, f"the snapshot of {member} at {stands_on} is another state than everybody's"


@invariant
def snapshot_and_suffix_are_the_log(book: Book, state: LogModel, digest: str, commit: int) -> None:
    """`digest`: of the machine restored from the snapshot, with everything behind it applied up to `commit`."""
    assert state.snapshot <= commit <= state.last, f"{_show(state)}, and {commit} is committed"
    assert digest == book.digest_at(commit, digest), (
        f"snapshot {state.snapshot} of {state.member} and its log miss {commit}"
    )


@invariant
def nothing_is_deleted_unasked(book: Book, node: int, is_there: bool, why_not: str) -> None:
    assert is_there or why_not, f"node {node} had a member of group {book.group}, and nobody took it out"


@invariant
def a_number_is_given_once(book: Book, member: MemberId, has_spoken: bool) -> None:
    """`has_spoken`: a member of this number has voted, or acknowledged entries, and does not go on."""
    assert not has_spoken, f"a member begins as {member}, under which another one has given its word"


@invariant
def who_was_deleted_stays_away(book: Book, node: int, member: MemberId, is_known: bool) -> None:
    assert is_known, f"node {node} begins with member {member} of group {book.group}, which had deleted itself durably"


@invariant
def who_installs_is_not_walked_back(book: Book, member: MemberId, leader: MemberId, steps: int) -> None:
    """A leader goes back to where the logs agree, and asks there until the snapshot is installed."""
    assert steps <= WALKED_BACK_MAX, (
        f"{leader} goes back {steps} times through its log for {member}, which takes nothing now"
    )


def _show(model: LogModel) -> str:
    return (
        f"member {model.member} of {tuple(model.facts)}, snapshot {model.snapshot}/{model.snapshot_term}, "
        f"entries {model.first}..{model.last} of terms {[row[0] for row in model.rows.values()][-8:]}"
    )

"""What a member's log must be after a crash: its dumb twin, told of everything that the member was.

A twin keeps three states of the same log, each further in the past: `now`, what was appended; `durable`, what the node's log
has reported fsynced; `vouched`, what a later commit's mark stands behind, so that damage to it can be told from a torn tail.
A crash may leave any state from `durable` to `now`, because all records of a group lie in one log, in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from raft.core.messages import Entry, MemberId
from raft.core.packs import packed
from raft.core.ready import Facts

Row = tuple[int, int, bytes]  # term, kind, data
NO_FACTS = Facts(0, 0)


@dataclass(slots=True)
class SetFacts:
    facts: Facts


@dataclass(slots=True)
class AddRows:
    first: int
    rows: list[Row]


@dataclass(slots=True)
class TakeSnapshot:
    """Of this member's own machine; the log begins at `first` from now on."""

    index: int
    term: int
    first: int


@dataclass(slots=True)
class InstallSnapshot:
    index: int
    term: int


@dataclass(slots=True)
class BecomeAnother:
    """It lost something, and keeps entries up to `last`."""

    state: LogModel


Step = SetFacts | AddRows | TakeSnapshot | InstallSnapshot | BecomeAnother


@dataclass(slots=True)
class LogModel:
    """One state of a member's log."""

    member: MemberId
    facts: Facts = NO_FACTS
    snapshot: int = 0
    snapshot_term: int = 0
    first: int = 1
    last: int = 0
    rows: dict[int, Row] = field(default_factory=dict)

    def copy(self) -> LogModel:
        return LogModel(
            self.member, self.facts, self.snapshot, self.snapshot_term, self.first, self.last, dict(self.rows)
        )

    def take(self, step: Step) -> None:
        match step:
            case SetFacts(facts):
                self.facts = facts
            case AddRows(first, rows):
                self._truncate(first)
                self.rows.update(enumerate(rows, first))
                self.last = first + len(rows) - 1
            case TakeSnapshot(index, term, first):
                self.snapshot, self.snapshot_term = index, term
                for gone in range(self.first, first):
                    del self.rows[gone]
                self.first = first
            case InstallSnapshot(index, term):
                self.snapshot, self.snapshot_term = index, term
                self.rows = {}
                self.first, self.last = index + 1, index
            case BecomeAnother(state):
                self.member, self.facts = state.member, state.facts
                self.snapshot, self.snapshot_term = state.snapshot, state.snapshot_term
                self.first, self.last, self.rows = state.first, state.last, dict(state.rows)

    def _truncate(self, first: int) -> None:
        for gone in range(first, self.last + 1):
            del self.rows[gone]

    def term(self, index: int) -> int | None:
        """None: it does not know."""
        row = self.rows.get(index)
        if row is not None:
            return row[0]
        return self.snapshot_term if index == self.snapshot else None

    def has(self, index: int, term: int) -> bool:
        """Whether it holds this entry, or a snapshot that stands for it."""
        return index <= self.snapshot or self.term(index) == term


class Twin:
    """One member on one disk."""

    __slots__ = ("_pending", "_unvouched", "durable", "group", "node", "now", "votes", "vouched")

    def __init__(self, node: int, group: int, state: LogModel) -> None:
        self.node = node
        self.group = group
        self._pending: deque[tuple[int, Step]] = deque()  # by ticket of the log: between durable and now
        self._unvouched: deque[tuple[int, Step]] = deque()  # between vouched and durable
        self.votes: dict[int, MemberId] = {}  # by term, that were fsynced
        self.stand_on(state, state.copy())

    def stand_on(self, state: LogModel, vouched: LogModel) -> None:
        """A start found this, and made it durable. Until its first commit no mark stands behind more of it than before."""
        self.now, self.durable, self.vouched = state, state.copy(), vouched
        self.votes = {state.facts.term: state.facts.vote}
        self._pending.clear()
        self._unvouched = deque([(0, BecomeAnother(state.copy()))])

    def append(self, ticket: int, facts: Facts | None, entries: list[Entry]) -> None:
        if facts is not None:
            self.take(ticket, SetFacts(facts))
        for pack in packed(entries):  # each is a record, and a crash may lose the last ones
            pack_entries = entries[pack.first - entries[0].index :][: pack.entry_count]
            rows = [(entry.term, int(entry.kind), entry.data) for entry in pack_entries]
            self.take(ticket, AddRows(pack.first, rows))

    def take(self, ticket: int, step: Step) -> None:
        self.now.take(step)
        self._pending.append((ticket, step))

    def fsynced(self, ticket: int) -> None:
        """The node's log is durable up to this ticket."""
        while self._pending and self._pending[0][0] <= ticket:
            one = self._pending.popleft()
            self.durable.take(one[1])
            if isinstance(one[1], SetFacts):
                term, vote = one[1].facts
                self.votes[term] = vote
            self._unvouched.append(one)
        while self._unvouched and self._unvouched[0][0] < ticket:
            self.vouched.take(self._unvouched.popleft()[1])

    def possible(self, *, damaged: bool = False) -> Iterator[LogModel]:
        """Every state that a crash may leave. `damaged`: the last commit may look torn."""
        state = (self.vouched if damaged else self.durable).copy()
        yield state
        if damaged:
            for _, step in self._unvouched:
                state.take(step)
                yield state
        for _, step in self._pending:
            state.take(step)
            yield state

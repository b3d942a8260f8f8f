"""One log of all copies of a replicated log, entry by entry and without gaps, for the fold of its kind of queue.

It begins at the first entry, or at the first snapshot that was read. Behind a gap it goes on with the next snapshot, for no
machine can go on over a missing entry. Which of several entries of one index counts: log_chains.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import error as struct_error
from typing import Protocol

from analytics.fold.entry_batch import EntryBatch
from analytics.fold.group_copies import GroupCopies, Removal
from analytics.fold.log_chains import LogChains
from analytics.queue_events import STANDING_KINDS, QueueEvent
from raft.core.byte_reader import ByteReader
from raft.core.codec import read_meta
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from storage.record import Kind

FIRST_INDEX = 1
# From one entry of a batch on, up to another: which one comes next, and why the fold cannot go on behind the one before.
ApplyBatch = Callable[[EntryBatch, int, int], tuple[int, str | None]]
# As globals: a member of an enumeration is looked up at the price of a call, and this is done for each entry.
_ENTRIES, _STATE, _COMMAND = Kind.RAFT_ENTRIES, Kind.RAFT_STATE, EntryKind.COMMAND


class EntriesFold(Protocol):
    """What the log is given to."""

    def apply(self, event: QueueEvent) -> None:
        """The next command. Raises ValueError when the fold cannot go on: the log is of a newer version."""

    def resume(self, place: int, state: bytes, version: int) -> Callable[[], None]:
        """What has the fold go on from this snapshot. Raises ValueError, BadBytes and struct.error for what is none."""

    def check(self, place: int, state: bytes) -> None:
        """A snapshot of the place where the fold is."""

    def lose(self, why: str) -> None:
        """What comes next is missing."""

    def pass_over(self, event: QueueEvent) -> None:
        """An entry behind a gap: nothing says whether it counts."""

    def remove(self, at: int | None) -> None:
        """The queue is deleted; ms."""


class MergedLog:
    """See the module. `take` what nodes say of themselves first, then entries and snapshots by place, of one place those of the
    highest term first. A record of a classic queue that has the number of a group says nothing of it."""

    def __init__(self, fold: EntriesFold) -> None:
        self.copies = GroupCopies()
        self.chains = LogChains(self._take_copies)
        self._fold = fold
        self._next = FIRST_INDEX
        self._term = 0
        self._is_lost = False  # entries are missing: there is nothing that the next one applies to
        self._removed_at: int | None = None  # ms

    def take(self, event: QueueEvent) -> None:
        if event.kind == _ENTRIES:
            self.chains.take(event)
        elif event.kind in STANDING_KINDS:
            self.copies.take(event)
            if event.kind == Kind.RAFT_GROUP_REMOVED and event.at is not None:
                self._removed_at = max(self._removed_at or 0, event.at // 1000)
        elif event.kind == _STATE:
            self._take_snapshot(event)

    def take_batch(self, batch: EntryBatch, apply: ApplyBatch) -> None:
        """The same for each of its entries. `apply` is what gives them to the fold."""
        if not self.chains.take_batch(batch):
            return
        at, end = 0, len(batch.data) - 1
        while at < end:
            if batch.place + at == self._next and batch.term >= self._term and not self._is_lost:
                at = self._apply_batch(batch, at, end, apply)
            else:
                self._take_copies((batch.event(at),))
                at += 1

    def _apply_batch(self, batch: EntryBatch, start: int, end: int, apply: ApplyBatch) -> int:
        """Up to which. Of all that a single node has, the last one says how far it is committed."""
        at, why = apply(batch, start, end)
        self._next, self._term = batch.place + at, batch.term
        if why is not None:
            self._lose(why)
        last = batch.event(at - 1)
        if last.durable and last.place > self.copies.committed:
            self.copies.copied(last)
        return at

    def end(self, *, is_whole: bool = False) -> None:
        """Removing a member is no command of the log, so no entry says when the queue went. `is_whole`: all that nodes have was
        taken, so an entry that one says was committed is missing, though nothing comes behind it."""
        self.chains.end()
        if is_whole and not self._is_lost and self.copies.committed >= self._next:
            self._miss(self.copies.committed + 1)
        removal = self.copies.removal()
        if removal is Removal.OF_ALL:
            self._fold.remove(self._removed_at)
        elif removal is Removal.UNCLEAR:
            nodes = ", ".join(self.copies.removed_nodes())
            self._lose(
                f"the member on {nodes} was removed, and no log that was read says whether the queue was deleted"
            )

    def _take_snapshot(self, event: QueueEvent) -> None:
        """Of use where entries are missing; where none are, it has to say the same."""
        self.chains.decide(event.place, _term_of(event))
        if not self._is_lost and event.place == self._next - 1:
            self._fold.check(event.place, event.data[event.first :])
        elif event.place >= (self._next - 1 if self._is_lost else self._next):
            self._begin_at(event)

    def _begin_at(self, event: QueueEvent) -> None:
        try:
            meta = read_meta(ByteReader(event.data[: event.first]))
            resume = self._fold.resume(event.place, event.data[event.first :], meta.machine_version)
        except (ValueError, BadBytes, struct_error):
            return
        if self._next > FIRST_INDEX and not self._is_lost:
            self._miss(event.place + 1)
        resume()
        self._is_lost = False
        self._next, self._term = event.place + 1, meta.term
        self.copies.stand(event.place, meta.membership)

    def _take_copies(self, copies: Sequence[QueueEvent]) -> None:
        """All that nodes have of one entry."""
        event = copies[0]
        place, term = event.place, event.term
        if place == self._next and term >= self._term and not self._is_lost:  # what most are
            self._apply(event, place, term)
        else:
            self._out_of_turn(event, place, term)
        if place > self.copies.committed and place == self._next - 1 and term == self._term:
            for copy in copies:
                if copy.durable:
                    self.copies.copied(copy)

    def _out_of_turn(self, event: QueueEvent, place: int, term: int) -> None:
        """Unless it is known, it lies behind a gap."""
        if not self._is_lost and place > self._next and term >= self._term:
            self._miss(place)
        if self._is_lost:
            self._fold.pass_over(event)

    def _apply(self, event: QueueEvent, place: int, term: int) -> None:
        self._next, self._term = place + 1, term
        if event.first != _COMMAND:
            self.copies.changed(event)
            return
        try:
            self._fold.apply(event)
        except ValueError as error:
            self._lose(str(error))

    def _miss(self, end: int) -> None:
        self._lose(f"entries {self._next} to {end - 1} are missing")

    def _lose(self, why: str) -> None:
        self._fold.lose(why)
        self._is_lost = True


def _term_of(snapshot: QueueEvent) -> int:
    """Of the entry that it stands for; 0: what it says cannot be read."""
    try:
        return read_meta(ByteReader(snapshot.data[: snapshot.first])).term
    except (ValueError, BadBytes, struct_error):
        return 0

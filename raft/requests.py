"""Who asked a group for something on this node, and when each is answered: proposers and readers.

A proposer is answered exactly once: the results; NotLeader or Busy when nothing was taken; Unknown when this member lost its
leadership before it had applied everything. There is no answer "not committed": another leader's entry may have replaced only
the last of several commands, and a retry would apply the first ones twice.

A reader is answered when the machine has applied everything that was committed before it asked, or with NotLeader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from raft.core.core import Core
from raft.core.errors import NotLeader, RaftError, Unknown
from raft.core.messages import Entry, EntryKind, MemberId
from raft.core.ready import ReadPoint

OnResults = Callable[[Sequence[Any] | None, RaftError | None], None]
"""Called with the results of the commands, in their order, or with None and why there are none."""
OnRead = Callable[[RaftError | None], None]
"""Called with None as soon as the machine may be asked: it has applied everything committed before the read began."""


_COMMAND = int(EntryKind.COMMAND)


class AwaitedEntries:
    """Entries that somebody on this node waits for."""

    __slots__ = ("first", "last", "on_results", "results", "term")

    def __init__(self, first: int, last: int, on_results: OnResults) -> None:
        self.first = first
        self.last = last
        self.term = 0  # known as soon as the Ready with these entries is taken
        self.results: list[Any] = []
        self.on_results = on_results


class Proposers(deque[AwaitedEntries]):
    """Those whose entries were appended, by index."""

    __slots__ = ()

    def tell(self, entries: Sequence[Entry], results: Sequence[Any]) -> None:
        """These are applied. An entry of another term is another leader's: this leadership is over, and `lose` answers
        everybody from there on, later in the same turn."""
        asked = self[0]
        if (
            asked.first == asked.last == entries[-1].index and asked.term == entries[-1].term
        ):  # as where one waits alone
            self.popleft().on_results([results[-1] if entries[-1].kind == _COMMAND else None], None)
            return
        answers = iter(results)
        told: list[AwaitedEntries] = []
        for entry in entries:
            result = next(answers) if entry.kind == _COMMAND else None
            asked = self[0]
            if entry.index < asked.first:
                continue
            if entry.term != asked.term:
                break
            asked.results.append(result)
            if entry.index == asked.last:
                told.append(self.popleft())
                if not self:
                    break
        for asked in told:
            asked.on_results(asked.results, None)

    def lose(self, term_kept: int | None) -> None:
        """Those of other leaderships than that of this term, if it goes on: their entries may still be committed, but who
        waits should ask the new leader."""
        lost = [asked for asked in self if asked.term != term_kept]
        if lost:
            kept = [asked for asked in self if asked.term == term_kept]
            self.clear()
            self.extend(kept)
        for asked in lost:
            asked.on_results(None, Unknown("the leadership changed before this was known to be committed"))

    def give_up(self, why: str) -> None:
        """Nothing is applied here any more."""
        asked = list(self)
        self.clear()
        for one in asked:
            one.on_results(None, Unknown(why))


class Readers:
    """Linearizable reads. All those of one round of the loop share a question to the others."""

    __slots__ = ("_asked", "_next_token", "confirmed", "gathered")

    def __init__(self) -> None:
        self.gathered: list[OnRead] = []  # for the next turn
        self._asked: dict[int, list[OnRead]] = {}  # token -> who waits for the core's answer
        self.confirmed: list[tuple[int, list[OnRead]]] = []  # (index, who waits until it is applied)
        self._next_token = 1

    def __bool__(self) -> bool:
        return bool(self.gathered or self._asked or self.confirmed)

    def ask(self, core: Core, now: float) -> None:
        readers, self.gathered = self.gathered, []
        token = self._next_token
        self._next_token += 1
        try:
            self._asked[token] = readers
            core.read(token, now)
        except RaftError as error:
            del self._asked[token]
            for on_read in readers:
                on_read(error)

    def confirm(self, points: Sequence[ReadPoint], applied: int) -> None:
        for point in points:
            self.confirmed.append((point.index, self._asked.pop(point.token, [])))
        self.answer(applied)

    def answer(self, applied: int) -> None:
        """Those whose index is applied."""
        due = [readers for index, readers in self.confirmed if index <= applied]
        self.confirmed = [(index, readers) for index, readers in self.confirmed if index > applied]
        for readers in due:
            for on_read in readers:
                on_read(None)

    def lose(self, tokens: Sequence[int], leader: MemberId) -> None:
        for token in tokens:
            for on_read in self._asked.pop(token, ()):
                on_read(NotLeader(leader))

    def take_all(self) -> list[OnRead]:
        """At whatever stage. The core may still answer those that it was asked."""
        readers = [reader for readers in self._asked.values() for reader in readers] + self.gathered
        readers += [reader for _, readers in self.confirmed for reader in readers]
        self._asked, self.gathered, self.confirmed = {}, [], []
        return readers

"""Which copies of a replicated log's entries count, where nodes have different ones.

On one node an entry replaces what was at its index before, and everything behind it (raft/store/group_records.py). So of the
copies of one index the one written last counts there, unless a lower index was written after it. What is left of a node is a
log as Raft has it, and two of these that have one term at one index are the same up to there: one chain.

Which of two chains counts their terms do not say where they part. A leader of term 8 that had an entry of term 6 replaces
with it one of term 7, which a leader without followers wrote (Raft, figure 8):

    index        716  717  718
    n1, n3         6    6    8   counts, for its last term is the highest
    n2             6    7    7

So chains are kept side by side until one has gone on to a higher term than the others have ended with. That is as many entries
as a leader appends without followers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from analytics.fold.entry_batch import EntryBatch, Source
from analytics.queue_events import QueueEvent


@dataclass(slots=True, eq=False)
class _Chain:
    """Copies that lead on from one another, from where it is not the only one."""

    sources: set[Source] = field(default_factory=set)
    entries: list[list[QueueEvent]] = field(default_factory=list)  # the copies of each index
    has_ended: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        """Among complete logs the one that can win any election has the highest."""
        last = self.entries[-1][0]
        return last.term, last.place

    def goes_on(self, copies: list[QueueEvent]) -> None:
        self.sources.update(map(_source_of, copies))
        self.entries.append(copies)

    def branch(self) -> _Chain:
        """Another one that has been the same so far."""
        return _Chain(set(self.sources), list(self.entries))


class LogChains:
    """Takes copies in the order of their indexes, and gives those of one entry after the other. See the module."""

    overruled: dict[int, int]  # by index, the term that counts where some node has, or had, a higher one

    def __init__(self, give: Callable[[Sequence[QueueEvent]], None]) -> None:
        self.overruled = {}
        self._give = give
        self._here: list[QueueEvent] = []  # copies of one index
        self._written: dict[Source, int] = {}  # where the last one that counts lies
        self._chains: list[_Chain] = []  # two or more, or none
        self._highest: dict[int, int] = {}  # the terms of what is in chains

    def take(self, copy: QueueEvent) -> None:
        here = self._here
        if here and copy.place != (before := here[0]).place:
            if len(here) == 1 and not self._chains:  # what most are: of one node, and nothing is open
                self._here = [copy]
                written = before.written
                source = before.node, written < 0  # _source_of, without the call
                if written >= self._written.get(source, written):
                    self._written[source] = written
                    self._give(here)
                return
            self._close_index(next_one=copy.place)
        self._here.append(copy)

    def take_batch(self, batch: EntryBatch) -> bool:
        """The same for each of its entries. True: all but the last of them count, and were not given: who asks does it."""
        self.take(batch.event(0))
        source, last, written = batch.source, len(batch.data) - 1, batch.written
        is_alone = len(self._here) == 1 and not self._chains
        if not last or not is_alone or written[0] < self._written.get(source, written[0]):
            for event in batch.events(1):
                self.take(event)
            return False
        self._written[source] = written[last - 1]
        self._here = [batch.event(last)]
        return True

    def decide(self, place: int, term: int) -> None:
        """All copies up to this index were taken; the entry that counts there has this term."""
        self._close_index(place + 1)
        for chain in self._chains:
            if chain.rank == (term, place):
                self._choose(chain)
                return
        self.end()

    def end(self) -> None:
        """All copies were taken, or what comes next does not lead on from these."""
        self._close_index(None)
        if self._chains:
            self._choose(max(self._chains, key=lambda chain: chain.rank))

    def _close_index(self, next_one: int | None) -> None:
        here, self._here = self._here, []
        if not here:
            return
        copies = self._that_count(here)
        if not copies:
            return
        place, term = copies[0].place, copies[0].term
        highest = max(copy.term for copy in here)
        if self._chains or any(copy.term != term for copy in copies):
            self._highest[place] = highest
            self._lead_on(copies)
        else:
            self._pass_on(copies, highest)
        if self._chains and next_one is not None and next_one > place + 1:
            self.end()

    def _that_count(self, here: Sequence[QueueEvent]) -> list[QueueEvent]:
        """Of each source the last that was written, if it is still there."""
        last: dict[Source, QueueEvent] = {}
        for copy in sorted(here, key=attrgetter("written", "term")):
            last[_source_of(copy)] = copy
        kept = {
            source: copy for source, copy in last.items() if copy.written >= self._written.get(source, copy.written)
        }
        self._written |= {source: copy.written for source, copy in kept.items()}
        return list(kept.values())

    def _lead_on(self, copies: Sequence[QueueEvent]) -> None:
        by_term: dict[int, list[QueueEvent]] = {}
        for copy in copies:
            by_term.setdefault(copy.term, []).append(copy)
        going_on = self._chains_of(list(by_term.values()))
        here = set(map(_source_of, copies))
        for chain in self._chains:
            chain.sources -= here  # of which each has its copy in one of these chains, and in no other
            chain.has_ended = chain not in going_on
        for chain, those in zip(going_on, by_term.values(), strict=True):
            chain.goes_on(those)
        self._choose_if_clear()

    def _chains_of(self, groups: Sequence[list[QueueEvent]]) -> list[_Chain]:
        """Which chain each of them leads on. One may part here, while another one is open that had parted from it before."""
        found: list[_Chain] = []
        for copies in groups:
            chain = self._chain_of(copies)
            if chain is None or chain in found:
                chain = _Chain() if chain is None else chain.branch()
                self._chains.append(chain)
            found.append(chain)
        return found

    def _chain_of(self, copies: Sequence[QueueEvent]) -> _Chain | None:
        sources = set(map(_source_of, copies))
        open_ones = (chain for chain in self._chains if not chain.has_ended and chain.sources & sources)
        return max(open_ones, key=lambda chain: len(chain.sources & sources), default=None)

    def _choose_if_clear(self) -> None:
        best = max(self._chains, key=lambda chain: chain.rank)
        if all(chain.has_ended for chain in self._chains if chain is not best):
            self._choose(best)

    def _choose(self, chain: _Chain) -> None:
        self._chains, highest = [], self._highest
        self._highest = {}
        for copies in chain.entries:
            self._pass_on(copies, highest[copies[0].place])

    def _pass_on(self, copies: Sequence[QueueEvent], highest: int) -> None:
        if copies[0].term < highest:
            self.overruled[copies[0].place] = copies[0].term
        self._give(copies)


def _source_of(copy: QueueEvent) -> Source:
    return copy.node, copy.written < 0

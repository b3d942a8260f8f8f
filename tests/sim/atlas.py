"""Which loss a cluster must survive: the fault atlas.

Raft cannot keep what a majority has lost, nor can a member keep a promise that its disk forgot without a word. So only *frail*
nodes, a minority, ever lose what they had fsynced. A member that notices its loss comes back as another one, and is bound by
nothing: that may happen at any time. A loss that it may not notice (an old disk, an fsync that lied, the end of the log gone)
may happen only when it costs nothing that counts:

- every entry that the member may have acknowledged is fsynced on voters that are not frail, enough for a majority, or lies in
  no other log at all, so that nobody can have counted it;
- as many voters that are not frail have gone on to a later term, or voted for the same other candidate, so that no vote that it
  gives again can elect anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.core.majority import majority_of
from raft.core.messages import MemberId, node_of
from tests.sim.invariants import Book
from tests.sim.twin import Twin

if TYPE_CHECKING:
    from tests.sim.process import Site
    from tests.sim.world import World


def may_lose(world: World, site: Site) -> bool:
    """Whether this node's disk may lose anything now without a word. It is down."""
    assert site.process is None, f"node {site.number} runs"
    if not world.is_frail(site.number):
        return False
    for book in map(world.watch.book, world.living()):
        twin = world.watch.twin(site.number, book.group)
        if twin is None:
            continue
        for membership in world.memberships(book.group):
            voters = [one for one in membership.voters if not world.is_frail(node_of(one))]
            needed = majority_of(len(membership.voters))
            if not _entries_are_safe(world, book, twin, voters, needed):
                return False
            if not _votes_are_past(book, twin, voters, needed):
                return False
    return True


def _entries_are_safe(world: World, book: Book, twin: Twin, voters: list[MemberId], needed: int) -> bool:
    log = twin.durable
    index = log.last
    while index > log.snapshot:
        term = log.term(index)
        if term is None or _is_elsewhere(world, book, twin, index, term):
            break
        index -= 1
    term = log.term(index)
    if index == 0 or term is None:
        return index == 0
    have = [one for one in voters if one in book.twins and book.twins[one].durable.has(index, term)]
    return len(have) >= needed


def _is_elsewhere(world: World, book: Book, twin: Twin, index: int, term: int) -> bool:
    for site in world.sites.values():
        other = world.watch.twin(site.number, book.group)
        if other is not None and other is not twin and (other.now.has(index, term) or other.durable.has(index, term)):
            return True
    return index <= len(book.committed)


def _votes_are_past(book: Book, twin: Twin, voters: list[MemberId], needed: int) -> bool:
    term, _ = twin.durable.facts
    later = 0
    same: dict[MemberId, int] = {}
    for one in voters:
        other = book.twins.get(one)
        if other is None:
            continue
        facts = other.durable.facts
        if facts.term > term:
            later += 1
        elif facts.term == term and facts.vote not in (0, twin.durable.member):
            same[facts.vote] = same.get(facts.vote, 0) + 1
    return later + max(same.values(), default=0) >= needed

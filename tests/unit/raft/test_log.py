"""The log beside a plain list: whatever is appended, truncated and fsynced in whatever order, durable never covers another
entry than the one that was fsynced."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from raft.core.log import ENTRY_OVERHEAD_BYTES, Log
from raft.core.messages import Entry, EntryKind, EntryRun, Membership, SnapshotMeta, member_id
from tests.unit.raft.memory_store import MemoryStore

ALONE = Membership((member_id(1, 1),))


def entries(first: int, terms: Sequence[int], data: bytes = b"") -> list[Entry]:
    return [Entry(first + offset, term, EntryKind.COMMAND, data) for offset, term in enumerate(terms)]


def stored(terms: Sequence[int]) -> tuple[MemoryStore, Log]:
    store = MemoryStore(ALONE)
    store.write(None, entries(1, terms))
    return store, Log(store)


class LogBesideAList(RuleBasedStateMachine):
    """`model` is the log as it should read; `disk` what is on its way to be fsynced, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore(ALONE)
        self.log = Log(self.store)
        self.model: list[Entry] = []
        self.disk: deque[tuple[int, list[Entry]]] = deque()
        self.term = 1
        self.number = 0
        self.made = 0

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.made += 1
        new = entries(len(self.model) + 1, [self.term] * count, b"%d" % self.made)
        self.model += new
        self.log.append(new)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        last = data.draw(st.integers(0, len(self.model) - 1))
        self.term += 1
        del self.model[last:]
        self.log.truncate(last)

    @rule()
    def hand_out(self) -> None:
        self.number += 1
        self.disk.append((self.number, list(self.log.hand_out(self.number))))

    @precondition(lambda self: self.disk)
    @rule(count=st.integers(1, 3))
    def fsync(self, count: int) -> None:
        """Several writes may be told of at once, by the last one's number."""
        for _ in range(min(count, len(self.disk))):
            number, written = self.disk.popleft()
            self.store.write(None, written)
        self.log.persisted(number)

    @invariant()
    def what_is_durable_is_what_the_store_has(self) -> None:
        on_disk = list(self.store.all_entries())
        assert on_disk[: self.log.durable] == self.model[: self.log.durable]

    @invariant()
    def it_reads_as_the_list(self) -> None:
        assert self.log.durable <= self.log.handed <= self.log.last == len(self.model)
        assert [self.log.term(one.index) for one in self.model] == [one.term for one in self.model]
        read: list[Entry] = []
        while len(read) < self.log.last:
            found, size = self.log.entries(len(read) + 1, 60)
            assert size == sum(len(one.data) + ENTRY_OVERHEAD_BYTES for one in found)
            assert size <= 60 or len(found) == 1 or found[-1].index <= self.log.durable
            read += found
        assert read == self.model


rising = st.lists(st.integers(1, 5), max_size=12).map(sorted)


@given(rising, rising, st.integers(0, 12))
def test_the_first_conflict_is_where_a_plain_search_finds_it(mine: list[int], theirs: list[int], agreed: int) -> None:
    """Two logs of the same leaders: they agree up to some place, and from their first difference on."""
    agreed = min(agreed, len(mine))
    other = mine[:agreed] + [max(6, *mine, term) for term in theirs]
    _, log = stored(mine)
    sent = entries(1, other)
    plain = [one.index for one, term in zip(sent, mine, strict=False) if one.term != term]
    if sent:
        assert log.first_conflict(sent) == (plain[0] if plain else None)


@given(rising, st.integers(0, 6), st.integers(0, 12))
def test_the_last_entry_of_no_later_term_is_found_by_halving(terms: list[int], term: int, high: int) -> None:
    _, log = stored(terms)
    high = min(high, len(terms))
    plain = [index for index in range(1, high + 1) if terms[index - 1] <= term]
    assert log.last_not_above(term, 0, high) == (plain[-1] if plain else 0)


def test_a_late_write_does_not_vouch_for_what_took_the_place_of_its_entries() -> None:
    """B2 and B3 of the history of lost messages."""
    store, log = stored([1])
    log.append(entries(2, [1, 1, 1]))
    log.hand_out(1)
    log.truncate(2)
    log.append(entries(3, [2, 2]))
    log.hand_out(2)
    log.persisted(1)
    assert (log.durable, log.last) == (2, 4)
    store.write(None, entries(2, [1, 2, 2]))
    log.persisted(2)
    assert log.durable == 4


def test_truncation_lowers_what_is_durable_at_once() -> None:
    _, log = stored([1, 1, 1])
    log.truncate(1)
    assert (log.durable, log.handed, log.last, log.last_term) == (1, 1, 1, 1)


def test_writes_on_their_way_say_nothing_about_a_log_behind_a_snapshot() -> None:
    store, log = stored([1, 1])
    log.append(entries(3, [1, 1]))
    log.hand_out(1)
    store.install(SnapshotMeta(9, 2, ALONE, 1), b"state")
    log.reset(9)
    log.persisted(1)
    assert (log.durable, log.last, log.last_term, log.first_index()) == (9, 9, 2, 10)
    assert log.matches(9, 2)
    assert not log.matches(8, 2)


def test_a_write_that_went_beyond_the_snapshot_says_nothing_about_the_log_behind_it() -> None:
    """B4: what was on its way when the log was reset is about entries that were discarded."""
    store, log = stored([1, 1])
    log.append(entries(3, [1, 1, 1]))
    log.hand_out(1)
    store.install(SnapshotMeta(3, 2, ALONE, 1), b"state")
    log.reset(3)
    log.append(entries(4, [2, 2]))
    log.hand_out(2)
    log.persisted(1)
    assert (log.durable, log.last) == (3, 5), "of the entries behind the snapshot none is fsynced"
    store.write(None, entries(4, [2, 2]))
    log.persisted(2)
    assert log.durable == 5


def test_all_who_want_what_is_new_are_given_one_run() -> None:
    """So it is packed once: for two followers, and for the log here."""
    _, log = stored([1])
    log.append(entries(2, [1, 1]))
    first, _ = log.entries(2, 1_000)
    second, _ = log.entries(2, 1_000)
    assert first is second is log.hand_out(1)
    assert [entry.index for entry in first] == [2, 3]


def test_a_run_goes_from_the_letter_to_the_log_as_it_came() -> None:
    _, log = stored([1])
    came = EntryRun(entries(2, [1, 1]))
    log.append(came)
    assert log.hand_out(1) is came


def test_a_run_that_was_cut_short_is_given_to_nobody() -> None:
    _, log = stored([1])
    came = EntryRun(entries(2, [1, 1]))
    log.append(came)
    log.truncate(2)
    assert [entry.index for entry in log.hand_out(1)] == [2]
    log.append(entries(3, [2]))
    assert [(entry.index, entry.term) for entry in log.entries(2, 1_000)[0]] == [(2, 1), (3, 2)]


def test_entries_follow_each_other() -> None:
    _, log = stored([1, 2])
    with pytest.raises(AssertionError, match="entry 4 cannot follow 2"):
        log.append(entries(4, [2]))
    with pytest.raises(AssertionError, match="term 1 cannot follow 2"):
        log.append(entries(3, [1]))


TestLogBesideAList = LogBesideAList.TestCase

"""Who led a quorum queue when."""

from __future__ import annotations

from analytics.jobs.raft_terms import TermEntries, TermRow, term_rows
from raft.core.leadership import TermBegun

QUEUE = 5
AT = 1_772_337_600_000


def entries(term: int, first: int, last: int, leader: int | None = None) -> TermEntries:
    return TermEntries(QUEUE, term, first, last, None if leader is None else TermBegun(leader, AT).encode())


def told(*found: TermEntries) -> list[TermRow]:
    return term_rows(found, {QUEUE: "//q"}, {(QUEUE, 1): "n1"})


def test_a_leader_is_the_node_whose_member_it_is_or_a_number() -> None:
    first, second, third = told(entries(1, 1, 4, leader=1), entries(2, 5, 6, leader=9), entries(3, 7, 7))
    assert (first.name, first.leader, first.began_at) == ("//q", "n1", "2026-03-01T04:00:00.000+00:00")
    assert (second.leader, third.leader, third.began_at) == ("member 9", None, None)


def test_what_a_later_term_begins_before_is_replaced() -> None:
    rows = told(entries(3, 8, 9), entries(1, 1, 10), entries(2, 9, 12))
    assert [(row.term, row.replaced) for row in rows] == [(1, 3), (2, 4), (3, 0)]


def test_terms_that_wrote_nothing_are_counted() -> None:
    assert [row.terms_without for row in told(entries(2, 1, 1), entries(3, 2, 2), entries(7, 3, 3))] == [0, 0, 3]


def test_first_entries_that_say_nothing_are_no_error() -> None:
    (row,) = told(TermEntries(8, 1, 1, 1, b"old"))
    assert (row.name, row.leader) == ("8", None)


def test_a_row_says_what_its_term_wrote() -> None:
    (row,) = told(entries(4, 7, 9))
    assert row == TermRow("//q", 4, None, None, 7, 9, 0, 0)


def test_queues_are_told_by_name_and_those_without_one_by_number() -> None:
    found = [TermEntries(queue, 1, 1, 1, None) for queue in (5, 9, 8, 6)]
    assert [row.name for row in term_rows(found, {5: "//b", 6: "//a"}, {})] == ["8", "9", "//a", "//b"]

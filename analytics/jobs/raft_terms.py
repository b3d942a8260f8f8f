"""Who led a quorum queue or stream when: the terms of its log, and what each of them wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from raft.core.leadership import TermBegun


class TermEntries(NamedTuple):
    """What all copies of a log have of one term."""

    queue: int
    term: int
    first_index: int
    last_index: int
    begin: bytes | None  # the data of its first entry, which says who leads; None: that entry was not read


class TermRow(NamedTuple):
    """One term that wrote something."""

    name: str
    term: int
    leader: str | None  # the node whose log was read, else the number of the member
    began_at: str | None  # ISO, UTC, by the leader's clock
    first_index: int
    last_index: int
    replaced: int  # entries at its end that a later term has written over
    terms_without: int  # between the term before and this one: elections that nobody won, or that wrote nothing


TERM_COLUMNS = [
    ("name", "string"), ("term", "bigint"), ("leader", "string"), ("began_at", "string"), ("first_index", "bigint"),
    ("last_index", "bigint"), ("replaced", "bigint"), ("terms_without", "bigint"),
]  # fmt: skip


def term_rows(
    found: Iterable[TermEntries], names: Mapping[int, str], members: Mapping[tuple[int, int], str]
) -> list[TermRow]:
    """By queue, in the order of terms. `names` of queues; `members` says which node a queue's member is on."""
    by_queue: dict[int, list[TermEntries]] = {}
    for one in found:
        by_queue.setdefault(one.queue, []).append(one)
    rows: list[TermRow] = []
    for queue in sorted(by_queue, key=lambda queue: (names.get(queue, ""), queue)):
        terms = sorted(by_queue[queue], key=lambda one: one.term)
        for at, one in enumerate(terms):
            later = min((other.first_index for other in terms[at + 1 :]), default=one.last_index + 1)
            before = terms[at - 1].term if at else one.term - 1
            rows.append(_row(one, names.get(queue) or str(queue), members, later, one.term - before - 1))
    return rows


def _row(one: TermEntries, name: str, members: Mapping[tuple[int, int], str], later: int, without: int) -> TermRow:
    begun = None if one.begin is None else TermBegun.decode(one.begin)
    leader = began_at = None
    if begun is not None:
        leader = members.get((one.queue, begun.leader), f"member {begun.leader}")
        began_at = datetime.fromtimestamp(begun.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    replaced = max(0, one.last_index + 1 - max(later, one.first_index))
    return TermRow(name, one.term, leader, began_at, one.first_index, one.last_index, replaced, without)

"""What proofs look at of the lives of queues, as Spark gathers it: tests/ledger gathers the same in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analytics.fold.lives import LifeState
from analytics.jobs.proof import UNCOMMITTED, QueueLives
from analytics.queue_events import CLASSIC, QUORUM
from classic.stored_run import LEVEL_SHIFT
from raft.core.leadership import TermBegun
from raft.core.messages import EntryKind
from storage.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUEUE, OTHER, FULL, GROUP = 7, 8, 10, 1 << 32 | 9
LEVEL = 2 << LEVEL_SHIFT
COLUMNS = (
    "queue long, name string, kind string, pos long, nth long, count long, state string, committed boolean,"
    " unknown string, of_term long"
)
CLASSIC_LIVES = [
    (3, 1, 2, "acked", True),
    (9, 0, 4, "ready", True),
    (3, 3, 1, "out", True),
    (15, 0, 1, "acked", True),
    (20, 0, 1, "ready", True),
    (LEVEL + 5, 0, 2, "ready", True),
    (LEVEL + 1, 0, 3, "expired", True),
]
PRIORITIES = range(3, 9)  # of which one state or another has the first message
QUORUM_LIVES = [
    (5, 0, 2, "ready", True, None),
    (5, 2, 1, "out", True, None),
    (5, 3, 1, "acked", True, None),
    (6, 0, 2, "ready", True, 3),
    (7, 0, 8, "ready", None, None),  # an entry that may be replaced
    (8, 0, 1, "unknown", True, None),
]


def gathered(spark: SparkSession, *, unknown: str | None = None) -> dict[int, QueueLives]:
    from analytics.spark.gather import queue_lives

    rows = [(QUEUE, "//c", CLASSIC, *one, None, None) for one in CLASSIC_LIVES]
    for state, why in (("acked", None), ("acked", unknown), ("acked", None), ("expired", None), ("purged", None)):
        rows += [(OTHER, "//o", CLASSIC, 0, 0, 1, state, True, why, None)]
    for level in PRIORITIES:
        states = ("acked", "expired")[:: 1 if level % 2 else -1]
        rows += [
            (FULL, "//f", CLASSIC, (level << LEVEL_SHIFT) + 9 * at, 0, 5, one, True, None, None)
            for at, one in enumerate(states)
        ]
    rows += [(GROUP, "//q", QUORUM, *one[:-1], None, one[-1]) for one in QUORUM_LIVES]
    return queue_lives(spark.createDataFrame(rows, COLUMNS))


def test_of_a_classic_queue_each_priority_has_its_sequences_and_what_goes_on_is_looked_for(spark: SparkSession) -> None:
    found = gathered(spark)
    one = found[QUEUE]
    assert (one.queue, one.name, one.kind, one.unknown) == (QUEUE, "//c", CLASSIC, None)
    assert one.messages == {LifeState.ACKED: 3, LifeState.READY: 7, LifeState.OUT: 1, LifeState.EXPIRED: 3}
    assert (one.begins, one.ends) == ({0: 4, LEVEL: LEVEL + 1}, {0: 21, LEVEL: LEVEL + 7})
    assert one.going_on.ranges() == [(6, 7), (9, 13), (20, 21), (LEVEL + 5, LEVEL + 7)]
    bases = [level << LEVEL_SHIFT for level in PRIORITIES]
    assert (found[FULL].begins, found[FULL].ends) == (
        {base: base for base in bases},
        {base: base + 14 for base in bases},
    )
    assert one.entries == {} and not found[OTHER].going_on


def test_of_a_quorum_queue_entries_are_looked_for_that_are_known_to_count(spark: SparkSession) -> None:
    one = gathered(spark)[GROUP]
    assert one.entries == {(5, None): 3, (6, 3): 2}
    assert one.messages == {LifeState.READY: 4, LifeState.OUT: 1, LifeState.ACKED: 1, LifeState.UNKNOWN: 9}
    assert (one.unknown, one.begins, one.ends, one.going_on.ranges()) == (UNCOMMITTED, {}, {}, [])


def test_why_a_queue_is_not_known_goes_before_that_it_may_be_uncommitted(spark: SparkSession) -> None:
    found = gathered(spark, unknown="entries 4 to 5 are missing")
    assert (found[OTHER].unknown, found[QUEUE].unknown) == ("entries 4 to 5 are missing", None)


ENTRY = (1 << 32 | 9, int(Kind.RAFT_ENTRIES), 5, 2, "n1", b"data", 10, int(EntryKind.COMMAND))
LED_AT_MS = 1_772_337_600_000


def copies(spark: SparkSession, *rows: tuple[object, ...]) -> DataFrame:
    columns = "queue long, kind int, place long, term long, node string, data binary, size long, first long"
    return spark.createDataFrame(list(rows), columns)


def changed(**what: object) -> tuple[object, ...]:
    """The same entry on another node, but for this."""
    names = ("queue", "kind", "place", "term", "node", "data", "size", "first")
    return tuple((dict(zip(names, ENTRY, strict=True)) | {"node": "n2"} | what).values())


@pytest.mark.parametrize("what", [{"data": b"date"}, {"size": 11}, {"first": int(EntryKind.NOOP)}])
def test_copies_of_an_entry_differ_where_their_heads_sizes_or_kinds_do(
    spark: SparkSession, what: dict[str, object]
) -> None:
    from analytics.spark.gather import differing

    names = spark.createDataFrame([(GROUP, "//q")], "queue long, name string")
    third = changed(place=6)
    (row,) = differing(copies(spark, ENTRY, changed(**what), third, third), names).collect()
    assert tuple(row) == ("//q", 5, 2, 2, ["n1", "n2"])


@pytest.mark.parametrize(
    "what", [{}, {"place": 6, "data": b"b"}, {"term": 3, "data": b"b"}, {"queue": GROUP + 1, "data": b"b"}]
)
def test_entries_of_other_places_terms_or_groups_are_no_copies(spark: SparkSession, what: dict[str, object]) -> None:
    from analytics.spark.gather import differing

    names = spark.createDataFrame([(GROUP, "//q"), (GROUP + 1, "//r")], "queue long, name string")
    assert differing(copies(spark, ENTRY, changed(**what)), names).isEmpty()


def test_a_term_is_told_by_the_first_of_its_entries_and_who_said_it(spark: SparkSession) -> None:
    from analytics.spark.gather import terms

    begun, command = TermBegun(4, LED_AT_MS).encode(), int(EntryKind.COMMAND)
    noop = int(EntryKind.NOOP)
    found = copies(
        spark,
        *(changed(place=place, node=node) for place in (8, 9, 10) for node in ("n1", "n2")),
        changed(place=7, data=begun, first=noop),
        changed(place=10, term=4, data=begun, first=command),
        changed(place=11, term=4, data=begun, first=noop),
        changed(place=3, term=1, queue=GROUP + 1),
        changed(place=1, term=1, kind=int(Kind.RAFT_COMMIT)),
    )
    lives = spark.createDataFrame([(GROUP, "//q")] * 2, "queue long, name string")
    told = [(row.name, row.term, row.leader, row.first_index, row.last_index, row.replaced, row.terms_without)
            for row in terms(found, lives)]  # fmt: skip
    assert told == [("//q", 2, "member 4", 7, 10, 1, 0), ("//q", 4, None, 10, 11, 0, 1)]

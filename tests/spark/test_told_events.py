"""Rows that Spark hands to a fold: as batches of entries they tell the same as one by one."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from analytics.fold.entry_batch import EntryBatch, events_of
from analytics.fold.queue_history import folded
from analytics.queue_events import CATALOG_GROUP, QUORUM, SEGMENTS_BELOW, QueueEvent
from broker.queues.queue_type import Outcome
from quorum.fifo.commands import Consume, ConsumerKey, SessionKey, Settle, encode, encode_enqueue, entry_head
from raft.core.messages import EntryKind
from storage.record import Kind

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.spark

QUEUE = 1 << 32
COLUMNS = (
    "pos",
    "off",
    "nth",
    "count",
    "state",
    "published_at",
    "times_out",
    "last_consumer",
    "ended_at",
    "unknown",
    "committed",
)


def rows_of(events: list[QueueEvent]) -> pa.RecordBatch:
    from analytics.spark.event_source import ARROW, arrow_batch

    return arrow_batch(ARROW, [(0, *event[:-1], event.node) for event in events])


def entries(start: int, end: int) -> list[QueueEvent]:
    return [
        QueueEvent(
            QUEUE, index, 3, Kind.RAFT_ENTRIES, 9, EntryKind.COMMAND, b"x" * (index % 7), index % 2, True, index, "n1"
        )
        for index in range(start, end)
    ]


def lengths_of(events: list[QueueEvent]) -> list[int]:
    """Of the batches that they are told in, if they are told as they are."""
    from analytics.spark.told_events import told_in

    told = list(told_in(iter([rows_of(events)])))
    assert list(events_of(told)) == events
    return [len(one.data) for one in told if isinstance(one, EntryBatch)]


CHANGES = {
    "queue": QUEUE + 1, "place": 900, "term": 4, "kind": Kind.RAFT_STATE, "first": EntryKind.NOOP, "durable": False,
    "written": 0, "node": "n2",
}  # fmt: skip


def test_entries_that_follow_on_one_another_are_one_batch() -> None:
    assert lengths_of(entries(1, 500)) == [499]
    assert lengths_of(entries(1, 200)) == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_one_entry_has_of_its_own_ends_a_batch(name: str) -> None:
    events = entries(1, 801)
    events[400] = events[400]._replace(**{name: CHANGES[name]})
    expected = [400, 400] if name == "written" else [400, 399]  # what is written behind it goes on with it
    assert lengths_of(events) == expected


def test_a_segment_of_the_node_is_no_part_of_its_log() -> None:
    segment = [one._replace(written=one.written - SEGMENTS_BELOW) for one in entries(1, 301)]
    assert lengths_of([*segment, *entries(301, 601)]) == [300, 300]


def test_copies_of_several_nodes_are_told_one_by_one() -> None:
    events = [one._replace(node=node) for one in entries(1, 400) for node in ("n1", "n2", "n3")]
    assert lengths_of(events) == []


def test_whatever_the_rows_are_they_are_told_in_order() -> None:
    random = Random(7)
    events = entries(1, 6_000)
    for _ in range(15):
        at, name = random.randrange(len(events)), random.choice(list(CHANGES))
        events[at] = events[at]._replace(**{name: CHANGES[name]})
    told = lengths_of(events)
    assert sum(told) > 3_000
    assert all(one >= 256 for one in told)


@pytest.mark.parametrize("name", [*CHANGES, None])
def test_lives_are_those_that_come_of_its_events_one_by_one(name: str | None) -> None:
    """Of a queue whose messages flow to a consumer, if all its entries are there."""
    from analytics.spark.life_columns import lives_batch
    from analytics.spark.lives_table import fold_queue

    events = [named(QUORUM), *flowing(800)]
    if name is not None:
        events[400] = events[400]._replace(**{name: CHANGES[name], "queue": QUEUE})
    found = [row for made in fold_queue(iter([rows_of(events)]), COLUMNS, None) for row in made.to_pylist()]
    history = folded(events[1:])
    assert found == lives_batch(QUEUE, history.lives, history, COLUMNS).to_pylist()
    assert len(found) > 190


def named(kind: str) -> QueueEvent:
    return QueueEvent(QUEUE, 0, 0, Kind.NAME, None, 0, f"{kind}\n//q".encode(), node="n1")


def flowing(count: int) -> list[QueueEvent]:
    session, consumer = SessionKey(1, 1), ConsumerKey(1, 1, 1)
    said = [encode(Consume(consumer, "tag", prefetch=5)) + b"".join(encode_enqueue(session, 1, 1, 10, "", "q", b""))]
    for number in range(2, count // 2):
        said.append(b"".join(encode_enqueue(session, number, 1, 10, "", "q", b"")))
        said.append(encode(Settle(consumer, Outcome.ACKNOWLEDGED, [(number - 1, 1)])))
    return [
        one._replace(data=entry_head(1_700_000_000_000 + 10 * one.place) + command, size=0)
        for one, command in zip(entries(1, len(said) + 1), said, strict=True)
    ]


def test_nulls_are_told_as_they_are() -> None:
    events = [one._replace(at=None) for one in entries(1, 400)]
    assert lengths_of(events) == [399]
    assert all(before.place < one.place for before, one in pairwise(events))


@pytest.mark.parametrize("text", [b"quorum\n//orders", b"stream\n//orders"])
def test_the_log_of_the_catalog_is_no_queue_whatever_name_an_earlier_build_gave_it(text: bytes) -> None:
    """A file that a restart had begun named it as the first queue. Its entries are not told, and none of them is missing."""
    from analytics.spark.lives_table import fold_queue

    name = entries(1, 2)[0]._replace(queue=CATALOG_GROUP, place=0, term=0, kind=int(Kind.NAME), data=text)
    events = [name, *(one._replace(queue=CATALOG_GROUP) for one in entries(5, 8))]
    assert list(fold_queue(iter([rows_of(events)]), COLUMNS, None)) == []

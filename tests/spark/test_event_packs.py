"""Events that the source packs are those that it gives one by one, and a fold has them in their order again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.inputs import LogFile, log_files
from analytics.queue_events import QueueEvent
from storage.record import Kind

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("events_min", [1, 3, 32])
def test_packs_have_the_events_of_each_queue_in_the_order_of_folds(
    logs: Path, monkeypatch: pytest.MonkeyPatch, events_min: int
) -> None:
    import pyarrow.compute as pc

    from analytics.spark import event_packs
    from analytics.spark.event_source import ARROW

    monkeypatch.setattr(event_packs, "EVENTS_MIN", events_min)
    plain, packed = (in_order_of_folds(sourced(logs, packed=packed)) for packed in (False, True))
    assert any(row["kind"] == event_packs.PACK for row in packed.to_pylist())
    for queue in set(plain.column("queue").to_pylist()):
        told = [row for row in plain.to_pylist() if row["queue"] == queue]
        batches = packed.filter(pc.equal(packed.column("queue"), queue)).to_batches(max_chunksize=7)
        found = [row for batch in event_packs.opened(batches, ARROW) for row in batch.to_pylist()]
        assert [order_of(row) for row in found] == [order_of(row) for row in told]
        assert Counter(map(repr, found)) == Counter(map(repr, told))


def test_packs_of_several_nodes_and_terms_and_a_damaged_log_are_merged() -> None:
    """Two nodes have the same entries in packs that begin and end elsewhere, one of them wrote some twice, and an index that is
    no index lies before the name."""
    from analytics.spark.event_packs import opened
    from analytics.spark.event_source import ARROW

    first = [*range(1, 90), *range(80, 140), -5]
    told = [event(place, 1 + (at > 88), "n1") for at, place in enumerate(first)]
    told += [event(place, 1, "n2") for place in range(30, 75)]
    few = [event(0, 0, "n1", kind=int(Kind.NAME)), event(40, 2, "n3"), event(139, 1, "n3"), event(200, 2, "n3")]
    rows = [*packed_rows(told[:60]), *packed_rows(told[60 : len(first)]), *packed_rows(told[len(first) :]), *few]
    batches = in_order_of_folds(arrow_rows(rows)).to_batches(max_chunksize=2)
    found = [row for batch in opened(batches, ARROW) for row in batch.to_pylist()]
    assert [order_of(row) for row in found] == sorted(map(order_of, map(as_row, [*told, *few])))
    assert Counter(map(repr, found)) == Counter(repr(as_row(one)) for one in [*told, *few])


def test_a_pack_has_the_times_between_which_its_events_are() -> None:
    packed = packed_rows([event(place, 1, "n1", at=at) for place, at in enumerate([None, 7, 9, 8] * 9)])
    assert [(row["at"], row["first"]) for row in packed] == [(7, 9)]


def event(
    place: int, term: int, node: str, *, kind: int = int(Kind.RAFT_ENTRIES), at: int | None = 5
) -> dict[str, Any]:
    said = QueueEvent(7, place, term, kind, at, 0, b"%d/%d" % (place, term), written=place, node=node)
    return {"file": 1, **said._asdict()}


def as_row(one: dict[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in QueueEvent._fields}


def order_of(row: dict[str, Any]) -> tuple[bool, int, int]:
    return row["kind"] != Kind.NAME, row["place"], -row["term"]


def arrow_rows(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    from analytics.spark.event_source import ARROW

    return pa.Table.from_pylist(rows, schema=ARROW)


def packed_rows(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from analytics.spark.event_source import packed_batches

    file = LogFile("n1", "", "log/00000000000000000001.log", 1, 0, is_last=False)
    return [
        row
        for batch in packed_batches(file, arrow_rows(told).combine_chunks().to_batches()[0])
        for row in batch.to_pylist()
    ]


def sourced(logs: Path, *, packed: bool) -> pa.Table:
    import pyarrow as pa

    from analytics.spark.event_source import batches_of

    return pa.Table.from_batches(
        [one for file in log_files([str(logs)]) for one in batches_of(file, tail=True, packed=packed)]
    )


def in_order_of_folds(rows: pa.Table) -> pa.Table:
    """As Spark gives them to a fold: queue by queue, names first."""
    import pyarrow.compute as pc

    named = rows.append_column("is_event", pc.not_equal(rows.column("kind"), int(Kind.NAME)))
    keys = [("queue", "ascending"), ("is_event", "ascending"), ("place", "ascending"), ("term", "descending")]
    return named.sort_by(keys).select(QueueEvent._fields)

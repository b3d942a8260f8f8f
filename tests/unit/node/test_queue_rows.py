"""Which rows of a dump are about one queue: node/exporting/queue_rows.py."""

from __future__ import annotations

from typing import Any

import pytest

from node.exporting.queue_rows import QueueRows


def row(kind: str, index: int = 1, writer: int = 0, **says: Any) -> dict[str, Any]:
    return {"kind": kind, "index": index, "writer": writer, "says": says}


NAMED = [
    row("NAME", 7, vhost="/", name="orders"),
    row("NAME", 8, vhost="v", name="orders"),
    row("NAME", 9, vhost="/", name="o"),
]
GROUP = row("RAFT_GROUP", 0, 70, name="//orders")
ABOUT = [
    row("CLASSIC_PUBLISH", queues=[(3, 1), (7, 0)]), row("CLASSIC_DONE", queue=7), row("RAFT_ENTRIES", 5, 70),
]  # fmt: skip
OTHERS = [
    row("CLASSIC_PUBLISH", queues=[(9, 1)]), row("CLASSIC_DONE", queue=9), row("RAFT_ENTRIES", 7, 71),
    row("ACTOR", 5, queue="orders"), row("CLASSIC_SETTLE", 7),
]  # fmt: skip


@pytest.mark.parametrize("queue", ["//orders", "orders"])
def test_rows_that_name_a_queue_by_a_number_are_about_it_once_the_number_has_its_name(queue: str) -> None:
    rows = QueueRows(queue)
    assert not any(rows.has(one) for one in (*ABOUT, *OTHERS))
    assert [rows.has(one) for one in NAMED] == [True, queue == "orders", False]
    assert rows.has(GROUP)
    assert all(rows.has(one) for one in ABOUT) and not any(rows.has(one) for one in OTHERS)


def test_what_could_not_be_read_may_be_about_any_queue() -> None:
    assert QueueRows("orders").has({"finding": "damaged"})
    assert not QueueRows("orders").has({"kind": "MARK", "index": 0, "writer": 0})

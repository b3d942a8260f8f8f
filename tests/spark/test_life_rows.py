"""Rows of the tables `lives` and `events`, column by column, beside the fold that they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import NOT_SEEN, Life, LifeState, LifeStep, PublishedRun
from analytics.fold.queue_history import folded
from analytics.inputs import log_files
from analytics.queue_events import CLASSIC_KINDS, QUORUM, QueueEvent, QueueName, fold_order
from quorum.fifo.commands import ConsumerKey
from storage.record import Kind
from tests.log_events import said_in_file

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.spark

AT_MS = 1_772_337_600_000
ONE, OTHER = ConsumerKey(1, 22, 3), ConsumerKey(2, 33, 4)
RUN = PublishedRun(
    AT_MS, 10, 100, "x", "k", confirm=True, actor=71, publish_no=72, process=(1, 22)
)  # of which a part has the life
LIFE = Life(
    5, 9, 2, 4, RUN, False, LifeState.REJECTED, AT_MS + 10, AT_MS + 300, 2, ONE, OTHER, {"failed": 1}, AT_MS + 1_000, 6
)
UNSEEN = Life(8, 0, 0, 3, NOT_SEEN, partial=True, told_at=7)
HISTORY = QueueHistory(actors={ONE: 81, OTHER: 82}, unknown="why", committed=6, overruled={5: 12})


def time_of(ms: int | None) -> datetime | None:
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def test_how_long_it_took_is_not_known_where_the_clock_was_set_back_in_between() -> None:
    """It was less than nothing, in percentiles too."""
    from analytics.spark.life_columns import lives_batch

    back = replace(LIFE, first_out_at=AT_MS - 1, last_out_at=AT_MS + 1_001)
    (row,) = lives_batch(77, [back], HISTORY, ["wait_ms", "hold_ms"]).to_pylist()
    assert row == {"wait_ms": None, "hold_ms": None}
    same = replace(LIFE, first_out_at=AT_MS, last_out_at=AT_MS + 1_000)
    (row,) = lives_batch(77, [same], HISTORY, ["wait_ms", "hold_ms"]).to_pylist()
    assert row == {"wait_ms": 0, "hold_ms": 0}


def test_each_column_of_lives_is_what_the_life_says() -> None:
    from analytics.spark.life_columns import lives_batch

    told, unseen = lives_batch(77, [LIFE, UNSEEN], HISTORY).to_pylist()
    assert told == {
        "queue": 77, "pos": 5, "off": 9, "nth": 2, "count": 4, "state": "rejected", "published_at": time_of(AT_MS),
        "actor": 71, "publish_no": 72, "confirm": True, "exchange": "x", "routing_key": "k", "body_bytes": 40,
        "first_out_at": time_of(AT_MS + 10), "last_out_at": time_of(AT_MS + 300), "times_out": 2,
        "first_consumer": "1/22/3", "last_consumer": "2/33/4", "first_actor": 81, "last_actor": 82,
        "returned": [("failed", 1)], "ended_at": time_of(AT_MS + 1_000), "wait_ms": 10, "hold_ms": 700, "partial": False,
        "unknown": "why", "committed": True, "process": "1/22", "of_term": 12,
    }  # fmt: skip
    nothing = {name for name, value in unseen.items() if value is None}
    assert nothing >= {
        "published_at",
        "first_out_at",
        "ended_at",
        "wait_ms",
        "hold_ms",
        "committed",
        "of_term",
        "process",
    }
    (whole,) = lives_batch(77, [replace(LIFE, first=0, count=10)], HISTORY, ["body_bytes"]).to_pylist()
    assert whole == {"body_bytes": 100}
    assert (unseen["partial"], unseen["returned"], unseen["body_bytes"], unseen["state"]) == (True, [], 0, "ready")


def test_a_life_is_committed_up_to_the_last_place_that_is_known_to_be() -> None:
    from analytics.spark.life_columns import lives_batch

    lives = [replace(LIFE, told_at=place) for place in (5, 6, 7)]
    told = lives_batch(77, lives, HISTORY, ["committed"]).column("committed").to_pylist()
    assert told == [HISTORY.is_committed(life) for life in lives] == [True, True, None]


def test_tables_of_a_conversion_have_each_life_and_step_of_their_queues(logs: Path, tmp_path: Path) -> None:
    """With their times, and who it was: of two queues in one bucket, beside what a fold of each comes to."""
    from analytics.parquet.bucket_tables import EVENTS_TABLE, LIVES_TABLE, table_place, written

    queues = dict(enumerate(events_of_queues(logs)))
    told = [event._replace(queue=number * 16) for number, events in queues.items() for event in events]
    tmp_path.joinpath("made").mkdir()
    (done,) = written(iter([batch_of(told)]), tmp_path / "made", {0: "//a", 16: "//b"})
    (row,) = done.to_pylist()
    histories = {number * 16: folded((one for one in events if one.kind != Kind.NAME), with_steps=True)
                 for number, events in queues.items()}  # fmt: skip
    steps = [(queue, step) for queue, history in histories.items() for step in history.steps]
    lives = [(queue, life) for queue, history in histories.items() for life in history.lives]
    assert (row["lives"], row["events"]) == (len(lives), len(steps))
    assert {step.what for _, step in steps} >= {"published", "delivered", "returned", "acked", "rejected"}
    rows = rows_in(tmp_path / "made" / table_place(EVENTS_TABLE, row["bucket"]))
    assert rows == [event_row(queue, step, histories[queue]) for queue, step in steps]
    assert [(one["queue"], one["name"], one["pos"], one["nth"], one["count"], one["state"], one["ended_at"])
            for one in rows_in(tmp_path / "made" / table_place(LIVES_TABLE, row["bucket"]))] == [
        (queue, f"//{'ab'[queue // 16]}", life.entry, life.first, life.count, str(life.state), time_of(life.ended_at))
        for queue, life in lives
    ]  # fmt: skip


def events_of_queues(logs: Path) -> list[list[QueueEvent]]:
    """Of each queue in the order of folds, its name ahead."""
    said = [one for file in log_files([str(logs)]) for one in said_in_file(file)]
    names = {one.queue: one for one in said if isinstance(one, QueueName) and one.kind in ("classic", QUORUM)}
    found = []
    for number, name in names.items():
        events = [one for one in said if isinstance(one, QueueEvent) and one.queue == number]
        if name.kind == "classic":
            events = [one for one in events if one.kind in CLASSIC_KINDS]
        named = events[0]._replace(kind=int(Kind.NAME), data=f"{name.kind}\n{name.name}".encode())
        found.append([named, *sorted(events, key=fold_order)])
    assert len(found) == 2
    return found


def batch_of(events: Iterable[QueueEvent]) -> pa.RecordBatch:
    import pyarrow as pa

    from analytics.spark.event_source import ARROW, arrow_batch

    return arrow_batch(pa.schema([ARROW.field(name) for name in QueueEvent._fields]), list(events))


def event_row(queue: int, step: LifeStep, history: QueueHistory) -> dict[str, Any]:
    by = step.consumer
    return {
        "queue": queue, "name": f"//{'ab'[queue // 16]}", "pos": step.entry, "off": step.offset, "nth": step.first,
        "count": step.messages, "event": step.what, "at": time_of(step.at),
        "consumer": None if by is None else "/".join(map(str, by)) if isinstance(by, tuple) else str(by),
        "actor": history.actors.get(by) if isinstance(by, ConsumerKey) else by, "reason": step.reason,
    }  # fmt: skip


def rows_in(directory: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.ParquetFile(directory / "all.parquet").read().to_pylist()
    return found

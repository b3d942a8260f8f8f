"""What operators are told of lives, figure by figure: lives made by hand, and what each answer has to be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from analytics.jobs import questions
from analytics.jobs.answer import answer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analytics.__main__ import JobQuestion

pytestmark = pytest.mark.spark

COLUMNS = {
    "queue": "long", "name": "string", "kind": "string", "pos": "long", "off": "int", "nth": "long", "count": "long",
    "state": "string", "published_at": "timestamp", "ended_at": "timestamp", "wait_ms": "long", "hold_ms": "long",
    "times_out": "int", "last_consumer": "string", "returned": "map<string,int>", "exchange": "string",
    "routing_key": "string", "body_bytes": "long", "process": "string", "actor": "long", "committed": "boolean",
    "unknown": "string",
}  # fmt: skip
PLAIN = dict.fromkeys(COLUMNS) | {
    "queue": 1, "name": "//q", "kind": "classic", "pos": 1, "off": 0, "nth": 0, "count": 1, "state": "acked",
    "times_out": 0, "returned": {}, "exchange": "x", "routing_key": "k", "body_bytes": 0, "committed": True,
}  # fmt: skip
BEGIN = datetime(2026, 3, 1, 9, 59, 59, tzinfo=UTC)
ALL_ENDS = (
    "acked", "got", "no-ack", "expired", "rejected", "maxlen", "delivery-limit", "purged", "deleted", "kept", "cut",
    "unknown", "ready", "out",
)  # fmt: skip


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def table(spark: SparkSession, *lives: dict[str, Any]) -> DataFrame:
    """`lives`: what is not plain of each."""
    rows = [tuple((PLAIN | life).values()) for life in lives]
    return spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))


def told(found: DataFrame) -> list[dict[str, Any]]:
    """Times as seconds since BEGIN."""

    def plain(value: object) -> object:
        return value.timestamp() - BEGIN.timestamp() if isinstance(value, datetime) else value

    return [{name: plain(value) for name, value in row.asDict().items()} for row in found.collect()]


def places(rows: list[dict[str, Any]]) -> list[int]:
    return [row["sample"].pos for row in rows]


def test_what_died_is_what_was_rejected_too_old_too_much_or_failed_too_often(spark: SparkSession) -> None:
    each = [{"state": state, "pos": place, "ended_at": at(0)} for place, state in enumerate(ALL_ENDS)]
    rows = told(questions.dead(table(spark, *each)))
    assert [row["state"] for row in rows] == ["delivery-limit", "expired", "maxlen", "rejected"]


def test_what_was_dropped_is_what_nobody_had_asked_to_be_taken_away(spark: SparkSession) -> None:
    each = [{"state": state, "pos": place, "ended_at": at(0)} for place, state in enumerate(ALL_ENDS)]
    assert [row["state"] for row in told(questions.dropped(table(spark, *each)))] == ["expired", "maxlen"]


def test_what_died_is_added_up_by_its_reason_and_who_had_it_last(spark: SparkSession) -> None:
    dead = {"state": "rejected", "last_consumer": "1/2/3"}
    lives = table(
        spark,
        dead | {"pos": 9, "count": 4, "ended_at": at(5)},
        dead | {"pos": 7, "nth": 2, "count": 3, "ended_at": at(8)},
        dead | {"pos": 7, "nth": 1, "ended_at": at(6)},
        dead | {"pos": 3, "count": 2, "ended_at": at(4), "last_consumer": "1/2/4"},
        dead | {"pos": 4, "count": 2, "ended_at": at(4), "routing_key": "other"},
        dead | {"pos": 5, "count": 2, "ended_at": at(4), "exchange": "other"},
        dead | {"pos": 6, "count": 9, "ended_at": at(4), "name": "//r", "queue": 2},
    )
    rows = told(questions.dead(lives))
    assert [(row["name"], row["messages"]) for row in rows] == [
        ("//r", 9), ("//q", 8), ("//q", 2), ("//q", 2), ("//q", 2),
    ]  # fmt: skip
    most = rows[1]
    assert (most["last_consumer"], most["exchange"], most["routing_key"]) == ("1/2/3", "x", "k")
    assert (most["first_at"], most["last_at"], tuple(most["sample"])) == (5, 8, (7, 0, 1))


def test_what_was_dropped_is_added_up_by_its_publisher(spark: SparkSession) -> None:
    old = {"state": "expired", "process": "1/2", "actor": 7, "ended_at": at(1)}
    lives = table(
        spark,
        old | {"pos": 5, "count": 3, "last_consumer": "a"},
        old | {"pos": 2, "count": 4, "last_consumer": "b"},
        old | {"pos": 1, "actor": 8},
        old | {"pos": 3, "count": 2, "process": "2/2"},
    )
    rows = told(questions.dropped(lives))
    assert [(row["process"], row["actor"], row["messages"]) for row in rows] == [
        ("1/2", 7, 7),
        ("2/2", 7, 2),
        ("1/2", 8, 1),
    ]
    assert places(rows) == [2, 3, 1]


def test_what_came_back_is_counted_for_each_reason_as_often_as_it_did(spark: SparkSession) -> None:
    lives = table(
        spark,
        {"pos": 4, "count": 3, "returned": {"failed": 2, "released": 1}, "times_out": 4, "last_consumer": "a"},
        {"pos": 2, "count": 5, "returned": {"failed": 1}, "times_out": 1, "last_consumer": "a"},
        {"pos": 1, "count": 1, "returned": {"failed": 3}, "times_out": 3, "last_consumer": "b"},
        {"pos": 0, "count": 50},
    )
    rows = told(questions.redelivered(lives))
    figures = [
        (row["reason"], row["last_consumer"], row["messages"], row["returns"], row["times_out_max"]) for row in rows
    ]
    assert figures == [("failed", "a", 8, 11, 4), ("failed", "b", 1, 3, 3), ("released", "a", 3, 3, 4)]
    assert places(rows) == [2, 1, 4]


def test_latencies_are_weighed_by_messages_and_waiting_is_no_holding(spark: SparkSession) -> None:
    lives = table(
        spark,
        {"count": 9, "wait_ms": 10, "hold_ms": 3},
        {"count": 1, "wait_ms": 100},
        {"count": 2, "hold_ms": 5},
        {"count": 70},
        {"count": 40, "wait_ms": 1, "hold_ms": 2, "name": "//r", "last_consumer": "c", "published_at": at(1)},
    )
    far, near = told(questions.latency(lives))
    assert (far["name"], far["messages"], far["wait_p50_ms"], far["hold_max_ms"]) == ("//r", 40, 1, 2)
    waited = [near[f"wait_{part}_ms"] for part in questions.LATENCY_NAMES]
    assert (near["messages"], waited) == (12, pytest.approx([10, 19, 91.9, 100]))
    assert [near[f"hold_{part}_ms"] for part in questions.LATENCY_NAMES] == pytest.approx([3, 4.999999, 5, 5], abs=0.11)
    rows = told(questions.latency(lives, ("consumer", "hour")))
    assert [(row["last_consumer"], row["hour"], row["messages"]) for row in rows] == [("c", 1, 40), (None, None, 12)]


def test_what_is_hot_is_told_to_the_second(spark: SparkSession) -> None:
    lives = table(
        spark,
        {"count": 5, "body_bytes": 50, "published_at": at(0)},
        {"count": 4, "body_bytes": 40, "published_at": at(0.999)},
        {"count": 7, "body_bytes": 70, "published_at": at(1)},
        {"count": 8, "body_bytes": 1, "published_at": at(30), "exchange": "other"},
        {"count": 6, "body_bytes": 0, "published_at": at(2), "name": "//r"},
        {"count": 900, "body_bytes": 9, "name": "//r"},
    )
    rows = told(questions.hot(lives))
    assert rows == [
        {
            "name": "//q", "messages": 24, "bytes": 161, "peak_per_second": 9, "peak_at": 0, "first_at": 0,
            "last_at": 30, "percent": 80.0,
        },
        {
            "name": "//r", "messages": 6, "bytes": 0, "peak_per_second": 6, "peak_at": 2, "first_at": 2, "last_at": 2,
            "percent": 20.0,
        },
    ]  # fmt: skip
    hours = [
        (row["hour"], row["exchange"], row["messages"]) for row in told(questions.hot(lives, ("hour", "exchange")))
    ]
    assert hours == [(1, "x", 13), (-3599, "x", 9), (1, "other", 8)]


def test_a_position_of_a_classic_queue_is_a_message_and_of_a_quorum_queue_an_entry(spark: SparkSession) -> None:
    """Asked for an entry, it had the runs of entries before as well, and not the rest of a run whose first message had come to
    something else."""
    classic = [{"pos": 10, "nth": nth, "count": 2, "state": f"from {10 + nth}"} for nth in (0, 2, 4)]
    quorum = [
        {"pos": entry, "off": 9, "nth": nth, "count": 3, "state": f"{entry}, from {nth}"}
        for entry in (10, 12)
        for nth in (0, 3)
    ]
    found = {place: _states_at(spark, classic, place) for place in (9, 10, 11, 12, 15, 16)}
    assert found == {9: [], 10: ["from 10"], 11: ["from 10"], 12: ["from 12"], 15: ["from 14"], 16: []}
    found = {place: _states_at(spark, quorum, place) for place in (9, 10, 11, 12, 13)}
    assert found == {9: [], 10: ["10, from 0", "10, from 3"], 11: [], 12: ["12, from 0", "12, from 3"], 13: []}


def _states_at(spark: SparkSession, lives: list[dict[str, Any]], position: int) -> list[str]:
    found = questions.at_position(table(spark, *lives), position).orderBy("pos", "nth").collect()
    return [row.state for row in found]


def test_what_may_not_be_committed_is_counted_beside_what_it_came_to(spark: SparkSession) -> None:
    from analytics.__main__ import queues

    lives = table(
        spark,
        {"count": 3, "state": "acked"},
        {"count": 2, "state": "acked", "committed": None},
        {"count": 4, "state": "ready", "committed": None, "unknown": "entries 4 to 5 are missing"},
        {"count": 5, "state": "acked", "name": "//a", "queue": 2},
    )
    asked = SimpleNamespace(of_queues=lambda: lives, answer_of=answer_of)
    assert [tuple(row.values()) for row in queues(cast("JobQuestion", asked)).rows] == [
        ("//a", 2, "acked", 5, 0, None),
        ("//q", 1, "acked", 5, 2, None),
        ("//q", 1, "ready", 4, 4, "entries 4 to 5 are missing"),
    ]


def test_traffic_is_what_came_and_went_in_each_span(spark: SparkSession) -> None:
    """What was never seen to come must not be seen to go, nor what is gone at no known time to come."""
    from analytics.report.report_figures import span_sums
    from analytics.report.traffic import SpanSum

    begin = int(BEGIN.timestamp())
    lives = table(
        spark,
        {"count": 3, "published_at": at(0.5), "ended_at": at(2.2)},
        {"count": 2, "published_at": at(0), "state": "ready"},
        {"count": 4, "published_at": at(2), "state": "out"},
        {"count": 5, "published_at": at(2.9), "state": "kept", "name": None, "queue": 9},
        {"count": 70, "published_at": at(1), "state": "unknown"},
        {"count": 70, "ended_at": at(1)},
    )
    assert span_sums(lives) == (
        [
            SpanSum("//q", begin, 5, 0),
            SpanSum("//q", begin + 2, 4, 3),
            SpanSum("9", begin + 2, 5, 0),
        ],
        1,
    )
    wide, width = span_sums(table(spark, {"published_at": at(0), "ended_at": at(3600)}))
    assert width > 1 and [one.at % width for one in wide] == [0, 0]
    assert span_sums(table(spark, {"ended_at": at(1)})) == ([], 1)

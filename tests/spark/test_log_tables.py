"""Tables that come from the kernels as they are: what the log has, also names that no client should have chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import ACKED, GOT, PUBLISHED, REJECTED, Ask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark


def by_name(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["name"].rpartition("/")[2]: {key: value for key, value in row.items() if key != "name"} for row in rows}


def test_runs_and_messages_count_the_same(ask: Ask, logs: Path) -> None:
    _, runs = ask(
        logs, "sql", "select name, sum(count) m, sum(body_bytes) b from publishes join queues using (queue) group by 1"
    )
    _, each = ask(
        logs, "sql", "select name, count(*) m, sum(body_bytes) b from messages join queues using (queue) group by 1"
    )
    size = sum(len(b"%d" % number) for number in range(PUBLISHED))
    expected = {"m": PUBLISHED, "b": size}
    assert by_name(runs) == by_name(each) == {"classic": expected, "quorum": expected}


def test_settled_ranges_say_what_they_came_to(ask: Ask, logs: Path) -> None:
    query = "select name, outcome, sum(count) m from settles join queues using (queue) where count is not null group by 1, 2"
    _, rows = ask(logs, "sql", query)
    told = {(row["name"], row["outcome"]): row["m"] for row in rows}
    assert (told["//classic", "acked"], told["//classic", "rejected"], told["//classic", "got"]) == (
        ACKED,
        REJECTED,
        GOT,
    )
    assert (told["//quorum", "acked"], told["//quorum", "rejected"]) == (ACKED + GOT, REJECTED)


def test_only_the_columns_that_are_asked_for_are_made(spark: SparkSession, logs: Path) -> None:
    from analytics.spark.table_source import log_table

    found = log_table(spark, "messages", [str(logs)], columns="body_bytes long, node string")
    assert found.columns == ["body_bytes", "node"]
    assert {row.node for row in found.collect()} == {"n1"}


def test_a_column_that_is_not_there_is_named(spark: SparkSession, logs: Path) -> None:
    from analytics.spark.table_source import log_table

    with pytest.raises(Exception, match="publishes has no column colour: it has node, file, queue"):
        log_table(spark, "publishes", [str(logs)], columns="colour string").collect()


def same_lives_by_column(spark: SparkSession, logs: Path) -> int:
    """How many there are, where each column alone has what it has among all others."""
    from analytics.spark.lives_table import COLUMNS, events, lives

    found, place = events(spark, [str(logs)]), ("queue", "pos", "off", "nth")
    whole = sorted_rows(lives(found), place)
    for name in COLUMNS:
        asked = [*place, name] if name not in place else [*place]
        alone = lives(found, asked)
        assert alone.columns == asked
        assert [row[name] for row in sorted_rows(alone, place)] == [row[name] for row in whole], name
    return len(whole)


def sorted_rows(lives: DataFrame, by: tuple[str, ...]) -> list[Row]:
    return sorted(lives.collect(), key=lambda row: [row[name] for name in by])


def test_lives_have_the_same_in_the_columns_that_are_asked_for(spark: SparkSession, logs: Path) -> None:
    assert same_lives_by_column(spark, logs) > PUBLISHED


def test_a_column_that_lives_have_not_is_named(spark: SparkSession, logs: Path) -> None:
    from analytics.spark.lives_table import events, lives

    with pytest.raises(ValueError, match="lives has no column colour: it has queue, pos, off"):
        lives(events(spark, [str(logs)]), ["queue", "colour"])


@pytest.mark.parametrize("table", ["publishes", "settles", "messages"])
def test_all_columns_of_a_table_are_of_their_types(spark: SparkSession, logs: Path, table: str) -> None:
    from analytics.spark.table_source import TABLES, log_table

    found = log_table(spark, table, [str(logs)])
    assert found.columns == list(TABLES[table].columns)
    assert found.count() == len(found.collect()) > 0


def test_names_that_are_no_utf8_are_written_out() -> None:
    import pyarrow as pa

    from analytics.spark.table_source import as_text

    names = pa.array([b"orders", b"\xff\x00", b""], pa.binary())
    assert as_text(names).to_pylist() == ["orders", "\\xff\x00", ""]


def test_workers_have_the_allocator_that_gives_memory_back(spark: SparkSession) -> None:
    def allocator(_: int) -> str:
        import pyarrow as pa

        return str(pa.default_memory_pool().backend_name)

    assert spark.sparkContext.parallelize([0], 1).map(allocator).collect() == ["system"]

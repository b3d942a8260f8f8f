"""Logs as Parquet, step by step."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics.inputs import log_files, snapshot_files
from analytics.parquet.conversion_log import place_of
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, Kind, encode, scan
from tests.running_node import RunningNode, start_node
from tests.spark.conftest import ACKED, GOT, PUBLISHED, REJECTED, worked_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
KINDS = ("classic", "quorum")
NUMBER_BYTES = 8  # of a queue, with which the payload of an acknowledgement begins
LEFT = PUBLISHED - ACKED - REJECTED - GOT


def worked(data: Path) -> RunningNode:
    """A node that has worked once more, and is stopped."""
    node = start_node(data)
    worked_on(node.amqp_url)
    assert node.stop() == 0
    return node


def converted(spark: SparkSession, data: Path, directory: Path) -> dict[str, int]:
    from analytics.parquet.convert import convert

    paths = [str(data)]
    covered, said = convert(spark, log_files(paths), snapshot_files(paths), directory)
    assert covered.nodes == [data.name]
    return {row["table"]: row["rows"] for row in said.rows}


def table(directory: Path, name: str) -> list[dict[str, Any]]:
    import pyarrow.dataset as ds

    rows: list[dict[str, Any]] = ds.dataset(directory / name, partitioning="hive").to_table().to_pylist()
    return rows


def test_a_conversion_goes_on_where_it_was_and_has_no_row_twice(spark: SparkSession, tmp_path: Path) -> None:
    data, directory = tmp_path / "n1", tmp_path / "tables"
    worked(data)
    first = converted(spark, data, directory)
    assert all(first.values())
    assert converted(spark, data, directory) == dict.fromkeys(first, 0)
    worked(data)
    second = converted(spark, data, directory)
    assert 0 < second["raw"] < 2 * first["raw"]
    lives = table(directory, "lives")
    for kind in KINDS:
        mine = [row for row in lives if row["name"] == f"//{kind}"]
        counts: Counter[str] = Counter()
        for row in mine:
            counts[row["state"]] += row["count"]
        # What waited is taken by the second round, so states are as many as in two rounds.
        assert (counts["ready"], sum(counts.values())) == (2 * LEFT, 2 * PUBLISHED)
        places = [(row["pos"], row["off"], row["nth"]) for row in mine]
        assert len(places) == len(set(places))
    anew = tmp_path / "anew"
    converted(spark, data, anew)
    for name in ("lives", "events"):
        assert sorted(map(repr, table(directory, name))) == sorted(map(repr, table(anew, name)))


def test_attempts_at_one_task_write_to_different_files(logs: Path, tmp_path: Path) -> None:
    """A worker that is taken for lost may go on beside the one that does its task again: both wrote to one file."""
    from analytics.parquet.raw_files import RawTask, convert_files

    task = RawTask("000001-0000", log_files([str(logs)]), (), {}, str(tmp_path))
    first, second = convert_files(task), convert_files(task)
    assert [place_of(one) for one in first.made] == [place_of(one) for one in second.made]
    assert not {*first.made} & {*second.made}
    assert first.rows == second.rows == sum(rows_of(tmp_path / one) for one in first.made)


def rows_of(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(file).metadata.num_rows)


def test_events_tell_what_lives_come_to(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    converted(spark, logs / "n1", tmp_path)
    counts: Counter[tuple[str, str]] = Counter()
    for row in table(tmp_path, "events"):
        counts[row["name"], row["event"]] += row["count"]
    for kind in KINDS:
        assert counts[f"//{kind}", "published"] == PUBLISHED
        assert counts[f"//{kind}", "rejected"] == REJECTED
        assert counts[f"//{kind}", "returned"] == 1
    assert {row["name"] for row in table(tmp_path, "queues.parquet")} >= {"//classic", "//quorum"}
    assert {row["user"] for row in table(tmp_path, "actors.parquet")} == {"guest"}


def test_a_queue_whose_number_was_damaged_does_not_take_the_place_of_another(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    """Numbers of 64 bits are below zero in Spark, whose remainder of them is, too: two tasks made the tables of one bucket."""
    shutil.copytree(logs / "n1", tmp_path / "n1")
    queue, damaged = renumber_an_acknowledgement(tmp_path / "n1")
    converted(spark, tmp_path / "n1", tmp_path / "tables")
    assert {row["queue"] for row in table(tmp_path / "tables", "lives")} > {queue, damaged}


def renumber_an_acknowledgement(data: Path) -> tuple[int, int]:
    """The last one of a classic queue; its number, and that in the record now, of the same bucket."""
    from analytics.parquet.raw_files import BUCKETS

    file = log_files([str(data)])[-1]
    path = Path(file.directory) / file.name
    log = path.read_bytes()
    found, _, _ = scan(log, 0, file.size, PAYLOAD_BYTES_MAX)
    kind, flags, term, queue, index, start, end = [one for one in found if one[0] == Kind.CLASSIC_DONE][-1]
    damaged = queue % BUCKETS - BUCKETS
    payload = damaged.to_bytes(NUMBER_BYTES, "little", signed=True) + log[start + NUMBER_BYTES : end]
    record = b"".join(encode(kind, queue, index, [payload], flags, term))
    path.write_bytes(log[: start - HEADER_BYTES] + record + log[end:])
    return queue, damaged

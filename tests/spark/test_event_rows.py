"""Rows of the event source are what files say, event by event, and buckets of a conversion have each of them once."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from analytics.inputs import log_files
from analytics.queue_events import QueueEvent
from storage.record import Kind
from tests.log_events import said_in_file
from tests.unit.analytics.test_inputs import node

pytestmark = pytest.mark.spark

NAMES = {int(Kind.NAME), int(Kind.ACTOR)}


def rows_of(logs: Path) -> list[dict[str, Any]]:
    from analytics.spark.event_source import batches_of

    return [
        row for file in log_files([str(logs)]) for batch in batches_of(file, tail=True) for row in batch.to_pylist()
    ]


def test_rows_are_events_and_commits_that_are_taken_as_columns_are_among_them(logs: Path) -> None:
    told = [one for file in log_files([str(logs)]) for one in said_in_file(file) if isinstance(one, QueueEvent)]
    rows = [row for row in rows_of(logs) if row["kind"] not in NAMES]
    assert any(event.kind == Kind.RAFT_COMMIT for event in told)
    events = [QueueEvent(**{name: row[name] for name in QueueEvent._fields}) for row in rows]
    # said_in_file takes all for durable, and the file's end is not
    assert Counter(one._replace(durable=True) for one in events) == Counter(told)


@pytest.mark.parametrize(("cores", "tasks"), [(1, 1), (2, 2), (9, 3)])
def test_each_core_has_something_to_read_if_it_is_said_how_many_there_are(
    tmp_path: Path, cores: int, tasks: int
) -> None:
    """A log of two files was read by one core while the other had nothing to do."""
    from analytics.spark.event_source import EventReader
    from analytics.spark.table_source import TableReader

    paths = [str(node(tmp_path / "n1", 10, 11, 20))]
    assert len(EventReader(paths, tail=False, cores=cores).partitions()) == tasks
    assert len(TableReader("publishes", ["queue"], paths, tail=False, cores=cores).partitions()) == tasks


def test_a_bucket_has_its_rows_in_their_order(logs: Path) -> None:
    from analytics.parquet.raw_files import BUCKETS, by_bucket
    from analytics.spark.event_source import batches_of

    for file in log_files([str(logs)]):
        for batch in batches_of(file, tail=True):
            found = [(number, row) for number, rows in by_bucket(batch) for row in rows.to_pylist()]
            told = [(row["queue"] % BUCKETS, row) for row in batch.to_pylist()]
            assert found == sorted(told, key=itemgetter(0))


def test_a_bucket_with_few_rows_does_not_keep_what_others_have(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait are parts of the batches that came: one row of each would keep all of a log in memory."""
    import pyarrow.parquet as pq

    from analytics.parquet import raw_files
    from analytics.spark.event_source import batches_of

    batches = [batch for file in log_files([str(logs)]) for batch in batches_of(file, tail=True)]
    monkeypatch.setattr(raw_files, "WRITTEN_TOGETHER_BYTES", 2 * max(batch.nbytes for batch in batches))
    rounds = 8
    with raw_files.RowBuckets(raw_files.RawTask("000001", (), (), {}, str(tmp_path))) as buckets:
        for batch in batches * rounds:
            buckets.write(batch)
    groups = {pq.ParquetFile(tmp_path / one).metadata.num_row_groups for one in buckets.made}
    assert buckets.rows == rounds * sum(batch.num_rows for batch in batches)
    assert min(groups) > 1


def test_raw_has_the_rows_of_the_source(logs: Path, tmp_path: Path) -> None:
    """A conversion gathers them in another way (native/event_buckets.py)."""
    import pyarrow.parquet as pq

    from analytics.parquet.raw_files import RawTask, convert_files
    from analytics.spark.event_source import batches_of

    files = log_files([str(logs)])
    told = [row for file in files for batch in batches_of(file, tail=False) for row in batch.to_pylist()]
    done = convert_files(RawTask("000001-0000", files, (), {}, str(tmp_path)))
    rows = [row for one in done.made for row in pq.read_table(tmp_path / one).to_pylist()]
    assert Counter(map(repr, rows)) == Counter(map(repr, told))
    assert done.rows == len(told)
    times = [row["at"] for row in told if row["at"] is not None]
    assert (done.first, done.last) == (min(times), max(times))

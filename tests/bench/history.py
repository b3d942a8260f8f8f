"""How fast history is read, each figure beside its bar: `leveret-analytics` over logs of real nodes.

    python -m tests.bench.history [--data DIR] [--only TEXT] [--json FILE]

Needs the extra and Java 17. The logs are made first, which takes a minute; with --data they are kept there for the next time.
A question is asked twice of one session, and the second time counts, unless the row says that it was cold. `per_core` is the
figure by the processor time of all processes: what one core that does nothing else can do. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.__main__ import main as analytics
from analytics.inputs import evened, files_of_tasks, log_files
from analytics.jobs.answer import EXIT_HOLDS
from tests.bench.history_logs import (
    ASKED,
    MARKED,
    copied_nodes,
    logs_of_a_day,
    logs_of_lone_messages,
    logs_of_one_message,
    logs_of_runs,
)
from tests.bench.past_day import archived_day, last_second
from tests.bench.process_tree import processor_seconds, resident_bytes
from tests.bench.steady_log import Lags, lags_at, table_lags_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS, LONE = 4_800_000, 300_000
LARGE_BYTES = 3 << 30
DAY_BYTES, ASKED_MESSAGES, OTHERS = 50 * 10**9, 200_000, 1_600_000
LIVE_PER_SECOND = 20_000
MASTER = "local[2]"
COUNTED = ("queue", "state", "count", "committed", "unknown")  # as `leveret-analytics queues` asks
EIGHT = "queue long, pos long, off int, nth int, published_at timestamp, exchange string, routing_key string, body_bytes long"


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One line of the table."""

    what: str
    figure: float
    unit: str
    bar: float
    is_met: bool
    per_core: float | None = None


class HistoryBench:
    """The logs, and the questions that are asked of them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._spark: SparkSession | None = None

    @cached_property
    def runs(self) -> Path:
        return _kept(self._logs / "runs", lambda at: logs_of_runs(at, RUNS))

    @cached_property
    def lone(self) -> Path:
        return _kept(self._logs / "lone", lambda at: logs_of_lone_messages(at, LONE))

    @cached_property
    def large(self) -> Path:
        large = self._logs / "large"
        if not large.exists():
            one = _kept(self._logs / "one", logs_of_one_message)
            copied_nodes(self.runs, large, LARGE_BYTES)
            (large / "marked").symlink_to(one)
        return large

    @property
    def spark(self) -> SparkSession:
        from analytics.spark.session import spark_session

        if self._spark is None:
            self._spark = spark_session(MASTER, log_bytes=LARGE_BYTES)
        return self._spark

    # rows

    def runs_scanned(self) -> HistoryRow:
        from pyspark.sql import functions as f

        from analytics.spark.table_source import log_table

        def ask() -> int:
            found = log_table(self.spark, "publishes", [str(self.large)], columns="queue long, count long")
            return int(found.groupBy("queue").agg(f.sum("count").alias("m")).agg(f.sum("m")).collect()[0][0])

        return rate("messages scanned as runs", ask, 15e6)

    def messages_scanned(self) -> HistoryRow:
        from pyspark.sql import functions as f

        from analytics.spark.table_source import log_table

        def ask() -> int:
            found = log_table(self.spark, "messages", [str(self.large)], columns=EIGHT)
            numbers = [f.sum(name) for name in ("queue", "pos", "off", "nth", "body_bytes")]
            texts = [f.sum(f.length(name)) for name in ("exchange", "routing_key")]
            return int(found.agg(f.count("*"), *numbers, *texts, f.max("published_at")).collect()[0][0])

        return rate("messages scanned one by one, 8 columns", ask, 5e6)

    def runs_folded(self) -> HistoryRow:
        return rate("messages folded, in runs", lambda: self._folded(self.runs), 2e6)

    def lone_folded(self) -> HistoryRow:
        entries = self._entries_of(self.lone)

        def ask() -> int:
            self._folded(self.lone)
            return entries

        return rate("entries folded, of lone messages", ask, 150e3)

    def _folded(self, data: Path) -> int:
        from pyspark.sql import functions as f

        from analytics.spark import lives_table

        found = lives_table.events(self.spark, [str(data)])
        return int(lives_table.lives(found, COUNTED).agg(f.sum("count")).collect()[0][0])

    def _entries_of(self, data: Path) -> int:
        from pyspark.sql import functions as f

        from analytics.spark import lives_table
        from storage.record import Kind

        found = lives_table.events(self.spark, [str(data)])
        return int(found.where(f.col("kind") == int(Kind.RAFT_ENTRIES)).count())

    def parquet_written(self) -> HistoryRow:
        from analytics.parquet.raw_files import RawTask, convert_files
        from analytics.spark.event_source import TASK_BYTES

        files = log_files([str(self._lone_large())])
        context = self.spark.sparkContext

        def ask() -> int:
            with tempfile.TemporaryDirectory(dir=self._logs) as making:
                groups = evened(files_of_tasks(files, TASK_BYTES), context.defaultParallelism)
                tasks = [RawTask(f"{at:04d}", group, (), {}, making) for at, group in enumerate(groups)]
                return sum(done.rows for done in context.parallelize(tasks, len(tasks)).map(convert_files).collect())

        return rate("rows written as Parquet", ask, 3e6)

    def _lone_large(self) -> Path:
        large = self._logs / "lone-large"
        return large if large.exists() else copied_nodes(self.lone, large, LARGE_BYTES // 2)

    def life_found(self) -> HistoryRow:
        words = ["--data", str(self.large), "--json", "life", "--message-id", MARKED]
        return seconds("life of a message in 3 GB", lambda: self._said(words), 15.0)

    def proved(self) -> HistoryRow:
        words = ["--data", str(self.runs), "--master", MASTER, "--json", "proof"]
        return seconds(f"proof over {RUNS:,} messages, session included", lambda: self._said(words), 15.0)

    def past_second(self) -> HistoryRow:
        """Of each kind of queue, and the slower one counts."""
        data = _kept(self._logs / "worked", lambda at: logs_of_a_day(at, OTHERS, ASKED_MESSAGES))
        day = self._logs / "day"
        if not day.exists():
            archived_day(data, set(ASKED.values()), day, DAY_BYTES)
        words = [
            "--data",
            str(day),
            "--json",
            "queue",
            "--at",
            f"{datetime.fromtimestamp(last_second(data), UTC):%FT%T}",
        ]
        for name in ASKED.values():
            self._said([*words, f"//{name}"])
        rows = [
            seconds("a queue at a second of a day's archive of 50 GB", partial(self._said, [*words, f"//{name}"]), 10.0)
            for name in ASKED.values()
        ]
        return max(rows, key=lambda row: row.figure)

    def _said(self, words: list[str]) -> None:
        self.close()
        with redirect_stdout(StringIO()) as said:
            code = analytics(words)
        if code != EXIT_HOLDS or not json.loads(said.getvalue())["rows"]:
            raise RuntimeError(f"{' '.join(words)} ended with {code}: {said.getvalue()[:2_000]}")

    def live_lag(self) -> HistoryRow:
        lags: Lags = lags_at(LIVE_PER_SECOND)
        return HistoryRow(
            f"p95 of a live view's lag at {lags.per_second:,.0f}/s", lags.p95_s, "s", 2.0, lags.p95_s <= 2.0
        )

    def table_lag(self) -> HistoryRow:
        """In a session as the command starts it where there is little log yet, if this process had none before."""
        from analytics.spark.session import spark_session

        self.close()
        self._spark = spark_session(MASTER)
        lags: Lags = table_lags_at(self._spark, LIVE_PER_SECOND)
        what = f"p95 of the lag of live tables at {lags.per_second:,.0f}/s"
        return HistoryRow(what, lags.p95_s, "s", 2.0, lags.p95_s <= 2.0)

    def memory(self) -> HistoryRow:
        """After all that was asked before, of the session and its workers."""
        self.runs_scanned()
        gb = resident_bytes() / 1e9
        return HistoryRow("memory of the session and its workers", gb, "GB", 1.5, gb <= 1.5)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


def rate(what: str, ask: Callable[[], int], bar: float) -> HistoryRow:
    """By the second time that it is asked."""
    ask()
    began, before = time.perf_counter(), processor_seconds()
    number = ask()
    figure = number / (time.perf_counter() - began)
    return HistoryRow(what, figure, "per second", bar, figure >= bar, number / max(1e-3, processor_seconds() - before))


def seconds(what: str, ask: Callable[[], object], bar: float) -> HistoryRow:
    began = time.perf_counter()
    ask()
    figure = time.perf_counter() - began
    return HistoryRow(what, figure, "s", bar, figure <= bar)


def _kept(directory: Path, make: Callable[[Path], Path]) -> Path:
    data = directory / "data"
    return data if data.exists() else make(directory)


QUESTIONS: dict[str, Callable[[HistoryBench], HistoryRow]] = {
    "runs": HistoryBench.runs_scanned,
    "messages": HistoryBench.messages_scanned,
    "fold": HistoryBench.runs_folded,
    "lone": HistoryBench.lone_folded,
    "parquet": HistoryBench.parquet_written,
    "memory": HistoryBench.memory,
    "life": HistoryBench.life_found,
    "proof": HistoryBench.proved,
    "at": HistoryBench.past_second,
    "live": HistoryBench.live_lag,
    "tables": HistoryBench.table_lag,
}


def shown(row: HistoryRow) -> str:
    figure, bar = (f"{one:,.0f}" if one >= 100 else f"{one:,.2f}" for one in (row.figure, row.bar))
    each = "" if row.per_core is None else f", {row.per_core:,.0f} a core"
    return f"{row.what:48} {figure:>12} {row.unit:10} bar {bar:>12}  {'met' if row.is_met else 'MISSED'}{each}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.history", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="where the logs are made, and found again the next time")
    parser.add_argument("--only", help=f"some of {','.join(QUESTIONS)}, with commas between them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows, as JSON")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else list(QUESTIONS)
    if unknown := set(chosen) - set(QUESTIONS):
        parser.error(f"--only knows no {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="leveret-bench-history-") as scratch:
        rows = _asked(HistoryBench(given.data or Path(scratch)), chosen)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if all(row.is_met for row in rows) else 1


def _asked(bench: HistoryBench, chosen: list[str]) -> list[HistoryRow]:
    rows = []
    try:
        for name in chosen:
            rows.append(QUESTIONS[name](bench))
            print(shown(rows[-1]), flush=True)
    finally:
        bench.close()
    return rows


if __name__ == "__main__":
    sys.exit(main())

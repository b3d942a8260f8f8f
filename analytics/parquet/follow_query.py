"""`leveret-analytics follow --into DIR`: the stream of Spark whose batches are steps of the directory."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN, JobAnswer
from analytics.parquet.followed import CHECKPOINT, BatchTaken, Follower
from analytics.show import show, show_now
from analytics.spark.event_source import FORMAT, EventSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TAKEN_COLUMNS = [("batch", "bigint"), ("rows", "bigint"), ("lag_s", "double"), ("tables", "boolean")]
LOOK_S = 0.2  # how soon it is seen that the stream has ended


def follow_into(spark: SparkSession, options: argparse.Namespace) -> int:
    """Until it is interrupted, or so many batches had rows. Raises ValueError."""
    if options.tail:
        raise ValueError("--tail reads what may not stay in the log; tables that follow have what is durable only")
    follower = Follower(spark, options.data, Path(options.into).resolve())
    enough = Event()
    taken = 0

    def take(batch: DataFrame, number: int) -> None:
        nonlocal taken
        follower.take(batch, number)
        rows = follower.take_told()
        taken += len(rows)
        tell(rows, as_json=options.json)
        if options.times is not None and taken >= options.times:
            enough.set()

    try:
        query = started(spark, options.data, follower.directory, take, every_s=options.every)
        with suppress(KeyboardInterrupt):
            while query.isActive and not enough.wait(LOOK_S):
                pass
        ended(query)
        covered = follower.finish()
    finally:
        follower.close()
    show(covered, JobAnswer(TAKEN_COLUMNS, []), as_json=options.json)
    return EXIT_UNKNOWN if covered.is_damaged else EXIT_HOLDS


def started(
    spark: SparkSession, paths: list[str], directory: Path, take: object, *, every_s: float | None
) -> StreamingQuery:
    """`take` as `foreachBatch` wants it. `every_s`: from one batch to the next; None: it ends with what is there now."""
    spark.dataSource.register(EventSource)
    found = spark.readStream.format(FORMAT).option("paths", json.dumps(paths)).option("failOnDataLoss", "false").load()
    writer = found.writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(directory / CHECKPOINT))
    now = {"availableNow": True} if every_s is None else {"processingTime": f"{round(every_s * 1000)} milliseconds"}
    return writer.trigger(**now).start()


def ended(query: StreamingQuery) -> None:
    """Raises ValueError with what ended it, unless that was this."""
    if query.isActive:
        query.stop()
    elif (error := query.exception()) is not None:
        said = str(error).strip().splitlines()
        raise ValueError(f"the stream ended: {said[0]}{f' ({said[-1]})' if len(said) > 1 else ''}")


def tell(rows: list[BatchTaken], *, as_json: bool) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    for row in rows:
        show_now(at, JobAnswer(TAKEN_COLUMNS, [row._asdict()]), as_json=as_json)

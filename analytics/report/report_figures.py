"""What Spark gathers for a report: the answers of all questions, and what came and went over time."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from analytics.inputs import LogFile
from analytics.jobs import questions
from analytics.jobs.answer import answer_of
from analytics.report.report_contents import TABLE_ROWS, ReportFigures
from analytics.report.traffic import SpanSum, width_of
from analytics.spark.gather import proofs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def gathered(
    spark: SparkSession, lives: DataFrame, files: list[LogFile], *, tail: bool, asked_for: Collection[int] | None
) -> ReportFigures:
    """`lives` with name and kind of their queues; `asked_for` as `proofs` takes it."""
    spans, width = span_sums(lives)
    return ReportFigures(
        proofs(spark, lives, files, tail=tail, asked_for=asked_for),
        spans,
        width,
        answer_of(questions.latency(lives), TABLE_ROWS),
        answer_of(questions.dead(lives), TABLE_ROWS),
        answer_of(questions.dropped(lives), TABLE_ROWS),
        answer_of(questions.redelivered(lives), TABLE_ROWS),
    )


def span_sums(lives: DataFrame) -> tuple[list[SpanSum], int]:
    """Lives whose times are not known are left out: what was never seen to come must not be seen to go."""
    from pyspark.sql import functions as f

    timed = lives.where(
        f.col("published_at").isNotNull()
        & (f.col("ended_at").isNotNull() | f.col("state").isin("ready", "out", "kept"))
    )
    first, last = timed.agg(
        f.unix_seconds(f.min("published_at")), f.unix_seconds(f.max(f.coalesce("ended_at", "published_at")))
    ).collect()[0]
    if first is None:
        return [], 1
    width = width_of(first, last)

    def sums(of: str, name: str) -> DataFrame:
        span: Column = (f.floor(f.unix_seconds(of) / width) * width).cast("long")
        counted = timed.where(f.col(of).isNotNull()).groupBy("name", "queue", span.alias("at"))
        return counted.agg(f.sum("count").alias(name))

    both = sums("published_at", "published").join(sums("ended_at", "ended"), ["name", "queue", "at"], "full")
    rows = both.na.fill(0, ["published", "ended"]).collect()
    found = [SpanSum(row["name"] or str(row.queue), row["at"], row.published, row.ended) for row in rows]
    return sorted(found, key=lambda one: (one.at, one.queue)), width

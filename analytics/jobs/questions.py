"""Questions that SQL answers from the table `lives`: what died, came back or was dropped, and how long messages waited.

`lives` has the columns of analytics/spark/lives_table.py and the `name` of the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from analytics.fold.lives import LifeState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEAD = (LifeState.REJECTED, LifeState.EXPIRED, LifeState.MAXLEN, LifeState.DELIVERY_LIMIT)
DROPPED = (LifeState.EXPIRED, LifeState.MAXLEN)  # which nobody had asked for
PERCENTILES = (0.5, 0.9, 0.99, 1.0)
LATENCY_NAMES = ("p50", "p90", "p99", "max")
HOT_GROUPS = ("queue", "publisher", "hour", "exchange", "routing_key")
GROUPS = ("queue", "consumer", "hour", "state", "exchange", "routing_key")
PUBLISHER = ("process", "actor")
_GROUPED = {"queue": ("name",), "consumer": ("last_consumer",), "hour": ("published_at",), "publisher": PUBLISHER}


def columns_of_groups(by: Iterable[str]) -> list[str]:
    """What groups are made of; the name of a queue is no column of the table."""
    return [column for one in by for column in _GROUPED.get(one, (one,)) if column != "name"]


def dead(lives: DataFrame) -> DataFrame:
    """What died in its queue, by reason, last consumer and routing key; the most frequent first."""
    return _ended_as(lives, DEAD, "last_consumer", "exchange", "routing_key")


def dropped(lives: DataFrame) -> DataFrame:
    """What was too old or too much, by its publisher: nobody rejected it, and who sent it was not told."""
    return _ended_as(lives, DROPPED, "exchange", "routing_key", *PUBLISHER)


def redelivered(lives: DataFrame) -> DataFrame:
    """What came back to its queue, by reason and by who had it last."""
    from pyspark.sql import functions as f

    one = lives.select(
        "name", "last_consumer", "count", *_place(), "times_out", f.explode("returned").alias("reason", "times")
    )
    return (
        one.groupBy("name", "reason", "last_consumer")
        .agg(
            f.sum("count").alias("messages"),
            f.sum(f.col("count") * f.col("times")).alias("returns"),
            f.max("times_out").alias("times_out_max"),
            _sample(),
        )
        .orderBy(f.desc("returns"), "name", "reason")
    )


def latency(lives: DataFrame, by: tuple[str, ...] = ("queue",)) -> DataFrame:
    """How long messages waited until they were handed out first, and how long they were held then; in ms."""
    from pyspark.sql import functions as f

    groups = [group for one in by for group in _groups(one)]
    told = [*_percentiles("wait_ms"), *_percentiles("hold_ms")]
    timed = lives.where(f.col("wait_ms").isNotNull() | f.col("hold_ms").isNotNull())
    return timed.groupBy(*groups).agg(f.sum("count").alias("messages"), *told).orderBy(f.desc("messages"))


def hot(lives: DataFrame, by: tuple[str, ...] = ("queue",)) -> DataFrame:
    """Where messages come from and go to, by what came: how many, what share of all, and the busiest second."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    published = lives.where(f.col("published_at").isNotNull())
    groups = [group for one in by for group in _groups(one)]
    names = [published.select(group).columns[0] for group in groups]
    seconds = published.groupBy(*groups, f.date_trunc("second", "published_at").alias("second")).agg(
        f.sum("count").alias("count"), f.sum("body_bytes").alias("bytes")
    )
    together = seconds.groupBy(*names).agg(
        f.sum("count").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.max("count").alias("peak_per_second"),
        f.max_by("second", "count").alias("peak_at"),
        f.min("second").alias("first_at"),
        f.max("second").alias("last_at"),
    )
    share = 100 * f.col("messages") / f.sum("messages").over(Window.partitionBy())
    return together.withColumn("percent", f.round(share, 1)).orderBy(f.desc("messages"), *names)


def at_position(lives: DataFrame, position: int) -> DataFrame:
    """Those of the message at this sequence, or of all messages of this entry. Only in an entry of a quorum queue's log no run
    begins at 0: its head lies there (quorum/fifo/commands.py)."""
    from pyspark.sql import functions as f

    first = f.col("pos") + f.col("nth")
    is_entry = f.col("off") > 0
    return lives.where(
        f.when(is_entry, f.col("pos") == position).otherwise(
            (first <= position) & (f.lit(position) < first + f.col("count"))
        )
    )


def _ended_as(lives: DataFrame, states: tuple[LifeState, ...], *by: str) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        lives.where(f.col("state").isin([str(state) for state in states]))
        .groupBy("name", "state", *by)
        .agg(
            f.sum("count").alias("messages"),
            f.min("ended_at").alias("first_at"),
            f.max("ended_at").alias("last_at"),
            _sample(),
        )
        .orderBy(f.desc("messages"), "name", "state")
    )


def _place() -> tuple[str, ...]:
    return ("pos", "off", "nth")


def _sample() -> Column:
    """The place of one message."""
    from pyspark.sql import functions as f

    return f.min(f.struct(*_place())).alias("sample")


def _groups(by: str) -> list[Column]:
    from pyspark.sql import functions as f

    if by == "hour":
        return [f.date_trunc("hour", "published_at").alias("hour")]
    return [f.col(column) for column in _GROUPED.get(by, (by,))]


def _percentiles(column: str) -> list[Column]:
    """Exact ones, of messages and not of lives."""
    from pyspark.sql import functions as f

    of = column.removesuffix("ms")
    return [
        f.percentile(column, f.lit(part), f.col("count")).alias(f"{of}{name}_ms")
        for part, name in zip(PERCENTILES, LATENCY_NAMES, strict=True)
    ]

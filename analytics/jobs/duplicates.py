"""Messages that came to one queue more than once: published again after an answer was lost, or by two who do the same.

By the id that their publishers gave them, else by their bodies. One that is published to several queues, or dies and comes
back, is no duplicate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITHIN_S = 60


def duplicates(messages: DataFrame, lives: DataFrame, within_s: int = WITHIN_S) -> DataFrame:
    """Those that came again so soon after the one before; the most frequent first. `messages`: columns of
    analytics/spark/message_source.py."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = ["queue", "pos", "off"]
    # Nodes have copies of a quorum queue's entries. Where leaders have written different ones to one place, that of the last
    # term counts, or the one that a life names.
    named = lives.where(f.col("of_term").isNotNull()).select("queue", "pos", "of_term").distinct()
    counting = messages.join(f.broadcast(named), ["queue", "pos"], "left").where(
        f.col("of_term").isNull() | (f.col("of_term") == f.col("term"))
    )
    said = f.struct("term", "message_id", "body_bytes", "body_digest")
    once = counting.groupBy(*place, "nth").agg(f.max(said).alias("said")).select(*place, "nth", "said.*")
    # The number of an actor is that of the process which wrote the record, or of the one that a quorum queue's log names.
    publisher = f.when(f.col("actor").isNotNull(), f.struct("process", "actor")).alias("publisher")
    of_life = lives.select(*place, f.col("nth").alias("first"), "count", "name", "published_at", publisher)
    known = once.join(of_life, place).where(
        (f.col("nth") >= f.col("first")) & (f.col("nth") < f.col("first") + f.col("count"))
    )
    is_named = f.col("message_id").isNotNull()
    marked = known.where(is_named | (f.col("body_bytes") > 0)).select(
        "name", "published_at", "publisher", *place, "nth",
        f.when(is_named, "message id").otherwise("body").alias("same"),
        f.when(is_named, f.col("message_id")).otherwise(f.lower(f.hex("body_digest"))).alias("value"),
    )  # fmt: skip
    # A classic queue and the quorum queue that it became have one name, and what waited there came to both.
    in_order = Window.partitionBy("queue", "same", "value").orderBy("published_at", *place, "nth")
    before = f.lag("published_at").over(in_order)
    gap_s = f.col("published_at").cast("double") - before.cast("double")
    again = marked.withColumn("gap_s", gap_s).withColumn("first_publisher", f.first("publisher").over(in_order))
    return (
        again.where(f.col("gap_s") <= within_s)
        .groupBy("name", "queue", "same", "value")
        .agg(
            f.count("*").alias("again"),
            f.round(f.max("gap_s"), 3).alias("longest_gap_s"),
            f.min("published_at").alias("first_again_at"),
            f.max("published_at").alias("last_again_at"),
            f.nullif(
                f.size(f.array_union(f.collect_set("publisher"), f.collect_set("first_publisher"))), f.lit(0)
            ).alias("publishers"),
            f.min(f.struct(*place, "nth")).alias("sample"),
        )
        .drop("queue")
        .orderBy(f.desc("again"), "name", "same", "value")
    )

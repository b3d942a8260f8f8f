"""The tables that a question in SQL may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.spark.actors_table import actors
from analytics.spark.lives_table import chunks
from analytics.spark.table_source import TABLES, log_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register_views(
    spark: SparkSession, found: DataFrame, lives: DataFrame, names: DataFrame, paths: list[str], *, tail: bool
) -> None:
    """`found`: events. `lives` and `names`: what was made of them. `paths`: of the logs, for what is read from there."""
    views = {"lives": lives, "queues": names, "actors": actors(found), "chunks": chunks(found)}
    views |= {table: log_table(spark, table, paths, tail=tail) for table in TABLES}
    for name, view in views.items():
        view.createOrReplaceTempView(name)

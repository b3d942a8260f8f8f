"""The table `actors`: who published, consumed and declared, as the logs name them. A consumer and a channel have the user and
the address of their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.fold.node_processes import NodeProcesses, ProcessBegin
from storage.record import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAID = (
    "kind int, incarnation long, parent long, user string, vhost string, address string, connection_name string,"
    " product string, tag string, queue string, prefetch long, no_ack boolean"
)
OF_THE_CONNECTION = ("user", "vhost", "address", "connection_name", "product")


def processes_in(found: DataFrame) -> NodeProcesses:
    """Where each process of a node begins to name actors."""
    from pyspark.sql import functions as f

    incarnation = f.get_json_object(f.col("data").cast("string"), "$.incarnation").cast("long")
    named = found.where(f.col("kind") == int(Kind.ACTOR)).select("node", incarnation.alias("incarnation"), "place")
    begins = named.groupBy("node", "incarnation").agg(f.min("place").alias("place")).collect()
    return NodeProcesses(ProcessBegin(row.node, row.incarnation, row.place) for row in begins)


def actors(found: DataFrame) -> DataFrame:
    """One row for each actor of each process of a node, however many files name it."""
    from pyspark.sql import functions as f

    named = found.where(f.col("kind") == int(Kind.ACTOR))
    said = f.from_json(f.col("data").cast("string"), SAID).alias("said")
    each = named.select("node", f.col("queue").alias("actor"), said).select("node", "actor", "said.*")
    each = each.dropDuplicates(["node", "incarnation", "actor"])
    above, top = each.alias("above"), each.alias("top")
    same_process = [f.col(f"one.{name}") == f.col(f"above.{name}") for name in ("node", "incarnation")]
    is_parent = [*same_process, f.col("one.parent") == f.col("above.actor")]
    same_process_again = [f.col(f"above.{name}") == f.col(f"top.{name}") for name in ("node", "incarnation")]
    is_grandparent = [*same_process_again, f.col("above.parent") == f.col("top.actor")]
    joined = each.alias("one").join(above, is_parent, "left").join(top, is_grandparent, "left")
    own = [f.col(f"one.{name}") for name in each.columns if name not in OF_THE_CONNECTION]
    inherited = [
        f.coalesce(*(f.nullif(f.col(f"{alias}.{name}"), f.lit("")) for alias in ("one", "above", "top"))).alias(name)
        for name in OF_THE_CONNECTION
    ]
    return joined.select(*own, *inherited)

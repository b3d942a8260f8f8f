"""What the rows of the event source say of their own coverage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from analytics.coverage import Coverage, DamagedBytes, but_oldest, iso_time
from analytics.file_window import missing_files
from analytics.inputs import LogFile, without_bodies
from analytics.spark.event_source import DAMAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def coverage(found: DataFrame, files: list[LogFile]) -> Coverage:
    from pyspark.sql import functions as f

    first, last = found.agg(f.min("at"), f.max("at")).collect()[0]
    damaged = found.where(f.col("kind") == DAMAGE).collect()
    lost = [DamagedBytes(row.node, row.file, row.place, **json.loads(row.data)) for row in damaged]
    damage = but_oldest(lost, ((one.node, one.number) for one in files))
    nodes = sorted({one.node for one in files})
    size = sum(one.size for one in files)
    covered = Coverage(nodes, len(files), size, iso_time(first), iso_time(last), damage, without_bodies(files))
    return covered._replace(missing=missing_files(files))

"""How late `leveret-analytics follow` tells what a node takes, at a steady rate.

A message's lag is from the moment at which it was sent until a look of the follower has counted it: the publisher notes how
many it had sent when, and each look tells how many it knows of. Of tables that follow (`--into`) a row's lag is that of the
first row of its batch, from its commit until the directory has the batch: no row is later.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analytics.follow.log_tail import LogTail
from analytics.inputs import log_files
from tests.bench.client import Client
from tests.bench.workloads import declare
from tests.running_node import running_node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analytics.parquet.followed import BatchTaken

SECONDS = 12.0
STEP_S = 0.02
EVERY_S = 1.0  # as `follow` looks without being told
QUEUE = "steady"


class Lags(NamedTuple):
    per_second: float  # that were sent
    p95_s: float


class SteadyFlow:
    """A publisher with a thread of its own."""

    def __init__(self, address: tuple[str, int], per_second: int) -> None:
        self.sent_at: list[float] = []  # one for each step, whose messages are as many
        self.step = int(per_second * STEP_S)
        self._client = Client(*address)
        self._unit = self._client.publish_unit("", QUEUE, 100) * self.step
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> SteadyFlow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        began = time.monotonic()
        while (now := time.monotonic()) < began + SECONDS:
            if len(self.sent_at) * STEP_S <= now - began:
                self.sent_at.append(now)
                self._client.send(self._unit)
            else:
                time.sleep(STEP_S / 4)


def lags_at(per_second: int) -> Lags:
    with tempfile.TemporaryDirectory(prefix="leveret-bench-live-") as scratch:
        data = Path(scratch) / "data"
        with running_node(data_dir=data) as node:
            declare(node.amqp, [QUEUE])
            tail = LogTail()
            tail.look(log_files([str(data)]))
            with SteadyFlow(node.amqp, per_second) as flow:
                lags = _followed(tail, data, flow)
    return Lags(len(lags) * flow.step / SECONDS, sorted(lags)[int(len(lags) * 0.95)])


def _followed(tail: LogTail, data: Path, flow: SteadyFlow) -> list[float]:
    """Of each step that was sent, as long as any are."""
    lags: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(EVERY_S)
        tail.look(log_files([str(data)]))
        now, counted = time.monotonic(), sum(moves.published for moves in tail.total.values())
        lags += [now - sent for sent in flow.sent_at[len(lags) : counted // flow.step]]
    return lags


def table_lags_at(spark: SparkSession, per_second: int) -> Lags:
    from analytics.parquet.follow_query import started
    from analytics.parquet.followed import Follower

    with tempfile.TemporaryDirectory(prefix="leveret-bench-live-") as scratch:
        data, has_begun = Path(scratch) / "data", threading.Event()
        with running_node(data_dir=data) as node:
            declare(node.amqp, [QUEUE])
            follower = Follower(spark, [str(data)], Path(scratch) / "tables")

            def take(batch: DataFrame, number: int) -> None:
                follower.take(batch, number)
                has_begun.set()

            query = started(spark, [str(data)], follower.directory, take, every_s=EVERY_S)
            has_begun.wait()
            follower.take_told()
            with SteadyFlow(node.amqp, per_second) as flow:
                pass
            query.stop()
            follower.close()
    return Lags(len(flow.sent_at) * flow.step / SECONDS, _p95(follower.take_told()))


def _p95(batches: Sequence[BatchTaken]) -> float:
    """Of rows."""
    late = sorted((batch.lag_s, batch.rows) for batch in batches if batch.lag_s is not None)
    left = 0.95 * sum(rows for _, rows in late)
    for lag, rows in late:
        left -= rows
        if left <= 0:
            return lag
    raise RuntimeError("no batch had a row")
